//! One fault, at one place of one run of ranks: what happens, what each rank gets, and that those who are left go on together.
//!
//! Long: the kinds of faults that one run of ranks can have, each beside what it has to come to.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use allfold::rendezvous::Rendezvous;
use allfold::{Algorithm, Dtype, InputMode, Options, SelfTest};
use anyhow::{Context, Result, bail, ensure};

use super::draw::ELEMS;
use super::judge::{Took, same};
use super::kinds::LONG;
use super::rank::{BYTES, Call, Rank};
use super::{Fault, Ground, Phase, RankMemory};

/// Said by a process before it is killed, with the time.
pub const KILLED: &str = "killed at";

/// A fault at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What goes wrong.
    pub fault: Fault,
    /// Where in the run.
    pub phase: Phase,
    /// How all calls are done.
    pub form: (Algorithm, InputMode),
    /// How many ranks there are.
    pub world: u32,
    /// Which of them it befalls.
    pub victim: u32,
    /// Of all calls, where that is not the fault.
    pub dtype: Dtype,
    /// Elements of the call of the fault, and of the victim's.
    pub elems: [usize; 2],
    /// Blocks of a rank on the CPU.
    pub blocks: u32,
}

/// What a rank got that is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// A right result, and not an error.
    pub right: bool,
    /// By how much later than its deadline the call ended.
    pub late: Duration,
    /// When it was known, since the epoch of Unix.
    pub at: Duration,
    /// How long the call took then.
    pub took: Duration,
}

/// Now, since the epoch of Unix: a time that all processes of a host have.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Cell {
    /// What its communicator is made for.
    pub fn options(&self, ground: Ground) -> Options {
        let all = Options {
            timeout: Some(self.fault.timeout(ground)),
            inputs: vec![InputMode::Copied, InputMode::Registered],
            capacity_bytes: self.bytes() as u64,
            landing_bytes: Some(2 * self.bytes() as u64),
            cpu_shape: (self.blocks, 1),
            connect_timeout: Duration::from_secs(3),
            // Whatever has passed on this machine so far.
            self_test: if self.phase == Phase::First { SelfTest::Always } else { SelfTest::Never },
            ..Options::for_processes()
        };
        match ground {
            Ground::Cpu => all,
            // A driver compiles what is declared; and old communicators hold blocks beside new ones.
            Ground::Gpu(_) => Options {
                dtypes: match self.dtype.bytes() {
                    2 => vec![Dtype::Bf16, Dtype::F16],
                    _ => vec![Dtype::F32, Dtype::I32],
                },
                max_blocks: Some(8),
                connect_timeout: Duration::from_secs(15),
                ..all
            },
        }
    }

    /// Bytes of a call at most.
    fn bytes(&self) -> usize {
        BYTES.max(self.elems.into_iter().max().unwrap_or(0) * self.dtype.bytes()).next_multiple_of(BYTES)
    }

    /// A call before the fault, or after it.
    fn usual(&self) -> Call {
        let (algorithm, input) = self.form;
        Call { dtype: self.dtype, elems: ELEMS, algorithm, input, grid: None, planned: false }
    }

    /// The call of the fault.
    fn good(&self) -> Call {
        Call { elems: self.elems[0], planned: self.fault == Fault::OtherPlan, ..self.usual() }
    }

    /// The same with the victim's length.
    fn other(&self) -> Call {
        Call { elems: self.elems[1], ..self.good() }
    }

    /// Whether the victim is there at the end, and goes on with the others.
    fn survives(&self) -> bool {
        self.fault != Fault::Dropped && !self.fault.kills()
    }

    /// What the rank of `seat` does and gets; `None`: it is not there any more. `signal` sends one of `"STOP"`, `"CONT"`, `"KILL"` to
    /// the process of the victim, if that is not this one; it is none where ranks are threads. Memory that other ranks of the process
    /// may still reach comes into `kept`, until all of them have done this.
    ///
    /// # Errors
    /// It gets something else than it must, too late, or cannot go on.
    pub fn run(
        &self,
        seat: &dyn Rendezvous,
        ground: Ground,
        signal: Option<&dyn Fn(&str)>,
        kept: &mut Vec<RankMemory>,
    ) -> Result<Option<Facts>> {
        let comm = ground.connect(seat, self.options(ground)).context("connecting")?;
        let mut rank = Rank::new(comm, ground, self.bytes()).context("registering")?;
        let own = rank.rank;
        let said = || format!("rank {own}");
        let mut other = None;
        if self.fault == Fault::OtherTurn {
            let comm = ground.connect(seat, self.options(ground)).context("connecting once more")?;
            other = Some(Rank::new(comm, ground, self.bytes()).context("registering once more")?);
        }
        for number in 0..self.phase.calls() {
            for rank in [&mut rank].into_iter().chain(&mut other) {
                rank.good(self.usual(), number).context("before the fault").with_context(said)?;
            }
        }
        // Which of the two it calls in.
        let first = other.as_mut().filter(|_| own == self.victim).unwrap_or(&mut rank);
        let Some(facts) = self.befalls(first, seat, ground, signal).with_context(said)? else {
            kept.push(rank.leave());
            return Ok(None);
        };
        if self.fault == Fault::OtherTurn {
            // Rebuilding ends what others are still doing.
            seat.barrier(Instant::now() + LONG).context("after the fault")?;
        }
        kept.extend(other.map(Rank::leave));
        self.goes_on(rank, ground, kept).context("after the fault").with_context(said)?;
        Ok(Some(facts))
    }

    /// The fault, and what it comes to.
    fn befalls(
        &self,
        rank: &mut Rank,
        seat: &dyn Rendezvous,
        ground: Ground,
        signal: Option<&dyn Fn(&str)>,
    ) -> Result<Option<Facts>> {
        // What a rank does now is nothing that another still waits for.
        let came = Instant::now();
        seat.barrier(came + LONG).context("before the fault")?;
        let begun = Instant::now();
        let got = match rank.rank == self.victim {
            true => self.victims(rank, ground)?,
            false => Some(self.others(rank, signal)?),
        };
        let Some(got) = got else { return Ok(None) };
        let (took, at) = (Took { call: rank.took, fault: begun.elapsed(), all: came.elapsed() }, now());
        let late = took.call.saturating_sub(self.fault.timeout(ground));
        self.judge(rank.rank, ground, &got, took)?;
        // Said again, of every later call.
        if let Err(error) = &got {
            let again = rank.call(self.usual(), 99)?;
            ensure!(
                again.as_ref().is_err_and(|again| same(again, error)),
                "the next call said {again:?} after {error}"
            );
        }
        // Rebuilding ends what others are still doing.
        if got.is_ok() && self.survives() {
            seat.barrier(Instant::now() + LONG).context("after the fault")?;
        } else if got.is_ok() && self.world > 2 {
            // With one who is gone nobody meets. They came when it was gone already, and know what they get at once.
            std::thread::sleep(Duration::from_millis(300));
        }
        Ok(Some(Facts { right: got.is_ok(), late, at, took: took.call }))
    }

    /// What the victim gets; `None`: it is not there any more.
    fn victims(&self, rank: &mut Rank, ground: Ground) -> Result<Option<allfold::Result<()>>> {
        let number = self.phase.calls();
        let good = self.good();
        let away = ground.timeout() * if ground.is_gpu() { 2 } else { 3 };
        let call = match self.fault {
            Fault::Late => {
                std::thread::sleep(Duration::from_millis(40));
                good
            }
            Fault::Absent => {
                std::thread::sleep(away);
                good
            }
            Fault::OtherTurn => good,
            Fault::Dropped | Fault::Killed => {
                if self.phase == Phase::Within {
                    std::thread::sleep(Duration::from_millis(10));
                }
                if self.fault == Fault::Killed {
                    end_this_process();
                }
                return Ok(None);
            }
            Fault::KilledInCall => {
                std::thread::spawn(|| {
                    std::thread::sleep(Duration::from_millis(30));
                    end_this_process();
                });
                let got = rank.call(good, number)?;
                bail!("it got {got:?}, and was to be killed before");
            }
            Fault::Stopped | Fault::StoppedTooLong => {
                // Stopped meanwhile, and on its way to the call.
                std::thread::sleep(Duration::from_millis(100));
                good
            }
            Fault::Aborts => {
                rank.comm.abort();
                good
            }
            Fault::AbortedFromAside => {
                let aborter = rank.comm.aborter();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    aborter.abort();
                });
                good
            }
            Fault::Longer | Fault::Shorter | Fault::OtherOrder | Fault::OtherPlan => self.other(),
            Fault::OtherDtype => Call { dtype: Dtype::I32, ..good },
            Fault::OtherHalf => Call { dtype: Dtype::F16, ..good },
            Fault::OtherInput if good.input == InputMode::Copied => Call { input: InputMode::Registered, ..good },
            Fault::OtherInput => Call { input: InputMode::Copied, ..good },
            Fault::OtherAlgorithm => {
                let algorithm = match good.algorithm {
                    Algorithm::OneShotPush => Algorithm::TwoShotPush,
                    Algorithm::OneShot
                    | Algorithm::TwoShot
                    | Algorithm::TwoShotPush
                    | Algorithm::OnePass
                    | Algorithm::Exchange => Algorithm::OneShotPush,
                };
                Call { algorithm, ..good }
            }
            Fault::OtherGrid => Call { grid: Some((1, 1)), ..good },
            // The one that is too many is like the others; what comes next is not.
            Fault::OneMore => match rank.call(good, number)? {
                Ok(()) => good,
                // Others were faster, and have found out.
                Err(error) => return Ok(Some(Err(error))),
            },
            // It sends nothing, and nobody hears of it before the next one.
            Fault::Empty => {
                rank.good(Call { elems: 0, ..good }, number).context("an empty call")?;
                self.other()
            }
            Fault::EmptyAlone => {
                rank.good(Call { elems: 0, ..good }, number).context("an empty call")?;
                std::thread::sleep(away);
                good
            }
        };
        rank.call(call, number).map(Some)
    }

    /// What another rank gets.
    fn others(&self, rank: &mut Rank, signal: Option<&dyn Fn(&str)>) -> Result<allfold::Result<()>> {
        let number = self.phase.calls();
        // The lowest of the others sends signals.
        let sends = rank.rank == u32::from(self.victim == 0);
        if let (Fault::Stopped | Fault::StoppedTooLong, Some(signal), true) = (self.fault, signal, sends) {
            // It may be the one where the others meet, which have to hear of it before.
            std::thread::sleep(Duration::from_millis(40));
            signal("STOP");
        }
        if self.fault == Fault::AbortedFromAside {
            // Late themselves: the victim waits for them.
            std::thread::sleep(Duration::from_millis(60));
        }
        if self.fault == Fault::KilledInCall {
            // The same, and it does not live to see them.
            std::thread::sleep(Duration::from_millis(150));
        }
        let got = match (self.fault, signal) {
            (Fault::Stopped | Fault::StoppedTooLong, Some(signal)) => std::thread::scope(|scope| {
                let call = scope.spawn(|| rank.call(self.good(), number));
                std::thread::sleep(Duration::from_secs(2));
                if sends {
                    signal("CONT");
                }
                call.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
            _ => rank.call(self.good(), number),
        }?;
        if self.fault == Fault::OneMore && got.is_ok() {
            // The victim takes the call before for this one.
            return rank.call(self.other(), number + 1);
        }
        Ok(got)
    }

    /// Those who are left make a communicator, which is right.
    fn goes_on(&self, mut rank: Rank, ground: Ground, kept: &mut Vec<RankMemory>) -> Result<()> {
        let survivors: Vec<usize> =
            (0..self.world).filter(|&rank| self.survives() || rank != self.victim).map(|rank| rank as usize).collect();
        let comm = rank.comm.rebuild(&survivors).context("rebuilding")?;
        // The old one goes before any rank uses the new one: nothing of it is needed, and to free memory may wait for all kernels
        // of a process.
        kept.push(rank.leave());
        let mut rank = Rank::new(comm, ground, self.bytes()).context("registering")?;
        let (algorithm, _) = self.form;
        let call = match algorithm.takes(rank.world) {
            true => self.usual(),
            false => Call { algorithm: Algorithm::TwoShot, input: InputMode::Copied, ..self.usual() },
        };
        (0..5).try_for_each(|number| rank.good(call, number))?;
        kept.push(rank.leave());
        Ok(())
    }
}

/// Kills this process, and says when.
fn end_this_process() {
    println!("{KILLED} {}", now().as_nanos());
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}
