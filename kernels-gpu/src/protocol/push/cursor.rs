//! Where in the landing slots a push is.

use super::super::abi::{GENERATIONS, Generation, Phase};
use super::super::wait::Left;

/// Up to where the landing slots are used. It is the same on all ranks, and in all blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// How many generations came before the one in use: of 63 bits, as an epoch. It only grows.
    pub serial: u64,
    /// Packs of each slot of this generation that calls have used so far.
    pub used: u32,
    /// Whether the last push began this generation, and announced that.
    pub announced: bool,
}

impl Cursor {
    /// Where the cursor is after a call that lands up to `extent` packs in a slot, of which small calls share `shared`.
    ///
    /// A call lies in one generation. One that does not fit begins the next; one that is larger than what is shared has a
    /// generation to itself.
    #[inline(always)]
    pub fn after(self, extent: u32, shared: u32) -> Cursor {
        let used = self.used + extent;
        if used <= shared.max(extent) {
            Cursor { serial: self.serial, used, announced: false }
        } else {
            Cursor { serial: self.serial.wrapping_add(1), used: extent, announced: true }
        }
    }

    /// The generation in use.
    #[inline(always)]
    pub const fn generation(self) -> Generation {
        Generation(self.serial as u32 % GENERATIONS as u32)
    }

    /// What stands in place of a cursor once the rank has left a call before its end: see [`Epoch::STOPPED`](super::super::epoch::Epoch::STOPPED).
    pub const STOPPED: Cursor = Cursor { serial: 1 << 63, used: 0, announced: false };

    /// Whether the call after this cursor is to be made. A push asks here and not its epoch: it sends nothing before it has its
    /// cursor, and would wait for the one load after the other.
    ///
    /// # Errors
    /// The rank has left that call, or the one before it, before its end.
    #[inline(always)]
    pub fn goes_on(self) -> Result<(), Left> {
        if self.serial >> 63 != 0 { Err(Left::with_others(Phase::Landing)) } else { Ok(()) }
    }

    /// As it is kept on the device.
    #[inline(always)]
    pub const fn encode(self) -> [u64; 2] {
        [self.serial, (self.announced as u64) << 32 | self.used as u64]
    }

    /// What [`Cursor::encode`] encoded.
    #[inline(always)]
    pub const fn decode([serial, rest]: [u64; 2]) -> Cursor {
        Cursor { serial, used: rest as u32, announced: rest >> 32 != 0 }
    }
}
