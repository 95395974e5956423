//! What the host tells CPU ranks, and what they have left word of: words of their workspaces.

use std::sync::atomic::Ordering;

use allfold_kernels::protocol::abi::{
    GONE_OFFSET_BYTES, MAX_RANKS, MISSING_OFFSET_BYTES, Rank, STOP_OFFSET_BYTES, WAITED_OFFSET_BYTES,
    call_offset_bytes, flag_offset_bytes,
};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::status::{LongestWait, Ranks, Stop};

use super::area::Area;
use crate::members::Members;
use crate::self_test::Finding;
use crate::stop::{Boards, Word};

/// The workspaces of all ranks of a communicator, local or not.
pub(super) struct Areas {
    pub(super) areas: Vec<Area>,
    pub(super) members: Members,
}

impl Areas {
    /// Those of the local ranks.
    pub(super) fn local(&self) -> impl Iterator<Item = &Area> {
        self.areas.iter().skip(self.members.first as usize).take(self.members.local as usize)
    }

    fn is_local(&self, rank: u32) -> bool {
        self.members.ranks().contains(&rank)
    }

    fn each(&self) -> impl Iterator<Item = (u32, &Area)> {
        (0..).zip(&self.areas)
    }
}

impl Boards for Areas {
    fn stop(&self, stop: Stop) {
        let mut word = stop.encode();
        for area in &self.areas {
            // The first word stays, and is passed on, so that all ranks say the same.
            let told = area.word(STOP_OFFSET_BYTES).compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed);
            word = told.err().unwrap_or(word);
        }
    }

    fn gone(&self, rank: u32) {
        self.local().for_each(|area| area.set_gone(rank));
    }

    fn leave(&self) {
        for (_, area) in self.each().filter(|&(rank, _)| !self.is_local(rank)) {
            self.members.ranks().for_each(|rank| area.set_gone(rank));
        }
    }
}

impl Area {
    fn set_gone(&self, rank: u32) {
        // Release: what the rank has done before it left counts.
        self.word(GONE_OFFSET_BYTES).fetch_or(1 << (8 * rank), Ordering::Release);
    }

    /// Whether its rank has been told to stop, or has stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.word(STOP_OFFSET_BYTES).load(Ordering::Relaxed) != 0
    }

    /// What its rank has left word of.
    pub(super) fn left(&self) -> Word {
        let word = |offset_bytes| self.word(offset_bytes).load(Ordering::Relaxed);
        Word {
            stop: Stop::decode(word(STOP_OFFSET_BYTES)),
            missing: Ranks(word(MISSING_OFFSET_BYTES) as u8),
            wait: LongestWait::decode(word(WAITED_OFFSET_BYTES)),
        }
    }

    /// Ranks whose flags of the start barrier of the call of `epoch` have come to this one.
    pub(super) fn started(&self, epoch: Epoch) -> Ranks {
        let flag = |rank| self.word(flag_offset_bytes(Finding::start_row(epoch), Rank(rank))).load(Ordering::Acquire);
        let come = (0..MAX_RANKS as u32).filter(|&rank| Epoch(flag(rank)).reached(epoch));
        Ranks(come.fold(0, |ranks, rank| ranks | Ranks::of(Rank(rank)).0))
    }

    /// What each rank has told this one of the call of `epoch`.
    pub(super) fn told(&self, epoch: Epoch) -> [[u64; 2]; MAX_RANKS] {
        std::array::from_fn(|rank| {
            let offset_bytes = call_offset_bytes(epoch.bank(), Rank(rank as u32));
            [0, 8].map(|word| self.word(offset_bytes + word).load(Ordering::Relaxed))
        })
    }
}
