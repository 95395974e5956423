//! What ranks leave word of for each other and for the host: that a call has come to a bad end, and why.

use super::abi::{FIRST_WRONG_WORDS, MAX_BLOCKS, MAX_RANKS, Phase, Rank};

// What a [`Stop`] has room for.
const _: () =
    assert!(MAX_BLOCKS <= 1 << 8 && MAX_RANKS <= 1 << 3 && MAX_RANKS <= u8::BITS as usize && Phase::COUNT <= 1 << 2);

/// A set of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranks(pub u8);

impl Ranks {
    /// No rank.
    pub const NONE: Ranks = Ranks(0);

    /// One rank.
    #[inline(always)]
    pub const fn of(rank: Rank) -> Ranks {
        Ranks(1 << rank.0)
    }

    /// Those whose byte of `bytes` is 1 and not 0, rank 0's being the lowest. Each byte has a writer of its own.
    #[inline(always)]
    pub fn of_bytes(bytes: u64) -> Ranks {
        // Byte `i` of four, at bit `8 i`, times the bit at `28 - 7 i` comes to bit `28 + i`; nothing else comes there.
        let four = |bytes: u64| (bytes as u32).wrapping_mul(0x1020_4080) >> 28;
        Ranks((four(bytes) | four(bytes >> 32) << 4) as u8)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Ranks) -> Ranks {
        Ranks(self.0 & other.0)
    }

    /// These and `rank`.
    #[must_use]
    #[inline(always)]
    pub const fn with(self, rank: Rank) -> Ranks {
        Ranks(self.0 | Ranks::of(rank).0)
    }

    /// Each rank of it, in order.
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = Rank> {
        (0..MAX_RANKS as u32).filter(move |rank| self.0 >> rank & 1 != 0).map(Rank)
    }
}

/// Why ranks stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Why {
    /// A rank waited for others longer than it may.
    TimedOut = 1,
    /// A rank waited for one that is gone.
    Gone,
    /// A rank makes another call than its peers.
    Differs,
    /// A rank was to run a captured call before the buffers of all ranks were known.
    UnknownBuffers,
    /// A host asked for it.
    Aborted,
    /// A call was launched on some ranks only.
    Abandoned,
}

/// That a communicator has stopped, as one word, so that it is written at once. Every wait ends, and every call to come is left
/// at its start or at its first wait in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub why: Why,
    /// The rank that stopped first.
    pub by: Rank,
    /// Where in a call it waited.
    pub phase: Phase,
    /// Which of its blocks did.
    pub block: u32,
    /// For whom; whose call differs; who is gone.
    pub ranks: Ranks,
    /// The low 40 bits of the call's epoch.
    pub epoch_low: u64,
}

impl Stop {
    const EPOCH_BITS: u32 = 40;

    /// A stop that has nothing to do with any call, for this reason, by `by`.
    pub const fn outside(why: Why, by: Rank) -> Stop {
        Stop { why, by, phase: Phase::Start, block: 0, ranks: Ranks::NONE, epoch_low: 0 }
    }

    /// The word for it; never 0.
    pub const fn encode(self) -> u64 {
        let head = (self.why as u64) << 3 | self.by.0 as u64;
        let place = (head << 2 | self.phase as u64) << 8 | self.block as u64;
        (place << 8 | self.ranks.0 as u64) << Self::EPOCH_BITS | self.epoch_low & ((1 << Self::EPOCH_BITS) - 1)
    }

    /// What a word says; `None` for 0 and for a word that [`Stop::encode`] cannot have made.
    pub const fn decode(word: u64) -> Option<Stop> {
        let place = word >> Self::EPOCH_BITS;
        let why = match word >> (Self::EPOCH_BITS + 21) {
            1 => Why::TimedOut,
            2 => Why::Gone,
            3 => Why::Differs,
            4 => Why::UnknownBuffers,
            5 => Why::Aborted,
            6 => Why::Abandoned,
            _ => return None,
        };
        let phase = match place >> 16 & 3 {
            0 => Phase::Start,
            1 => Phase::Middle,
            2 => Phase::End,
            _ => Phase::Landing,
        };
        Some(Stop {
            why,
            by: Rank((place >> 18 & 7) as u32),
            phase,
            block: (place >> 8 & 0xff) as u32,
            ranks: Ranks(place as u8),
            epoch_low: word & ((1 << Self::EPOCH_BITS) - 1),
        })
    }
}

/// What others have left for a rank to see while it waits. There may be two: in the rank's own workspace, where its kernels and
/// its peers write, and where its host does, which kernels of other processes do not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// The word that all are to stop: 0, or a [`Stop`].
    pub stop: u64,
    /// Ranks that are gone.
    pub gone: Ranks,
}

impl Board {
    /// Whether a wait for `missing` is to end.
    #[inline(always)]
    pub fn ends(self, missing: Ranks) -> bool {
        self.stop != 0 || !self.gone.and(missing).is_empty()
    }
}

/// How long a thread waited, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestWait {
    /// How long, in ticks of [`TICK_NS`](super::wait::TICK_NS).
    pub ticks: u32,
    /// For whom.
    pub ranks: Ranks,
}

impl LongestWait {
    /// The word for it: the longer the wait, the larger.
    #[inline(always)]
    pub const fn encode(self) -> u64 {
        (self.ticks as u64) << 8 | self.ranks.0 as u64
    }

    /// What a word says.
    pub const fn decode(word: u64) -> LongestWait {
        LongestWait { ticks: (word >> 8) as u32, ranks: Ranks(word as u8) }
    }

    /// How long, in nanoseconds.
    pub const fn ns(self) -> u64 {
        self.ticks as u64 * super::wait::TICK_NS
    }
}

/// The first element that a `verify` kernel found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstWrong {
    /// Its index.
    pub elem: u64,
    /// Its bits, low ones first; above them are zeros.
    pub bits: u64,
    /// The call.
    pub epoch: u64,
}

impl FirstWrong {
    /// What the words say; `None` while there is none.
    pub const fn decode([elem, bits, call]: [u64; FIRST_WRONG_WORDS]) -> Option<FirstWrong> {
        match call {
            0 => None,
            _ => Some(FirstWrong { elem, bits, epoch: call - 1 }),
        }
    }
}
