//! Host memory that ranks in other processes map, and the rows that captured calls of CPU ranks read.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use allfold_kernels::protocol::abi::ROW_WORDS;

use crate::error::{Error, Result};
use crate::processes::SharedMemory;
use crate::reach::{Allocation, Shared, Sharing, Span};

/// Memory of this process that others can map, by its start.
static SHAREABLE: Mutex<BTreeMap<u64, Known>> = Mutex::new(BTreeMap::new());

struct Known {
    id: u64,
    bytes: u64,
    descriptor: OwnedFd,
}

/// What to do about memory that is not such.
const WHY_NOT: &str =
    "it is memory of its process alone; use allfold::Memory, or a call that pushes or copies its input";

/// Host memory that other processes can map, for as long as this lives; of zeros at first.
pub(crate) struct HostMemory(SharedMemory);

impl HostMemory {
    /// `bytes` bytes, at least one.
    pub(crate) fn new(bytes: usize) -> Result<HostMemory> {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let (memory, descriptor) = SharedMemory::create(bytes.max(1))?;
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let known = Known { id, bytes: memory.bytes() as u64, descriptor };
        known_spans().insert(memory.start().as_ptr() as u64, known);
        Ok(HostMemory(memory))
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.0.start().as_ptr()
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // Before it is unmapped: another may come to lie there.
        known_spans().remove(&(self.start() as u64));
    }
}

fn known_spans() -> std::sync::MutexGuard<'static, BTreeMap<u64, Known>> {
    // No code that holds the lock can panic half-way through a change.
    SHAREABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `of` makes of the memory that `span` lies in as a whole.
fn find<T>(span: Span, of: impl FnOnce(Span, &Known) -> T) -> Option<T> {
    let all = known_spans();
    let (&address, known) = all.range(..=span.address).next_back()?;
    let whole = Span { address, bytes: known.bytes };
    whole.offset_of(span).map(|_| of(whole, known))
}

/// The means of CPU ranks.
pub(crate) struct CpuSharing {
    rows: Vec<[AtomicU64; ROW_WORDS]>,
}

impl CpuSharing {
    /// With so many rows, all empty.
    pub(super) fn new(rows: u32) -> CpuSharing {
        CpuSharing { rows: (0..rows).map(|_| Default::default()).collect() }
    }

    /// Where a row is.
    pub(super) fn row_address(&self, row: u32) -> u64 {
        self.rows[row as usize].as_ptr() as u64
    }
}

impl Sharing for CpuSharing {
    type Mapping = SharedMemory;

    fn export(&self, _rank: u32, span: Span) -> Result<(Allocation, Vec<OwnedFd>)> {
        let found = find(span, |whole, known| {
            let shared = Shared::Pieces(vec![whole.bytes]);
            let descriptor = known.descriptor.try_clone();
            descriptor.map(|descriptor| (Allocation { span: whole, id: known.id, shared }, vec![descriptor]))
        });
        match found {
            Some(Ok(found)) => Ok(found),
            Some(Err(source)) => Err(Error::Host { what: "copying a descriptor", source }),
            None => Ok((Allocation { span, id: 0, shared: Shared::Not(WHY_NOT.to_owned()) }, Vec::new())),
        }
    }

    fn open(&self, allocation: &Allocation, descriptors: &[OwnedFd]) -> Result<(u64, SharedMemory)> {
        let [descriptor] = descriptors else {
            let source = std::io::Error::from(std::io::ErrorKind::InvalidData);
            return Err(Error::Host { what: "mapping a peer's buffer", source });
        };
        let memory = SharedMemory::open(descriptor, allocation.span.bytes as usize)?;
        Ok((memory.start().as_ptr() as u64, memory))
    }

    fn adopt(&self, _rank: u32, _span: Span) -> Result<()> {
        Ok(())
    }

    fn id(&self, span: Span) -> Result<Option<u64>> {
        Ok(find(span, |_, known| known.id))
    }

    fn write_row(&self, row: u32, words: &[u64; ROW_WORDS]) -> Result<()> {
        for (word, value) in self.rows[row as usize].iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
        Ok(())
    }
}
