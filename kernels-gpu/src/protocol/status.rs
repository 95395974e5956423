//! What a rank leaves word of in its workspace, for the host to read.

use super::abi::{MAX_BLOCKS, MAX_RANKS, Phase, Rank};

// What the words below have room for.
const _: () = assert!(MAX_BLOCKS <= 1 << 12 && MAX_RANKS <= 1 << 4);

/// Which wait a rank gave up, as one word, so that it is written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp {
    /// The barrier that was waited in.
    pub phase: Phase,
    /// The rank that did not come.
    pub missing: Rank,
    /// The block that waited.
    pub block: u32,
    /// The low 40 bits of the call's epoch.
    pub epoch_low: u64,
}

/// The word with which a host abandons a call that not all ranks were launched for: every wait of it ends. It is no
/// [`GaveUp`].
pub const ABANDONED: u64 = u64::MAX;

/// The word of a rank that was to run a captured call before the buffers of all ranks were known. It is no [`GaveUp`] either.
pub const UNKNOWN_BUFFERS: u64 = u64::MAX - 1;

impl GaveUp {
    const EPOCH_BITS: u32 = 40;

    /// The word for it; never 0.
    pub const fn encode(self) -> u64 {
        let phase = self.phase as u64 + 1;
        let place = ((phase << 4 | self.missing.0 as u64) << 12) | self.block as u64;
        place << Self::EPOCH_BITS | self.epoch_low & ((1 << Self::EPOCH_BITS) - 1)
    }

    /// What a word says; `None` for 0 and for a word that [`GaveUp::encode`] cannot have made.
    pub const fn decode(word: u64) -> Option<GaveUp> {
        let phase = match word >> (Self::EPOCH_BITS + 16) {
            1 => Phase::Start,
            2 => Phase::Middle,
            3 => Phase::End,
            4 => Phase::Landing,
            _ => return None,
        };
        let place = word >> Self::EPOCH_BITS;
        Some(GaveUp {
            phase,
            missing: Rank((place >> 12 & 0xf) as u32),
            block: (place & 0xfff) as u32,
            epoch_low: word & ((1 << Self::EPOCH_BITS) - 1),
        })
    }
}

/// The first element that a `verify` kernel found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstWrong {
    /// Its index, modulo 2^32.
    pub elem: u32,
    /// Its bits, low ones first; a 16-bit element has zeros above.
    pub bits: u32,
    /// The call.
    pub epoch: u64,
}

impl FirstWrong {
    /// What two words say; `None` while there is none.
    pub const fn decode([first, call]: [u64; 2]) -> Option<FirstWrong> {
        match call {
            0 => None,
            _ => Some(FirstWrong { elem: (first >> 32) as u32, bits: first as u32, epoch: call - 1 }),
        }
    }
}
