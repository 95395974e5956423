//! The number of a call, and how it is kept on the device.
//!
//! An epoch has 63 bits. With 32, a row of flags that no call has used for exactly 2^32 calls holds a value that looks
//! fresh; 2^32 calls of 2 µs are 2.4 hours. 63 bits last for half a million years, and cost nothing: a flag is one store either
//! way. The bit above them says that the rank has left a call before its end, so that a call finds that out by what it loads
//! anyway, and does nothing.

use super::abi::{Bank, MAX_BLOCKS, Phase};
use super::machine::Machine;
use super::push::Cursor;
use super::wait::Left;

/// The number of a call. It only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the call after this one.
    pub const fn next(self) -> Epoch {
        Epoch(self.0.wrapping_add(1))
    }

    /// Whether a flag that holds `self` says that its emitter has come to `wanted`: it is there, or up to two on.
    ///
    /// Further it cannot be. Who waits for `wanted` is in that call or, where it is a generation that a push began, in the push
    /// after that one; and to end a call the emitter needs this rank to have come to it (a push of no elements would not; the
    /// host launches none). So nothing else counts, and a flag that has not been written for a long time never does, however
    /// old it is.
    pub const fn reached(self, wanted: Epoch) -> bool {
        self.0.wrapping_sub(wanted.0) <= 2
    }

    /// What stands in place of an epoch once the rank has left a call before its end.
    pub const STOPPED: Epoch = Epoch(1 << 63);

    /// Whether the rank has left this call, or the one before it, before its end.
    #[inline(always)]
    pub const fn is_stopped(self) -> bool {
        self.0 >> 63 != 0
    }

    /// Whether the call of this epoch is to be made.
    ///
    /// # Errors
    /// The rank has left it, or the one before it, before its end.
    #[inline(always)]
    pub fn goes_on(self) -> Result<(), Left> {
        if self.is_stopped() { Err(Left::with_others(Phase::Start)) } else { Ok(()) }
    }

    /// The bank that the call of this epoch uses.
    pub const fn bank(self) -> Bank {
        Bank((self.0 & 1) as u32)
    }
}

/// The epoch of the call that this launch is, the same in all its blocks; [`Epoch::is_stopped`] where there is no more call.
pub fn current<M: Machine>(m: &M) -> Epoch {
    m.ld_epoch(m.block()).next()
}

/// Keeps `epoch` as that of the last call, in the words of all blocks: also of those that this launch does not have.
///
/// A later launch may have more blocks than this one. Were their words left behind, those blocks would come back with
/// an old epoch and pass a barrier in which no peer is present.
///
/// Each block writes words that no other block of this launch reads or writes; every thread of the block must have read
/// the block's word, and the block have synchronised, before.
pub fn advance<M: Machine>(m: &M, epoch: Epoch) {
    for_each_word(m, |block| m.st_epoch(block, epoch));
}

/// Has all calls to come, of any grid, end at their start: in the words that [`advance`] gives this thread's block, and in its
/// cursors. The others of the block need not come here; their words say so too.
#[inline(always)]
pub fn stop<M: Machine>(m: &M) {
    let mut word = m.block();
    while word < MAX_BLOCKS as u32 {
        m.st_epoch(word, Epoch::STOPPED);
        m.st_cursor(word, Cursor::STOPPED);
        word += m.step(m.blocks());
    }
}

/// Calls `set` for each block whose words this thread keeps: see [`advance`].
#[inline(always)]
pub(super) fn for_each_word<M: Machine>(m: &M, set: impl Fn(u32)) {
    let mut word = m.block() + m.thread() * m.blocks();
    while word < MAX_BLOCKS as u32 {
        set(word);
        word += m.threads() * m.blocks();
    }
}
