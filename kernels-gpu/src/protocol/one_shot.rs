//! One-shot: every rank reads all inputs and writes the whole sum to its own output.
//!
//! ```text
//! [copy own input to staging]   start barrier   sum of all ranks' inputs -> own output   [end barrier]
//! ```
//!
//! In place it needs a staged input: read in place, a peer's input changes while others still read it.

use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Machine, Pack, Region};
use super::mark::Mark;
use super::poison::poison;
use super::share::{Span, Step, Unit, for_each, load_inputs, packs};
use super::spec::Protocol;
use super::wait::{Left, leave};
use super::{call, stage};

/// The kernel, for one thread of `W` ranks.
#[inline(always)]
pub fn one_shot<M: Machine, T: Element, const W: usize>(m: &M, protocol: Protocol) {
    let epoch = epoch::current(m);
    let all = Span { start: 0, end: packs(T::DTYPE, m.elems()) };
    match steps::<M, T, W>(m, protocol, epoch, all) {
        Ok(()) => m.mark(epoch, Mark::End),
        Err(left) => {
            leave(m, epoch, left);
            poison::<M, T>(m, left, [all].into_iter());
        }
    }
}

#[inline(always)]
fn steps<M: Machine, T: Element, const W: usize>(
    m: &M,
    protocol: Protocol,
    epoch: Epoch,
    all: Span,
) -> Result<(), Left> {
    epoch.goes_on()?;
    m.mark(epoch, Mark::Begin);
    if protocol.copy_in {
        stage::copy_in::<M, T>(m, all, epoch);
    }
    call::start::<M, W>(m, protocol, epoch)?;
    for_each::<M, T, 1>(m, all, &SumToOutput::<T, W> { epoch, element: core::marker::PhantomData });
    call::end::<M, W>(m, protocol, epoch)
}

struct SumToOutput<T, const W: usize> {
    epoch: Epoch,
    element: core::marker::PhantomData<T>,
}

impl<M: Machine, T: Element, const W: usize> Step<M> for SumToOutput<T, W> {
    type Loaded = [Pack; W];

    #[inline(always)]
    fn load<U: Unit>(&self, m: &M, unit: U) -> [Pack; W] {
        load_inputs::<M, T, U, W>(m, unit, self.epoch.bank())
    }
    #[inline(always)]
    fn finish<U: Unit>(&self, m: &M, unit: U, terms: [Pack; W]) {
        unit.store::<M, T>(m, Region::Output, T::reduce::<M, W>(m, terms));
    }
}
