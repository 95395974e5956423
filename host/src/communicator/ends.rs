//! How a communicator comes to its end: whether it has, why, and by whose wish.

use super::{Backend, Communicator, of_backend};
use crate::error::Result;
use crate::stop;

impl Communicator {
    /// Whether all calls so far came to a good end: *a result counts only once this was `Ok` after it.* On GPUs it reads a few words of
    /// each rank and waits for that copy only: call it after the streams have been synchronised, not in a hot path. A CPU call does it by
    /// itself, but for registered memory that was freed.
    ///
    /// # Errors
    /// [`Error::Timeout`](crate::Error::Timeout): a rank waited longer than [`Options::timeout`](crate::Options::timeout).
    /// [`Error::PeerGone`](crate::Error::PeerGone): it waited for a rank whose process or thread has ended, or that was dropped.
    /// [`Error::Disagreement`](crate::Error::Disagreement): ranks made different calls. [`Error::Aborted`](crate::Error::Aborted).
    /// [`Error::UnknownBuffers`](crate::Error::UnknownBuffers). [`Error::Ended`](crate::Error::Ended): a launch failed on one of several ranks.
    /// After each of these the communicator is at its end on all ranks, which learn of it within milliseconds: results since then are not
    /// valid, see [`OnTimeout`](crate::OnTimeout), and every later call gets the same error. [`Communicator::rebuild`] makes a new one.
    ///
    /// [`Error::BufferFreed`](crate::Error::BufferFreed). [`Error::Driver`](crate::Error::Driver), also where a kernel has trapped.
    pub fn check(&self) -> Result<()> {
        self.check_words()?;
        of_backend!(&self.backend, ranks => ranks.reach().check())
    }

    /// Stops all calls of this communicator, on all ranks: see [`Aborter::abort`](stop::Aborter::abort).
    pub fn abort(&self) {
        self.aborter().abort();
    }

    /// What stops the calls of this communicator from any thread, also while one of them runs.
    pub fn aborter(&self) -> stop::Aborter {
        let boards = of_backend!(&self.backend, ranks => ranks.boards());
        stop::Aborter { boards, by: self.members.first }
    }

    /// What ranks have left word of.
    pub(super) fn check_words(&self) -> Result<()> {
        let words = of_backend!(&self.backend, ranks => ranks.left())?;
        let Some(stop) = words.iter().find_map(|word| word.stop) else { return Ok(()) };
        // By the word of the rank that stopped first, if that is here.
        let index = self.members.index(stop.by.0).unwrap_or(0);
        let told = |epoch| of_backend!(&self.backend, ranks => ranks.told(index, epoch));
        let word = stop::Word { stop: Some(stop), ..words[index] };
        stop::error(self.members.first + index as u32, word, self.options.timeout, told)
    }

    /// Refuses a call on a communicator that is known to have come to its end. Nothing is waited for.
    pub(super) fn check_goes_on(&self) -> Result<()> {
        if of_backend!(&self.backend, ranks => ranks.is_stopped()) { self.check_words() } else { Ok(()) }
    }
}
