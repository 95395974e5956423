//! Devices: how many, and what each is. Needs no context.

use std::ffi::{CStr, c_char, c_int};

use cust::sys::{CUdevice, CUdevice_P2PAttribute, CUdevice_attribute, CUuuid};

use super::{DriverError, driver_call};

/// A device that the driver lists. To hold one proves that the driver is initialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceHandle(pub(super) CUdevice);

impl DeviceHandle {
    /// How many devices the driver lists, after `CUDA_VISIBLE_DEVICES`.
    ///
    /// # Errors
    ///
    /// `cuInit` or `cuDeviceGetCount` failed; code 100 says that there is no driver, or no device.
    pub fn count() -> Result<u32, DriverError> {
        init()?;
        let mut count = 0;
        // SAFETY: it writes one integer.
        unsafe { driver_call!(cuDeviceGetCount(&mut count)) }?;
        Ok(count.unsigned_abs())
    }

    /// The device with this ordinal.
    ///
    /// # Errors
    ///
    /// `cuInit` or `cuDeviceGet` failed; code 101 says that the ordinal is out of range.
    pub fn get(ordinal: u32) -> Result<Self, DriverError> {
        init()?;
        let mut device = 0;
        // SAFETY: it writes one integer. An ordinal too large for the type becomes one that the driver refuses.
        unsafe { driver_call!(cuDeviceGet(&mut device, c_int::try_from(ordinal).unwrap_or(-1))) }?;
        Ok(Self(device))
    }

    /// The product's name.
    ///
    /// # Errors
    ///
    /// `cuDeviceGetName` failed.
    pub fn name(self) -> Result<String, DriverError> {
        // SAFETY: it writes at most this many bytes, the last of them zero.
        text(|text, bytes| unsafe { driver_call!(cuDeviceGetName(text, bytes, self.0)) })
    }

    /// The PCI address, as `domain:bus:device.function`.
    ///
    /// # Errors
    ///
    /// `cuDeviceGetPCIBusId` failed.
    pub fn pci(self) -> Result<String, DriverError> {
        // SAFETY: it writes at most this many bytes, the last of them zero.
        text(|text, bytes| unsafe { driver_call!(cuDeviceGetPCIBusId(text, bytes, self.0)) })
    }

    /// The sixteen bytes that name this device, or this slice of one, on every host and in every process.
    ///
    /// # Errors
    ///
    /// `cuDeviceGetUuid_v2` failed.
    pub fn uuid(self) -> Result<[u8; 16], DriverError> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: it writes one structure.
        unsafe { driver_call!(cuDeviceGetUuid_v2(&mut uuid, self.0)) }?;
        Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
    }

    /// Memory of the device, in bytes.
    ///
    /// # Errors
    ///
    /// `cuDeviceTotalMem_v2` failed.
    pub fn memory_bytes(self) -> Result<u64, DriverError> {
        let mut bytes = 0;
        // SAFETY: it writes one integer.
        unsafe { driver_call!(cuDeviceTotalMem_v2(&mut bytes, self.0)) }?;
        Ok(bytes as u64)
    }

    /// Compute capability, as (major, minor).
    ///
    /// # Errors
    ///
    /// `cuDeviceGetAttribute` failed.
    pub fn compute_capability(self) -> Result<(u32, u32), DriverError> {
        Ok((
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }

    /// How many multiprocessors the device has.
    ///
    /// # Errors
    ///
    /// `cuDeviceGetAttribute` failed.
    pub fn multiprocessors(self) -> Result<u32, DriverError> {
        self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    /// Whether this device's kernels can be given access to the other's memory.
    ///
    /// # Errors
    ///
    /// `cuDeviceCanAccessPeer` failed.
    pub fn can_access(self, peer: Self) -> Result<bool, DriverError> {
        let mut can = 0;
        // SAFETY: it writes one integer.
        unsafe { driver_call!(cuDeviceCanAccessPeer(&mut can, self.0, peer.0)) }?;
        Ok(can != 0)
    }

    /// Whether atomic operations on the other device's memory are done by the link itself.
    ///
    /// # Errors
    ///
    /// `cuDeviceGetP2PAttribute` failed; code 101 if both are the same device.
    pub fn native_atomics(self, peer: Self) -> Result<bool, DriverError> {
        Ok(self.link(peer, CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)? != 0)
    }

    /// The driver's rank of the link to the other device: 0 is the fastest kind.
    ///
    /// # Errors
    ///
    /// `cuDeviceGetP2PAttribute` failed; code 101 if both are the same device.
    pub fn performance_rank(self, peer: Self) -> Result<i32, DriverError> {
        self.link(peer, CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
    }

    fn attribute(self, attribute: CUdevice_attribute) -> Result<u32, DriverError> {
        let mut value = 0;
        // SAFETY: it writes one integer.
        unsafe { driver_call!(cuDeviceGetAttribute(&mut value, attribute, self.0)) }?;
        Ok(value.unsigned_abs())
    }

    fn link(self, peer: Self, attribute: CUdevice_P2PAttribute) -> Result<c_int, DriverError> {
        let mut value = 0;
        // SAFETY: it writes one integer.
        unsafe { driver_call!(cuDeviceGetP2PAttribute(&mut value, attribute, self.0, peer.0)) }?;
        Ok(value)
    }
}

/// Initialises the driver; the first call does the work.
fn init() -> Result<(), DriverError> {
    // SAFETY: 0 is the only value that its flags may have.
    unsafe { driver_call!(cuInit(0)) }
}

/// What `write` leaves in a buffer, up to the first zero.
fn text(write: impl Fn(*mut c_char, c_int) -> Result<(), DriverError>) -> Result<String, DriverError> {
    const BYTES: c_int = 256;
    let mut buffer = [0_u8; BYTES as usize];
    write(buffer.as_mut_ptr().cast(), BYTES)?;
    Ok(CStr::from_bytes_until_nul(&buffer).unwrap_or_default().to_string_lossy().into_owned())
}
