//! Device memory. Addresses are numbers here, as they are in kernels.

use super::{Context, DriverError, driver_call, release};

/// Memory on one device, freed when dropped. Not initialised.
#[derive(Debug)]
pub struct DeviceMemory {
    context: Context,
    address: u64,
    bytes: usize,
}

impl DeviceMemory {
    /// Allocates `bytes` bytes, at least one, at an address that is a multiple of 256.
    ///
    /// # Errors
    ///
    /// `cuMemAlloc_v2` failed: code 2 when there is not enough, 1 for 0 bytes.
    pub fn alloc(context: &Context, bytes: usize) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let mut address = 0;
        // SAFETY: it writes one address.
        unsafe { driver_call!(cuMemAlloc_v2(&mut address, bytes)) }?;
        Ok(Self { context: context.clone(), address, bytes })
    }

    /// The first byte's address, the same on every device and in the whole process.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: the address came from `cuMemAlloc_v2` in this context, and is freed once.
        let free = || unsafe { driver_call!(cuMemFree_v2(self.address)) };
        release(self.context.enter().and_then(|_current| free()));
    }
}
