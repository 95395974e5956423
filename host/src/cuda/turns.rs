//! On which streams the calls of all local ranks come.

use super::ranks::CudaRanks;
use super::stream::RawStream;
use crate::error::{Error, Result};

impl CudaRanks {
    /// Refuses streams, one a local rank, in which a rank would wait behind another.
    pub(crate) fn check_streams<'s>(&self, streams: impl Iterator<Item = RawStream<'s>> + Clone) -> Result<()> {
        check_streams(self.workspaces.members.first, self.ranks.iter().map(|rank| rank.device).zip(streams))
    }

    /// Refuses streams on which a rank's calls do not come. Changes nothing.
    pub(crate) fn check_turns<'s>(&self, streams: impl Iterator<Item = RawStream<'s>>) -> Result<()> {
        for (rank, (local, stream)) in (self.workspaces.members.first..).zip(self.ranks.iter().zip(streams)) {
            if !local.turn.allows(stream)? {
                return Err(Error::OtherStream { rank });
            }
        }
        Ok(())
    }

    /// Whether all of `streams`, one a local rank, are being captured: then what is launched there runs on no rank now.
    pub(crate) fn all_captured<'s>(&self, streams: impl Iterator<Item = RawStream<'s>>) -> bool {
        self.ranks.iter().zip(streams).all(|(local, stream)| local.context.is_capturing(stream).unwrap_or(false))
    }

    /// Calls come on `streams`, which [`CudaRanks::check_turns`] has let pass.
    pub(crate) fn take_turns<'s>(&mut self, streams: impl Iterator<Item = RawStream<'s>>) -> Result<()> {
        Ok(self.ranks.iter_mut().zip(streams).try_for_each(|(local, stream)| local.turn.take(stream))?)
    }

    /// Calls that came on `from` come on `to` from here on, after them: of all ranks or of none.
    pub(crate) fn change_streams(&mut self, from: &[RawStream<'_>], to: &[RawStream<'_>]) -> Result<()> {
        self.check_streams(to.iter().copied())?;
        for (rank, (local, &from)) in (self.workspaces.members.first..).zip(self.ranks.iter().zip(from)) {
            if !local.turn.may_leave(from) {
                return Err(Error::OtherStream { rank });
            }
        }
        for (local, (&from, &to)) in self.ranks.iter().zip(from.iter().zip(to)) {
            local.turn.order(from, to)?;
        }
        self.ranks.iter_mut().zip(to).for_each(|(local, &to)| local.turn.change(to));
        Ok(())
    }

    /// All calls so far are done.
    pub(crate) fn forget_streams(&mut self) {
        self.ranks.iter_mut().for_each(|rank| rank.turn.forget());
    }
}

/// Refuses streams in which a rank would wait behind another of its GPU. `ranks`: GPU and stream of each, from rank `first`.
fn check_streams<'s>(first: u32, ranks: impl Iterator<Item = (u32, RawStream<'s>)> + Clone) -> Result<()> {
    for (rank, (device, stream)) in (first..).zip(ranks.clone()) {
        for (other, (other_device, other_stream)) in (first..rank).zip(ranks.clone()) {
            let waits = stream == other_stream || waits_for_all(stream) || waits_for_all(other_stream);
            if device == other_device && waits {
                return Err(Error::SharedStream { ranks: [other, rank], device });
            }
        }
    }
    Ok(())
}

/// Whether `stream` is a default stream, which waits for other streams of its GPU or is the same for all threads.
fn waits_for_all(stream: RawStream<'_>) -> bool {
    // Null is the legacy default stream, 1 its name for whoever compiles with per-thread ones.
    (stream.as_ptr() as usize) < 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of ranks 3, 4 and on: GPU and stream of each. The two that share, if any do.
    fn shared(ranks: &[(u32, usize)]) -> Option<[u32; 2]> {
        // SAFETY: only its number is looked at, and no driver gets it.
        let of = |&(device, number): &(u32, usize)| (device, unsafe { RawStream::from_ptr(number as *mut _) });
        match check_streams(3, ranks.iter().map(of)) {
            Ok(()) => None,
            Err(Error::SharedStream { ranks, .. }) => Some(ranks),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn ranks_of_one_gpu_need_streams_of_their_own() {
        assert_eq!(shared(&[(0, 16), (1, 32), (0, 48), (1, 64)]), None);
        assert_eq!(shared(&[(0, 16), (1, 32), (0, 16)]), Some([3, 5]));
        assert_eq!(shared(&[(0, 16), (0, 32), (1, 48), (1, 48)]), Some([5, 6]));
    }

    #[test]
    fn a_default_stream_is_for_a_rank_that_is_alone_on_its_gpu() {
        for default in [0, 1] {
            assert_eq!(shared(&[(0, default), (1, default), (2, 16)]), None);
            assert_eq!(shared(&[(0, default), (1, 16), (0, 32)]), Some([3, 5]));
            assert_eq!(shared(&[(0, 16), (0, default)]), Some([3, 4]));
        }
    }
}
