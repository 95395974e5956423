//! Device memory mapped piece by piece, as caching allocators grow theirs: each piece has a file descriptor of its own.

use std::ptr::null_mut;

use anyhow::{Result, ensure};
use cust::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType,
    CUmemLocation, CUmemLocationType, CUresult, cuMemAddressFree, cuMemAddressReserve, cuMemCreate, cuMemMap,
    cuMemRelease, cuMemSetAccess, cuMemUnmap,
};

/// Bytes of a piece: what GPUs map at least.
const PIECE_BYTES: usize = 2 << 20;

/// The pieces, one behind another. Its start is off the first piece's start, so that an offset counts.
pub(super) struct Pieces {
    address: u64,
    bytes: usize,
    mapped: usize,
}

/// How far the memory starts behind the first piece's start.
const OFFSET_BYTES: usize = PIECE_BYTES / 2;

fn check(code: CUresult, what: &str) -> Result<()> {
    ensure!(code == CUresult::CUDA_SUCCESS, "{what}: {code:?}");
    Ok(())
}

impl Pieces {
    /// `bytes` bytes on GPU `ordinal`, whose context has been made before.
    pub(super) fn new(ordinal: u32, bytes: usize) -> Result<Pieces> {
        let bytes = (OFFSET_BYTES + bytes).next_multiple_of(PIECE_BYTES);
        let location =
            CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: i32::try_from(ordinal)? };
        let prop = CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            location,
            win32HandleMetaData: null_mut(),
            allocFlags: Default::default(),
        };
        let mut pieces = Pieces { address: 0, bytes, mapped: 0 };
        // SAFETY: it writes one address.
        check(unsafe { cuMemAddressReserve(&mut pieces.address, bytes, 0, 0, 0) }, "reserving addresses")?;
        while pieces.mapped < bytes {
            let mut handle = 0;
            // SAFETY: it reads the properties and writes a handle.
            check(unsafe { cuMemCreate(&mut handle, PIECE_BYTES, &prop, 0) }, "making a piece")?;
            let at = pieces.address + pieces.mapped as u64;
            // SAFETY: the addresses are reserved, and nothing is mapped there.
            let mapped = check(unsafe { cuMemMap(at, PIECE_BYTES, 0, handle, 0) }, "mapping a piece");
            // SAFETY: the handle was made once; the mapping outlives it.
            check(unsafe { cuMemRelease(handle) }, "giving a handle back")?;
            mapped?;
            pieces.mapped += PIECE_BYTES;
        }
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = CUmemAccessDesc { location, flags };
        // SAFETY: all of it is mapped, and one description is passed.
        check(unsafe { cuMemSetAccess(pieces.address, bytes, &access, 1) }, "setting access")?;
        Ok(pieces)
    }

    pub(super) fn address(&self) -> u64 {
        self.address + OFFSET_BYTES as u64
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if self.address == 0 {
            return;
        }
        if self.mapped > 0 {
            // SAFETY: mapped once, unmapped once; whoever used it has waited for its stream.
            let _ = unsafe { cuMemUnmap(self.address, self.mapped) };
        }
        // SAFETY: reserved once, given back once.
        let _ = unsafe { cuMemAddressFree(self.address, self.bytes) };
    }
}
