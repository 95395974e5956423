//! How a pack of data travels, so that whoever polls it knows that all of it has landed.

use core::array::from_fn;

use super::super::abi::{MARKER, PACK_WORDS, Rank};
use super::super::machine::{Landing, Machine, Pack};

/// The word that stands for the marker where data hold it: another NaN of each type.
const OTHER_NAN: u32 = MARKER - 1;
/// What stands beside a word of data: anything but the marker.
const FLAG: u32 = 0;

/// How the packs of a call travel.
pub trait Wire: 'static {
    /// Packs of a landing slot that one pack of data takes.
    const PACKS: u32;
    /// A pack of data on its way.
    type Sent: Copy;
    /// Of a call with so many packs of data.
    fn of(packs: u32) -> Self;
    /// What is sent for `pack`.
    fn encode(pack: Pack) -> Self::Sent;
    /// What was sent.
    fn decode(sent: Self::Sent) -> Pack;
    /// Whether all of it has landed.
    fn has_landed(sent: Self::Sent) -> bool;
    /// Stores it at `at` for `listener`.
    fn push<M: Machine>(&self, m: &M, listener: Rank, at: Landing, sent: Self::Sent);
    /// What is at `at` from `emitter`.
    fn poll<M: Machine>(&self, m: &M, emitter: Rank, at: Landing) -> Self::Sent;
    /// Puts the marker back.
    fn clear<M: Machine>(&self, m: &M, emitter: Rank, at: Landing);
}

/// The data are their own flags: no word of them is the marker. For types that have a bit pattern to spare.
pub struct Marked;

impl Wire for Marked {
    const PACKS: u32 = 1;
    type Sent = Pack;

    #[inline(always)]
    fn of(_: u32) -> Marked {
        Marked
    }
    /// `pack` with another NaN in place of the marker.
    #[inline(always)]
    fn encode(pack: Pack) -> Pack {
        Pack(pack.0.map(|word| word.min(OTHER_NAN)))
    }
    #[inline(always)]
    fn decode(sent: Pack) -> Pack {
        sent
    }
    /// Whether no word is the marker. Words, not elements, and as integers: a subnormal is not 0, a NaN is itself.
    #[inline(always)]
    fn has_landed(sent: Pack) -> bool {
        let [a, b, c, d] = sent.0;
        // The marker is the largest word.
        a.max(b).max(c.max(d)) != MARKER
    }
    #[inline(always)]
    fn push<M: Machine>(&self, m: &M, listener: Rank, at: Landing, sent: Pack) {
        // ORDER: pairs with the poll of this wire, by its value alone. Nothing is published, so nothing stronger is needed;
        // nothing weaker is allowed where the other side polls.
        m.push_pack(listener, at, sent);
    }
    #[inline(always)]
    fn poll<M: Machine>(&self, m: &M, emitter: Rank, at: Landing) -> Pack {
        // ORDER: pairs with the peer's push. A value that is not the marker is the message itself.
        m.poll_pack(emitter, at)
    }
    #[inline(always)]
    fn clear<M: Machine>(&self, m: &M, emitter: Rank, at: Landing) {
        // ORDER: after the poll, as accesses of one thread to one place are; before the next push to it by what
        // `announce` of a later call publishes.
        m.clear_pack(emitter, at);
    }
}

/// Each word of data beside a flag, both in one store of 8 bytes: for types all of whose bit patterns are numbers. It takes
/// twice the bytes. Others call it LL. The second halves of all packs lie behind the first: so what threads store side by side
/// lies side by side.
pub struct Flagged {
    /// How far a second half lies behind its first.
    apart: u32,
}

impl Flagged {
    #[inline(always)]
    fn second(&self, at: Landing) -> Landing {
        Landing { pack: at.pack + self.apart, ..at }
    }
}

impl Wire for Flagged {
    const PACKS: u32 = 2;
    type Sent = [Pack; 2];

    #[inline(always)]
    fn of(packs: u32) -> Flagged {
        Flagged { apart: packs }
    }
    #[inline(always)]
    fn encode(Pack([a, b, c, d]): Pack) -> [Pack; 2] {
        [Pack([a, FLAG, b, FLAG]), Pack([c, FLAG, d, FLAG])]
    }
    #[inline(always)]
    fn decode(sent: [Pack; 2]) -> Pack {
        Pack(from_fn(|word| sent[2 * word / PACK_WORDS].0[2 * word % PACK_WORDS]))
    }
    #[inline(always)]
    fn has_landed([low, high]: [Pack; 2]) -> bool {
        low.0[1].max(low.0[3]).max(high.0[1].max(high.0[3])) != MARKER
    }
    #[inline(always)]
    fn push<M: Machine>(&self, m: &M, listener: Rank, at: Landing, [low, high]: [Pack; 2]) {
        // ORDER: as for `Marked`; no word of data lands without its flag, since each two words are one store.
        m.push_pairs(listener, at, low);
        m.push_pairs(listener, self.second(at), high);
    }
    #[inline(always)]
    fn poll<M: Machine>(&self, m: &M, emitter: Rank, at: Landing) -> [Pack; 2] {
        // ORDER: as for `Marked`; by the flag in the same load.
        [m.poll_pairs(emitter, at), m.poll_pairs(emitter, self.second(at))]
    }
    #[inline(always)]
    fn clear<M: Machine>(&self, m: &M, emitter: Rank, at: Landing) {
        // ORDER: as for `Marked`. By pairs, as all that is done here between two announcements.
        m.clear_pairs(emitter, at);
        m.clear_pairs(emitter, self.second(at));
    }
}
