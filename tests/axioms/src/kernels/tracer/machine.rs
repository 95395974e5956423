//! What the tracer writes down of each operation. Uses `tracer`, `cell`.

use allfold_kernels::protocol::abi::{Bank, FlagRow, Rank};
use allfold_kernels::protocol::element::Element;
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Landing, Machine, Pack, Region};
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::reduction::Reduction;
use allfold_kernels::protocol::share::part;
use allfold_kernels::protocol::signature::Signature;
use allfold_kernels::protocol::status::{Board, LongestWait, Ranks};

use super::super::cell::{self, MOST_BLOCKS, RANKS, Weakened};
use super::{Expected, SUM, Tracer};
use crate::event::{Op, Order, Reg, Until, Value};

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
    fn reduction(&self) -> Reduction {
        Reduction::SUM
    }
    fn elems(&self) -> u64 {
        self.cell.elems()
    }
    fn aligned(&self) -> bool {
        true
    }
    fn landing_shared_packs(&self) -> u32 {
        self.before.shared
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
    fn pause_to_look(&self, _: u32) -> bool {
        unreachable!("each poll ends at once")
    }
    fn now_ns(&self) -> u64 {
        unreachable!("each poll ends at once")
    }
    fn timeout_ns(&self) -> u64 {
        unreachable!("each poll ends at once")
    }
    fn board(&self) -> Board {
        unreachable!("each poll ends at once")
    }
    fn host_board(&self) -> Board {
        unreachable!("each poll ends at once")
    }
    fn tell_stop(&self, _: Rank, _: u64) {
        unreachable!("each poll ends at once")
    }
    fn add_wait(&self, _: LongestWait) {
        unreachable!("each poll ends at once")
    }
    fn add_missing(&self, _: Ranks) {
        unreachable!("each poll ends at once")
    }
    fn signature(&self) -> Signature {
        // What ranks tell of their calls orders nothing.
        Signature::NONE
    }
    fn tell_call(&self, _: Rank, _: Bank, _: [u64; 2]) {
        unreachable!("calls are not compared")
    }
    fn call_told(&self, _: Rank, _: Bank) -> [u64; 2] {
        unreachable!("calls are not compared")
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

    fn ld_epoch(&self, block: u32) -> Epoch {
        self.load(self.word("epoch", block), self.before.call);
        Epoch(u64::from(self.call) - 1)
    }
    fn st_epoch(&self, block: u32, epoch: Epoch) {
        // Nobody looks at the words of blocks that no call has.
        if block < MOST_BLOCKS {
            self.store(self.word("epoch", block), epoch.0 as u32);
        }
    }
    fn ld_cursor(&self, block: u32) -> Cursor {
        self.load(self.word("cursor", block), self.before.push);
        self.before.cursor
    }
    fn st_cursor(&self, block: u32, cursor: Cursor) {
        self.kept.set(Some(cursor));
        if block < MOST_BLOCKS {
            self.store(self.word("cursor", block), self.call);
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
        let marker = self.weakened == Weakened::Sum && self.is_sum(at);
        self.lands(listener, at, if marker { 0 } else { self.call });
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
    // Data and flag are one word. The data may be anything, so what is pushed cannot be the marker.
    fn push_pairs(&self, listener: Rank, at: Landing, _: Pack) {
        self.lands(listener, at, self.call);
    }
    fn poll_pairs(&self, emitter: Rank, at: Landing) -> Pack {
        // ORDER: that of `poll_pack`.
        self.poll_pack(emitter, at)
    }
    fn clear_pairs(&self, emitter: Rank, at: Landing) {
        // ORDER: that of `clear_pack`.
        self.clear_pack(emitter, at);
    }
    fn give_pack(&self, owner: Rank, pack: u64, _: Pack) {
        // What a rank gives of its own part is the sum, of any other a term.
        let own = part(self.cell.packs(), RANKS, self.rank());
        let sum = (own.start..own.end).contains(&pack);
        self.store(self.cell.output(owner, pack, self.call), if sum { SUM + self.call } else { self.call });
    }
    fn give_elem<T: Element>(&self, _: Rank, _: u64, _: Pack) {
        unreachable!("all buffers are aligned and full")
    }
    fn add_wrong(&self, _: u64, _: u64, _: u64, _: Epoch) {
        unreachable!("no verify kernel runs here")
    }
}
