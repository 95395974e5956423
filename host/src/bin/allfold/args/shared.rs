//! Options that several commands have: where the ranks are, and which protocol they follow.

use std::time::Duration;

use allfold::{MAX_RANKS, Order, Preset, Reuse, Scope};
use clap::{Args, ValueEnum};

use super::parse::{named, seconds};
use crate::choice::{END, ORDERS, SCOPES, end_name, order_name, scope_name};

const RANKS: &str = "Ranks";
const PROTOCOL: &str = "Protocol";

#[derive(Clone, Debug, Args)]
pub struct RanksArgs {
    /// GPUs, CPU ranks, or GPUs where there are any
    #[arg(long, value_enum, default_value_t = Backend::Auto, help_heading = RANKS)]
    pub backend: Backend,
    /// Ranks; on GPUs they go round all of them [default: one a GPU, 2 on a single one, 4 on the CPU]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RANKS as u64), help_heading = RANKS)]
    pub ranks: Option<u64>,
    /// The GPU of each rank, as 0,1 or 0,0,0
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "ranks", help_heading = RANKS)]
    pub devices: Vec<u32>,
    /// Blocks that a launch may take at most, for who runs other kernels beside it [default: all of a GPU in a bench, else half]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = RANKS)]
    pub max_blocks: Option<u32>,
    /// Launch each kernel when the one before it has ended, and not early (programmatic dependent launch)
    #[arg(long, help_heading = RANKS)]
    pub no_early_launch: bool,
    /// Seconds after which a rank waits no more for a peer, 0: never
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, help_heading = RANKS)]
    pub timeout: Duration,
    /// Ranks do not compare what each call is
    #[arg(long, help_heading = RANKS)]
    pub no_compare: bool,
}

/// What a communicator does when ranks do not come, or do something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// How long a rank waits; `None`: for ever.
    pub timeout: Option<Duration>,
    /// Whether ranks compare their calls.
    pub compare_calls: bool,
}

impl RanksArgs {
    /// What the command line says of waits.
    pub fn waits(&self) -> Waits {
        Waits { timeout: Some(self.timeout).filter(|timeout| !timeout.is_zero()), compare_calls: !self.no_compare }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Auto,
    Cuda,
    Cpu,
}

/// A protocol by name, or made of three words.
#[derive(Clone, Debug, Args)]
pub struct ProtocolArgs {
    /// Barriers and memory orders, by name; only allfold is known to be sound with every input [default: allfold]
    #[arg(long, value_parser = named(&Preset::ALL, |&p| p.name()), conflicts_with_all = ["start", "order", "end"], help_heading = PROTOCOL)]
    pub protocol: Option<Preset>,
    /// In place of a name: who announces at the start, block 0 for its rank or each block for itself
    #[arg(long, value_parser = named(&SCOPES, |&s| scope_name(s)), requires_all = ["order", "end"], help_heading = PROTOCOL)]
    pub start: Option<Scope>,
    /// The memory order of that start
    #[arg(long, value_parser = named(&ORDERS, |&o| order_name(o)), requires_all = ["start", "end"], help_heading = PROTOCOL)]
    pub order: Option<Order>,
    /// What keeps an input from being overwritten while a peer reads it
    #[arg(long, value_parser = named(&END, |&e| end_name(e)), requires_all = ["start", "order"], help_heading = PROTOCOL)]
    pub end: Option<Reuse>,
}
