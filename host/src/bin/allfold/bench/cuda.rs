//! Calls on GPUs, timed by events on each rank's stream: one by one, or many in a captured graph.

use std::marker::PhantomData;

use allfold::cuda::{DeviceMemory, DriverError, Event, Graph, Stream};
use allfold::{CallOptions, Communicator, Element, Error, Plan, RankBuffers, ReduceOp};
use anyhow::Result;

use super::case::{Bed, Repeats, SETS, Side};
use super::guarded::{GUARD_BYTES, Guarded};
use crate::gpus::Gpus;

/// Replays at the start that are not counted: the first uploads the graph, the second finds cold caches.
pub const UNCOUNTED_REPLAYS: usize = 2;

/// How calls are made and timed.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// One by one.
    Eager(Repeats),
    /// `chain` calls in a graph.
    Graph { chain: usize, replays: usize },
}

/// Buffers of one size, and what is done with them.
pub struct CudaBed<'a, T> {
    comm: &'a mut Communicator,
    gpus: &'a Gpus,
    call: CallOptions,
    how: How,
    bytes: usize,
    /// `[set][rank]`, guard zones included.
    inputs: Vec<Vec<DeviceMemory>>,
    /// `[set][rank]`; none of a call in place.
    outputs: Vec<Vec<DeviceMemory>>,
    elements: PhantomData<T>,
}

/// Which buffers a kernel reads and writes.
#[derive(Clone, Copy)]
enum Use {
    InputToOutput,
    Only(Side),
}

impl<'a, T: Element> CudaBed<'a, T> {
    pub fn new(
        comm: &'a mut Communicator,
        gpus: &'a Gpus,
        call: CallOptions,
        how: How,
        bytes: usize,
        in_place: bool,
    ) -> Result<Self> {
        let all_bytes = Guarded::all_bytes(bytes);
        let of_ranks = || gpus.contexts.iter().map(|context| DeviceMemory::alloc(context, all_bytes)).collect();
        let sets = || (0..SETS).map(|_| of_ranks()).collect::<Result<Vec<Vec<_>>, DriverError>>();
        let inputs = sets()?;
        let outputs = if in_place { Vec::new() } else { sets()? };
        Ok(CudaBed { comm, gpus, call, how, bytes, inputs, outputs, elements: PhantomData })
    }

    fn memory(&self, set: usize, rank: usize, side: Side) -> &DeviceMemory {
        let of_side = match side {
            Side::Output if !self.outputs.is_empty() => &self.outputs,
            Side::Input | Side::Output => &self.inputs,
        };
        &of_side[set][rank]
    }

    /// What each rank's kernel gets.
    fn buffers(&self, set: usize, used: Use) -> Vec<RankBuffers<'static, T>> {
        let (read, written) = match used {
            Use::InputToOutput => (Side::Input, Side::Output),
            Use::Only(side) => (side, side),
        };
        let elems = (self.bytes / size_of::<T>()) as u64;
        let data = |rank, side| self.memory(set, rank, side).address() + GUARD_BYTES as u64;
        let of_rank = |(rank, stream): (usize, &Stream)| {
            // SAFETY: memory of this rank's GPU, allocated with room for `elems` elements behind the guard zone, and a
            // stream of its primary context. Every use is waited for before the memory is freed or touched.
            unsafe { RankBuffers::device_raw(data(rank, read), data(rank, written), elems, stream.raw().as_ptr()) }
        };
        self.gpus.streams.iter().enumerate().map(of_rank).collect()
    }

    fn all_reduce(&mut self, set: usize) -> Result<Plan, Error> {
        let buffers = self.buffers(set, Use::InputToOutput);
        self.comm.all_reduce_with(&buffers, ReduceOp::Sum, &self.call)
    }

    /// A call on fresh stamps, and the check of its result.
    fn stamped_call(&mut self, set: usize) -> Result<(), Error> {
        self.comm.fill_stamps(&self.buffers(set, Use::Only(Side::Input)))?;
        self.all_reduce(set)?;
        self.comm.check_stamps(&self.buffers(set, Use::Only(Side::Output)))
    }

    /// A graph for each rank, of `chain` times `call`, the sets in turn.
    fn capture(
        &mut self,
        chain: usize,
        mut call: impl FnMut(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<Vec<Graph>, Error> {
        let streams: Vec<_> = self.gpus.streams.iter().map(Stream::raw).collect();
        Graph::capture_all(&streams, || (0..chain).try_for_each(|i| call(self, i % SETS)))
    }

    fn timed_eager(&mut self, repeats: Repeats) -> Result<Vec<Vec<f64>>> {
        let gpus = self.gpus;
        let pair = |context| Ok((Event::new(context, true)?, Event::new(context, true)?));
        let of_rank = |context| (0..repeats.timed).map(|_| pair(context)).collect::<Result<Vec<_>, DriverError>>();
        let events = gpus.contexts.iter().map(of_rank).collect::<Result<Vec<_>, _>>()?;
        for call in 0..repeats.warmup + repeats.timed {
            let timed = call.checked_sub(repeats.warmup);
            let of_call = || events.iter().zip(&gpus.streams).filter_map(|(e, stream)| Some((&e[timed?], stream)));
            of_call().try_for_each(|((start, _), stream)| start.record(stream.raw()))?;
            self.all_reduce(call % SETS)?;
            of_call().try_for_each(|((_, end), stream)| end.record(stream.raw()))?;
        }
        gpus.synchronize()?;
        let micros =
            |of_rank: &Vec<(Event, Event)>| of_rank.iter().map(|(start, end)| end.micros_since(start)).collect();
        Ok(events.iter().map(micros).collect::<Result<_, _>>()?)
    }
}

impl<T: Element> Bed for CudaBed<'_, T> {
    fn write(&mut self, set: usize, rank: usize, side: Side, image: &Guarded) -> Result<()> {
        let address = self.memory(set, rank, side).address();
        // SAFETY: the memory is as long as an image, and no stream uses it: every call has been waited for.
        Ok(unsafe { self.gpus.contexts[rank].copy_to_device(address, image.all()) }?)
    }

    fn read(&self, set: usize, rank: usize, side: Side, image: &mut Guarded) -> Result<()> {
        let address = self.memory(set, rank, side).address();
        // SAFETY: as above.
        Ok(unsafe { self.gpus.contexts[rank].copy_to_host(image.all_mut(), address) }?)
    }

    fn call(&mut self, set: usize) -> Result<Plan> {
        let plan = self.all_reduce(set)?;
        self.gpus.synchronize()?;
        Ok(plan)
    }

    fn stamped(&mut self) -> Result<u64> {
        let before: u64 = self.comm.wrong()?.iter().sum();
        match self.how {
            How::Eager(repeats) => {
                (0..repeats.timed).try_for_each(|call| self.stamped_call(call % SETS))?;
                self.gpus.synchronize()?;
            }
            How::Graph { chain, replays } => {
                let mut graphs = self.capture(chain, Self::stamped_call)?;
                self.gpus.replay(&mut graphs, replays)?;
            }
        }
        Ok(self.comm.wrong()?.iter().sum::<u64>() - before)
    }

    fn timed(&mut self) -> Result<Vec<Vec<f64>>> {
        match self.how {
            How::Eager(repeats) => self.timed_eager(repeats),
            How::Graph { chain, replays } => {
                let mut graphs = self.capture(chain, |bed, set| bed.all_reduce(set).map(drop))?;
                let replays = self.gpus.replay(&mut graphs, replays)?;
                let a_call =
                    |of_rank: Vec<f64>| of_rank.iter().skip(UNCOUNTED_REPLAYS).map(|m| m / chain as f64).collect();
                Ok(replays.into_iter().map(a_call).collect())
            }
        }
    }

    fn check(&self) -> Result<()> {
        Ok(self.comm.check()?)
    }
}

impl<T> Drop for CudaBed<'_, T> {
    fn drop(&mut self) {
        // After an error calls may still be under way. One that failed has been reported already.
        let _ = self.gpus.synchronize();
    }
}
