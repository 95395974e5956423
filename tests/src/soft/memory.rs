//! Memory: of devices, of the host, and physical memory that is mapped where addresses were reserved. All of it is the host's.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use super::state::{Answer, INVALID_VALUE, NOT_FOUND, OUT_OF_MEMORY, Soft};

/// Bytes that a device maps at least.
pub(super) const GRANULARITY: usize = 2 << 20;
/// More than any of these devices has.
pub(super) const DEVICE_BYTES: usize = 128 << 20;
/// Where an allocation starts.
const ALIGN_BYTES: usize = 256;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Location {
    kind: c_int,
    pub(super) id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Properties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    windows: *mut c_void,
    flags: u64,
}

/// `CUmemAccessDesc`.
#[repr(C)]
pub(super) struct Access {
    location: Location,
    flags: c_int,
}

/// Physical memory.
pub(super) struct Physical {
    descriptor: OwnedFd,
    bytes: usize,
    device: c_int,
}

enum Kind {
    Device,
    Host,
    Mapped { _physical: Arc<Physical>, may: HashSet<c_int> },
}

struct Allocation {
    bytes: usize,
    device: c_int,
    id: u64,
    kind: Kind,
}

/// All memory, by its first address.
#[derive(Default)]
pub(super) struct Memories {
    all: BTreeMap<u64, Allocation>,
    pub(super) reservations: BTreeMap<u64, usize>,
    pub(super) handles: HashMap<u64, Arc<Physical>>,
}

impl Memories {
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    fn at(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (&start, found) = self.all.range(..=address).next_back()?;
        (address < start + found.bytes as u64).then_some((start, found))
    }

    /// Start and length of what `address` is in.
    pub(super) fn range(&self, address: u64) -> Result<(u64, usize), c_int> {
        self.at(address).map(|(start, found)| (start, found.bytes)).ok_or(NOT_FOUND)
    }

    /// 3, where `device` may read and write.
    pub(super) fn access(&self, address: u64, device: c_int) -> Result<u64, c_int> {
        let (_, found) = self.at(address).ok_or(INVALID_VALUE)?;
        Ok(match &found.kind {
            Kind::Mapped { may, .. } if !may.contains(&device) => 0,
            Kind::Device | Kind::Host | Kind::Mapped { .. } => 3,
        })
    }

    /// An attribute of a pointer, by its number; each is an integer.
    pub(super) fn attribute(&self, attribute: c_int, address: u64) -> Result<u64, c_int> {
        let (_, found) = self.at(address).ok_or(INVALID_VALUE)?;
        let (host, mapped) = (matches!(found.kind, Kind::Host), matches!(found.kind, Kind::Mapped { .. }));
        Ok(match attribute {
            // Memory type, buffer id, device, whether `cuIpc` can have it, handle types, pool.
            2 => 1 + u64::from(!host),
            7 => found.id,
            9 => found.device as u64,
            10 => u64::from(!host && !mapped),
            14 => u64::from(mapped),
            17 => 0,
            _ => return Err(INVALID_VALUE),
        })
    }
}

fn layout(bytes: usize) -> Result<Layout, c_int> {
    match bytes {
        0 => Err(INVALID_VALUE),
        // Of all devices and the host together, so that what asks for too much is refused.
        _ if bytes > DEVICE_BYTES => Err(OUT_OF_MEMORY),
        _ => Layout::from_size_align(bytes, ALIGN_BYTES).map_err(|_| OUT_OF_MEMORY),
    }
}

/// Ordinary memory, of `device` or else of the host.
pub(super) fn allocate(soft: &mut Soft, bytes: usize, device: Option<c_int>) -> Result<u64, c_int> {
    // SAFETY: the layout has bytes.
    let start = unsafe { alloc(layout(bytes)?) };
    if start.is_null() {
        return Err(OUT_OF_MEMORY);
    }
    let kind = if device.is_some() { Kind::Device } else { Kind::Host };
    let id = soft.next();
    soft.memories.all.insert(start as u64, Allocation { bytes, device: device.unwrap_or(0), id, kind });
    Ok(start as u64)
}

pub(super) fn free(soft: &mut Soft, address: u64) -> Answer {
    let known = soft.memories.all.get(&address).ok_or(INVALID_VALUE)?;
    if matches!(known.kind, Kind::Mapped { .. }) {
        return Err(INVALID_VALUE);
    }
    let layout = layout(known.bytes)?;
    soft.memories.all.remove(&address);
    // SAFETY: allocated with this layout, and forgotten just now.
    unsafe { dealloc(address as *mut u8, layout) };
    Ok(())
}

pub(super) fn create(soft: &mut Soft, bytes: usize, properties: &Properties) -> Result<u64, c_int> {
    if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
        return Err(INVALID_VALUE);
    }
    if bytes > DEVICE_BYTES {
        return Err(OUT_OF_MEMORY);
    }
    let descriptor = rustix::fs::memfd_create("allfold-soft", MemfdFlags::CLOEXEC).map_err(|_| OUT_OF_MEMORY)?;
    rustix::fs::ftruncate(&descriptor, bytes as u64).map_err(|_| OUT_OF_MEMORY)?;
    let device = properties.location.id;
    let handle = soft.next();
    soft.memories.handles.insert(handle, Arc::new(Physical { descriptor, bytes, device }));
    Ok(handle)
}

/// A new descriptor of it.
pub(super) fn export(soft: &Soft, handle: u64) -> Result<OwnedFd, c_int> {
    let physical = soft.memories.handles.get(&handle).ok_or(INVALID_VALUE)?;
    rustix::io::fcntl_dupfd_cloexec(&physical.descriptor, 0).map_err(|_| OUT_OF_MEMORY)
}

pub(super) fn import(soft: &mut Soft, descriptor: BorrowedFd<'_>) -> Result<u64, c_int> {
    let bytes = rustix::fs::fstat(descriptor).map_err(|_| INVALID_VALUE)?.st_size as usize;
    if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
        return Err(INVALID_VALUE);
    }
    let descriptor = rustix::io::fcntl_dupfd_cloexec(descriptor, 0).map_err(|_| OUT_OF_MEMORY)?;
    debug_assert!(descriptor.as_raw_fd() >= 0);
    let handle = soft.next();
    soft.memories.handles.insert(handle, Arc::new(Physical { descriptor, bytes, device: 0 }));
    Ok(handle)
}

/// One more handle of what is mapped at `address`.
pub(super) fn retain(soft: &mut Soft, address: u64) -> Result<u64, c_int> {
    let physical = match soft.memories.at(address) {
        Some((_, Allocation { kind: Kind::Mapped { _physical, .. }, .. })) => Arc::clone(_physical),
        Some(_) | None => return Err(INVALID_VALUE),
    };
    let handle = soft.next();
    soft.memories.handles.insert(handle, physical);
    Ok(handle)
}

/// What it was made with.
pub(super) fn properties(soft: &Soft, handle: u64) -> Result<Properties, c_int> {
    let physical = soft.memories.handles.get(&handle).ok_or(INVALID_VALUE)?;
    let location = Location { kind: 1, id: physical.device };
    Ok(Properties { kind: 1, handle_types: 1, location, windows: std::ptr::null_mut(), flags: 0 })
}

pub(super) fn reserve(soft: &mut Soft, bytes: usize) -> Result<u64, c_int> {
    if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
        return Err(INVALID_VALUE);
    }
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    let start = start.map_err(|_| OUT_OF_MEMORY)? as u64;
    soft.memories.reservations.insert(start, bytes);
    Ok(start)
}

/// Whether all of it was reserved, and nothing is mapped there.
fn is_free(soft: &Soft, address: u64, bytes: usize) -> bool {
    let end = address + bytes as u64;
    let reserved = soft.memories.reservations.range(..=address).next_back();
    reserved.is_some_and(|(&start, &length)| end <= start + length as u64)
        && soft.memories.all.range(address..end).next().is_none()
        && soft.memories.at(address).is_none()
}

pub(super) fn map(soft: &mut Soft, address: u64, bytes: usize, handle: u64) -> Answer {
    let physical = Arc::clone(soft.memories.handles.get(&handle).ok_or(INVALID_VALUE)?);
    if !is_free(soft, address, bytes) || bytes != physical.bytes {
        return Err(INVALID_VALUE);
    }
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: in the place of addresses that were reserved, where nothing else is.
    let mapped = unsafe { rustix::mm::mmap(address as *mut c_void, bytes, rights, flags, &physical.descriptor, 0) };
    mapped.map_err(|_| OUT_OF_MEMORY)?;
    let (id, device) = (soft.next(), physical.device);
    let kind = Kind::Mapped { _physical: physical, may: HashSet::new() };
    soft.memories.all.insert(address, Allocation { bytes, device, id, kind });
    Ok(())
}

/// The pieces that are mapped from `address` on, to the byte.
fn pieces(soft: &Soft, address: u64, bytes: usize) -> Result<Vec<u64>, c_int> {
    let end = address + bytes as u64;
    let (mut next, mut found) = (address, Vec::new());
    while next < end {
        let piece = soft.memories.all.get(&next).filter(|piece| matches!(piece.kind, Kind::Mapped { .. }));
        found.push(next);
        next += piece.ok_or(INVALID_VALUE)?.bytes as u64;
    }
    if next == end { Ok(found) } else { Err(INVALID_VALUE) }
}

pub(super) fn unmap(soft: &mut Soft, address: u64, bytes: usize) -> Answer {
    for piece in pieces(soft, address, bytes)? {
        soft.memories.all.remove(&piece);
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: in the place of what was mapped there, which nobody has any more.
    let reserved = unsafe { rustix::mm::mmap_anonymous(address as *mut c_void, bytes, ProtFlags::empty(), flags) };
    reserved.map(drop).map_err(|_| OUT_OF_MEMORY)
}

pub(super) fn give_back(soft: &mut Soft, address: u64, bytes: usize) -> Answer {
    if soft.memories.reservations.get(&address) != Some(&bytes) || !is_free(soft, address, bytes) {
        return Err(INVALID_VALUE);
    }
    soft.memories.reservations.remove(&address);
    // SAFETY: reserved with this length, and nothing is mapped there.
    unsafe { rustix::mm::munmap(address as *mut c_void, bytes) }.map_err(|_| INVALID_VALUE)
}

pub(super) fn let_in(soft: &mut Soft, address: u64, bytes: usize, access: &Access) -> Answer {
    for piece in pieces(soft, address, bytes)? {
        if let Some(Allocation { kind: Kind::Mapped { may, .. }, .. }) = soft.memories.all.get_mut(&piece) {
            match access.flags {
                0 => may.remove(&access.location.id),
                _ => may.insert(access.location.id),
            };
        }
    }
    Ok(())
}
