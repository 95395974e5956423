//! Where the areas of a rank's workspace lie: flags, epochs, cursors and status words at fixed places, then what has a capacity.

use core::mem::size_of;

use super::abi::{AREA_ALIGN_BYTES, BANKS, Bank, FlagRow, MAX_BLOCKS, MAX_RANKS, PACK_BYTES, Phase, Rank};
use super::mark::MARKS_BYTES;
use super::push::Cursor;
use super::signature::untold;

/// Bytes from the start of the listener's workspace to the flag of `row` that only `emitter` writes.
pub const fn flag_offset_bytes(row: FlagRow, emitter: Rank) -> usize {
    let row = (row.phase as usize * BANKS + row.bank.0 as usize) * MAX_BLOCKS + row.block as usize;
    (row * MAX_RANKS + emitter.0 as usize) * size_of::<u64>()
}

/// Bytes of all flags of a rank.
pub const FLAGS_BYTES: usize = Phase::COUNT * BANKS * MAX_BLOCKS * MAX_RANKS * size_of::<u64>();

/// 64-bit words from the start of a workspace that number calls, or generations: all flags, then the blocks' own words.
const EPOCH_WORDS: usize = FLAGS_BYTES / size_of::<u64>() + MAX_BLOCKS;

/// The 64-bit words of a new workspace up to [`SIGNAL_BYTES`], whose last call was that of `last_epoch`, which is 0 but in tests: each
/// flag and epoch word is that, each block's cursor is in the generation of that number, which is empty, and no rank has told
/// what its next call is; status words are 0. Of `last_epoch` the low 62 bits count, so that no wrap comes near.
pub fn first_words(last_epoch: u64) -> impl Iterator<Item = u64> {
    let last_epoch = last_epoch & (u64::MAX >> 2);
    let cursor = Cursor { serial: last_epoch, used: 0, announced: false }.encode();
    let epochs = (0..EPOCH_WORDS).map(move |_| last_epoch);
    let cursors = (0..MAX_BLOCKS).flat_map(move |_| cursor);
    let calls = (0..BANKS * MAX_RANKS * 2).map(move |_| untold(last_epoch));
    let status = STOP_OFFSET_BYTES / size_of::<u64>()..SIGNAL_BYTES / size_of::<u64>();
    epochs.chain(cursors).chain(calls).chain(status.map(|_| 0))
}

/// Bytes from the start of a workspace to the epoch word of `block`.
pub const fn epoch_offset_bytes(block: u32) -> usize {
    FLAGS_BYTES + block as usize * size_of::<u64>()
}

/// Bytes from the start of a workspace to the [`Cursor`] of `block`.
pub const fn cursor_offset_bytes(block: u32) -> usize {
    EPOCH_WORDS * size_of::<u64>() + block as usize * CURSOR_BYTES
}

/// Bytes of a cursor.
const CURSOR_BYTES: usize = 2 * size_of::<u64>();
// It is accessed as a whole.
const _: () = assert!(cursor_offset_bytes(0).is_multiple_of(CURSOR_BYTES));

/// Bytes from the start of the listener's workspace to the two words in which `emitter` tells what its call is, in the calls of one
/// parity.
pub const fn call_offset_bytes(bank: Bank, emitter: Rank) -> usize {
    cursor_offset_bytes(MAX_BLOCKS as u32) + (bank.0 as usize * MAX_RANKS + emitter.0 as usize) * CALL_BYTES
}

/// Bytes of what a rank tells of a call.
const CALL_BYTES: usize = 2 * size_of::<u64>();
const _: () = assert!(call_offset_bytes(Bank(0), Rank(0)).is_multiple_of(CALL_BYTES));

/// Bytes from the start of a workspace to the word that says why its rank stopped: 0, or a [`Stop`](super::status::Stop). The rank
/// and its peers write it.
pub const STOP_OFFSET_BYTES: usize = call_offset_bytes(Bank(BANKS as u32), Rank(0));
/// Bytes from the start of a workspace to a byte for each rank, which is not 0 when that rank is gone.
pub const GONE_OFFSET_BYTES: usize = STOP_OFFSET_BYTES + size_of::<u64>();
/// Bytes from the start of a workspace to the set of ranks that this one has waited for in vain.
pub const MISSING_OFFSET_BYTES: usize = GONE_OFFSET_BYTES + size_of::<u64>();
/// Bytes from the start of a workspace to how long it has waited, and for whom, as [`LongestWait`](super::status::LongestWait) has it.
pub const WAITED_OFFSET_BYTES: usize = MISSING_OFFSET_BYTES + size_of::<u64>();
/// Bytes from the start of a workspace to the count of wrong elements that `verify` kernels keep.
pub const WRONG_OFFSET_BYTES: usize = WAITED_OFFSET_BYTES + size_of::<u64>();
/// Bytes from the start of a workspace to [`FIRST_WRONG_WORDS`] words about the first wrong element: its index, its bits, and the call's
/// epoch plus one, 0 while there is none.
pub const FIRST_WRONG_OFFSET_BYTES: usize = WRONG_OFFSET_BYTES + size_of::<u64>();
/// Words about the first wrong element.
pub const FIRST_WRONG_WORDS: usize = 3;
/// Bytes of the part of a workspace that must be set before any rank may start: by [`first_words`].
pub const SIGNAL_BYTES: usize =
    (FIRST_WRONG_OFFSET_BYTES + FIRST_WRONG_WORDS * size_of::<u64>()).next_multiple_of(AREA_ALIGN_BYTES);

/// Which of the sets of landing slots a call uses: see `push`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation(pub u32);

/// Generations of a landing area. A power of two, so that no wrap of a cursor skips any.
pub const GENERATIONS: usize = 4;
// Between a generation's last call and the first that uses it again there must be a call that announces itself and another
// that waits for that.
const _: () = assert!(GENERATIONS.is_power_of_two() && GENERATIONS >= 3);

/// Packs of all peers' landing slots of a generation, at most, that small calls share before the next generation begins. The more
/// there are, the more rarely a call announces itself; so many, in all generations, still fit the second-level cache.
pub const LANDING_SHARED_PACKS: u32 = (8 << 20) / PACK_BYTES as u32;

/// Which of a listener's landing slots in a generation is `emitter`'s: it has one for each other rank.
pub const fn landing_slot(listener: Rank, emitter: Rank) -> u32 {
    emitter.0 - (emitter.0 > listener.0) as u32
}

/// How many places `peer` is behind the right neighbour of `rank`.
pub const fn step_to(rank: Rank, peer: Rank, world: u32) -> u32 {
    let step = peer.0 + world - rank.0 - 1;
    if step < world { step } else { step - world }
}

/// Where the areas of a workspace lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceLayout {
    /// Start of the area that peers gather reduced parts from.
    pub scratch_offset_bytes: usize,
    /// Start of the first staging bank.
    pub staging_offset_bytes: usize,
    /// Bytes from one staging bank to the next.
    pub staging_bank_bytes: usize,
    /// Start of the landing area, up to the marks; its words are [`MARKER`](super::abi::MARKER) before the first call.
    pub landing_offset_bytes: usize,
    /// Bytes of one landing slot; there are `ranks - 1` in each generation.
    pub landing_slot_bytes: usize,
    /// Start of the [marks](super::mark), to the end of the workspace; there may be none.
    pub marks_offset_bytes: usize,
    /// Bytes of the whole workspace.
    pub total_bytes: usize,
}

impl WorkspaceLayout {
    /// The layout for `world` ranks, a capacity of `scratch_bytes` and `staging_bytes` a call, and landing slots of
    /// `landing_bytes`; a capacity of 0 takes no space.
    ///
    /// # Errors
    /// `None` when the sizes do not fit the address space, or 32 bits do not count the packs of a landing area.
    pub const fn new(
        world: u32,
        scratch_bytes: usize,
        staging_bytes: usize,
        landing_bytes: usize,
    ) -> Option<WorkspaceLayout> {
        const fn area(bytes: usize) -> Option<usize> {
            bytes.checked_next_multiple_of(AREA_ALIGN_BYTES)
        }
        let (Some(scratch), Some(bank)) = (area(scratch_bytes), area(staging_bytes)) else { return None };
        let Some(slot) = area(landing_bytes) else { return None };
        let Some(staging_offset_bytes) = SIGNAL_BYTES.checked_add(scratch) else { return None };
        let Some(banks) = bank.checked_mul(BANKS) else { return None };
        let Some(landing_offset_bytes) = staging_offset_bytes.checked_add(banks) else { return None };
        let Some(landing) = slot.checked_mul(world.saturating_sub(1) as usize * GENERATIONS) else { return None };
        if landing / PACK_BYTES > u32::MAX as usize {
            return None;
        }
        let Some(total_bytes) = landing_offset_bytes.checked_add(landing) else { return None };
        Some(WorkspaceLayout {
            scratch_offset_bytes: SIGNAL_BYTES,
            staging_offset_bytes,
            staging_bank_bytes: bank,
            landing_offset_bytes,
            landing_slot_bytes: slot,
            marks_offset_bytes: total_bytes,
            total_bytes,
        })
    }

    /// The same with room for marks.
    ///
    /// # Errors
    /// `None` when the sizes do not fit the address space.
    pub const fn with_marks(self) -> Option<WorkspaceLayout> {
        match self.marks_offset_bytes.checked_add(MARKS_BYTES) {
            Some(total_bytes) => Some(WorkspaceLayout { total_bytes, ..self }),
            None => None,
        }
    }

    /// Whether there is room for marks.
    pub const fn has_marks(&self) -> bool {
        self.marks_offset_bytes < self.total_bytes
    }

    /// Packs of a landing slot.
    pub const fn landing_slot_packs(&self) -> u32 {
        (self.landing_slot_bytes / PACK_BYTES) as u32
    }

    /// Packs of a generation of landing slots, for the `world` ranks that the layout is for.
    pub const fn landing_generation_packs(&self, world: u32) -> u32 {
        self.landing_slot_packs() * (world - 1)
    }
}
