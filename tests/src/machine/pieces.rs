//! Device memory mapped piece by piece, as caching allocators grow theirs: each piece has a file descriptor of its own.

use std::ptr::null_mut;

use anyhow::{Result, ensure};
use cust::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType,
    CUmemLocation, CUmemLocationType, CUresult, cuCtxSynchronize, cuMemAddressFree, cuMemAddressReserve, cuMemCreate,
    cuMemMap, cuMemRelease, cuMemSetAccess, cuMemUnmap, cuMemcpyDtoH_v2, cuMemsetD32_v2,
};

/// Bytes of a piece: what GPUs map at least.
pub(crate) const PIECE_BYTES: usize = 2 << 20;

/// The pieces, one behind another. Its start is off the first piece's start, so that an offset counts.
pub(crate) struct Pieces {
    address: u64,
    bytes: usize,
    mapped: usize,
    prop: CUmemAllocationProp,
}

/// How far the memory starts behind the first piece's start.
pub(crate) const OFFSET_BYTES: usize = PIECE_BYTES / 2;

/// Maps a new piece at `at`, where addresses are reserved.
fn map(at: u64, prop: &CUmemAllocationProp) -> Result<()> {
    let mut handle = 0;
    // SAFETY: it reads the properties and writes a handle.
    check(unsafe { cuMemCreate(&mut handle, PIECE_BYTES, prop, 0) }, "making a piece")?;
    // SAFETY: the addresses are reserved, and nothing is mapped there.
    let mapped = check(unsafe { cuMemMap(at, PIECE_BYTES, 0, handle, 0) }, "mapping a piece");
    // SAFETY: the handle was made once; the mapping outlives it.
    check(unsafe { cuMemRelease(handle) }, "giving a handle back")?;
    mapped
}

fn check(code: CUresult, what: &str) -> Result<()> {
    ensure!(code == CUresult::CUDA_SUCCESS, "{what}: {code:?}");
    Ok(())
}

impl Pieces {
    /// `bytes` bytes on GPU `ordinal`, whose context has been made before.
    pub(crate) fn new(ordinal: u32, bytes: usize) -> Result<Pieces> {
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
        let mut pieces = Pieces { address: 0, bytes, mapped: 0, prop };
        // SAFETY: it writes one address.
        check(unsafe { cuMemAddressReserve(&mut pieces.address, bytes, 0, 0, 0) }, "reserving addresses")?;
        while pieces.mapped < bytes {
            map(pieces.address + pieces.mapped as u64, &prop)?;
            pieces.mapped += PIECE_BYTES;
        }
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = CUmemAccessDesc { location: prop.location, flags };
        // SAFETY: all of it is mapped, and one description is passed.
        check(unsafe { cuMemSetAccess(pieces.address, bytes, &access, 1) }, "setting access")?;
        Ok(pieces)
    }

    /// Puts other memory in the place of the second piece, with nothing of what was there.
    pub(crate) fn replace_second(&self) -> Result<()> {
        let (at, prop) = (self.address + PIECE_BYTES as u64, self.prop);
        // SAFETY: the piece is mapped, and whoever calls this has nothing there that is in use.
        check(unsafe { cuMemUnmap(at, PIECE_BYTES) }, "unmapping a piece")?;
        map(at, &prop)?;
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = CUmemAccessDesc { location: prop.location, flags };
        // SAFETY: it is mapped, and one description is passed.
        check(unsafe { cuMemSetAccess(at, PIECE_BYTES, &access, 1) }, "setting access")
    }

    /// Sets `count` numbers from byte `offset` on to `value`, and waits until they are.
    pub(crate) fn fill(&self, offset: u64, count: usize, value: f32) -> Result<()> {
        // SAFETY: inside the memory, and whoever calls this has no work under way there.
        check(unsafe { cuMemsetD32_v2(self.address() + offset, value.to_bits(), count) }, "setting memory")?;
        // SAFETY: it takes nothing.
        check(unsafe { cuCtxSynchronize() }, "waiting")
    }

    /// The number at byte `offset`, after all work.
    pub(crate) fn get(&self, offset: u64) -> Result<f32> {
        let mut value = 0.0_f32;
        let to = std::ptr::from_mut(&mut value).cast();
        // SAFETY: it takes nothing.
        check(unsafe { cuCtxSynchronize() }, "waiting")?;
        // SAFETY: inside the memory, and it writes one number.
        check(unsafe { cuMemcpyDtoH_v2(to, self.address() + offset, size_of::<f32>()) }, "reading memory")?;
        Ok(value)
    }

    /// Where it starts.
    pub(crate) fn address(&self) -> u64 {
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
