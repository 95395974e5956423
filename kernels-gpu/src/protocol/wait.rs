//! A wait for peers, which has an end: when they have come, when it has lasted too long, or when there is no more use in it.
//!
//! While polls fail, a thread looks now and then at the clock and at its rank's [`Board`]; where peers come in time there is no
//! such look. A wait that is to end has one more poll: what came meanwhile counts.

use core::hint::cold_path;

use super::abi::{Phase, Rank};
use super::epoch::{self, Epoch};
use super::machine::Machine;
use super::signature;
use super::status::{Board, Ranks, Stop, Why};

/// How long a thread has waited.
pub struct Wait {
    polls: u32,
    /// The clock at the first look; 0: there was none.
    began_ns: u64,
    /// Why the next poll is the last.
    end: Option<End>,
}

/// Why a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has lasted too long.
    Late,
    /// One that it waits for is gone.
    Gone,
    /// Its rank was told to stop, or others of its block leave.
    Told,
    /// A peer makes another call.
    Differs,
    /// The rank was to run what it cannot, before the buffers of all ranks were known.
    UnknownBuffers,
}

impl Wait {
    /// Of no polls so far.
    #[inline(always)]
    pub fn new() -> Wait {
        Wait { polls: 0, began_ns: 0, end: None }
    }

    /// After a poll in which `missing` had not all come: whether there is to be another one.
    #[inline(always)]
    pub fn goes_on<M: Machine>(&mut self, m: &M, missing: impl FnOnce() -> Ranks) -> bool {
        self.polls = self.polls.wrapping_add(1);
        if m.pause_to_look(self.polls) {
            cold_path();
            return self.look(m, missing());
        }
        true
    }

    // It is in every kernel as often as there are waits: as short as it can be.
    #[inline(always)]
    fn look<M: Machine>(&mut self, m: &M, missing: Ranks) -> bool {
        if self.end.is_some() {
            return false;
        }
        let now = m.now_ns();
        if self.began_ns == 0 {
            self.began_ns = now;
        }
        let Board { stop, host_stop, gone } = m.board();
        self.end = if stop | host_stop != 0 {
            Some(End::Told)
        } else if !gone.and(missing).is_empty() {
            Some(End::Gone)
        } else if now.wrapping_sub(self.began_ns) >= m.timeout_ns() {
            Some(End::Late)
        } else {
            return true;
        };
        // The next one looks again, and is the last.
        self.polls = u32::MAX;
        true
    }

    /// The end of it, in `phase`, where `missing` have not come.
    #[inline(always)]
    pub fn left(&self, phase: Phase, missing: Ranks) -> Left {
        Left { phase, ranks: missing, end: self.end.unwrap_or(End::Told), began_ns: self.began_ns }
    }
}

impl Default for Wait {
    fn default() -> Self {
        Wait::new()
    }
}

/// That a thread leaves a call before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Where in the call.
    pub phase: Phase,
    /// Whom it has waited for in vain, or whose call differs.
    pub ranks: Ranks,
    /// Why.
    pub end: End,
    /// The clock when it began to wait.
    pub began_ns: u64,
}

impl Left {
    /// By a thread of whose block others leave.
    pub const WITH_OTHERS: Left = Left { phase: Phase::Start, ranks: Ranks::NONE, end: End::Told, began_ns: 0 };

    /// By a thread whose rank was to run what it cannot.
    pub const UNKNOWN_BUFFERS: Left = Left { end: End::UnknownBuffers, ..Left::WITH_OTHERS };
}

/// Ends the call of `epoch` for this thread, which `left` it: leaves word of it, tells all ranks, and sees to it that later calls end
/// at their start. All threads of the block have read their block's epoch word. What is left to do is to poison the output.
#[inline(always)]
pub fn leave<M: Machine>(m: &M, epoch: Epoch, left: Left) {
    cold_path();
    let Board { stop, host_stop, gone } = m.board();
    let Left { phase, mut ranks, end, began_ns } = left;
    let mut why = match end {
        End::Late => Some(Why::TimedOut),
        End::Gone => Some(Why::Gone),
        End::Differs => Some(Why::Differs),
        End::UnknownBuffers => Some(Why::UnknownBuffers),
        // Who knows says so.
        End::Told => None,
    };
    match end {
        End::Late | End::Told if !ranks.is_empty() => {
            let differ = signature::differs(m, epoch, ranks);
            let waited_ns = m.now_ns().wrapping_sub(began_ns);
            if !differ.is_empty() {
                (ranks, why) = (differ, Some(Why::Differs));
            } else if waited_ns >= m.timeout_ns() / 2 {
                // Who was told would have ended so soon after: the others that are missing are to be known too.
                m.add_missing(ranks, waited_ns);
            }
        }
        End::Gone => ranks = ranks.and(gone),
        End::Late | End::Told | End::Differs | End::UnknownBuffers => {}
    }
    let word = match why {
        _ if stop != 0 => 0,
        _ if host_stop != 0 => host_stop,
        None => 0,
        Some(why) => Stop { why, by: m.rank(), phase, block: m.block(), ranks, epoch_low: epoch.0 }.encode(),
    };
    if word != 0 {
        let mut rank = 0;
        while rank < m.world() {
            if why == Some(Why::Differs) {
                // Block 0 may not have come to it yet; and without it that rank could not say what differs.
                signature::tell_one(m, epoch, Rank(rank));
            }
            // ORDER: pairs with the look of whoever waits, by its value alone; what it says has happened on this rank needs no
            // order. Weaker than relaxed at system scope is not allowed where another GPU looks.
            m.tell_stop(Rank(rank), word);
            rank += m.step(1);
        }
    }
    epoch::stop(m);
    m.trap_if_asked();
}
