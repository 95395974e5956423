//! The options of `allfold trace`.

use std::path::PathBuf;

use allfold::InputMode;
use clap::Parser;

use super::parse::{algorithm, named, size};
use super::{Algo, RanksArgs};

const CALLS: &str = "Calls";
const DISTURBANCE: &str = "Disturbance";
const RESULTS: &str = "Results";

/// The most calls of a trace: as many as kernels keep.
const MOST_CALLS: i64 = allfold::TRACED_CALLS as i64;

#[derive(Debug, Parser)]
pub struct TraceArgs {
    #[command(flatten)]
    pub ranks: RanksArgs,

    /// Calls that are traced
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=MOST_CALLS), help_heading = CALLS)]
    pub calls: u32,
    /// Bytes a rank, of bf16
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size, help_heading = CALLS)]
    pub bytes: u64,
    /// The algorithm; auto: as the plan chooses
    #[arg(long, default_value = "auto", value_parser = algorithm(), help_heading = CALLS)]
    pub algo: Algo,
    /// How peers get to see the input: in place, copied before the kernel, or copied by it
    #[arg(long, default_value = InputMode::Registered.name(), value_parser = named(&InputMode::ALL, |&i| i.name()), help_heading = CALLS)]
    pub input: InputMode,
    /// Blocks of a launch, instead of what the plan chooses [default on CPU ranks: 2]
    #[arg(long, value_name = "N", help_heading = CALLS)]
    pub blocks: Option<u32>,
    /// Threads of a block, instead of what the plan chooses
    #[arg(long, value_name = "N", help_heading = CALLS)]
    pub threads: Option<u32>,
    /// Capture the calls in a CUDA graph and replay it, instead of launching one after the other
    #[arg(long, help_heading = CALLS)]
    pub graph: bool,

    /// How late a block is, in nanoseconds, a late rank four times as late; 0: no delays
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000), help_heading = DISTURBANCE)]
    pub delay_ns: u32,
    /// One in so many places of a call is late
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..), help_heading = DISTURBANCE)]
    pub delay_one_in: u32,

    /// Where the picture goes, for ui.perfetto.dev or chrome://tracing; -: to standard output
    #[arg(short, long, value_name = "FILE", default_value = "allfold-trace.json", help_heading = RESULTS)]
    pub output: PathBuf,
}
