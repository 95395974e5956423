//! Two-shot: each rank reduces its own part of the elements; then every rank gathers the parts of all.
//!
//! ```text
//! [copy own input to staging]   start barrier   sum of own part -> own scratch and own output
//!                               middle barrier  parts of the peers' scratch -> own output
//! ```
//!
//! *In place is sound.* Each element of an input is read by one rank, the owner of its part. The owner's block `b` reads
//! it before it arrives at the middle barrier, and block `b` of every rank overwrites it after: the same block, since
//! all ranks cut a part in the same way. A rank's own part is read by nobody else, so its sum may go to the output at once.
//!
//! *No end barrier is needed for the input.* When a rank's kernel ends, each of its blocks has passed the middle barrier,
//! so all reads of its input are done. The scratch area is written again in the next two-shot, after a start barrier,
//! which says that every peer has ended this call.

use core::marker::PhantomData;

use super::abi::{Phase, Rank};
use super::barrier::Barrier;
use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Machine, Pack, Region};
use super::mark::Mark;
use super::poison::poison;
use super::share::{Step, Unit, for_each, load_inputs, packs, part, parts};
use super::spec::{Protocol, Scope};
use super::wait::{Left, leave};
use super::{call, stage};

/// The kernel, for one thread of `W` ranks.
#[inline(always)]
pub fn two_shot<M: Machine, T: Element, const W: usize>(m: &M, protocol: Protocol) {
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
    let part_of = |rank| part(packs(T::DTYPE, m.elems()), W as u32, rank);
    if protocol.copy_in {
        // Part by part, so that block `b` copies what block `b` of each part's owner will read.
        for rank in 0..m.world() {
            stage::copy_in::<M, T>(m, part_of(Rank(rank)), epoch);
        }
    }
    call::start::<M, W>(m, protocol, epoch)?;

    let own = part_of(m.rank());
    for_each::<M, T, 1>(m, own, &SumOwnPart::<T, W> { epoch, start: own.start, element: PhantomData });

    let middle =
        Barrier { phase: Phase::Middle, scope: Scope::Block, order: protocol.middle, check: protocol.check, epoch };
    m.sync_block();
    middle.arrive::<M, W>(m);
    call::sync_all(m, middle.wait::<M, W>(m))?;

    // Each rank starts with its right neighbour, so that no owner is read by all at once.
    // The bound is the run-time one: unrolled, the kernel would be many times as long and no faster.
    for step in 1..m.world() {
        let owner = Rank(wrap(m.rank().0 + step, m.world()));
        let span = part_of(owner);
        for_each::<M, T, 1>(m, span, &Gather::<T> { owner, start: span.start, element: PhantomData });
    }
    call::end::<M, W>(m, protocol, epoch)
}

/// `rank` modulo `world`, for a `rank` below twice `world`.
const fn wrap(rank: u32, world: u32) -> u32 {
    if rank < world { rank } else { rank - world }
}

struct SumOwnPart<T, const W: usize> {
    epoch: Epoch,
    start: u64,
    element: PhantomData<T>,
}

impl<M: Machine, T: Element, const W: usize> Step<M> for SumOwnPart<T, W> {
    type Loaded = [Pack; W];

    #[inline(always)]
    fn load<U: Unit>(&self, m: &M, unit: U) -> [Pack; W] {
        load_inputs::<M, T, U, W>(m, unit, self.epoch.bank())
    }
    #[inline(always)]
    fn finish<U: Unit>(&self, m: &M, unit: U, terms: [Pack; W]) {
        let sum = T::reduce::<M, W>(m, terms);
        unit.counted_from::<T>(self.start).store::<M, T>(m, Region::Scratch, sum);
        unit.store::<M, T>(m, Region::Output, sum);
    }
}

struct Gather<T> {
    owner: Rank,
    start: u64,
    element: PhantomData<T>,
}

impl<M: Machine, T: Element> Step<M> for Gather<T> {
    type Loaded = Pack;

    #[inline(always)]
    fn load<U: Unit>(&self, m: &M, unit: U) -> Pack {
        unit.counted_from::<T>(self.start).load::<M, T>(m, Region::Scratch, self.owner)
    }
    #[inline(always)]
    fn finish<U: Unit>(&self, m: &M, unit: U, sum: Pack) {
        unit.store::<M, T>(m, Region::Output, sum);
    }
}
