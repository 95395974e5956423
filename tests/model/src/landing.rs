//! Landing places as loom sees them: relaxed words; and, apart from them, what must come before what.

use std::cell::Cell;

use allfold_kernels::protocol::abi::{GENERATIONS, MARKER, PACK_WORDS, Rank};
use allfold_kernels::protocol::machine::{Landing, Pack};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};

use crate::program::Program;

/// The lanes of a stamp that are not 0: only these are kept.
pub const MARKED: [usize; 2] = [0, 1];

/// Where one pack of one emitter lands.
struct Place {
    /// All lanes at once, or each by itself.
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
    fn new(calls: usize, torn: bool) -> Place {
        let words = if torn { MARKED.len() } else { 1 };
        let empty = Pack([MARKER; PACK_WORDS]);
        let (newest, pushes, clears) = (Cell::new(empty), Cell::new(0), Cell::new(0));
        let words = split(empty, words).map(AtomicU64::new).collect();
        // A two-shot whose sums land on its terms stores twice in a call.
        let cleared = (0..2 * calls).map(|_| UnsafeCell::new(())).collect();
        Place { words, newest, cleared, pushes, clears }
    }

    fn store(&self, value: Pack) {
        for (word, value) in self.words.iter().zip(split(value, self.words.len())) {
            word.store(value, Ordering::Relaxed);
        }
        self.newest.set(value);
    }

    fn load(&self) -> Pack {
        let mut lanes = [0; PACK_WORDS];
        let loaded = self.words.iter().map(|word| word.load(Ordering::Relaxed));
        match loaded.collect::<Vec<_>>()[..] {
            [word] => [lanes[0], lanes[1]] = [word as u32, (word >> 32) as u32],
            ref words => lanes.iter_mut().zip(words).for_each(|(lane, &word)| *lane = word as u32),
        }
        Pack(lanes)
    }
}

/// A pack as so many words.
fn split(Pack(lanes): Pack, words: usize) -> impl Iterator<Item = u64> {
    let all = u64::from(lanes[0]) | u64::from(lanes[1]) << 32;
    (0..words).map(move |word| if words == 1 { all } else { lanes[word].into() })
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
        let place = |number: u32| {
            let peers = number / ranks % ranks != number % ranks;
            peers.then(|| Place::new(program.calls.len(), program.torn))
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
