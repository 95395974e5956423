//! How many blocks that wait for each other each GPU may hold: shared out among the live communicators of this process.
//!
//! Blocks of a barrier must all be resident together, and CUDA promises no order in which blocks start. So the blocks of
//! all communicators of a GPU, over all ranks on it, never exceed its multiprocessors: then, wherever the hardware puts
//! them, each finds a multiprocessor that no other block of ours is on but early ones.
//!
//! For each block that it holds, a communicator may have two on the GPU: one that runs, and one of the next kernel, early. So
//! where several communicators may share a GPU, no block may take more than half of a multiprocessor: of twice as many halves
//! as there are blocks, one is always free. Who holds all blocks of a GPU shares it with nobody, and may have larger ones, which
//! are not launched early. Other processes are not known here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// Blocks held of each GPU, by ordinal.
static HELD: Mutex<BTreeMap<u32, u32>> = Mutex::new(BTreeMap::new());

/// Blocks of one GPU, given back when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    ordinal: u32,
    blocks: u32,
}

impl Hold {
    /// Blocks for `ranks` ranks on GPU `ordinal`: `wanted` for each of them if so many are left, else what is left; where
    /// nothing is wanted, half of what is left, so that the next communicator finds room as well, or a block a rank.
    pub(super) fn take(ordinal: u32, multiprocessors: u32, ranks: u32, wanted: Option<u32>) -> Result<Hold> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.entry(ordinal).or_default();
        let free = multiprocessors.saturating_sub(*held);
        let share = match wanted {
            Some(blocks) => blocks.saturating_mul(ranks).min(free),
            None => free.div_ceil(2).max(ranks).min(free),
        };
        let blocks = share / ranks * ranks;
        if blocks == 0 {
            return Err(Error::NotResident { ordinal, ranks, free });
        }
        *held += blocks;
        Ok(Hold { ordinal, blocks })
    }

    /// Blocks held.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether no other communicator can hold any of a GPU of so many multiprocessors.
    pub(super) fn is_alone(&self, multiprocessors: u32) -> bool {
        self.blocks == multiprocessors
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.get_mut(&self.ordinal) {
            *held -= self.blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communicators_share_a_gpu_and_give_back_what_they_held() {
        // An ordinal that no other test uses.
        let take = |ranks, wanted| Hold::take(1000, 132, ranks, wanted);
        let first = take(2, None).expect("all is free");
        assert_eq!(first.blocks(), 66);
        assert!(!first.is_alone(132));
        let second = take(4, None).expect("half is free");
        assert_eq!(second.blocks(), 32);
        let third = take(1, Some(1000)).expect("some is free");
        assert_eq!(third.blocks(), 34);
        let full = take(3, Some(1)).expect_err("nothing is free");
        assert!(matches!(full, Error::NotResident { ordinal: 1000, ranks: 3, free: 0 }), "{full}");
        drop(second);
        assert_eq!(take(8, Some(2)).expect("32 are free").blocks(), 16);
        // One is left of a half, which two ranks cannot share; of the whole they can.
        let rest = take(1, Some(29)).expect("32 are free");
        assert_eq!(take(2, None).expect("3 are free").blocks(), 2);
        drop((first, third, rest));
        let all = take(1, Some(1000)).expect("all is free again");
        assert!(all.blocks() == 132 && all.is_alone(132));
    }
}
