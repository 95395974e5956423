//! Properties of the checker itself, on small random programs: neither too strong nor too weak.

mod common;

use std::collections::BTreeSet;

use allfold_axioms::axioms::Wording;
use allfold_axioms::enumerate::Model;
use allfold_axioms::event::{FenceKind, Op, Order, Scope};
use allfold_axioms::program::Program;
use allfold_axioms::verdict::outcomes;
use common::{Random, interleavings, program};

const PROGRAMS: usize = 400;

fn allowed(program: &Program) -> BTreeSet<Vec<u32>> {
    outcomes(program, Model { only_coherent: true, ..Model::default() })
}

#[test]
fn what_an_interleaving_shows_is_allowed() {
    let mut random = Random(1);
    for _ in 0..PROGRAMS {
        let program = program(&mut random);
        let (shown, allowed) = (interleavings(&program), allowed(&program));
        assert!(shown.is_subset(&allowed), "{program:#?}\nshown {shown:?}\nallowed {allowed:?}");
    }
}

#[test]
fn with_fence_sc_everywhere_only_interleavings_are_allowed() {
    let mut random = Random(2);
    let mut weaker_before = 0;
    for _ in 0..PROGRAMS {
        let program = program(&mut random);
        let fenced = fenced(&program);
        let shown = interleavings(&fenced);
        assert_eq!(allowed(&fenced), shown, "{fenced:#?}");
        weaker_before += usize::from(allowed(&program) != interleavings(&program));
    }
    assert!(weaker_before > PROGRAMS / 10, "{weaker_before} programs show more than interleavings");
}

#[test]
fn both_wordings_of_causality_allow_the_same() {
    let mut random = Random(3);
    for _ in 0..PROGRAMS {
        let program = program(&mut random);
        let paper = outcomes(&program, Model { wording: Wording::Paper, ..Model::default() });
        assert_eq!(outcomes(&program, Model::default()), paper, "{program:#?}");
    }
}

#[test]
fn stronger_operations_allow_no_more() {
    let mut random = Random(4);
    let mut fewer = 0;
    for _ in 0..PROGRAMS {
        let program = program(&mut random);
        let mut strengthened = program.clone();
        for op in strengthened.threads.iter_mut().flat_map(|thread| &mut thread.ops) {
            if random.below(2) == 0 {
                strengthen(op, random.below(2) == 0);
            }
        }
        let (before, after) = (allowed(&program), allowed(&strengthened));
        assert!(after.is_subset(&before), "{program:#?}\nthen {strengthened:#?}");
        fewer += usize::from(after != before);
    }
    assert!(fewer > PROGRAMS / 50, "{fewer} programs allow less");
}

/// Makes the operation strong at system scope, or also ordered.
fn strengthen(op: &mut Op, ordered: bool) {
    match op {
        Op::Load { order, .. } => *order = if ordered { Order::Acquire(Scope::Sys) } else { wider(*order) },
        Op::Store { order, .. } => *order = if ordered { Order::Release(Scope::Sys) } else { wider(*order) },
        Op::Add { order, .. } => *order = if ordered { Order::AcqRel(Scope::Sys) } else { wider(*order) },
        Op::Fence(kind, scope) => {
            *scope = Scope::Sys;
            if ordered {
                *kind = FenceKind::Sc;
            }
        }
        Op::BarSync | Op::GridWait => {}
    }
}

fn wider(order: Order) -> Order {
    match order {
        Order::Weak | Order::Volatile | Order::Relaxed(_) => Order::Relaxed(Scope::Sys),
        Order::Acquire(_) => Order::Acquire(Scope::Sys),
        Order::Release(_) => Order::Release(Scope::Sys),
        Order::AcqRel(_) => Order::AcqRel(Scope::Sys),
    }
}

/// Every access relaxed at system scope, and a `fence.sc.sys` between any two.
fn fenced(program: &Program) -> Program {
    let mut program = program.clone();
    for thread in &mut program.threads {
        for op in &mut thread.ops {
            strengthen(op, false);
        }
        let fence = Op::Fence(FenceKind::Sc, Scope::Sys);
        let ops = std::mem::take(&mut thread.ops);
        thread.ops =
            ops.into_iter().filter(|op| op.loc().is_some()).flat_map(|op| [fence.clone(), op]).skip(1).collect();
    }
    program
}
