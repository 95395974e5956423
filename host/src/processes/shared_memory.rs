//! Memory that several processes map: a `memfd` that cannot shrink, mapped as long as a value lives.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};

/// Its name in a process's list of mappings.
const NAME: &str = "allfold";

/// What the memory may not become: a shorter one would take pages away from under peers.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A mapping of memory that other processes map too. Dropped, it is unmapped here and nowhere else.
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is memory and nothing else.
unsafe impl Send for SharedMemory {}
// SAFETY: what is shared gives its place and its length.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory of zeros, and the descriptor by which others map it. All of it is there: no use of it finds that there is
    /// none left.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub(crate) fn create(bytes: usize) -> Result<(SharedMemory, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = match rustix::fs::memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
            // Linux before 6.3 does not know that memory may be for data alone.
            Err(Errno::INVAL) => rustix::fs::memfd_create(NAME, flags),
            made => made,
        };
        let descriptor = descriptor.map_err(failed("making memory for several processes"))?;
        let sized = check_length(bytes as u64)
            .and_then(|()| rustix::fs::ftruncate(&descriptor, bytes as u64))
            .and_then(|()| {
                uninterrupted(|| rustix::fs::fallocate(&descriptor, FallocateFlags::empty(), 0, bytes as u64))
            })
            .and_then(|()| rustix::fs::fcntl_add_seals(&descriptor, SEALS));
        sized.map_err(failed("allocating memory for several processes"))?;
        Ok((SharedMemory::map(&descriptor, bytes)?, descriptor))
    }

    /// The memory of `descriptor`, which another process made by [`SharedMemory::create`], of as many bytes.
    ///
    /// # Errors
    /// [`Error::Host`].
    pub(crate) fn open(descriptor: &OwnedFd, bytes: usize) -> Result<SharedMemory> {
        let seals = rustix::fs::fcntl_get_seals(descriptor);
        let length = rustix::fs::fstat(descriptor).map(|stat| stat.st_size);
        let sealed = seals.is_ok_and(|seals| seals.contains(SEALS));
        if !sealed || !length.is_ok_and(|length| length == bytes as i64) {
            return Err(failed("taking a peer's memory, which has another length or could shrink")(Errno::INVAL));
        }
        SharedMemory::map(descriptor, bytes)
    }

    fn map(descriptor: &OwnedFd, bytes: usize) -> Result<SharedMemory> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let mapped =
            unsafe { rustix::mm::mmap(null_mut(), bytes, protection, MapFlags::SHARED, descriptor.as_fd(), 0) };
        let start = mapped.map_err(failed("mapping shared memory"))?;
        match NonNull::new(start.cast()) {
            Some(start) => Ok(SharedMemory { start, bytes }),
            None => Err(failed("mapping shared memory")(Errno::NOMEM)),
        }
    }

    /// Where it starts in this process, at a page's start.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and whoever uses it borrows from this value or lives shorter.
        if let Err(error) = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) } {
            tracing::warn!(%error, "memory that was shared is lost");
        }
    }
}

/// Refuses what this process may not make a file of (`ulimit -f`): a signal would end it.
fn check_length(bytes: u64) -> rustix::io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(most_bytes) if most_bytes < bytes => Err(Errno::FBIG),
        Some(_) | None => Ok(()),
    }
}

fn failed(what: &'static str) -> impl Fn(Errno) -> Error {
    move |error| Error::Host { what, source: error.into() }
}

/// `call` until no signal comes between.
fn uninterrupted<T>(call: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b70_memory_is_the_same_through_both_mappings_and_outlives_the_first() {
        let (first, descriptor) = SharedMemory::create(8192).expect("two pages");
        let second = SharedMemory::open(&descriptor, 8192).expect("it is what was made");
        drop(descriptor);
        // SAFETY: inside both mappings, which nobody else uses.
        unsafe {
            first.start().as_ptr().add(8191).write(7);
            assert_eq!(second.start().as_ptr().add(8191).read(), 7);
            drop(first);
            assert_eq!(second.start().as_ptr().add(8191).read(), 7);
            assert_eq!(second.start().as_ptr().read(), 0);
        }
    }

    #[test]
    fn memory_of_another_length_or_that_could_shrink_is_refused() {
        let (_, descriptor) = SharedMemory::create(8192).expect("two pages");
        assert!(SharedMemory::open(&descriptor, 4096).is_err());
        assert!(rustix::fs::ftruncate(&descriptor, 0).is_err(), "it is sealed");
        let open = rustix::fs::memfd_create("open", MemfdFlags::CLOEXEC).expect("a descriptor");
        rustix::fs::ftruncate(&open, 8192).expect("it is not sealed");
        assert!(SharedMemory::open(&open, 8192).is_err());
        let (none, _) = std::io::pipe().expect("a pipe");
        assert!(SharedMemory::open(&none.into(), 8192).is_err());
    }
}
