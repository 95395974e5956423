//! The copy of a rank's input to its staging area: a kernel's first step, or a kernel of its own before it.

use core::marker::PhantomData;

use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Machine, Pack, Region};
use super::share::{Span, Step, Unit, for_each, packs};

/// Copies the packs of `span` that belong to this thread to the staging bank of `epoch`.
#[inline(always)]
pub fn copy_in<M: Machine, T: Element>(m: &M, span: Span, epoch: Epoch) {
    for_each::<M, T, 1>(m, span, &CopyIn::<T> { epoch, element: PhantomData });
}

/// The kernel that copies the input before the all-reduce's own kernel, in stream order.
///
/// A memcpy cannot do this where staging alternates: a captured graph would freeze the bank, and a replay of an odd
/// number of calls use one bank twice in a row. This kernel reads the epoch of the call that follows it.
#[inline(always)]
pub fn stage<M: Machine, T: Element>(m: &M) {
    let epoch = epoch::current(m);
    copy_in::<M, T>(m, Span { start: 0, end: packs(T::DTYPE, m.elems()) }, epoch);
}

struct CopyIn<T> {
    epoch: Epoch,
    element: PhantomData<T>,
}

impl<M: Machine, T: Element> Step<M> for CopyIn<T> {
    type Loaded = Pack;

    #[inline(always)]
    fn load<U: Unit>(&self, m: &M, unit: U) -> Pack {
        unit.load::<M, T>(m, Region::Source, m.rank())
    }
    #[inline(always)]
    fn finish<U: Unit>(&self, m: &M, unit: U, value: Pack) {
        unit.store::<M, T>(m, Region::Input(self.epoch.bank()), value);
    }
}
