//! The order of one rank's calls, on whatever streams they are made. Uses `raw.rs`.

use std::ffi::c_void;

use super::raw::{Context, DriverError, Event};
use super::stream::RawStream;

/// Whose turn it is: the stream of a rank's last call, behind which a call on another one waits, on the device.
pub(super) struct Turn {
    context: Context,
    /// The handle of that stream, as a number: it is not borrowed.
    last: Option<usize>,
    event: Event,
}

impl Turn {
    /// Nobody's yet, of a rank on the GPU of `context`.
    pub(super) fn new(context: &Context) -> Result<Turn, DriverError> {
        Ok(Turn { context: context.clone(), last: None, event: Event::new(context, false)? })
    }

    /// Makes what comes into `stream` wait for this rank's calls so far. On the stream of the last call there is nothing to do.
    ///
    /// A stream that is being captured takes no turn: what it records does not run now. Nor is one waited for.
    ///
    /// # Safety
    /// The stream of the last call lives, as [`crate::RankBuffers::device_raw`] says.
    pub(super) unsafe fn take(&mut self, stream: RawStream<'_>) -> Result<(), DriverError> {
        match self.last == Some(stream.as_ptr() as usize) {
            true => Ok(()),
            // SAFETY: the caller's promise.
            false => unsafe { self.change(stream) },
        }
    }

    /// # Safety
    /// As for [`Turn::take`].
    #[cold]
    unsafe fn change(&mut self, stream: RawStream<'_>) -> Result<(), DriverError> {
        if self.context.is_capturing(stream)? {
            return Ok(());
        }
        if let Some(last) = self.last {
            // SAFETY: it was the handle of a stream, which lives by the caller's promise.
            let last = unsafe { RawStream::from_ptr(last as *mut c_void) };
            if !self.context.is_capturing(last)? {
                self.event.record(last)?;
                self.event.hold_back(stream)?;
            }
        }
        self.last = Some(stream.as_ptr() as usize);
        Ok(())
    }
}
