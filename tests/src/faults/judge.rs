//! What a fault of a rank has to come to on each rank.

use std::time::Duration;

use allfold::Error;
use anyhow::{Result, ensure};

use super::{Cell, Fault, Ground};

impl Cell {
    /// Whether what `rank` got after `took` is what this fault has to come to.
    pub(super) fn judge(&self, rank: u32, ground: Ground, got: &allfold::Result<()>, took: Duration) -> Result<()> {
        let victim = self.victim;
        let gave_up = |waiting_rank: u32, missing: &[u32], waited: Duration| {
            // Where others take the processor another one may be late, too.
            missing.contains(&victim) && waiting_rank != victim && waited >= self.fault.timeout(ground) / 2
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
