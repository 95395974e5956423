//! Calls of this crate on GPUs.

use std::marker::PhantomData;

use allfold::{CallOptions, Communicator, Element, Error, Plan, ReduceOp};
use anyhow::Result;

use super::buffers::{Buffers, Use};
use super::case::{Bed, SETS, Side};
use super::guarded::Guarded;
use super::oracle::Sums;
use super::timing::{How, capture};
use crate::gpus::Gpus;

/// Buffers of one size, and what is done with them.
pub struct CudaBed<'a, T> {
    comm: &'a mut Communicator,
    buffers: Buffers<'a>,
    call: (ReduceOp, CallOptions),
    how: How,
    elements: PhantomData<T>,
}

impl<'a, T: Element> CudaBed<'a, T> {
    pub fn new(
        comm: &'a mut Communicator,
        gpus: &'a Gpus,
        call: (ReduceOp, CallOptions),
        how: How,
        bytes: usize,
        in_place: bool,
    ) -> Result<Self> {
        let buffers = Buffers::new(gpus, bytes, in_place)?;
        Ok(CudaBed { comm, buffers, call, how, elements: PhantomData })
    }

    /// The buffers, for somebody else's calls on them.
    pub fn buffers(&self) -> &Buffers<'a> {
        &self.buffers
    }

    fn all_reduce(&mut self, set: usize) -> Result<Plan, Error> {
        self.reduce(self.call.0, set)
    }

    fn reduce(&mut self, op: ReduceOp, set: usize) -> Result<Plan, Error> {
        let buffers = self.buffers.of::<T>(set, Use::InputToOutput);
        self.comm.all_reduce_with(&buffers, op, &self.call.1)
    }

    /// A call on fresh stamps, and the check of its result, which is the sum.
    fn stamped_call(&mut self, set: usize) -> Result<()> {
        self.comm.fill_stamps(&self.buffers.of::<T>(set, Use::Only(Side::Input)))?;
        self.reduce(ReduceOp::Sum, set)?;
        Ok(self.comm.check_stamps(&self.buffers.of::<T>(set, Use::Only(Side::Output)))?)
    }
}

impl<T: Element> Bed for CudaBed<'_, T> {
    type Plan = Plan;

    fn sums(&self) -> Sums {
        Sums::RoundedOnce
    }

    fn write(&mut self, set: usize, rank: usize, side: Side, image: &Guarded) -> Result<()> {
        self.buffers.write(set, rank, side, image)
    }

    fn read(&self, set: usize, rank: usize, side: Side, image: &mut Guarded) -> Result<()> {
        self.buffers.read(set, rank, side, image)
    }

    fn call(&mut self, set: usize) -> Result<Plan> {
        let plan = self.all_reduce(set)?;
        self.buffers.gpus().synchronize()?;
        Ok(plan)
    }

    fn stamped(&mut self) -> Result<u64> {
        let before: u64 = self.comm.wrong()?.iter().sum();
        let gpus = self.buffers.gpus();
        match self.how {
            How::Eager(repeats) => {
                (0..repeats.timed).try_for_each(|call| self.stamped_call(call % SETS))?;
                gpus.synchronize()?;
            }
            How::Graph { chain, replays } => {
                let mut graphs = capture(gpus, chain, |set| self.stamped_call(set))?;
                gpus.replay(&mut graphs, replays)?;
            }
        }
        Ok(self.comm.wrong()?.iter().sum::<u64>() - before)
    }

    fn timed(&mut self) -> Result<Vec<Vec<f64>>> {
        self.how.timed(self.buffers.gpus(), |set| Ok(self.all_reduce(set).map(drop)?))
    }

    fn check(&self) -> Result<()> {
        Ok(self.comm.check()?)
    }
}
