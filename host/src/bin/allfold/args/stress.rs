//! The options of `allfold stress`.

use std::path::PathBuf;

use allfold::{Algorithm, InputMode};
use clap::Parser;

use super::parse::{algorithm_name, named, size};
use super::{ProtocolArgs, RanksArgs};

const CELLS: &str = "What is run";
const CALLS: &str = "Calls";
const DISTURBANCE: &str = "Disturbance";
const RESULTS: &str = "Results";

#[derive(Debug, Parser)]
pub struct StressArgs {
    /// Every cell: algorithms, inputs, starts, orders and ends, each with each
    #[arg(long, conflicts_with_all = ["presets", "protocol", "start", "order", "end"], help_heading = CELLS)]
    pub matrix: bool,
    /// Every form of every named protocol
    #[arg(long, conflicts_with_all = ["protocol", "start", "order", "end"], help_heading = CELLS)]
    pub presets: bool,
    /// Calls of all kinds, mixed at random: dtypes, sizes, algorithms, inputs, grids, in place, misaligned, in graphs, on several streams
    #[arg(long, conflicts_with_all = ["matrix", "presets", "protocol", "start", "order", "end"], help_heading = CELLS)]
    pub mixed: bool,
    /// Only this algorithm [default: all]
    #[arg(long, value_parser = named(&Algorithm::ALL, |&a| algorithm_name(a)), help_heading = CELLS)]
    pub algo: Option<Algorithm>,
    /// Only this way for peers to see the input [default: registered; with --matrix, --presets and --mixed all]
    #[arg(long, value_parser = named(&InputMode::ALL, |&i| i.name()), help_heading = CELLS)]
    pub input: Option<InputMode>,

    #[command(flatten)]
    pub protocol: ProtocolArgs,
    #[command(flatten)]
    pub ranks: RanksArgs,

    /// Calls of each cell; with --presets of each protocol, shared among its forms; with --mixed of all together [default: 50000 on GPUs, 2000 on CPU ranks]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = CALLS)]
    pub calls: Option<u64>,
    /// With --mixed: end after so many seconds [default: after --calls]
    #[arg(long, value_name = "N", requires = "mixed", value_parser = clap::value_parser!(u64).range(1..), help_heading = CALLS)]
    pub seconds: Option<u64>,
    /// With --mixed: what the calls are drawn from; the same seed, the same calls [default: the time]
    #[arg(long, value_name = "N", requires = "mixed", help_heading = CALLS)]
    pub seed: Option<u64>,
    /// With --mixed: bytes a rank of the largest call [default: 16M on GPUs, 256K on CPU ranks]
    #[arg(long, value_name = "SIZE", requires = "mixed", value_parser = size, help_heading = CALLS)]
    pub max_bytes: Option<u64>,
    /// Bytes a rank, of bf16
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = size, conflicts_with = "mixed", help_heading = CALLS)]
    pub bytes: u64,
    /// Blocks of a launch [default: 8 on GPUs, 2 on CPU ranks]
    #[arg(long, value_name = "N", conflicts_with = "mixed", help_heading = CALLS)]
    pub blocks: Option<u32>,
    /// Threads of a block [default: 64 on GPUs, 1 on CPU ranks]
    #[arg(long, value_name = "N", conflicts_with = "mixed", help_heading = CALLS)]
    pub threads: Option<u32>,

    /// How late a block is, in nanoseconds, a late rank four times as late; 0: no delays, and the usual kernels. Kernels with delays are of bf16 alone: not with --mixed
    #[arg(long, value_name = "N", default_value_t = 2000, conflicts_with = "mixed", value_parser = clap::value_parser!(u32).range(..=1_000_000), help_heading = DISTURBANCE)]
    pub delay_ns: u32,
    /// One in so many places of a call is late
    #[arg(long, value_name = "N", default_value_t = 64, conflicts_with = "mixed", value_parser = clap::value_parser!(u32).range(1..), help_heading = DISTURBANCE)]
    pub delay_one_in: u32,
    /// Copy between the GPUs, and on each, all the while
    #[arg(long, help_heading = DISTURBANCE)]
    pub traffic: bool,
    /// With --mixed: overwrite the end of that call's result before it is checked, which has to be found
    #[arg(long, value_name = "N", requires = "mixed", value_parser = clap::value_parser!(u64).range(1..), help_heading = DISTURBANCE)]
    pub spoil_call: Option<u64>,

    /// Write the results as JSON; to standard output without FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = RESULTS)]
    pub json: Option<PathBuf>,
    /// Write them as a Markdown table; to standard output without FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "mixed", help_heading = RESULTS)]
    pub markdown: Option<PathBuf>,
}
