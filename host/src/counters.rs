//! What a communicator has done so far, in plain numbers. Knows nothing but algorithms.

use std::iter::zip;
use std::ops::AddAssign;
use std::sync::{Arc, Weak};
use std::time::Duration;

use allfold_kernels::protocol::abi::Algorithm;

/// Calls, and how large they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub calls: u64,
    /// Bytes of one rank's buffer, of all of them together: the message size, as NCCL's profiler and tests have it.
    pub bytes: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Count) {
        self.calls = self.calls.wrapping_add(more.calls);
        self.bytes = self.bytes.wrapping_add(more.bytes);
    }
}

/// What a communicator has done so far, as this process sees it: see [`Communicator::counters`](crate::Communicator::counters).
///
/// On GPUs a call counts when it is launched, and is done later. Captures and launches of graphs by other means than
/// [`Communicator::capture`](crate::Communicator::capture) and [`replay`](crate::Communicator::replay) are not seen: a call that is captured so
/// counts as launched, once, unless it is [`Registered::Later`](crate::Registered::Later) between processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Calls that were made, and launched at once. Calls without elements are among them.
    pub launched: Count,
    /// Calls that were captured, and did nothing then.
    pub captured: Count,
    /// Captured calls that replays have launched.
    pub replayed: Count,
    /// Replays.
    pub replays: u64,
    /// Calls and replays that were refused: they got an error, and nothing was done.
    pub refused: u64,
    /// Calls and replays with which the communicator has come to its end: they got an error, and later ones get the same
    /// one.
    pub failed: u64,
    /// By algorithm.
    algorithms: Algorithms,
}

/// How long a rank has waited for others, in one place of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongestWait {
    /// The rank that waited.
    pub rank: u32,
    /// How long, to a fraction of a millisecond.
    pub waited: Duration,
    /// For whom.
    pub missing: Vec<u32>,
}

/// A count for each algorithm, in the order of [`Algorithm::ALL`].
type Algorithms = [Count; Algorithm::ALL.len()];

impl Counters {
    /// All calls that were launched: at once and by replays.
    pub fn total(&self) -> Count {
        let mut total = self.launched;
        total += self.replayed;
        total
    }

    /// Those of [`Counters::total`] that were done by `algorithm`.
    pub fn by_algorithm(&self, algorithm: Algorithm) -> Count {
        self.algorithms[algorithm as usize]
    }
}

/// The counters of a communicator, and whether calls are captured now.
#[derive(Default)]
pub(crate) struct Counted {
    counters: Counters,
    /// Captured calls by algorithm.
    captured: Algorithms,
    /// Lives as long as a capture.
    capture: Weak<()>,
    /// Whether the call that ended the communicator has been counted.
    stopped: bool,
}

/// A capture that goes on, and what was captured before.
pub(crate) struct Capturing {
    _capture: Arc<()>,
    before: Algorithms,
}

/// The calls of a capture.
pub(crate) struct Recorded(Algorithms);

impl Counted {
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// A call. It is `captured` also where [`Counted::begin`] was not called.
    pub(crate) fn call(&mut self, algorithm: Algorithm, bytes: u64, captured: bool) {
        let count = Count { calls: 1, bytes };
        if captured || self.capture.strong_count() > 0 {
            self.counters.captured += count;
            self.captured[algorithm as usize] += count;
        } else {
            self.counters.launched += count;
            self.counters.algorithms[algorithm as usize] += count;
        }
    }

    /// A call or a replay that got an error, after which the communicator goes on or has `stopped`. Once that is counted, all
    /// others are refused.
    pub(crate) fn error(&mut self, stopped: bool) {
        let failed = stopped && !std::mem::replace(&mut self.stopped, stopped);
        let counter = if failed { &mut self.counters.failed } else { &mut self.counters.refused };
        *counter = counter.wrapping_add(1);
    }

    /// From here on calls are captured, until what this gives is dropped.
    pub(crate) fn begin(&mut self) -> Capturing {
        let capture = Arc::new(());
        self.capture = Arc::downgrade(&capture);
        Capturing { _capture: capture, before: self.captured }
    }

    /// What was captured since.
    pub(crate) fn end(&self, capturing: Capturing) -> Recorded {
        let mut recorded = self.captured;
        for (count, before) in zip(&mut recorded, capturing.before) {
            *count =
                Count { calls: count.calls.wrapping_sub(before.calls), bytes: count.bytes.wrapping_sub(before.bytes) };
        }
        Recorded(recorded)
    }

    /// A replay of a capture.
    pub(crate) fn replay(&mut self, recorded: &Recorded) {
        self.counters.replays = self.counters.replays.wrapping_add(1);
        for (algorithm, &count) in zip(&mut self.counters.algorithms, &recorded.0) {
            *algorithm += count;
            self.counters.replayed += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_where_they_are_launched() {
        let mut counted = Counted::default();
        let count = |calls, bytes| Count { calls, bytes };
        counted.call(Algorithm::OnePass, 8, false);
        counted.call(Algorithm::OneShot, 2, true);
        let capturing = counted.begin();
        counted.call(Algorithm::OneShot, 4, false);
        counted.call(Algorithm::Exchange, 16, false);
        let recorded = counted.end(capturing);
        counted.call(Algorithm::OneShot, 1, false);
        assert_eq!(counted.counters().captured, count(3, 22));
        assert_eq!(counted.counters().total(), count(2, 9));
        counted.replay(&recorded);
        counted.replay(&recorded);
        let counters = counted.counters();
        assert_eq!((counters.launched, counters.replayed, counters.replays), (count(2, 9), count(4, 40), 2));
        assert_eq!(counters.total(), count(6, 49));
        let of = |algorithm| counters.by_algorithm(algorithm);
        assert_eq!([of(Algorithm::OneShot), of(Algorithm::Exchange)], [count(3, 9), count(2, 32)]);
        assert_eq!([of(Algorithm::OnePass), of(Algorithm::TwoShot)], [count(1, 8), count(0, 0)]);
        counted.error(false);
        counted.error(true);
        counted.error(true);
        assert_eq!((counted.counters().refused, counted.counters().failed), (2, 1));
    }
}
