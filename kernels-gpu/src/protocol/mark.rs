//! When a block of a call came where: what a trace is made of. Kernels of stress runs leave word of it, all others do nothing.
//!
//! A mark is the clock of the rank's GPU, of a block's threads that leave marks the last one's. What a rank *told* is marked before the
//! store that tells it, and what *came* after the poll that found it: so of two ranks `a` and `b`, however far their clocks are apart, `a`
//! told before what it told came to `b`; of more, where those threads of a block that tell do so at once, as threads of a warp do.

use core::mem::size_of;

use super::abi::{MAX_BLOCKS, Phase};
use super::epoch::Epoch;

/// A place in a call that a block comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Its first step.
    Begin,
    /// It tells its peers that it has come there; in a push, it stores the last packs for them: terms where they land, sums in the middle.
    Told(Phase),
    /// All that it waited for there has come; in a push, the last packs have landed, and terms are added.
    Came(Phase),
    /// Its last step is done.
    End,
}

/// Calls whose marks are kept: the last ones. A power of two.
pub const MARKED_CALLS: usize = 128;
const _: () = assert!(MARKED_CALLS.is_power_of_two());

/// Words of a block's marks of one call: the epoch plus one, and each [`Mark`].
pub const MARK_WORDS: usize = 11;
const _: () = assert!(Mark::End.word() == MARK_WORDS - 1);

/// Bytes of all marks of a rank.
pub const MARKS_BYTES: usize = MARKED_CALLS * MAX_BLOCKS * MARK_WORDS * size_of::<u64>();

impl Mark {
    /// Where it stands in a block's marks, behind the word with the epoch plus one.
    pub const fn word(self) -> usize {
        match self {
            Mark::Begin => 1,
            Mark::Told(phase) => 2 + 2 * phase as usize,
            Mark::Came(phase) => 3 + 2 * phase as usize,
            Mark::End => 2 + 2 * Phase::COUNT,
        }
    }
}

/// Bytes from the start of a rank's marks to those of `block` in the call of `epoch`.
pub const fn marks_offset_bytes(epoch: Epoch, block: u32) -> usize {
    let call = epoch.0 as usize % MARKED_CALLS;
    (call * MAX_BLOCKS + block as usize) * MARK_WORDS * size_of::<u64>()
}

/// Whether `thread` leaves marks: those that tell and wait at barriers do, and of all others one in each warp.
pub const fn marks(thread: u32) -> bool {
    thread < super::abi::MAX_RANKS as u32 || thread.is_multiple_of(32)
}
