//! Where the ranks' threads wait for each other.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Lets the ranks' threads go on together, within a microsecond where each has a core: what one is late counts as the
/// others' time.
pub struct Gate {
    ranks: usize,
    arrived: AtomicUsize,
}

impl Gate {
    /// A gate for `ranks` threads.
    pub fn new(ranks: usize) -> Gate {
        Gate { ranks, arrived: AtomicUsize::new(0) }
    }

    /// Waits until all ranks have come to their gate number `count`, from 0.
    pub fn pass(&self, count: usize) {
        // Release and acquire: what a rank did before this gate is seen by the others after it.
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0_u32;
        while self.arrived.load(Ordering::Acquire) < (count + 1) * self.ranks {
            looks = looks.saturating_add(1);
            if looks < 1 << 12 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_a_gate_before_all_have_come() {
        const RANKS: usize = 4;
        let gate = Gate::new(RANKS);
        let come = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..RANKS {
                scope.spawn(|| {
                    for count in 0..200 {
                        come.fetch_add(1, Ordering::Relaxed);
                        gate.pass(count);
                        assert!(come.load(Ordering::Relaxed) >= (count + 1) * RANKS);
                    }
                });
            }
        });
    }
}
