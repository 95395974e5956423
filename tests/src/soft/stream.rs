//! Streams, each a thread that does one work after the other; events, captures, and the graphs that come of them.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::state::{Answer, CAPTURE_UNSUPPORTED, ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, soft};

/// Something that a stream does, once or each time that it is replayed.
#[derive(Clone)]
pub(super) struct Work {
    does: Arc<dyn Fn() + Send + Sync>,
    /// Addresses of memory that it uses.
    uses: Arc<[u64]>,
}

impl Work {
    pub(super) fn new(uses: &[u64], does: impl Fn() + Send + Sync + 'static) -> Work {
        Work { does: Arc::new(does), uses: uses.into() }
    }
}

/// What was recorded, and what is to be given up with it.
#[derive(Clone, Default)]
pub(super) struct Graph {
    works: Vec<Work>,
    objects: Vec<Arc<Object>>,
}

/// What a graph keeps.
pub(super) struct Object {
    pub(super) pointer: usize,
    pub(super) give_up: unsafe extern "C" fn(*mut c_void),
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: whoever made it asked for this, once.
        unsafe { (self.give_up)(self.pointer as *mut c_void) }
    }
}

#[derive(Default)]
struct Queue {
    works: VecDeque<Work>,
    /// The one of them that is being done.
    busy: Option<Work>,
    closing: bool,
    /// The graph that is recorded.
    capture: Option<u64>,
}

/// A stream.
pub(super) struct Stream {
    pub(super) device: c_int,
    queue: Mutex<Queue>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    /// A new one, with its thread.
    pub(super) fn start(device: c_int) -> Arc<Stream> {
        let stream = Arc::new(Stream { device, queue: Mutex::default(), changed: Condvar::new() });
        let own = Arc::clone(&stream);
        std::thread::spawn(move || own.work());
        stream
    }

    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            match queue.works.pop_front() {
                Some(work) => {
                    queue.busy = Some(work.clone());
                    drop(queue);
                    (work.does)();
                    queue = lock(&self.queue);
                    queue.busy = None;
                    self.changed.notify_all();
                }
                None if queue.closing => return,
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Puts `work` behind all that is there, or into the graph that is recorded.
    pub(super) fn put(&self, work: Work) -> Answer {
        let mut queue = lock(&self.queue);
        if let Some(graph) = queue.capture {
            drop(queue);
            soft().graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?.works.push(work);
            return Ok(());
        }
        queue.works.push_back(work);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until all is done.
    pub(super) fn wait(&self) -> Answer {
        let mut queue = lock(&self.queue);
        if queue.capture.is_some() {
            return Err(CAPTURE_UNSUPPORTED);
        }
        while queue.busy.is_some() || !queue.works.is_empty() {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Whether what it has not done yet uses memory at one of `addresses`.
    fn uses(&self, addresses: &Range<u64>) -> bool {
        let queue = lock(&self.queue);
        queue.busy.iter().chain(&queue.works).any(|work| work.uses.iter().any(|at| addresses.contains(at)))
    }

    /// Does what is there, and ends.
    pub(super) fn close(&self) {
        lock(&self.queue).closing = true;
        self.changed.notify_all();
    }

    /// The graph that is recorded now.
    pub(super) fn capture(&self) -> Option<u64> {
        lock(&self.queue).capture
    }

    /// From here on `graph` is recorded.
    pub(super) fn begin(&self, graph: u64) -> Answer {
        match lock(&self.queue).capture.replace(graph) {
            None => Ok(()),
            Some(_) => Err(ILLEGAL_STATE),
        }
    }

    /// What was recorded.
    pub(super) fn end(&self) -> Result<u64, c_int> {
        lock(&self.queue).capture.take().ok_or(ILLEGAL_STATE)
    }

    /// Replays `graph`.
    pub(super) fn replay(&self, graph: &Graph) -> Answer {
        graph.works.iter().try_for_each(|work| self.put(work.clone()))
    }
}

impl Graph {
    /// Keeps `object` as long as it is there.
    pub(super) fn keep(&mut self, object: Arc<Object>) {
        self.objects.push(object);
    }
}

/// Waits for all streams of `device`, or of all of them. Those that record have nothing to do.
pub(super) fn wait_for_all(device: Option<c_int>) {
    let all: Vec<_> = soft().streams.values().cloned().collect();
    for stream in all.iter().filter(|stream| device.is_none_or(|device| device == stream.device)) {
        let _ = stream.wait();
    }
}

/// Whether a stream has something to do that uses memory at one of `addresses`.
pub(super) fn in_use(addresses: &Range<u64>) -> bool {
    let all: Vec<_> = soft().streams.values().cloned().collect();
    all.iter().any(|stream| stream.uses(addresses))
}

/// A point in a stream's work.
#[derive(Default)]
pub(super) struct Event {
    /// How often it was recorded, and how many of those have been reached.
    counts: Mutex<(u64, u64)>,
    changed: Condvar,
}

impl Event {
    /// Puts it into `stream`.
    pub(super) fn record(self: &Arc<Event>, stream: &Stream) -> Answer {
        let number = {
            let mut counts = lock(&self.counts);
            counts.0 += 1;
            counts.0
        };
        let event = Arc::clone(self);
        stream.put(Work::new(&[], move || {
            let mut counts = lock(&event.counts);
            counts.1 = counts.1.max(number);
            event.changed.notify_all();
        }))
    }

    /// Makes `stream` wait for where it was recorded last.
    pub(super) fn hold_back(self: &Arc<Event>, stream: &Stream) -> Answer {
        let (number, event) = (lock(&self.counts).0, Arc::clone(self));
        stream.put(Work::new(&[], move || event.wait_for(number)))
    }

    fn wait_for(&self, number: u64) {
        let mut counts = lock(&self.counts);
        while counts.1 < number {
            counts = self.changed.wait(counts).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Takes something out of a map whose values may do anything when they are dropped: not while the lock is held.
pub(super) fn taken<T>(take: impl FnOnce(&mut super::state::Soft) -> Option<T>) -> Answer {
    let value = take(&mut soft());
    value.map(drop).ok_or(INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn memory_is_in_use_until_all_is_done_that_uses_it() {
        let stream = Stream::start(0);
        let ((go_on, goes_on), (begin, begins)) = (channel(), channel());
        let goes_on = Mutex::new(goes_on);
        let waits = Work::new(&[0x1000, 0x5000], move || {
            let _ = begin.send(());
            let _ = lock(&goes_on).recv();
        });
        stream.put(waits).expect("it does not record");
        stream.put(Work::new(&[0x9000], || {})).expect("it does not record");
        begins.recv().expect("the first has begun");
        for (addresses, uses) in [(0x0..0x1000, false), (0xfff..0x1001, true), (0x4000..0x6000, true)] {
            assert_eq!(stream.uses(&addresses), uses, "{addresses:x?}");
        }
        assert!(stream.uses(&(0x9000..0x9001)), "what comes later uses it, too");
        go_on.send(()).expect("it waits");
        stream.wait().expect("it does not record");
        assert!(!stream.uses(&(0..u64::MAX)));
        stream.close();
    }
}
