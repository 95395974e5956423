//! On which streams calls come. Uses `raw.rs`.
//!
//! Two calls of a rank at a time would each wait for peers that wait for the other. So a call on another stream than
//! the last is refused, unless both streams have been put in order here. Nothing is done for a call on the same
//! stream; and no stream is used but those that the caller lends now, since the last call's may have been destroyed.

use super::ranks::CudaRanks;
use super::raw::{Context, DriverError, Event};
use super::stream::RawStream;
use crate::error::{Error, Result};

/// The stream of a rank's last call.
pub(super) struct Turn {
    context: Context,
    /// Its handle, as a number: it is not borrowed.
    last: Option<usize>,
    event: Event,
}

impl Turn {
    /// Of a rank on the GPU of `context`, with no call so far.
    pub(super) fn new(context: &Context) -> std::result::Result<Turn, DriverError> {
        Ok(Turn { context: context.clone(), last: None, event: Event::new(context, false)? })
    }

    /// Whether a call may come on `stream`. One that is being captured may be any: what it records does not run now.
    pub(super) fn allows(&self, stream: RawStream<'_>) -> std::result::Result<bool, DriverError> {
        match self.last {
            Some(last) if last != number(stream) => self.context.is_capturing(stream),
            Some(_) | None => Ok(true),
        }
    }

    /// A call comes on `stream`, which may be.
    pub(super) fn take(&mut self, stream: RawStream<'_>) -> std::result::Result<(), DriverError> {
        if self.last.is_none() && !self.context.is_capturing(stream)? {
            self.last = Some(number(stream));
        }
        Ok(())
    }

    /// Makes what comes into `to` wait for what is in `from`, if that is where calls come so far; from here on they
    /// come in `to`. False: they come elsewhere.
    pub(super) fn change(&mut self, from: RawStream<'_>, to: RawStream<'_>) -> std::result::Result<bool, DriverError> {
        if self.last.is_some_and(|last| last != number(from)) {
            return Ok(false);
        }
        self.event.record(from)?;
        self.event.hold_back(to)?;
        self.last = Some(number(to));
        Ok(true)
    }

    /// All calls so far are done: the next may come on any stream.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}

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

fn number(stream: RawStream<'_>) -> usize {
    stream.as_ptr() as usize
}
