//! Which ranks of a communicator this process drives: all of them, or one. Nothing else.

use std::ops::Range;

/// The ranks of a communicator, and which of them are local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// Ranks of the communicator.
    pub(crate) world: u32,
    /// The first rank that this process drives.
    pub(crate) first: u32,
    /// How many it drives.
    pub(crate) local: u32,
}

impl Members {
    /// All ranks are local.
    pub(crate) const fn all(world: u32) -> Members {
        Members { world, first: 0, local: world }
    }

    /// One rank is local: `rank` of `world`.
    pub(crate) const fn one(rank: u32, world: u32) -> Members {
        Members { world, first: rank, local: 1 }
    }

    /// Whether all ranks are local.
    pub(crate) const fn all_local(self) -> bool {
        self.local == self.world
    }

    /// The local ranks.
    pub(crate) const fn ranks(self) -> Range<u32> {
        self.first..self.first + self.local
    }

    /// Which of the local ranks `rank` is, if it is one.
    pub(crate) fn index(self, rank: u32) -> Option<usize> {
        self.ranks().contains(&rank).then(|| (rank - self.first) as usize)
    }
}
