//! Mutants: one operation of a sound program weakened or dropped, so that a test can show that each is needed.
//!
//! Uses `program`.

use std::collections::BTreeSet;

use crate::case::Case;
use crate::event::{Op, Order, Place, Scope};
use crate::program::Program;
use crate::verdict::{Verdict, ask};

/// A program with one thing weaker.
pub struct Mutant {
    /// What is weaker.
    pub name: String,
    /// The program.
    pub program: Program,
}

/// What became of a case's mutants.
#[derive(Clone, Debug, Default)]
pub struct Harvest {
    /// How many show the outcome.
    pub killed: usize,
    /// Those that do not, each with the reason that the case gives.
    pub spared: Vec<(String, &'static str)>,
    /// Those that do not, and nobody says why; and reasons that no mutant needs.
    pub unexplained: Vec<String>,
}

/// Asks for the outcome of `case` in each mutant of its program.
pub fn harvest(case: &Case) -> Harvest {
    let mut harvest = Harvest::default();
    let mut needless: BTreeSet<&str> = case.spare.iter().map(|spare| spare.0).collect();
    for mutant in mutants(&case.program) {
        if ask(&mutant.program, &case.assumptions, &case.outcome).verdict != Verdict::Forbidden {
            harvest.killed += 1;
        } else if let Some((part, why)) = case.spare.iter().find(|(part, _)| mutant.name.contains(part)) {
            needless.remove(part);
            harvest.spared.push((mutant.name, why));
        } else {
            harvest.unexplained.push(mutant.name);
        }
    }
    harvest.unexplained.extend(needless.into_iter().map(|part| format!("no survivor has \"{part}\" in its name")));
    harvest
}

/// All mutants of `program`.
pub fn mutants(program: &Program) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut barriers: BTreeSet<(u8, u8, u8, usize)> = BTreeSet::new();
    let mut streams = BTreeSet::new();
    for (t, thread) in program.threads.iter().enumerate() {
        let Place { gpu, grid, block, .. } = thread.place;
        for (n, op) in thread.ops.iter().enumerate() {
            for weaker in weaker(op) {
                let mut program = program.clone();
                let change = match weaker {
                    Some(weaker) => {
                        program.threads[t].ops[n] = weaker.clone();
                        format!("{op} -> {weaker}")
                    }
                    None => {
                        program.threads[t].ops.remove(n);
                        format!("{op} dropped")
                    }
                };
                mutants.push(Mutant { name: format!("{}: {change}", thread.place), program });
            }
            if *op == Op::GridWait {
                let mut program = program.clone();
                let wait = program.threads[t].ops.remove(n);
                program.threads[t].ops.push(wait);
                mutants.push(Mutant { name: format!("{}: {op} put last", thread.place), program });
            }
        }
        let syncs = thread.ops.iter().filter(|op| **op == Op::BarSync).count();
        barriers.extend((0..syncs).map(|ordinal| (gpu, grid, block, ordinal)));
        if program.threads.iter().any(|other| program.in_stream_order(thread.place, other.place)) {
            streams.insert(gpu);
        }
    }
    mutants.extend(barriers.into_iter().map(|barrier| without_barrier(program, barrier)));
    mutants.extend(streams.into_iter().map(|gpu| {
        let mut program = program.clone();
        program.unordered.insert(gpu);
        Mutant { name: format!("gpu {gpu}: stream order dropped"), program }
    }));
    mutants
}

fn without_barrier(program: &Program, (gpu, grid, block, ordinal): (u8, u8, u8, usize)) -> Mutant {
    let mut program = program.clone();
    for thread in &mut program.threads {
        if (thread.place.gpu, thread.place.grid, thread.place.block) == (gpu, grid, block) {
            let mut syncs = thread.ops.iter().enumerate().filter(|(_, op)| **op == Op::BarSync).map(|(n, _)| n);
            if let Some(n) = syncs.nth(ordinal) {
                thread.ops.remove(n);
            }
        }
    }
    Mutant { name: format!("gpu {gpu} kernel {grid} block {block}: bar.sync {} dropped", ordinal + 1), program }
}

/// What is one step weaker than `op`; `None` for nothing at all.
fn weaker(op: &Op) -> Vec<Option<Op>> {
    match op {
        Op::Load { order, loc, into, until } => {
            let with = |order| Op::Load { order, loc: loc.clone(), into: into.clone(), until: *until };
            let dropped = until.is_some().then_some(None);
            weaker_orders(*order).into_iter().map(|order| Some(with(order))).chain(dropped).collect()
        }
        Op::Store { order, loc, value } => {
            let with = |order| Op::Store { order, loc: loc.clone(), value: value.clone() };
            weaker_orders(*order).into_iter().map(|order| Some(with(order))).collect()
        }
        Op::Add { order, loc, value, into } => {
            let with = |order| Op::Add { order, loc: loc.clone(), value: *value, into: into.clone() };
            weaker_orders(*order).into_iter().map(|order| Some(with(order))).collect()
        }
        Op::Fence(kind, scope) => {
            let narrower = narrower(*scope).map(|scope| Some(Op::Fence(*kind, scope)));
            narrower.into_iter().chain([None]).collect()
        }
        Op::BarSync | Op::GridWait => Vec::new(),
    }
}

fn weaker_orders(order: Order) -> Vec<Order> {
    let or_narrower = |weaker: Option<Order>, with: fn(Scope) -> Order, scope| {
        weaker.into_iter().chain(narrower(scope).map(with)).collect()
    };
    match order {
        Order::Weak | Order::Volatile => Vec::new(),
        Order::Relaxed(scope) => or_narrower(None, Order::Relaxed, scope),
        Order::Acquire(scope) => or_narrower(Some(Order::Relaxed(scope)), Order::Acquire, scope),
        Order::Release(scope) => or_narrower(Some(Order::Relaxed(scope)), Order::Release, scope),
        Order::AcqRel(scope) => or_narrower(Some(Order::Relaxed(scope)), Order::AcqRel, scope),
    }
}

fn narrower(scope: Scope) -> Option<Scope> {
    match scope {
        Scope::Cta => None,
        Scope::Gpu => Some(Scope::Cta),
        Scope::Sys => Some(Scope::Gpu),
    }
}
