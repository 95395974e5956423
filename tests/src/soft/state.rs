//! All that a driver has, under one lock; and each thread's stack of contexts.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use allfold_kernels::protocol::entry_point::EntryPoint;

use super::DEVICES;
use super::memory::Memories;
use super::stream::{Event, Graph, Object, Stream};

/// The code of a call that fails; 0 is none.
pub(super) type Answer = Result<(), c_int>;

pub(super) const INVALID_VALUE: c_int = 1;
pub(super) const OUT_OF_MEMORY: c_int = 2;
pub(super) const INVALID_DEVICE: c_int = 101;
pub(super) const INVALID_CONTEXT: c_int = 201;
pub(super) const INVALID_HANDLE: c_int = 400;
pub(super) const ILLEGAL_STATE: c_int = 401;
pub(super) const NOT_FOUND: c_int = 500;
pub(super) const PEER_ACCESS_ALREADY_ENABLED: c_int = 704;
pub(super) const CAPTURE_UNSUPPORTED: c_int = 900;

/// All there is.
#[derive(Default)]
pub(super) struct Soft {
    last: u64,
    /// How often each device's primary context is retained.
    pub(super) retained: [usize; DEVICES],
    pub(super) peers: HashSet<(c_int, c_int)>,
    pub(super) memories: Memories,
    pub(super) streams: HashMap<u64, Arc<Stream>>,
    pub(super) events: HashMap<u64, Arc<Event>>,
    /// The names of its entry points.
    pub(super) modules: HashMap<u64, HashSet<String>>,
    pub(super) functions: HashMap<u64, EntryPoint>,
    pub(super) objects: HashMap<u64, Arc<Object>>,
    pub(super) graphs: HashMap<u64, Graph>,
    pub(super) executables: HashMap<u64, Graph>,
    /// What was done that no driver promises to bear.
    pub(super) blamed: Vec<String>,
}

/// How many there are of what has to be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Allocations of devices and of the host, and pieces that are mapped.
    pub memories: usize,
    /// Ranges of addresses.
    pub reservations: usize,
    /// Handles of physical memory.
    pub handles: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules.
    pub modules: usize,
    /// Graphs, executable ones among them, and what they are to give up.
    pub graphs: usize,
    /// Primary contexts, as often as they are retained.
    pub contexts: usize,
}

static SOFT: LazyLock<Mutex<Soft>> = LazyLock::new(Mutex::default);

/// All of it. Nothing may be waited for while it is held.
pub(super) fn soft() -> MutexGuard<'static, Soft> {
    // Maps are whole whatever became of a thread that held them.
    SOFT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Soft {
    /// A number that nothing has had.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        // What is no address of anything.
        self.last << 4
    }

    pub(super) fn live(&self) -> Live {
        Live {
            memories: self.memories.count(),
            reservations: self.memories.reservations.len(),
            handles: self.memories.handles.len(),
            streams: self.streams.len(),
            events: self.events.len(),
            modules: self.modules.len(),
            graphs: self.graphs.len() + self.executables.len() + self.objects.len(),
            contexts: self.retained.iter().sum(),
        }
    }

    pub(super) fn stream(&self, handle: *mut c_void) -> Result<Arc<Stream>, c_int> {
        self.streams.get(&(handle as u64)).cloned().ok_or(INVALID_HANDLE)
    }

    pub(super) fn event(&self, handle: *mut c_void) -> Result<Arc<Event>, c_int> {
        self.events.get(&(handle as u64)).cloned().ok_or(INVALID_HANDLE)
    }
}

thread_local! {
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// What is done with the calling thread's contexts, the current one last.
pub(super) fn contexts<T>(with: impl FnOnce(&mut Vec<usize>) -> T) -> T {
    CONTEXTS.with_borrow_mut(with)
}

/// The handle of a device's primary context.
pub(super) fn context_of(device: c_int) -> usize {
    0x100 * (device as usize + 1)
}

/// Whose context it is.
pub(super) fn device_of(context: usize) -> Result<c_int, c_int> {
    let device = (0..DEVICES as c_int).find(|&device| context_of(device) == context).ok_or(INVALID_CONTEXT)?;
    if soft().retained[device as usize] == 0 { Err(INVALID_CONTEXT) } else { Ok(device) }
}

/// The device of the calling thread's current context.
pub(super) fn current() -> Result<c_int, c_int> {
    device_of(contexts(|all| all.last().copied()).unwrap_or(0))
}

pub(super) fn device(device: c_int) -> Result<usize, c_int> {
    usize::try_from(device).ok().filter(|&device| device < DEVICES).ok_or(INVALID_DEVICE)
}
