//! What is drawn of a cell: its dtype, the lengths of its calls, and how many blocks a rank of the CPU has. The same in every run.

use allfold::{Algorithm, Dtype, InputMode};

use super::{Cell, Fault, Phase};
use crate::data::mix;

/// Elements of calls whose length is nothing to the fault.
pub const ELEMS: usize = 500;
/// Those of a drawn length at most.
const MOST: u64 = 1000;
/// A length of many packs for each thread.
pub const LARGE: usize = 409_600;

/// Numbers that look random, one after the other.
struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    /// From `least` to `most`.
    fn within(&mut self, least: u64, most: u64) -> usize {
        self.drawn += 1;
        (least + mix(self.seed, 0, self.drawn) % (most - least + 1)) as usize
    }
}

impl Cell {
    /// The cell at this place.
    pub fn drawn(fault: Fault, phase: Phase, form: (Algorithm, InputMode), world: u32, victim: u32) -> Cell {
        let place = [fault as u64, phase as u64, form.0 as u64, form.1 as u64, world.into(), victim.into()];
        let mut random = Random { seed: place.into_iter().fold(0, |seed, part| 16 * seed + part), drawn: 0 };
        let differs = !fault.differs_in().is_empty() || fault == Fault::EmptyAlone;
        let dtype = if fault == Fault::OtherHalf {
            Dtype::Bf16
        } else if fault == Fault::OtherPlan {
            Dtype::I32
        } else if differs && fault != Fault::OtherDtype {
            [Dtype::F32, Dtype::Bf16][random.within(0, 1)]
        } else {
            Dtype::F32
        };
        let elems = random.within(2, MOST);
        let elems = match fault {
            Fault::OtherPlan => [LARGE, ELEMS],
            Fault::Shorter if phase == Phase::Between => [LARGE, LARGE - 2],
            Fault::Shorter => [elems, random.within(1, elems as u64 - 1)],
            Fault::Longer => [elems, elems + random.within(1, 24)],
            // Any other one.
            Fault::OtherOrder | Fault::OneMore | Fault::Empty => {
                let other = random.within(1, MOST - 1);
                [elems, other + usize::from(other >= elems)]
            }
            Fault::EmptyAlone | Fault::OtherHalf | Fault::OtherInput => [elems; 2],
            Fault::OtherDtype
            | Fault::OtherAlgorithm
            | Fault::OtherGrid
            | Fault::Late
            | Fault::Absent
            | Fault::Dropped
            | Fault::Killed
            | Fault::KilledInCall
            | Fault::Stopped
            | Fault::StoppedTooLong
            | Fault::Aborts
            | Fault::AbortedFromAside
            | Fault::OtherTurn => [ELEMS; 2],
        };
        // Of one block of one thread no grid is another one.
        let blocks = if differs && fault != Fault::OtherGrid { random.within(1, 2) as u32 } else { 2 };
        Cell { fault, phase, form, world, victim, dtype, elems, blocks }
    }
}
