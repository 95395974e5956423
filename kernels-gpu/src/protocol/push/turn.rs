//! One call of a push: where its packs lie, how they are stored for others and polled, and what it announces.

use core::array::from_fn;
use core::hint::cold_path;

use super::super::abi::{Phase, Rank};
use super::super::barrier::Barrier;
use super::super::epoch::{self, Epoch};
use super::super::machine::{Landing, Machine, Pack};
use super::super::mark::Mark;
use super::super::spec::{Check, Order, Scope};
use super::super::status::Ranks;
use super::super::wait::{Left, Wait};
use super::{Cursor, Wire, peers};

/// One call, whose packs travel by `R`.
pub(in crate::protocol) struct Turn<R> {
    epoch: Epoch,
    /// Whether the last push announced a generation.
    to_hear: bool,
    /// Where this one leaves off.
    cursor: Cursor,
    /// Where this call's places in a slot begin.
    start: u32,
    wire: R,
}

impl<R: Wire> Turn<R> {
    /// The call of `epoch` after `last`, which lands up to `extent` packs of data; small calls share `shared` packs of a slot.
    #[inline(always)]
    pub(super) fn after(last: Cursor, epoch: Epoch, extent: u32, shared: u32) -> Turn<R> {
        let places = extent * R::PACKS;
        let cursor = last.after(places, shared);
        Turn { epoch, to_hear: last.announced, cursor, start: cursor.used - places, wire: R::of(extent) }
    }

    /// Announces to all peers that this rank has begun a generation, if this call does.
    #[inline(always)]
    pub(super) fn announce<M: Machine, const W: usize>(&self, m: &M) {
        // ORDER: a release, which pairs with the acquire in `hear`; it publishes what earlier calls of this rank did. Before
        // this block's stores to peers, if it has any: it would wait for them as well. Not weaker: the flag could overtake a
        // clear. Not stronger: nothing here needs a total order.
        if self.cursor.announced {
            cold_path();
            begun(self.cursor.serial).arrive::<M, W>(m);
        }
    }

    /// Moves cursors and epoch words on. While packs are under way it costs nothing.
    #[inline(always)]
    pub(super) fn keep<M: Machine>(&self, m: &M) {
        // Every thread has read its block's words, which are about to change.
        m.sync_block();
        epoch::for_each_word(m, |block| {
            m.st_cursor(block, self.cursor);
            m.st_epoch(block, self.epoch);
        });
    }

    /// Waits for what peers announced in the push before this one, if they did. Block 0 does, for all blocks of later launches.
    #[inline(always)]
    pub(super) fn hear<M: Machine, const W: usize>(&self, m: &M) -> Result<(), Left> {
        if self.to_hear {
            cold_path();
            let last = self.cursor.serial.wrapping_sub(self.cursor.announced as u64);
            // ORDER: an acquire, which pairs with the release in `announce`; stream order passes on what it receives. Not weaker: a
            // later push could still come before the clear. Not stronger: nothing here needs a total order.
            begun(last).wait::<M, W>(m)?;
        }
        Ok(())
    }

    /// Marks that this thread came to `mark` in this call.
    #[inline(always)]
    pub(in crate::protocol) fn mark<M: Machine>(&self, m: &M, mark: Mark) {
        m.mark(self.epoch, mark);
    }

    /// The place of `pack` in this call.
    #[inline(always)]
    pub(in crate::protocol) fn at(&self, pack: u32) -> Landing {
        Landing { generation: self.cursor.generation(), pack: self.start + pack }
    }

    /// Stores `pack` at `at` for every peer, starting with the right neighbour.
    #[inline(always)]
    pub(in crate::protocol) fn push_to_all<M: Machine, const W: usize>(&self, m: &M, at: Landing, pack: Pack) {
        for peer in peers::<M, W>(m) {
            self.push(m, peer, at, pack);
        }
    }

    /// Stores `pack` at `at` for `listener`.
    #[inline(always)]
    pub(in crate::protocol) fn push<M: Machine>(&self, m: &M, listener: Rank, at: Landing, pack: Pack) {
        self.wire.push(m, listener, at, R::encode(pack));
    }

    /// Polls the packs at `at` of all ranks together, and gives them to `then`, `own` being this one's, as
    /// [`Element::reduce`](super::super::element::Element::reduce) wants them. What is done with them is done there, and not with a result: a compiler for GPUs
    /// asks a result again wherever it is passed on, and keeps room for what is in either kind of it.
    ///
    /// # Errors
    /// The wait ended before all had landed.
    #[inline(always)]
    pub(in crate::protocol) fn take_from_all<M: Machine, const W: usize>(
        &self,
        m: &M,
        at: Landing,
        own: impl FnOnce() -> Pack,
        then: impl FnOnce([Pack; W]),
    ) -> Result<(), Left> {
        let own_rank = m.rank();
        if W == 2 {
            return self.take(m, Rank(1 - own_rank.0), [Some(at)], |[landed]| {
                let own = own();
                then(from_fn(|term| if term == 0 { own } else { landed }));
            });
        }
        // Not encoded, it could look as if it had not landed.
        let own = R::encode(own());
        let mut wait = Wait::new();
        loop {
            let sent: [R::Sent; W] = of_ranks(|rank| match Rank(rank as u32) {
                rank if rank == own_rank => own,
                emitter => self.wire.poll(m, emitter, at),
            });
            let missing = |rank: usize| (!R::has_landed(sent[rank]) as u8) << rank;
            // Here and not where a wait ends: a loop in what is rarely done is not unrolled, and would put the packs into memory.
            let missing = Ranks((0..W).fold(0, |ranks, rank| ranks | missing(rank)));
            if missing.is_empty() {
                then(sent.map(R::decode));
                return Ok(());
            }
            if !wait.goes_on(m, || missing) {
                return Err(wait.left(Phase::Landing, missing));
            }
        }
    }

    /// Clears what was taken from all at `at`: when there is a register for it.
    #[inline(always)]
    pub(in crate::protocol) fn clear_from_all<M: Machine, const W: usize>(&self, m: &M, at: Landing) {
        for peer in peers::<M, W>(m) {
            self.wire.clear(m, peer, at);
        }
    }

    /// Polls the packs at `places` of `emitter` together, and gives them to `then`; where there is no place, something.
    ///
    /// # Errors
    /// The wait ended before all had landed.
    #[inline(always)]
    pub(in crate::protocol) fn take<M: Machine, const N: usize>(
        &self,
        m: &M,
        emitter: Rank,
        places: [Option<Landing>; N],
        then: impl FnOnce([Pack; N]),
    ) -> Result<(), Left> {
        let mut wait = Wait::new();
        loop {
            let sent = places.map(|at| at.map_or(R::encode(Pack::ZERO), |at| self.wire.poll(m, emitter, at)));
            if sent.iter().all(|&sent| R::has_landed(sent)) {
                then(sent.map(R::decode));
                return Ok(());
            }
            if !wait.goes_on(m, || Ranks::of(emitter)) {
                return Err(wait.left(Phase::Landing, Ranks::of(emitter)));
            }
        }
    }

    /// Clears what was taken from `emitter` at `places`.
    #[inline(always)]
    pub(in crate::protocol) fn clear<M: Machine, const N: usize>(
        &self,
        m: &M,
        emitter: Rank,
        places: [Option<Landing>; N],
    ) {
        places.iter().flatten().for_each(|&at| self.wire.clear(m, emitter, at));
    }
}

/// The announcement of each rank that it has begun the generation of `serial`.
fn begun(serial: u64) -> Barrier {
    let (scope, order) = (Scope::MultiGpu, Order::ReleaseAcquire);
    Barrier { phase: Phase::Landing, scope, order, check: Check::Reached, epoch: Epoch(serial) }
}

/// What `of` gives for each rank. Written out: a loop that LLVM left as one would put the values into memory.
#[inline(always)]
fn of_ranks<T: Copy, const W: usize>(of: impl Fn(usize) -> T) -> [T; W] {
    const { assert!(0 < W && W <= 8) };
    let mut all = [of(0); W];
    macro_rules! set {
        ($($rank:literal)*) => { $(
            if $rank < W {
                all[$rank] = of($rank);
            }
        )* };
    }
    set!(1 2 3 4 5 6 7);
    all
}
