//! What a fault of a rank has to come to on each rank.

use std::time::Duration;

use allfold::Error;
use anyhow::{Result, ensure};

use super::{Cell, Fault, Ground};

impl Cell {
    /// Whether what `rank` got after `took` is what this fault has to come to.
    ///
    /// `call`: how long the call itself took.
    pub(super) fn judge(
        &self,
        rank: u32,
        ground: Ground,
        got: &allfold::Result<()>,
        (took, call): (Duration, Duration),
    ) -> Result<()> {
        let (victim, timeout) = (self.victim, self.fault.timeout(ground));
        let gave_up = |waiting_rank: u32, missing: &[u32], waited: Duration| {
            // Of three, where others take the processor, another one may be late, too; but not who waited.
            let named = missing.contains(&victim) && (self.world > 2 || missing.len() == 1);
            named && !missing.contains(&waiting_rank) && waited >= timeout
        };
        let right = match (self.fault, got) {
            (Fault::Late | Fault::Stopped, Ok(())) => true,
            // All of it may have come before.
            (Fault::KilledInCall, Ok(())) => true,
            (
                Fault::Absent | Fault::StoppedTooLong | Fault::EmptyAlone,
                Err(Error::Timeout { waiting_rank, missing, waited, .. }),
            ) => gave_up(*waiting_rank, missing, *waited),
            (Fault::Killed | Fault::KilledInCall, Err(Error::Timeout { waiting_rank, missing, waited, .. })) => {
                ground.is_gpu() && gave_up(*waiting_rank, missing, *waited)
            }
            (Fault::Dropped | Fault::Killed | Fault::KilledInCall, Err(Error::PeerGone { rank: gone })) => {
                *gone == victim
            }
            (Fault::Aborts | Fault::AbortedFromAside, Err(Error::Aborted { by })) => *by == victim,
            (_, Err(Error::Disagreement { what, values })) => {
                let apart = values.iter().any(|(_, ranks)| *ranks == [victim]);
                self.fault.differs_in().is_some_and(|word| what.contains(word)) && apart
            }
            (_, Ok(()) | Err(_)) => false,
        };
        let limit = self.fault.lasts(ground) + Duration::from_secs(1);
        ensure!(right, "got {got:?}, which is not what rank {victim}'s fault comes to, on rank {rank}");
        ensure!(took < limit, "got it after {took:?}, later than {limit:?}");
        let limit = timeout + Duration::from_secs(1);
        ensure!(got.is_ok() || call < limit, "got {got:?} in a call of {call:?}, later than {limit:?}");
        Ok(())
    }
}

/// Whether two errors say the same. Of calls that differ more may be known later, of ranks that came meanwhile.
pub fn same(one: &Error, other: &Error) -> bool {
    match (one, other) {
        (Error::Disagreement { what: one, .. }, Error::Disagreement { what: other, .. }) => one == other,
        (one, other) => one.to_string() == other.to_string(),
    }
}
