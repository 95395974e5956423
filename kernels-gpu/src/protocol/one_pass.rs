//! One-pass: each rank reduces its own part and stores the sum at once into every rank's output.
//!
//! ```text
//! start barrier   sum of own part of all inputs -> all outputs   end barrier
//! ```
//!
//! Inputs and outputs are registered. Reads and writes load both directions of a link at the same time, and nothing is
//! staged. *In place is sound*: each element is read by one rank, the owner of its part, and written by it afterwards.
//!
//! *Why both barriers.* The start barrier says that every input is there and that nobody still uses its output; the end
//! barrier that all sums have been stored and all inputs read. The end barrier is a block barrier: block `b` of each owner
//! announces what block `b` stored.

use core::marker::PhantomData;

use super::abi::Rank;
use super::call;
use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Machine, Pack};
use super::mark::Mark;
use super::poison::poison;
use super::share::{Step, Unit, for_each, load_inputs, packs, part, parts};
use super::spec::Protocol;
use super::wait::{Left, leave};

/// The kernel, for one thread of `W` ranks.
#[inline(always)]
pub fn one_pass<M: Machine, T: Element, const W: usize>(m: &M, protocol: Protocol) {
    let epoch = epoch::current(m);
    match steps::<M, T, W>(m, protocol, epoch) {
        Ok(()) => m.mark(epoch, Mark::End),
        Err(left) => {
            leave(m, epoch, left);
            poison::<M, T>(m, left, parts::<M, T>(m));
        }
    }
}

#[inline(always)]
fn steps<M: Machine, T: Element, const W: usize>(m: &M, protocol: Protocol, epoch: Epoch) -> Result<(), Left> {
    epoch.goes_on()?;
    m.mark(epoch, Mark::Begin);
    call::start::<M, W>(m, protocol, epoch)?;
    let own = part(packs(T::DTYPE, m.elems()), W as u32, m.rank());
    for_each::<M, T, 1>(m, own, &SumToAll::<T, W> { epoch, element: PhantomData });
    call::end::<M, W>(m, protocol, epoch)
}

struct SumToAll<T, const W: usize> {
    epoch: Epoch,
    element: PhantomData<T>,
}

impl<M: Machine, T: Element, const W: usize> Step<M> for SumToAll<T, W> {
    type Loaded = [Pack; W];

    #[inline(always)]
    fn load<U: Unit>(&self, m: &M, unit: U) -> [Pack; W] {
        load_inputs::<M, T, U, W>(m, unit, self.epoch.bank())
    }
    #[inline(always)]
    fn finish<U: Unit>(&self, m: &M, unit: U, terms: [Pack; W]) {
        let sum = T::reduce::<M, W>(m, terms);
        for rank in 0..W as u32 {
            unit.give::<M, T>(m, Rank(rank), sum);
        }
    }
}
