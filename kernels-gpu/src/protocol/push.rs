//! What the push algorithms share: data that are their own flags, and what keeps their landing areas clean.
//!
//! A rank stores packs into its slot of a peer's landing area. No word of them is the marker, and every word that has not
//! landed is: whoever polls until no word of a pack is the marker has the pack, word by word, with no other flag and no
//! order between words. Then it puts the marker back. Nothing here depends on an earlier call's size, dtype, grid or
//! algorithm: what lands in a call is all polled, and cleared, in that call.
//!
//! *A pack is stored over the marker, never over a pack that has not been read, and no marker after it.* The call of
//! epoch `e` stores into a generation that was last read and cleared in call `e - GENERATIONS` or earlier. Between the two
//! there are calls `a` and `a + 1` of which the first announces itself: each rank stores a flag with a release, which
//! publishes all that it did in earlier calls, clearing included; each rank acquires the peers' flags before it ends
//! `a + 1`; and call `e` comes after that in stream order. So every clear comes before the store in the order of causality,
//! with nothing assumed. A call of another algorithm announces itself and waits at its start: that serves as well.
//!
//! All of this is off the way of the data. One call in [`CALLS_PER_ANNOUNCEMENT`] announces, the next one waits for what was
//! announced a call ago; and in a launch of several blocks, block 0 does that and nothing else.

use core::array::from_fn;

use super::abi::{CALLS_PER_ANNOUNCEMENT, MARKER, Phase, Rank};
use super::barrier::Barrier;
use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Landing, Machine, Pack};
use super::share::Span;
use super::spec::{Check, Order, Scope};
use super::status::GaveUp;

mod access;
mod lane;

pub(super) use access::Access;
use access::{Elems, Whole};
pub use lane::Lane;

/// The word that stands for the marker where data hold it: another NaN of each type.
const OTHER_NAN: u32 = MARKER - 1;

/// A push of at least one element, for the thread with `lane`: all threads of a launch come here.
#[inline(always)]
pub(super) fn run<M: Machine, T: Element, const W: usize>(m: &M, lane: Lane, exchange: &impl Exchange<M>) {
    let announcer = m.block() == 0 && m.thread() < W as u32;
    if announcer {
        // ORDER: with the flag in `announce` a release, which pairs with the acquire in `end`; it publishes what earlier calls
        // of this rank did. Here and not there: later it would wait for this call's stores as well.
        m.fence();
    }
    // Before the epoch: both loads are under way at the same time.
    let first = lane.load::<M, Whole>(m, exchange, lane.whole(), lane.first);
    let turn = Turn { epoch: epoch::current(m) };
    if announcer {
        turn.announce::<M, W>(m);
    }
    let done = lane.run::<M, Whole>(m, &turn, exchange, lane.whole(), first)
        && (!lane.has_rest() || {
            let first = lane.load::<M, Elems<T>>(m, exchange, lane.rest(), lane.first);
            lane.run::<M, Elems<T>>(m, &turn, exchange, lane.rest(), first)
        });
    turn.end::<M, W>(m, done);
}

/// One call.
pub(super) struct Turn {
    epoch: Epoch,
}

impl Turn {
    /// Whether the call of `epoch` announces itself.
    const fn announces(epoch: Epoch) -> bool {
        epoch.0.is_multiple_of(CALLS_PER_ANNOUNCEMENT)
    }

    /// Announces to all peers that this rank has started the call, if this call does. The thread has fenced before.
    #[inline(always)]
    fn announce<M: Machine, const W: usize>(&self, m: &M) {
        if Turn::announces(self.epoch) {
            Barrier { order: Order::Volatile, ..self.started(self.epoch) }.arrive::<M, W>(m);
        }
    }

    /// Moves the epoch words on, and waits for what peers announced in the call before this one, if they did.
    #[inline(always)]
    fn end<M: Machine, const W: usize>(&self, m: &M, done: bool) {
        // Every thread has read its block's word, which is about to change.
        if !m.sync_block_all(done) {
            return;
        }
        epoch::advance(m, self.epoch);
        if m.block() == 0 && Turn::announces(self.epoch.previous()) {
            // A wait that was given up has been reported, and there is nothing left to do or to leave out.
            self.started(self.epoch.previous()).wait::<M, W>(m);
        }
    }

    /// The announcement of each rank that it has started the call of `epoch`.
    fn started(&self, epoch: Epoch) -> Barrier {
        let (scope, order) = (Scope::MultiGpu, Order::ReleaseAcquire);
        Barrier { phase: Phase::Start, scope, order, check: Check::Reached, epoch }
    }

    /// The place of `pack` in this call.
    #[inline(always)]
    pub(super) fn at(&self, pack: u64) -> Landing {
        Landing { generation: self.epoch.generation(), pack }
    }

    /// Stores `pack` at `at` for every peer, starting with the right neighbour.
    #[inline(always)]
    pub(super) fn push_to_all<M: Machine, const W: usize>(&self, m: &M, at: Landing, pack: Pack) {
        for peer in peers::<M, W>(m) {
            // ORDER: pairs with the poll in `take_from_all`, by its value alone. Nothing is published, so nothing stronger
            // is needed; nothing weaker is allowed where the other side polls.
            m.push_pack(peer, at, pack);
        }
    }

    /// The packs at `at` of all ranks, `own` being this one's, polled together and cleared; `None`: a peer was given up.
    #[inline(always)]
    pub(super) fn take_from_all<M: Machine, const W: usize>(&self, m: &M, at: Landing, own: Pack) -> Option<[Pack; W]> {
        let own_rank = m.rank();
        let mut tries = 0;
        loop {
            let packs: [Pack; W] = from_fn(|rank| match Rank(rank as u32) {
                rank if rank == own_rank => own,
                // ORDER: pairs with the peer's push. A value that is not the marker is the message itself.
                emitter => m.poll_pack(emitter, at),
            });
            if packs.iter().all(|pack| landed(*pack)) {
                for peer in peers::<M, W>(m) {
                    // ORDER: after the poll, as accesses of one thread to one place are; before the next push to it by what
                    // `begin` of a later call publishes.
                    m.clear_pack(peer, at);
                }
                return Some(packs);
            }
            tries += 1;
            if !m.spin(tries) {
                let missing = (0..W).find(|&rank| !landed(packs[rank])).unwrap_or(0);
                self.give_up(m, Rank(missing as u32));
                return None;
            }
        }
    }

    /// The pack at `at` of `emitter`, cleared; `None`: it was given up.
    #[inline(always)]
    pub(super) fn take<M: Machine>(&self, m: &M, emitter: Rank, at: Landing) -> Option<Pack> {
        let mut tries = 0;
        loop {
            // ORDER: as in `take_from_all`.
            let pack = m.poll_pack(emitter, at);
            if landed(pack) {
                // ORDER: as in `take_from_all`.
                m.clear_pack(emitter, at);
                return Some(pack);
            }
            tries += 1;
            if !m.spin(tries) {
                self.give_up(m, emitter);
                return None;
            }
        }
    }

    fn give_up<M: Machine>(&self, m: &M, missing: Rank) {
        m.report(GaveUp { phase: Phase::Landing, missing, block: m.block(), epoch_low: self.epoch.0 });
    }
}

/// The steps of a push. `index` is one of a [`Lane`]; packs outside of `window` are left alone. False: a peer was
/// given up.
pub(super) trait Exchange<M: Machine> {
    /// The pack that this rank adds at `index`, if any.
    fn own(&self, m: &M, index: u64) -> Option<u64>;
    /// Stores this rank's input into peers' landing areas; `own` loads what it adds itself.
    fn send<A: Access>(&self, m: &M, turn: &Turn, window: Span, index: u64, own: impl Fn() -> Pack);
    /// Adds what landed in this rank's.
    fn reduce<A: Access>(&self, m: &M, turn: &Turn, window: Span, index: u64, own: Pack) -> bool;
    /// Takes what others have added.
    fn gather<A: Access>(&self, m: &M, turn: &Turn, window: Span, index: u64) -> bool;
}

/// All other ranks, from the right neighbour on, so that no rank is stored to by all at once.
///
/// The bound is the run-time one but for two ranks: unrolled, kernels would be many times as long and no faster.
#[inline(always)]
pub(super) fn peers<M: Machine, const W: usize>(m: &M) -> impl Iterator<Item = Rank> {
    let (own, world) = (m.rank().0, if W == 2 { 2 } else { m.world() });
    (1..world).map(move |step| {
        let rank = own + step;
        Rank(if rank < world { rank } else { rank - world })
    })
}

/// Whether no word of `pack` is the marker. Words, not elements, and as integers: a subnormal is not 0, a NaN is itself.
#[inline(always)]
fn landed(pack: Pack) -> bool {
    pack.0.iter().all(|&word| word != MARKER)
}

/// `pack` with another NaN in place of the marker.
#[inline(always)]
pub(super) fn clean(pack: Pack) -> Pack {
    Pack(pack.0.map(|word| word.min(OTHER_NAN)))
}
