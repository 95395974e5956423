//! One GPU thread as loom sees it.
//!
//! Long: so that the whole machine is in one file.

use std::cell::Cell;
use std::rc::Rc;

use allfold_kernels::protocol::abi::{Bank, FlagRow, MARKER, Rank};
use allfold_kernels::protocol::element::Element;
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Landing, Machine, Pack, Region};
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::reduction::Reduction;
use allfold_kernels::protocol::signature::Signature;
use allfold_kernels::protocol::spec::Order;
use allfold_kernels::protocol::status::{Board, LongestWait, Ranks, Stop};
use allfold_kernels::protocol::wait::TICK_NS;
use loom::sync::atomic::{Ordering, fence};

use crate::assumptions::{Assumption, Assumptions};
use crate::block::Meeting;
use crate::landing::Landings;
use crate::memory::{Data, Memory};
use crate::mutants::Mutation;
use crate::program::{Access, Area, Program};
use crate::trace::{DataStep, Failure, FlagStep, Log, Thread, What, Who};

/// Failed polls after which a thread is taken to wait for ever: loom lets all others go on after each.
const FAILED_POLLS_OF_A_HANG: u64 = 100;
/// Elements of a pack: all elements have 32 bits.
const LANES: u64 = 4;

/// All that the threads of one execution share.
pub struct World {
    /// What is run.
    pub program: Program,
    /// What is assumed.
    pub assumptions: Assumptions,
    /// The planted fault.
    pub mutation: Mutation,
    /// See [`Depth::patience`](crate::explore::Depth::patience).
    pub patience: Option<u64>,
    /// Flags, epoch words, cursors, data.
    pub memory: Memory,
    /// Where packs land.
    pub landings: Landings,
    /// Where the threads of a block meet; block by block, rank by rank.
    pub blocks: Vec<Meeting>,
    /// Where all threads of a rank meet: the order of its stream.
    pub streams: Vec<Meeting>,
    /// What happens.
    pub log: Log,
}

/// A thread of a block of a rank in one call; or the stream of a rank, as a grid of one thread.
pub struct LoomMachine {
    /// What is shared.
    pub world: Rc<World>,
    /// The rank.
    pub rank: Rank,
    /// Block and thread; `None` for the stream.
    pub place: Option<(u32, u32)>,
    /// The number of the call, from 1.
    pub call: u32,
    /// Before which access the kernel waits for the kernel before it; `None`: it was launched when that one had ended,
    /// or has waited.
    pub waits_before: Cell<Option<Access>>,
    /// Looks at the clock.
    pub looks: Cell<u64>,
    /// Whether the last poll, or of landing places any since the last pause, gave less than what is there.
    pub stale: Cell<bool>,
}

impl LoomMachine {
    /// Stores pack `pack` of an area by its name.
    pub fn write(&self, area: Area, pack: u32, value: Pack) {
        self.write_to(self.rank, area, pack, value);
    }

    fn write_to(&self, owner: Rank, area: Area, pack: u32, value: Pack) {
        let store = || self.world.memory.store(owner, area, pack, value);
        let what = What::Data(DataStep { stores: true, area, owner, pack, value: Some(value) });
        match self.world.memory.data(area) {
            // The access fails where it does, and then is the last step.
            Data::Cells => {
                self.log(what);
                store();
            }
            // The access lets other threads go first, and does not fail.
            Data::Words => {
                store();
                self.log(what);
            }
        }
    }

    fn read(&self, area: Area, owner: Rank, pack: u32) -> Pack {
        let load = || self.world.memory.load(owner, area, pack);
        let what = |value| What::Data(DataStep { stores: false, area, owner, pack, value });
        match self.world.memory.data(area) {
            Data::Cells => {
                self.log(what(None));
                let value = load();
                self.world.log.saw(value);
                value
            }
            Data::Words => {
                let value = load();
                self.log(what(Some(value)));
                value
            }
        }
    }

    /// The kernel comes to an access of this kind.
    fn comes_to(&self, access: Access) {
        if self.waits_before.get() == Some(access) {
            self.waits_before.set(None);
            self.world.streams[self.rank.0 as usize].meet(true, || ());
        }
    }

    /// Tells the log.
    pub fn log(&self, what: What) {
        let thread = self.place.map(|(block, thread)| Thread { call: self.call, block, thread });
        self.world.log.push(Who { rank: self.rank, thread }, what);
    }

    fn area(&self, region: Region) -> Area {
        let program = &self.world.program;
        match region {
            Region::Source => program.source(self.call),
            Region::Input(bank) => program.input(self.call, bank),
            Region::Scratch => Area::Scratch,
            Region::Output => program.output(self.call),
        }
    }

    fn tell(&self, listener: Rank, row: FlagRow, epoch: Epoch, order: Order) {
        self.comes_to(Access::Flag);
        let ordering = match order {
            Order::Volatile => Ordering::Relaxed,
            Order::ReleaseAcquire => Ordering::Release,
        };
        self.world.memory.flag(listener, row, self.rank).store(epoch, ordering);
        self.log(What::Flag(FlagStep { tells: true, peer: listener, phase: row.phase, epoch, order }));
    }

    fn poll(&self, emitter: Rank, row: FlagRow, order: Order) -> Epoch {
        let ordering = match order {
            Order::Volatile => Ordering::Relaxed,
            Order::ReleaseAcquire => Ordering::Acquire,
        };
        let flag = self.world.memory.flag(self.rank, row, emitter);
        let epoch = flag.load(ordering);
        self.stale.set(epoch != flag.newest());
        self.log(What::Flag(FlagStep { tells: false, peer: emitter, phase: row.phase, epoch, order }));
        match order {
            Order::Volatile if self.world.assumptions.has(Assumption::PollOrdersLoads) => fence(Ordering::Acquire),
            Order::Volatile | Order::ReleaseAcquire => {}
        }
        epoch
    }
}

impl Machine for LoomMachine {
    fn rank(&self) -> Rank {
        self.rank
    }
    fn world(&self) -> u32 {
        self.world.program.shape.ranks
    }
    fn block(&self) -> u32 {
        self.place.map_or(0, |(block, _)| block)
    }
    fn blocks(&self) -> u32 {
        self.place.map_or(1, |_| self.world.program.call(self.call).blocks)
    }
    fn thread(&self) -> u32 {
        self.place.map_or(0, |(_, thread)| thread)
    }
    fn threads(&self) -> u32 {
        self.place.map_or(1, |_| self.world.program.shape.threads)
    }
    fn reduction(&self) -> Reduction {
        Reduction::SUM
    }
    fn elems(&self) -> u64 {
        u64::from(self.world.program.packs_of(self.call)) * LANES
    }
    fn aligned(&self) -> bool {
        true
    }

    fn landing_shared_packs(&self) -> u32 {
        self.world.program.shared_packs
    }

    fn sync_block(&self) {
        self.sync_block_all(true);
    }
    fn sync_block_all(&self, ok: bool) -> bool {
        self.log(What::Sync);
        let block = self.rank.0 * self.world.program.shape.blocks + self.block();
        self.world.blocks[block as usize].meet(ok, || ())
    }
    fn pause_to_look(&self, polls: u32) -> bool {
        let polls = u64::from(polls);
        let stale = self.stale.replace(false);
        if self.world.patience.is_some_and(|patience| stale || polls > patience) {
            loom::skip_branch();
        }
        loom::thread::yield_now();
        // Or none: the last one, at which a wait looks again.
        polls >= FAILED_POLLS_OF_A_HANG || polls == 0
    }
    /// No time passes; but whoever looks at the clock has waited for ever.
    fn now_ns(&self) -> u64 {
        (self.looks.replace(self.looks.get() + 1) + 1) * TICK_NS
    }
    fn timeout_ns(&self) -> u64 {
        1
    }
    fn board(&self) -> Board {
        Board::default()
    }
    fn host_board(&self) -> Board {
        Board::default()
    }
    fn tell_stop(&self, _: Rank, stop: u64) {
        let missing = Stop::decode(stop).and_then(|stop| Some((stop.ranks.iter().next()?, stop.phase)));
        let Some((missing, phase)) = missing else { unreachable!("a thread stops only when it waits for another") };
        self.world.log.fail(Failure::Hang { waits: self.rank, missing, phase })
    }
    fn add_wait(&self, _: LongestWait) {}
    fn add_missing(&self, _: Ranks) {}
    fn signature(&self) -> Signature {
        // Ranks make the same calls here. What they tell of them orders nothing, and would only be more to explore.
        Signature::NONE
    }
    fn tell_call(&self, _: Rank, _: Bank, _: [u64; 2]) {
        unreachable!("calls are not compared")
    }
    fn call_told(&self, _: Rank, _: Bank) -> [u64; 2] {
        unreachable!("calls are not compared")
    }

    fn st_flag_volatile(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.tell(listener, row, epoch, Order::Volatile);
    }
    fn ld_flag_volatile(&self, emitter: Rank, row: FlagRow) -> Epoch {
        self.poll(emitter, row, Order::Volatile)
    }
    fn st_flag_release(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.tell(listener, row, epoch, Order::ReleaseAcquire);
    }
    fn ld_flag_acquire(&self, emitter: Rank, row: FlagRow) -> Epoch {
        self.poll(emitter, row, Order::ReleaseAcquire)
    }

    fn ld_epoch(&self, block: u32) -> Epoch {
        self.comes_to(Access::Epoch);
        self.log(What::EpochWord { block, stored: None });
        self.world.memory.load_epoch(self.rank, block)
    }
    fn st_epoch(&self, block: u32, epoch: Epoch) {
        // Nobody looks at the words of blocks that no call of the program has.
        if block < self.world.program.shape.blocks {
            self.log(What::EpochWord { block, stored: Some(epoch) });
            self.world.memory.store_epoch(self.rank, block, epoch);
        }
    }

    fn ld_cursor(&self, block: u32) -> Cursor {
        self.comes_to(Access::Epoch);
        self.log(What::Cursor { block, stored: None });
        self.world.memory.load_cursor(self.rank, block)
    }
    fn st_cursor(&self, block: u32, cursor: Cursor) {
        let World { program, mutation, .. } = &*self.world;
        let right = *mutation != Mutation::Nothing || cursor == program.cursor_after(self.call);
        assert!(right, "{cursor:?} after call {}: the row is another one than it says", self.call);
        // As for epoch words.
        if block < self.world.program.shape.blocks {
            self.log(What::Cursor { block, stored: Some(cursor) });
            self.world.memory.store_cursor(self.rank, block, cursor);
        }
    }

    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack {
        self.comes_to(Access::Data);
        self.read(self.area(region), owner, pack as u32)
    }
    fn st_pack(&self, region: Region, pack: u64, value: Pack) {
        self.write(self.area(region), pack as u32, value);
    }
    fn ld_elem<T: Element>(&self, _: Region, _: Rank, _: u64) -> Pack {
        unreachable!("all buffers are aligned and their last pack is full")
    }
    fn st_elem<T: Element>(&self, _: Region, _: u64, _: Pack) {
        unreachable!("all buffers are aligned and their last pack is full")
    }

    fn push_pack(&self, listener: Rank, at: Landing, value: Pack) {
        self.comes_to(Access::Data);
        self.world.landings.push(listener, self.rank, at, value);
    }
    fn poll_pack(&self, emitter: Rank, at: Landing) -> Pack {
        let (pack, newest) = self.world.landings.poll(self.rank, emitter, at);
        if pack.0.iter().zip(newest.0).any(|(&word, newest)| word == MARKER && newest != MARKER) {
            self.stale.set(true);
        }
        pack
    }
    fn clear_pack(&self, emitter: Rank, at: Landing) {
        self.world.landings.clear(self.rank, emitter, at);
    }
    // ORDER: of pairs as of packs. What lands at once is the program's affair.
    fn push_pairs(&self, listener: Rank, at: Landing, value: Pack) {
        self.push_pack(listener, at, value);
    }
    fn poll_pairs(&self, emitter: Rank, at: Landing) -> Pack {
        self.poll_pack(emitter, at)
    }
    fn clear_pairs(&self, emitter: Rank, at: Landing) {
        self.clear_pack(emitter, at);
    }
    fn give_pack(&self, owner: Rank, pack: u64, value: Pack) {
        self.write_to(owner, self.area(Region::Output), pack as u32, value);
    }
    fn give_elem<T: Element>(&self, _: Rank, _: u64, _: Pack) {
        unreachable!("all buffers are aligned and their last pack is full")
    }

    fn add_wrong(&self, _: u64, _: u64, _: u64, _: Epoch) {
        unreachable!("no verify kernel runs here")
    }
}
