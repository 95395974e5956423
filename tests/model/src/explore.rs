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
    /// At most so many switches away from a thread that could go on. To switch where a thread waits costs nothing.
    Preemptions(u32),
    /// As loom does it by itself, with nothing cut. Only small programs come to an end.
    Uncut,
}

impl Depth {
    /// Polls of one wait that may fail before the rest of an execution is run without exploring it; none may where the
    /// flag was there and the poll gave an older value. `None`: any number may.
    ///
    /// A failed poll does nothing. An execution that has one is equal to another that does not, in which the waiting
    /// thread comes later, and that other one is explored by itself. Where preemptions are counted, one failed poll is
    /// let pass: to wait is then an occasion to switch that costs nothing.
    pub const fn patience(self) -> Option<u64> {
        match self {
            Depth::Exhaustive => Some(0),
            Depth::Preemptions(_) => Some(1),
            Depth::Uncut => None,
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

/// Explores `subject` to `depth`, in at most `budget` executions.
pub fn explore(subject: &Subject, depth: Depth, budget: u64) -> Explored {
    let log = Log::default();
    let mut builder = Builder::new();
    builder.max_branches = MAX_POINTS;
    builder.preemption_bound = match depth {
        Depth::Exhaustive | Depth::Uncut => None,
        Depth::Preemptions(bound) => Some(bound as usize),
    };
    // Loom looks at the limit at every so many executions only.
    builder.checkpoint_interval = 1;
    builder.max_permutations = Some(budget as usize + 1);
    let execution = {
        let (subject, log) = (subject.clone(), log.clone());
        move || execute(&subject, depth, &log)
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
fn execute(subject: &Subject, depth: Depth, log: &Log) {
    log.begin();
    let program = &subject.program;
    let shape = program.shape;
    let world = Rc::new(World {
        memory: Memory::new(program, subject.data()),
        blocks: (0..shape.ranks * shape.blocks).map(|_| Meeting::new(shape.threads)).collect(),
        streams: (0..shape.ranks).map(|_| Meeting::new(program.threads_of_rank())).collect(),
        program: program.clone(),
        assumptions: subject.assumptions,
        mutation: subject.mutation,
        patience: depth.patience(),
        log: log.clone(),
    });
    let threads =
        (0..shape.ranks).flat_map(|rank| (0..program.threads_of_rank()).map(move |thread| (Rank(rank), thread)));
    let mut last = None;
    for (rank, thread) in threads {
        let world = world.clone();
        if let Some(before) = last.replace(move || stream::run(&world, rank, thread)) {
            loom::thread::spawn(before);
        }
    }
    // Loom's first thread is the last of ours.
    if let Some(run) = last {
        run();
    }
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
