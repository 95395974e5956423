//! A wait for peers, which has an end: when they have come, when it has lasted too long, or when there is no more use in it.
//!
//! While polls fail, a thread looks now and then at the clock and at its rank's [`Board`](super::status::Board); where peers come in
//! time there is no such look. A wait that is to end has one more poll: what came meanwhile counts, and for those who then are missing
//! there has to be a reason to end it.

use core::hint::cold_path;

use super::abi::{Phase, Rank};
use super::epoch::{self, Epoch};
use super::machine::Machine;
use super::signature::{self, Heard};
use super::status::{LongestWait, Ranks, Stop, Why};

/// The steps in which waits are measured: so that a thread keeps how long it has waited in one register.
pub const TICK_NS: u64 = 1 << 16;

/// How long a thread has waited. Two registers, in the innermost loop of every kernel.
pub struct Wait {
    polls: u32,
    /// The clock at the first look, in ticks; 0: there was none.
    began: u32,
}

impl Wait {
    /// Of no polls so far.
    #[inline(always)]
    pub fn new() -> Wait {
        Wait { polls: 0, began: 0 }
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
        if self.began == 0 {
            self.began = ticks(m).max(1);
        }
        let wait = LongestWait { ticks: waited(m, self.began), ranks: missing };
        m.add_wait(wait);
        // One after the other: together they would take registers that no kernel has.
        // ORDER: each board is acquired, so that of one that is gone all has come by the next poll. Not weaker: a poll could be served from
        // before it. Not stronger: nothing here needs a total order.
        let ends = wait.ns() >= m.timeout_ns() || m.board().ends(missing) || m.host_board().ends(missing);
        if ends {
            // Unless it was so at the look before this one, too, the next poll looks again.
            let again = self.polls != 0;
            self.polls = u32::MAX;
            return again;
        }
        if self.polls >= 1 << 31 {
            // Never 0 by counting alone.
            self.polls -= 1 << 30;
        }
        true
    }

    /// The end of it, in `phase`, where `missing` have not come.
    #[inline(always)]
    pub fn left(&self, phase: Phase, missing: Ranks) -> Left {
        Left { phase, ranks: missing, began: self.began }
    }
}

impl Default for Wait {
    fn default() -> Self {
        Wait::new()
    }
}

#[inline(always)]
fn ticks<M: Machine>(m: &M) -> u32 {
    (m.now_ns() / TICK_NS) as u32
}

/// How many ticks it is since `began`; at most those of a day and a half, and then from 0 on.
#[inline(always)]
fn waited<M: Machine>(m: &M, began: u32) -> u32 {
    // Where the clock was 0, `began` is a tick ahead.
    (ticks(m).wrapping_sub(began) as i32).max(0) as u32
}

/// That a thread leaves a call before its end: because a wait has lasted too long, one that it was for is gone, all are to stop,
/// or a peer makes another call. Which of them it was, [`leave`] finds out again: what a thread carries there, it carries all the
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Where in the call.
    pub phase: Phase,
    /// Whom it has waited for in vain, or whose call differs; none, if others of its block leave.
    pub ranks: Ranks,
    /// When it began to wait, in ticks.
    began: u32,
}

impl Left {
    /// By a thread of whose block others leave, or whose rank left an earlier call.
    pub const fn with_others(phase: Phase) -> Left {
        Left { phase, ranks: Ranks::NONE, began: 0 }
    }
}

/// Ends the call of `epoch` for this thread, which `left` it: leaves word of it, tells all ranks and the own host, and sees to it
/// that later calls end at their start. All threads of the block have read their block's epoch word. What is left to do is to
/// poison the output.
#[inline(always)]
pub fn leave<M: Machine>(m: &M, epoch: Epoch, left: Left) {
    cold_path();
    let Left { phase, mut ranks, began } = left;
    // Where others of its block leave, who knows why says so.
    let mut why = None;
    if !ranks.is_empty() {
        // ORDER: as in `look`, whose answer this gives again.
        let gone = Ranks(m.board().gone.0 | m.host_board().gone.0).and(ranks);
        let Heard { differ, silent } = signature::hear(m, epoch);
        let differ = differ.and(ranks);
        if !differ.is_empty() {
            (why, ranks) = (Some(Why::Differs), differ);
        } else if !gone.is_empty() {
            (why, ranks) = (Some(Why::Gone), gone);
        } else {
            why = Some(Why::TimedOut);
            // Some may have come, and themselves wait for those that have not; and this thread may have waited for one of several.
            if !silent.is_empty() {
                ranks = silent;
            }
            if (LongestWait { ticks: waited(m, began), ranks }).ns() >= m.timeout_ns() / 2 {
                // Who was told would have ended so soon after: the others that are missing are to be known too.
                m.add_missing(ranks);
            }
        }
    }
    stop(m, epoch, Left { phase, ranks, began }, why);
}

/// Ends the call of `epoch` for this thread, whose rank was to run what it cannot.
#[inline(always)]
pub fn refuse<M: Machine>(m: &M, epoch: Epoch, why: Why) {
    cold_path();
    stop(m, epoch, Left::with_others(Phase::Start), Some(why));
}

#[inline(always)]
fn stop<M: Machine>(m: &M, epoch: Epoch, Left { phase, ranks, .. }: Left, why: Option<Why>) {
    // ORDER: the words of the boards alone count here.
    let (stop, host_stop) = (m.board().stop, m.host_board().stop);
    // Who was told by a peer tells its own host, who was told by its host tells all.
    let word = match (stop, host_stop, why) {
        (0, 0, None) => 0,
        (0, 0, Some(why)) => Stop { why, by: m.rank(), phase, block: m.block(), ranks, epoch_low: epoch.0 }.encode(),
        (0, told, _) | (told, 0, _) => told,
        (_, _, _) => 0,
    };
    if word != 0 {
        // This rank last: who finds its word finds it when the stores to all others are under way.
        let mut step = m.step(1);
        while step <= m.world() {
            let rank = m.rank().0 + step;
            let rank = if rank < m.world() { rank } else { rank - m.world() };
            if why == Some(Why::Differs) {
                // Block 0 may not have come to it yet; and without it that rank could not say what differs.
                signature::tell_one(m, epoch, Rank(rank));
            }
            if stop == 0 || rank == m.rank().0 {
                // ORDER: pairs with the look of whoever waits, by its value alone; what it says has happened on this rank needs
                // no order. Weaker than relaxed at system scope is not allowed where another GPU looks.
                m.tell_stop(Rank(rank), word);
            }
            step += m.step(1);
        }
    }
    epoch::stop(m);
    if why.is_some() {
        // Who leaves with others of its block must not end the context before those have told why.
        m.trap_if_asked();
    }
}
