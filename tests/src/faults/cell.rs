//! One fault, at one place of one run of ranks: what happens, what each rank gets, and that those who are left go on together.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::time::{Duration, Instant};

use allfold::rendezvous::Rendezvous;
use allfold::{Algorithm, Communicator, Dtype, Error, InputMode, Options};

mod kinds;
mod rank;

pub use kinds::{Fault, Phase};
use kinds::{LONG, TIMEOUT};
use rank::{BYTES, Call, Rank};

/// Elements of a call.
const ELEMS: usize = 500;

/// A fault at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub fault: Fault,
    pub phase: Phase,
    pub form: (Algorithm, InputMode),
    pub world: u32,
    pub victim: u32,
}

/// Why a cell does not hold.
pub type Outcome = Result<(), String>;

impl Cell {
    fn options(&self) -> Options {
        let timeout = self.fault.timeout();
        let inputs = vec![InputMode::Copied, InputMode::Registered];
        let capacity_bytes = BYTES as u64;
        let landing_bytes = Some(2 * capacity_bytes);
        let (cpu_shape, connect_timeout) = ((2, 1), Duration::from_secs(3));
        Options {
            timeout: Some(timeout),
            inputs,
            capacity_bytes,
            landing_bytes,
            cpu_shape,
            connect_timeout,
            ..Options::for_processes()
        }
    }

    fn good(&self) -> Call {
        let (algorithm, input) = self.form;
        Call { dtype: Dtype::F32, elems: ELEMS, algorithm, input, grid: None }
    }

    /// Whether the victim is there at the end, and goes on with the others.
    fn survives(&self) -> bool {
        !matches!(self.fault, Fault::Dropped | Fault::Killed)
    }

    /// What the rank of `seat` does and gets. `signal` sends one of `"STOP"`, `"CONT"`, `"KILL"` to the process of the victim, if that is
    /// not this one; it is none where ranks are threads.
    pub fn run(&self, seat: &dyn Rendezvous, signal: Option<&dyn Fn(&str)>) -> Outcome {
        let comm =
            Communicator::connect_cpu_with(seat, self.options()).map_err(|error| format!("connecting: {error}"))?;
        let mut rank = Rank::new(comm).map_err(|error| format!("registering: {error}"))?;
        for number in 0..self.phase.calls() {
            rank.call(self.good(), number).map_err(|error| format!("call {number}: {error}"))?;
        }
        // What a rank does now is nothing that another still waits for.
        seat.barrier(Instant::now() + LONG).map_err(|error| format!("before it: {error}"))?;
        let begun = Instant::now();
        let got = if rank.rank == self.victim { self.victims(&mut rank) } else { self.others(&mut rank, signal) };
        let Some(got) = got else { return Ok(()) };
        let took = begun.elapsed();
        self.judge(rank.rank, &got, took).map_err(|why| format!("rank {}: {why}", rank.rank))?;
        // Said again, of every later call.
        if let Err(error) = &got {
            let again = rank.call(self.good(), 99);
            if !again.as_ref().is_err_and(|again| same(again, error)) {
                return Err(format!("rank {}: the next call said {again:?} after {error}", rank.rank));
            }
        }
        if got.is_ok() {
            // Rebuilding ends what others are still doing.
            seat.barrier(Instant::now() + LONG).map_err(|error| format!("after it: {error}"))?;
        }
        let own = rank.rank;
        self.goes_on(rank).map_err(|error| format!("rank {own}, after it: {error}"))
    }

    /// What the victim gets; `None`: it is not there any more.
    fn victims(&self, rank: &mut Rank) -> Option<Result<(), Error>> {
        let number = self.phase.calls();
        let good = self.good();
        let call = match self.fault {
            Fault::Late => {
                std::thread::sleep(Duration::from_millis(40));
                Some(good)
            }
            Fault::Absent => {
                std::thread::sleep(TIMEOUT * 3);
                Some(good)
            }
            Fault::Dropped | Fault::Killed => {
                if self.phase == Phase::Within {
                    std::thread::sleep(Duration::from_millis(10));
                }
                if self.fault == Fault::Killed {
                    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                }
                return None;
            }
            Fault::Stopped | Fault::StoppedTooLong => {
                // Stopped meanwhile, and on its way to the call.
                std::thread::sleep(Duration::from_millis(100));
                Some(good)
            }
            Fault::Aborts => {
                rank.comm.abort();
                Some(good)
            }
            Fault::AbortedFromAside => {
                let aborter = rank.comm.aborter();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    aborter.abort();
                });
                Some(good)
            }
            Fault::Longer => Some(Call { elems: ELEMS + 1, ..good }),
            Fault::Shorter => Some(Call { elems: ELEMS - 9, ..good }),
            Fault::OtherDtype => Some(Call { dtype: Dtype::I32, ..good }),
            Fault::OtherAlgorithm => {
                let algorithm = if good.algorithm == Algorithm::OneShotPush {
                    Algorithm::TwoShotPush
                } else {
                    Algorithm::OneShotPush
                };
                Some(Call { algorithm, ..good })
            }
            Fault::OtherGrid => Some(Call { grid: Some((1, 1)), ..good }),
            Fault::OtherOrder => Some(Call { elems: ELEMS / 2, ..good }),
            // The one that is too many is like the others; what comes next is not.
            Fault::OneMore => {
                let first = rank.call(good, number);
                match first {
                    Ok(()) => Some(good),
                    // Others were faster, and have found out.
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        call.map(|call| rank.call(call, number))
    }

    /// What another rank gets.
    fn others(&self, rank: &mut Rank, signal: Option<&dyn Fn(&str)>) -> Option<Result<(), Error>> {
        let number = self.phase.calls();
        // The lowest of the others sends signals.
        let sends = rank.rank == u32::from(self.victim == 0);
        if let (Fault::Stopped | Fault::StoppedTooLong, Some(signal), true) = (self.fault, signal, sends) {
            signal("STOP");
        }
        if self.fault == Fault::AbortedFromAside {
            // Late themselves: the victim waits for them.
            std::thread::sleep(Duration::from_millis(60));
        }
        let got = match (self.fault, signal) {
            (Fault::Stopped | Fault::StoppedTooLong, Some(signal)) => std::thread::scope(|scope| {
                scope.spawn(|| rank.call(self.good(), number)).join_with(|| {
                    std::thread::sleep(Duration::from_secs(2));
                    if sends {
                        signal("CONT");
                    }
                })
            }),
            _ => rank.call(self.good(), number),
        };
        if self.fault == Fault::OneMore && got.is_ok() {
            // The victim takes the call before for this one.
            return Some(rank.call(Call { elems: ELEMS / 2, ..self.good() }, number + 1));
        }
        Some(got)
    }

    /// Whether what `rank` got after `took` is what this fault has to come to.
    fn judge(&self, rank: u32, got: &Result<(), Error>, took: Duration) -> Outcome {
        let victim = self.victim;
        let right = match (self.fault, got) {
            (Fault::Late | Fault::Stopped, Ok(())) => true,
            (Fault::Absent | Fault::StoppedTooLong, Err(Error::Timeout { waiting_rank, missing, waited, .. })) => {
                // Where others take the processor another one may be late, too.
                missing.contains(&victim) && *waiting_rank != victim && *waited >= self.fault.timeout() / 2
            }
            (Fault::Dropped | Fault::Killed, Err(Error::PeerGone { rank: gone })) => *gone == victim,
            (Fault::Aborts | Fault::AbortedFromAside, Err(Error::Aborted { by })) => *by == victim,
            (_, Err(Error::Disagreement { what, values })) => {
                let apart = values.iter().any(|(_, ranks)| *ranks == [victim]);
                self.fault.differs_in().is_some_and(|word| what.contains(word)) && apart
            }
            (_, Ok(()) | Err(_)) => false,
        };
        let limit = self.fault.lasts() + Duration::from_secs(1);
        match (right, took < limit) {
            (false, _) => Err(format!("got {got:?}, which is not what rank {victim}'s fault comes to, on rank {rank}")),
            (true, false) => Err(format!("got it after {took:?}, later than {limit:?}")),
            (true, true) => Ok(()),
        }
    }

    /// Those who are left make a communicator, which is right.
    fn goes_on(&self, mut rank: Rank) -> Outcome {
        let survivors: Vec<usize> =
            (0..self.world).filter(|&rank| self.survives() || rank != self.victim).map(|rank| rank as usize).collect();
        let comm = rank.comm.rebuild(&survivors).map_err(|error| format!("rebuilding: {error}"))?;
        // The old one goes before the new one is used: nothing of it is needed.
        drop(rank);
        let mut rank = Rank::new(comm).map_err(|error| format!("registering: {error}"))?;
        let (algorithm, _) = self.form;
        let call = match algorithm.takes(rank.world) {
            true => self.good(),
            false => Call { algorithm: Algorithm::TwoShot, input: InputMode::Copied, ..self.good() },
        };
        (0..5).try_for_each(|number| rank.call(call, number)).map_err(|error| format!("a call: {error}"))
    }
}

/// Whether two errors say the same. Of calls that differ more may be known later, of ranks that came meanwhile.
fn same(one: &Error, other: &Error) -> bool {
    match (one, other) {
        (Error::Disagreement { what: one, .. }, Error::Disagreement { what: other, .. }) => one == other,
        (one, other) => one.to_string() == other.to_string(),
    }
}

/// Joins a thread after something else was done here.
trait JoinWith<T> {
    fn join_with(self, meanwhile: impl FnOnce()) -> T;
}

impl<T> JoinWith<T> for std::thread::ScopedJoinHandle<'_, T> {
    fn join_with(self, meanwhile: impl FnOnce()) -> T {
        meanwhile();
        self.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
