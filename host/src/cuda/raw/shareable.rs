//! Device memory that other processes map: physical memory with a file descriptor, at an address of each process's own.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::from_mut;

use cust::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType,
};

use super::{Context, DriverError, driver_call, release};

const DESCRIPTOR: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// A mapping of physical memory for one device. Dropped, it is unmapped here; the memory lives as long as any process has it
/// mapped. Not initialised.
#[derive(Debug)]
pub struct ShareableMemory {
    context: Context,
    address: u64,
    /// A multiple of the device's granularity.
    bytes: usize,
}

impl ShareableMemory {
    /// New memory of `bytes` bytes or a few more on `context`'s device, and the descriptor by which others map it.
    ///
    /// # Errors
    ///
    /// A call for virtual memory failed: code 2 when there is not enough, 801 where the device has no such memory.
    pub fn create(context: &Context, bytes: usize) -> Result<(Self, OwnedFd), DriverError> {
        let _current = context.enter()?;
        let prop = CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: DESCRIPTOR,
            location: location(context),
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: Default::default(),
        };
        let bytes = bytes.next_multiple_of(granularity(&prop)?);
        let mut handle = 0;
        // SAFETY: it reads the properties and writes one handle.
        unsafe { driver_call!(cuMemCreate(&mut handle, bytes, &prop, 0)) }?;
        let physical = Physical(handle);
        let mut descriptor: RawFd = -1;
        let to = from_mut(&mut descriptor).cast::<c_void>();
        // SAFETY: it writes one descriptor, of the kind that the memory was made for.
        unsafe { driver_call!(cuMemExportToShareableHandle(to, physical.0, DESCRIPTOR, 0)) }?;
        // SAFETY: the descriptor is new, and nobody else's.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok((Self::map(context, &physical, bytes)?, descriptor))
    }

    /// The memory of `descriptor`, which another process made by [`ShareableMemory::create`] of as many bytes on the device of
    /// its own, mapped for `context`'s device.
    ///
    /// # Errors
    ///
    /// As [`ShareableMemory::create`]; code 1 where the descriptor is of another kind or the memory is of another length, or
    /// the devices cannot reach each other.
    pub fn import(context: &Context, descriptor: &OwnedFd, bytes: usize) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let mut handle = 0;
        // By value, in the place of a pointer.
        let from = descriptor.as_raw_fd() as usize as *mut c_void;
        // SAFETY: it reads the descriptor, which stays the caller's, and writes one handle.
        unsafe { driver_call!(cuMemImportFromShareableHandle(&mut handle, from, DESCRIPTOR)) }?;
        let physical = Physical(handle);
        // SAFETY: zeros are properties like any other.
        let mut prop: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        // SAFETY: it writes the properties.
        unsafe { driver_call!(cuMemGetAllocationPropertiesFromHandle(&mut prop, physical.0)) }?;
        Self::map(context, &physical, bytes.next_multiple_of(granularity(&prop)?))
    }

    fn map(context: &Context, physical: &Physical, bytes: usize) -> Result<Self, DriverError> {
        let mut address = 0;
        // SAFETY: it writes one address.
        unsafe { driver_call!(cuMemAddressReserve(&mut address, bytes, 0, 0, 0)) }?;
        // SAFETY: the addresses were reserved just now.
        if let Err(error) = unsafe { driver_call!(cuMemMap(address, bytes, 0, physical.0, 0)) } {
            // SAFETY: nothing is mapped there.
            release(unsafe { driver_call!(cuMemAddressFree(address, bytes)) });
            return Err(error);
        }
        // Unmapped from here on, whatever fails.
        let memory = Self { context: context.clone(), address, bytes };
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = CUmemAccessDesc { location: location(context), flags };
        // SAFETY: the mapping is this one, and one description is passed.
        unsafe { driver_call!(cuMemSetAccess(address, bytes, &access, 1)) }?;
        Ok(memory)
    }

    /// The first byte's address, in this process.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for ShareableMemory {
    fn drop(&mut self) {
        let (address, bytes) = (self.address, self.bytes);
        // SAFETY: mapped once at these addresses, and unmapped once.
        let unmap = || unsafe { driver_call!(cuMemUnmap(address, bytes)) };
        // SAFETY: reserved once, given back once; nothing is mapped there any more.
        let free = || unsafe { driver_call!(cuMemAddressFree(address, bytes)) };
        release(self.context.enter().and_then(|_current| unmap().and_then(|()| free())));
    }
}

/// A handle of physical memory, which mappings outlive.
struct Physical(CUmemGenericAllocationHandle);

impl Drop for Physical {
    fn drop(&mut self) {
        // SAFETY: made or imported once, and released once.
        release(unsafe { driver_call!(cuMemRelease(self.0)) });
    }
}

fn location(context: &Context) -> CUmemLocation {
    CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: context.device().0 }
}

fn granularity(prop: &CUmemAllocationProp) -> Result<usize, DriverError> {
    let mut bytes = 0;
    let least = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: it reads the properties and writes one number.
    unsafe { driver_call!(cuMemGetAllocationGranularity(&mut bytes, prop, least)) }?;
    Ok(bytes)
}
