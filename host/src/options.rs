//! What a communicator is made for, and what one call asks for.

use std::time::Duration;

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode, ReduceOp};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::Protocol;

use crate::reach::Registered;
use crate::tuning::Table;

/// What a communicator is made for. Only what is declared here is loaded and given memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The protocol of all calls.
    pub protocol: Preset,
    /// A protocol in place of the named one, for experiments. Its `copy_in` is set by each call's input mode. Nothing is
    /// known of it but what [`Protocol::soundness`] says.
    pub custom: Option<Protocol>,
    /// Delays to plant in the kernels, which are then slow ones, of bf16 alone: for stress runs. All ranks have some, or none.
    pub delays: Option<Delays>,
    /// Whether the blocks of the last calls leave word of when they came where, for [`Communicator::trace`](crate::Communicator::trace).
    /// Kernels are then slow ones, of bf16 alone, and can have `delays`. The same on all ranks.
    pub trace: bool,
    /// Element types of the calls to come. On a GPU each costs time and memory, even if it is never used.
    pub dtypes: Vec<Dtype>,
    /// Reductions of the calls to come beside the sum, which is always there. On a GPU they share their kernels: one of them costs as much as all.
    pub ops: Vec<ReduceOp>,
    /// Input modes of the calls to come; the first is what a call gets that asks for none.
    pub inputs: Vec<InputMode>,
    /// Algorithms of the calls to come; [`crate::Plan::choose`] picks among them.
    pub algorithms: Vec<Algorithm>,
    /// A table that `allfold tune` has measured: its rows are used before the built-in ones, and only for the number of ranks
    /// and the size of elements that they were measured for. A table of other GPUs is refused. Nothing is read from the
    /// environment.
    ///
    /// Ranks that chose by unequal tables would hang. Ranks of one process share these options, and so their table; ranks
    /// in several processes compare [`Table::fingerprint`] when they meet, with all else that has to be equal.
    ///
    /// ```
    /// use allfold::{Communicator, Options, tuning::Table};
    ///
    /// # fn main() -> Result<(), allfold::Error> {
    /// // What `allfold tune --backend cpu --ranks 2` wrote: `std::fs::read_to_string("allfold.tuning")`.
    /// let text = "\
    /// ## allfold tuning 1
    /// ## device CPU: any
    /// ## date 2026-11-29
    /// ## command allfold tune --backend cpu --ranks 2
    /// 2 4 registered 4096 one_shot 256 1024
    /// 2 4 registered max two_shot 256 1024
    /// ";
    /// let options = Options { tuning: Some(Table::read(text)?), ..Options::default() };
    /// let ranks = Communicator::cpu_with(2, options)?;
    /// # drop(ranks);
    /// # Ok(())
    /// # }
    /// ```
    pub tuning: Option<Table>,
    /// Bytes of the largest call that is staged or a `two_shot`, and not pushed. A registered one-shot needs no room, and pushes have
    /// [`Options::landing_bytes`].
    pub capacity_bytes: u64,
    /// Bytes of a landing slot, which bounds what may be pushed: a `one_shot_push` has so many bytes at most, a
    /// `two_shot_push` `world / 2` times as many; of all types but f32, f16 and bf16, which land beside flags, half of that. A rank has four such slots for each peer. Small calls lie one behind another in them;
    /// each time that calls have filled one, or 8 MiB of all peers' slots, one call takes longer, by about 0.4 µs on two H200. `None`:
    /// [`Options::LANDING_BYTES`] on GPUs or [`Options::CPU_LANDING_BYTES`], divided by the ranks.
    pub landing_bytes: Option<u64>,
    /// Blocks that a rank's launch may take at most, and that are held for it on its GPU while the communicator lives;
    /// `None`: half of what no other communicator of this process holds there. On sm_90 and later a communicator that
    /// holds fewer than its GPUs have multiprocessors has blocks of fewer threads: see [`Limits::max_threads`](crate::Limits::max_threads).
    pub max_blocks: Option<u32>,
    /// Whether kernels become resident while the one before them in their stream still runs, and wait there for its end
    /// (programmatic dependent launch, on sm_90 and later). Never where ranks share a GPU, and no kernel whose blocks take more
    /// than half of a multiprocessor: such are for communicators that hold as many blocks as their GPUs have multiprocessors.
    pub early_launch: bool,
    /// How long a rank waits for another within a call, 30 s where nothing else is asked for; `None`: for ever. Then the call, and
    /// with it the communicator, comes to its end on all ranks: see [`crate::Communicator::check`]. The clock is read only after
    /// polls in vain, on a GPU after 1024 of them; waits are measured in steps of 66 µs, and one of more than 39 hours has no end.
    pub timeout: Option<Duration>,
    /// What becomes of a call that ends early, and of those that are queued behind it.
    pub on_timeout: OnTimeout,
    /// Whether ranks compare what each call is (elements, dtype, algorithm, input mode, grid, protocol) within the call itself, so that ranks
    /// which make different calls get [`Error::Disagreement`](crate::Error::Disagreement) in place of a wrong sum or a hang. The same
    /// on all ranks. It costs a message of 16 bytes to each peer. A call of no elements sends none: ranks that disagree on it find out by
    /// their next call, or by waiting. Whatever differs, outputs of such calls are not valid, and in a push may hold any numbers.
    pub compare_calls: bool,
    /// Whether [`crate::Communicator::fill_stamps`] and its like will be called.
    pub stamps: bool,
    /// The epoch of the communicator's last call, so that a test can start near a wrap of 32 bits; the low 62 bits
    /// count. 0 for everybody else.
    pub last_epoch: u64,
    /// Blocks and threads a block that a CPU rank can have; each is a thread of the host.
    pub cpu_shape: (u32, u32),
    /// How long ranks in processes of their own may take to be connected, from the first to the last, the self-test included; and to
    /// register buffers, or to finish a capture.
    pub connect_timeout: Duration,
    /// Between processes: captured calls that a rank can have at a time whose buffers peers use, see
    /// [`Registered::Later`]; 128 bytes each, and 2^20 calls at most. Other protocols than the default one have none, nor has a
    /// run with `delays` or `trace`. In one process there is no limit, and this is not looked at.
    pub captured_calls: u32,
    /// When ranks try their paths to each other before the communicator is there. The same on all ranks.
    pub self_test: SelfTest,
}

impl Default for Options {
    /// Our own protocol, sums of [`Options::DTYPES`], registered input, every algorithm, a capacity of 64 MiB, landing slots of the usual size,
    /// waits of 30 s at most, calls compared, paths tried unless they have been.
    fn default() -> Self {
        Options {
            protocol: Preset::default(),
            custom: None,
            delays: None,
            trace: false,
            dtypes: Options::DTYPES.to_vec(),
            ops: Vec::new(),
            inputs: vec![InputMode::Registered],
            algorithms: Algorithm::ALL.to_vec(),
            tuning: None,
            capacity_bytes: 64 << 20,
            landing_bytes: None,
            max_blocks: None,
            early_launch: true,
            timeout: Some(Duration::from_secs(30)),
            on_timeout: OnTimeout::Poison,
            compare_calls: true,
            stamps: false,
            last_epoch: 0,
            cpu_shape: (1, 1),
            connect_timeout: Duration::from_secs(30),
            captured_calls: 0,
            self_test: SelfTest::Cached,
        }
    }
}

impl Options {
    /// Element types where nothing else is asked for: those with kernels of their own for sums.
    pub const DTYPES: [Dtype; 4] = [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::I32];
    /// Bytes of a landing slot on a GPU where nothing else is asked for, times the ranks: for a `two_shot_push` of 16 MiB.
    pub const LANDING_BYTES: u64 = 32 << 20;
    /// The same for CPU ranks, whose memory is touched when it is made.
    pub const CPU_LANDING_BYTES: u64 = 256 << 10;

    /// The default for ranks in processes of their own: as [`Options::default`], but the kernel copies its input, since peers
    /// reach what the communicator allocates and not the buffers of another process's calls. Calls on registered buffers copy
    /// nothing.
    pub fn for_processes() -> Options {
        Options { inputs: vec![InputMode::Copied, InputMode::Registered], ..Options::default() }
    }

    /// The protocol that calls of this algorithm and input mode follow; `None` where the named one has no such form.
    pub fn form(&self, algorithm: Algorithm, input: InputMode) -> Option<Protocol> {
        match self.custom {
            Some(_) if !algorithm.has_any_protocol() => None,
            Some(protocol) => Some(Protocol { copy_in: input == InputMode::Copied, ..protocol }),
            None => {
                let protocol = self.protocol.protocol(algorithm, input)?;
                Some(if self.staging_is_kept() && input.staged() { protocol.kept(algorithm) } else { protocol })
            }
        }
    }

    /// Whether calls may ask for `op`.
    pub(crate) fn declares(&self, op: ReduceOp) -> bool {
        op == ReduceOp::Sum || self.ops.contains(&op)
    }

    /// Whether kernels are those of stress runs.
    pub(crate) fn stressed(&self) -> bool {
        self.delays.is_some() || self.trace
    }

    /// Whether pushes may come between two calls that are staged: then staging banks in turn would rest on the hardware, since
    /// a push has no barrier that tells when peers have read a bank.
    fn staging_is_kept(&self) -> bool {
        self.algorithms.iter().any(|algorithm| algorithm.pushes()) && self.protocol == Preset::Allfold
    }
}

/// What becomes of a call that ends early, because a rank waited too long, is gone, makes another call, or was told to stop; and
/// of the calls that are queued behind it, which end at their start or at their first wait.
///
/// Either way a result counts only once [`Communicator::check`](crate::Communicator::check) was `Ok` after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnTimeout {
    /// Elements whose wait ended are made all ones: a NaN of each floating-point type, -1 of an integer. Where peers store into this
    /// rank's output, in an exchange or a one-pass, one that comes too late may still store; and where ranks have made different
    /// pushes, what some block had summed by then stays.
    #[default]
    Poison,
    /// On a GPU the kernel traps, and the process loses its context: nothing that comes after can use what the call has left. On the CPU,
    /// where a call is done when it returns, it only returns its error.
    Trap,
}

/// When a communicator's ranks try their paths to each other, before it is there.
///
/// They make a small call by each algorithm that was declared, and compare every element: so each ordered pair of ranks shows that the
/// one's flags and data come to the other. Where they do not, the communicator is not made, and
/// [`Error::SelfTest`](crate::Error::SelfTest) names the pairs, on every rank. In a call a rank waits 2 s at most, of CPU ranks 5 s,
/// between processes no longer than half of what is left of [`Options::connect_timeout`]; and the first call that fails is the last.
/// It leaves no trace: it is in no counter, and the first call of the caller's has the first number.
///
/// Not tried are one rank alone, ranks with an [`Options::custom`] protocol, [`Options::delays`] or [`Options::trace`], and algorithms
/// that have no form known to be sound, no room ([`Options::capacity_bytes`]) or no way to a buffer of another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SelfTest {
    /// Unless the same GPUs, in the same order, have passed by the same algorithms: in this process, or on this machine since it was
    /// booted, with the same driver, version and container. Of processes: unless all of them know that they have. That is kept in a
    /// small file in `allfold/` of the user's cache (`XDG_CACHE_HOME`, or `.cache` of `HOME`); where there is none, or it says
    /// anything else, they are tried. CPU ranks in one process have no file.
    #[default]
    Cached,
    /// Whenever a communicator is made, also by a split or by a rebuilding.
    Always,
    /// Never: a path that does not work shows as a timeout of a call, or as a wrong sum.
    Never,
}

impl SelfTest {
    /// The name that users have for it.
    pub const fn name(self) -> &'static str {
        match self {
            SelfTest::Cached => "cached",
            SelfTest::Always => "always",
            SelfTest::Never => "never",
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
    /// How peers get to see the input; `None`: the first of [`Options::inputs`], but [`InputMode::Registered`] where the call says
    /// that its buffers are registered.
    pub input: Option<InputMode>,
    /// Whether the call's buffers are registered, and as what.
    pub registered: Registered,
    /// Blocks of the launch; `None`: as the plan chooses.
    pub blocks: Option<u32>,
    /// Threads of a block; `None`: as the plan chooses.
    pub threads: Option<u32>,
}
