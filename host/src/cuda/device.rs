//! The machine's GPUs. Uses `driver.rs` and `raw.rs`.

use super::{
    driver::{self, DriverMissing},
    raw::{Context, DeviceHandle, DriverError},
};

/// One GPU, or one slice of one, and what this crate asks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its number in this process: `CUDA_VISIBLE_DEVICES` counts.
    pub ordinal: u32,
    /// The product's name.
    pub name: String,
    /// The name that no other device has, in hexadecimal digits.
    pub uuid: String,
    /// Compute capability, as (major, minor).
    pub compute_capability: (u32, u32),
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
    /// Its PCI address, as `domain:bus:device.function`.
    pub pci: String,
    handle: DeviceHandle,
}

/// A device that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is no driver, so there are no devices.
    #[error(transparent)]
    DriverMissing(#[from] DriverMissing),
    /// There is no device with this number.
    #[error("there is no GPU {ordinal}: this process sees {count}")]
    NoSuchDevice {
        /// What was asked for.
        ordinal: u32,
        /// How many there are, from 0 on.
        count: u32,
    },
    /// The driver could not say.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// `cuInit`'s answer where there is a driver and no device.
const NO_DEVICE: i32 = 100;

impl Device {
    /// How many devices this process sees.
    ///
    /// # Errors
    ///
    /// [`DeviceError::DriverMissing`], or [`DeviceError::Driver`] when the driver does not start. That it has no device
    /// is the answer 0.
    pub fn count() -> Result<u32, DeviceError> {
        driver::open()?;
        match DeviceHandle::count() {
            Err(error) if error.code == NO_DEVICE => Ok(0),
            count => Ok(count?),
        }
    }

    /// All devices that this process sees, by ordinal.
    ///
    /// # Errors
    ///
    /// As [`Device::count`].
    pub fn all() -> Result<Vec<Self>, DeviceError> {
        (0..Self::count()?).map(Self::get).collect()
    }

    /// The device with this number.
    ///
    /// # Errors
    ///
    /// [`DeviceError::NoSuchDevice`], and as [`Device::count`].
    pub fn get(ordinal: u32) -> Result<Self, DeviceError> {
        let count = Self::count()?;
        if ordinal >= count {
            return Err(DeviceError::NoSuchDevice { ordinal, count });
        }
        let handle = DeviceHandle::get(ordinal)?;
        Ok(Self {
            ordinal,
            name: handle.name()?,
            uuid: hexadecimal(handle.uuid()?),
            compute_capability: handle.compute_capability()?,
            multiprocessors: handle.multiprocessors()?,
            memory_bytes: handle.memory_bytes()?,
            pci: handle.pci()?,
            handle,
        })
    }

    /// The device, as `raw` functions take it.
    pub fn handle(&self) -> DeviceHandle {
        self.handle
    }

    /// Its primary context.
    ///
    /// # Errors
    ///
    /// As [`Context::retain`].
    pub fn context(&self) -> Result<Context, DriverError> {
        Context::retain(self.handle)
    }
}

/// As `nvidia-smi` groups the digits: 8, 4, 4, 4 and 12.
fn hexadecimal(uuid: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvidia_smi_writes_it() {
        let uuid = [0x2a, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0xff];
        assert_eq!(hexadecimal(uuid), "2a000102-0304-0506-0708-090a0b0c0dff");
    }

    #[test]
    fn devices_are_listed_or_the_driver_is_named_as_missing() {
        match (driver::open(), Device::all()) {
            (Err(missing), Err(error)) => assert_eq!(error, DeviceError::DriverMissing(missing)),
            (Ok(_), Ok(devices)) => {
                let count = devices.len() as u32;
                assert!(devices.iter().zip(0..).all(|(device, ordinal)| device.ordinal == ordinal));
                assert_eq!(Device::get(count), Err(DeviceError::NoSuchDevice { ordinal: count, count }));
            }
            (driver, devices) => panic!("{driver:?} and {devices:?} do not agree"),
        }
    }
}
