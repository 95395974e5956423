//! Contexts. Only primary ones: those that the runtime API, cudarc and candle use, so that their buffers work here.

use std::{ffi::c_void, marker::PhantomData, ptr, sync::Arc};

use cust::sys::{
    CUcontext, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUmemLocationType, CUresult, CUstream, CUstream_flags,
};

use super::{DeviceHandle, DriverError, Pool, check, driver_call, release};
use crate::cuda::{driver::symbols, stream::RawStream};

/// A device's primary context, kept alive until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Context(Arc<Primary>);

#[derive(Debug)]
struct Primary {
    device: DeviceHandle,
    handle: CUcontext,
    /// For copies that the host waits for: it waits for no other stream, and none waits for it.
    host_stream: CUstream,
}

// SAFETY: the driver allows a context and a stream to be used by many threads at once.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        self.0.handle == other.0.handle
    }
}

impl Eq for Context {}

impl Context {
    /// The primary context of `device`; the first one in a process takes the driver some tenths of a second.
    ///
    /// # Errors
    ///
    /// `cuDevicePrimaryCtxRetain` or `cuStreamCreate` failed.
    pub fn retain(device: DeviceHandle) -> Result<Self, DriverError> {
        let mut handle = ptr::null_mut();
        // SAFETY: it writes one handle.
        unsafe { driver_call!(cuDevicePrimaryCtxRetain(&mut handle, device.0)) }?;
        // From here on, what is owned so far is released if a step fails.
        let mut primary = Primary { device, handle, host_stream: ptr::null_mut() };
        let current = enter(handle)?;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: it writes one handle.
        unsafe { driver_call!(cuStreamCreate(&mut primary.host_stream, flags)) }?;
        drop(current);
        Ok(Self(Arc::new(primary)))
    }

    /// The primary context to which `stream` belongs.
    ///
    /// # Errors
    ///
    /// `cuStreamGetCtx` failed, or the stream belongs to a context that is not its device's primary one (code 201).
    pub fn of_stream(stream: RawStream<'_>) -> Result<Self, DriverError> {
        let (mut handle, mut device) = (ptr::null_mut(), 0);
        // SAFETY: the stream lives, by its type, and it writes one handle.
        unsafe { driver_call!(cuStreamGetCtx(stream.as_ptr().cast(), &mut handle)) }?;
        let current = enter(handle)?;
        // SAFETY: it writes one integer.
        unsafe { driver_call!(cuCtxGetDevice(&mut device)) }?;
        drop(current);
        let context = Self::retain(DeviceHandle(device))?;
        if context.0.handle == handle {
            return Ok(context);
        }
        Err(DriverError {
            call: "cuStreamGetCtx",
            code: CUresult::CUDA_ERROR_INVALID_CONTEXT as i32,
            text: "the stream is not in its device's primary context".into(),
        })
    }

    /// The device.
    pub fn device(&self) -> DeviceHandle {
        self.0.device
    }

    /// The `CUcontext` handle.
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.handle.cast()
    }

    /// Makes this context the calling thread's until the guard is dropped.
    ///
    /// # Errors
    ///
    /// `cuCtxGetCurrent` or `cuCtxPushCurrent_v2` failed.
    pub fn enter(&self) -> Result<Current<'_>, DriverError> {
        enter(self.0.handle)
    }

    /// Lets this context's kernels use memory that was, or will be, allocated with `cuMemAlloc` in `peer`.
    /// It stays so; that it is so already, or that both are one, is a success.
    ///
    /// # Errors
    ///
    /// `cuCtxEnablePeerAccess` failed: code 217 without peer access, 711 with too many peers.
    pub fn enable_peer_access(&self, peer: &Self) -> Result<(), DriverError> {
        if self == peer {
            return Ok(());
        }
        let _current = self.enter()?;
        // SAFETY: both contexts live, and 0 is the only value that its flags may have.
        let code = unsafe { symbols::cuCtxEnablePeerAccess(peer.0.handle, 0) };
        if code == CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as i32 {
            return Ok(());
        }
        check("cuCtxEnablePeerAccess", code)
    }

    /// Lets this context's kernels use what is allocated from `peer`'s current memory pool (`cuMemAllocAsync`, as
    /// cudarc and candle do): peer access does not cover pools.
    ///
    /// # Errors
    ///
    /// `cuDeviceGetMemPool` or `cuMemPoolSetAccess` failed; code 801 from a device without pools.
    pub fn enable_pool_access(&self, peer: &Self) -> Result<(), DriverError> {
        if self == peer {
            return Ok(());
        }
        let mut pool = ptr::null_mut();
        // SAFETY: it writes one handle.
        unsafe { driver_call!(cuDeviceGetMemPool(&mut pool, peer.0.device.0)) }?;
        self.enable_access_to(Pool(pool))
    }

    /// Lets this context's kernels use what is allocated from `pool`, of whichever GPU.
    ///
    /// # Errors
    ///
    /// `cuMemPoolSetAccess` failed.
    pub(crate) fn enable_access_to(&self, pool: Pool) -> Result<(), DriverError> {
        let location = CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.0.device.0 };
        let access = CUmemAccessDesc { location, flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        // SAFETY: whoever has memory of the pool keeps the pool, and one description is passed.
        unsafe { driver_call!(cuMemPoolSetAccess(pool.0, &access, 1)) }
    }

    /// Waits until everything that was put into any stream of this context is done.
    ///
    /// # Errors
    ///
    /// `cuCtxSynchronize` failed: it reports what failed on the device.
    pub fn finish(&self) -> Result<(), DriverError> {
        let _current = self.enter()?;
        // SAFETY: it takes nothing and writes nothing.
        unsafe { driver_call!(cuCtxSynchronize()) }
    }

    /// Runs `work` on a stream of this context that waits for no other stream, and waits until it is done.
    pub(super) fn on_host_stream(
        &self,
        work: impl FnOnce(CUstream) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let _current = self.enter()?;
        work(self.0.host_stream)?;
        // SAFETY: the stream lives as long as the context.
        let wait = || unsafe { driver_call!(cuStreamSynchronize(self.0.host_stream)) };
        wait().inspect_err(|_| {
            // What the work uses may be given up next. A context that is lost has no work any more, and says so at once.
            release(wait());
        })
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        if !self.host_stream.is_null() {
            // SAFETY: the stream is this context's, and nothing else knows it.
            let destroy = || unsafe { driver_call!(cuStreamDestroy_v2(self.host_stream)) };
            release(enter(self.handle).and_then(|_current| destroy()));
        }
        // SAFETY: it was retained once, and is released once.
        release(unsafe { driver_call!(cuDevicePrimaryCtxRelease_v2(self.device.0)) });
    }
}

/// While it lives, a context is the calling thread's current one; then the one before it is again.
#[must_use = "the context is current only while this lives"]
#[derive(Debug)]
pub struct Current<'c> {
    /// The one before it, if it was another.
    before: Option<CUcontext>,
    /// Bound to the context, and to the thread.
    bound: PhantomData<(&'c Context, *const ())>,
}

/// Makes `handle` current, which costs one cheap call where it is already.
fn enter<'c>(handle: CUcontext) -> Result<Current<'c>, DriverError> {
    let mut now = ptr::null_mut();
    // SAFETY: it writes one handle.
    unsafe { driver_call!(cuCtxGetCurrent(&mut now)) }?;
    let before = (now != handle).then_some(now);
    if before.is_some() {
        // SAFETY: callers pass a context that lives.
        unsafe { driver_call!(cuCtxPushCurrent_v2(handle)) }?;
    }
    Ok(Current { before, bound: PhantomData })
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let mut popped = ptr::null_mut();
            // SAFETY: it writes one handle; what is popped is what `enter` pushed on this thread.
            let mut pop = || unsafe { driver_call!(cuCtxPopCurrent_v2(&mut popped)) };
            release(pop().inspect_err(|_| {
                // It is still there. The caller's calls are not to go to another GPU: once more, or else in its place.
                // SAFETY: it was the caller's current context, or none.
                release(pop().or_else(|_| unsafe { driver_call!(cuCtxSetCurrent(before)) }));
            }));
        }
    }
}
