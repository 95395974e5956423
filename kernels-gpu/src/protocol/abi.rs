//! What host and device must agree on. A number that both sides use is here, or in
//! `arguments.rs`, `dtype.rs`, `reduction.rs` or `workspace.rs` and passed on here.

pub use super::arguments::{KernelArgs, ROW_WORDS};
pub use super::dtype::Dtype;
pub use super::reduction::{ReduceOp, Reduction};
pub use super::workspace::{
    FIRST_WRONG_OFFSET_BYTES, FIRST_WRONG_WORDS, FLAGS_BYTES, GENERATIONS, GONE_OFFSET_BYTES, Generation,
    LANDING_SHARED_PACKS, MISSING_OFFSET_BYTES, SIGNAL_BYTES, STOP_OFFSET_BYTES, WAITED_OFFSET_BYTES,
    WRONG_OFFSET_BYTES, WorkspaceLayout, call_offset_bytes, cursor_offset_bytes, epoch_offset_bytes, first_words,
    flag_offset_bytes, landing_slot, step_to,
};

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

/// How an all-reduce is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Algorithm {
    /// Each rank reads all inputs and writes the whole sum.
    OneShot,
    /// Each rank reduces its own part; then every rank gathers the parts.
    TwoShot,
    /// Each rank stores its input into the landing areas of all; the data are their own flags, or have them beside them.
    OneShotPush,
    /// Each rank stores each part into its owner's landing area, and the owner stores the sum into those of all.
    TwoShotPush,
    /// Each rank reduces its own part and stores the sum into every rank's output.
    OnePass,
    /// Two ranks store their terms, and then their sums, into each other's output.
    Exchange,
}

impl Algorithm {
    /// Every algorithm there is.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::OneShot,
        Algorithm::TwoShot,
        Algorithm::OneShotPush,
        Algorithm::TwoShotPush,
        Algorithm::OnePass,
        Algorithm::Exchange,
    ];

    /// The name that users and entry points have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::OneShot => "one_shot",
            Algorithm::TwoShot => "two_shot",
            Algorithm::OneShotPush => "one_shot_push",
            Algorithm::TwoShotPush => "two_shot_push",
            Algorithm::OnePass => "one_pass",
            Algorithm::Exchange => "exchange",
        }
    }

    /// Those that follow whatever protocol is asked for: any input mode, barriers of any scope and order.
    pub const OF_ANY_PROTOCOL: [Algorithm; 2] = [Algorithm::OneShot, Algorithm::TwoShot];

    /// Whether it is one of [`Algorithm::OF_ANY_PROTOCOL`].
    pub const fn has_any_protocol(self) -> bool {
        match self {
            Algorithm::OneShot | Algorithm::TwoShot => true,
            Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => false,
        }
    }

    /// Whether it is for communicators of `world` ranks.
    pub const fn takes(self, world: u32) -> bool {
        match self {
            Algorithm::OneShot
            | Algorithm::TwoShot
            | Algorithm::OneShotPush
            | Algorithm::TwoShotPush
            | Algorithm::OnePass => true,
            Algorithm::Exchange => world == 2,
        }
    }

    /// Whether data go to peers' landing areas: then nobody but its own rank touches a buffer of the caller, and whether
    /// an input is registered makes no difference.
    pub const fn pushes(self) -> bool {
        match self {
            Algorithm::OneShot | Algorithm::TwoShot | Algorithm::OnePass | Algorithm::Exchange => false,
            Algorithm::OneShotPush | Algorithm::TwoShotPush => true,
        }
    }
}

/// How peers get to see a rank's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
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

/// Where in a call a rank waits. Each barrier has flags of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Phase {
    /// Before the first read of a peer's data.
    Start,
    /// Between the two steps of a two-shot.
    Middle,
    /// After the last read of a peer's data.
    End,
    /// For data that land in this rank's memory and are their own flags, and for what a push announces.
    Landing,
}

impl Phase {
    /// Those that are barriers, in the order of a call.
    pub const BARRIERS: [Phase; 3] = [Phase::Start, Phase::Middle, Phase::End];
    /// Every phase there is, in the order of their numbers.
    pub const ALL: [Phase; 4] = [Phase::Start, Phase::Middle, Phase::End, Phase::Landing];
    /// How many there are; each has flags.
    pub const COUNT: usize = Phase::ALL.len();

    /// What a rank waits for there.
    pub const fn waits_for(self) -> &'static str {
        match self {
            Phase::Start => "the start barrier",
            Phase::Middle => "the middle barrier",
            Phase::End => "the end barrier",
            Phase::Landing => "a peer's push",
        }
    }

    /// The name that users have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Middle => "middle",
            Phase::End => "end",
            Phase::Landing => "landing",
        }
    }
}

/// Words of a host's page for the kernels of its ranks: the [`Stop`](super::status::Stop) that it asks for, or 0, and a byte
/// for each rank, not 0 when that one is gone.
pub const HOST_BOARD_WORDS: usize = 2;

/// Which of the two banks (of flags, of staging) a call uses: the parity of its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bank(pub u32);

/// Banks there are.
pub const BANKS: usize = 2;

/// What every word of a landing area holds while nothing has landed there: a NaN of each floating-point type, or two of a
/// 16-bit one.
pub const MARKER: u32 = u32::MAX;

/// A row of flags: one flag for each rank that may write into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlagRow {
    /// The barrier.
    pub phase: Phase,
    /// Parity of the epoch, or of the generation's serial.
    pub bank: Bank,
    /// The block that listens, below [`MAX_BLOCKS`].
    pub block: u32,
}
