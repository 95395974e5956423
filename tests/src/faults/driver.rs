//! Driver calls that fail, one at a time: of each comes a typed error or nothing, and a fresh communicator works.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use allfold::Error;
use allfold::cuda::{Context, Device};
use allfold::driver_faults::{Calls, current_context, watch};
use allfold::rendezvous::RendezvousError;
use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::dealt::dealt;
use super::story::{self, Cut, TIMEOUT, Told};
use super::together::{self, said, together};
use super::{Facts, Report, Watchdog, now};
use crate::soft;

/// `CUDA_ERROR_OUT_OF_MEMORY`, of what takes memory or other things that there may be too few of.
const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_UNKNOWN`, of all others.
const UNKNOWN: i32 = 999;

/// Functions that take something.
const TAKE: [&str; 12] = [
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuFuncLoad",
    "cuGraphInstantiateWithFlags",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemHostAlloc",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuModuleLoadDataEx",
    "cuStreamCreate",
];

/// Functions that give something back, or wait before it is: where one fails something may be lost.
const GIVE: [&str; 12] = [
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxRelease_v2",
    "cuEventDestroy_v2",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuMemAddressFree",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemRelease",
    "cuMemUnmap",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
];

/// Functions that say or change what is current.
const CURRENT: [&str; 3] = ["cuCtxGetCurrent", "cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2"];

fn code_of(name: &str) -> i32 {
    if TAKE.contains(&name) { OUT_OF_MEMORY } else { UNKNOWN }
}

/// A story, and the driver calls that it makes.
struct Sweep {
    /// `None`: one thread tells it. Else the rank whose calls fail.
    victim: Option<u32>,
    names: Vec<&'static str>,
}

/// What came of a story in which a call failed.
struct Came {
    /// What the library said where it failed, whether that was in place of a communicator, and what it said elsewhere.
    said: Option<Error>,
    unmade: bool,
    others: Vec<Option<Error>>,
    calls: Calls,
}

impl Sweep {
    fn new(gpus: &[u32], victim: Option<u32>, making: bool) -> Result<Sweep> {
        let mut sweep = Sweep { victim, names: Vec::new() };
        // The first time something may be looked up, or compiled.
        for _ in 0..2 {
            let Came { said, others, calls, .. } = sweep.tell(gpus, making, None)?;
            let said = said.into_iter().chain(others.into_iter().flatten()).next();
            ensure!(said.is_none(), "a story in which nothing fails: {said:?}");
            sweep.names = calls.names;
        }
        Ok(sweep)
    }

    /// Tells the story, or only how a communicator is made; one call fails with a code.
    fn tell(&self, gpus: &[u32], making: bool, fails: Option<(usize, i32)>) -> Result<Came> {
        let Some(victim) = self.victim else {
            let tell = if making { story::making } else { story::long };
            let context = context_of(gpus[0])?;
            let _current = context.enter()?;
            let (told, calls) = watch(fails, || catch_unwind(AssertUnwindSafe(|| tell(gpus))));
            let told: Told = told.map_err(|_| anyhow!("it panicked"))?;
            let unmade = matches!(told, Err(Cut::Unmade(_)));
            return Ok(Came { said: said(told, 0)?, unmade, others: Vec::new(), calls });
        };
        let tell = if making { together::making } else { together::long };
        let fails = fails.map(|(number, code)| (victim, number, code));
        let came = together(gpus, victim, fails, tell)?;
        let unmade = matches!(came.told.get(victim as usize), Some(Err(Cut::Unmade(_))));
        let mut all =
            came.told.into_iter().enumerate().map(|(rank, told)| said(told, rank)).collect::<Result<Vec<_>>>()?;
        let said = all.remove(victim as usize);
        Ok(Came { said, unmade, others: all, calls: came.calls })
    }

    /// A fresh communicator.
    fn fresh(&self, gpus: &[u32]) -> Result<()> {
        let told = match self.victim {
            None => vec![story::short(gpus)],
            Some(victim) => together(gpus, victim, None, together::short)?.told,
        };
        for (rank, told) in told.into_iter().enumerate() {
            if let Some(error) = said(told, rank)? {
                bail!("a fresh communicator: rank {rank}: {error}");
            }
        }
        Ok(())
    }

    /// Lets call `number` fail.
    fn fail(&self, gpus: &[u32], making: bool, number: usize) -> Result<Vec<Facts>> {
        let code = code_of(self.names[number]);
        let (before, live, begun) = (current_context(), soft::live(), Instant::now());
        let came = self.tell(gpus, making, Some((number, code)))?;
        let took = begun.elapsed();
        // The same as when they were counted, if each run is like the last.
        let name = came.calls.failed.with_context(|| format!("there were {} calls only", came.calls.names.len()))?;
        ensure!(current_context() == before, "another context is current than before");
        self.judge((name, code), &came)?;
        let Came { said, others, .. } = came;
        let limit = TIMEOUT + Duration::from_secs(1);
        ensure!(took < limit, "it took {took:?}, more than {limit:?}: {said:?}, {others:?}");
        self.fresh(gpus)?;
        ensure!(current_context() == before, "another context is current than before a fresh communicator");
        let now_live = soft::live();
        ensure!(now_live == live || self.gives(number), "there is {now_live:?} after {live:?}");
        let late = took.saturating_sub(TIMEOUT);
        let fact = |error: &Option<Error>| Facts { right: error.is_none(), late, at: now(), took };
        Ok([&said].into_iter().chain(&others).map(fact).collect())
    }

    /// Whether call `number` gives something back, or makes a context current for one that does.
    fn gives(&self, number: usize) -> bool {
        let rest = &self.names[number..];
        let entered = rest.iter().find(|name| **name == CURRENT[1] || !CURRENT.contains(name));
        entered.is_some_and(|name| GIVE.contains(name))
    }

    /// Where something was said it is what failed; elsewhere what became of it.
    fn judge(&self, (name, code): (&str, i32), came: &Came) -> Result<()> {
        let Came { said, unmade, others, .. } = came;
        let right = match said {
            // It has stopped nothing, or what has become of it is right.
            None => !TAKE.contains(&name),
            Some(Error::Driver(error) | Error::ContextLost { source: error, .. }) => {
                (error.call, error.code) == (name, code)
            }
            Some(Error::PtxRefused(refused)) => (refused.source.call, refused.source.code) == (name, code),
            Some(_) => false,
        };
        ensure!(right, "got {said:?}");
        let named = |rank: &u32| Some(*rank) == self.victim;
        for other in others {
            let right = match other {
                // It had nothing more to do with the one whose call failed.
                None => !unmade,
                Some(Error::RankFailed { rank, .. } | Error::PeerGone { rank }) => named(rank),
                Some(Error::Rendezvous(RendezvousError::Gone { rank })) => named(rank),
                Some(Error::Rendezvous(RendezvousError::Missing { missing }) | Error::Timeout { missing, .. }) => {
                    matches!(&missing[..], [rank] if named(rank))
                }
                // One that could not launch says so, and not who it is.
                Some(Error::Ended(_)) => !unmade,
                Some(_) => false,
            };
            let alone = other.is_some() && said.is_none();
            ensure!(right && !alone, "another rank got {other:?}, and the one whose call failed {said:?}");
        }
        Ok(())
    }

    fn title(&self) -> String {
        self.victim.map_or_else(|| "one thread".to_owned(), |victim| format!("a thread a rank, rank {victim}"))
    }
}

/// The stories of ranks on `gpus`: told by one thread, and, where each rank has a GPU of its own, by a thread for each. One that cannot
/// be told has failed.
fn sweeps(gpus: &[u32], making: bool, report: &Report, watchdog: &Watchdog) -> Vec<Sweep> {
    let apart = (1..gpus.len()).all(|at| !gpus[..at].contains(&gpus[at]));
    let victims = (0..gpus.len() as u32).filter(|_| apart && gpus.len() > 1).map(Some);
    let mut sweeps = Vec::new();
    for victim in [None].into_iter().chain(victims) {
        let named = format!("a story in which nothing fails, victim {victim:?}");
        match watchdog.during(&named, || Sweep::new(gpus, victim, making)) {
            Ok(sweep) => sweeps.push(sweep),
            Err(error) => report.add("no story", &named, Err(error)),
        }
    }
    sweeps
}

/// Kept, so that no story has to make the contexts of `gpus`.
fn contexts(gpus: &[u32]) -> Result<Vec<Context>> {
    gpus.iter().map(|&gpu| context_of(gpu)).collect()
}

/// A GPU's context. A story in which it is current has half as many calls.
pub(super) fn context_of(gpu: u32) -> Result<Context> {
    Ok(Device::get(gpu)?.context()?)
}

/// Lets each driver call of each story fail in turn, until `end`: then those that are left are counted, and are spread over all.
///
/// # Errors
/// The GPUs cannot be had.
pub fn driver(gpus: &[u32], end: Instant, report: &Report, watchdog: &Watchdog) -> Result<()> {
    let _contexts = contexts(gpus)?;
    let sweeps = sweeps(gpus, false, report, watchdog);
    let all: usize = sweeps.iter().map(|sweep| sweep.names.len()).sum();
    // Most calls only make a context current. They come last; and each story gets its share of whatever time there is.
    let mut order: Vec<_> = sweeps
        .iter()
        .enumerate()
        .flat_map(|(story, sweep)| {
            let count = sweep.names.len();
            dealt(count).enumerate().map(move |(place, number)| {
                let last = CURRENT.contains(&sweep.names[number]);
                (last, place * all / count, story, number)
            })
        })
        .collect();
    order.sort_unstable();
    let mut tried = BTreeMap::<&str, usize>::new();
    for (place, &(_, _, story, number)) in order.iter().enumerate() {
        if Instant::now() > end || report.gives_up() {
            report.not_run(order.len() - place);
            break;
        }
        let sweep = &sweeps[story];
        let (name, title) = (sweep.names[number], sweep.title());
        let named = format!("{title}: call {number} of {}, {name}, fails with {}", sweep.names.len(), code_of(name));
        if report.run(watchdog, "a driver call fails", &named, || sweep.fail(gpus, false, number)) {
            *tried.entry(name).or_default() += 1;
        }
    }
    for sweep in &sweeps {
        report.note(format!("a story of {} driver calls: {}", sweep.names.len(), sweep.title()));
    }
    let tried: Vec<_> = tried.iter().map(|(name, count)| format!("{name} {count}")).collect();
    report.note(format!("driver calls that failed, by function: {}", tried.join(", ")));
    Ok(())
}

/// Lets each allocation of a start-up fail.
///
/// # Errors
/// The GPUs cannot be had.
pub fn allocations(gpus: &[u32], end: Instant, report: &Report, watchdog: &Watchdog) -> Result<()> {
    let _contexts = contexts(gpus)?;
    for sweep in sweeps(gpus, true, report, watchdog) {
        let takes: Vec<_> = (0..sweep.names.len()).filter(|&number| TAKE.contains(&sweep.names[number])).collect();
        for (place, &number) in takes.iter().enumerate() {
            if Instant::now() > end || report.gives_up() {
                report.not_run(takes.len() - place);
                break;
            }
            let named = format!("{}: {}, call {number} of a start-up", sweep.title(), sweep.names[number]);
            report.run(watchdog, "no memory in a start-up", &named, || sweep.fail(gpus, true, number));
        }
    }
    Ok(())
}
