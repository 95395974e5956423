//! On which stream one rank's calls come. Uses `raw.rs`.
//!
//! Two calls of a rank at a time would each wait for peers that wait for the other. So a call on another stream than
//! the last is refused, unless both streams have been put in order here. Nothing is done for a call on the same
//! stream; and no stream is used but those that the caller lends now, since the last call's may have been destroyed.

use super::raw::{Context, DriverError, Event};
use super::stream::RawStream;

/// The stream of a rank's last call.
pub(super) struct Turn {
    context: Context,
    /// Its handle, as a number: it is not borrowed.
    last: Option<usize>,
    event: Event,
}

impl Turn {
    /// Of a rank on the GPU of `context`, with no call so far.
    pub(super) fn new(context: &Context) -> Result<Turn, DriverError> {
        Ok(Turn { context: context.clone(), last: None, event: Event::new(context, false)? })
    }

    /// Whether a call may come on `stream`. One that is being captured may be any: what it records does not run now.
    pub(super) fn allows(&self, stream: RawStream<'_>) -> Result<bool, DriverError> {
        match self.last {
            Some(last) if last != number(stream) => self.context.is_capturing(stream),
            Some(_) | None => Ok(true),
        }
    }

    /// A call comes on `stream`, which may be.
    pub(super) fn take(&mut self, stream: RawStream<'_>) -> Result<(), DriverError> {
        if self.last.is_none() && !self.context.is_capturing(stream)? {
            self.last = Some(number(stream));
        }
        Ok(())
    }

    /// Whether `from` may be where calls come so far.
    pub(super) fn may_leave(&self, from: RawStream<'_>) -> bool {
        self.last.is_none_or(|last| last == number(from))
    }

    /// Makes what comes into `to` wait for what is in `from`.
    pub(super) fn order(&self, from: RawStream<'_>, to: RawStream<'_>) -> Result<(), DriverError> {
        self.event.record(from)?;
        self.event.hold_back(to)
    }

    /// From here on calls come in `to`, which waits for where they came so far.
    pub(super) fn change(&mut self, to: RawStream<'_>) {
        self.last = Some(number(to));
    }

    /// All calls so far are done: the next may come on any stream.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}

fn number(stream: RawStream<'_>) -> usize {
    stream.as_ptr() as usize
}
