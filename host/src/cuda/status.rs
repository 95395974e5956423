//! The words that kernels and host leave for each other in a rank's workspace.

use allfold_kernels::protocol::abi::{FIRST_WRONG_OFFSET_BYTES, GAVE_UP_OFFSET_BYTES, WRONG_OFFSET_BYTES};
use allfold_kernels::protocol::status::ABANDONED;

use super::rank::Rank;
use super::ranks::CudaRanks;
use crate::error::Result;

impl CudaRanks {
    /// Ends every wait of calls that were launched on some ranks only.
    pub(crate) fn abandon(&self) {
        for rank in &self.ranks {
            let address = rank.workspace.address() + GAVE_UP_OFFSET_BYTES as u64;
            // SAFETY: a word of the rank's workspace, which kernels read as a whole. The copy waits for no stream of theirs.
            if let Err(error) = unsafe { rank.context.copy_to_device(address, &ABANDONED.to_ne_bytes()) } {
                tracing::warn!(%error, "a call that was launched on some ranks only could not be abandoned");
            }
        }
    }

    /// The status word of each rank.
    pub(crate) fn gave_up(&self) -> Result<Vec<u64>> {
        self.words(GAVE_UP_OFFSET_BYTES)
    }

    /// Wrong elements that each rank has counted.
    pub(crate) fn wrong(&self) -> Result<Vec<u64>> {
        self.words(WRONG_OFFSET_BYTES)
    }

    /// The two words of each rank about its first wrong element.
    pub(crate) fn first_wrong(&self) -> Result<Vec<[u64; 2]>> {
        let (first, call) = (self.words(FIRST_WRONG_OFFSET_BYTES)?, self.words(FIRST_WRONG_OFFSET_BYTES + 8)?);
        Ok(first.into_iter().zip(call).map(|(first, call)| [first, call]).collect())
    }

    fn words(&self, offset_bytes: usize) -> Result<Vec<u64>> {
        let word = |rank: &Rank| {
            let mut bytes = [0; 8];
            // SAFETY: a word of the rank's workspace; a kernel that writes it at this moment writes it as a whole.
            unsafe { rank.context.copy_to_host(&mut bytes, rank.workspace.address() + offset_bytes as u64) }?;
            Ok(u64::from_ne_bytes(bytes))
        };
        self.ranks.iter().map(word).collect()
    }
}
