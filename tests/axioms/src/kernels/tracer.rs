//! The machine that writes down what a thread of the kernels does. Uses `allfold-kernels`, `program`.
//!
//! Each poll ends at once and with its own call's flag, so a thread's code is straight. Values are stamps, not sums: all
//! that a call stores bears its number. A landing place is one word, and 0 is the marker.

use std::cell::{Cell, RefCell};

use allfold_kernels::protocol::abi::{Algorithm, FlagRow, Rank};
use allfold_kernels::protocol::element::Element;
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Landing, Machine, Pack, Region};
use allfold_kernels::protocol::share::{part, part_packs};
use allfold_kernels::protocol::status::GaveUp;

use super::cell::{self, Cell as Protocol, MOST_BLOCKS, RANKS, Shape, Weakened};
use crate::event::{FenceKind, Loc, Op, Order, Place, Reg, Scope, Until, Value};
use crate::program::Thread;

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

/// One thread of one call.
pub struct Tracer<'a> {
    cell: &'a Protocol,
    weakened: Weakened,
    shape: Shape,
    place: Place,
    call: u32,
    /// The call before it in the program.
    last: u32,
    syncs: Cell<u32>,
    ops: RefCell<Vec<Op>>,
    expected: RefCell<Vec<Expected>>,
    landed: RefCell<Vec<Expected>>,
}

impl<'a> Tracer<'a> {
    /// The thread at `place` in call `call`, from 1, of a grid of `shape`.
    pub fn new(cell: &'a Protocol, weakened: Weakened, shape: Shape, place: Place, call: u32) -> Tracer<'a> {
        let (syncs, ops, expected, landed) = Default::default();
        Tracer { cell, weakened, shape, place, call, last: call - 1, syncs, ops, expected, landed }
    }

    /// The same, where the program leaves out all calls between `last` and this one.
    pub fn after(self, last: u32) -> Tracer<'a> {
        Tracer { last, ..self }
    }

    /// What it did.
    pub fn finish(self) -> (Thread, Vec<Expected>) {
        (Thread { place: self.place, ops: self.ops.into_inner() }, self.expected.into_inner())
    }

    /// What it polled of landing places, and must have found there.
    pub fn landed(&self) -> Vec<Expected> {
        self.landed.borrow().clone()
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

    /// The call that a flag of `row` is waited for in: this one, or in a push the one before.
    fn wanted(&self, row: FlagRow) -> u32 {
        if row.bank == Epoch(self.call.into()).bank() { self.call } else { self.call - 1 }
    }

    /// Where what `emitter` pushes to `listener` lands.
    fn landing(&self, emitter: Rank, listener: Rank, at: Landing) -> Loc {
        let generation = if self.weakened == Weakened::Generation { 0 } else { at.generation.0 };
        Loc::from(format!("landing {generation}, pack {}, {}>{}", at.pack, emitter.0, listener.0))
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
        self.cell.algorithm == Algorithm::TwoShotPush && at.pack >= part_packs(self.cell.packs(), RANKS)
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
}

fn flag(emitter: Rank, listener: Rank, row: FlagRow) -> Loc {
    let FlagRow { phase, bank, block } = row;
    Loc::from(format!("flag {}, bank {}, block {block}, {}>{}", phase.name(), bank.0, emitter.0, listener.0))
}

impl Machine for Tracer<'_> {
    fn rank(&self) -> Rank {
        Rank(self.place.gpu.into())
    }
    fn world(&self) -> u32 {
        RANKS
    }
    fn block(&self) -> u32 {
        self.place.block.into()
    }
    fn blocks(&self) -> u32 {
        self.shape.blocks.into()
    }
    fn thread(&self) -> u32 {
        self.place.thread.into()
    }
    fn threads(&self) -> u32 {
        self.shape.threads.into()
    }
    fn elems(&self) -> u64 {
        self.cell.elems()
    }
    fn aligned(&self) -> bool {
        true
    }

    fn sync_block(&self) {
        let sync = self.syncs.replace(self.syncs.get() + 1);
        if self.shape.threads > 1 && self.weakened != Weakened::Sync(sync) {
            self.push(Op::BarSync);
        }
    }
    fn sync_block_all(&self, ok: bool) -> bool {
        self.sync_block();
        ok
    }
    fn spin(&self, _: u64) -> bool {
        unreachable!("each poll ends at once")
    }
    fn report(&self, _: GaveUp) {
        unreachable!("each poll ends at once")
    }

    fn st_flag_volatile(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.announce(Order::Volatile, listener, row, epoch);
    }
    fn ld_flag_volatile(&self, emitter: Rank, row: FlagRow) -> Epoch {
        if self.weakened == Weakened::Poll(row.phase) {
            return Epoch(self.wanted(row).into());
        }
        self.poll(Order::Volatile, emitter, row)
    }
    fn st_flag_release(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.announce(self.release(), listener, row, epoch);
    }
    fn ld_flag_acquire(&self, emitter: Rank, row: FlagRow) -> Epoch {
        if self.weakened == Weakened::Poll(row.phase) {
            return Epoch(self.wanted(row).into());
        }
        self.poll(self.acquire(), emitter, row)
    }

    fn fence(&self) {
        let scope = if self.weakened == Weakened::Scope { Scope::Gpu } else { Scope::Sys };
        if self.weakened != Weakened::Release {
            self.push(Op::Fence(FenceKind::AcqRel, scope));
        }
    }

    fn ld_epoch(&self, block: u32) -> Epoch {
        self.load(self.epoch_word(block), self.last);
        Epoch(u64::from(self.call) - 1)
    }
    fn st_epoch(&self, block: u32, epoch: Epoch) {
        // Nobody looks at the words of blocks that no call has.
        if block < MOST_BLOCKS {
            self.store(self.epoch_word(block), epoch.0 as u32);
        }
    }

    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack {
        if let Some(loc) = self.cell.shared(region, owner, pack, self.call) {
            self.load(loc, self.call);
        }
        Pack([0; 4])
    }
    fn st_pack(&self, region: Region, pack: u64, _: Pack) {
        if let Some(loc) = self.cell.shared(region, self.rank(), pack, self.call) {
            self.store(loc, if region == Region::Output { SUM + self.call } else { self.call });
        }
    }
    fn ld_elem<T: Element>(&self, _: Region, _: Rank, _: u64) -> Pack {
        unreachable!("all buffers are aligned and full")
    }
    fn st_elem<T: Element>(&self, _: Region, _: u64, _: Pack) {
        unreachable!("all buffers are aligned and full")
    }
    fn push_pack(&self, listener: Rank, at: Landing, _: Pack) {
        let value = if self.weakened == Weakened::Sum && self.is_sum(at) { 0 } else { self.call };
        let (order, loc) = (self.landing_order(cell::Landing::Push), self.landing(self.rank(), listener, at));
        self.push(Op::Store { order, loc, value: Value::Const(value) });
    }
    fn poll_pack(&self, emitter: Rank, at: Landing) -> Pack {
        let (order, loc) = (self.landing_order(cell::Landing::Poll), self.landing(emitter, self.rank(), at));
        let reg = Reg::from(format!("poll {} of {}", self.ops.borrow().len(), self.place));
        self.push(Op::Load { order, loc: loc.clone(), into: reg.clone(), until: Some(Until::IsNot(0)) });
        self.landed.borrow_mut().push(Expected { reg, loc, stamp: self.call });
        Pack([0; 4])
    }
    fn clear_pack(&self, emitter: Rank, at: Landing) {
        if self.weakened != Weakened::Clear {
            let (order, loc) = (self.landing_order(cell::Landing::Clear), self.landing(emitter, self.rank(), at));
            self.push(Op::Store { order, loc, value: Value::Const(0) });
        }
    }
    fn give_pack(&self, owner: Rank, pack: u64, _: Pack) {
        // What a rank gives of its own part is the sum, of any other a term.
        let sum = part(self.cell.packs(), RANKS, self.rank()).has(pack);
        self.store(self.cell.output(owner, pack, self.call), if sum { SUM + self.call } else { self.call });
    }
    fn give_elem<T: Element>(&self, _: Rank, _: u64, _: Pack) {
        unreachable!("all buffers are aligned and full")
    }
    fn add_wrong(&self, _: u64, _: u64, _: u32, _: Epoch) {
        unreachable!("no verify kernel runs here")
    }
}

impl Tracer<'_> {
    fn epoch_word(&self, block: u32) -> Loc {
        Loc::from(format!("epoch word {block} of rank {}", self.place.gpu))
    }
}
