//! Calls on CPU ranks, timed by the host's clock: a call is over when all ranks are done.

use std::array::from_fn;
use std::marker::PhantomData;
use std::time::Instant;

use allfold::{CallOptions, Communicator, Element, Plan, RankBuffers, ReduceOp};
use anyhow::Result;

use super::case::{Bed, Repeats, SETS, Side};
use super::guarded::Guarded;
use super::oracle::Sums;

/// Buffers of one size, and what is done with them.
pub struct CpuBed<'a, T> {
    comm: &'a mut Communicator,
    call: (ReduceOp, CallOptions),
    repeats: Repeats,
    /// `[set][rank]`.
    inputs: [Vec<Guarded>; SETS],
    /// `[set][rank]`; none of a call in place.
    outputs: [Vec<Guarded>; SETS],
    elements: PhantomData<T>,
}

impl<'a, T: Element> CpuBed<'a, T> {
    pub fn new(
        comm: &'a mut Communicator,
        call: (ReduceOp, CallOptions),
        repeats: Repeats,
        bytes: usize,
        in_place: bool,
    ) -> Self {
        let world = comm.world();
        let buffers = |ranks| from_fn(|_| vec![Guarded::poisoned(bytes); ranks]);
        let outputs = buffers(if in_place { 0 } else { world });
        CpuBed { comm, call, repeats, inputs: buffers(world), outputs, elements: PhantomData }
    }

    fn all_reduce(&mut self, set: usize) -> Result<Plan> {
        self.reduce(self.call.0, set)
    }

    fn reduce(&mut self, op: ReduceOp, set: usize) -> Result<Plan> {
        let inputs = &mut self.inputs[set];
        let buffers: Vec<_> = if self.outputs[set].is_empty() {
            inputs.iter_mut().map(|buffer| RankBuffers::<T>::in_place(buffer.data_mut())).collect()
        } else {
            let both = inputs.iter().zip(&mut self.outputs[set]);
            both.map(|(input, output)| RankBuffers::new(input.data(), output.data_mut())).collect()
        };
        Ok(self.comm.all_reduce_with(&buffers, op, &self.call.1)?)
    }

    fn buffer(&self, set: usize, rank: usize, side: Side) -> &Guarded {
        match side {
            Side::Output if !self.outputs[set].is_empty() => &self.outputs[set][rank],
            Side::Input | Side::Output => &self.inputs[set][rank],
        }
    }
}

impl<T: Element> Bed for CpuBed<'_, T> {
    type Plan = Plan;

    fn sums(&self) -> Sums {
        Sums::RoundedOnce
    }

    fn write(&mut self, set: usize, rank: usize, side: Side, image: &Guarded) -> Result<()> {
        let buffer = match side {
            Side::Output if !self.outputs[set].is_empty() => &mut self.outputs[set][rank],
            Side::Input | Side::Output => &mut self.inputs[set][rank],
        };
        buffer.all_mut().copy_from_slice(image.all());
        Ok(())
    }

    fn read(&self, set: usize, rank: usize, side: Side, image: &mut Guarded) -> Result<()> {
        image.all_mut().copy_from_slice(self.buffer(set, rank, side).all());
        Ok(())
    }

    fn call(&mut self, set: usize) -> Result<Plan> {
        self.all_reduce(set)
    }

    fn stamped(&mut self) -> Result<u64> {
        let before: u64 = self.comm.wrong()?.iter().sum();
        for call in 0..self.repeats.timed {
            let set = call % SETS;
            let inputs = self.inputs[set].iter_mut();
            let buffers: Vec<_> = inputs.map(|buffer| RankBuffers::<T>::in_place(buffer.data_mut())).collect();
            self.comm.fill_stamps(&buffers)?;
            self.reduce(ReduceOp::Sum, set)?;
            let of_call = if self.outputs[set].is_empty() { &mut self.inputs } else { &mut self.outputs };
            let results = of_call[set].iter_mut();
            let buffers: Vec<_> = results.map(|buffer| RankBuffers::<T>::in_place(buffer.data_mut())).collect();
            self.comm.check_stamps(&buffers)?;
        }
        Ok(self.comm.wrong()?.iter().sum::<u64>() - before)
    }

    fn timed(&mut self) -> Result<Vec<Vec<f64>>> {
        let mut micros = Vec::with_capacity(self.repeats.timed);
        for call in 0..self.repeats.warmup + self.repeats.timed {
            let start = Instant::now();
            self.all_reduce(call % SETS)?;
            if call >= self.repeats.warmup {
                micros.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok(vec![micros])
    }

    fn check(&self) -> Result<()> {
        Ok(self.comm.check()?)
    }
}
