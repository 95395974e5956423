//! Runs a program under loom in every order that a depth allows, until an execution fails.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Once;

use allfold_kernels::protocol::abi::Rank;
use loom::model::Builder;
use serde::{Deserialize, Serialize};

use crate::assumptions::{Assumption, Assumptions};
use crate::block::Meeting;
use crate::landing::Landings;
use crate::machine::World;
use crate::memory::{Data, Memory};
use crate::mutants::Mutation;
use crate::program::Program;
use crate::stream;
use crate::trace::{Failure, Log, Step};

/// Most scheduling points of one execution.
const MAX_POINTS: usize = 20_000;

/// What is explored.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The calls.
    pub program: Program,
    /// What is assumed.
    pub assumptions: Assumptions,
    /// The planted fault.
    pub mutation: Mutation,
}

impl Subject {
    /// How it keeps the data that peers read.
    pub fn data(&self) -> Data {
        if self.assumptions.has(Assumption::LoadsDoneBeforeBarrier) { Data::Words } else { Data::Cells }
    }
}

/// How far to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Depth {
    /// Every order, as loom's partial-order reduction has it.
    Exhaustive,
    /// Loom's bound on preemptions, which are switches away from a thread that could go on. Until an execution has had so
    /// many, loom branches in whom it lets go on; after that it keeps to its default, also where a thread waits and a
    /// switch would be free. What a load may give branches always. So 0 is the default schedule alone.
    Preemptions(u32),
    /// As loom does it by itself, with nothing cut; with such a bound or none. Only small programs come to an end.
    Uncut(Option<u32>),
}

impl Depth {
    /// Polls of one wait that may fail before the rest of an execution is run without exploring it; none may where the
    /// flag was there and the poll gave an older value. `None`: any number may.
    ///
    /// A failed poll does nothing. An execution that has one is equal to another that does not, in which the waiting
    /// thread comes later, and that other one is explored by itself, where nothing bounds the exploration. Where
    /// preemptions are counted it may cost one more than the bound has: there one failed poll is let pass, since the
    /// switch that follows it is not counted. What further failed polls would have shown under the bound is cut.
    pub const fn patience(self) -> Option<u64> {
        match self {
            Depth::Exhaustive => Some(0),
            Depth::Preemptions(_) => Some(1),
            Depth::Uncut(_) => None,
        }
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Explored {
    /// Executions begun.
    pub executions: u64,
    /// Whether all that the depth allows were run.
    pub complete: bool,
    /// The failure and the steps that led to it.
    pub failed: Option<(Failure, Vec<Step>)>,
}

/// Which thread of a program is which of loom's. Where it is free to choose, loom lets the first go on that has not yet
/// given way: so this is the default schedule, from which a bounded exploration departs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineup(Vec<(Rank, u32)>);

impl Lineup {
    /// Every lineup of `program` with rank 0 in front: no rank differs from another but by its number.
    pub fn all(program: &Program) -> Vec<Lineup> {
        let of_rank = |rank| (0..program.threads_of_rank()).map(move |thread| (Rank(rank), thread));
        let threads: Vec<_> = (0..program.shape.ranks).flat_map(of_rank).collect();
        let mut lineups = vec![Vec::new()];
        for _ in &threads {
            let longer = |lineup: Vec<(Rank, u32)>| {
                let left = threads.iter().filter(|thread| !lineup.contains(thread)).collect::<Vec<_>>();
                left.into_iter().map(|&thread| [&lineup[..], &[thread]].concat()).collect::<Vec<_>>()
            };
            lineups = lineups.into_iter().flat_map(longer).collect();
        }
        lineups.into_iter().filter(|lineup| lineup[0].0 == Rank(0)).map(Lineup).collect()
    }
}

/// Explores `subject` to `depth` in its first lineup, in at most `budget` executions.
///
/// # Panics
/// Where the program has no thread.
pub fn explore(subject: &Subject, depth: Depth, budget: u64) -> Explored {
    explore_in(subject, &Lineup::all(&subject.program)[0], depth, budget)
}

/// The same in any lineup.
pub fn explore_in(subject: &Subject, lineup: &Lineup, depth: Depth, budget: u64) -> Explored {
    let log = Log::default();
    let mut builder = Builder::new();
    builder.max_branches = MAX_POINTS;
    builder.preemption_bound = match depth {
        Depth::Exhaustive | Depth::Uncut(None) => None,
        Depth::Preemptions(bound) | Depth::Uncut(Some(bound)) => Some(bound as usize),
    };
    // Loom looks at the limit at every so many executions only.
    builder.checkpoint_interval = 1;
    builder.max_permutations = Some(budget as usize + 1);
    let execution = {
        let (subject, lineup, log) = (subject.clone(), lineup.clone(), log.clone());
        move || execute(&subject, &lineup, depth, &log)
    };
    let outcome = quietly(|| builder.check(execution));
    let record = log.with(std::mem::take);
    let failed = outcome.err().map(|said| {
        let failure = match record.failure {
            Some(failure) => failure,
            None if said.contains("Causality violation") => Failure::Race,
            None => Failure::Broken(said),
        };
        (failure, record.steps)
    });
    let complete = failed.is_none() && record.executions < budget;
    Explored { executions: record.executions, complete, failed }
}

/// One execution.
fn execute(subject: &Subject, lineup: &Lineup, depth: Depth, log: &Log) {
    log.begin();
    let program = &subject.program;
    let shape = program.shape;
    let world = Rc::new(World {
        memory: Memory::new(program, subject.data()),
        landings: Landings::new(program),
        blocks: (0..shape.ranks * shape.blocks).map(|_| Meeting::new(shape.threads)).collect(),
        streams: (0..shape.ranks).map(|_| Meeting::new(program.threads_of_rank())).collect(),
        program: program.clone(),
        assumptions: subject.assumptions,
        mutation: subject.mutation,
        patience: depth.patience(),
        log: log.clone(),
    });
    // Loom's first thread is the one that is here.
    let Some((&(rank, thread), others)) = lineup.0.split_first() else { return };
    for &(rank, thread) in others {
        let world = world.clone();
        loom::thread::spawn(move || stream::run(&world, rank, thread));
    }
    stream::run(&world, rank, thread);
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `check`; what a panic said is the error, and is not printed.
fn quietly(check: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(check));
    QUIET.set(false);
    outcome.map_err(|said| match said.downcast::<String>() {
        Ok(said) => *said,
        Err(said) => said.downcast_ref::<&str>().map_or_else(String::new, |said| said.to_string()),
    })
}
