//! What a fault of a rank has to come to on each rank.

use std::time::Duration;

use allfold::Error;
use allfold_kernels::protocol::wait::TICK_NS;
use anyhow::{Result, ensure};

use super::{Cell, Fault, Ground};

/// An error may come so much later than it has to.
const LATER: Duration = Duration::from_secs(1);

/// How long it took until a rank knew what it got.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Its last call.
    pub call: Duration,
    /// Since the fault began there.
    pub fault: Duration,
    /// Since before any rank made the call of the fault.
    pub all: Duration,
}

/// Whether a wait of `waited`, measured in ticks, is none that was given up before `timeout`.
pub fn in_full(waited: Duration, timeout: Duration) -> bool {
    waited + Duration::from_nanos(TICK_NS) >= timeout
}

impl Cell {
    /// Whether what `rank` got is what this fault has to come to, and in time.
    pub(super) fn judge(&self, rank: u32, ground: Ground, got: &allfold::Result<()>, took: Took) -> Result<()> {
        let (victim, timeout) = (self.victim, self.fault.timeout(ground));
        let gave_up = |waiting_rank: u32, missing: &[u32], waited: Duration| {
            // Of another one's wait no more is known than that there was time for it.
            let waited = if waiting_rank == rank { waited } else { took.all };
            *missing == [victim] && waiting_rank != victim && in_full(waited, timeout)
        };
        let right = match (self.fault, got) {
            (Fault::Late | Fault::Stopped, Ok(())) => true,
            // All of it may have come before.
            (Fault::KilledInCall, Ok(())) => true,
            // In the communicator that it has come to none of the others does.
            (Fault::OtherTurn, Err(Error::Timeout { waiting_rank, missing, waited, .. })) if rank == victim => {
                let others: Vec<_> = (0..self.world).filter(|other| *other != victim).collect();
                *missing == others && *waiting_rank == victim && in_full(*waited, timeout)
            }
            (
                Fault::Absent | Fault::StoppedTooLong | Fault::EmptyAlone | Fault::OtherTurn,
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
                let words = self.fault.differs_in();
                !words.is_empty() && words.iter().all(|word| what.contains(word)) && apart
            }
            (_, Ok(()) | Err(_)) => false,
        };
        ensure!(right, "got {got:?} after {took:?}, which is not what rank {victim}'s fault comes to, on rank {rank}");
        let limit = self.fault.lasts(ground) + LATER;
        ensure!(took.fault < limit, "got {got:?} after {took:?}, later than {limit:?}");
        if got.is_err() {
            // Who comes when others have given up has nothing to wait for.
            let given_up = rank == victim && self.fault.comes_too_late();
            let limit = if given_up { LATER } else { timeout + LATER };
            ensure!(took.call < limit, "got {got:?} after {took:?}, by a call that took longer than {limit:?}");
        }
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
