//! Steps of a connection: each succeeds on all ranks or fails on all of them. Knows nothing of what is connected.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::members::Members;
use crate::rendezvous::{Line, Rendezvous, RendezvousError};

/// What the first byte of a rank's word means: what follows is what it tells the others.
const OK: u8 = 0;
/// What follows is why it failed.
const FAILED: u8 = 1;

/// A deadline for whoever has none that a clock can count.
const LONG: Duration = Duration::from_secs(u32::MAX as u64);

/// The ranks that are being connected, seen from one of them.
pub(crate) struct Meeting<'a> {
    rendezvous: &'a dyn Rendezvous,
    members: Members,
    deadline: Instant,
}

impl<'a> Meeting<'a> {
    /// The meeting of `rendezvous`' ranks, which ends `timeout` from now.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub(crate) fn new(rendezvous: &'a dyn Rendezvous, timeout: Duration) -> Result<Meeting<'a>> {
        let (rank, world) = (rendezvous.rank(), rendezvous.world());
        if rank >= world {
            return Err(Error::NoSuchRank { rank, world });
        }
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or(now + LONG);
        Ok(Meeting { rendezvous, members: Members::one(rank, world), deadline })
    }

    /// The ranks of `line`, which meet there until this meeting ends.
    pub(crate) fn over<'b>(&self, line: &'b Line) -> Meeting<'b> {
        Meeting { rendezvous: line, members: Members::one(line.rank(), line.world()), deadline: self.deadline }
    }

    /// When it ends.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// This rank, among all.
    pub(crate) fn members(&self) -> Members {
        self.members
    }

    /// This rank.
    pub(crate) fn rank(&self) -> u32 {
        self.members.first
    }

    /// The other ranks.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> {
        let own = self.rank();
        (0..self.members.world).filter(move |&rank| rank != own)
    }

    /// Tells all ranks whether this one has done its part of a step, and with what: `mine`, and of each rank what `tell` makes
    /// of its own.
    ///
    /// # Errors
    /// That of `mine`; [`Error::RankFailed`] for the first other rank that failed; [`Error::Rendezvous`].
    pub(crate) fn step<T>(&self, mine: Result<T>, tell: impl FnOnce(&T) -> Vec<u8>) -> Result<(T, Vec<Vec<u8>>)> {
        let word = match &mine {
            Ok(done) => [vec![OK], tell(done)].concat(),
            Err(error) => [vec![FAILED], error.to_string().into_bytes()].concat(),
        };
        let heard = self.rendezvous.all_gather(&word, self.deadline);
        let (mine, words) = match (mine, heard) {
            // It found a peer gone: why that left, the rendezvous knows.
            (Err(Error::PeerGone { .. } | Error::Rendezvous(RendezvousError::Gone { .. })), Err(why)) => {
                return Err(why.into());
            }
            (Err(error), _) => return Err(error),
            (Ok(mine), heard) => (mine, heard?),
        };
        let failed = |rank, why: &str| Err(Error::RankFailed { rank, why: why.to_owned() });
        if words.len() != self.members.world as usize {
            return failed(self.rank(), "its rendezvous does not give a word for each rank");
        }
        let mut told = Vec::new();
        for (rank, word) in (0..).zip(words) {
            match word.split_first() {
                Some((&OK, rest)) => told.push(rest.to_vec()),
                Some((&FAILED, why)) => return failed(rank, &String::from_utf8_lossy(why)),
                Some(_) | None => return failed(rank, "it said what this version does not know"),
            }
        }
        Ok((mine, told))
    }

    /// [`Meeting::step`] with nothing to tell but that it is done.
    ///
    /// # Errors
    /// As [`Meeting::step`].
    pub(crate) fn done<T>(&self, mine: Result<T>) -> Result<T> {
        self.step(mine, |_| Vec::new()).map(|(mine, _)| mine)
    }
}
