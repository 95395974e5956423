//! Candidates measured by the bench's machinery: a result is verified before its time is trusted, as in `allfold bench`.

use std::time::{Duration, Instant};

use allfold::tuning::Declared;
use allfold::{CallOptions, Communicator, Dtype, Plan, ReduceOp, Request, of_dtype};
use anyhow::{Context, Result};

use super::candidates::{Candidate, candidates};
use super::search::{Subject, Times, search};
use super::settings::{Settings, input};
use crate::args::algorithm_name;
use crate::bench::Real;
use crate::bench::case::{Case, Measured, Repeats};
use crate::bench::cpu::CpuBed;
use crate::bench::cuda::CudaBed;
use crate::bench::timing::How;
use crate::gpus::Gpus;
use crate::mix::mix;
use crate::progress::Progress;
use crate::stats::{median, slowest_rank};
use crate::target::Target;

/// Calls one by one, on CPU ranks.
const REPEATS: Repeats = Repeats { warmup: 3, timed: 40 };
/// Graphs of calls up to this size have more calls and are replayed more often.
const SMALL_BYTES: u64 = 4 << 20;
/// Verifying takes the host longer than calls take the GPUs: a size of so many bytes gets twice the time of a small one.
const TWICE_BYTES: f64 = (16 << 20) as f64;

/// A call's result that was not right: no time is trusted then.
#[derive(Debug, thiserror::Error)]
#[error("{wrong} wrong elements of {bytes} bytes a rank of {}, {} by {}, {} blocks of {} threads",
    dtype.name(), declared.name(), algorithm_name(plan.algorithm), plan.blocks, plan.threads)]
pub struct Wrong {
    pub wrong: u64,
    pub bytes: u64,
    pub dtype: Dtype,
    pub declared: Declared,
    pub plan: Plan,
}

/// What was measured of one dtype and declaration.
pub struct Found {
    pub dtype: Dtype,
    pub declared: Declared,
    pub candidates: Vec<Candidate>,
    pub times: Times,
}

/// The ranks, and the time that is left.
pub struct Tuner<'a> {
    settings: &'a Settings,
    comm: Communicator,
    gpus: Option<Gpus>,
    end: Instant,
    /// Of the sizes to come, with this one.
    weight: f64,
    progress: Progress,
}

impl<'a> Tuner<'a> {
    pub fn new(settings: &'a Settings) -> Result<Tuner<'a>> {
        let comm = settings.target.communicator(settings.options())?;
        let gpus = match &settings.target {
            Target::Cpu { .. } => None,
            Target::Cuda { devices } => Some(Gpus::new(devices)?),
        };
        let kinds = settings.dtypes.len() * Declared::ALL.len();
        let weight = settings.sizes.iter().map(|&bytes| weight(bytes)).sum::<f64>() * kinds as f64;
        let progress = Progress::new((kinds * settings.sizes.len()) as u64);
        Ok(Tuner { settings, comm, gpus, end: Instant::now() + settings.time, weight, progress })
    }

    /// Measures every dtype, every declaration and every size.
    ///
    /// # Errors
    /// [`Wrong`]; where a call failed.
    pub fn measure(&mut self) -> Result<Vec<Found>> {
        let (settings, mut found) = (self.settings, Vec::new());
        for &dtype in &settings.dtypes {
            for declared in Declared::ALL {
                let candidates = candidates(self.comm.limits(), self.comm.rows());
                let slice_end = Instant::now();
                let mut calls = Calls { tuner: self, dtype, declared, slice_end, count: 0 };
                let times = search(&settings.sizes, &candidates, &mut calls)?;
                found.push(Found { dtype, declared, candidates, times });
            }
        }
        Ok(found)
    }

    /// How a candidate, or else the built-in rows, would do such a call.
    pub fn plan(&self, dtype: Dtype, declared: Declared, bytes: u64, candidate: Option<&Candidate>) -> Option<Plan> {
        let (input, in_place) = input(declared);
        let request =
            Request { dtype, op: ReduceOp::Sum, elems: bytes / dtype.bytes() as u64, bytes, in_place, aligned: true };
        let (options, limits) = (self.comm.options(), self.comm.limits());
        match candidate {
            Some(candidate) => candidate.plan(&request, input, options, limits),
            None => {
                let call = CallOptions { input: Some(input), ..CallOptions::default() };
                Plan::choose(&request, &call, options, limits, self.comm.rows()).ok()
            }
        }
    }

    /// Whether calls are timed in graphs.
    pub fn in_graphs(&self) -> bool {
        self.gpus.is_some()
    }

    /// Verified and timed.
    fn run<T: Real>(&mut self, in_place: bool, plan: &Plan, bytes: u64) -> Result<Measured<Plan>> {
        let bytes_here = usize::try_from(bytes).context("more bytes than this machine can address")?;
        let seed = mix(mix(self.settings.seed, bytes), T::DTYPE as u64);
        let case = Case { op: ReduceOp::Sum, world: self.comm.world(), bytes: bytes_here, in_place, seed };
        let Plan { algorithm, input, blocks, threads, .. } = *plan;
        let call = CallOptions {
            algorithm: Some(algorithm),
            input: Some(input),
            blocks: Some(blocks),
            threads: Some(threads),
            ..CallOptions::default()
        };
        let call = (case.op, call);
        match &self.gpus {
            None => {
                let bed = &mut CpuBed::<T>::new(&mut self.comm, call, REPEATS, bytes_here, in_place);
                case.run::<T, _>(bed, |_| {})
            }
            Some(gpus) => {
                let how = if bytes <= SMALL_BYTES {
                    How::Graph { chain: 20, replays: 22 }
                } else {
                    How::Graph { chain: 5, replays: 12 }
                };
                let bed = &mut CudaBed::<T>::new(&mut self.comm, gpus, call, how, bytes_here, in_place)?;
                case.run::<T, _>(bed, |_| {})
            }
        }
    }
}

/// The share of the time that a size gets, as a multiple of that of a small one.
fn weight(bytes: u64) -> f64 {
    1.0 + bytes as f64 / TWICE_BYTES
}

/// Calls of one dtype and declaration.
struct Calls<'a, 'b> {
    tuner: &'a mut Tuner<'b>,
    dtype: Dtype,
    declared: Declared,
    /// When it is time for the next size.
    slice_end: Instant,
    /// Candidates measured at this size.
    count: u32,
}

impl Subject for Calls<'_, '_> {
    fn begin(&mut self, bytes: u64) {
        if self.count > 0 {
            self.tuner.progress.step();
        }
        self.count = 0;
        let now = Instant::now();
        let left = self.tuner.end.saturating_duration_since(now);
        let share = (weight(bytes) / self.tuner.weight).min(1.0);
        self.tuner.weight = (self.tuner.weight - weight(bytes)).max(f64::MIN_POSITIVE);
        self.slice_end = now + Duration::from_secs_f64(left.as_secs_f64() * share);
    }

    fn plan(&self, bytes: u64, candidate: Option<&Candidate>) -> Option<Plan> {
        self.tuner.plan(self.dtype, self.declared, bytes, candidate)
    }

    fn time(&mut self, bytes: u64, plan: &Plan) -> Result<f64> {
        let Calls { dtype, declared, .. } = *self;
        let left = self.tuner.end.saturating_duration_since(Instant::now()).as_secs();
        let (algorithm, Plan { blocks, threads, .. }) = (algorithm_name(plan.algorithm), plan);
        let what = format!("{bytes} bytes {} {}: {algorithm} {blocks} x {threads}", dtype.name(), declared.name());
        self.tuner.progress.doing(format!("{left} s left: {what}"));
        self.count += 1;
        let (_, in_place) = input(declared);
        let measured = of_dtype!(dtype, T => self.tuner.run::<T>(in_place, plan, bytes));
        let Measured { samples, wrong, .. } = measured.context(what)?;
        if wrong > 0 {
            return Err(Wrong { wrong, bytes, dtype, declared, plan: *plan }.into());
        }
        Ok(slowest_rank(&samples, median))
    }

    fn late(&self) -> bool {
        Instant::now() >= self.slice_end
    }
}

impl Drop for Calls<'_, '_> {
    fn drop(&mut self) {
        // Its last size.
        self.tuner.progress.step();
    }
}
