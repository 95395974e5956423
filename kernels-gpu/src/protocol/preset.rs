//! The protocols by name: those of other libraries, the one under dispute, and ours. Each is a value; none forks a kernel.
//!
//! # Why `allfold` is sound
//!
//! Let `e` be a call. Each rank's stream orders its kernels; kernel `e` ends when all its blocks have ended.
//!
//! 1. *A peer's input is there when it is read.* Registered, or copied before the kernel: the input was written before
//!    the launch in stream order, so before block 0's release store at the start of `e`; every block of every peer
//!    acquires that flag before its first read. Copied by the kernel: block `b` copies its chunks, synchronises and
//!    releases; block `b` of a peer acquires and reads the same chunks, since all ranks cut in the same way.
//! 2. *A peer's reduced part is there when it is gathered* (two-shot): the same release and acquire, block by block.
//! 3. *An input is not overwritten while it is read.* Registered one-shot: each block releases after its last read and
//!    waits for its namesakes, so when the kernel ends on one rank, every read of that rank's input has been done.
//!    Two-shot: the middle barrier says the same. Staged: `e + 1` uses the other bank; before anything writes this bank
//!    again for `e + 2`, this rank has ended `e + 1`, so has passed its start barrier, so every peer had started `e + 1`
//!    and had ended `e`. The chain is made of releases, acquires and stream order, so the reads come before the write. A push
//!    has no barrier that could be a link of it: a communicator that pushes keeps one bank ([`Protocol::kept`]).
//! 4. *Scratch is not overwritten while it is gathered*: it is written after the start barrier of a later call, and every
//!    peer starts that call after it has ended the one that gathered.
//! 5. *A flag is not mistaken for another call's*: epochs have 63 bits and only grow, every launch moves the epoch words
//!    of all blocks, and each phase has flags of its own. *Nor is it overwritten before it was seen*: a word of `e`'s bank
//!    is written again in call `e + 2` at the earliest; its emitter has then ended `e + 1`, for which this rank had to come to
//!    `e + 1`, and so had ended `e` and every poll. A push polls a call later, and takes the word of `e + 2` as well.
//!
//! The pushes have their argument in [`push`](super::push), the one-pass and the exchange in their files.
//!
//! It is the cheapest form of which we can argue this with no assumption beyond the PTX memory model and stream order:
//! a multi-GPU barrier (one flag a rank pair) where the data are there before the kernel, a block barrier only where the
//! kernel itself wrote them, an end barrier only for the one case that has no other protection.

use super::abi::{Algorithm, InputMode};
use super::spec::{Check, Order, Protocol, Reuse, Scope, Start};

/// A protocol by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Preset {
    /// Ours: the cheapest that we can argue sound. See the [module](self) for the argument.
    #[default]
    Allfold,
    /// vLLM's custom all-reduce: volatile block barriers at start and end, equality test.
    Vllm,
    /// SGLang's: a volatile block barrier with no block sync before it, buffers by parity, no end.
    Sglang,
    /// TensorRT-LLM's: release / acquire, ping-pong buffers, no end.
    Trtllm,
    /// The claim under dispute: a multi-GPU barrier without a fence suffices.
    Minimal,
}

impl Preset {
    /// Every preset there is, the default first.
    pub const ALL: [Preset; 5] = [Preset::Allfold, Preset::Vllm, Preset::Sglang, Preset::Trtllm, Preset::Minimal];

    /// The name that users have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Allfold => "allfold",
            Preset::Vllm => "vllm",
            Preset::Sglang => "sglang",
            Preset::Trtllm => "trtllm",
            Preset::Minimal => "minimal",
        }
    }

    /// Its protocol for an algorithm and an input mode; `None` where the original has no such mode.
    #[inline]
    pub const fn protocol(self, algorithm: Algorithm, input: InputMode) -> Option<Protocol> {
        match algorithm {
            Algorithm::OneShot => self.pull(false, input),
            Algorithm::TwoShot => self.pull(true, input),
            Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => {
                self.ours(algorithm, input)
            }
        }
    }

    /// Algorithms that only we have, in the one form that we have them in. A push waits at no barrier for the call that it is:
    /// its protocol says how its start is announced.
    #[inline]
    const fn ours(self, algorithm: Algorithm, input: InputMode) -> Option<Protocol> {
        match self {
            Preset::Allfold => {}
            Preset::Vllm | Preset::Sglang | Preset::Trtllm | Preset::Minimal => return None,
        }
        let reuse = match algorithm {
            Algorithm::OneShot | Algorithm::TwoShot => return None,
            Algorithm::OneShotPush | Algorithm::TwoShotPush => Reuse::Nothing,
            Algorithm::OnePass if input.staged() => return None,
            Algorithm::OnePass | Algorithm::Exchange => {
                // A staged exchange copies out after it.
                let sync_after = matches!(algorithm, Algorithm::Exchange) && input.staged();
                Reuse::EndBarrier { order: Order::ReleaseAcquire, sync_after }
            }
        };
        let start = Start { scope: Scope::MultiGpu, order: Order::ReleaseAcquire, sync_before: false };
        let copy_in = matches!(algorithm, Algorithm::Exchange) && input.staged();
        Some(Protocol { copy_in, start, middle: Order::ReleaseAcquire, reuse, check: Check::Reached })
    }

    #[inline]
    const fn pull(self, two_shot: bool, input: InputMode) -> Option<Protocol> {
        const MULTI_GPU_VOLATILE: Start = Start { scope: Scope::MultiGpu, order: Order::Volatile, sync_before: false };
        const MULTI_GPU: Start = Start { scope: Scope::MultiGpu, order: Order::ReleaseAcquire, sync_before: false };
        const BLOCK_VOLATILE: Start = Start { scope: Scope::Block, order: Order::Volatile, sync_before: true };
        const BLOCK: Start = Start { scope: Scope::Block, order: Order::ReleaseAcquire, sync_before: true };

        let copy_in = match input {
            InputMode::Copied => true,
            InputMode::Registered | InputMode::Memcpy => false,
        };
        let (start, reuse, check) = match (self, input) {
            (Preset::Allfold, InputMode::Registered) => {
                let reuse = match two_shot {
                    true => Reuse::Nothing,
                    false => Reuse::EndBarrier { order: Order::ReleaseAcquire, sync_after: false },
                };
                (MULTI_GPU, reuse, Check::Reached)
            }
            (Preset::Allfold, InputMode::Memcpy) => (MULTI_GPU, Reuse::Parity, Check::Reached),
            (Preset::Allfold, InputMode::Copied) => (BLOCK, Reuse::Parity, Check::Reached),
            (Preset::Vllm, InputMode::Registered | InputMode::Memcpy) => {
                let reuse = match two_shot {
                    true => Reuse::Nothing,
                    false => Reuse::EndBarrier { order: Order::Volatile, sync_after: false },
                };
                (BLOCK_VOLATILE, reuse, Check::Equal)
            }
            (Preset::Sglang, InputMode::Registered | InputMode::Copied) => {
                (Start { sync_before: false, ..BLOCK_VOLATILE }, Reuse::Parity, Check::Equal)
            }
            (Preset::Trtllm, InputMode::Memcpy) => (MULTI_GPU, Reuse::Parity, Check::Equal),
            (Preset::Trtllm, InputMode::Copied) => (BLOCK, Reuse::Parity, Check::Equal),
            (Preset::Minimal, InputMode::Registered | InputMode::Memcpy | InputMode::Copied) => {
                (MULTI_GPU_VOLATILE, Reuse::Nothing, Check::Equal)
            }
            (Preset::Vllm, InputMode::Copied)
            | (Preset::Sglang, InputMode::Memcpy)
            | (Preset::Trtllm, InputMode::Registered) => return None,
        };
        Some(Protocol { copy_in, start, middle: Order::ReleaseAcquire, reuse, check })
    }
}
