//! The command line made into what is measured.

use std::path::PathBuf;
use std::time::Duration;

use allfold::tuning::{Declared, Origin};
use allfold::{Dtype, InputMode, Options};
use anyhow::{Result, bail};

use crate::args::{TuneArgs, Waits};
use crate::bench::ladder;
use crate::here;
use crate::target::Target;

/// Calls up to this size are done like it, or less.
const LEAST_BYTES: u64 = 1 << 10;

/// All that a run is made of.
#[derive(Debug)]
pub struct Settings {
    pub target: Target,
    /// Bytes a rank, rising.
    pub sizes: Vec<u64>,
    pub dtypes: Vec<Dtype>,
    pub time: Duration,
    pub seed: u64,
    pub out: PathBuf,
    max_blocks: Option<u32>,
    early_launch: bool,
    waits: Waits,
    /// Why the ranks are where nobody asked for them.
    pub chosen: Option<String>,
}

impl Settings {
    /// Chooses what the command line leaves open.
    pub fn new(args: &TuneArgs) -> Result<Settings> {
        let (target, chosen) = Target::choose(&args.ranks)?;
        if target.world() == 1 {
            bail!("one rank alone copies its input, and there is nothing to choose: name two or more");
        }
        let (max, dtype, seconds, multiprocessors) = match &target {
            Target::Cpu { .. } => (1 << 20, Dtype::F32, 30, None),
            Target::Cuda { devices } => {
                (64 << 20, Dtype::Bf16, 120, devices.iter().map(|device| device.multiprocessors).min())
            }
        };
        let mut dtypes = if args.dtype.is_empty() { vec![dtype] } else { args.dtype.clone() };
        if let Some(dtype) = dtypes.iter().find(|dtype| dtype.landing_packs() > 1) {
            bail!("rows are measured on floating-point numbers, and serve {} with limits of its own", dtype.name());
        }
        // As a table has them.
        dtypes.sort_by_key(|dtype| dtype.bytes());
        for (index, dtype) in dtypes.iter().enumerate() {
            if let Some(other) = dtypes[..index].iter().find(|other| other.bytes() == dtype.bytes()) {
                bail!("rows go by bytes of an element, and {} has as many as {}", dtype.name(), other.name());
            }
        }
        // Whole elements of every dtype.
        let max = args.max.unwrap_or(max) / 4 * 4;
        if max == 0 {
            bail!("--max {}: there is no element to sum", args.max.unwrap_or(0));
        }
        let waits = args.ranks.waits();
        Ok(Settings {
            target,
            sizes: ladder(LEAST_BYTES.min(max), max, 2)?,
            dtypes,
            time: Duration::from_secs(args.seconds.unwrap_or(seconds)),
            seed: args.seed.unwrap_or_else(here::fresh_seed),
            out: args.out.clone(),
            max_blocks: args.ranks.max_blocks.or(multiprocessors),
            early_launch: !args.ranks.no_early_launch,
            waits,
            chosen,
        })
    }

    /// What the communicator is made for: everything, and as much room as one has that nobody asks for more.
    pub fn options(&self) -> Options {
        let default = Options::default();
        Options {
            dtypes: self.dtypes.clone(),
            inputs: vec![InputMode::Registered, InputMode::Copied],
            capacity_bytes: self.sizes.iter().copied().fold(default.capacity_bytes, u64::max),
            max_blocks: self.max_blocks,
            early_launch: self.early_launch,
            timeout: self.waits.timeout,
            compare_calls: self.waits.compare_calls,
            stamps: true,
            ..default
        }
    }

    /// Where the table comes from.
    pub fn origin(&self) -> Origin {
        let device = match &self.target {
            Target::Cpu { .. } => format!("{}: {}", Origin::CPU, here::cpu()),
            Target::Cuda { devices } => Origin::gpus(devices.iter().map(|device| (device.ordinal, &*device.name))),
        };
        let words: Vec<String> = std::env::args().skip(1).collect();
        Origin { device, date: here::date(), command: format!("allfold {}", words.join(" ")) }
    }
}

/// The input mode by which a declaration is measured, and whether in place.
pub fn input(declared: Declared) -> (InputMode, bool) {
    match declared {
        Declared::Registered => (InputMode::Registered, false),
        Declared::InPlace => (InputMode::Registered, true),
        Declared::Staged => (InputMode::Copied, false),
    }
}
