//! Where the ranks of a command are: on GPUs or on the CPU, and why if nobody said.

use allfold::cuda::Device;
use allfold::{Communicator, MAX_RANKS, Options};
use anyhow::{Result, bail};

use crate::args::{Backend, RanksArgs};
use crate::here;

/// Where the ranks are.
#[derive(Debug)]
pub enum Target {
    /// On the CPU.
    Cpu { ranks: usize },
    /// The GPU of each rank.
    Cuda { devices: Vec<Device> },
}

/// What a report says of it.
pub struct Described {
    /// The GPUs' or the CPU's name.
    pub device: String,
    pub backend: &'static str,
    /// Ordinal of each rank's GPU; empty on the CPU.
    pub devices: Vec<u32>,
}

impl Target {
    /// Where the ranks go; and a note where that was left open.
    pub fn choose(args: &RanksArgs) -> Result<(Target, Option<String>)> {
        let ranks = args.ranks.map(|ranks| ranks as usize);
        let on_cpu = || Target::Cpu { ranks: ranks.unwrap_or(4) };
        let wants_gpus = args.backend == Backend::Cuda || !args.devices.is_empty();
        if args.backend == Backend::Cpu {
            if !args.devices.is_empty() {
                bail!("--devices names GPUs, and --backend cpu uses none");
            }
            return Ok((on_cpu(), None));
        }
        let gpus = match here::gpus() {
            Ok(gpus) => gpus,
            Err(why) if wants_gpus => bail!("{why}"),
            Err(why) => return Ok((on_cpu(), Some(format!("CPU ranks: {why}")))),
        };
        let ordinals: Vec<u32> = if args.devices.is_empty() {
            let ranks = ranks.unwrap_or(if gpus.len() == 1 { 2 } else { gpus.len().min(MAX_RANKS) });
            (0..gpus.len() as u32).cycle().take(ranks).collect()
        } else {
            args.devices.clone()
        };
        let find = |ordinal: &u32| match gpus.get(*ordinal as usize) {
            Some(device) => Ok(device.clone()),
            None => bail!("there is no GPU {ordinal}: this process sees {}", gpus.len()),
        };
        let devices = ordinals.iter().map(find).collect::<Result<Vec<_>>>()?;
        let chosen = (!wants_gpus).then(|| format!("{} ranks over {}", devices.len(), here::names(&gpus)));
        Ok((Target::Cuda { devices }, chosen))
    }

    pub fn world(&self) -> usize {
        match self {
            Target::Cpu { ranks } => *ranks,
            Target::Cuda { devices } => devices.len(),
        }
    }

    /// Ordinal of each rank's GPU; empty on the CPU.
    pub fn ordinals(&self) -> Vec<u32> {
        match self {
            Target::Cpu { .. } => Vec::new(),
            Target::Cuda { devices } => devices.iter().map(|device| device.ordinal).collect(),
        }
    }

    /// Blocks that each rank can have when the GPUs are theirs alone; `None` for CPU ranks.
    pub fn all_blocks(&self) -> Option<u32> {
        let Target::Cuda { devices } = self else { return None };
        let share = |device: &Device| {
            let sharing = devices.iter().filter(|other| other.ordinal == device.ordinal).count();
            device.multiprocessors / sharing.max(1) as u32
        };
        devices.iter().map(share).min()
    }

    /// A communicator of these ranks.
    pub fn communicator(&self, options: Options) -> allfold::Result<Communicator> {
        match self {
            Target::Cpu { ranks } => Communicator::cpu_with(*ranks, options),
            Target::Cuda { .. } => Communicator::cuda_with(&self.ordinals(), options),
        }
    }

    pub fn described(&self) -> Described {
        match self {
            Target::Cpu { .. } => Described { device: here::cpu(), backend: "cpu", devices: Vec::new() },
            Target::Cuda { devices } => {
                let mut used: Vec<_> = devices.iter().collect();
                used.sort_by_key(|device| device.ordinal);
                used.dedup();
                Described { device: here::names(used), backend: "cuda", devices: self.ordinals() }
            }
        }
    }
}
