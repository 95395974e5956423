//! The story of ranks that have a communicator each, and a thread: in which one rank's driver call may fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use allfold::driver_faults::{Calls, watch};
use allfold::rendezvous::{self, Rendezvous};
use allfold::{Algorithm, CallOptions, Communicator, Error, InputMode, Options, RankBuffers, ReduceOp, Registered};
use anyhow::{Context, Result, anyhow};

use super::driver::context_of;
use super::rank::{BYTES, Call};
use super::story::{Cut, Told, call, options};
use super::{Ground, RankMemory};

/// Which rank's driver call fails: its number, and the code.
pub type Fails = (u32, usize, i32);

/// What came of it on each rank, and the driver calls of the rank that was asked for.
pub struct Came {
    pub told: Vec<Told>,
    pub calls: Calls,
}

/// A rank's part of a story, on a GPU. Peers may still be in a call when it ends: so it leaves its memory there, for later.
type Story = fn(&dyn Rendezvous, u32, &mut Option<RankMemory>) -> Told;

/// Tells `story` on a rank for each of `gpus`, and watches the driver calls of one.
pub fn together(gpus: &[u32], watched: u32, fails: Option<Fails>, story: Story) -> Result<Came> {
    let seats = rendezvous::local(gpus.len() as u32)?;
    let contexts = gpus.iter().map(|&gpu| context_of(gpu)).collect::<Result<Vec<_>>>()?;
    let ended = &Barrier::new(gpus.len());
    std::thread::scope(|scope| {
        let ranks: Vec<_> = seats
            .into_iter()
            .zip(gpus.iter().zip(contexts))
            .map(|(seat, (&gpu, context))| {
                scope.spawn(move || {
                    let own = fails.filter(|(rank, ..)| *rank == seat.rank()).map(|(_, number, code)| (number, code));
                    let current = context.enter();
                    let came = watch(own, || {
                        let mut memory = None;
                        let told = catch_unwind(AssertUnwindSafe(|| story(&seat, gpu, &mut memory)));
                        // The others hear that it is gone; and then all communicators are.
                        drop(seat);
                        ended.wait();
                        told
                    });
                    current.map(drop)?;
                    anyhow::Ok(came)
                })
            })
            .collect();
        let mut came = Came { told: Vec::new(), calls: Calls::default() };
        for (rank, thread) in (0..).zip(ranks) {
            let (told, calls) = thread.join().map_err(|_| anyhow!("the thread of rank {rank} panicked"))??;
            came.told.push(told.map_err(|_| anyhow!("rank {rank} panicked"))?);
            if rank == watched {
                came.calls = calls;
            }
        }
        Ok(came)
    })
}

/// One rank of the story.
struct One<'a> {
    comm: Communicator,
    memory: &'a mut RankMemory,
}

impl One<'_> {
    fn rank(&self) -> u32 {
        self.comm.local_ranks().start as u32
    }

    fn write(&mut self, call: Call, number: u32) -> Told {
        let rank = self.rank();
        Ok(self.memory.write(&call.input(rank, number), &call.poison())?)
    }

    fn look(&self, call: Call, number: u32) -> Told {
        self.memory.synchronize()?;
        self.comm.check()?;
        call.check(&self.memory.output(4 * call.elems)?, self.comm.world() as u32, number).map_err(Cut::Wrong)
    }

    fn tell(&mut self, call: Call, number: u32, options: &CallOptions) -> Told {
        self.write(call, number)?;
        let buffers: [RankBuffers<'_, f32>; 1] = [self.memory.buffers(call.elems, None)];
        self.comm.all_reduce_with(&buffers, ReduceOp::Sum, options)?;
        self.look(call, number)
    }
}

const PUSH: (Algorithm, InputMode) = (Algorithm::OneShotPush, InputMode::Copied);

/// Makes a communicator, and sums once.
pub fn short(seat: &dyn Rendezvous, gpu: u32, memory: &mut Option<RankMemory>) -> Told {
    let memory = memory.insert(Ground::Gpu(gpu).memory(4 * BYTES)?);
    let options = options(vec![InputMode::Copied], vec![Algorithm::OneShotPush]);
    let comm = Communicator::connect_cuda_with(gpu, seat, options).map_err(Cut::Unmade)?;
    let push = call(PUSH.0, PUSH.1);
    One { comm, memory }.tell(push, 1, &push.options(None))
}

/// Only the making of a communicator.
pub fn making(seat: &dyn Rendezvous, gpu: u32, _memory: &mut Option<RankMemory>) -> Told {
    let options = options(vec![InputMode::Copied], vec![Algorithm::OneShotPush]);
    Communicator::connect_cuda_with(gpu, seat, options).map(drop).map_err(Cut::Unmade)
}

/// The whole story.
pub fn long(seat: &dyn Rendezvous, gpu: u32, memory: &mut Option<RankMemory>) -> Told {
    let memory = memory.insert(Ground::Gpu(gpu).memory(4 * BYTES)?);
    let inputs = vec![InputMode::Copied, InputMode::Registered];
    let options = Options { captured_calls: 2, ..options(inputs, vec![Algorithm::OneShot, Algorithm::OneShotPush]) };
    let comm = Communicator::connect_cuda_with(gpu, seat, options).map_err(Cut::Unmade)?;
    let mut one = One { comm, memory };
    // SAFETY: the memory goes when all communicators are gone.
    let name = unsafe { one.comm.register(&[one.memory.span()]) }?;
    let push = call(PUSH.0, PUSH.1);
    let read = call(Algorithm::OneShot, InputMode::Registered);
    one.tell(push, 1, &push.options(None))?;
    one.tell(read, 2, &read.options(Some(name)))?;
    one.tell(
        call(Algorithm::OneShot, InputMode::Copied),
        3,
        &call(Algorithm::OneShot, InputMode::Copied).options(None),
    )?;

    one.write(read, 4)?;
    let One { comm, memory } = &mut one;
    let later = CallOptions { registered: Registered::Later, ..read.options(None) };
    let stream = memory.stream().map(|stream| stream.raw().as_ptr());
    // SAFETY: the memory keeps its stream.
    let streams: Vec<_> =
        stream.into_iter().map(|stream| unsafe { allfold::cuda::RawStream::from_ptr(stream) }).collect();
    let captured = comm.capture(&streams, |comm| {
        let buffers: [RankBuffers<'_, f32>; 1] = [memory.buffers(read.elems, None)];
        comm.all_reduce_with(&buffers, ReduceOp::Sum, &later).map(drop)
    })?;
    comm.finish_capture()?;
    // SAFETY: memory and communicator live until the stream has been waited for, or the communicator is gone.
    unsafe { comm.replay(&captured, &streams) }?;
    one.look(read, 4)?;
    one.comm.release(name)?;
    drop(captured);
    one.comm.finish()?;
    one.tell(push, 5, &push.options(None))
}

/// What the library said on a rank, if anything; and nothing else may have come of it.
pub fn said(told: Told, rank: usize) -> Result<Option<Error>> {
    match told {
        Ok(()) => Ok(None),
        Err(Cut::Unmade(error) | Cut::Said(error)) => Ok(Some(error)),
        Err(Cut::Wrong(error)) => Err(error).with_context(|| format!("rank {rank}")),
    }
}
