//! A stream by its handle, whoever made it. Uses `cust`'s stream type only.

use std::{ffi::c_void, marker::PhantomData};

/// A CUDA stream, borrowed from its owner: `cust`, cudarc, candle, or this crate.
///
/// The lifetime is the owner's, so that a stream cannot be used after it was destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawStream<'s> {
    handle: *mut c_void,
    owner: PhantomData<&'s ()>,
}

// SAFETY: the driver allows one stream to be used by many threads at once.
unsafe impl Send for RawStream<'_> {}
// SAFETY: as above.
unsafe impl Sync for RawStream<'_> {}

impl RawStream<'_> {
    /// The stream with this `CUstream` (or `cudaStream_t`) handle.
    ///
    /// # Safety
    ///
    /// - `handle` is a stream that lives as long as the value returned, or null for the default stream.
    pub unsafe fn from_ptr(handle: *mut c_void) -> Self {
        Self { handle, owner: PhantomData }
    }

    /// The `CUstream` handle.
    pub fn as_ptr(self) -> *mut c_void {
        self.handle
    }
}

impl<'s> From<&'s cust::stream::Stream> for RawStream<'s> {
    fn from(stream: &'s cust::stream::Stream) -> Self {
        Self { handle: stream.as_inner().cast(), owner: PhantomData }
    }
}
