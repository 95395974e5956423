//! How a call is done: a pure function of facts that are equal on all ranks.
//!
//! Never of a pointer's alignment, of what one rank has cached, or of whether one rank is capturing: a rank that
//! chooses differently from its peers hangs them all.

use allfold_kernels::protocol::abi::{Algorithm, InputMode, PACK_BYTES};
use allfold_kernels::protocol::preset::{Preset, Soundness};
use allfold_kernels::protocol::share::part_packs;
use allfold_kernels::protocol::spec::Protocol;

use crate::error::{Error, Result};
use crate::options::{CallOptions, Options};
use crate::request::Request;
use crate::tuning::{self, Row};

/// Threads that a GPU runs together.
const WARP_THREADS: u64 = 32;

/// What all ranks of a communicator can do: the smallest of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ranks.
    pub world: u32,
    /// Most blocks that can be resident for each rank.
    pub max_blocks: u32,
    /// Most threads of a block.
    pub max_threads: u32,
    /// Bytes of one staging bank.
    pub staging_bytes: u64,
    /// Bytes of the scratch area.
    pub scratch_bytes: u64,
}

/// How a call is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// How peers get to see the input.
    pub input: InputMode,
    /// The protocol.
    pub protocol: Protocol,
    /// Blocks of each rank's launch.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

impl Plan {
    /// Chooses, from the request, what the communicator was made for, and measured limits.
    ///
    /// # Errors
    /// [`Error::NotDeclared`], [`Error::NoSuchForm`], [`Error::InPlace`], [`Error::Capacity`], [`Error::Grid`].
    pub fn choose(
        request: &Request,
        call: &CallOptions,
        options: &Options,
        limits: &Limits,
        rows: &[Row],
    ) -> Result<Plan> {
        if !options.dtypes.contains(&request.dtype) {
            return Err(Error::NotDeclared { what: request.dtype.name(), option: "dtypes" });
        }
        let input = match (call.input, options.inputs.first()) {
            (Some(input), _) if options.inputs.contains(&input) => input,
            (Some(input), _) => return Err(Error::NotDeclared { what: input.name(), option: "inputs" }),
            (None, Some(&input)) => input,
            (None, None) => return Err(Error::NotDeclared { what: "an input mode", option: "inputs" }),
        };
        // In place, peers must not read what this rank overwrites.
        let safe = |algorithm| match algorithm {
            Algorithm::OneShot => !request.in_place || input.staged() || limits.world == 1,
            Algorithm::TwoShot => true,
        };
        let declared = |algorithm| options.algorithms.contains(&algorithm);
        let row = match call.algorithm {
            Some(algorithm) if !declared(algorithm) => {
                return Err(Error::NotDeclared { what: algorithm.name(), option: "algorithms" });
            }
            Some(algorithm) if !safe(algorithm) => return Err(Error::InPlace { algorithm }),
            Some(algorithm) => tuning::row(rows, limits.world, request.bytes, |a| a == algorithm)
                .or_else(|| tuning::row(rows, limits.world, request.bytes, |_| true))
                .map(|row| Row { algorithm, ..row }),
            None => tuning::row(rows, limits.world, request.bytes, |a| declared(a) && safe(a))
                // No row speaks of what is left: the only algorithm that is declared and safe, on any row's grid.
                .or_else(|| {
                    let algorithm = Algorithm::ALL.into_iter().find(|&a| declared(a) && safe(a))?;
                    tuning::row(rows, limits.world, request.bytes, |_| true).map(|row| Row { algorithm, ..row })
                }),
        };
        let Some(row) = row else {
            return Err(match Algorithm::ALL.into_iter().find(|&a| declared(a)) {
                Some(algorithm) => Error::InPlace { algorithm },
                None => Error::NotDeclared { what: "an algorithm", option: "algorithms" },
            });
        };
        // One rank alone shows its input to nobody: a copy, whatever was asked for.
        let alone = limits.world == 1;
        let (algorithm, input) =
            if alone { (Algorithm::OneShot, InputMode::Registered) } else { (row.algorithm, input) };
        let form = if alone { Preset::Allfold.protocol(algorithm, input) } else { options.form(algorithm, input) };
        let Some(protocol) = form else { return Err(Error::NoSuchForm { preset: options.protocol, input }) };

        let packs = request.elems.div_ceil(request.dtype.lanes() as u64);
        let part = part_packs(packs, limits.world);
        let part_bytes = part * PACK_BYTES as u64;
        let staging_bytes = packs * PACK_BYTES as u64;
        if input.staged() && staging_bytes > limits.staging_bytes {
            let (needed_bytes, capacity_bytes) = (staging_bytes, limits.staging_bytes);
            return Err(Error::Capacity { what: "staging", needed_bytes, capacity_bytes });
        }
        let (work_packs, scratch_bytes) = match algorithm {
            Algorithm::OneShot => (packs, 0),
            Algorithm::TwoShot => (part, part_bytes),
        };
        if scratch_bytes > limits.scratch_bytes {
            let (needed_bytes, capacity_bytes) = (scratch_bytes, limits.scratch_bytes);
            return Err(Error::Capacity { what: "scratch", needed_bytes, capacity_bytes });
        }

        let max_blocks = limits.max_blocks.min(options.max_blocks.unwrap_or(u32::MAX));
        // No more threads than packs, in whole warps: a small block starts and synchronises sooner.
        let busy_threads = work_packs.clamp(1, u64::from(row.threads)).next_multiple_of(WARP_THREADS) as u32;
        let threads = call.threads.unwrap_or(busy_threads.min(row.threads).min(limits.max_threads));
        let blocks = match call.blocks {
            Some(blocks) => blocks,
            None => work_packs
                .div_ceil(u64::from(threads.max(1)))
                .clamp(1, u64::from(row.blocks.min(max_blocks).max(1))) as u32,
        };
        if !(1..=max_blocks).contains(&blocks) || !(1..=limits.max_threads).contains(&threads) {
            return Err(Error::Grid { blocks, threads, max_blocks, max_threads: limits.max_threads });
        }
        Ok(Plan { algorithm, input, protocol, blocks, threads })
    }

    /// What is known of the plan's protocol.
    pub fn soundness(&self) -> Soundness {
        self.protocol.soundness(self.algorithm, self.input)
    }
}

/// Every form that a communicator with `options` may be asked for: algorithm, input mode and protocol.
pub fn forms(options: &Options) -> impl Iterator<Item = (Algorithm, InputMode, Protocol)> + '_ {
    options.algorithms.iter().flat_map(move |&algorithm| {
        options.inputs.iter().filter_map(move |&input| Some((algorithm, input, options.form(algorithm, input)?)))
    })
}
