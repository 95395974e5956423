//! The one error type: a variant a cause, with the numbers in it.
//!
//! Long: it is one list.

use std::time::Duration;

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode, MAX_RANKS, Phase};
use allfold_kernels::protocol::preset::Preset;

use crate::cuda::{DriverError, DriverMissing, device::DeviceError, ptx::PtxRefused};
use crate::rendezvous::RendezvousError;
use crate::tuning::TableError;

/// What every fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call was refused or failed. Refusals happen before anything is launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A communicator of no ranks, or of more than there can be.
    #[error("{world} ranks asked for: a communicator has 1 to {MAX_RANKS}")]
    WorldSize {
        /// Ranks asked for.
        world: usize,
    },
    /// A call with buffers, or a split with colors, for another number of ranks than this process drives.
    #[error("{got} ranks named to a communicator that has {local} in this process")]
    RankCount {
        /// Ranks of the communicator that this process drives.
        local: usize,
        /// Ranks that were named.
        got: usize,
    },
    /// Ranks disagree on the length.
    #[error("rank {rank} gives {elems} elements where rank 0 gives {expected}")]
    LengthMismatch {
        /// The rank that differs from rank 0.
        rank: u32,
        /// Its elements.
        elems: u64,
        /// Rank 0's elements.
        expected: u64,
    },
    /// A rank's input and output differ in length.
    #[error("rank {rank}: input of {input_elems} elements, output of {output_elems}")]
    OutputLength {
        /// The rank.
        rank: u32,
        /// Elements of its input.
        input_elems: u64,
        /// Elements of its output.
        output_elems: u64,
    },
    /// A pointer that is not aligned to its elements.
    #[error("rank {rank}: address {address:#x} is not aligned to {align_bytes} bytes, one element")]
    Misaligned {
        /// The rank.
        rank: u32,
        /// The address.
        address: u64,
        /// Bytes of one element.
        align_bytes: usize,
    },
    /// A null pointer with a length above zero.
    #[error("rank {rank}: null pointer for {elems} elements")]
    NullPointer {
        /// The rank.
        rank: u32,
        /// Elements claimed.
        elems: u64,
    },
    /// A length whose end lies outside the address space.
    #[error("rank {rank}: {elems} elements of {elem_bytes} bytes from {address:#x} pass the end of the address space")]
    TooLong {
        /// The rank.
        rank: u32,
        /// Start of the buffer.
        address: u64,
        /// Elements claimed.
        elems: u64,
        /// Bytes of one element.
        elem_bytes: usize,
    },
    /// An output overlaps another buffer, and is not the same rank's input as a whole.
    #[error("the output of rank {rank} overlaps the {other} of rank {other_rank} by {overlap_bytes} bytes")]
    Overlap {
        /// Whose output.
        rank: u32,
        /// `"input"` or `"output"`.
        other: &'static str,
        /// Of which rank.
        other_rank: u32,
        /// Bytes in common.
        overlap_bytes: u64,
    },
    /// A one-shot read in place by peers cannot be written in place.
    #[error(
        "{} in place with a registered input is unsafe: peers read or store to what this rank still needs; \
         use a push, a two-shot, a staged input, or another output",
        algorithm.name()
    )]
    InPlace {
        /// The algorithm asked for.
        algorithm: Algorithm,
    },
    /// An algorithm whose ranks would use each other's buffers, where those are other processes'.
    #[error(
        "{} with a registered input: peers are other processes, which cannot reach this rank's buffers; use a push or a \
         staged input",
        algorithm.name()
    )]
    OutOfReach {
        /// The algorithm.
        algorithm: Algorithm,
    },
    /// An algorithm that is not for so many ranks.
    #[error("{} is not for {world} ranks", algorithm.name())]
    NotForWorld {
        /// The algorithm.
        algorithm: Algorithm,
        /// How many.
        world: u32,
    },
    /// More bytes than the communicator has room for.
    #[error("{what} of {needed_bytes} bytes needed, {capacity_bytes} there: see Options::{}",
        if *what == "landing" { "landing_bytes" } else { "capacity_bytes" })]
    Capacity {
        /// What there is too little of: `"staging"`, `"scratch"` or `"landing"`.
        what: &'static str,
        /// Bytes that the call needs.
        needed_bytes: u64,
        /// Bytes that the communicator has.
        capacity_bytes: u64,
    },
    /// A dtype, algorithm or input mode that the communicator was not made for.
    #[error("{what} was not declared when the communicator was made: see Options::{option}")]
    NotDeclared {
        /// What the call asks for.
        what: &'static str,
        /// The option that declares it.
        option: &'static str,
    },
    /// A preset that has no such input mode.
    #[error("protocol {} has no form for {} input", preset.name(), input.name())]
    NoSuchForm {
        /// The protocol.
        preset: Preset,
        /// The input mode.
        input: InputMode,
    },
    /// A grid that cannot be launched.
    #[error(
        "{blocks} blocks of {threads} threads asked for: 1 to {max_blocks} blocks of 1 to {max_threads} threads can run together here"
    )]
    Grid {
        /// Blocks asked for.
        blocks: u32,
        /// Threads a block asked for.
        threads: u32,
        /// Most blocks that can be resident for each rank.
        max_blocks: u32,
        /// Most threads of a block.
        max_threads: u32,
    },
    /// Host buffers given to a communicator over GPUs, or the other way round.
    #[error("rank {rank} gives {got} memory to a communicator over {expected}")]
    WrongMemory {
        /// The rank.
        rank: u32,
        /// What it gave.
        got: &'static str,
        /// What the communicator works on.
        expected: &'static str,
    },
    /// Ranks that share a GPU must have streams of their own.
    #[error("ranks {ranks:?} share GPU {device} and a stream: the first would wait for the second for ever")]
    SharedStream {
        /// Two ranks.
        ranks: [u32; 2],
        /// Their GPU.
        device: u32,
    },
    /// A call on another stream than the rank's last one: nothing would keep the two apart.
    #[error(
        "rank {rank}: the last call came on another stream; put the two in order by Communicator::change_streams, or call \
         Communicator::finish before"
    )]
    OtherStream {
        /// The rank.
        rank: u32,
    },
    /// No kernel access from one GPU to another.
    #[error(
        "GPU {from} cannot access memory of GPU {to}: no peer access (a path through host memory is not there yet)"
    )]
    NoPeerAccess {
        /// Ordinal of the GPU that would read.
        from: u32,
        /// Ordinal of the GPU that would be read.
        to: u32,
    },
    /// No such GPU.
    #[error("no GPU {ordinal}: this process sees {count}")]
    NoSuchDevice {
        /// Ordinal asked for.
        ordinal: u32,
        /// GPUs that there are.
        count: u32,
    },
    /// A GPU older than any PTX we have.
    #[error("GPU {ordinal} has compute capability {major}.{minor}: 8.0 is the least that is supported")]
    TooOld {
        /// Its ordinal.
        ordinal: u32,
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
    },
    /// Fewer blocks can be resident together than there are ranks.
    #[error(
        "GPU {ordinal} has room for {free} more blocks that wait for each other, and {ranks} ranks on it: other communicators hold the rest"
    )]
    NotResident {
        /// Its ordinal.
        ordinal: u32,
        /// Ranks of the new communicator on it.
        ranks: u32,
        /// Blocks that no communicator holds.
        free: u32,
    },
    /// A kernel of which a multiprocessor does not hold even the smallest blocks.
    #[error("GPU {ordinal} cannot run a kernel, not even by the smallest blocks")]
    KernelTooLarge {
        /// Its ordinal.
        ordinal: u32,
    },
    /// `CUDA_LAUNCH_BLOCKING=1`: the first rank's launch would wait for ranks that are not launched yet.
    #[error("CUDA_LAUNCH_BLOCKING is set: one thread could never launch the second rank")]
    LaunchBlocking,
    /// No CUDA driver on this machine.
    #[error(transparent)]
    DriverMissing(#[from] DriverMissing),
    /// The driver refused our PTX.
    #[error(transparent)]
    PtxRefused(Box<PtxRefused>),
    /// A tuning table that cannot be read, or is not for these ranks.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A call of the CUDA driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A rank waited for others longer than [`Options::timeout`](crate::Options::timeout): the outputs of that call and of all after it
    /// are not valid, and the communicator is at its end.
    #[error(
        "rank {waiting_rank} waited {waited:.1?} for {} in call {epoch}, block {block}: {}",
        named(missing),
        phase.waits_for()
    )]
    Timeout {
        /// Who waited.
        waiting_rank: u32,
        /// Who did not come: where calls are compared those that have not come to this call at all, if there are any.
        missing: Vec<u32>,
        /// Where in the call.
        phase: Phase,
        /// The block that waited.
        block: u32,
        /// The call's number, modulo 2^40.
        epoch: u64,
        /// How long it waited; on ranks of other processes: how long their own may wait, which is the same unless ranks have been given
        /// different [`Options::timeout`](crate::Options::timeout)s.
        waited: Duration,
    },
    /// Ranks do not reach each other, though they should: there is no communicator, and on every rank the same error. See
    /// [`SelfTest`](crate::SelfTest).
    #[error("the self-test has failed {}: {what}; {hint}", paths(pairs))]
    SelfTest {
        /// Ordered pairs of ranks, in order: what the first does has not come to the second. Where data came that tell nothing
        /// of whose they are: all pairs that they may be of.
        pairs: Vec<(u32, u32)>,
        /// What was seen.
        what: String,
        /// Where to look for the cause.
        hint: String,
    },
    /// [`Aborter::abort`](crate::Aborter::abort) stopped the communicator.
    #[error("rank {by} aborted the communicator")]
    Aborted {
        /// Who did.
        by: u32,
    },
    /// A call or a replay was launched on some ranks only, and the communicator is at its end. Make a new one.
    #[error("the communicator is at its end: {0}")]
    Ended(&'static str),
    /// Too few hardware queues: streams that share one run one after the other, and ranks of one GPU wait for each other.
    #[error(
        "{ranks} ranks share GPU {ordinal}, which needs more than {connections} hardware queues: set \
         CUDA_DEVICE_MAX_CONNECTIONS=32 before CUDA starts"
    )]
    TooFewQueues {
        /// Its ordinal.
        ordinal: u32,
        /// Ranks on it.
        ranks: u32,
        /// Hardware queues of each GPU, as the environment sets them.
        connections: u32,
    },
    /// A rank is gone: its thread or its process has ended.
    #[error("rank {rank} is gone")]
    PeerGone {
        /// The rank.
        rank: u32,
    },
    /// The workspaces of a communicator of this capacity do not fit the address space.
    #[error("a capacity of {capacity_bytes} bytes does not fit the address space")]
    CapacityTooLarge {
        /// Bytes asked for.
        capacity_bytes: u64,
    },
    /// Landing slots are larger than kernels can address.
    #[error("landing slots of {landing_bytes} bytes: {most_bytes} are the most for so many ranks")]
    LandingTooLarge {
        /// Bytes of a slot that were asked for.
        landing_bytes: u64,
        /// Most bytes that it may have.
        most_bytes: u64,
    },
    /// Room for more captured calls than there can be.
    #[error("room for {calls} captured calls asked for: {most} are the most")]
    CapturedCallsTooLarge {
        /// Captured calls asked for.
        calls: u32,
        /// The most.
        most: u32,
    },
    /// A rank that its group does not have.
    #[error("rank {rank} of {world}: ranks are numbered from 0")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Ranks of the group.
        world: u32,
    },
    /// A list of survivors that cannot be.
    #[error("a list of the ranks to rebuild a communicator of: {why}")]
    Survivors {
        /// What is wrong with it.
        why: &'static str,
    },
    /// This process can use a GPU no more, as after a kernel that trapped: nothing but a new process helps.
    #[error("the context of rank {rank} is lost: {source}")]
    ContextLost {
        /// The rank.
        rank: u32,
        /// What the driver says.
        source: DriverError,
    },
    /// Ranks did not meet.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// Ranks disagree on what has to be the same on all: when they are connected, on every rank the same error; or on what a call is,
    /// and then the communicator is at its end.
    #[error("ranks disagree on {what}: {}", by_value(values))]
    Disagreement {
        /// What differs.
        what: String,
        /// Each value, and the ranks that have it.
        values: Vec<(String, Vec<u32>)>,
    },
    /// A name that this communicator has not given, or has taken back.
    #[error("no buffer is registered under this name here: it was released, or belongs to another communicator")]
    NotRegistered,
    /// A buffer of a call that does not lie in what the call says it is registered as, or not at the same distance from its start
    /// as the other ranks'.
    #[error(
        "rank {rank}: {bytes} bytes at {address:#x} do not lie in what the call says is registered, or not where the other \
         ranks' do"
    )]
    OutsideRegistration {
        /// The rank.
        rank: u32,
        /// Start of its buffer.
        address: u64,
        /// Its length.
        bytes: u64,
    },
    /// A buffer that ranks in other processes cannot map: on every rank the same error.
    #[error("the buffer of rank {rank} at {address:#x} cannot be shared between processes: {why}")]
    NotShareable {
        /// Whose buffer.
        rank: u32,
        /// Its address there.
        address: u64,
        /// What it is, and what to use in its place.
        why: String,
    },
    /// The memory of a registered buffer was freed before the buffer was released: calls that used it are not valid.
    #[error("rank {rank}: the registered memory at {address:#x} was freed before it was released")]
    BufferFreed {
        /// The rank.
        rank: u32,
        /// Its address.
        address: u64,
    },
    /// A call on buffers that are to be registered later, and that is not being captured.
    #[error("rank {rank}: a call on buffers to be registered later is not being captured")]
    NotCaptured {
        /// The rank.
        rank: u32,
    },
    /// A capture within another one, on CPU ranks.
    #[error("calls are being captured already: end that capture first")]
    Capturing,
    /// A graph was launched whose buffers were not known to all ranks: before [`finish_capture`](crate::Communicator::finish_capture),
    /// or after one that failed. Nothing was reduced, and the communicator is at its end.
    #[error("rank {rank} ran a captured call before finish_capture had made its buffers known")]
    UnknownBuffers {
        /// The rank.
        rank: u32,
    },
    /// More captured calls than there is room for.
    #[error("{most} calls whose buffers peers use are captured already: see Options::captured_calls")]
    TooManyCaptured {
        /// Room for so many.
        most: u32,
    },
    /// Another rank failed at what all ranks do together: connect, split, register, release or finish a capture. That one has
    /// the error itself.
    #[error("rank {rank} failed: {why}")]
    RankFailed {
        /// The rank.
        rank: u32,
        /// What it said.
        why: String,
    },
    /// The host has too little memory for the workspaces of all ranks.
    #[error("the workspaces of all ranks take {needed_bytes} bytes, and this host has {available_bytes} left")]
    TooLittleMemory {
        /// Bytes of all workspaces.
        needed_bytes: u64,
        /// Bytes that the host has left.
        available_bytes: u64,
    },
    /// The host has too little memory, or will start no more threads or open no more files.
    #[error("{what}: {source}")]
    Host {
        /// What was being done.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// An entry point that the embedded PTX should have and has not: a defect of this crate.
    #[error("no kernel {name} in the embedded PTX for {}", dtype.name())]
    NoKernel {
        /// The entry point.
        name: String,
        /// The dtype of its module.
        dtype: Dtype,
    },
    /// Embedded PTX that does not unpack: a defect of this crate, or of the program that has it in it.
    #[error("pack {pack} of the embedded PTX, {bytes} bytes, does not unpack: {why}")]
    PtxDamaged {
        /// The pack, a file of `host/ptx`.
        pack: &'static str,
        /// Its size.
        bytes: usize,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// The disagreement of ranks on `what`, where `values` are those of all ranks in order.
    pub(crate) fn disagreement(what: String, values: impl Iterator<Item = String>) -> Error {
        let mut all: Vec<(String, Vec<u32>)> = Vec::new();
        for (rank, value) in (0..).zip(values) {
            match all.iter_mut().find(|(known, _)| *known == value) {
                Some((_, ranks)) => ranks.push(rank),
                None => all.push((value, vec![rank])),
            }
        }
        Error::Disagreement { what, values: all }
    }
}

/// `from rank 0 to rank 1, from rank 2 to rank 1`.
fn paths(pairs: &[(u32, u32)]) -> String {
    pairs.iter().map(|(from, to)| format!("from rank {from} to rank {to}")).collect::<Vec<_>>().join(", ")
}

/// `rank 1`, or `ranks [1, 3]`.
fn named(ranks: &[u32]) -> String {
    match ranks {
        [rank] => format!("rank {rank}"),
        ranks => format!("ranks {ranks:?}"),
    }
}

/// `a on ranks [0, 1], b on ranks [2]`.
fn by_value(values: &[(String, Vec<u32>)]) -> String {
    let of = |(value, ranks): &(String, Vec<u32>)| format!("{value} on ranks {ranks:?}");
    values.iter().map(of).collect::<Vec<_>>().join(", ")
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Error {
        match error {
            DeviceError::DriverMissing(error) => Error::DriverMissing(error),
            DeviceError::NoSuchDevice { ordinal, count } => Error::NoSuchDevice { ordinal, count },
            DeviceError::Driver(error) => Error::Driver(error),
        }
    }
}
