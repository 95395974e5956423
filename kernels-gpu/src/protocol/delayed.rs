//! A machine with planted delays, for stress runs: late ranks and late blocks, at the start of a kernel, at every flag, at every pack
//! that is pushed and at every block sync. What is told is marked after the delay.
//!
//! Long: each method of the machine once more.

use super::abi::{Bank, FlagRow, Phase, Rank, step_to};
use super::element::Element;
use super::epoch::Epoch;
use super::machine::{Landing, Machine, Pack, Region};
use super::mark::Mark;
use super::push::Cursor;
use super::reduction::Reduction;
use super::signature::Signature;
use super::status::{Board, LongestWait, Ranks};

/// `machine`, one in `one_in` of whose places waits for `nanoseconds`.
pub struct Delayed<M> {
    /// The machine.
    pub machine: M,
    /// How long a delay is.
    pub nanoseconds: u32,
    /// One in so many places is delayed; 0: none.
    pub one_in: u32,
}

impl<M: Machine> Delayed<M> {
    #[inline(always)]
    fn perhaps(&self, chance: u32, times: u32) {
        let mixed = chance.wrapping_mul(0x9e37_79b9);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x2c1b_3c6d);
        // The high half of a product in place of a remainder: no division by a run-time value.
        if self.one_in != 0 && (mixed as u64 * self.one_in as u64) >> 32 == 0 {
            self.machine.pause(self.nanoseconds.saturating_mul(times));
        }
    }

    /// Before a flag: late is the whole rank, in this barrier of this call.
    #[inline(always)]
    fn before_flag(&self, row: FlagRow, epoch: Epoch) {
        let rank = self.machine.rank().0 << 28;
        self.perhaps(epoch.0 as u32 ^ rank ^ (row.phase as u32) << 24, 4);
        if Phase::BARRIERS.contains(&row.phase) {
            self.machine.mark(epoch, Mark::Told(row.phase));
        }
    }

    /// Between two peers' packs. What comes before the first one's is [marked](Machine::mark).
    #[inline(always)]
    fn between_peers(&self, listener: Rank) {
        if step_to(self.machine.rank(), listener, self.machine.world()) != 0 {
            self.at_sync();
        }
    }

    /// At a block sync, at the start or before something is told: late is this thread, and with it its block.
    #[inline(always)]
    fn at_sync(&self) {
        self.perhaps(self.machine.ticks() ^ self.machine.block() << 20, 1);
    }
}

impl<M: Machine> Machine for Delayed<M> {
    #[inline(always)]
    fn rank(&self) -> Rank {
        self.machine.rank()
    }
    #[inline(always)]
    fn world(&self) -> u32 {
        self.machine.world()
    }
    #[inline(always)]
    fn block(&self) -> u32 {
        self.machine.block()
    }
    #[inline(always)]
    fn blocks(&self) -> u32 {
        self.machine.blocks()
    }
    #[inline(always)]
    fn thread(&self) -> u32 {
        self.machine.thread()
    }
    #[inline(always)]
    fn threads(&self) -> u32 {
        self.machine.threads()
    }
    #[inline(always)]
    fn elems(&self) -> u64 {
        self.machine.elems()
    }
    #[inline(always)]
    fn reduction(&self) -> Reduction {
        self.machine.reduction()
    }
    #[inline(always)]
    fn aligned(&self) -> bool {
        self.machine.aligned()
    }
    #[inline(always)]
    fn mark(&self, epoch: Epoch, mark: Mark) {
        if matches!(mark, Mark::Told(_)) {
            self.at_sync();
        }
        self.machine.mark(epoch, mark);
    }
    #[inline(always)]
    fn sync_block(&self) {
        self.at_sync();
        self.machine.sync_block();
    }
    #[inline(always)]
    fn sync_block_all(&self, ok: bool) -> bool {
        let all = self.machine.sync_block_all(ok);
        self.at_sync();
        all
    }
    #[inline(always)]
    fn pause_to_look(&self, polls: u32) -> bool {
        self.machine.pause_to_look(polls)
    }
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.machine.now_ns()
    }
    #[inline(always)]
    fn timeout_ns(&self) -> u64 {
        self.machine.timeout_ns()
    }
    #[inline(always)]
    fn board(&self) -> Board {
        self.machine.board()
    }
    #[inline(always)]
    fn host_board(&self) -> Board {
        self.machine.host_board()
    }
    #[inline(always)]
    fn tell_stop(&self, rank: Rank, stop: u64) {
        // ORDER: that of the machine; the caller has said why.
        self.machine.tell_stop(rank, stop);
    }
    #[inline(always)]
    fn add_wait(&self, wait: LongestWait) {
        self.machine.add_wait(wait);
    }
    #[inline(always)]
    fn add_missing(&self, missing: Ranks) {
        self.machine.add_missing(missing);
    }
    #[inline(always)]
    fn trap_if_asked(&self) {
        self.machine.trap_if_asked();
    }
    #[inline(always)]
    fn signature(&self) -> Signature {
        self.machine.signature()
    }
    #[inline(always)]
    fn tell_call(&self, listener: Rank, bank: Bank, words: [u64; 2]) {
        self.at_sync();
        // ORDER: that of the machine; the caller has said why.
        self.machine.tell_call(listener, bank, words);
    }
    #[inline(always)]
    fn call_told(&self, emitter: Rank, bank: Bank) -> [u64; 2] {
        // ORDER: that of the machine; the caller has said why.
        self.machine.call_told(emitter, bank)
    }
    #[inline(always)]
    fn st_flag_volatile(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.before_flag(row, epoch);
        // ORDER: that of the machine; the caller has said why.
        self.machine.st_flag_volatile(listener, row, epoch);
    }
    #[inline(always)]
    fn ld_flag_volatile(&self, emitter: Rank, row: FlagRow) -> Epoch {
        // ORDER: that of the machine; the caller has said why.
        self.machine.ld_flag_volatile(emitter, row)
    }
    #[inline(always)]
    fn st_flag_release(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.before_flag(row, epoch);
        // ORDER: that of the machine; the caller has said why.
        self.machine.st_flag_release(listener, row, epoch);
    }
    #[inline(always)]
    fn ld_flag_acquire(&self, emitter: Rank, row: FlagRow) -> Epoch {
        // ORDER: that of the machine; the caller has said why.
        self.machine.ld_flag_acquire(emitter, row)
    }
    #[inline(always)]
    fn ld_epoch(&self, block: u32) -> Epoch {
        // The first thing that a kernel does: a block that is late here has not copied its input in.
        self.at_sync();
        self.machine.ld_epoch(block)
    }
    #[inline(always)]
    fn st_epoch(&self, block: u32, epoch: Epoch) {
        self.machine.st_epoch(block, epoch);
    }
    #[inline(always)]
    fn ld_cursor(&self, block: u32) -> Cursor {
        self.machine.ld_cursor(block)
    }
    #[inline(always)]
    fn st_cursor(&self, block: u32, cursor: Cursor) {
        self.machine.st_cursor(block, cursor);
    }
    #[inline(always)]
    fn landing_shared_packs(&self) -> u32 {
        self.machine.landing_shared_packs()
    }
    #[inline(always)]
    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack {
        self.machine.ld_pack(region, owner, pack)
    }
    #[inline(always)]
    fn st_pack(&self, region: Region, pack: u64, value: Pack) {
        self.machine.st_pack(region, pack, value);
    }
    #[inline(always)]
    fn ld_elem<T: Element>(&self, region: Region, owner: Rank, elem: u64) -> Pack {
        self.machine.ld_elem::<T>(region, owner, elem)
    }
    #[inline(always)]
    fn st_elem<T: Element>(&self, region: Region, elem: u64, value: Pack) {
        self.machine.st_elem::<T>(region, elem, value);
    }
    #[inline(always)]
    fn push_pack(&self, listener: Rank, at: Landing, value: Pack) {
        self.between_peers(listener);
        // ORDER: that of the machine; the caller has said why.
        self.machine.push_pack(listener, at, value);
    }
    #[inline(always)]
    fn poll_pack(&self, emitter: Rank, at: Landing) -> Pack {
        // ORDER: that of the machine; the caller has said why.
        self.machine.poll_pack(emitter, at)
    }
    #[inline(always)]
    fn clear_pack(&self, emitter: Rank, at: Landing) {
        self.at_sync();
        // ORDER: that of the machine; the caller has said why.
        self.machine.clear_pack(emitter, at);
    }
    #[inline(always)]
    fn push_pairs(&self, listener: Rank, at: Landing, value: Pack) {
        self.between_peers(listener);
        // ORDER: that of the machine; the caller has said why.
        self.machine.push_pairs(listener, at, value);
    }
    #[inline(always)]
    fn poll_pairs(&self, emitter: Rank, at: Landing) -> Pack {
        // ORDER: that of the machine; the caller has said why.
        self.machine.poll_pairs(emitter, at)
    }
    #[inline(always)]
    fn clear_pairs(&self, emitter: Rank, at: Landing) {
        self.at_sync();
        // ORDER: that of the machine; the caller has said why.
        self.machine.clear_pairs(emitter, at);
    }
    #[inline(always)]
    fn give_pack(&self, owner: Rank, pack: u64, value: Pack) {
        self.machine.give_pack(owner, pack, value);
    }
    #[inline(always)]
    fn give_elem<T: Element>(&self, owner: Rank, elem: u64, value: Pack) {
        self.machine.give_elem::<T>(owner, elem, value);
    }
    #[inline(always)]
    fn add_wrong(&self, count: u64, elem: u64, bits: u64, epoch: Epoch) {
        self.machine.add_wrong(count, elem, bits, epoch);
    }
    #[inline(always)]
    fn step(&self, by: u32) -> u32 {
        self.machine.step(by)
    }
    #[inline(always)]
    fn ticks(&self) -> u32 {
        self.machine.ticks()
    }
    #[inline(always)]
    fn pause(&self, nanoseconds: u32) {
        self.machine.pause(nanoseconds);
    }
    #[inline(always)]
    fn f32_from_f16x2(&self, word: u32) -> [f32; 2] {
        self.machine.f32_from_f16x2(word)
    }
    #[inline(always)]
    fn f16x2_from_f32(&self, value: [f32; 2]) -> u32 {
        self.machine.f16x2_from_f32(value)
    }
    #[inline(always)]
    fn bf16x2_from_f32(&self, value: [f32; 2]) -> u32 {
        self.machine.bf16x2_from_f32(value)
    }
    #[inline(always)]
    fn add_f32(&self, a: f32, b: f32) -> f32 {
        self.machine.add_f32(a, b)
    }
    #[inline(always)]
    fn mul_f32(&self, a: f32, b: f32) -> f32 {
        self.machine.mul_f32(a, b)
    }
    #[inline(always)]
    fn min_f32(&self, a: f32, b: f32) -> f32 {
        self.machine.min_f32(a, b)
    }
    #[inline(always)]
    fn max_f32(&self, a: f32, b: f32) -> f32 {
        self.machine.max_f32(a, b)
    }
    #[inline(always)]
    fn add_f16x2(&self, a: u32, b: u32) -> u32 {
        self.machine.add_f16x2(a, b)
    }
    #[inline(always)]
    fn add_bf16x2(&self, a: u32, b: u32) -> u32 {
        self.machine.add_bf16x2(a, b)
    }
}
