//! Two-shot push: each part goes to its owner, who adds it and stores the sum into the landing areas of all.
//!
//! ```text
//! each peer's part of own input -> the peer's landing area
//! poll own part of all   sum -> own output and, encoded again, peers' landing areas   clear
//! poll the sums of all   sums -> own output                                           clear
//! ```
//!
//! No barrier, and no fence but in a call that begins a generation: a pack is added as soon as all ranks' have landed. It moves
//! `2 (W-1)/W` of the input a rank, where a one-shot moves `W-1`. A call's places in a slot hold the emitter's contribution to
//! the listener's part and, behind it, the sum of the emitter's part: each is at most one part long.

use core::array::from_fn;
use core::marker::PhantomData;

use super::abi::{Phase, Rank};
use super::element::Element;
use super::machine::{Landing, Machine, Pack};
use super::mark::Mark;
use super::push::{self, Exchange, Lane, Turn, Wire, peers};
use super::share::{packs, part_packs};
use super::wait::Left;

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
    packs: u32,
    each: u32,
    element: PhantomData<T>,
}

impl<T: Element, const W: usize> Parts<T, W> {
    #[inline(always)]
    fn of<M: Machine>(m: &M) -> Self {
        let packs = packs(T::DTYPE, m.elems());
        Parts { packs: packs as u32, each: part_packs(packs, W as u32) as u32, element: PhantomData }
    }

    /// The `index`th pack of `rank`'s part, if it has so many: parts are those of [`share::part`](super::share::part).
    #[inline(always)]
    fn pack(&self, rank: Rank, index: u32) -> Option<u32> {
        let pack = self.each * rank.0 + index;
        (index < self.each && pack < self.packs).then_some(pack)
    }

    /// Where the `index`th pack of a contribution lands.
    #[inline(always)]
    fn term(&self, turn: &Turn<T::Wire>, index: u32) -> Landing {
        turn.at(index)
    }

    /// Where the `index`th pack of a sum lands.
    #[inline(always)]
    fn sum(&self, turn: &Turn<T::Wire>, index: u32) -> Landing {
        turn.at(self.each + index)
    }
}

impl<M: Machine, T: Element, const W: usize> Exchange<M> for Parts<T, W> {
    type Wire = T::Wire;

    #[inline(always)]
    fn extent(&self) -> u32 {
        2 * self.each
    }

    const LEADS_WITH_OWN: bool = false;

    #[inline(always)]
    fn lead(&self, m: &M, index: u32) -> Option<u32> {
        peers::<M, W>(m).next().and_then(|peer| self.pack(peer, index))
    }

    #[inline(always)]
    fn own(&self, m: &M, index: u32) -> Option<u32> {
        self.pack(m.rank(), index)
    }

    #[inline(always)]
    fn send(&self, m: &M, turn: &Turn<T::Wire>, lane: &Lane, index: u32, ahead: Option<Pack>) {
        let at = self.term(turn, index);
        let mut peers = peers::<M, W>(m);
        if let Some((peer, pack)) = peers.next().and_then(|peer| Some((peer, self.pack(peer, index)?))) {
            turn.push(m, peer, at, lane.complete::<M, T>(m, pack, ahead));
        }
        for peer in peers {
            if let Some(pack) = self.pack(peer, index) {
                turn.push(m, peer, at, lane.load::<M, T>(m, pack));
            }
        }
    }

    #[inline(always)]
    fn reduce(&self, m: &M, turn: &Turn<T::Wire>, lane: &Lane, index: u32, ahead: Option<Pack>) -> Result<(), Left> {
        let Some(pack) = self.pack(m.rank(), index) else { return Ok(()) };
        let own = || lane.complete::<M, T>(m, pack, ahead);
        turn.take_from_all::<M, W>(m, self.term(turn, index), own, |terms| {
            // What others will have: a sum may have become the marker again, and all ranks store the same.
            let sum = T::Wire::decode(T::Wire::encode(T::reduce::<M, W>(m, terms)));
            turn.mark(m, Mark::Came(Phase::Landing));
            turn.mark(m, Mark::Told(Phase::Middle));
            turn.push_to_all::<M, W>(m, self.sum(turn, index), sum);
            lane.store::<M, T>(m, pack, sum);
            turn.clear_from_all::<M, W>(m, self.term(turn, index));
        })
    }

    #[inline(always)]
    fn gather<const N: usize>(
        &self,
        m: &M,
        turn: &Turn<T::Wire>,
        lane: &Lane,
        indices: [Option<u32>; N],
    ) -> Result<(), Left> {
        for owner in peers::<M, W>(m) {
            let packs = indices.map(|index| self.pack(owner, index?));
            let places: [_; N] = from_fn(|i| packs[i].and(indices[i]).map(|index| self.sum(turn, index)));
            turn.take(m, owner, places, |sums| {
                for i in 0..N {
                    if let Some(pack) = packs[i] {
                        lane.store::<M, T>(m, pack, sums[i]);
                    }
                }
                turn.clear(m, owner, places);
            })?;
        }
        turn.mark(m, Mark::Came(Phase::Middle));
        Ok(())
    }

    #[inline(always)]
    fn outputs(&self, m: &M, index: u32, visit: impl Fn(u32)) {
        let mut rank = 0;
        while rank < m.world() {
            if let Some(pack) = self.pack(Rank(rank), index) {
                visit(pack);
            }
            rank += m.step(1);
        }
    }
}
