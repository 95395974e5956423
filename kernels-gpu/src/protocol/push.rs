//! What the push algorithms share: data that are their own flags, and what keeps their landing areas clean.
//!
//! A rank stores packs into its slot of a peer's landing area. No word of them is the marker, and every word that has not
//! landed is: whoever polls until no word of a pack is the marker has the pack, word by word, with no other flag and no
//! order between words. Then the poller puts the marker back. (`wire.rs` has another way for types in which every word is a number.)
//! What lands in a call is all polled, and cleared, in that call: so all that
//! is left of an earlier call's size, dtype, grid and algorithm is where the slots are used next, the same on all ranks.
//!
//! *A pack is stored over the marker, never over a pack that has not been read, and no marker after it.* A rank has a slot for
//! each peer in each of [`GENERATIONS`] generations. Calls use the slots of a generation from their start to their end, and then
//! those of the next; a [`Cursor`] says how far they are. The first push in a generation announces that: each rank stores a
//! flag with a release, which publishes all that it did in earlier calls, clearing included. Each rank acquires the peers' flags
//! before it ends the next push. Where a generation comes round, at least two others were begun in between: so one push `a`
//! after the last one in it announced itself, another ended with all of the peers' announcements of `a`, and the call that
//! uses it again comes after that in stream order. Every clear comes before the store in the order of causality, with nothing
//! assumed, whatever other calls are in between.
//!
//! All of this is the rarer the smaller calls are. In a launch of several blocks it is off the way of the data: block 0 does that
//! and nothing else.
//!
//! [`GENERATIONS`]: super::abi::GENERATIONS

use core::array::from_fn;
use core::hint::cold_path;

use super::abi::{Phase, Rank};
use super::barrier::Barrier;
use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Landing, Machine, Pack};
use super::poison::poison_pack;
use super::signature;
use super::spec::{Check, Order, Scope};
use super::status::Ranks;
use super::wait::{Left, Wait, leave};

mod access;
mod cursor;
mod lane;
mod wire;

pub use cursor::Cursor;
pub use lane::Lane;
pub use wire::{Flagged, Marked, Wire};

/// A push of at least one element, for the thread with `lane`: all threads of a launch come here.
#[inline(always)]
pub(super) fn run<M: Machine, T: Element, const W: usize>(
    m: &M,
    lane: Lane,
    exchange: &impl Exchange<M, Wire = T::Wire>,
) {
    const { assert!(T::Wire::PACKS == T::DTYPE.landing_packs()) };
    let (last, epoch) = (m.ld_cursor(m.block()), epoch::current(m));
    // All these loads are under way at the same time.
    let lead = lane.load_lead(m, exchange);
    if let Err(left) = steps::<M, T, W>(m, lane, exchange, last, epoch, lead) {
        leave(m, epoch, left);
        lane.each(m, |index| exchange.outputs(m, index, |pack| poison_pack::<M, T>(m, pack.into())));
    }
}

#[inline(always)]
fn steps<M: Machine, T: Element, const W: usize>(
    m: &M,
    lane: Lane,
    exchange: &impl Exchange<M, Wire = T::Wire>,
    last: Cursor,
    epoch: Epoch,
    lead: Option<Pack>,
) -> Result<(), Left> {
    last.goes_on()?;
    let turn = Turn::<T::Wire>::after(last, epoch, exchange.extent(), m.landing_shared_packs());
    turn.announce::<M, W>(m);
    // All that a thread sends is under way before it first waits.
    lane.send(m, &turn, exchange, lead);
    // Behind the data, which others wait for.
    signature::tell::<M, W>(m, epoch);
    turn.keep(m);
    lane.receive(m, &turn, exchange, lead)?;
    if m.block() == 0 {
        signature::compare::<M, W>(m, Phase::Landing, epoch)?;
        turn.hear::<M, W>(m)?;
    }
    Ok(())
}

/// One call, whose packs travel by `R`.
pub(super) struct Turn<R> {
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
    fn after(last: Cursor, epoch: Epoch, extent: u32, shared: u32) -> Turn<R> {
        let places = extent * R::PACKS;
        let cursor = last.after(places, shared);
        Turn { epoch, to_hear: last.announced, cursor, start: cursor.used - places, wire: R::of(extent) }
    }

    /// Announces to all peers that this rank has begun a generation, if this call does.
    #[inline(always)]
    fn announce<M: Machine, const W: usize>(&self, m: &M) {
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
    fn keep<M: Machine>(&self, m: &M) {
        // Every thread has read its block's words, which are about to change.
        m.sync_block();
        epoch::for_each_word(m, |block| {
            m.st_cursor(block, self.cursor);
            m.st_epoch(block, self.epoch);
        });
    }

    /// Waits for what peers announced in the push before this one, if they did. Block 0 does, for all blocks of later launches.
    #[inline(always)]
    fn hear<M: Machine, const W: usize>(&self, m: &M) -> Result<(), Left> {
        if self.to_hear {
            cold_path();
            let last = self.cursor.serial.wrapping_sub(self.cursor.announced as u64);
            // ORDER: an acquire, which pairs with the release in `announce`; stream order passes on what it receives. Not weaker: a
            // later push could still come before the clear. Not stronger: nothing here needs a total order.
            begun(last).wait::<M, W>(m)?;
        }
        Ok(())
    }

    /// The place of `pack` in this call.
    #[inline(always)]
    pub(super) fn at(&self, pack: u32) -> Landing {
        Landing { generation: self.cursor.generation(), pack: self.start + pack }
    }

    /// Stores `pack` at `at` for every peer, starting with the right neighbour.
    #[inline(always)]
    pub(super) fn push_to_all<M: Machine, const W: usize>(&self, m: &M, at: Landing, pack: Pack) {
        for peer in peers::<M, W>(m) {
            self.push(m, peer, at, pack);
        }
    }

    /// Stores `pack` at `at` for `listener`.
    #[inline(always)]
    pub(super) fn push<M: Machine>(&self, m: &M, listener: Rank, at: Landing, pack: Pack) {
        self.wire.push(m, listener, at, R::encode(pack));
    }

    /// Polls the packs at `at` of all ranks together, and gives them to `then`, `own` being this one's, as
    /// [`sum`](super::element::sum) wants them. What is done with them is done there, and not with a result: a compiler for GPUs
    /// asks a result again wherever it is passed on, and keeps room for what is in either kind of it.
    ///
    /// # Errors
    /// The wait ended before all had landed.
    #[inline(always)]
    pub(super) fn take_from_all<M: Machine, const W: usize>(
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
    pub(super) fn clear_from_all<M: Machine, const W: usize>(&self, m: &M, at: Landing) {
        for peer in peers::<M, W>(m) {
            self.wire.clear(m, peer, at);
        }
    }

    /// Polls the packs at `places` of `emitter` together, and gives them to `then`; where there is no place, something.
    ///
    /// # Errors
    /// The wait ended before all had landed.
    #[inline(always)]
    pub(super) fn take<M: Machine, const N: usize>(
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
    pub(super) fn clear<M: Machine, const N: usize>(&self, m: &M, emitter: Rank, places: [Option<Landing>; N]) {
        places.iter().flatten().for_each(|&at| self.wire.clear(m, emitter, at));
    }
}

/// The announcement of each rank that it has begun the generation of `serial`.
fn begun(serial: u64) -> Barrier {
    let (scope, order) = (Scope::MultiGpu, Order::ReleaseAcquire);
    Barrier { phase: Phase::Landing, scope, order, check: Check::Reached, epoch: Epoch(serial) }
}

/// The steps of a push. `index` is one of `lane`. Errors: a wait ended before all that it was for had landed.
pub(super) trait Exchange<M: Machine> {
    /// How packs travel.
    type Wire: Wire;
    /// Packs of data that land in a slot, or a few more: the same on all ranks.
    fn extent(&self) -> u32;
    /// Whether what is sent first is what this rank adds.
    const LEADS_WITH_OWN: bool;
    /// The pack that is sent first at `index`, if any.
    fn lead(&self, m: &M, index: u32) -> Option<u32>;
    /// The pack that this rank adds at `index`, if any.
    fn own(&self, m: &M, index: u32) -> Option<u32>;
    /// Stores this rank's input into peers' landing areas; `ahead` is what was loaded ahead of what is sent first.
    fn send(&self, m: &M, turn: &Turn<Self::Wire>, lane: &Lane, index: u32, ahead: Option<Pack>);
    /// Adds what this rank has and what landed; `ahead` is what was loaded ahead of the former.
    fn reduce(&self, m: &M, turn: &Turn<Self::Wire>, lane: &Lane, index: u32, ahead: Option<Pack>) -> Result<(), Left>;
    /// Takes what others have added, at several indices.
    fn gather<const N: usize>(
        &self,
        m: &M,
        turn: &Turn<Self::Wire>,
        lane: &Lane,
        indices: [Option<u32>; N],
    ) -> Result<(), Left>;
    /// The packs of the output that are stored at `index`.
    fn outputs(&self, m: &M, index: u32, visit: impl Fn(u32));
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
