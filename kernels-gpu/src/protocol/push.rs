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

use super::abi::{Phase, Rank};
use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Machine, Pack};
use super::mark::Mark;
use super::poison::poison_pack;
use super::signature;
use super::wait::{Left, leave};

mod access;
mod cursor;
mod lane;
mod turn;
mod wire;

pub use cursor::Cursor;
pub use lane::Lane;
pub(super) use turn::Turn;
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
    m.mark(epoch, Mark::Begin);
    let turn = Turn::<T::Wire>::after(last, epoch, exchange.extent(), m.landing_shared_packs());
    turn.announce::<M, W>(m);
    // All that a thread sends is under way before it first waits.
    lane.send(m, &turn, exchange, lead);
    // Behind the data, which others wait for.
    signature::tell::<M, W>(m, epoch);
    turn.keep(m);
    if m.block() == 0 {
        signature::compare::<M, W>(m, Phase::Landing, epoch)?;
        turn.hear::<M, W>(m)?;
        if lane.is_empty() {
            // Of several blocks this one receives nothing.
            m.mark(epoch, Mark::End);
            return Ok(());
        }
    }
    lane.receive(m, &turn, exchange, lead)?;
    m.mark(epoch, Mark::End);
    Ok(())
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
