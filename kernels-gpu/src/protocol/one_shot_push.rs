//! One-shot push: every rank stores its input into the landing areas of all, and adds what lands in its own.
//!
//! ```text
//! own input -> peers' landing areas, and kept   poll own landing area   sum of all -> own output   clear
//! ```
//!
//! There is no barrier, and no fence but in a call that begins a generation: one store's way is all that a small call waits
//! for. Nobody touches a buffer of another rank's caller, so it works in place, and no input need be registered.

use core::marker::PhantomData;

use super::abi::Phase;
use super::element::Element;
use super::machine::{Machine, Pack};
use super::mark::Mark;
use super::push::{self, Exchange, Lane, Turn};
use super::share::packs;
use super::wait::Left;

/// The kernel, for one thread of `W` ranks.
#[inline(always)]
pub fn one_shot_push<M: Machine, T: Element, const W: usize>(m: &M) {
    one_shot_push_on::<M, T, W>(m, lane::<M, T>(m));
}

/// [`one_shot_push`] with [`lane`] known before.
#[inline(always)]
pub fn one_shot_push_on<M: Machine, T: Element, const W: usize>(m: &M, lane: Lane) {
    push::run::<M, T, W>(m, lane, &Packs::<T, W> { extent: lane.packs(), element: PhantomData });
}

/// The packs that this thread moves.
#[inline(always)]
pub fn lane<M: Machine, T: Element>(m: &M) -> Lane {
    Lane::of::<M, T>(m, packs(T::DTYPE, m.elems()) as u32)
}

/// An index is a pack.
struct Packs<T, const W: usize> {
    extent: u32,
    element: PhantomData<T>,
}

impl<M: Machine, T: Element, const W: usize> Exchange<M> for Packs<T, W> {
    type Wire = T::Wire;

    #[inline(always)]
    fn extent(&self) -> u32 {
        self.extent
    }

    // Else what was sent first is loaded again, so that reducing is written out once.
    const LEADS_WITH_OWN: bool = !T::IS_LONG;

    #[inline(always)]
    fn lead(&self, _: &M, pack: u32) -> Option<u32> {
        Some(pack)
    }

    #[inline(always)]
    fn own(&self, _: &M, pack: u32) -> Option<u32> {
        Some(pack)
    }

    #[inline(always)]
    fn send(&self, m: &M, turn: &Turn<T::Wire>, lane: &Lane, pack: u32, ahead: Option<Pack>) {
        turn.push_to_all::<M, W>(m, turn.at(pack), lane.complete::<M, T>(m, pack, ahead));
    }

    #[inline(always)]
    fn reduce(&self, m: &M, turn: &Turn<T::Wire>, lane: &Lane, pack: u32, ahead: Option<Pack>) -> Result<(), Left> {
        let own = || lane.complete::<M, T>(m, pack, ahead);
        turn.take_from_all::<M, W>(m, turn.at(pack), own, |terms| {
            lane.store::<M, T>(m, pack, T::reduce::<M, W>(m, terms));
            turn.clear_from_all::<M, W>(m, turn.at(pack));
            turn.mark(m, Mark::Came(Phase::Landing));
        })
    }

    #[inline(always)]
    fn gather<const N: usize>(&self, _: &M, _: &Turn<T::Wire>, _: &Lane, _: [Option<u32>; N]) -> Result<(), Left> {
        Ok(())
    }

    #[inline(always)]
    fn outputs(&self, _: &M, pack: u32, visit: impl Fn(u32)) {
        visit(pack);
    }
}
