//! What the driver knows of an address.

use std::ptr::from_mut;

use cust::sys::{CUmemLocation, CUmemLocationType, CUmemoryPool, CUpointer_attribute, CUresult};

use super::{Context, DeviceHandle, DriverError, check, driver_call};
use crate::cuda::driver::symbols;

/// What an address of device memory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// A number that no other allocation of this process has or had.
    pub id: u64,
    /// Its GPU.
    pub device: DeviceHandle,
    /// What allocated it.
    pub kind: PointerKind,
}

/// By what means device memory was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PointerKind {
    /// `cuMemAlloc`, or another call whose memory has handles of `cuIpc`.
    Plain,
    /// A stream-ordered pool.
    Pool(Pool),
    /// `cuMemCreate` and `cuMemMap`; whether it can be exported as a file descriptor.
    Virtual {
        /// It was made for that.
        has_descriptor: bool,
    },
}

/// A memory pool of the driver's, or of somebody who must not destroy it while it is used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool(pub(super) CUmemoryPool);

/// The flag for descriptors among the handle types that an allocation may have.
const DESCRIPTOR: u64 = 1;

impl Context {
    /// What `address` belongs to; `None`: it is no address of device memory, or no more.
    ///
    /// # Errors
    ///
    /// `cuPointerGetAttribute` failed, for another reason.
    pub(crate) fn pointer(&self, address: u64) -> Result<Option<Pointer>, DriverError> {
        use CUpointer_attribute as A;
        let Some(id) = self.attribute::<u64>(A::CU_POINTER_ATTRIBUTE_BUFFER_ID, address)? else { return Ok(None) };
        // 2 is device memory, 1 the host's.
        if self.attribute::<u32>(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)? != Some(2) {
            return Ok(None);
        }
        let ordinal = self.attribute::<i32>(A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)?;
        let plain = self.attribute::<u32>(A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address)?;
        let pool = self.attribute::<usize>(A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address)?.unwrap_or(0);
        let types = self.attribute::<u64>(A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address)?.unwrap_or(0);
        let kind = match (plain.is_some_and(|word| word != 0), pool) {
            (true, _) => PointerKind::Plain,
            (_, 0) => PointerKind::Virtual { has_descriptor: types & DESCRIPTOR != 0 },
            (_, pool) => PointerKind::Pool(Pool(pool as CUmemoryPool)),
        };
        Ok(ordinal.map(|ordinal| Pointer { id, device: DeviceHandle(ordinal), kind }))
    }

    /// The number of the allocation at `address`, as in [`Pointer`]; `None` where there is none.
    ///
    /// # Errors
    ///
    /// `cuPointerGetAttribute` failed, for another reason.
    pub(crate) fn allocation_id(&self, address: u64) -> Result<Option<u64>, DriverError> {
        self.attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID, address)
    }

    /// Start and length of the allocation, or of the piece of mapped memory, that `address` is in.
    ///
    /// # Errors
    ///
    /// `cuMemGetAddressRange_v2` failed: code 500 where there is none.
    pub(crate) fn range(&self, address: u64) -> Result<(u64, u64), DriverError> {
        let _current = self.enter()?;
        let (mut start, mut bytes) = (0, 0);
        // SAFETY: it writes an address and a length.
        unsafe { driver_call!(cuMemGetAddressRange_v2(&mut start, &mut bytes, address)) }?;
        Ok((start, bytes as u64))
    }

    /// Whether this context's kernels may read and write the mapped memory at `address`.
    ///
    /// # Errors
    ///
    /// `cuMemGetAccess` failed.
    pub(crate) fn reaches(&self, address: u64) -> Result<bool, DriverError> {
        let _current = self.enter()?;
        let mut flags = 0;
        let location = CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.device().0 };
        // SAFETY: it reads the location and writes the flags.
        unsafe { driver_call!(cuMemGetAccess(&mut flags, &location, address)) }?;
        Ok(flags == 3)
    }

    /// `None`: there is nothing at `address`, or the driver does not know the attribute.
    fn attribute<T: Copy + Default>(
        &self,
        attribute: CUpointer_attribute,
        address: u64,
    ) -> Result<Option<T>, DriverError> {
        let _current = self.enter()?;
        let mut value = T::default();
        // SAFETY: `T` is an integer, of which any bits are a value, and has room for the attribute's: of a truth value one byte
        // or more are written, and the others stay zero.
        let code = unsafe { symbols::cuPointerGetAttribute(from_mut(&mut value).cast(), attribute, address) };
        if code == CUresult::CUDA_ERROR_INVALID_VALUE as i32 {
            return Ok(None);
        }
        check("cuPointerGetAttribute", code).map(|()| Some(value))
    }
}
