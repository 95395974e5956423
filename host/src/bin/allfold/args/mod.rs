//! The command line. Names are the library's own; sizes are read here.

use std::path::PathBuf;

use allfold::{Dtype, InputMode, ReduceOp};
use clap::{ArgAction, Parser, Subcommand, ValueEnum};

mod launch;
mod parse;
mod shared;
mod stress;
mod trace;
mod tune;

pub use launch::LaunchArgs;
pub use parse::{Algo, algorithm_name};
use parse::{algorithm, named, size};
pub use shared::{Backend, ProtocolArgs, RanksArgs, Waits};
pub use stress::StressArgs;
pub use trace::TraceArgs;
pub use tune::TuneArgs;

/// All-reduce across the GPUs of one machine, or across ranks on its CPU.
#[derive(Debug, Parser)]
#[command(name = "allfold", version, max_term_width = 100)]
pub struct Args {
    /// Show what the library logs; twice: more of it
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 1000)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Time all-reduce, every result verified
    #[command(
        after_help = "A size is in bytes a rank: 512, 64K, 4M, 1G. Times are those of the slowest rank; bandwidths are \
                            nccl-tests'.\nExit code 1: a result was wrong. 2: it could not be done."
    )]
    Bench(Box<BenchArgs>),
    /// Make many calls with planted delays, or calls of all kinds, and look for a wrong sum
    #[command(
        after_help = "With --mixed the first wrong element ends the run, and is told of with all that its call was and the \
                      command that makes the same calls.\nExit code 1: a protocol that is known to be sound gave a wrong \
                      sum or gave up. 2: it could not be done."
    )]
    Stress(Box<StressArgs>),
    /// Make a few calls and show when each block of each rank came where: who was late, and who waited for it
    #[command(
        after_help = "Times are of the GPUs' own clocks, set by what has come from one to the other. Kernels are those of stress \
                      runs, which are slower.\nExit code 1: a result was wrong, or a rank gave up waiting for another; the trace is \
                      written then too. 2: it could not be done."
    )]
    Trace(Box<TraceArgs>),
    /// Measure which algorithm and grid is the fastest at which size, and write a table of it
    #[command(
        after_help = "The table is for this GPU, so many ranks and these element sizes: allfold bench --tuning FILE, or \
                      Options::tuning.\nExit code 1: a result was wrong. 2: it could not be done."
    )]
    Tune(Box<TuneArgs>),
    /// Run a program as many times as there are ranks, each told which it is
    #[command(
        after_help = "Each gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, ALLFOLD_PORT and \
                      ALLFOLD_SECRET, as torchrun's programs do: rendezvous::Environment reads them. Standard input is \
                      empty.\nExit code: that of the rank that failed first; 128 and the signal where one ended it. 2 \
                      also: it could not be done, or what they wrote could not be written.\nHUP, INT, QUIT, TERM, USR1, \
                      USR2, TSTP and CONT are passed on to the ranks and to what they have started; a second INT or TERM \
                      kills. Killed itself, it takes the ranks along, but not what they have started."
    )]
    Launch(LaunchArgs),
    /// Say what this machine has, what works on it, and what stops the rest
    Doctor(DoctorArgs),
}

const SIZES: &str = "Sizes and types";
const CALLS: &str = "Calls";
const TIMING: &str = "Timing";
const COMPARISON: &str = "Comparison";
const RESULTS: &str = "Results";

/// What can be timed beside our all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Vs {
    Nccl,
}

#[derive(Debug, Parser)]
pub struct BenchArgs {
    /// Sizes, as 1K,64K,4M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size, conflicts_with_all = ["min", "max", "factor"], help_heading = SIZES)]
    pub bytes: Vec<u64>,
    /// Smallest size [default: 512 on GPUs, 1K on CPU ranks]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = size, help_heading = SIZES)]
    pub min: Option<u64>,
    /// Largest size [default: 256M on GPUs, 4M on CPU ranks]
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = size, help_heading = SIZES)]
    pub max: Option<u64>,
    /// Each size is this many times the one before
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..), help_heading = SIZES)]
    pub factor: u64,
    /// Element types [default: bf16 on GPUs, f32 on CPU ranks]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = named(&Dtype::ALL, |&t| t.name()), help_heading = SIZES)]
    pub dtype: Vec<Dtype>,

    #[command(flatten)]
    pub ranks: RanksArgs,

    /// What is done to the terms of all ranks
    #[arg(short, long, default_value = ReduceOp::Sum.name(), value_parser = named(&ReduceOp::ALL, |&op| op.name()), help_heading = CALLS)]
    pub op: ReduceOp,
    /// The algorithm; auto: as the plan chooses
    #[arg(long, default_value = "auto", value_parser = algorithm(), help_heading = CALLS)]
    pub algo: Algo,
    #[command(flatten)]
    pub protocol: ProtocolArgs,
    /// How peers get to see the input: in place, copied before the kernel, or copied by it
    #[arg(long, default_value = InputMode::Registered.name(), value_parser = named(&InputMode::ALL, |&i| i.name()), help_heading = CALLS)]
    pub input: InputMode,
    /// The output is the input
    #[arg(long, help_heading = CALLS)]
    pub in_place: bool,
    /// A table of tuning rows, as allfold tune writes it
    #[arg(long, value_name = "FILE", help_heading = CALLS)]
    pub tuning: Option<PathBuf>,
    /// Blocks of a launch, instead of what the plan chooses
    #[arg(long, value_name = "N", help_heading = CALLS)]
    pub blocks: Option<u32>,
    /// Threads of a block, instead of what the plan chooses
    #[arg(long, value_name = "N", help_heading = CALLS)]
    pub threads: Option<u32>,

    /// Capture many calls in a CUDA graph and replay it
    #[arg(long, help_heading = TIMING)]
    pub graph: bool,
    /// Calls in the graph [default: 40 up to 4M, 5 above]
    #[arg(long, value_name = "N", requires = "graph", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = TIMING)]
    pub chain: Option<u32>,
    /// Replays of the graph, the first two not counted [default: 102 up to 4M, 22 above]
    #[arg(long, value_name = "N", requires = "graph", value_parser = clap::value_parser!(u32).range(3..), help_heading = TIMING)]
    pub replays: Option<u32>,
    /// Calls timed without a graph [default: 100 on GPUs, 20 on CPU ranks]
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "graph", value_parser = clap::value_parser!(u32).range(1..), help_heading = TIMING)]
    pub iters: Option<u32>,
    /// Calls before them; on GPUs a tenth of a second of them at least
    #[arg(short, long, value_name = "N", conflicts_with = "graph", default_value_t = 5, help_heading = TIMING)]
    pub warmup: u32,

    /// Time NCCL too, size by size, on the same buffers; NVLink multicast is off for it unless NCCL_NVLS_ENABLE is set
    #[arg(long, value_enum, value_name = "LIBRARY", help_heading = COMPARISON)]
    pub vs: Option<Vs>,
    /// NCCL's file [default: libnccl.so.2, where the dynamic linker finds it]
    #[arg(long, value_name = "PATH", requires = "vs", help_heading = COMPARISON)]
    pub nccl_library: Option<PathBuf>,

    /// What the random input is made from [default: the time]
    #[arg(long, value_name = "N", help_heading = RESULTS)]
    pub seed: Option<u64>,

    /// Write the results as JSON; to standard output without FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = RESULTS)]
    pub json: Option<PathBuf>,
    /// Write the results as CSV; to standard output without FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = RESULTS)]
    pub csv: Option<PathBuf>,
}

#[derive(Debug, Parser)]
pub struct DoctorArgs {
    /// Print JSON instead
    #[arg(long)]
    pub json: bool,
    /// Also measure the first use with the driver's cache of compiled kernels off
    #[arg(long)]
    pub cold: bool,
    /// Only load the kernels, and print how long that took: what --cold runs
    #[arg(long, hide = true)]
    pub load_only: bool,
}

#[cfg(test)]
mod tests {
    use allfold::{Algorithm, Check, Order, Preset, Reuse, Scope, Start};
    use clap::CommandFactory;

    use super::*;
    use crate::choice::Choice;

    fn bench(line: &str) -> Result<BenchArgs, clap::Error> {
        let words = ["allfold", "bench"].into_iter().chain(line.split_whitespace());
        match Args::try_parse_from(words)?.command {
            Command::Bench(args) => Ok(*args),
            Command::Doctor(_) | Command::Launch(_) | Command::Stress(_) | Command::Trace(_) | Command::Tune(_) => {
                panic!("asked for bench")
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent_with_itself() {
        Args::command().debug_assert();
    }

    #[test]
    fn lists_and_names_are_read() {
        let args =
            bench("--bytes 1K,64K,4M --dtype f32,bf16 --algo two-shot --protocol vllm --input memcpy").expect("right");
        assert_eq!(args.bytes, [1024, 65_536, 4 << 20]);
        assert_eq!(args.dtype, [Dtype::F32, Dtype::Bf16]);
        assert_eq!(
            (args.algo, args.protocol.protocol, args.input),
            (Some(Algorithm::TwoShot), Some(Preset::Vllm), InputMode::Memcpy)
        );
        assert_eq!(bench("--devices 0,0,1").expect("right").ranks.devices, [0, 0, 1]);
        assert_eq!(bench("").expect("right").algo, None);
    }

    #[test]
    fn a_custom_protocol_is_its_three_words() {
        let args = bench("--start multi-gpu --order volatile --end barrier-release-acquire").expect("right").protocol;
        let choice = Choice::new(&args);
        let Choice::Custom(protocol) = choice else { panic!("{choice:?}") };
        assert_eq!(protocol.start, Start { scope: Scope::MultiGpu, order: Order::Volatile, sync_before: false });
        assert_eq!(protocol.reuse, Reuse::EndBarrier { order: Order::ReleaseAcquire, sync_after: false });
        assert_eq!((protocol.middle, protocol.check), (Order::ReleaseAcquire, Check::Reached));
        let args = bench("--start block --order release-acquire --end parity").expect("right").protocol;
        let Choice::Custom(protocol) = Choice::new(&args) else { panic!("{args:?}") };
        assert_eq!(protocol.start, Start { scope: Scope::Block, order: Order::ReleaseAcquire, sync_before: true });
        assert_eq!(protocol.reuse, Reuse::Parity);
        assert_eq!(Choice::new(&bench("").expect("right").protocol), Choice::Preset(Preset::Allfold));
    }

    #[test]
    fn nccl_is_timed_only_where_asked_for() {
        let asked = |line: &str| bench(line).map(|args| (args.vs, args.nccl_library));
        assert_eq!(asked("").expect("right"), (None, None));
        assert_eq!(asked("--vs nccl").expect("right"), (Some(Vs::Nccl), None));
        let named = asked("--graph --vs nccl --nccl-library lib/libnccl.so.2").expect("right");
        assert_eq!(named, (Some(Vs::Nccl), Some("lib/libnccl.so.2".into())));
    }

    #[test]
    fn what_cannot_go_together_is_refused() {
        for line in [
            "--bytes 1K --min 1K",
            "--devices 0 --ranks 2",
            "--chain 5",
            "--graph --iters 5",
            "--ranks 9",
            "--ranks 0",
            "--factor 1",
            "--vs mpi",
            "--vs",
            "--nccl-library libnccl.so.2",
            "--dtype f128",
            "--op median",
            "--algo three-shot",
            "--start block --order volatile",
            "--end none",
            "--protocol vllm --start block --order volatile --end none",
            "--start block --order acquire --end none",
        ] {
            assert!(bench(line).is_err(), "{line}");
        }
    }
}
