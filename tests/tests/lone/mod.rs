//! One thread of one rank, alone: its peers are the flags that a test sets, and all that it does is written down.
//!
//! Long: so that the whole machine is in one file.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use allfold_kernels::protocol::abi::{Bank, FlagRow, MARKER, MAX_BLOCKS, Rank};
use allfold_kernels::protocol::element::Element;
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Landing, Machine, Pack, Region};
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::reduction::Reduction;
use allfold_kernels::protocol::signature::Signature;
use allfold_kernels::protocol::status::{Board, LongestWait, Ranks, Stop};
use allfold_kernels::protocol::wait::TICK_NS;

/// An access to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub region: Region,
    pub owner: Rank,
    /// The first element.
    pub elem: u64,
    pub elems: u64,
}

/// The thread.
pub struct Lone {
    pub rank: u32,
    pub world: u32,
    pub block: u32,
    pub blocks: u32,
    pub thread: u32,
    pub threads: u32,
    pub elems: u64,
    pub lanes: u64,
    pub aligned: bool,
    /// Ticks before a wait ends. The clock goes on by one at each look; each poll is followed by one or two.
    pub timeout: u64,
    pub clock: Cell<u64>,
    /// What is left for it to see.
    pub board: Cell<Board>,
    pub host_board: Cell<Board>,
    /// What its call is, and what peers have told of theirs.
    pub signature: Signature,
    pub calls: HashMap<Rank, [u64; 2]>,
    /// Whom it told what its call is.
    pub told_calls: RefCell<Vec<(Rank, [u64; 2])>>,
    /// Whom it told to stop, and what else it left word of.
    pub stops: RefCell<Vec<(Rank, Stop)>>,
    pub missing: RefCell<Vec<Ranks>>,
    pub waits: RefCell<Vec<LongestWait>>,
    /// Elements that hold no sum.
    pub poisoned: RefCell<Vec<u64>>,
    /// After so many polls, a flag that is looked at holds what is waited for.
    pub comes_after: Option<u64>,
    /// What peers have told this rank, by row and emitter.
    pub flags: HashMap<(FlagRow, Rank), Epoch>,
    pub epochs: RefCell<Vec<Epoch>>,
    pub cursors: RefCell<Vec<Cursor>>,
    /// Packs of a landing slot that small calls share.
    pub shared_packs: u32,
    pub polls: Cell<u64>,
    pub told: RefCell<Vec<(Rank, FlagRow, Epoch)>>,
    pub loads: RefCell<Vec<Access>>,
    pub stores: RefCell<Vec<Access>>,
    /// What every word of data holds.
    pub word: u32,
    /// Whether what is at a place has landed, by emitter.
    pub landed: fn(Rank, Landing) -> bool,
    pub pushed: RefCell<Vec<(Rank, Landing)>>,
    pub cleared: RefCell<Vec<(Rank, Landing)>>,
    /// What was stored into outputs, this rank's own among them.
    pub given: RefCell<Vec<Access>>,
}

impl Lone {
    /// Rank 0's only thread of `world` ranks, after the call `last`.
    pub fn new(world: u32, elems: u64, lanes: u64, last: Epoch) -> Lone {
        Lone {
            rank: 0,
            world,
            block: 0,
            blocks: 1,
            thread: 0,
            threads: 1,
            elems,
            lanes,
            aligned: true,
            timeout: 3,
            clock: Cell::new(1),
            board: Cell::default(),
            host_board: Cell::default(),
            signature: Signature::NONE,
            calls: HashMap::new(),
            told_calls: RefCell::default(),
            stops: RefCell::default(),
            missing: RefCell::default(),
            waits: RefCell::default(),
            poisoned: RefCell::default(),
            comes_after: None,
            flags: HashMap::new(),
            epochs: RefCell::new(vec![last; MAX_BLOCKS]),
            cursors: RefCell::new(vec![Cursor { serial: 0, used: 0, announced: false }; MAX_BLOCKS]),
            shared_packs: 0,
            polls: Cell::new(0),
            told: RefCell::default(),
            loads: RefCell::default(),
            stores: RefCell::default(),
            word: 0,
            landed: |_, _| false,
            pushed: RefCell::default(),
            cleared: RefCell::default(),
            given: RefCell::default(),
        }
    }

    /// Before an access: none comes after a wait that was given up.
    fn goes_on(&self) {
        assert!(!self.left(), "it has given up, and goes on");
    }

    /// Whether it has left its call.
    pub fn left(&self) -> bool {
        self.epochs.borrow().iter().any(|epoch| epoch.is_stopped())
    }

    fn tell(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.goes_on();
        assert_ne!(listener.0, self.rank, "a rank need not tell itself");
        self.told.borrow_mut().push((listener, row, epoch));
    }

    fn look(&self, emitter: Rank, row: FlagRow) -> Epoch {
        self.goes_on();
        assert_ne!(emitter.0, self.rank, "a rank need not wait for itself");
        self.polls.set(self.polls.get() + 1);
        if self.comes_after == Some(self.polls.get()) {
            return self.epochs.borrow()[0].next();
        }
        self.flags.get(&(row, emitter)).copied().unwrap_or(Epoch(0))
    }

    fn pack(&self, region: Region, owner: Rank, pack: u64) -> Access {
        self.goes_on();
        assert!(self.aligned, "whole packs of a buffer that is not aligned");
        Access { region, owner, elem: pack * self.lanes, elems: self.lanes }
    }
}

impl Lone {
    fn lands(&self, listener: Rank, at: Landing) {
        assert_ne!(listener.0, self.rank, "a rank need not push to itself");
        self.pushed.borrow_mut().push((listener, at));
    }
}

impl Machine for Lone {
    fn rank(&self) -> Rank {
        Rank(self.rank)
    }
    fn world(&self) -> u32 {
        self.world
    }
    fn block(&self) -> u32 {
        self.block
    }
    fn blocks(&self) -> u32 {
        self.blocks
    }
    fn thread(&self) -> u32 {
        self.thread
    }
    fn threads(&self) -> u32 {
        self.threads
    }
    fn reduction(&self) -> Reduction {
        Reduction::SUM
    }
    fn elems(&self) -> u64 {
        self.elems
    }
    fn aligned(&self) -> bool {
        self.aligned
    }
    fn landing_shared_packs(&self) -> u32 {
        self.shared_packs
    }
    fn sync_block(&self) {}
    fn sync_block_all(&self, ok: bool) -> bool {
        ok
    }
    fn pause_to_look(&self, _polls: u32) -> bool {
        true
    }
    fn now_ns(&self) -> u64 {
        self.clock.replace(self.clock.get() + 1) * TICK_NS
    }
    fn timeout_ns(&self) -> u64 {
        self.timeout.saturating_mul(TICK_NS)
    }
    fn board(&self) -> Board {
        self.board.get()
    }
    fn host_board(&self) -> Board {
        self.host_board.get()
    }
    fn tell_stop(&self, rank: Rank, stop: u64) {
        // As the host will read it.
        self.stops.borrow_mut().extend(Stop::decode(stop).map(|stop| (rank, stop)));
    }
    fn add_wait(&self, wait: LongestWait) {
        self.waits.borrow_mut().push(wait);
    }
    fn add_missing(&self, missing: Ranks) {
        self.missing.borrow_mut().push(missing);
    }
    fn signature(&self) -> Signature {
        self.signature
    }
    fn tell_call(&self, listener: Rank, _bank: Bank, words: [u64; 2]) {
        self.told_calls.borrow_mut().push((listener, words));
    }
    fn call_told(&self, emitter: Rank, _bank: Bank) -> [u64; 2] {
        assert_ne!(emitter.0, self.rank, "a rank need not wait for itself");
        self.calls.get(&emitter).copied().unwrap_or_default()
    }
    fn st_flag_volatile(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.tell(listener, row, epoch);
    }
    fn ld_flag_volatile(&self, emitter: Rank, row: FlagRow) -> Epoch {
        self.look(emitter, row)
    }
    fn st_flag_release(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.tell(listener, row, epoch);
    }
    fn ld_flag_acquire(&self, emitter: Rank, row: FlagRow) -> Epoch {
        self.look(emitter, row)
    }
    fn ld_epoch(&self, block: u32) -> Epoch {
        self.epochs.borrow()[block as usize]
    }
    fn st_epoch(&self, block: u32, epoch: Epoch) {
        assert!(epoch.is_stopped() || !self.left(), "it has given up, and goes on");
        self.epochs.borrow_mut()[block as usize] = epoch;
    }
    fn ld_cursor(&self, block: u32) -> Cursor {
        self.cursors.borrow()[block as usize]
    }
    fn st_cursor(&self, block: u32, cursor: Cursor) {
        assert!(cursor.goes_on().is_err() || !self.left(), "it has given up, and goes on");
        self.cursors.borrow_mut()[block as usize] = cursor;
    }
    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack {
        self.loads.borrow_mut().push(self.pack(region, owner, pack));
        Pack([self.word; 4])
    }
    fn st_pack(&self, region: Region, pack: u64, _value: Pack) {
        self.stores.borrow_mut().push(self.pack(region, self.rank(), pack));
    }
    fn ld_elem<T: Element>(&self, region: Region, owner: Rank, elem: u64) -> Pack {
        self.goes_on();
        self.loads.borrow_mut().push(Access { region, owner, elem, elems: 1 });
        Pack([self.word & (u32::MAX >> (32 - 8 * T::DTYPE.bytes())), 0, 0, 0])
    }
    fn st_elem<T: Element>(&self, region: Region, elem: u64, value: Pack) {
        if self.left() {
            assert_eq!(
                (region, value.0[0]),
                (Region::Output, u32::MAX),
                "all that is left to do is to poison the output"
            );
            return self.poisoned.borrow_mut().push(elem);
        }
        self.stores.borrow_mut().push(Access { region, owner: self.rank(), elem, elems: 1 });
    }
    fn push_pack(&self, listener: Rank, at: Landing, value: Pack) {
        self.goes_on();
        assert!(value.0.iter().all(|&word| word != MARKER), "the marker is never pushed");
        self.lands(listener, at);
    }
    fn poll_pack(&self, emitter: Rank, at: Landing) -> Pack {
        self.goes_on();
        assert_ne!(emitter.0, self.rank, "a rank need not poll itself");
        self.polls.set(self.polls.get() + 1);
        let landed = (self.landed)(emitter, at) && !self.cleared.borrow().contains(&(emitter, at));
        Pack([if landed { self.word.min(MARKER - 1) } else { MARKER }; 4])
    }
    fn clear_pack(&self, emitter: Rank, at: Landing) {
        self.goes_on();
        assert_ne!(emitter.0, self.rank, "a rank has no slot for itself");
        self.cleared.borrow_mut().push((emitter, at));
    }
    fn push_pairs(&self, listener: Rank, at: Landing, value: Pack) {
        self.goes_on();
        assert!([1, 3].iter().all(|&flag| value.0[flag] != MARKER), "a flag is never the marker");
        self.lands(listener, at);
    }
    fn poll_pairs(&self, emitter: Rank, at: Landing) -> Pack {
        let Pack([word, flag, ..]) = self.poll_pack(emitter, at);
        // The data may be the marker, and then nothing but the flag says that they have landed.
        if flag == MARKER { Pack([MARKER; 4]) } else { Pack([self.word, word, self.word, word]) }
    }
    fn clear_pairs(&self, emitter: Rank, at: Landing) {
        self.clear_pack(emitter, at);
    }
    fn give_pack(&self, owner: Rank, pack: u64, _value: Pack) {
        self.given.borrow_mut().push(Access { owner, ..self.pack(Region::Output, owner, pack) });
    }
    fn give_elem<T: Element>(&self, owner: Rank, elem: u64, _value: Pack) {
        self.goes_on();
        self.given.borrow_mut().push(Access { region: Region::Output, owner, elem, elems: 1 });
    }
    fn add_wrong(&self, _count: u64, _elem: u64, _bits: u64, _epoch: Epoch) {}
}
