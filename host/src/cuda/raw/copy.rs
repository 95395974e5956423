//! Setting and copying memory, by address.
//!
//! Functions without a stream wait until their work is done, but for no other stream: whoever needs what a stream
//! computes has to wait for that stream first. They can't be held up by kernels that run meanwhile.

use super::{Context, DriverError, driver_call};
use crate::cuda::stream::RawStream;

impl Context {
    /// Sets `bytes` bytes to `value`, and waits until they are.
    ///
    /// # Safety
    ///
    /// - `address..address + bytes` is memory that this device may write.
    /// - Nothing else uses it until the call returns.
    ///
    /// # Errors
    ///
    /// `cuMemsetD8Async` or `cuStreamSynchronize` failed.
    pub unsafe fn memset(&self, address: u64, value: u8, bytes: usize) -> Result<(), DriverError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller vouches for the range, until the work is waited for.
        self.on_host_stream(|stream| unsafe { driver_call!(cuMemsetD8Async(address, value, bytes, stream)) })
    }

    /// Copies `from` to `to`, and waits until it is there.
    ///
    /// # Safety
    ///
    /// - `to..to + from.len()` is memory that this device may write.
    /// - Nothing else uses it until the call returns.
    ///
    /// # Errors
    ///
    /// `cuMemcpyHtoDAsync_v2` or `cuStreamSynchronize` failed.
    pub unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> Result<(), DriverError> {
        let (start, bytes) = (from.as_ptr().cast(), from.len());
        // SAFETY: the caller vouches for `to`, and `from` is borrowed until the work is waited for.
        self.on_host_stream(|stream| unsafe { driver_call!(cuMemcpyHtoDAsync_v2(to, start, bytes, stream)) })
    }

    /// Copies `from` to `to`, and waits until it is there.
    ///
    /// # Safety
    ///
    /// - `from..from + to.len()` is memory that this device may read.
    /// - Nothing writes it until the call returns.
    ///
    /// # Errors
    ///
    /// `cuMemcpyDtoHAsync_v2` or `cuStreamSynchronize` failed.
    pub unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> Result<(), DriverError> {
        let (start, bytes) = (to.as_mut_ptr().cast(), to.len());
        // SAFETY: the caller vouches for `from`, and `to` is borrowed until the work is waited for.
        self.on_host_stream(|stream| unsafe { driver_call!(cuMemcpyDtoHAsync_v2(start, from, bytes, stream)) })
    }

    /// Copies `bytes` bytes from `from` in this context to `to` in `peer`, and waits until they are there. Needs no
    /// peer access: the driver goes through the host where there is none.
    ///
    /// # Safety
    ///
    /// - `to` is memory of `peer`'s device and `from` of this one.
    /// - Nothing else uses `to`, or writes `from`, until the call returns.
    ///
    /// # Errors
    ///
    /// `cuMemcpyPeerAsync` or `cuStreamSynchronize` failed.
    pub unsafe fn copy_to_peer(&self, peer: &Self, to: u64, from: u64, bytes: usize) -> Result<(), DriverError> {
        let (there, here) = (peer.as_ptr().cast(), self.as_ptr().cast());
        self.on_host_stream(|stream| {
            // SAFETY: the caller vouches for both ranges, until the work is waited for.
            unsafe { driver_call!(cuMemcpyPeerAsync(to, there, from, here, bytes, stream)) }
        })
    }

    /// Copies `bytes` bytes on the device, in the order of `stream`, which belongs to this context.
    ///
    /// # Safety
    ///
    /// - Both ranges are memory that this device may use, and do not overlap.
    /// - Nothing else uses `to`, or writes `from`, until the stream has done it.
    ///
    /// # Errors
    ///
    /// `cuMemcpyDtoDAsync_v2` failed.
    pub unsafe fn copy_async(
        &self,
        to: u64,
        from: u64,
        bytes: usize,
        stream: RawStream<'_>,
    ) -> Result<(), DriverError> {
        let _current = self.enter()?;
        // SAFETY: the caller vouches for both ranges.
        unsafe { driver_call!(cuMemcpyDtoDAsync_v2(to, from, bytes, stream.as_ptr().cast())) }
    }

    /// As [`Context::copy_to_peer`], in the order of `stream`, which belongs to this context.
    ///
    /// # Safety
    ///
    /// - As for [`Context::copy_to_peer`], until the stream has done it.
    ///
    /// # Errors
    ///
    /// `cuMemcpyPeerAsync` failed.
    pub unsafe fn copy_to_peer_async(
        &self,
        peer: &Self,
        to: u64,
        from: u64,
        bytes: usize,
        stream: RawStream<'_>,
    ) -> Result<(), DriverError> {
        let _current = self.enter()?;
        let (there, here) = (peer.as_ptr().cast(), self.as_ptr().cast());
        // SAFETY: the caller vouches for both ranges.
        unsafe { driver_call!(cuMemcpyPeerAsync(to, there, from, here, bytes, stream.as_ptr().cast())) }
    }
}
