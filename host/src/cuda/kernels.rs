//! The kernels of a communicator, loaded on one GPU before its first call.

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode, ReduceOp};
use allfold_kernels::protocol::entry_point::{Does, EntryPoint, Form};
use allfold_kernels::protocol::preset::Preset;

use super::device::Device;
use super::ptx::{self, PtxRefused};
use super::raw::{Context, Function, Module};
use crate::cuda::driver;
use crate::error::{Error, Result};
use crate::members::Members;
use crate::options::Options;
use crate::plan;

/// Threads of the largest block that a plan may ask for.
const MAX_THREADS: u32 = 1024;

/// A multiprocessor has four parts, each with registers of its own, and deals the warps of a block out to them in turn.
const WARP_IN_EACH_PART_THREADS: u32 = 4 * 32;

/// Loaded kernels by entry point.
pub(super) struct Kernels {
    /// Few: a search through them costs less than a hash.
    loaded: Vec<Kernel>,
}

/// A loaded kernel.
pub(super) struct Kernel {
    entry_point: EntryPoint,
    pub(super) function: Function,
    /// Threads of the largest block that takes half of a multiprocessor at most: two such fit, whichever kernels they are of.
    pub(super) half_threads: u32,
}

impl Kernel {
    fn of(module: &Module, entry_point: EntryPoint) -> Result<Kernel> {
        let function = module.function(&entry_point.to_string())?;
        let step = WARP_IN_EACH_PART_THREADS;
        let mut half_threads = function.attributes().max_threads.min(MAX_THREADS) / step * step;
        while half_threads > 0 && function.max_active_blocks(half_threads, 0)? < 2 {
            half_threads -= step;
        }
        Ok(Kernel { entry_point, function, half_threads })
    }
}

impl Kernels {
    /// Loads on `context`'s GPU what `options` declare for the ranks of `members`, their code resident on return.
    pub(super) fn load(context: &Context, device: &Device, options: &Options, members: Members) -> Result<Kernels> {
        let entry_points = declared(options, members);
        if entry_points.is_empty() {
            // A communicator for nothing: the driver would refuse a module without kernels.
            return Ok(Kernels { loaded: Vec::new() });
        }
        let (major, minor) = device.compute_capability;
        let target = ptx::target((major, minor)).ok_or(Error::TooOld { ordinal: device.ordinal, major, minor })?;
        let text = target.select(&entry_points)?;
        let module = Module::load(context, &text).map_err(|error| {
            Error::PtxRefused(Box::new(PtxRefused {
                ptx_version: ptx::version(&text).to_owned(),
                target: target.name.to_owned(),
                driver_version: driver::open().map_or((0, 0), |driver| driver.version()),
                log: error.log,
                source: error.source,
            }))
        })?;
        let kernels = entry_points.into_iter().map(|entry_point| Kernel::of(&module, entry_point));
        Ok(Kernels { loaded: kernels.collect::<Result<_>>()? })
    }

    pub(super) fn get(&self, entry_point: EntryPoint) -> Result<&Kernel> {
        let missing = || Error::NoKernel { name: entry_point.to_string(), dtype: entry_point.dtype() };
        self.loaded.iter().find(|kernel| kernel.entry_point == entry_point).ok_or_else(missing)
    }

    /// The largest block that every kernel of `algorithm` can be launched with; `beside`: that takes half of a multiprocessor at most.
    pub(super) fn max_threads(&self, algorithm: Algorithm, beside: bool) -> u32 {
        let of = |kernel: &Kernel| match kernel.entry_point {
            EntryPoint::AllReduce { algorithm: of, .. } if of == algorithm => {
                Some(if beside { kernel.half_threads } else { kernel.function.attributes().max_threads })
            }
            // The others wait for nobody.
            EntryPoint::AllReduce { .. }
            | EntryPoint::Stage(_)
            | EntryPoint::FillStamps(_)
            | EntryPoint::CheckStamps(_) => None,
        };
        self.loaded.iter().filter_map(of).min().unwrap_or(MAX_THREADS).min(MAX_THREADS)
    }
}

/// Everything that a communicator with `options` may launch. Several of them may share a kernel.
fn declared(options: &Options, members: Members) -> Vec<EntryPoint> {
    let world = members.world;
    let mut all = Vec::new();
    for &dtype in &options.dtypes {
        let ops = ReduceOp::ALL.into_iter().filter(|&op| options.declares(op)).map(|op| (dtype, op));
        if world == 1 {
            all.extend(ops.map(|of| all_reduce(of, Algorithm::OneShot, InputMode::Registered, options, world)));
        } else {
            for (algorithm, input, protocol) in plan::forms(options, world) {
                for of in ops.clone() {
                    all.push(all_reduce(of, algorithm, input, options, world));
                    if reads_rows(options, members) && input == InputMode::Registered && !algorithm.pushes() {
                        all.push(captured(of, algorithm, world));
                    }
                }
                if input == InputMode::Memcpy && algorithm.has_any_protocol() && protocol.alternates() {
                    all.push(EntryPoint::Stage(dtype.kernels()));
                }
            }
        }
        if options.stamps {
            let dtype = dtype.kernels();
            all.extend([EntryPoint::FillStamps(dtype), EntryPoint::CheckStamps(dtype)]);
        }
    }
    all
}

/// Whether there are kernels that find the buffers of all ranks in a row.
pub(super) fn reads_rows(options: &Options, members: Members) -> bool {
    options.captured_calls > 0 && !members.all_local() && members.world > 1
}

/// The kernel of an all-reduce that finds the buffers of all ranks in a row.
pub(super) fn captured((dtype, op): (Dtype, ReduceOp), algorithm: Algorithm, world: u32) -> EntryPoint {
    EntryPoint::AllReduce { dtype: dtype.kernels(), does: Does::of(dtype, op), algorithm, form: Form::Captured, world }
}

/// Whether a kernel that decodes nothing does what `options` say: a two-shot's with one staging bank as with two.
fn is_compiled(options: &Options, algorithm: Algorithm, input: InputMode) -> bool {
    algorithm == Algorithm::TwoShot || options.form(algorithm, input) == Preset::Allfold.protocol(algorithm, input)
}

/// The input mode whose kernel does what `options` say, with nothing to decode. A one-shot after a memcpy, with one staging
/// bank and an end barrier, is a registered one.
fn same_as(options: &Options, algorithm: Algorithm, input: InputMode) -> InputMode {
    let registered = Preset::Allfold.protocol(algorithm, InputMode::Registered);
    if input == InputMode::Memcpy && options.form(algorithm, input) == registered {
        InputMode::Registered
    } else {
        input
    }
}

/// The kernel of an all-reduce. One rank alone meets no protocol: it has the same kernel in all of them.
pub(super) fn all_reduce(
    (dtype, op): (Dtype, ReduceOp),
    algorithm: Algorithm,
    input: InputMode,
    options: &Options,
    world: u32,
) -> EntryPoint {
    let does = Does::of(dtype, op);
    let form = match (options.stressed(), options.protocol, options.custom) {
        _ if does == Does::AnyOp => Form::Any,
        _ if world == 1 => Form::Own(input),
        (true, ..) => Form::Stress,
        (false, Preset::Allfold, None) if is_compiled(options, algorithm, same_as(options, algorithm, input)) => {
            Form::Own(same_as(options, algorithm, input))
        }
        _ if !algorithm.has_any_protocol() => Form::Own(input),
        (false, ..) => Form::Any,
    };
    EntryPoint::AllReduce { dtype: dtype.kernels(), does, algorithm, form, world }
}
