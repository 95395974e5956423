//! Two-shot push: each part goes to its owner, who adds it and stores the sum into the landing areas of all.
//!
//! ```text
//! each peer's part of own input -> the peer's landing area
//! poll own part of all   sum -> own output and, cleaned again, peers' landing areas   clear
//! poll the sums of all   sums -> own output                                           clear
//! ```
//!
//! No barrier and no fence: a pack moves on as soon as it has landed everywhere. It moves `2 (W-1)/W` of the input a
//! rank, where a one-shot moves `W-1`. A slot holds the emitter's contribution to the listener's part and, behind it,
//! the sum of the emitter's part: each is at most one part long.

use core::marker::PhantomData;

use super::abi::Rank;
use super::element::{Element, sum};
use super::machine::{Landing, Machine, Pack};
use super::push::{self, Access, Exchange, Lane, Turn, clean, peers};
use super::share::{Span, packs, part, part_packs};

/// The kernel, for one thread of `W` ranks.
#[inline(always)]
pub fn two_shot_push<M: Machine, T: Element, const W: usize>(m: &M) {
    two_shot_push_on::<M, T, W>(m, lane::<M, T, W>(m));
}

/// [`two_shot_push`] with [`lane`] known before.
#[inline(always)]
pub fn two_shot_push_on<M: Machine, T: Element, const W: usize>(m: &M, lane: Lane) {
    push::run::<M, T, W>(m, lane, &Parts::<T, W>::of(m));
}

/// The packs of a part that this thread moves.
#[inline(always)]
pub fn lane<M: Machine, T: Element, const W: usize>(m: &M) -> Lane {
    Lane::of::<M, T>(m, Parts::<T, W>::of(m).each)
}

/// How the packs are parted.
struct Parts<T, const W: usize> {
    packs: u64,
    each: u64,
    element: PhantomData<T>,
}

impl<T: Element, const W: usize> Parts<T, W> {
    #[inline(always)]
    fn of<M: Machine>(m: &M) -> Self {
        let packs = packs(T::DTYPE, m.elems());
        Parts { packs, each: part_packs(packs, W as u32), element: PhantomData }
    }

    /// The `index`th pack of `rank`'s part, if it has so many and that one is in `window`.
    #[inline(always)]
    fn pack(&self, rank: Rank, window: Span, index: u64) -> Option<u64> {
        let part = part(self.packs, W as u32, rank);
        let pack = part.start + index;
        (pack < part.end && window.has(pack)).then_some(pack)
    }

    /// Where the `index`th pack of a contribution lands.
    #[inline(always)]
    fn term(&self, turn: &Turn, index: u64) -> Landing {
        turn.at(index)
    }

    /// Where the `index`th pack of a sum lands.
    #[inline(always)]
    fn sum(&self, turn: &Turn, index: u64) -> Landing {
        turn.at(self.each + index)
    }
}

impl<M: Machine, T: Element, const W: usize> Exchange<M> for Parts<T, W> {
    #[inline(always)]
    fn own(&self, m: &M, index: u64) -> Option<u64> {
        let part = part(self.packs, W as u32, m.rank());
        (part.start + index < part.end).then_some(part.start + index)
    }

    #[inline(always)]
    fn send<A: Access>(&self, m: &M, turn: &Turn, window: Span, index: u64, _: impl Fn() -> Pack) {
        for peer in peers::<M, W>(m) {
            if let Some(pack) = self.pack(peer, window, index) {
                // ORDER: pairs with the owner's poll, by its value alone.
                m.push_pack(peer, self.term(turn, index), A::load(m, pack));
            }
        }
    }

    #[inline(always)]
    fn reduce<A: Access>(&self, m: &M, turn: &Turn, window: Span, index: u64, own: Pack) -> bool {
        let Some(pack) = self.pack(m.rank(), window, index) else { return true };
        let Some(terms) = turn.take_from_all::<M, W>(m, self.term(turn, index), own) else { return false };
        // A sum may have become the marker again.
        let sum = clean(sum::<M, T, W>(m, terms));
        turn.push_to_all::<M, W>(m, self.sum(turn, index), sum);
        A::store(m, pack, sum);
        true
    }

    #[inline(always)]
    fn gather<A: Access>(&self, m: &M, turn: &Turn, window: Span, index: u64) -> bool {
        for owner in peers::<M, W>(m) {
            if let Some(pack) = self.pack(owner, window, index) {
                let Some(sum) = turn.take(m, owner, self.sum(turn, index)) else { return false };
                A::store(m, pack, sum);
            }
        }
        true
    }
}
