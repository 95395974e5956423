//! Memory of the host that kernels of all devices see while they run.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Context, DriverError, driver_call, release};

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`: for all contexts, and where their kernels reach it.
const FOR_ALL_KERNELS: u32 = 1 | 2;

/// A few 64-bit words, 0 at first, freed when dropped: no kernel may use them then.
#[derive(Debug)]
pub(crate) struct HostWords {
    context: Context,
    start: NonNull<AtomicU64>,
    count: usize,
    address: u64,
}

// SAFETY: words that are only ever accessed atomically; the driver's calls on them may come from any thread.
unsafe impl Send for HostWords {}
// SAFETY: as above.
unsafe impl Sync for HostWords {}

impl HostWords {
    /// Allocates `count` words, at least one.
    ///
    /// # Errors
    ///
    /// `cuMemHostAlloc` or `cuMemHostGetDevicePointer_v2` failed.
    pub(crate) fn alloc(context: &Context, count: usize) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let mut start: *mut c_void = std::ptr::null_mut();
        // SAFETY: it writes one pointer.
        unsafe { driver_call!(cuMemHostAlloc(&mut start, count * size_of::<u64>(), FOR_ALL_KERNELS)) }?;
        // `CUDA_ERROR_OUT_OF_MEMORY`; it does not happen.
        let words = NonNull::new(start.cast()).ok_or_else(|| DriverError::new("cuMemHostAlloc", 2))?;
        // From here on dropped with all that fails.
        let mut words = Self { context: context.clone(), start: words, count, address: 0 };
        for word in words.words() {
            word.store(0, Ordering::Relaxed);
        }
        let mut address = 0;
        // SAFETY: it writes one address; `start` came from `cuMemHostAlloc`.
        unsafe { driver_call!(cuMemHostGetDevicePointer_v2(&mut address, start, 0)) }?;
        words.address = address;
        Ok(words)
    }

    /// The words, for this process.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many aligned words of pinned memory, never accessed but atomically, for as long as this lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// Where kernels find them.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for HostWords {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `cuMemHostAlloc`, and is freed once.
        let free = || unsafe { driver_call!(cuMemFreeHost(self.start.as_ptr().cast())) };
        release(self.context.enter().and_then(|_current| free()));
    }
}
