//! Memory of `cuMemAlloc` that other processes map by a handle of 64 bytes.

use cust::sys::{CUipcMem_flags, CUipcMemHandle};

use super::{Context, DriverError, driver_call, release};

/// Bytes of a handle.
pub(crate) const IPC_BYTES: usize = 64;

/// A mapping of another process's allocation. Dropped, it is unmapped here, unless it is mapped by another value too.
/// The other process must not free the memory before.
#[derive(Debug)]
pub(crate) struct IpcMemory {
    context: Context,
    address: u64,
}

const _: () = assert!(size_of::<CUipcMemHandle>() == IPC_BYTES);

impl Context {
    /// The handle by which other processes map the allocation at `address`.
    ///
    /// # Errors
    ///
    /// `cuIpcGetMemHandle` failed: code 1 for memory that has none.
    pub(crate) fn ipc_handle(&self, address: u64) -> Result<[u8; IPC_BYTES], DriverError> {
        let _current = self.enter()?;
        let mut handle = CUipcMemHandle { reserved: [0; IPC_BYTES] };
        // SAFETY: it writes one handle.
        unsafe { driver_call!(cuIpcGetMemHandle(&mut handle, address)) }?;
        Ok(handle.reserved.map(|byte| byte as u8))
    }
}

impl IpcMemory {
    /// The allocation of `handle`, which is another process's, mapped for `context`'s device.
    ///
    /// # Errors
    ///
    /// `cuIpcOpenMemHandle_v2` failed: code 101 where this process does not see the memory's GPU, 201 for a handle of
    /// its own, 217 without peer access.
    pub fn open(context: &Context, handle: &[u8; IPC_BYTES]) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let handle = CUipcMemHandle { reserved: handle.map(|byte| byte as _) };
        let flags = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut address = 0;
        // SAFETY: it reads the handle and writes one address.
        unsafe { driver_call!(cuIpcOpenMemHandle_v2(&mut address, handle, flags)) }?;
        Ok(Self { context: context.clone(), address })
    }

    /// The first byte's address, in this process.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for IpcMemory {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; the driver counts.
        let close = || unsafe { driver_call!(cuIpcCloseMemHandle(self.address)) };
        release(self.context.enter().and_then(|_current| close()));
    }
}
