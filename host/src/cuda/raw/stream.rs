//! Streams and events.

use std::ptr;

use cust::sys::{CUevent, CUevent_flags, CUstream, CUstream_flags};

use super::{Context, DriverError, driver_call, release};
use crate::cuda::stream::RawStream;

/// A stream that neither waits for the default stream nor is waited for by it; destroyed when dropped.
#[derive(Debug)]
pub struct Stream {
    context: Context,
    handle: CUstream,
}

// SAFETY: the driver allows a stream to be used by many threads at once.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream of `context`.
    ///
    /// # Errors
    ///
    /// `cuStreamCreate` failed.
    pub fn new(context: &Context) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let mut handle = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: it writes one handle.
        unsafe { driver_call!(cuStreamCreate(&mut handle, flags)) }?;
        Ok(Self { context: context.clone(), handle })
    }

    /// The stream, borrowed.
    pub fn raw(&self) -> RawStream<'_> {
        // SAFETY: the borrow keeps the stream.
        unsafe { RawStream::from_ptr(self.handle.cast()) }
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Waits until all that was put into the stream is done.
    ///
    /// # Errors
    ///
    /// `cuStreamSynchronize` failed: it reports what failed in the stream.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.context.synchronize(self.raw())
    }
}

impl<'s> From<&'s Stream> for RawStream<'s> {
    fn from(stream: &'s Stream) -> Self {
        stream.raw()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream came from `cuStreamCreate`; the driver finishes what is in it.
        let destroy = || unsafe { driver_call!(cuStreamDestroy_v2(self.handle)) };
        release(self.context.enter().and_then(|_current| destroy()));
    }
}

/// A point in the order of a stream; destroyed when dropped.
#[derive(Debug)]
pub struct Event {
    context: Context,
    handle: CUevent,
}

// SAFETY: the driver allows an event to be used by many threads at once.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// A new event of `context`; with `timing` it records the time, which makes it dearer.
    ///
    /// # Errors
    ///
    /// `cuEventCreate` failed.
    pub fn new(context: &Context, timing: bool) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let mut handle = ptr::null_mut();
        let flags = if timing { CUevent_flags::CU_EVENT_DEFAULT } else { CUevent_flags::CU_EVENT_DISABLE_TIMING };
        // SAFETY: it writes one handle.
        unsafe { driver_call!(cuEventCreate(&mut handle, flags as u32)) }?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Puts the event behind all that is in `stream`, which belongs to the same context.
    ///
    /// # Errors
    ///
    /// `cuEventRecord` failed.
    pub fn record(&self, stream: RawStream<'_>) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: event and stream live.
        unsafe { driver_call!(cuEventRecord(self.handle, stream.as_ptr().cast())) }
    }

    /// Makes what comes into `stream` from now on wait for the point at which the event was last recorded. Does not wait here.
    ///
    /// # Errors
    ///
    /// `cuStreamWaitEvent` failed.
    pub fn hold_back(&self, stream: RawStream<'_>) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: event and stream live, and 0 is the only value that its flags may have.
        unsafe { driver_call!(cuStreamWaitEvent(stream.as_ptr().cast(), self.handle, 0)) }
    }

    /// Waits until the event has been reached.
    ///
    /// # Errors
    ///
    /// `cuEventSynchronize` failed.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: the event lives.
        unsafe { driver_call!(cuEventSynchronize(self.handle)) }
    }

    /// Microseconds from `start` to this event, both with timing, both reached, both of one device.
    ///
    /// # Errors
    ///
    /// `cuEventElapsedTime` failed: code 600 if one is not reached yet, 400 if one has no timing.
    pub fn micros_since(&self, start: &Self) -> Result<f64, DriverError> {
        let _current = self.context.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events live, and it writes one number.
        unsafe { driver_call!(cuEventElapsedTime(&mut milliseconds, start.handle, self.handle)) }?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event came from `cuEventCreate`, and is destroyed once.
        let destroy = || unsafe { driver_call!(cuEventDestroy_v2(self.handle)) };
        release(self.context.enter().and_then(|_current| destroy()));
    }
}

impl Context {
    /// Waits until all that was put into `stream`, which belongs to this context, is done.
    ///
    /// # Errors
    ///
    /// `cuStreamSynchronize` failed: it reports what failed in the stream.
    pub fn synchronize(&self, stream: RawStream<'_>) -> Result<(), DriverError> {
        let _current = self.enter()?;
        // SAFETY: the stream lives, by its type.
        unsafe { driver_call!(cuStreamSynchronize(stream.as_ptr().cast())) }
    }
}
