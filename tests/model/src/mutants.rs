//! A machine with one fault: how a protocol is weakened without touching the source of the kernels.
//!
//! Long: a mutant passes on all that it does not change.

use std::cell::Cell;

use allfold_kernels::protocol::abi::{Bank, Dtype, FlagRow, Generation, Phase, Rank};
use allfold_kernels::protocol::element::Element;
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Landing, Machine, Pack, Region};
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::reduction::Reduction;
use allfold_kernels::protocol::share::{packs, part_packs};
use allfold_kernels::protocol::signature::Signature;
use allfold_kernels::protocol::status::{Board, LongestWait, Ranks};

/// A fault of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// None.
    Nothing,
    /// Release stores of this phase are volatile.
    WeakStore(Phase),
    /// Acquire polls of this phase are volatile.
    WeakLoad(Phase),
    /// Nobody announces in this phase.
    NoArrive(Phase),
    /// Nobody waits in this phase.
    NoWait(Phase),
    /// Neither.
    NoBarrier(Phase),
    /// The block sync of this number, counted from 0 in each call, is left out.
    NoSync(u32),
    /// With two blocks, each reads the staged chunks that are the other's.
    OtherStaged,
    /// With two blocks, each gathers the reduced chunks that are the other's.
    OtherReduced,
    /// A block moves its own epoch word and no other.
    OwnEpochOnly,
    /// One bank of flags serves every epoch.
    OneFlagBank,
    /// One row of flags serves every phase.
    OneFlagPhase,
    /// One row of flags serves every block.
    OneFlagBlock,
    /// Nobody puts the marker back.
    NoClear,
    /// There are so many generations of landing places, and no more.
    Generations(u32),
    /// Every push uses its generation from the start, whatever was used before.
    SamePlaces,
    /// A pack is pushed to its neighbour's place in the slot.
    OtherPlace,
    /// The sums that a two-shot pushes land where the terms do; of f32.
    SumsOnTerms,
    /// The cursors never move.
    StuckCursor,
    /// A block moves its own cursor and no other.
    OwnCursorOnly,
    /// No cursor says that a generation was announced.
    Forgotten,
    /// A flag does not count that says two generations more than is waited for.
    TwoOn,
}

/// A thread with a fault, in one call.
pub struct Mutant<M> {
    inner: M,
    mutation: Mutation,
    /// Block syncs so far.
    syncs: Cell<u32>,
    /// The epoch of the call.
    epoch: Cell<Epoch>,
    /// Where the push before left off.
    last: Cell<Cursor>,
    /// Whether what is loaded belongs to the other block.
    swapped: Cell<bool>,
}

impl<M: Machine> Mutant<M> {
    /// `inner` with `mutation`.
    pub fn new(inner: M, mutation: Mutation) -> Mutant<M> {
        let (epoch, swapped) = (Cell::new(Epoch(0)), Cell::new(false));
        let last = Cell::new(Cursor { serial: 0, used: 0, announced: false });
        Mutant { inner, mutation, syncs: Cell::new(0), epoch, last, swapped }
    }

    fn row(&self, row: FlagRow) -> FlagRow {
        let one = |mutation| self.mutation == mutation;
        FlagRow {
            phase: if one(Mutation::OneFlagPhase) { Phase::Start } else { row.phase },
            bank: if one(Mutation::OneFlagBank) { Bank(0) } else { row.bank },
            block: if one(Mutation::OneFlagBlock) { 0 } else { row.block },
        }
    }

    /// Where a pack really lands.
    fn at(&self, at: Landing) -> Landing {
        let each = part_packs(packs(Dtype::F32, self.elems()), self.world()) as u32;
        let last = self.last.get();
        // A push that does not go on in the generation of the one before begins the next.
        let (serial, start) = if at.generation == last.generation() {
            (last.serial, last.used)
        } else {
            (last.serial.wrapping_add(1), 0)
        };
        if let Mutation::Generations(count) = self.mutation {
            // Of 32 bits, as a cursor has it.
            Landing { generation: Generation(serial as u32 % count), ..at }
        } else if self.mutation == Mutation::SamePlaces {
            Landing { pack: at.pack - start, ..at }
        } else if self.mutation == Mutation::SumsOnTerms {
            Landing { pack: start + (at.pack - start) % each, ..at }
        } else {
            at
        }
    }

    /// Where a pack is pushed to.
    fn pushed_at(&self, at: Landing) -> Landing {
        let at = self.at(at);
        Landing { pack: if self.mutation == Mutation::OtherPlace { at.pack ^ 1 } else { at.pack }, ..at }
    }

    /// What a wait in `phase` waits for.
    fn wanted(&self, phase: Phase) -> Epoch {
        match phase {
            Phase::Start | Phase::Middle | Phase::End => self.epoch.get(),
            Phase::Landing => Epoch(self.last.get().serial),
        }
    }

    fn silent(&self, phase: Phase) -> bool {
        self.mutation == Mutation::NoArrive(phase) || self.mutation == Mutation::NoBarrier(phase)
    }

    fn deaf(&self, phase: Phase) -> bool {
        self.mutation == Mutation::NoWait(phase) || self.mutation == Mutation::NoBarrier(phase)
    }

    /// Whether the next block sync is the one that is left out.
    fn leaves_out_sync(&self) -> bool {
        let number = self.syncs.replace(self.syncs.get() + 1);
        self.mutation == Mutation::NoSync(number)
    }
}

/// The fault is where a method does more than pass on.
impl<M: Machine> Machine for Mutant<M> {
    fn sync_block(&self) {
        if !self.leaves_out_sync() {
            self.inner.sync_block()
        }
    }
    fn sync_block_all(&self, ok: bool) -> bool {
        if self.leaves_out_sync() { ok } else { self.inner.sync_block_all(ok) }
    }

    fn st_flag_volatile(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        if !self.silent(row.phase) {
            self.inner.st_flag_volatile(listener, self.row(row), epoch)
        }
    }
    fn ld_flag_volatile(&self, emitter: Rank, row: FlagRow) -> Epoch {
        if self.deaf(row.phase) { self.wanted(row.phase) } else { self.inner.ld_flag_volatile(emitter, self.row(row)) }
    }
    fn st_flag_release(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        if self.mutation == Mutation::WeakStore(row.phase) {
            self.st_flag_volatile(listener, row, epoch)
        } else if !self.silent(row.phase) {
            self.inner.st_flag_release(listener, self.row(row), epoch)
        }
    }
    fn ld_flag_acquire(&self, emitter: Rank, row: FlagRow) -> Epoch {
        if self.deaf(row.phase) || self.mutation == Mutation::WeakLoad(row.phase) {
            self.ld_flag_volatile(emitter, row)
        } else {
            let flag = self.inner.ld_flag_acquire(emitter, self.row(row));
            let two_on = self.wanted(row.phase).next().next();
            if self.mutation == Mutation::TwoOn && flag == two_on {
                Epoch(self.wanted(row.phase).0.wrapping_sub(1))
            } else {
                flag
            }
        }
    }

    fn ld_epoch(&self, block: u32) -> Epoch {
        let epoch = self.inner.ld_epoch(block);
        self.epoch.set(epoch.next());
        epoch
    }
    fn st_epoch(&self, block: u32, epoch: Epoch) {
        if self.mutation != Mutation::OwnEpochOnly || block == self.block() {
            self.inner.st_epoch(block, epoch)
        }
    }

    fn ld_cursor(&self, block: u32) -> Cursor {
        let cursor = self.inner.ld_cursor(block);
        self.last.set(cursor);
        cursor
    }
    fn st_cursor(&self, block: u32, cursor: Cursor) {
        let others = self.mutation == Mutation::OwnCursorOnly && block != self.block();
        let announced = cursor.announced && self.mutation != Mutation::Forgotten;
        if !others && self.mutation != Mutation::StuckCursor {
            self.inner.st_cursor(block, Cursor { announced, ..cursor })
        }
    }

    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack {
        let of_the_other = match region {
            Region::Input(_) => self.mutation == Mutation::OtherStaged,
            Region::Scratch => self.mutation == Mutation::OtherReduced,
            Region::Source | Region::Output => false,
        };
        let swapped = of_the_other && self.blocks() == 2;
        self.swapped.set(swapped);
        self.inner.ld_pack(region, owner, if swapped { pack ^ 1 } else { pack })
    }
    fn st_pack(&self, region: Region, pack: u64, value: Pack) {
        // What belongs to the other block also goes where the other block would have put it.
        let swapped = self.swapped.replace(false);
        self.inner.st_pack(region, if swapped { pack ^ 1 } else { pack }, value)
    }

    fn push_pack(&self, listener: Rank, at: Landing, value: Pack) {
        self.inner.push_pack(listener, self.pushed_at(at), value)
    }
    fn poll_pack(&self, emitter: Rank, at: Landing) -> Pack {
        self.inner.poll_pack(emitter, self.at(at))
    }
    fn clear_pack(&self, emitter: Rank, at: Landing) {
        if self.mutation != Mutation::NoClear {
            self.inner.clear_pack(emitter, self.at(at))
        }
    }
    fn push_pairs(&self, listener: Rank, at: Landing, value: Pack) {
        self.inner.push_pairs(listener, self.pushed_at(at), value)
    }
    fn poll_pairs(&self, emitter: Rank, at: Landing) -> Pack {
        self.inner.poll_pairs(emitter, self.at(at))
    }
    fn clear_pairs(&self, emitter: Rank, at: Landing) {
        if self.mutation != Mutation::NoClear {
            self.inner.clear_pairs(emitter, self.at(at))
        }
    }

    fn rank(&self) -> Rank {
        self.inner.rank()
    }
    fn world(&self) -> u32 {
        self.inner.world()
    }
    fn block(&self) -> u32 {
        self.inner.block()
    }
    fn blocks(&self) -> u32 {
        self.inner.blocks()
    }
    fn thread(&self) -> u32 {
        self.inner.thread()
    }
    fn threads(&self) -> u32 {
        self.inner.threads()
    }
    fn reduction(&self) -> Reduction {
        self.inner.reduction()
    }
    fn elems(&self) -> u64 {
        self.inner.elems()
    }
    fn aligned(&self) -> bool {
        self.inner.aligned()
    }
    fn landing_shared_packs(&self) -> u32 {
        self.inner.landing_shared_packs()
    }
    fn pause_to_look(&self, polls: u32) -> bool {
        self.inner.pause_to_look(polls)
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
    fn timeout_ns(&self) -> u64 {
        self.inner.timeout_ns()
    }
    fn board(&self) -> Board {
        self.inner.board()
    }
    fn host_board(&self) -> Board {
        self.inner.host_board()
    }
    fn tell_stop(&self, rank: Rank, stop: u64) {
        self.inner.tell_stop(rank, stop)
    }
    fn add_wait(&self, wait: LongestWait) {
        self.inner.add_wait(wait)
    }
    fn add_missing(&self, missing: Ranks) {
        self.inner.add_missing(missing)
    }
    fn signature(&self) -> Signature {
        self.inner.signature()
    }
    fn tell_call(&self, listener: Rank, bank: Bank, words: [u64; 2]) {
        self.inner.tell_call(listener, bank, words)
    }
    fn call_told(&self, emitter: Rank, bank: Bank) -> [u64; 2] {
        self.inner.call_told(emitter, bank)
    }
    fn ld_elem<T: Element>(&self, region: Region, owner: Rank, elem: u64) -> Pack {
        self.inner.ld_elem::<T>(region, owner, elem)
    }
    fn st_elem<T: Element>(&self, region: Region, elem: u64, value: Pack) {
        self.inner.st_elem::<T>(region, elem, value)
    }
    fn give_pack(&self, owner: Rank, pack: u64, value: Pack) {
        self.inner.give_pack(owner, pack, value)
    }
    fn give_elem<T: Element>(&self, owner: Rank, elem: u64, value: Pack) {
        self.inner.give_elem::<T>(owner, elem, value)
    }
    fn add_wrong(&self, count: u64, elem: u64, bits: u64, epoch: Epoch) {
        self.inner.add_wrong(count, elem, bits, epoch)
    }
}
