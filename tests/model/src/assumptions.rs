//! Sets of named assumptions about the hardware, each of which is switched on at one place of the model.
//!
//! | assumption | in the model |
//! |---|---|
//! | `KernelEndPublishes` | a release fence in each thread of a rank when a kernel begins: what the rank stored *and loaded* before |
//! | `PollOrdersLoads` | an acquire fence behind each volatile poll: what the thread, and after a block sync its block, loads *and stores* later |
//! | `LoadsDoneBeforeBarrier` | data in relaxed atomic words and not in cells: loom lets no load take effect after a later store of its thread, so what is judged is the sum alone |

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

pub use allfold_kernels::protocol::soundness::Assumption;

const fn bit(assumption: Assumption) -> u8 {
    1 << assumption as u8
}

/// A set of assumptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumptions(u8);

impl Assumptions {
    /// Nothing is assumed.
    pub const NONE: Assumptions = Assumptions(0);
    /// All that there are.
    pub const ALL: Assumptions = Assumptions((1 << Assumption::ALL.len()) - 1);

    /// Every set, the smaller ones first.
    pub fn sets() -> Vec<Assumptions> {
        let mut sets: Vec<_> = (0..=Self::ALL.0).map(Assumptions).collect();
        sets.sort_by_key(|set| set.len());
        sets
    }

    /// How many assumptions the set has.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `assumption` is in the set.
    pub const fn has(self, assumption: Assumption) -> bool {
        self.0 & bit(assumption) != 0
    }

    /// The set without `assumption`.
    pub const fn without(self, assumption: Assumption) -> Assumptions {
        Assumptions(self.0 & !bit(assumption))
    }

    /// The set with the assumption with which data are kept in words.
    pub const fn with_words(self) -> Assumptions {
        Assumptions(self.0 | bit(Assumption::LoadsDoneBeforeBarrier))
    }

    /// The assumptions in the set.
    pub fn iter(self) -> impl Iterator<Item = Assumption> {
        Assumption::ALL.into_iter().filter(move |&assumption| self.has(assumption))
    }
}

impl Display for Assumptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Assumption::name).collect();
        f.write_str(&names.join(", "))
    }
}
