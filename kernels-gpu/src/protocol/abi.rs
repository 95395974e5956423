//! What host and device must agree on: limits, dtypes, phases, kernel arguments, the layout of a rank's workspace, and
//! the names of entry points. A number that both sides use is here and nowhere else.

use core::mem::size_of;

/// Most ranks that one communicator can have.
pub const MAX_RANKS: usize = 8;
/// Most blocks that one launch can have: rows of flags and epoch words exist for this many.
pub const MAX_BLOCKS: usize = 256;
/// Bytes of one pack, the unit in which data move.
pub const PACK_BYTES: usize = 16;
/// 32-bit words of one pack.
pub const PACK_WORDS: usize = PACK_BYTES / 4;
/// Every area of a workspace starts at a multiple of this many bytes (one cache line of the L2).
pub const AREA_ALIGN_BYTES: usize = 128;

/// The number of one rank of a communicator, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(pub u32);

/// Element type of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Dtype {
    /// IEEE binary32.
    F32,
    /// IEEE binary16, summed in f32.
    F16,
    /// bfloat16, summed in f32.
    Bf16,
}

impl Dtype {
    /// Every dtype there is.
    pub const ALL: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
        }
    }

    /// Elements of one pack.
    pub const fn lanes(self) -> usize {
        PACK_BYTES / self.bytes()
    }

    /// The name that users and entry points have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
        }
    }
}

/// How an all-reduce is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Each rank reads all inputs and writes the whole sum.
    OneShot,
    /// Each rank reduces its own part; then every rank gathers the parts.
    TwoShot,
}

impl Algorithm {
    /// Every algorithm there is.
    pub const ALL: [Algorithm; 2] = [Algorithm::OneShot, Algorithm::TwoShot];

    /// The name that users and entry points have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::OneShot => "one_shot",
            Algorithm::TwoShot => "two_shot",
        }
    }
}

/// How peers get to see a rank's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputMode {
    /// Peers read the caller's buffer in place (zero copy).
    Registered,
    /// The input is copied to the staging area before the kernel, in stream order: by a memcpy, or, where staging
    /// alternates between two banks, by a kernel that knows which.
    Memcpy,
    /// The kernel copies the input to the staging area as its first step.
    Copied,
}

impl InputMode {
    /// Every input mode there is.
    pub const ALL: [InputMode; 3] = [InputMode::Registered, InputMode::Memcpy, InputMode::Copied];

    /// The name that users have for it.
    pub const fn name(self) -> &'static str {
        match self {
            InputMode::Registered => "registered",
            InputMode::Memcpy => "memcpy",
            InputMode::Copied => "copied",
        }
    }

    /// Whether the staging area holds what peers read.
    pub const fn staged(self) -> bool {
        match self {
            InputMode::Registered => false,
            InputMode::Memcpy | InputMode::Copied => true,
        }
    }
}

/// Which barrier of a call a flag belongs to. Each phase has flags of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Phase {
    /// Before the first read of a peer's data.
    Start,
    /// Between the two steps of a two-shot.
    Middle,
    /// After the last read of a peer's data.
    End,
}

impl Phase {
    /// Every phase there is, in the order of a call.
    pub const ALL: [Phase; 3] = [Phase::Start, Phase::Middle, Phase::End];

    /// The name that users have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Middle => "middle",
            Phase::End => "end",
        }
    }
}

/// Which of the two banks (of flags, of staging) a call uses: the parity of its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bank(pub u32);

/// Banks there are.
pub const BANKS: usize = 2;

/// A row of flags: one flag for each rank that may write into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlagRow {
    /// The barrier.
    pub phase: Phase,
    /// Parity of the epoch.
    pub bank: Bank,
    /// The block that listens, below [`MAX_BLOCKS`].
    pub block: u32,
}

/// Bytes from the start of the listener's workspace to the flag of `row` that only `emitter` writes.
pub const fn flag_offset_bytes(row: FlagRow, emitter: Rank) -> usize {
    let row = (row.phase as usize * BANKS + row.bank.0 as usize) * MAX_BLOCKS + row.block as usize;
    (row * MAX_RANKS + emitter.0 as usize) * size_of::<u64>()
}

/// Bytes of all flags of a rank.
pub const FLAGS_BYTES: usize = Phase::ALL.len() * BANKS * MAX_BLOCKS * MAX_RANKS * size_of::<u64>();

/// 64-bit words from the start of a workspace that hold epochs: all flags, then the blocks' own words. A new
/// communicator sets each of them to the epoch of its last call, which is 0.
pub const EPOCH_WORDS: usize = FLAGS_BYTES / size_of::<u64>() + MAX_BLOCKS;

/// Bytes from the start of a workspace to the epoch word of `block`.
pub const fn epoch_offset_bytes(block: u32) -> usize {
    FLAGS_BYTES + block as usize * size_of::<u64>()
}

/// Bytes from the start of a workspace to the word that says which wait was given up: 0, or a
/// [`GaveUp`](super::status::GaveUp).
pub const GAVE_UP_OFFSET_BYTES: usize = EPOCH_WORDS * size_of::<u64>();
/// Bytes from the start of a workspace to the count of wrong elements that `verify` kernels keep.
pub const WRONG_OFFSET_BYTES: usize = GAVE_UP_OFFSET_BYTES + size_of::<u64>();
/// Bytes from the start of a workspace to two words about the first wrong element: its index in the high half with its
/// bits in the low half, then the call's epoch plus one, 0 while there is none.
pub const FIRST_WRONG_OFFSET_BYTES: usize = WRONG_OFFSET_BYTES + size_of::<u64>();
/// Bytes of the part of a workspace that must be set before any rank may start: epochs, then status words of zero.
pub const SIGNAL_BYTES: usize = (FIRST_WRONG_OFFSET_BYTES + 2 * size_of::<u64>()).next_multiple_of(AREA_ALIGN_BYTES);

/// Where the areas of a workspace lie, for a communicator that takes calls of up to `capacity_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceLayout {
    /// Start of the area that peers gather reduced parts from.
    pub scratch_offset_bytes: usize,
    /// Start of the first staging bank.
    pub staging_offset_bytes: usize,
    /// Bytes from one staging bank to the next.
    pub staging_bank_bytes: usize,
    /// Bytes of the whole workspace.
    pub total_bytes: usize,
}

impl WorkspaceLayout {
    /// The layout for a capacity of `scratch_bytes` and `staging_bytes` a call; a capacity of 0 takes no space.
    ///
    /// # Errors
    /// `None` when the sizes do not fit the address space.
    pub const fn new(scratch_bytes: usize, staging_bytes: usize) -> Option<WorkspaceLayout> {
        const fn area(bytes: usize) -> Option<usize> {
            bytes.checked_next_multiple_of(AREA_ALIGN_BYTES)
        }
        let (Some(scratch), Some(bank)) = (area(scratch_bytes), area(staging_bytes)) else { return None };
        let Some(staging_offset_bytes) = SIGNAL_BYTES.checked_add(scratch) else { return None };
        let Some(banks) = bank.checked_mul(BANKS) else { return None };
        let Some(total_bytes) = staging_offset_bytes.checked_add(banks) else { return None };
        Some(WorkspaceLayout {
            scratch_offset_bytes: SIGNAL_BYTES,
            staging_offset_bytes,
            staging_bank_bytes: bank,
            total_bytes,
        })
    }
}

/// The arguments of every kernel, passed by value. They do not change from replay to replay of a captured call.
///
/// Addresses are unified virtual addresses: every rank of the process may use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct KernelArgs {
    /// Where each rank's input can be read by all ranks: the caller's buffer, or staging bank 0.
    pub inputs: [u64; MAX_RANKS],
    /// Start of each rank's workspace.
    pub workspaces: [u64; MAX_RANKS],
    /// This rank's own workspace, `workspaces[rank]`: a kernel need not look it up.
    pub workspace: u64,
    /// This rank's own input, as the caller gave it.
    pub source: u64,
    /// This rank's output.
    pub output: u64,
    /// Elements of the call.
    pub elems: u64,
    /// Bytes added to `inputs` in calls of odd epoch: the distance of the staging banks, or 0.
    pub input_bank_bytes: u64,
    /// Bytes from the start of a workspace to its scratch area.
    pub scratch_offset_bytes: u64,
    /// Polls after which a wait is given up; 0: never.
    pub poll_limit: u64,
    /// This rank.
    pub rank: u32,
    /// Ranks of the communicator.
    pub world: u32,
    /// The protocol, encoded by [`super::spec::Protocol::encode`]; read by the kernels of the presets only.
    pub protocol: u32,
    /// 1 when every buffer of the caller that this rank touches is aligned to [`PACK_BYTES`], else 0.
    pub aligned: u32,
    /// Nanoseconds of a planted delay; read by the kernels of stress runs only.
    pub delay_ns: u32,
    /// One in so many places of a call is delayed.
    pub delay_one_in: u32,
}

const _: () = assert!(size_of::<KernelArgs>() == 2 * 8 * MAX_RANKS + 7 * 8 + 6 * 4 && size_of::<KernelArgs>() <= 4096);
