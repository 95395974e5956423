//! Device memory that other processes map: physical memory with file descriptors, at addresses of each process's own.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::from_mut;

use cust::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType, CUresult,
};

use super::{Context, DriverError, driver_call, release};

const DESCRIPTOR: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// A mapping of physical memory for one device. Dropped, it is unmapped here; the memory lives as long as any process
/// has it mapped. Not initialised.
#[derive(Debug)]
pub(crate) struct ShareableMemory {
    context: Context,
    address: u64,
    /// A multiple of the device's granularity.
    bytes: usize,
    /// Of them, what is mapped: all, once it has been made.
    mapped_bytes: usize,
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
        let bytes = whole(bytes, &prop)?;
        let mut handle = 0;
        // SAFETY: it reads the properties and writes one handle.
        unsafe { driver_call!(cuMemCreate(&mut handle, bytes, &prop, 0)) }?;
        let physical = Physical(handle);
        let descriptor = physical.descriptor()?;
        Ok((Self::map(context, &[(physical, bytes)])?, descriptor))
    }

    /// Memory of other processes, mapped for `context`'s device one piece behind another: each by its descriptor, made
    /// by
    /// [`ShareableMemory::create`] or [`export`], and its length, of which a few bytes may be missing.
    ///
    /// # Errors
    ///
    /// As [`ShareableMemory::create`]; code 1 where a descriptor is of another kind or the memory is of another
    /// length, or the devices cannot reach each other.
    pub fn import(context: &Context, pieces: &[(&OwnedFd, usize)]) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let import = |&(descriptor, bytes): &(&OwnedFd, usize)| {
            let mut handle = 0;
            // By value, in the place of a pointer.
            let from = descriptor.as_raw_fd() as usize as *mut c_void;
            // SAFETY: it reads the descriptor, which stays the caller's, and writes one handle.
            unsafe { driver_call!(cuMemImportFromShareableHandle(&mut handle, from, DESCRIPTOR)) }?;
            let physical = Physical(handle);
            let bytes = whole(bytes, &physical.properties()?)?;
            Ok((physical, bytes))
        };
        Self::map(context, &pieces.iter().map(import).collect::<Result<Vec<_>, _>>()?)
    }

    fn map(context: &Context, pieces: &[(Physical, usize)]) -> Result<Self, DriverError> {
        let bytes = pieces.iter().try_fold(0_usize, |sum, (_, bytes)| sum.checked_add(*bytes)).ok_or_else(too_much)?;
        let mut address = 0;
        // SAFETY: it writes one address.
        unsafe { driver_call!(cuMemAddressReserve(&mut address, bytes, 0, 0, 0)) }?;
        // Given back from here on, whatever fails.
        let mut memory = Self { context: context.clone(), address, bytes, mapped_bytes: 0 };
        for (physical, bytes) in pieces {
            let to = address + memory.mapped_bytes as u64;
            // SAFETY: the addresses were reserved just now.
            unsafe { driver_call!(cuMemMap(to, *bytes, 0, physical.0, 0)) }?;
            memory.mapped_bytes += bytes;
        }
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
        let (address, bytes, mapped_bytes) = (self.address, self.bytes, self.mapped_bytes);
        let unmap = || match mapped_bytes {
            0 => Ok(()),
            // SAFETY: mapped once at these addresses, and unmapped once.
            mapped => unsafe { driver_call!(cuMemUnmap(address, mapped)) },
        };
        // SAFETY: reserved once, given back once; nothing is mapped there any more.
        let free = || unsafe { driver_call!(cuMemAddressFree(address, bytes)) };
        release(self.context.enter().and_then(|_current| unmap().and_then(|()| free())));
    }
}

impl Context {
    /// Lets this context's kernels use mapped memory: the whole of one piece, at `address`, of `bytes` bytes.
    ///
    /// # Safety
    ///
    /// - It stays mapped while a kernel of this context uses it.
    ///
    /// # Errors
    ///
    /// `cuMemSetAccess` failed.
    pub(crate) unsafe fn enable_access_at(&self, address: u64, bytes: u64) -> Result<(), DriverError> {
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = CUmemAccessDesc { location: location(self), flags };
        let _current = self.enter()?;
        // SAFETY: one description is passed; what others may do with the memory stays as it is.
        unsafe { driver_call!(cuMemSetAccess(address, bytes as usize, &access, 1)) }
    }
}

/// The pieces of mapped memory from that at `address` to that at its end, `bytes` further: address, length and descriptor of each.
/// They were made for descriptors, by whomever.
///
/// # Errors
///
/// Code 1: one of them was not, or nothing is mapped there.
pub(crate) fn export(context: &Context, address: u64, bytes: u64) -> Result<Vec<(u64, u64, OwnedFd)>, DriverError> {
    let mut pieces = Vec::new();
    let mut next = address;
    // At least the piece of an empty one.
    while pieces.is_empty() || next < address.saturating_add(bytes) {
        let (start, bytes) = context.range(next)?;
        let _current = context.enter()?;
        let mut handle = 0;
        // SAFETY: it writes one handle.
        unsafe { driver_call!(cuMemRetainAllocationHandle(&mut handle, start as usize as *mut c_void)) }?;
        pieces.push((start, bytes, Physical(handle).descriptor()?));
        next = start + bytes;
    }
    Ok(pieces)
}

/// A handle of physical memory, which mappings outlive.
struct Physical(CUmemGenericAllocationHandle);

impl Physical {
    fn descriptor(&self) -> Result<OwnedFd, DriverError> {
        let mut descriptor: RawFd = -1;
        let to = from_mut(&mut descriptor).cast::<c_void>();
        // SAFETY: it writes one descriptor.
        unsafe { driver_call!(cuMemExportToShareableHandle(to, self.0, DESCRIPTOR, 0)) }?;
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    fn properties(&self) -> Result<CUmemAllocationProp, DriverError> {
        // SAFETY: zeros are properties like any other.
        let mut prop: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        // SAFETY: it writes the properties.
        unsafe { driver_call!(cuMemGetAllocationPropertiesFromHandle(&mut prop, self.0)) }?;
        Ok(prop)
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // SAFETY: made or imported once, and released once.
        release(unsafe { driver_call!(cuMemRelease(self.0)) });
    }
}

fn location(context: &Context) -> CUmemLocation {
    CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: context.device().0 }
}

/// `bytes`, rounded up to what the device maps.
fn whole(bytes: usize, prop: &CUmemAllocationProp) -> Result<usize, DriverError> {
    bytes.checked_next_multiple_of(granularity(prop)?).ok_or_else(too_much)
}

/// More bytes than there are addresses.
fn too_much() -> DriverError {
    DriverError {
        call: "cuMemAddressReserve",
        code: CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32,
        text: "more bytes than there are addresses".into(),
    }
}

fn granularity(prop: &CUmemAllocationProp) -> Result<usize, DriverError> {
    let mut bytes = 0;
    let least = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: it reads the properties and writes one number.
    unsafe { driver_call!(cuMemGetAllocationGranularity(&mut bytes, prop, least)) }?;
    Ok(bytes)
}
