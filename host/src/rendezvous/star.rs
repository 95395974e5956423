//! A group with neither connections nor threads: each rank sends messages to rank 0, and looks for its own in its calls
//! alone. Rank 0 decides what came of a call, and tells the others. `mpi.rs` carries the messages; tests do by
//! channels.
//!
//! A rank whose deadline comes near says that it gives up, and still takes an answer that was on its way then: so what rank
//! 0 has decided holds on all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::call::{Call, MOST_BYTES};
use super::frame::{Request, encode_answer, give_up, left_ms};
use super::handshake::VERSION;
use super::meeting::{Meeting, too_long};
use super::said::{Said, given_up, request, so_far};
use super::{Rendezvous, RendezvousError, check};

type Result<T> = std::result::Result<T, RendezvousError>;

/// Most bytes of a message: an answer with the most bytes of the most ranks.
#[cfg(feature = "mpi")]
pub(super) const MOST_MESSAGE_BYTES: usize = (MOST_BYTES + 4) * crate::MAX_RANKS + 1;

/// What a call has at least, also where its deadline has passed: rank 0 may have said why there is no use in it.
const LEAST: Duration = Duration::from_millis(50);

/// How long the last words of a rank may take to leave it, also after its deadline.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// How often a wait looks again at once, and how long it sleeps between two looks then.
const EAGER_LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);

/// Carries messages between ranks. Nothing in it waits.
pub(super) trait Wire {
    /// Sends `message` to rank `to`, after those before it.
    fn send(&mut self, to: u32, message: Vec<u8>);

    /// The next message of rank `from`, if there is one yet.
    fn receive(&mut self, from: u32) -> Option<Vec<u8>>;

    /// Whether all that was sent has left this rank.
    fn is_sent(&mut self) -> bool;
}

/// A rank. When it is dropped it has left the group.
pub(super) struct Star<W: Wire> {
    rank: u32,
    world: u32,
    // Held through a call: calls of one rank are one after the other.
    side: Mutex<Side<W>>,
}

struct Side<W: Wire> {
    rank: u32,
    world: u32,
    wire: W,
    /// Where rank 0 has the others come; of no use to them.
    meeting: Meeting,
    /// Calls made so far.
    calls: u64,
    /// Why there will be no more.
    failed: Option<RendezvousError>,
}

impl<W: Wire> Star<W> {
    /// Rank `rank` of `world` meets the others.
    pub(super) fn join(wire: W, rank: u32, world: u32, deadline: Instant) -> Result<Star<W>> {
        Star::claim(wire, rank, world, VERSION, deadline)
    }

    /// A rank that may claim another version.
    pub(super) fn claim(wire: W, rank: u32, world: u32, version: &str, deadline: Instant) -> Result<Star<W>> {
        check(rank, world)?;
        let mut side = Side { rank, world, wire, meeting: Meeting::new(world), calls: 0, failed: None };
        let versions = side.call(Call::Join, version.as_bytes(), deadline)?;
        let text = |version: &[u8]| String::from_utf8_lossy(version).into_owned();
        if let Some((rank, theirs)) = (0..).zip(&versions).find(|(_, theirs)| **theirs != versions[0]) {
            let error = RendezvousError::Version { rank, theirs: text(theirs), ours: text(&versions[0]) };
            // All ranks find the same.
            side.failed = Some(error.clone());
            return Err(error);
        }
        Ok(Star { rank, world, side: Mutex::new(side) })
    }

    fn side(&self) -> MutexGuard<'_, Side<W>> {
        // It is whole whatever became of a thread that held it: a call that was not ended has not been counted.
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Wire> Rendezvous for Star<W> {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn world(&self) -> u32 {
        self.world
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>> {
        self.side().call(Call::AllGather, bytes, deadline)
    }

    fn barrier(&self, deadline: Instant) -> Result<()> {
        self.side().call(Call::Barrier, &[], deadline).map(drop)
    }
}

impl<W: Wire> Side<W> {
    fn call(&mut self, call: Call, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if bytes.len() > MOST_BYTES {
            return Err(self.end(too_long(self.rank, bytes.len() as u64)));
        }
        let done = if self.rank == 0 {
            self.lead(call, bytes, deadline).map_err(|error| self.end(error))
        } else {
            self.follow(call, bytes, deadline)
        };
        self.calls += 1;
        let all = done?;
        // What this rank has said has left it before it makes no more calls for a while; of rank 0 others wait for that.
        self.flush(deadline.max(Instant::now() + LEAST));
        Ok(all)
    }

    /// The call of rank 0.
    fn lead(&mut self, call: Call, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>> {
        let mut end = deadline;
        // What others have said so far comes first: one may have left, or given up.
        self.hear(&mut end)?;
        self.meeting.arrive(0, self.calls, call, bytes.to_vec())?;
        let mut told = Vec::new();
        let mut looks = 0;
        loop {
            let missing = self.meeting.awaited(0);
            if missing.is_empty() {
                break;
            }
            if Instant::now() >= end {
                return Err(RendezvousError::Missing { missing });
            }
            if missing != told {
                for rank in (1..self.world).filter(|rank| !missing.contains(rank)) {
                    self.wire.send(rank, so_far(&missing));
                }
                told = missing;
            }
            pause(&mut looks);
            self.hear(&mut end)?;
        }
        // It is made: nobody waits here.
        for rank in 1..self.world {
            self.meeting.wait(rank, end)?;
        }
        let gathered = self.meeting.wait(0, end)?;
        let answer = encode_answer(&Ok(&*gathered));
        for rank in 1..self.world {
            self.wire.send(rank, answer.clone());
        }
        Ok(Arc::try_unwrap(gathered).unwrap_or_else(|shared| shared.to_vec()))
    }

    /// Takes in what other ranks have said to rank 0. `end` is when the first of them gives up.
    fn hear(&mut self, end: &mut Instant) -> Result<()> {
        let mut requests = Vec::new();
        for from in 1..self.world {
            while let Some(message) = self.wire.receive(from) {
                match Said::read(&message, self.world) {
                    Some(Said::Request(request, bytes)) => requests.push((from, request, bytes)),
                    // Before any request: a rank that came to this call and has given up may not hear of its success.
                    Some(Said::Failure(error)) => return Err(error),
                    // Of a call that was made: it had its answer after all.
                    Some(Said::GivenUp(sequence, _)) if sequence < self.calls => {}
                    Some(Said::GivenUp(_, error)) => return Err(error),
                    Some(Said::Answer(_) | Said::SoFar(_)) | None => {
                        return Err(RendezvousError::Garbled { rank: from });
                    }
                }
            }
        }
        for (from, request, bytes) in requests {
            *end = (*end).min(give_up(request.left_ms));
            self.meeting.arrive(from, request.sequence, request.call, bytes)?;
        }
        Ok(())
    }

    /// The call of another rank.
    fn follow(&mut self, call: Call, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>> {
        let sequence = self.calls;
        let header = Request { sequence, call, left_ms: left_ms(deadline), bytes: bytes.len() as u64 };
        self.wire.send(0, request(&header, bytes));
        let deadline = deadline.max(Instant::now() + LEAST);
        // After rank 0, where that has heard the request at once.
        let end = give_up(left_ms(deadline));
        let end = end + deadline.saturating_duration_since(end) / 2;
        let mut told = false;
        let mut missing = RendezvousError::Missing { missing: vec![0] };
        let mut looks = 0;
        loop {
            match self.wire.receive(0).map(|message| Said::read(&message, self.world)) {
                Some(Some(Said::Answer(gathered))) => return Ok(gathered),
                Some(Some(Said::Failure(error))) => {
                    // Rank 0 knows.
                    self.failed = Some(error.clone());
                    return Err(error);
                }
                Some(Some(Said::SoFar(ranks))) => missing = ranks,
                Some(Some(Said::Request(..) | Said::GivenUp(..)) | None) => {
                    return Err(self.end(RendezvousError::Garbled { rank: 0 }));
                }
                None if Instant::now() >= deadline => return Err(self.end(missing)),
                None if !told && Instant::now() >= end => {
                    self.wire.send(0, given_up(sequence, &missing));
                    told = true;
                }
                None => pause(&mut looks),
            }
        }
    }

    /// Ends the group for this rank, and tells whom it can tell: rank 0 the others, another rank 0.
    fn end(&mut self, error: RendezvousError) -> RendezvousError {
        let message = encode_answer(&Err::<Vec<_>, _>(error.clone()));
        for rank in if self.rank == 0 { 1..self.world } else { 0..1 } {
            self.wire.send(rank, message.clone());
        }
        self.failed = Some(error.clone());
        self.flush(Instant::now() + LAST_WORDS);
        error
    }

    /// Waits until all that was said has left this rank.
    fn flush(&mut self, deadline: Instant) {
        let mut looks = 0;
        while !self.wire.is_sent() && Instant::now() < deadline {
            pause(&mut looks);
        }
    }
}

impl<W: Wire> Drop for Side<W> {
    fn drop(&mut self) {
        if self.failed.is_none() {
            self.end(RendezvousError::Gone { rank: self.rank });
        }
    }
}

/// Lets others run between two looks for something.
pub(super) fn pause(looks: &mut u32) {
    *looks = looks.saturating_add(1);
    if *looks < EAGER_LOOKS {
        std::thread::yield_now();
    } else {
        std::thread::sleep(PAUSE);
    }
}
