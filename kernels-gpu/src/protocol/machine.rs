//! What one thread of a rank can do, as a trait: the kernels know nothing else.
//!
//! | | PTX | CPU threads |
//! |---|---|---|
//! | `st_flag_volatile` | `st.volatile.global.u64` | `AtomicU64` store, relaxed |
//! | `ld_flag_volatile` | `ld.volatile.global.u64` | `AtomicU64` load, relaxed |
//! | `st_flag_release` | `st.release.sys.global.u64` | `AtomicU64` store, release |
//! | `ld_flag_acquire` | `ld.acquire.sys.global.u64` | `AtomicU64` load, acquire |
//! | packs | 128-bit `ld.global`, `st.global` | relaxed atomic words |
//! | `push_pack`, `clear_pack` | `st.relaxed.sys.global.v4.u32` | relaxed atomic words |
//! | `poll_pack` | `ld.relaxed.sys.global.v4.u32` | relaxed atomic words |
//! | `push_pairs`, `clear_pairs` | `st.relaxed.sys.global.v2.u64` | `AtomicU64` stores, relaxed |
//! | `poll_pairs` | `ld.relaxed.sys.global.v2.u64` | `AtomicU64` loads, relaxed |
//! | `tell_call`, `call_told` | `st.relaxed.sys`, `ld.relaxed.sys`, `.global.v2.u64` | `AtomicU64`, relaxed |
//! | `tell_stop`, `board` | `st.relaxed.sys.global.u64`, `ld.acquire.sys.global.v2.u64` | `AtomicU64`, relaxed, acquire |
//! | `sync_block` | `bar.sync` | a barrier of the block's threads |
//!
//! *Single writer.* A thread stores flags only in its own rank's name and polls only flags that its own rank listens
//! to, and tells calls in its own rank's name; it stores data to its own rank's areas, to its own slots of peers' landing areas, and, in a one-pass or an exchange,
//! to peers' outputs or what stands for them. The signatures leave no way to do otherwise. Only that a communicator has stopped
//! is said in one word by whoever finds out, and any of their words is a true answer.
//!
//! *Orders are names.* A flag operation takes no ordering argument, so it cannot be called with a wrong one.

use super::abi::{Bank, FlagRow, Generation, PACK_WORDS, Rank};
use super::element::{self, Element};
use super::epoch::Epoch;
use super::mark::Mark;
use super::push::Cursor;
use super::reduction::Reduction;
use super::signature::Signature;
use super::status::{Board, LongestWait, Ranks};

/// 16 bytes of data, in registers. In a single-element access, the element is the low bits: of word 0, or of words 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack(pub [u32; PACK_WORDS]);

impl Pack {
    /// No bit set.
    pub const ZERO: Pack = Pack([0; PACK_WORDS]);

    /// Words 0 and 1, or words 2 and 3, as one.
    #[inline(always)]
    pub const fn double(self, index: usize) -> u64 {
        self.0[2 * index] as u64 | (self.0[2 * index + 1] as u64) << 32
    }

    /// The pack of these [`Pack::double`]s.
    #[inline(always)]
    pub const fn of_doubles([low, high]: [u64; 2]) -> Pack {
        Pack([low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32])
    }
}

/// An area of data that belongs to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// The caller's input, private to its rank.
    Source,
    /// The input as all ranks see it: the caller's buffer when registered, else the staging bank.
    Input(Bank),
    /// Sums that peers gather.
    Scratch,
    /// The caller's output, private to its rank.
    Output,
}

/// A place in each landing slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The generation.
    pub generation: Generation,
    /// The pack in the slot of that generation.
    pub pack: u32,
}

/// One thread of one block of one rank.
pub trait Machine {
    /// This rank.
    fn rank(&self) -> Rank;
    /// Ranks of the communicator, as a run-time value.
    fn world(&self) -> u32;
    /// This block, from 0.
    fn block(&self) -> u32;
    /// Blocks of this launch, the same on every rank.
    fn blocks(&self) -> u32;
    /// This thread in its block, from 0.
    fn thread(&self) -> u32;
    /// Threads of a block, the same on every rank.
    fn threads(&self) -> u32;
    /// Elements of the call.
    fn elems(&self) -> u64;
    /// What is done to the terms of all ranks, where a kernel does not know.
    fn reduction(&self) -> Reduction;
    /// Whether every buffer of the caller that this thread may touch is aligned to a pack.
    fn aligned(&self) -> bool;

    /// Packs of a landing slot that small calls share, the same on every rank.
    fn landing_shared_packs(&self) -> u32;

    /// Leaves word of when this thread came to `mark` in the call of `epoch`, where somebody wants to know: see [`mark`](super::mark).
    fn mark(&self, _epoch: Epoch, _mark: Mark) {}

    /// Waits for all threads of the block; what they did before is visible to all of them after.
    fn sync_block(&self);
    /// [`Machine::sync_block`], and whether `ok` was true on all threads: the same answer on each.
    fn sync_block_all(&self, ok: bool) -> bool;

    /// A pause between two polls, after `polls` of them; whether it is time to look at [`Machine::now_ns`] and [`Machine::board`].
    /// It is after 2^32 of them.
    fn pause_to_look(&self, polls: u32) -> bool;
    /// A clock, in nanoseconds from whenever; not 0.
    fn now_ns(&self) -> u64;
    /// How long a wait may last.
    fn timeout_ns(&self) -> u64;
    /// What others have left for this rank. Of one that is gone, what it told and pushed is there by then: its kernels had ended.
    fn board(&self) -> Board;
    /// What the host of this rank has left for it elsewhere.
    fn host_board(&self) -> Board;
    /// Tells `rank`, which may be this one, that all are to stop, by a word of [`Stop::encode`](super::status::Stop::encode).
    fn tell_stop(&self, rank: Rank, stop: u64);
    /// Leaves word, for the host, how long a thread of this rank has waited so far: of several the longest.
    fn add_wait(&self, wait: LongestWait);
    /// Leaves word, for the host, for whom a thread of this rank waited in vain.
    fn add_missing(&self, missing: Ranks);
    /// Ends the context of this rank, if its host has asked for that.
    fn trap_if_asked(&self) {}

    /// What this rank's call is; nothing where calls are not compared.
    fn signature(&self) -> Signature;
    /// Tells `listener`, which may be this rank, what this rank's call is; orders nothing else.
    fn tell_call(&self, listener: Rank, bank: Bank, words: [u64; 2]);
    /// What `emitter` last told this rank, each word as a whole; orders nothing else.
    fn call_told(&self, emitter: Rank, bank: Bank) -> [u64; 2];

    /// Tells `listener` that this rank has come to `epoch`; orders nothing else.
    fn st_flag_volatile(&self, listener: Rank, row: FlagRow, epoch: Epoch);
    /// What `emitter` last told this rank; orders nothing else.
    fn ld_flag_volatile(&self, emitter: Rank, row: FlagRow) -> Epoch;
    /// Tells `listener` that this rank has come to `epoch`, and publishes to it all that happened before.
    fn st_flag_release(&self, listener: Rank, row: FlagRow, epoch: Epoch);
    /// What `emitter` last told this rank, with all that it published by a release.
    fn ld_flag_acquire(&self, emitter: Rank, row: FlagRow) -> Epoch;

    /// This rank's epoch word of `block`.
    fn ld_epoch(&self, block: u32) -> Epoch;
    /// Sets this rank's epoch word of `block`.
    fn st_epoch(&self, block: u32, epoch: Epoch);

    /// This rank's cursor of `block`.
    fn ld_cursor(&self, block: u32) -> Cursor;
    /// Sets this rank's cursor of `block`.
    fn st_cursor(&self, block: u32, cursor: Cursor);

    /// Pack `pack` of `owner`'s `region`, which must be aligned.
    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack;
    /// Stores pack `pack` of this rank's `region`, which must be aligned.
    fn st_pack(&self, region: Region, pack: u64, value: Pack);
    /// Element `elem` of `owner`'s `region`, in the low bits; the other bits are 0.
    fn ld_elem<T: Element>(&self, region: Region, owner: Rank, elem: u64) -> Pack;
    /// Stores the element in the low bits of `value` as element `elem` of this rank's `region`.
    fn st_elem<T: Element>(&self, region: Region, elem: u64, value: Pack);

    /// Stores `value`, none of whose words is the marker, at `at` in `listener`'s slot for this rank; orders nothing else.
    fn push_pack(&self, listener: Rank, at: Landing, value: Pack);
    /// What is at `at` in this rank's slot for `emitter`: each word is the marker or has landed; orders nothing else.
    fn poll_pack(&self, emitter: Rank, at: Landing) -> Pack;
    /// Puts the marker back into all words at `at` in this rank's slot for `emitter`; orders nothing else.
    fn clear_pack(&self, emitter: Rank, at: Landing);
    /// [`Machine::push_pack`], each two words (0 and 1, 2 and 3) at once: 0 and 2 are any, 1 and 3 not the marker.
    fn push_pairs(&self, listener: Rank, at: Landing, value: Pack);
    /// [`Machine::poll_pack`], each two words (0 and 1, 2 and 3) at once.
    fn poll_pairs(&self, emitter: Rank, at: Landing) -> Pack;
    /// [`Machine::clear_pack`], each two words (0 and 1, 2 and 3) at once.
    fn clear_pairs(&self, emitter: Rank, at: Landing);
    /// Stores pack `pack` of `owner`'s output, which must be aligned.
    fn give_pack(&self, owner: Rank, pack: u64, value: Pack);
    /// Stores the element in the low bits of `value` as element `elem` of `owner`'s output.
    fn give_elem<T: Element>(&self, owner: Rank, elem: u64, value: Pack);

    /// Adds to this rank's count of wrong elements, and keeps the first: its index and its bits, in the call of `epoch`.
    fn add_wrong(&self, count: u64, elem: u64, bits: u64, epoch: Epoch);

    /// The same number, in a way that a compiler cannot look into: so it leaves a loop that steps by it as short as it is written.
    /// For what is rarely run, and in every kernel.
    #[inline]
    fn step(&self, by: u32) -> u32 {
        by
    }

    /// Something that differs from place to place and from run to run, for planted delays.
    fn ticks(&self) -> u32 {
        0
    }
    /// Does nothing for about so long.
    fn pause(&self, _nanoseconds: u32) {}

    /// Two f16 (low bits first) as f32.
    #[inline]
    fn f32_from_f16x2(&self, word: u32) -> [f32; 2] {
        element::portable::f32_from_f16x2(word)
    }
    /// Two f32 rounded to f16, nearest even, every NaN the same.
    #[inline]
    fn f16x2_from_f32(&self, value: [f32; 2]) -> u32 {
        element::portable::f16x2_from_f32(value)
    }
    /// Two f32 rounded to bf16, nearest even, every NaN the same.
    #[inline]
    fn bf16x2_from_f32(&self, value: [f32; 2]) -> u32 {
        element::portable::bf16x2_from_f32(value)
    }
    /// The sum of two f32, every NaN the same.
    #[inline]
    fn add_f32(&self, a: f32, b: f32) -> f32 {
        element::portable::add_f32(a, b)
    }
    /// The product of two f32, every NaN the same.
    #[inline]
    fn mul_f32(&self, a: f32, b: f32) -> f32 {
        element::portable::mul_f32(a, b)
    }
    /// The smaller of two f32; NaN, the same one, if one is; -0.0 is less than 0.0.
    #[inline]
    fn min_f32(&self, a: f32, b: f32) -> f32 {
        element::portable::min_f32(a, b)
    }
    /// The larger of two f32; NaN, the same one, if one is; -0.0 is less than 0.0.
    #[inline]
    fn max_f32(&self, a: f32, b: f32) -> f32 {
        element::portable::max_f32(a, b)
    }
    /// Four e4m3 (low bits first) as f32.
    #[inline]
    fn f32_from_e4m3x4(&self, word: u32) -> [f32; 4] {
        element::portable::f32_from_e4m3x4(word)
    }
    /// Four f32 rounded to e4m3, nearest even, every NaN the same; what is too large, to the largest.
    #[inline]
    fn e4m3x4_from_f32(&self, value: [f32; 4]) -> u32 {
        element::portable::e4m3x4_from_f32(value)
    }
    /// Four e5m2 (low bits first) as f32.
    #[inline]
    fn f32_from_e5m2x4(&self, word: u32) -> [f32; 4] {
        element::portable::f32_from_e5m2x4(word)
    }
    /// Four f32 rounded to e5m2, nearest even, every NaN the same; what is too large, infinity included, to the largest finite number.
    #[inline]
    fn e5m2x4_from_f32(&self, value: [f32; 4]) -> u32 {
        element::portable::e5m2x4_from_f32(value)
    }
    /// The sums of two f16 each, rounded once, nearest even, every NaN the same.
    #[inline]
    fn add_f16x2(&self, a: u32, b: u32) -> u32 {
        let ([a, c], [b, d]) = (element::portable::f32_from_f16x2(a), element::portable::f32_from_f16x2(b));
        element::portable::f16x2_from_f32([a + b, c + d])
    }
    /// The sums of two bf16 each, rounded once, nearest even, every NaN the same.
    #[inline]
    fn add_bf16x2(&self, a: u32, b: u32) -> u32 {
        let ([a, c], [b, d]) = (element::portable::f32_from_bf16x2(a), element::portable::f32_from_bf16x2(b));
        element::portable::bf16x2_from_f32([a + b, c + d])
    }
}
