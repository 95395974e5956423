//! On which streams the calls of all local ranks come.

use super::ranks::CudaRanks;
use super::stream::RawStream;
use crate::error::{Error, Result};

impl CudaRanks {
    /// Refuses streams on which a rank's calls do not come.
    pub(crate) fn take_turns<'s>(&mut self, streams: impl Iterator<Item = RawStream<'s>> + Clone) -> Result<()> {
        for (rank, (local, stream)) in (self.workspaces.members.first..).zip(self.ranks.iter().zip(streams.clone())) {
            if !local.turn.allows(stream)? {
                return Err(Error::OtherStream { rank });
            }
        }
        Ok(self.ranks.iter_mut().zip(streams).try_for_each(|(local, stream)| local.turn.take(stream))?)
    }

    /// Calls that came on `from` come on `to` from here on, after them.
    pub(crate) fn change_streams(&mut self, from: &[RawStream<'_>], to: &[RawStream<'_>]) -> Result<()> {
        let streams = from.iter().zip(to);
        for (rank, (local, (&from, &to))) in (self.workspaces.members.first..).zip(self.ranks.iter_mut().zip(streams)) {
            if !local.turn.change(from, to)? {
                return Err(Error::OtherStream { rank });
            }
        }
        Ok(())
    }

    /// All calls so far are done.
    pub(crate) fn forget_streams(&mut self) {
        self.ranks.iter_mut().for_each(|rank| rank.turn.forget());
    }
}
