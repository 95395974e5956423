//! The machine that writes down what a thread of the kernels does. Uses `allfold-kernels`, `program`.
//!
//! Each poll ends at once and with its own call's flag, so a thread's code is straight. Values are stamps, not sums:
//! all that a call stores bears its number, cursors too. A landing place is one word, and 0 is the marker.

use std::cell::{Cell, RefCell};

use allfold_kernels::protocol::abi::{Algorithm, FlagRow, Phase, Rank};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Landing, Machine};
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::share::part_packs;

use super::cell::{self, Cell as Protocol, RANKS, Shape, Weakened};
use crate::event::{Loc, Op, Order, Place, Reg, Scope, Until, Value};
use crate::program::Thread;

mod machine;

/// A load of data, and the stamp that it must return.
#[derive(Clone, Debug)]
pub struct Expected {
    /// What gets the value.
    pub reg: Reg,
    /// Where it is loaded from.
    pub loc: Loc,
    /// The value that it must be.
    pub stamp: u32,
}

/// What is written over the input of a call where its output goes to the same place.
pub const SUM: u32 = 100;

/// What a call finds.
#[derive(Clone, Copy)]
pub struct Before {
    /// The call before it in the program.
    pub call: u32,
    /// The last push before it in the program.
    pub push: u32,
    /// How far the landing slots are, by all pushes before it: also by those that the program leaves out.
    pub cursor: Cursor,
    /// Packs of a landing slot that small calls share.
    pub shared: u32,
}

impl Before {
    /// What the first call of a program finds, whose small calls share `shared` packs.
    pub const fn first(shared: u32) -> Before {
        Before { call: 0, push: 0, cursor: Cursor { serial: 0, used: 0, announced: false }, shared }
    }
}

/// One thread of one call.
pub struct Tracer<'a> {
    cell: &'a Protocol,
    weakened: Weakened,
    shape: Shape,
    place: Place,
    call: u32,
    before: Before,
    kept: Cell<Option<Cursor>>,
    syncs: Cell<u32>,
    ops: RefCell<Vec<Op>>,
    expected: RefCell<Vec<Expected>>,
    landed: RefCell<Vec<Expected>>,
}

impl<'a> Tracer<'a> {
    /// The thread at `place` in call `call`, from 1, of a grid of `shape`; no call before it is left out, and none
    /// pushes.
    pub fn new(cell: &'a Protocol, weakened: Weakened, shape: Shape, place: Place, call: u32) -> Tracer<'a> {
        let before = Before { call: call - 1, ..Before::first(0) };
        let (kept, syncs, ops, expected, landed) = Default::default();
        Tracer { cell, weakened, shape, place, call, before, kept, syncs, ops, expected, landed }
    }

    /// The same, after other calls.
    pub fn after(self, before: Before) -> Tracer<'a> {
        Tracer { before, ..self }
    }

    /// What it did.
    pub fn finish(self) -> (Thread, Vec<Expected>) {
        (Thread { place: self.place, ops: self.ops.into_inner() }, self.expected.into_inner())
    }

    /// What it polled of landing places, and must have found there.
    pub fn landed(&self) -> Vec<Expected> {
        self.landed.borrow().clone()
    }

    /// How far the landing slots are after it, if it has said so.
    pub fn cursor(&self) -> Option<Cursor> {
        self.kept.get()
    }

    fn push(&self, op: Op) {
        self.ops.borrow_mut().push(op);
    }

    fn announce(&self, order: Order, listener: Rank, row: FlagRow, epoch: Epoch) {
        let loc = flag(self.rank(), listener, row);
        self.push(Op::Store { order, loc, value: Value::Const(epoch.0 as u32) });
    }

    fn poll(&self, order: Order, emitter: Rank, row: FlagRow) -> Epoch {
        // A later flag publishes all that this one does; to wait for just this one is the weaker case, whatever the test.
        let wanted = self.wanted(row);
        let until = Until::Is(wanted);
        let into = Reg::from(format!("poll {} of {}", self.ops.borrow().len(), self.place));
        self.push(Op::Load { order, loc: flag(emitter, self.rank(), row), into, until: Some(until) });
        Epoch(wanted.into())
    }

    /// What a flag of `row` is waited for to say: this call, or the generation that the last push began.
    fn wanted(&self, row: FlagRow) -> u32 {
        if row.phase == Phase::Landing { self.before.cursor.serial as u32 } else { self.call }
    }

    /// Whether this call begins the generation of `at`.
    fn begins(&self, at: Landing) -> bool {
        at.generation != self.before.cursor.generation()
    }

    /// Where what `emitter` pushes to `listener` lands.
    fn landing(&self, emitter: Rank, listener: Rank, at: Landing) -> Loc {
        let serial = self.before.cursor.serial as u32 + u32::from(self.begins(at));
        let part = if let Weakened::Generations(count) = self.weakened { serial % count } else { at.generation.0 };
        Loc::from(format!("landing {part}, pack {}, {}>{}", at.pack, emitter.0, listener.0))
    }

    /// Stores `value` at `at` for `listener`.
    fn lands(&self, listener: Rank, at: Landing, value: u32) {
        let (order, loc) = (self.landing_order(cell::Landing::Push), self.landing(self.rank(), listener, at));
        self.push(Op::Store { order, loc, value: Value::Const(value) });
    }

    /// The order of accesses of this kind to landing places.
    fn landing_order(&self, access: cell::Landing) -> Order {
        if let Weakened::Landing(weakened, order) = self.weakened
            && weakened == access
        {
            return order;
        }
        Order::Relaxed(Scope::Sys)
    }

    /// Whether `at` is where a two-shot's sums land: behind the terms.
    fn is_sum(&self, at: Landing) -> bool {
        let start = if self.begins(at) { 0 } else { self.before.cursor.used };
        let terms = part_packs(self.cell.packs(), RANKS);
        self.cell.algorithm == Algorithm::TwoShotPush && u64::from(at.pack - start) >= terms
    }

    fn load(&self, loc: Loc, stamp: u32) {
        let reg = Reg::from(format!("load {} of {}", self.ops.borrow().len(), self.place));
        self.push(Op::Load { order: Order::Weak, loc: loc.clone(), into: reg.clone(), until: None });
        self.expected.borrow_mut().push(Expected { reg, loc, stamp });
    }

    fn store(&self, loc: Loc, stamp: u32) {
        self.push(Op::Store { order: Order::Weak, loc, value: Value::Const(stamp) });
    }

    fn release(&self) -> Order {
        if self.weakened == Weakened::Release {
            Order::Volatile
        } else if self.weakened == Weakened::Scope {
            Order::Release(Scope::Gpu)
        } else {
            Order::Release(Scope::Sys)
        }
    }

    fn acquire(&self) -> Order {
        if self.weakened == Weakened::Acquire {
            Order::Volatile
        } else if self.weakened == Weakened::Scope {
            Order::Acquire(Scope::Gpu)
        } else {
            Order::Acquire(Scope::Sys)
        }
    }

    fn word(&self, of: &str, block: u32) -> Loc {
        Loc::from(format!("{of} word {block} of rank {}", self.place.gpu))
    }
}

fn flag(emitter: Rank, listener: Rank, row: FlagRow) -> Loc {
    let FlagRow { phase, bank, block } = row;
    Loc::from(format!("flag {}, bank {}, block {block}, {}>{}", phase.name(), bank.0, emitter.0, listener.0))
}
