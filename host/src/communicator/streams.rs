//! The streams on which the calls of one communicator come, and how they change.

use super::{Backend, Communicator};
use crate::buffers::RawBuffers;
use crate::cuda::RawStream;
use crate::error::{Error, Result};

impl Communicator {
    /// From here on calls come on the streams `to`, and wait there, on the GPU, for all that is in the streams `from`,
    /// on which they came so far: one of each for each local rank. A call on another stream than the last one is
    /// refused otherwise.
    ///
    /// Streams that are being captured need not be named: what they record runs when it is replayed. On the CPU there
    /// is nothing to do.
    ///
    /// # Errors
    /// [`Error::RankCount`]; [`Error::SharedStream`] where ranks of one GPU would share one of `to`;
    /// [`Error::OtherStream`] where the last call came on another stream than `from` says; [`Error::Driver`]. Calls of
    /// all ranks then come where they came before.
    pub fn change_streams(&mut self, from: &[RawStream<'_>], to: &[RawStream<'_>]) -> Result<()> {
        let local = self.members.local as usize;
        let Backend::Cuda(ranks) = &mut self.backend else { return Ok(()) };
        match [from.len(), to.len()].into_iter().find(|&count| count != local) {
            Some(got) => Err(Error::RankCount { local, got }),
            None => ranks.change_streams(from, to),
        }
    }

    /// Waits for all work on the GPUs that this process drives, in whatever stream. The next call may come on any
    /// stream.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn finish(&mut self) -> Result<()> {
        match &mut self.backend {
            Backend::Cpu(_) => Ok(()),
            Backend::Cuda(ranks) => {
                ranks.finish()?;
                ranks.forget_streams();
                Ok(())
            }
        }
    }

    /// Refuses buffers whose streams are not those on which calls come. Changes nothing: the call may yet be refused.
    pub(super) fn check_turns(&self, buffers: &[RawBuffers<'_>]) -> Result<()> {
        match &self.backend {
            Backend::Cpu(_) => Ok(()),
            Backend::Cuda(ranks) => ranks.check_turns(buffers.iter().filter_map(RawBuffers::stream)),
        }
    }

    /// Calls come on the streams of `buffers`, which [`Communicator::check_turns`] has let pass.
    pub(super) fn take_turns(&mut self, buffers: &[RawBuffers<'_>]) -> Result<()> {
        match &mut self.backend {
            Backend::Cpu(_) => Ok(()),
            Backend::Cuda(ranks) => ranks.take_turns(buffers.iter().filter_map(RawBuffers::stream)),
        }
    }
}
