//! Ranks that are threads of one process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::call::Call;
use super::meeting::{Meeting, too_long};
use super::{MOST_BYTES, Rendezvous, RendezvousError, check};

/// A rank of a group within one process; see [`local`]. When it is dropped it has left the group.
pub struct Local {
    meeting: Arc<Meeting>,
    rank: u32,
    /// Calls made so far. Held through a call: calls of one rank are one after the other.
    calls: Mutex<u64>,
}

/// A group of `world` ranks within this process, in rank order: for threads, and for tests.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use allfold::rendezvous::{self, Rendezvous};
///
/// let deadline = Instant::now() + Duration::from_secs(10);
/// std::thread::scope(|scope| {
///     for rank in rendezvous::local(3).expect("1 to 8 ranks") {
///         scope.spawn(move || {
///             let all = rank.all_gather(&[rank.rank() as u8], deadline).expect("all come");
///             assert_eq!(all, [[0], [1], [2]]);
///         });
///     }
/// });
/// ```
///
/// # Errors
/// [`RendezvousError::WorldSize`].
pub fn local(world: u32) -> Result<Vec<Local>, RendezvousError> {
    check(0, world)?;
    let meeting = Arc::new(Meeting::new(world));
    Ok((0..world).map(|rank| Local::new(Arc::clone(&meeting), rank)).collect())
}

impl Local {
    pub(super) fn new(meeting: Arc<Meeting>, rank: u32) -> Local {
        Local { meeting, rank, calls: Mutex::new(0) }
    }

    pub(super) fn call(&self, call: Call, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        // A number is whole whatever became of a thread that held it.
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() > MOST_BYTES {
            // Before they are copied.
            return Err(self.meeting.fail(too_long(self.rank, bytes.len() as u64)));
        }
        self.meeting.arrive(self.rank, *calls, call, bytes.to_vec())?;
        *calls += 1;
        let gathered = self.meeting.wait(self.rank, deadline)?;
        self.meeting.told(self.rank);
        Ok(Arc::try_unwrap(gathered).unwrap_or_else(|shared| shared.to_vec()))
    }
}

impl Rendezvous for Local {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn world(&self) -> u32 {
        self.meeting.world()
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        self.call(Call::AllGather, bytes, deadline)
    }

    fn barrier(&self, deadline: Instant) -> Result<(), RendezvousError> {
        self.call(Call::Barrier, &[], deadline).map(drop)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.meeting.fail(RendezvousError::Gone { rank: self.rank });
    }
}
