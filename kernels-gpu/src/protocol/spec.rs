//! A protocol as a value: which barrier, with which order, and what protects a buffer's reuse.
//!
//! The kernels take one and branch on it. Where it is a constant (our own protocol) the branches are gone before the
//! PTX is written; the kernels of the presets decode it from their arguments.

use super::abi::Algorithm;

/// The memory order of a barrier's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Volatile store, volatile poll: relaxed at system scope.
    Volatile,
    /// Release store, acquire poll, at system scope.
    ReleaseAcquire,
}

/// Who announces and what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Block 0 announces for its rank, every block waits: each rank has started this call.
    MultiGpu,
    /// Each block announces and waits for its namesakes: this block has come to this point on every rank.
    Block,
}

/// When a flag counts as arrived.
///
/// With two banks of flags, used in turn, both come to the same: a flag of this bank never holds the next epoch. The
/// originals of the presets have one bank, or counters; the banks are ours, and so is that this choice costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// It holds the call's epoch or a later one, as [`Epoch::reached`](super::epoch::Epoch::reached) says.
    Reached,
    /// It holds the call's epoch.
    Equal,
}

/// The barrier before the first read of a peer's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// Who announces.
    pub scope: Scope,
    /// With which order.
    pub order: Order,
    /// Whether the block synchronises before it announces. A block that copied its input in needs it.
    pub sync_before: bool,
}

/// What keeps an input from being overwritten while a peer still reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reuse {
    /// A block barrier at the end of the call.
    EndBarrier {
        /// Its order.
        order: Order,
        /// Whether the block synchronises after it.
        sync_after: bool,
    },
    /// Nothing at the end; staging alternates between two banks by the parity of the epoch.
    Parity,
    /// Nothing at all.
    Nothing,
}

/// A protocol, for one algorithm and one input mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// The kernel's first step copies the input to the staging area.
    pub copy_in: bool,
    /// Before the first read.
    pub start: Start,
    /// Between the steps of a two-shot: always a block barrier.
    pub middle: Order,
    /// After the last read.
    pub reuse: Reuse,
    /// When a flag counts.
    pub check: Check,
}

impl Protocol {
    /// The value as the word that a preset's kernel gets.
    pub const fn encode(self) -> u32 {
        let (end, sync_after) = match self.reuse {
            Reuse::EndBarrier { order, sync_after } => (1 + order as u32, sync_after),
            Reuse::Parity => (3, false),
            Reuse::Nothing => (0, false),
        };
        self.copy_in as u32
            | (self.start.scope as u32) << 1
            | (self.start.order as u32) << 2
            | (self.start.sync_before as u32) << 3
            | (self.middle as u32) << 4
            | (self.check as u32) << 5
            | end << 6
            | (sync_after as u32) << 8
    }

    /// The value of a word that [`Protocol::encode`] made.
    #[inline(always)]
    pub const fn decode(word: u32) -> Protocol {
        const fn order(bit: u32) -> Order {
            if bit & 1 == 0 { Order::Volatile } else { Order::ReleaseAcquire }
        }
        let sync_after = word >> 8 & 1 == 1;
        Protocol {
            copy_in: word & 1 == 1,
            start: Start {
                scope: if word >> 1 & 1 == 0 { Scope::MultiGpu } else { Scope::Block },
                order: order(word >> 2),
                sync_before: word >> 3 & 1 == 1,
            },
            middle: order(word >> 4),
            check: if word >> 5 & 1 == 0 { Check::Reached } else { Check::Equal },
            reuse: match word >> 6 & 3 {
                1 => Reuse::EndBarrier { order: Order::Volatile, sync_after },
                2 => Reuse::EndBarrier { order: Order::ReleaseAcquire, sync_after },
                3 => Reuse::Parity,
                _ => Reuse::Nothing,
            },
        }
    }

    /// The protocol with one staging bank in place of two: for a one-shot an end barrier says that it has been read, for a
    /// two-shot the middle barrier does.
    pub const fn kept(self, algorithm: Algorithm) -> Protocol {
        let reuse = match algorithm {
            Algorithm::OneShot => Reuse::EndBarrier { order: Order::ReleaseAcquire, sync_after: false },
            Algorithm::TwoShot => Reuse::Nothing,
            Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => self.reuse,
        };
        Protocol { reuse, ..self }
    }

    /// Whether staging alternates between its two banks.
    pub const fn alternates(self) -> bool {
        match self.reuse {
            Reuse::Parity => true,
            Reuse::EndBarrier { .. } | Reuse::Nothing => false,
        }
    }
}
