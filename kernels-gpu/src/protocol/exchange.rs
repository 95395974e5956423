//! Exchange, for two ranks: each stores its half of the terms into the other's memory, and then its sums.
//!
//! ```text
//! start barrier    the peer's part of own input -> where it lands on the peer
//! middle barrier   own part: what landed here + own input -> own output, and where it lands on the peer
//! end barrier      [the peer's part of what landed here -> own output]
//! ```
//!
//! All that crosses the link is stores, which are faster than loads, and both directions are as busy from the first pack to the
//! last. With registered buffers, terms and sums land in the output; then it is not in place, since terms would land on the
//! input that they are to be added to. Else they land in the staging area, the sums are copied out of it at the end, and
//! nobody touches a buffer of another rank's caller.
//!
//! *Why each barrier.* Start: the peer no longer uses what is stored to. Middle, block by block: its terms have landed. End,
//! block by block: its sums have.

use core::marker::PhantomData;

use super::abi::{Phase, Rank};
use super::barrier::Barrier;
use super::call;
use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Machine, Pack, Region};
use super::mark::Mark;
use super::poison::poison;
use super::share::{Step, Unit, for_each, packs, part, parts};
use super::spec::{Protocol, Scope};
use super::wait::{Left, leave};

/// Ranks that it is for.
pub const RANKS: usize = 2;

/// The kernel, for one thread of two ranks. With `copy_in`, terms and sums land in the staging area.
#[inline(always)]
pub fn exchange<M: Machine, T: Element>(m: &M, protocol: Protocol) {
    let epoch = epoch::current(m);
    match steps::<M, T>(m, protocol, epoch) {
        Ok(()) => m.mark(epoch, Mark::End),
        Err(left) => {
            leave(m, epoch, left);
            poison::<M, T>(m, left, parts::<M, T>(m));
        }
    }
}

#[inline(always)]
fn steps<M: Machine, T: Element>(m: &M, protocol: Protocol, epoch: Epoch) -> Result<(), Left> {
    epoch.goes_on()?;
    m.mark(epoch, Mark::Begin);
    let peer = Rank(1 - m.rank().0);
    let part_of = |rank| part(packs(T::DTYPE, m.elems()), RANKS as u32, rank);
    call::start::<M, RANKS>(m, protocol, epoch)?;
    for_each::<M, T, 4>(m, part_of(peer), &Give::<T> { peer, element: PhantomData });

    let middle =
        Barrier { phase: Phase::Middle, scope: Scope::Block, order: protocol.middle, check: protocol.check, epoch };
    m.sync_block();
    middle.arrive::<M, RANKS>(m);
    call::sync_all(m, middle.wait::<M, RANKS>(m))?;
    let landed = if protocol.copy_in { Region::Input(epoch.bank()) } else { Region::Output };
    let to_both = SumToBoth::<T> { peer, landed, element: PhantomData };
    match T::DTYPE.bytes() {
        // To reduce sixteen elements is long: LLVM would leave two of that as a loop, and their packs in memory.
        1 => for_each::<M, T, 1>(m, part_of(m.rank()), &to_both),
        _ => for_each::<M, T, 2>(m, part_of(m.rank()), &to_both),
    }

    // All of the block have to know, since it copies what any of its threads may have waited for.
    call::end::<M, RANKS>(m, protocol, epoch)?;
    if protocol.copy_in {
        for_each::<M, T, 4>(m, part_of(peer), &CopyOut::<T> { landed, element: PhantomData });
    }
    Ok(())
}

struct Give<T> {
    peer: Rank,
    element: PhantomData<T>,
}

impl<M: Machine, T: Element> Step<M> for Give<T> {
    type Loaded = Pack;

    #[inline(always)]
    fn load<U: Unit>(&self, m: &M, unit: U) -> Pack {
        unit.load::<M, T>(m, Region::Source, m.rank())
    }
    #[inline(always)]
    fn finish<U: Unit>(&self, m: &M, unit: U, term: Pack) {
        unit.give::<M, T>(m, self.peer, term);
    }
}

struct SumToBoth<T> {
    peer: Rank,
    landed: Region,
    element: PhantomData<T>,
}

impl<M: Machine, T: Element> Step<M> for SumToBoth<T> {
    type Loaded = [Pack; RANKS];

    #[inline(always)]
    fn load<U: Unit>(&self, m: &M, unit: U) -> [Pack; RANKS] {
        [unit.load::<M, T>(m, self.landed, m.rank()), unit.load::<M, T>(m, Region::Source, m.rank())]
    }
    #[inline(always)]
    fn finish<U: Unit>(&self, m: &M, unit: U, terms: [Pack; RANKS]) {
        let sum = T::reduce::<M, RANKS>(m, terms);
        unit.store::<M, T>(m, Region::Output, sum);
        unit.give::<M, T>(m, self.peer, sum);
    }
}

struct CopyOut<T> {
    landed: Region,
    element: PhantomData<T>,
}

impl<M: Machine, T: Element> Step<M> for CopyOut<T> {
    type Loaded = Pack;

    #[inline(always)]
    fn load<U: Unit>(&self, m: &M, unit: U) -> Pack {
        unit.load::<M, T>(m, self.landed, m.rank())
    }
    #[inline(always)]
    fn finish<U: Unit>(&self, m: &M, unit: U, sum: Pack) {
        unit.store::<M, T>(m, Region::Output, sum);
    }
}
