//! Landing places as loom sees them: relaxed words; and, apart from them, what must come before what.

use std::cell::Cell;

use allfold_kernels::protocol::abi::{GENERATIONS, MARKER, PACK_WORDS, Rank};
use allfold_kernels::protocol::machine::{Landing, Pack};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};

use crate::program::Program;

/// The lanes of a place that each atomic word has.
type Words = &'static [&'static [usize]];

/// Lanes 2 and 3 of a stamp are 0: they are left out where the data are their own flags.
const AT_ONCE: Words = &[&[0, 1]];
const APART: Words = &[&[0], &[1]];
/// A flag behind each word of data.
const PAIRS: Words = &[&[0, 1], &[2, 3]];
const PAIRS_APART: Words = &[&[0], &[1], &[2], &[3]];

/// Where one pack of one emitter lands.
struct Place {
    lanes: Words,
    /// A word for each of `lanes`.
    words: Vec<AtomicU64>,
    /// What was stored last, known to nobody in the model.
    newest: Cell<Pack>,
    /// One for each time that the marker is put back. Loom keeps all stores to a word in the order in which they are made,
    /// whatever has published what; so it could not lose a push to an earlier marker. Here it can: the marker that is put
    /// back is an ordinary store, which the next push to the place must have before it.
    cleared: Vec<UnsafeCell<()>>,
    pushes: Cell<usize>,
    clears: Cell<usize>,
}

impl Place {
    fn new(calls: usize, lanes: Words) -> Place {
        let empty = Pack([MARKER; PACK_WORDS]);
        let (newest, pushes, clears) = (Cell::new(empty), Cell::new(0), Cell::new(0));
        let words = lanes.iter().map(|lanes| AtomicU64::new(join(empty, lanes))).collect();
        // A two-shot whose sums land on its terms stores twice in a call.
        let cleared = (0..2 * calls).map(|_| UnsafeCell::new(())).collect();
        Place { lanes, words, newest, cleared, pushes, clears }
    }

    fn store(&self, value: Pack) {
        for (word, lanes) in self.words.iter().zip(self.lanes) {
            word.store(join(value, lanes), Ordering::Relaxed);
        }
        self.newest.set(value);
    }

    fn load(&self) -> Pack {
        let mut pack = [0; PACK_WORDS];
        for (word, lanes) in self.words.iter().zip(self.lanes) {
            let word = word.load(Ordering::Relaxed);
            lanes.iter().enumerate().for_each(|(place, &lane)| pack[lane] = (word >> (32 * place)) as u32);
        }
        Pack(pack)
    }
}

/// These lanes of a pack as one word.
fn join(Pack(pack): Pack, lanes: &[usize]) -> u64 {
    lanes.iter().rev().fold(0, |word, &lane| word << 32 | u64::from(pack[lane]))
}

/// The landing areas of all ranks.
pub struct Landings {
    ranks: u32,
    slot: u32,
    places: Vec<Option<Place>>,
}

impl Landings {
    /// Full of markers, for the calls of `program`. To be made before any other thread is.
    pub fn new(program: &Program) -> Landings {
        let ranks = program.shape.ranks;
        // Even, so that each place has a neighbour.
        let slot = program.landing_packs().next_multiple_of(2);
        // Generation by generation, listener by listener, emitter by emitter.
        let slots = (0..GENERATIONS as u32 * ranks * ranks).flat_map(|number| (0..slot).map(move |_| number));
        let lanes = match (program.calls.iter().any(|call| call.dtype.landing_packs() > 1), program.torn) {
            (false, false) => AT_ONCE,
            (false, true) => APART,
            (true, false) => PAIRS,
            (true, true) => PAIRS_APART,
        };
        let place = |number: u32| {
            let peers = number / ranks % ranks != number % ranks;
            peers.then(|| Place::new(program.calls.len(), lanes))
        };
        Landings { ranks, slot, places: slots.map(place).collect() }
    }

    fn place(&self, listener: Rank, emitter: Rank, at: Landing) -> &Place {
        assert!(at.pack < self.slot, "{at:?} is beyond the slot");
        let slot = (at.generation.0 * self.ranks + listener.0) * self.ranks + emitter.0;
        self.places[(slot * self.slot + at.pack) as usize].as_ref().expect("a place of two ranks")
    }

    /// `emitter` stores `value` in its slot of `listener`.
    pub fn push(&self, listener: Rank, emitter: Rank, at: Landing, value: Pack) {
        let place = self.place(listener, emitter, at);
        if let Some(before) = place.pushes.replace(place.pushes.get() + 1).checked_sub(1) {
            place.cleared[before].with(|_| ());
        }
        place.store(value);
    }

    /// What `listener` sees there, and what was stored last.
    pub fn poll(&self, listener: Rank, emitter: Rank, at: Landing) -> (Pack, Pack) {
        let place = self.place(listener, emitter, at);
        let loaded = place.load();
        (loaded, place.newest.get())
    }

    /// `listener` puts the marker back.
    pub fn clear(&self, listener: Rank, emitter: Rank, at: Landing) {
        let place = self.place(listener, emitter, at);
        place.cleared[place.clears.replace(place.clears.get() + 1)].with_mut(|_| ());
        place.store(Pack([MARKER; PACK_WORDS]));
    }
}
