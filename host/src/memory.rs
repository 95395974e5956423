//! Memory that ranks in other processes can map.

use std::fmt;

use crate::cpu::HostMemory;
use crate::cuda::Device;
use crate::cuda::raw::ShareableMemory;
use crate::element::Element;
use crate::error::Result;
use crate::reach::Span;

/// Memory that ranks in other processes can map once it is [registered](crate::Communicator::register); freed when
/// dropped.
pub struct Memory {
    bytes: usize,
    place: Place,
}

enum Place {
    Host(HostMemory),
    Gpu(ShareableMemory),
}

impl Memory {
    /// Host memory of zeros, for CPU ranks. It starts with a page.
    ///
    /// # Errors
    /// [`Error::Host`](crate::Error::Host).
    pub fn host(bytes: usize) -> Result<Memory> {
        Ok(Memory { bytes, place: Place::Host(HostMemory::new(bytes)?) })
    }

    /// Memory of GPU `ordinal`, not initialised, in the GPU's primary context. It takes up whole pages of 2 MiB.
    ///
    /// # Errors
    /// [`Error::DriverMissing`](crate::Error::DriverMissing), [`Error::NoSuchDevice`](crate::Error::NoSuchDevice),
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn gpu(ordinal: u32, bytes: usize) -> Result<Memory> {
        let context = Device::get(ordinal)?.context()?;
        let (memory, _) = ShareableMemory::create(&context, bytes.max(1))?;
        Ok(Memory { bytes, place: Place::Gpu(memory) })
    }

    /// Where it is.
    pub fn span(&self) -> Span {
        let address = match &self.place {
            Place::Host(memory) => memory.start() as u64,
            Place::Gpu(memory) => memory.address(),
        };
        Span { address, bytes: self.bytes as u64 }
    }

    /// Host memory as elements; `None` for a GPU's.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let Place::Host(memory) = &self.place else { return None };
        // SAFETY: a page's start, mapped with this length, of zeros or of what was written through the slice below; an
        // element has any bits. Peers write it in calls only, and whoever registers it promises what `register` asks.
        Some(unsafe { std::slice::from_raw_parts(memory.start().cast(), self.bytes / size_of::<T>()) })
    }

    /// Host memory as elements; `None` for a GPU's.
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        let Place::Host(memory) = &self.place else { return None };
        // SAFETY: as above, and borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(memory.start().cast(), self.bytes / size_of::<T>()) })
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.place {
            Place::Host(_) => "host",
            Place::Gpu(_) => "GPU",
        };
        f.debug_struct("Memory").field("place", &place).field("span", &self.span()).finish()
    }
}
