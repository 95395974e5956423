//! NCCL's calls on the same buffers and streams, timed in the same way. Its sums are verified by their own rule.

use std::marker::PhantomData;

use allfold::{Element, ReduceOp};
use anyhow::Result;

use super::buffers::{Buffers, Use};
use super::case::{Bed, Side};
use super::guarded::Guarded;
use super::oracle::Sums;
use super::timing::How;
use crate::nccl::Nccl;

/// The buffers of another bed, and what NCCL does with them.
pub struct NcclBed<'a, T> {
    nccl: &'a Nccl,
    op: ReduceOp,
    buffers: &'a Buffers<'a>,
    how: How,
    elements: PhantomData<T>,
}

impl<'a, T: Element> NcclBed<'a, T> {
    pub fn new(nccl: &'a Nccl, op: ReduceOp, buffers: &'a Buffers<'a>, how: How) -> Self {
        NcclBed { nccl, op, buffers, how, elements: PhantomData }
    }

    fn all_reduce(&self, set: usize) -> Result<()> {
        Ok(self.nccl.all_reduce(&self.buffers.of::<T>(set, Use::InputToOutput), self.op)?)
    }
}

impl<T: Element> Bed for NcclBed<'_, T> {
    /// It keeps its choices to itself.
    type Plan = ();

    fn sums(&self) -> Sums {
        Sums::AnyOrder
    }

    fn write(&mut self, set: usize, rank: usize, side: Side, image: &Guarded) -> Result<()> {
        self.buffers.write(set, rank, side, image)
    }

    fn read(&self, set: usize, rank: usize, side: Side, image: &mut Guarded) -> Result<()> {
        self.buffers.read(set, rank, side, image)
    }

    fn call(&mut self, set: usize) -> Result<()> {
        self.all_reduce(set)?;
        Ok(self.buffers.gpus().synchronize()?)
    }

    /// None: stamps go by the number of a communicator's call, and only ours count theirs.
    fn stamped(&mut self) -> Result<u64> {
        Ok(0)
    }

    fn timed(&mut self) -> Result<Vec<Vec<f64>>> {
        self.how.timed(self.buffers.gpus(), |set| self.all_reduce(set))
    }

    fn check(&self) -> Result<()> {
        Ok(self.nccl.check()?)
    }
}
