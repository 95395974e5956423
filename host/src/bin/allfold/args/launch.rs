//! The options of `allfold launch`.

use std::ffi::OsString;

use allfold::MAX_RANKS;
use clap::Parser;

#[derive(Debug, Parser)]
pub struct LaunchArgs {
    /// Ranks, a process each
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_RANKS as i64))]
    pub ranks: u32,
    /// How long ranks have to end when one has failed or they are asked to (INT, TERM), before they are killed
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub grace: u64,
    /// The program, and what it is given
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    pub program: Vec<OsString>,
}
