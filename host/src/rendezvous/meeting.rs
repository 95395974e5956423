//! The meeting of a group's ranks in one process: who has come to the call at hand, what came of it, and what went wrong.
//! Ranks of other processes come here by the thread that serves them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::RendezvousError;
use super::call::{Call, MOST_BYTES};

/// The bytes of every rank, in rank order.
pub(super) type Gathered = Arc<Vec<Vec<u8>>>;

type Result<T> = std::result::Result<T, RendezvousError>;

struct State {
    /// The call that ranks come to.
    sequence: u64,
    /// What the first who came to it calls.
    call: Option<(u32, Call)>,
    /// What those gave who have come.
    given: Vec<Option<Vec<u8>>>,
    /// What each rank has not taken yet of the call before.
    ready: Vec<Option<Gathered>>,
    /// Who may not have heard yet what came of the call before.
    untold: Vec<bool>,
    /// Why there will be no more calls: the first failure.
    failed: Option<RendezvousError>,
}

/// Where ranks meet.
pub(super) struct Meeting {
    world: u32,
    state: Mutex<State>,
    changed: Condvar,
}

impl Meeting {
    pub(super) fn new(world: u32) -> Meeting {
        let state = State {
            sequence: 0,
            call: None,
            given: (0..world).map(|_| None).collect(),
            ready: (0..world).map(|_| None).collect(),
            untold: vec![false; world as usize],
            failed: None,
        };
        Meeting { world, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn world(&self) -> u32 {
        self.world
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `rank` comes to call `sequence` and gives `bytes`. An error is the group's from now on.
    pub(super) fn arrive(&self, rank: u32, sequence: u64, call: Call, bytes: Vec<u8>) -> Result<()> {
        let mut state = self.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        if let Err(error) = state.take_in(self.world, rank, sequence, call, bytes) {
            state.failed = Some(error.clone());
            self.changed.notify_all();
            return Err(error);
        }
        if state.given.iter().all(Option::is_some) {
            let gathered = Arc::new(state.given.iter_mut().filter_map(Option::take).collect::<Vec<_>>());
            state.ready.fill(Some(gathered));
            state.untold.fill(true);
            state.sequence += 1;
            state.call = None;
            self.changed.notify_all();
        }
        Ok(())
    }

    /// What came of the call that `rank` came to. The first whose deadline passes ends the group.
    pub(super) fn wait(&self, rank: u32, deadline: Instant) -> Result<Gathered> {
        let mut state = self.lock();
        loop {
            // A call that was made is made, though somebody has gone since.
            if let Some(gathered) = state.ready.get_mut(rank as usize).and_then(Option::take) {
                return Ok(gathered);
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let error = RendezvousError::Missing { missing: state.missing() };
                state.failed = Some(error.clone());
                self.changed.notify_all();
                return Err(error);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Who has not come to the call that `rank` came to. Nobody: it is made.
    #[cfg(any(test, feature = "mpi"))]
    pub(super) fn awaited(&self, rank: u32) -> Vec<u32> {
        let state = self.lock();
        let made = state.ready.get(rank as usize).is_some_and(Option::is_some);
        if made { Vec::new() } else { state.missing() }
    }

    /// `rank` has heard what came of its call, or never will.
    pub(super) fn told(&self, rank: u32) {
        if let Some(untold) = self.lock().untold.get_mut(rank as usize) {
            *untold = false;
        }
        self.changed.notify_all();
    }

    /// Waits until all ranks have heard what came of the call before: who ends after that takes it from nobody.
    pub(super) fn await_told(&self, deadline: Instant) {
        let mut state = self.lock();
        while state.untold.contains(&true) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the group, and says why it has ended: this, or what came before.
    pub(super) fn fail(&self, error: RendezvousError) -> RendezvousError {
        let why = self.lock().failed.get_or_insert(error).clone();
        self.changed.notify_all();
        why
    }

    /// Why the group has ended, if it has.
    pub(super) fn failure(&self) -> Option<RendezvousError> {
        self.lock().failed.clone()
    }
}

impl State {
    /// Who has not come to the call at hand.
    fn missing(&self) -> Vec<u32> {
        (0..).zip(&self.given).filter(|(_, given)| given.is_none()).map(|(rank, _)| rank).collect()
    }

    fn take_in(&mut self, world: u32, rank: u32, sequence: u64, call: Call, bytes: Vec<u8>) -> Result<()> {
        if bytes.len() > MOST_BYTES {
            return Err(too_long(rank, bytes.len() as u64));
        }
        let place = rank as usize;
        let (Some(given), Some(ready)) = (self.given.get_mut(place), self.ready.get(place)) else {
            return Err(RendezvousError::NoSuchRank { rank, world });
        };
        // Two calls at once: the second may not come before the first has been answered.
        if given.is_some() || ready.is_some() {
            return Err(RendezvousError::Garbled { rank });
        }
        if sequence != self.sequence {
            return Err(RendezvousError::OutOfStep { rank, sequence, expected: self.sequence });
        }
        let (other_rank, other_call) = *self.call.get_or_insert((rank, call));
        if call != other_call {
            return Err(RendezvousError::DifferentCalls { sequence, rank, call, other_rank, other_call });
        }
        *given = Some(bytes);
        Ok(())
    }
}

/// A rank that gives more bytes than a call takes.
pub(super) fn too_long(rank: u32, bytes: u64) -> RendezvousError {
    RendezvousError::TooLong { rank, bytes, most_bytes: MOST_BYTES as u64 }
}
