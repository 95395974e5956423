//! What is known of a protocol: sound by the memory model, resting on named assumptions, or not known to be.
//!
//! A declaration, written down by hand. The checkers of `tests/` hold it against what they find.

use core::fmt::{self, Display, Formatter};

use super::abi::{Algorithm, InputMode};
use super::spec::{Order, Protocol, Reuse, Scope};

/// What is known of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// Right by the PTX memory model and stream order alone.
    Sound,
    /// Right if these assumptions about the hardware hold as well.
    RestsOn(&'static [Assumption]),
    /// Not known to be right, and why.
    NotKnown(&'static str),
}

/// Something about the hardware that the PTX memory model does not promise, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Assumption {
    /// The end of a kernel or of a copy puts all that it stored and loaded before any flag, even a volatile one, that the
    /// next kernel of the same stream stores: who sees the flag sees the stores, and cannot change what was loaded.
    KernelEndPublishes,
    /// What follows a volatile poll that has seen its flag, in its thread and after a block sync in its block, comes after
    /// what the flag's storer had ordered before it: no load is served from before the flag, and no store is seen before.
    PollOrdersLoads,
    /// A load is done before any store that its thread issues later, or after a block sync its block, or after the end of
    /// the kernel its caller, can be seen.
    LoadsDoneBeforeBarrier,
}

impl Assumption {
    /// Every assumption there is.
    pub const ALL: [Assumption; 3] =
        [Assumption::KernelEndPublishes, Assumption::PollOrdersLoads, Assumption::LoadsDoneBeforeBarrier];

    /// The name that users have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Assumption::KernelEndPublishes => "KernelEndPublishes",
            Assumption::PollOrdersLoads => "PollOrdersLoads",
            Assumption::LoadsDoneBeforeBarrier => "LoadsDoneBeforeBarrier",
        }
    }

    /// What it says, for a sentence behind its name.
    pub const fn says(self) -> &'static str {
        match self {
            Assumption::KernelEndPublishes => {
                "what a kernel stored and loaded is done before a later kernel's flag is seen, without a release"
            }
            Assumption::PollOrdersLoads => "loads and stores after a volatile poll take no effect before it",
            Assumption::LoadsDoneBeforeBarrier => "loads are done when anything stored after them is seen",
        }
    }
}

impl Display for Assumption {
    #[inline]
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Protocol {
    /// What is known of this protocol with `algorithm` and `input`.
    pub const fn soundness(self, algorithm: Algorithm, input: InputMode) -> Soundness {
        let two_shot = match algorithm {
            // Their one form.
            Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => {
                return Soundness::Sound;
            }
            Algorithm::OneShot => false,
            Algorithm::TwoShot => true,
        };
        match (input, self.start.scope, self.start.order) {
            (InputMode::Copied, Scope::MultiGpu, _) => {
                return Soundness::NotKnown(
                    "the kernel copies the input in, but a block does not wait for the same block of every peer, whose copy \
                     of that chunk may not have happened yet",
                );
            }
            (InputMode::Copied, Scope::Block, Order::Volatile) => {
                return Soundness::NotKnown(
                    "the kernel copies the input in, and a volatile flag may be seen before the copied data",
                );
            }
            (InputMode::Copied, Scope::Block, Order::ReleaseAcquire) => {
                if !self.start.sync_before {
                    return Soundness::NotKnown(
                        "the kernel copies the input in, but the block does not synchronise before it announces",
                    );
                }
            }
            (InputMode::Registered | InputMode::Memcpy, _, _) => {}
        }
        match self.middle {
            Order::ReleaseAcquire => {}
            Order::Volatile if two_shot => {
                return Soundness::NotKnown("a volatile middle flag may be seen before the reduced part");
            }
            Order::Volatile => {}
        }
        let end_is_volatile = match (two_shot, self.reuse) {
            // The middle barrier says that every peer has read this rank's input.
            (true, _) => false,
            (false, Reuse::EndBarrier { order: Order::ReleaseAcquire, .. }) => false,
            (false, Reuse::EndBarrier { order: Order::Volatile, .. }) => true,
            (false, Reuse::Parity) if input.staged() => false,
            (false, Reuse::Parity | Reuse::Nothing) => {
                return Soundness::NotKnown(
                    "nothing keeps a rank from overwriting its input while a peer still reads it",
                );
            }
        };
        match (self.start.order, end_is_volatile) {
            (Order::ReleaseAcquire, false) => Soundness::Sound,
            (Order::ReleaseAcquire, true) => Soundness::RestsOn(&[Assumption::LoadsDoneBeforeBarrier]),
            (Order::Volatile, false) => {
                Soundness::RestsOn(&[Assumption::KernelEndPublishes, Assumption::PollOrdersLoads])
            }
            (Order::Volatile, true) => Soundness::RestsOn(&Assumption::ALL),
        }
    }
}
