//! The calls of the self-test, each made by all ranks and judged by all before the next one.

use std::time::{Duration, Instant};

use allfold_kernels::protocol::abi::{Algorithm, Dtype, MAX_RANKS, ReduceOp};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::soundness::Soundness;
use allfold_kernels::protocol::status::Stop;

use super::finding::Finding;
use super::hint::On;
use super::judge::{Verdict, judge};
use super::pattern::Pattern;
use crate::error::{Error, Result};
use crate::options::{CallOptions, Options};
use crate::plan::{Limits, Plan};
use crate::processes::Meeting;
use crate::request::Request;
use crate::stop::{self, Word};
use crate::tuning::Row;

/// The least that a rank waits in a call, however near the end of the time to connect.
const LEAST: Duration = Duration::from_millis(100);

/// A call of the self-test, the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    pub(crate) request: Request,
    pub(crate) plan: Plan,
    pub(crate) pattern: Pattern,
    /// Its number.
    pub(crate) epoch: Epoch,
}

/// What the self-test asks of a backend.
pub(crate) trait Bench {
    /// Input and output of a local rank.
    type Buffers;

    /// Of `bytes` bytes each, for each local rank.
    fn buffers(&self, bytes: usize) -> Result<Vec<Self::Buffers>>;

    /// Makes the call on all local ranks, with the inputs of its pattern, and waits for its end: what each of them finds. In it a
    /// rank waits `limit` for others, and never traps.
    ///
    /// # Errors
    /// Where the call could not be made, or a rank could not be looked at. No kernel of it runs any more, and all ranks have been
    /// told to stop.
    fn call(&mut self, trial: &Trial, limit: Duration, buffers: &mut [Self::Buffers]) -> Result<Vec<Finding>>;

    /// Makes the local ranks' workspaces as they are before the first call, which comes after that of `last_epoch`. No rank is in a
    /// call.
    fn reset(&self, last_epoch: u64) -> Result<()>;
}

/// The calls that ranks with `options` and `limits` can make, from their first one on: one for each algorithm, in the first input
/// mode that does. None where one rank is alone; none of experiments, which are there to go wrong.
pub(crate) fn calls(options: &Options, limits: &Limits, rows: &[Row]) -> Vec<Trial> {
    // In an order of all ranks: what they declare is the same, but each may name it in its own order.
    let dtype = Dtype::ALL.into_iter().find(|dtype| options.dtypes.contains(dtype));
    let (Some(dtype), None, false, world @ 2..) = (dtype, options.custom, options.stressed(), limits.world) else {
        return Vec::new();
    };
    let mut trials = Vec::<Trial>::new();
    for algorithm in Algorithm::ALL {
        let call = trials.len() as u32;
        let pattern = Pattern { dtype, world, call };
        let (elems, bytes) = (pattern.elems() as u64, pattern.bytes() as u64);
        let request = Request { dtype, op: ReduceOp::Sum, elems, bytes, in_place: false, aligned: true };
        let plan = options.inputs.iter().find_map(|&input| {
            let call = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
            let plan = Plan::choose(&request, &call, options, limits, rows).ok()?;
            match plan.soundness() {
                Soundness::Sound | Soundness::RestsOn(_) => Some(plan),
                // A wrong sum of such a one would say nothing of the path.
                Soundness::NotKnown(_) => None,
            }
        });
        // As the first words of a workspace have it.
        let epoch = Epoch((options.last_epoch & (u64::MAX >> 2)) + u64::from(call) + 1);
        trials.extend(plan.map(|plan| Trial { request, plan, pattern, epoch }));
    }
    trials
}

/// Makes the calls of `trials`, which are these ranks' first; then workspaces are as before. If ranks are processes, all of
/// `meeting` do so.
///
/// # Errors
/// [`Error::SelfTest`], on all ranks the same; what keeps a rank from making a call, and [`Error::RankFailed`] on the others;
/// [`Error::PeerGone`], [`Error::Rendezvous`].
pub(crate) fn run<B: Bench>(bench: &mut B, on: &On, trials: &[Trial], meeting: Option<&Meeting<'_>>) -> Result<()> {
    let Some(first) = trials.first() else { return Ok(()) };
    // They differ in their numbers alone.
    let mut buffers = done(meeting, bench.buffers(first.pattern.bytes()))?;
    for trial in trials {
        let left = meeting.map(|meeting| meeting.deadline().saturating_duration_since(Instant::now()));
        // So that the others hear of it in time.
        let limit = left.map_or(on.limit(), |left| on.limit().min(left / 2).max(LEAST));
        let findings = told(meeting, bench.call(trial, limit, &mut buffers))?;
        let algorithm = trial.plan.algorithm;
        match judge(trial.pattern, algorithm, &findings) {
            Verdict::Right => {}
            Verdict::Failed(fault) => {
                let (what, hint) = (fault.what(algorithm, limit), on.hint(&fault));
                return Err(Error::SelfTest { pairs: fault.pairs, what, hint });
            }
            Verdict::Left(stop) => return left_by(stop),
        }
    }
    // All ranks have done all calls; and nobody makes another before all have come to this. To free memory may wait for whatever runs in
    // this process: so not when a rank that is further on may wait in its first call for this one.
    let reset = bench.reset(first.epoch.0 - 1);
    drop(buffers);
    done(meeting, reset)
}

/// What this rank has done, once all have done theirs.
fn done<T>(meeting: Option<&Meeting<'_>>, mine: Result<T>) -> Result<T> {
    match meeting {
        Some(meeting) => meeting.done(mine),
        None => mine,
    }
}

/// What all ranks have found, by what the local ones have.
fn told(meeting: Option<&Meeting<'_>>, found: Result<Vec<Finding>>) -> Result<Vec<Finding>> {
    let Some(meeting) = meeting else { return found };
    let (_, words) = meeting.step(found, |own| own.first().map_or(Vec::new(), Finding::encode))?;
    let heard = |(rank, word): (u32, &Vec<u8>)| {
        let failed = || Error::RankFailed { rank, why: "it found what this version does not know".to_owned() };
        Finding::decode(word).ok_or_else(failed)
    };
    (0..).zip(&words).map(heard).collect()
}

/// The error of ranks that have left a call because of `stop`.
fn left_by(stop: Stop) -> Result<()> {
    let word = Word { stop: Some(stop), ..Word::default() };
    stop::error(stop.by.0, word, None, |_| Ok([[0; 2]; MAX_RANKS]))
}
