//! What a communicator is made for, and what one call asks for.

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::Protocol;

/// The reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum, in rank order.
    #[default]
    Sum,
}

impl ReduceOp {
    /// The name that users have for it.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
        }
    }
}

/// What a communicator is made for. Only what is declared here is loaded and given memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The protocol of all calls.
    pub protocol: Preset,
    /// A protocol in place of the named one, for experiments. Its `copy_in` is set by each call's input mode. Nothing is
    /// known of it but what [`Protocol::soundness`] says.
    pub custom: Option<Protocol>,
    /// Delays to plant in the kernels, which are then slow ones, of bf16 alone: for stress runs.
    pub delays: Option<Delays>,
    /// Element types of the calls to come.
    pub dtypes: Vec<Dtype>,
    /// Input modes of the calls to come; the first is what a call gets that asks for none.
    pub inputs: Vec<InputMode>,
    /// Algorithms of the calls to come; [`crate::Plan::choose`] picks among them.
    pub algorithms: Vec<Algorithm>,
    /// Bytes of the largest call that is staged or done in two shots. A registered one-shot needs no room.
    pub capacity_bytes: u64,
    /// Blocks that a rank's launch may take at most, and that are held for it on its GPU while the communicator lives;
    /// `None`: half of what no other communicator of this process holds there.
    pub max_blocks: Option<u32>,
    /// Polls after which a wait for a peer is given up, see [`crate::Communicator::check`]; `None` or 0: never.
    pub poll_limit: Option<u64>,
    /// Whether [`crate::Communicator::fill_stamps`] and its like will be called.
    pub stamps: bool,
    /// The epoch of the communicator's last call, so that a test can start near a wrap. 0 for everybody else.
    pub last_epoch: u64,
    /// Blocks and threads a block that a CPU rank can have; each is a thread of the host.
    pub cpu_shape: (u32, u32),
}

impl Default for Options {
    /// Our own protocol, all dtypes, registered input, both algorithms, 64 MiB, waits without end.
    fn default() -> Self {
        Options {
            protocol: Preset::default(),
            custom: None,
            delays: None,
            dtypes: Dtype::ALL.to_vec(),
            inputs: vec![InputMode::Registered],
            algorithms: Algorithm::ALL.to_vec(),
            capacity_bytes: 64 << 20,
            max_blocks: None,
            poll_limit: None,
            stamps: false,
            last_epoch: 0,
            cpu_shape: (1, 1),
        }
    }
}

impl Options {
    /// The protocol that calls of this algorithm and input mode follow; `None` where the named one has no such form.
    pub fn form(&self, algorithm: Algorithm, input: InputMode) -> Option<Protocol> {
        match self.custom {
            Some(protocol) => Some(Protocol { copy_in: input == InputMode::Copied, ..protocol }),
            None => self.protocol.protocol(algorithm, input),
        }
    }
}

/// Planted delays of a stress run: before flags, late ranks; at block syncs, late blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Nanoseconds of a late block; a late rank is four times as late.
    pub nanoseconds: u32,
    /// One in so many places of a call is delayed.
    pub one_in: u32,
}

/// What one call asks for beyond its buffers. The same on all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// The algorithm; `None`: as the plan chooses.
    pub algorithm: Option<Algorithm>,
    /// How peers get to see the input; `None`: the first of [`Options::inputs`].
    pub input: Option<InputMode>,
    /// Blocks of the launch; `None`: as the plan chooses.
    pub blocks: Option<u32>,
    /// Threads of a block; `None`: as the plan chooses.
    pub threads: Option<u32>,
}
