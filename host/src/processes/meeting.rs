//! Steps of a connection: each succeeds on all ranks or fails on all of them. Knows nothing of what is connected.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::members::Members;
use crate::rendezvous::{Line, MOST_BYTES, Rendezvous, RendezvousError};

/// What the first byte of a rank's word means: what follows is what it tells the others.
const OK: u8 = 0;
/// What follows is why it failed.
const FAILED: u8 = 1;

/// A deadline for whoever has none that a clock can count.
const LONG: Duration = Duration::from_secs(u32::MAX as u64);

/// Bytes of a long word that are told in one step.
const PART_BYTES: usize = MOST_BYTES / 2;

/// `timeout` from now, or so long that nobody waits for it.
pub(crate) fn deadline_after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + LONG)
}

/// Part `number` of a long word.
fn part(word: &[u8], number: usize) -> &[u8] {
    let rest = word.get(number * PART_BYTES..).unwrap_or_default();
    &rest[..rest.len().min(PART_BYTES)]
}

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
        Ok(Meeting { rendezvous, members: Members::one(rank, world), deadline: deadline_after(timeout) })
    }

    /// The meeting of `line`'s ranks, which ends at `deadline`.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub(crate) fn until(line: &'a Line, deadline: Instant) -> Result<Meeting<'a>> {
        Ok(Meeting { deadline, ..Meeting::new(line, Duration::ZERO)? })
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

    /// Tells all ranks that this one could not come as far as this step, and why: the error for it. The others get the same, but for those
    /// that fail, too.
    pub(crate) fn fail(&self, why: &str) -> Error {
        let word = [&[FAILED], why.as_bytes()].concat();
        if let Err(error) = self.rendezvous.all_gather(&word, self.deadline) {
            tracing::debug!(%error, "not all ranks heard why this one failed");
        }
        Error::RankFailed { rank: self.rank(), why: why.to_owned() }
    }

    /// [`Meeting::step`] with words of any length: where one of them is long, all go on until it has been told.
    ///
    /// # Errors
    /// As [`Meeting::step`].
    pub(crate) fn step_long<T>(&self, mine: Result<T>, tell: impl FnOnce(&T) -> Vec<u8>) -> Result<(T, Vec<Vec<u8>>)> {
        let mut own = Vec::new();
        let (mine, heads) = self.step(mine, |mine| {
            own = tell(mine);
            [&(own.len() as u64).to_le_bytes(), part(&own, 0)].concat()
        })?;
        let (mut longest, mut words) = (0, Vec::new());
        for (rank, head) in (0..).zip(heads) {
            let Some((length, first)) = head.split_first_chunk() else {
                return Err(Error::RankFailed { rank, why: "it said what this version does not know".to_owned() });
            };
            longest = longest.max(u64::from_le_bytes(*length));
            words.push(first.to_vec());
        }
        for number in 1..longest.div_ceil(PART_BYTES as u64) as usize {
            let ((), parts) = self.step(Ok(()), |()| part(&own, number).to_vec())?;
            words.iter_mut().zip(parts).for_each(|(word, part)| word.extend(part));
        }
        Ok((mine, words))
    }

    /// [`Meeting::step`] with nothing to tell but that it is done.
    ///
    /// # Errors
    /// As [`Meeting::step`].
    pub(crate) fn done<T>(&self, mine: Result<T>) -> Result<T> {
        self.step(mine, |_| Vec::new()).map(|(mine, _)| mine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::local;

    #[test]
    fn words_of_any_length_are_told() {
        // Of rank 0 nothing, of rank 1 a little, of rank 2 more than a step takes, to the byte and beyond.
        for most in [0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES] {
            let lengths = [0, 7.min(most), most];
            std::thread::scope(|scope| {
                for seat in local(3).expect("three ranks") {
                    scope.spawn(move || {
                        let meeting = Meeting::new(&seat, Duration::from_secs(60)).expect("a rank");
                        let word = |rank: usize| vec![rank as u8 + 1; lengths[rank]];
                        let own = word(meeting.rank() as usize);
                        let ((), words) = meeting.step_long(Ok(()), |()| own).expect("all come");
                        assert!(words == [word(0), word(1), word(2)], "{most}");
                    });
                }
            });
        }
    }
}
