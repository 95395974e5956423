//! A litmus program: threads of operations, and which devices run their kernels in stream order. Uses `event`.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{FenceKind, Loc, Op, Order, Place, Reg, Scope, Until, Value};

/// A thread: straight-line code, since of a poll only the last load counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Where it runs.
    pub place: Place,
    /// Its operations, in program order.
    pub ops: Vec<Op>,
}

impl Thread {
    /// A thread of the first kernel of `gpu`, with nothing to do yet.
    pub fn new(gpu: u8, block: u8, thread: u8) -> Thread {
        Thread::in_kernel(gpu, 0, block, thread)
    }

    /// A thread of the kernel that is `grid`-th in the stream of `gpu`, with nothing to do yet.
    pub fn in_kernel(gpu: u8, grid: u8, block: u8, thread: u8) -> Thread {
        Thread { place: Place { gpu, grid, block, thread }, ops: Vec::new() }
    }

    /// Adds `op`.
    pub fn op(mut self, op: Op) -> Thread {
        self.ops.push(op);
        self
    }

    /// Adds a load.
    pub fn ld(self, order: Order, into: impl Into<Reg>, loc: impl Into<Loc>) -> Thread {
        self.op(Op::Load { order, loc: loc.into(), into: into.into(), until: None })
    }

    /// Adds a poll.
    pub fn poll(self, order: Order, loc: impl Into<Loc>, until: Until) -> Thread {
        let loc = loc.into();
        let into = format!("poll {} of [{loc}] by {}", self.ops.len(), self.place);
        self.poll_into(order, into, loc, until)
    }

    /// Adds a poll whose last value an outcome may speak of.
    pub fn poll_into(self, order: Order, into: impl Into<Reg>, loc: impl Into<Loc>, until: Until) -> Thread {
        self.op(Op::Load { order, loc: loc.into(), into: into.into(), until: Some(until) })
    }

    /// Adds a store.
    pub fn st(self, order: Order, loc: impl Into<Loc>, value: impl Into<Value>) -> Thread {
        self.op(Op::Store { order, loc: loc.into(), value: value.into() })
    }

    /// Adds an `atom.add` of 1.
    pub fn atom(self, order: Order, into: impl Into<Reg>, loc: impl Into<Loc>) -> Thread {
        self.op(Op::Add { order, loc: loc.into(), value: 1, into: Some(into.into()) })
    }

    /// Adds a `red.add` of 1.
    pub fn red(self, order: Order, loc: impl Into<Loc>) -> Thread {
        self.op(Op::Add { order, loc: loc.into(), value: 1, into: None })
    }

    /// Adds a fence.
    pub fn fence(self, kind: FenceKind, scope: Scope) -> Thread {
        self.op(Op::Fence(kind, scope))
    }

    /// Adds a `bar.sync`.
    pub fn bar(self) -> Thread {
        self.op(Op::BarSync)
    }

    /// Adds a `griddepcontrol.wait`.
    pub fn grid_wait(self) -> Thread {
        self.op(Op::GridWait)
    }
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Devices on which a kernel may run without regard to the one before it.
    pub unordered: BTreeSet<u8>,
}

impl Program {
    /// A program whose devices run their kernels in stream order.
    pub fn new(threads: impl Into<Vec<Thread>>) -> Program {
        Program { threads: threads.into(), unordered: BTreeSet::new() }
    }

    /// Whether the kernel of `before` is earlier in the same stream than that of `after`.
    pub fn in_stream_order(&self, before: Place, after: Place) -> bool {
        before.gpu == after.gpu && before.grid < after.grid && !self.unordered.contains(&before.gpu)
    }

    /// Why it is no program, if it is none.
    pub fn fault(&self) -> Option<String> {
        let (mut places, mut registers) = (BTreeSet::new(), BTreeSet::new());
        let mut barriers = BTreeMap::new();
        for Thread { place, ops } in &self.threads {
            if !places.insert(*place) {
                return Some(format!("two threads at {place}"));
            }
            let mut own = BTreeSet::new();
            for op in ops {
                if let Op::Store { value: Value::Of(reg), .. } = op
                    && !own.contains(reg)
                {
                    return Some(format!("{place} stores {reg}, which it has not loaded"));
                }
                if let Some(reg) = op.register() {
                    own.insert(reg.clone());
                    if !registers.insert(reg.clone()) {
                        return Some(format!("two loads into {reg}"));
                    }
                }
            }
            let count = ops.iter().filter(|op| **op == Op::BarSync).count();
            if *barriers.entry((place.gpu, place.grid, place.block)).or_insert(count) != count {
                return Some(format!("{place} has {count} bar.sync, another thread of its block has not"));
            }
        }
        None
    }
}
