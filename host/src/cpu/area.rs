//! The memory of one rank's workspace: this process's own, or shared with others.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use allfold_kernels::protocol::abi::{AREA_ALIGN_BYTES, GONE_OFFSET_BYTES, MARKER, WorkspaceLayout, first_words};

use crate::error::{Error, Result};
use crate::processes::SharedMemory;

/// A workspace, for as long as this lives.
pub(super) enum Area {
    /// Of a rank whose peers are threads of this process.
    Own(Own),
    /// Of a rank whose peers are other processes.
    Shared(SharedMemory),
}

impl Area {
    /// A new workspace of this process alone, ready for the first call.
    pub(super) fn own(layout: &WorkspaceLayout, last_epoch: u64) -> Result<Area> {
        let area = Area::Own(Own::new(layout.total_bytes)?);
        area.clear(layout, last_epoch);
        Ok(area)
    }

    /// A new workspace that others can map by the descriptor, ready for the first call.
    pub(super) fn shared(layout: &WorkspaceLayout, last_epoch: u64) -> Result<(Area, OwnedFd)> {
        let (memory, descriptor) = SharedMemory::create(layout.total_bytes)?;
        let area = Area::Shared(memory);
        area.clear(layout, last_epoch);
        Ok((area, descriptor))
    }

    /// Another rank's workspace, by its descriptor.
    pub(super) fn of_peer(descriptor: &OwnedFd, layout: &WorkspaceLayout) -> Result<Area> {
        Ok(Area::Shared(SharedMemory::open(descriptor, layout.total_bytes)?))
    }

    /// Makes memory what kernels expect: new memory of zeros, or that of ranks whose calls so far have come to a good end. Who is gone
    /// meanwhile stays gone: it is not told again.
    pub(super) fn clear(&self, layout: &WorkspaceLayout, last_epoch: u64) {
        for offset in (layout.landing_offset_bytes..layout.marks_offset_bytes).step_by(size_of::<u64>()) {
            self.word(offset).store(u64::from(MARKER) << 32 | u64::from(MARKER), Ordering::Relaxed);
        }
        let gone = GONE_OFFSET_BYTES / size_of::<u64>();
        for (index, word) in first_words(last_epoch).enumerate().filter(|&(index, _)| index != gone) {
            self.word(index * size_of::<u64>()).store(word, Ordering::Relaxed);
        }
    }

    fn start(&self) -> NonNull<u8> {
        match self {
            Area::Own(own) => own.start,
            Area::Shared(memory) => memory.start(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Area::Own(own) => own.layout.size(),
            Area::Shared(memory) => memory.bytes(),
        }
    }

    /// Where it starts in this process.
    pub(super) fn address(&self) -> u64 {
        self.start().as_ptr() as u64
    }

    /// One of its words.
    pub(super) fn word(&self, offset_bytes: usize) -> &AtomicU64 {
        debug_assert!(offset_bytes + 8 <= self.bytes());
        // SAFETY: an aligned word inside the area, never accessed but atomically while calls run.
        unsafe { AtomicU64::from_ptr(self.start().as_ptr().add(offset_bytes).cast()) }
    }
}

/// Zeroed memory of this process.
pub(super) struct Own {
    start: NonNull<u8>,
    layout: Layout,
}

impl Own {
    fn new(bytes: usize) -> Result<Own> {
        let too_little = || Error::Host {
            what: "allocating a CPU rank's workspace",
            source: std::io::Error::from(std::io::ErrorKind::OutOfMemory),
        };
        let layout = Layout::from_size_align(bytes, AREA_ALIGN_BYTES).map_err(|_| too_little())?;
        // SAFETY: a workspace has flags at least, so its size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_little)?;
        Ok(Own { start, layout })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

// SAFETY: it is memory and nothing else, all of whose accesses are atomic while it is shared.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

#[cfg(test)]
mod tests {
    use allfold_kernels::protocol::abi::STOP_OFFSET_BYTES;

    use super::*;

    #[test]
    fn who_is_gone_stays_gone_where_all_else_begins_anew() {
        let layout = WorkspaceLayout::new(2, 128, 128, 128).expect("it is small");
        let area = Area::own(&layout, 0).expect("there is memory");
        for offset in [STOP_OFFSET_BYTES, GONE_OFFSET_BYTES, layout.landing_offset_bytes] {
            area.word(offset).store(1, Ordering::Relaxed);
        }
        area.clear(&layout, 0);
        let word = |offset| area.word(offset).load(Ordering::Relaxed);
        assert_eq!((word(STOP_OFFSET_BYTES), word(GONE_OFFSET_BYTES)), (0, 1));
        assert_eq!(word(layout.landing_offset_bytes), u64::MAX);
    }
}
