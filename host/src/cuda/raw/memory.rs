//! Device memory: allocate it, and ask whose an address is. Addresses are numbers here, as they are in kernels.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use cust::sys::{CUmemorytype, CUpointer_attribute};

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

/// What kind of memory an address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// The driver does not know it: ordinary host memory, or no memory at all.
    Unknown,
    /// Host memory that the driver allocated or registered.
    Pinned,
    /// A device's memory.
    Device,
    /// Managed memory, which moves between host and devices.
    Managed,
}

/// What the driver knows of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointerInfo {
    /// What kind of memory it is.
    pub kind: MemoryKind,
    /// Ordinal of the device that owns it; none for [`MemoryKind::Unknown`].
    pub ordinal: Option<u32>,
    /// The `CUcontext` that owns it; null for memory that belongs to none: from a pool, or mapped by hand.
    pub context: *mut c_void,
    /// First address of the allocation.
    pub base: u64,
    /// Size of the allocation in bytes, from `base` on.
    pub bytes: usize,
    /// Whether it comes from a memory pool (`cuMemAllocAsync`); see [`Context::enable_pool_access`].
    pub pooled: bool,
    /// Whether the device that was asked for may read and write it, as the driver sees it.
    pub accessible: bool,
}

impl Context {
    /// What the driver knows of `address`, with access as seen from this context's device.
    ///
    /// # Errors
    ///
    /// `cuPointerGetAttributes` failed; that it does not know the address is no failure.
    pub fn pointer_info(&self, address: u64) -> Result<PointerInfo, DriverError> {
        let _current = self.enter()?;
        let mut names = [
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
        ];
        // A word for each: none is larger, and the smaller ones fill the low bytes of a zero.
        let mut values = [0_u64; 8];
        let mut places = values.each_mut().map(|value| ptr::from_mut(value).cast::<c_void>());
        let count = names.len() as u32;
        // SAFETY: it reads as many names as it is told and writes a value of at most 8 bytes to each place.
        unsafe { driver_call!(cuPointerGetAttributes(count, names.as_mut_ptr(), places.as_mut_ptr(), address)) }?;
        let [kind, managed, ordinal, context, base, bytes, pool, access] = values;
        let kind = match kind {
            0 => MemoryKind::Unknown,
            _ if managed != 0 => MemoryKind::Managed,
            kind if kind == CUmemorytype::CU_MEMORYTYPE_HOST as u64 => MemoryKind::Pinned,
            _ => MemoryKind::Device,
        };
        Ok(PointerInfo {
            kind,
            // The driver writes a negative ordinal for what it does not know.
            ordinal: u32::try_from(ordinal as c_int).ok().filter(|_| kind != MemoryKind::Unknown),
            context: ptr::with_exposed_provenance_mut(context as usize),
            base,
            bytes: bytes as usize,
            pooled: pool != 0,
            // Read and write are two bits.
            accessible: access & 3 == 3,
        })
    }
}
