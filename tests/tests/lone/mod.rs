//! One thread of one rank, alone: its peers are the flags that a test sets, and all that it does is written down.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use allfold_kernels::protocol::abi::{FlagRow, MAX_BLOCKS, Rank};
use allfold_kernels::protocol::element::Element;
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Machine, Pack, Region};
use allfold_kernels::protocol::status::GaveUp;

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
    pub poll_limit: u64,
    /// What peers have told this rank, by row and emitter.
    pub flags: HashMap<(FlagRow, Rank), Epoch>,
    pub epochs: RefCell<Vec<Epoch>>,
    pub polls: Cell<u64>,
    pub told: RefCell<Vec<(Rank, FlagRow, Epoch)>>,
    pub reports: RefCell<Vec<GaveUp>>,
    pub loads: RefCell<Vec<Access>>,
    pub stores: RefCell<Vec<Access>>,
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
            poll_limit: 5,
            flags: HashMap::new(),
            epochs: RefCell::new(vec![last; MAX_BLOCKS]),
            polls: Cell::new(0),
            told: RefCell::default(),
            reports: RefCell::default(),
            loads: RefCell::default(),
            stores: RefCell::default(),
        }
    }

    fn tell(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        assert_ne!(listener.0, self.rank, "a rank need not tell itself");
        self.told.borrow_mut().push((listener, row, epoch));
    }

    fn look(&self, emitter: Rank, row: FlagRow) -> Epoch {
        assert_ne!(emitter.0, self.rank, "a rank need not wait for itself");
        self.polls.set(self.polls.get() + 1);
        self.flags.get(&(row, emitter)).copied().unwrap_or(Epoch(0))
    }

    fn pack(&self, region: Region, owner: Rank, pack: u64) -> Access {
        assert!(self.aligned, "whole packs of a buffer that is not aligned");
        Access { region, owner, elem: pack * self.lanes, elems: self.lanes }
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
    fn elems(&self) -> u64 {
        self.elems
    }
    fn aligned(&self) -> bool {
        self.aligned
    }
    fn sync_block(&self) {}
    fn sync_block_all(&self, ok: bool) -> bool {
        ok
    }
    fn spin(&self, tries: u64) -> bool {
        tries < self.poll_limit
    }
    fn report(&self, gave_up: GaveUp) {
        // As the host will read it.
        self.reports.borrow_mut().extend(GaveUp::decode(gave_up.encode()));
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
        self.epochs.borrow_mut()[block as usize] = epoch;
    }
    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack {
        self.loads.borrow_mut().push(self.pack(region, owner, pack));
        Pack([0; 4])
    }
    fn st_pack(&self, region: Region, pack: u64, _value: Pack) {
        self.stores.borrow_mut().push(self.pack(region, self.rank(), pack));
    }
    fn ld_elem<T: Element>(&self, region: Region, owner: Rank, elem: u64) -> Pack {
        self.loads.borrow_mut().push(Access { region, owner, elem, elems: 1 });
        Pack([0; 4])
    }
    fn st_elem<T: Element>(&self, region: Region, elem: u64, _value: Pack) {
        self.stores.borrow_mut().push(Access { region, owner: self.rank(), elem, elems: 1 });
    }
    fn add_wrong(&self, _count: u64, _elem: u64, _bits: u32, _epoch: Epoch) {}
}
