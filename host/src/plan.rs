//! How a call is done: a pure function of facts that are equal on all ranks.
//!
//! Never of a pointer's alignment, of what one rank has cached, or of whether one rank is capturing: a rank that
//! chooses differently from its peers hangs them all.

use allfold_kernels::protocol::abi::{Algorithm, InputMode, PACK_BYTES};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::share;
use allfold_kernels::protocol::signature::{Call, Collective, Signature};
use allfold_kernels::protocol::soundness::Soundness;
use allfold_kernels::protocol::spec::Protocol;

use crate::error::{Error, Result};
use crate::options::{CallOptions, Options};
use crate::reach::Registered;
use crate::request::Request;
use crate::tuning::{self, Declared, Row};

/// Threads that a GPU runs together.
const WARP_THREADS: u64 = 32;

/// What all ranks of a communicator can do: the smallest of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ranks.
    pub world: u32,
    /// Most blocks that can be resident for each rank.
    pub max_blocks: u32,
    /// Most threads of a block, for each algorithm in the order of [`Algorithm::ALL`]: what a kernel's registers allow, and on
    /// sm_90 and later half of a multiprocessor, unless the communicator holds as many blocks as its GPUs have multiprocessors.
    pub max_threads: [u32; Algorithm::ALL.len()],
    /// Bytes of one staging bank.
    pub staging_bytes: u64,
    /// Bytes of the scratch area.
    pub scratch_bytes: u64,
    /// Bytes of a landing slot.
    pub landing_bytes: u64,
    /// Whether ranks reach the buffers of each other's callers in any call: those of one process do.
    pub reaches_buffers: bool,
}

impl Limits {
    /// Most threads of a block of `algorithm`'s kernels.
    pub fn threads_of(&self, algorithm: Algorithm) -> u32 {
        const {
            let mut index = 0;
            while index < Algorithm::ALL.len() {
                assert!(Algorithm::ALL[index] as usize == index, "ALL is in the order of declaration");
                index += 1;
            }
        }
        self.max_threads[algorithm as usize]
    }

    /// Most threads of a block, whatever the algorithm.
    pub fn threads_of_all(&self) -> u32 {
        self.max_threads.into_iter().min().unwrap_or(0)
    }
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
    /// [`Error::NotDeclared`], [`Error::NoSuchForm`], [`Error::NotForWorld`], [`Error::OutOfReach`], [`Error::InPlace`], [`Error::Capacity`], [`Error::Grid`].
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
        if !options.declares(request.op) {
            return Err(Error::NotDeclared { what: request.op.name(), option: "ops" });
        }
        let reaches_buffers = limits.reaches_buffers || call.registered != Registered::No;
        let wanted = call.input.or((call.registered != Registered::No).then_some(InputMode::Registered));
        let input = match (wanted, options.inputs.first()) {
            (Some(input), _) if options.inputs.contains(&input) => input,
            (Some(input), _) => return Err(Error::NotDeclared { what: input.name(), option: "inputs" }),
            (None, Some(&input)) => input,
            (None, None) => return Err(Error::NotDeclared { what: "an input mode", option: "inputs" }),
        };
        let packs = share::packs(request.dtype, request.elems);
        let part = share::part_packs(packs, limits.world.max(1));
        // Why not, for each algorithm: not declared; no such form; out of reach; in place, where peers would read what this rank
        // overwrites; no room.
        let refused = |algorithm: Algorithm| {
            if !options.algorithms.contains(&algorithm) {
                return Some(Error::NotDeclared { what: algorithm.name(), option: "algorithms" });
            }
            if limits.world == 1 {
                return None;
            }
            if options.form(algorithm, input).is_none() {
                return Some(Error::NoSuchForm { preset: options.protocol, input });
            }
            if !reaches_buffers && !input.staged() && !algorithm.pushes() {
                return Some(Error::OutOfReach { algorithm });
            }
            let needs_input = match algorithm {
                Algorithm::OneShot | Algorithm::Exchange => !input.staged(),
                Algorithm::TwoShot | Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::OnePass => false,
            };
            if request.in_place && needs_input {
                return Some(Error::InPlace { algorithm });
            }
            if !algorithm.takes(limits.world) {
                return Some(Error::NotForWorld { algorithm, world: limits.world });
            }
            let room = |what: &'static str, packs: u64, capacity_bytes: u64| {
                let needed_bytes = packs.saturating_mul(PACK_BYTES as u64);
                (needed_bytes > capacity_bytes).then_some(Error::Capacity { what, needed_bytes, capacity_bytes })
            };
            let staging = || input.staged().then(|| room("staging", packs, limits.staging_bytes)).flatten();
            let landing_packs = u64::from(request.dtype.landing_packs());
            let pushed = |packs: u64| packs.saturating_mul(landing_packs);
            match algorithm {
                Algorithm::OneShot => staging(),
                Algorithm::TwoShot => staging().or_else(|| room("scratch", part, limits.scratch_bytes)),
                Algorithm::OneShotPush => room("landing", pushed(packs), limits.landing_bytes),
                // A slot has one pack more than its limit says: two parts may have one more than the whole.
                Algorithm::TwoShotPush => {
                    room("landing", pushed(part.saturating_mul(2)).saturating_sub(1), limits.landing_bytes)
                }
                Algorithm::Exchange => staging(),
                Algorithm::OnePass => None,
            }
        };
        // What was measured here, else the built-in rows.
        let declared = Declared::of(input, request.in_place);
        let row_of = |usable: &dyn Fn(Algorithm) -> bool| {
            let table = options.tuning.as_ref();
            let measured =
                table.and_then(|table| table.row(limits.world, request.dtype, declared, request.bytes, usable));
            measured.or_else(|| tuning::row(rows, limits.world, request.dtype, request.bytes, usable))
        };
        let row = match call.algorithm {
            Some(algorithm) => match refused(algorithm) {
                Some(error) => return Err(error),
                None => row_of(&|a| a == algorithm).unwrap_or(Row::PLAIN.by(algorithm)),
            },
            None => match row_of(&|a| refused(a).is_none()) {
                Some(row) => row,
                // No row speaks of what is left: whatever is possible, else why the last resort is not.
                None => match Algorithm::ALL.into_iter().find(|&a| refused(a).is_none()) {
                    Some(algorithm) => Row::PLAIN.by(algorithm),
                    None => return Err(last_refusal(options, refused)),
                },
            },
        };
        // One rank alone shows its input to nobody: a copy, whatever was asked for.
        let alone = limits.world == 1;
        let (algorithm, input) =
            if alone { (Algorithm::OneShot, InputMode::Registered) } else { (row.algorithm, input) };
        let form = if alone { Preset::Allfold.protocol(algorithm, input) } else { options.form(algorithm, input) };
        let Some(protocol) = form else { return Err(Error::NoSuchForm { preset: options.protocol, input }) };

        let work_packs = match algorithm {
            Algorithm::OneShot | Algorithm::OneShotPush => packs,
            Algorithm::TwoShot | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange => part,
        };
        // The block of a push that moves no data.
        let idle_blocks = u32::from(algorithm.pushes());
        let max_blocks = limits.max_blocks.min(options.max_blocks.unwrap_or(u32::MAX));
        let max_threads = limits.threads_of(algorithm);
        // No more threads than packs, in whole warps: a small block starts and synchronises sooner.
        let busy_threads = work_packs.clamp(1, u64::from(row.threads.max(1))).next_multiple_of(WARP_THREADS) as u32;
        let threads = call.threads.unwrap_or(busy_threads.min(row.threads).min(max_threads));
        let blocks = match call.blocks {
            Some(blocks) => blocks,
            None => {
                work_packs
                    .div_ceil(u64::from(threads.max(1)))
                    .clamp(1, u64::from(row.blocks.min(max_blocks.saturating_sub(idle_blocks)).max(1)))
                    as u32
                    + idle_blocks.min(max_blocks.saturating_sub(1))
            }
        };
        if !(1..=max_blocks).contains(&blocks) || !(1..=max_threads).contains(&threads) {
            return Err(Error::Grid { blocks, threads, max_blocks, max_threads });
        }
        Ok(Plan { algorithm, input, protocol, blocks, threads })
    }

    /// Whether the input is copied to the staging area before the kernel.
    pub fn stages(&self) -> bool {
        self.input == InputMode::Memcpy && self.algorithm.has_any_protocol()
    }

    /// What ranks compare of the call that does `request` so.
    pub(crate) fn signature(&self, request: &Request) -> Signature {
        // A push is the same whatever else is asked for: nobody but its own rank touches an input.
        let (input, protocol) = match self.algorithm.pushes() {
            true => (InputMode::Registered, 0),
            false => (self.input, self.protocol.encode()),
        };
        let Plan { algorithm, blocks, threads, .. } = *self;
        let Request { elems, dtype, op, .. } = *request;
        Call { collective: Collective::AllReduce, elems, dtype, op, algorithm, input, blocks, threads, protocol }
            .signature()
    }

    /// Whether ranks use the buffers of each other's callers.
    pub fn uses_buffers(&self) -> bool {
        self.input == InputMode::Registered && !self.algorithm.pushes()
    }

    /// What is known of the plan's protocol.
    pub fn soundness(&self) -> Soundness {
        self.protocol.soundness(self.algorithm, self.input)
    }
}

/// Why no algorithm will do: the reason of the last one that was declared.
fn last_refusal(options: &Options, refused: impl Fn(Algorithm) -> Option<Error>) -> Error {
    // Those that take the largest calls, first.
    let order = [Algorithm::TwoShot, Algorithm::OneShot, Algorithm::OnePass, Algorithm::Exchange];
    let order = order.into_iter().chain([Algorithm::TwoShotPush, Algorithm::OneShotPush]);
    let declared = order.into_iter().find(|a| options.algorithms.contains(a));
    let none = Error::NotDeclared { what: "an algorithm", option: "algorithms" };
    declared.and_then(refused).unwrap_or(none)
}

/// Every form that a communicator with `options` may be asked for: algorithm, input mode and protocol.
pub fn forms(options: &Options, world: u32) -> impl Iterator<Item = (Algorithm, InputMode, Protocol)> + '_ {
    options.algorithms.iter().filter(move |algorithm| algorithm.takes(world)).flat_map(move |&algorithm| {
        options.inputs.iter().filter_map(move |&input| Some((algorithm, input, options.form(algorithm, input)?)))
    })
}
