//! The memory of all ranks as loom sees it: flags, epoch words, cursors, data.

use std::cell::Cell;

use allfold_kernels::protocol::abi::{BANKS, FlagRow, Phase, Rank};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::Pack;
use allfold_kernels::protocol::push::Cursor;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};

use crate::program::{Area, Program};

/// How data are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// In cells: two accesses that nothing orders are a failure, whatever they would give.
    Cells,
    /// In relaxed atomic words: what fails is a wrong sum.
    Words,
}

/// A flag.
pub struct Flag {
    word: AtomicU64,
    /// What was stored last, known to nobody in the model.
    newest: Cell<Epoch>,
}

impl Flag {
    fn new(last: Epoch) -> Flag {
        Flag { word: AtomicU64::new(last.0), newest: Cell::new(last) }
    }

    /// Stores `epoch`.
    pub fn store(&self, epoch: Epoch, ordering: Ordering) {
        self.word.store(epoch.0, ordering);
        self.newest.set(epoch);
    }

    /// Loads what loom lets this thread see.
    pub fn load(&self, ordering: Ordering) -> Epoch {
        Epoch(self.word.load(ordering))
    }

    /// What was stored last, whether or not this thread can see it.
    pub fn newest(&self) -> Epoch {
        self.newest.get()
    }
}

/// Where one pack is.
enum Place {
    Cell(UnsafeCell<Pack>),
    /// Lanes 0 and 1; the others of a stamp are 0.
    Word(AtomicU64),
}

impl Place {
    fn load(&self) -> Pack {
        match self {
            // SAFETY: loom lets no other thread run inside, and fails where an earlier access is not ordered with this.
            Place::Cell(cell) => cell.with(|pack| unsafe { *pack }),
            Place::Word(word) => {
                let word = word.load(Ordering::Relaxed);
                Pack([word as u32, (word >> 32) as u32, 0, 0])
            }
        }
    }

    fn store(&self, value: Pack) {
        match self {
            // SAFETY: as for the load.
            Place::Cell(cell) => cell.with_mut(|pack| unsafe { *pack = value }),
            Place::Word(word) => word.store(value.0[0] as u64 | (value.0[1] as u64) << 32, Ordering::Relaxed),
        }
    }
}

/// The memory of all ranks.
pub struct Memory {
    shared: Data,
    ranks: u32,
    blocks: u32,
    packs: u32,
    flags: Vec<Option<Flag>>,
    epochs: Vec<UnsafeCell<Epoch>>,
    cursors: Vec<UnsafeCell<Cursor>>,
    data: Vec<Place>,
}

impl Memory {
    /// All zero, for the calls of `program`; what peers read is kept as `shared`. To be made before any other thread is.
    pub fn new(program: &Program, shared: Data) -> Memory {
        let (ranks, blocks, packs) = (program.shape.ranks, program.shape.blocks, program.most_packs());
        let flags_of = |phase: Phase| {
            let used = program.uses(phase);
            let last = match phase {
                Phase::Start | Phase::Middle | Phase::End => program.last,
                Phase::Landing => Epoch(program.cursor.serial),
            };
            let flag = move |flag| (used && flag / ranks % ranks != flag % ranks).then(|| Flag::new(last));
            (0..BANKS as u32 * blocks * ranks * ranks).map(flag)
        };
        let place = |area: Area| match if area.shared() { shared } else { Data::Cells } {
            Data::Cells => Place::Cell(UnsafeCell::new(Pack([0; 4]))),
            Data::Words => Place::Word(AtomicU64::new(0)),
        };
        let areas = (0..ranks).flat_map(|_| Area::ALL);
        Memory {
            shared,
            ranks,
            blocks,
            packs,
            // In the order of their numbers.
            flags: Phase::ALL.into_iter().flat_map(flags_of).collect(),
            epochs: (0..ranks * blocks).map(|_| UnsafeCell::new(program.last)).collect(),
            cursors: (0..ranks * blocks).map(|_| UnsafeCell::new(program.cursor)).collect(),
            data: areas.flat_map(|area| (0..packs).map(move |_| area)).map(place).collect(),
        }
    }

    /// The flag that only `emitter` stores and only `listener` loads.
    ///
    /// # Panics
    /// When no call of the program has that flag.
    pub fn flag(&self, listener: Rank, row: FlagRow, emitter: Rank) -> &Flag {
        let bank = row.phase as u32 * BANKS as u32 + row.bank.0;
        let flag = ((bank * self.blocks + row.block) * self.ranks + listener.0) * self.ranks + emitter.0;
        self.flags[flag as usize].as_ref().expect("a flag of the program")
    }

    /// The epoch word of `block` on `rank`.
    pub fn load_epoch(&self, rank: Rank, block: u32) -> Epoch {
        // SAFETY: as for data.
        self.epochs[(rank.0 * self.blocks + block) as usize].with(|word| unsafe { *word })
    }

    /// Sets it.
    pub fn store_epoch(&self, rank: Rank, block: u32, epoch: Epoch) {
        // SAFETY: as for data.
        self.epochs[(rank.0 * self.blocks + block) as usize].with_mut(|word| unsafe { *word = epoch });
    }

    /// The cursor of `block` on `rank`.
    pub fn load_cursor(&self, rank: Rank, block: u32) -> Cursor {
        // SAFETY: as for data.
        self.cursors[(rank.0 * self.blocks + block) as usize].with(|cursor| unsafe { *cursor })
    }

    /// Sets it.
    pub fn store_cursor(&self, rank: Rank, block: u32, value: Cursor) {
        // SAFETY: as for data.
        self.cursors[(rank.0 * self.blocks + block) as usize].with_mut(|cursor| unsafe { *cursor = value });
    }

    /// How the data of `area` are kept.
    pub fn data(&self, area: Area) -> Data {
        if area.shared() { self.shared } else { Data::Cells }
    }

    fn place(&self, owner: Rank, area: Area, pack: u32) -> &Place {
        &self.data[((owner.0 * Area::ALL.len() as u32 + area.index()) * self.packs + pack) as usize]
    }

    /// A pack of `owner`'s `area`.
    pub fn load(&self, owner: Rank, area: Area, pack: u32) -> Pack {
        self.place(owner, area, pack).load()
    }

    /// Sets it.
    pub fn store(&self, owner: Rank, area: Area, pack: u32, value: Pack) {
        self.place(owner, area, pack).store(value)
    }
}
