//! How threads wait: the barrier of one block, and what they do between two looks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Looks after which a wait is a long one, and sleeps between two.
const LONG: u64 = 4096;

/// Gives the processor away, the more the longer the wait: peers may share this core.
pub(super) fn relax(tries: u64) {
    match tries {
        0..16 => std::hint::spin_loop(),
        16..LONG => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

/// Joins the threads of a block again and again, and says each time whether all of them brought `true`.
pub(super) struct Block {
    arrived: AtomicU32,
    generation: AtomicU32,
    /// The answer of the generation of each parity, `true` until a thread brings `false`.
    all: [AtomicBool; 2],
}

impl Block {
    pub(super) fn new() -> Self {
        Block {
            arrived: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            all: [AtomicBool::new(true), AtomicBool::new(true)],
        }
    }

    /// Waits until all `threads` have come; `relax` is called between looks with the number of looks so far.
    pub(super) fn sync_all(&self, threads: u32, ok: bool, relax: impl Fn(u64)) -> bool {
        if threads == 1 {
            return ok;
        }
        // Nobody can change it before this thread has arrived.
        let generation = self.generation.load(Ordering::Relaxed);
        let [mine, next] = [generation & 1, (generation + 1) & 1].map(|parity| &self.all[parity as usize]);
        if !ok {
            mine.store(false, Ordering::Relaxed);
        }
        // Release: what this thread did, its `false` included, is seen by the last to arrive. Acquire: that one sees all.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == threads {
            // No thread is past this generation, so none reads `next` or adds to `arrived`.
            next.store(true, Ordering::Relaxed);
            self.arrived.store(0, Ordering::Relaxed);
            // Release: pairs with the load below; publishes the two stores and what all threads did.
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
        } else {
            let mut looks = 0;
            while self.generation.load(Ordering::Acquire) == generation {
                looks += 1;
                relax(looks);
            }
        }
        // It is set anew only when the next generation is complete, which needs this thread.
        mine.load(Ordering::Relaxed)
    }
}
