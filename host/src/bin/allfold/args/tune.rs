//! The options of `allfold tune`.

use std::path::PathBuf;

use allfold::Dtype;
use clap::Parser;

use super::RanksArgs;
use super::parse::{named, size};

const MEASURED: &str = "What is measured";
const RESULTS: &str = "Results";

#[derive(Debug, Parser)]
pub struct TuneArgs {
    #[command(flatten)]
    pub ranks: RanksArgs,

    /// Largest size; calls above it are done like it [default: 64M on GPUs, 1M on CPU ranks]
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = size, help_heading = MEASURED)]
    pub max: Option<u64>,
    /// Element types, one of each size: rows go by bytes [default: bf16 on GPUs, f32 on CPU ranks]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = named(&Dtype::ALL, |&t| t.name()), help_heading = MEASURED)]
    pub dtype: Vec<Dtype>,
    /// How long it may take, about; more is measured in more time [default: 120 on GPUs, 30 on CPU ranks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = MEASURED)]
    pub seconds: Option<u64>,
    /// What the random input is made from [default: the time]
    #[arg(long, value_name = "N", help_heading = MEASURED)]
    pub seed: Option<u64>,

    /// Where the table is written; -: to standard output
    #[arg(short, long, value_name = "FILE", default_value = "allfold.tuning", help_heading = RESULTS)]
    pub out: PathBuf,
}
