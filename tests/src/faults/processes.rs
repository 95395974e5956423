//! Cells whose ranks are processes: killed, stopped for a while, or leaving. A program runs itself once more for each rank.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use allfold::rendezvous::Unix;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{Cell, Facts, Ground, KILLED, Report, Watchdog};
use crate::meet::{Case, Ended, Guest, tell};
use crate::soft;

/// After so long in a cell a rank says that it is stuck, and ends.
pub const RANK_STUCK: Duration = Duration::from_secs(45);
/// After so long it is killed.
const LIMIT: Duration = Duration::from_secs(50);
/// More than a deadline that an error may come after a process was killed, where the end of a process with a GPU is waited for.
const AFTER_DEADLINE: Duration = Duration::from_millis(100);
/// The same after the kill itself, on the CPU: whoever is left hears of it at once.
const AFTER_KILL: Duration = Duration::from_secs(2);
/// What a rank says of what it got.
const GOT: &str = "got";

/// Runs the cell on the rank of `seat`, a process.
///
/// # Errors
/// As [`Cell::run`].
///
/// # Panics
/// When the victim is no process of this host.
pub fn run_rank(cell: Cell, seat: &Unix, ground: Ground) -> Result<Option<Facts>> {
    let pids = tell(seat, &std::process::id().to_string());
    let victim = pids[cell.victim as usize].parse().ok().and_then(Pid::from_raw).expect("a process");
    let signal = |name: &str| {
        let signal = if name == "STOP" { Signal::STOP } else { Signal::CONT };
        kill_process(victim, signal).expect("it is there");
    };
    let facts = cell.run(seat, ground, Some(&signal), &mut Vec::new())?;
    soft::blameless()?;
    Ok(facts)
}

/// This process as a rank of one of `cells`, if it is one; on what `grounds` say in turn. True: it got what it must.
pub fn as_rank(cells: &[Cell], grounds: &[Ground], watchdog: &Watchdog) -> Option<bool> {
    let (Case(_, number), guest) = Guest::own()?;
    let run = || {
        let cell = *cells.get(number as usize).context("no such cell")?;
        let ground = grounds[guest.rank as usize % grounds.len()];
        watchdog.during(&format!("{cell:?}"), || run_rank(cell, &guest.join_all(Instant::now() + LIMIT)?, ground))
    };
    match run() {
        Ok(facts) => {
            if let Some(Facts { right, late, at, took }) = facts {
                println!("{GOT} {right} {} {} {}", late.as_nanos(), at.as_nanos(), took.as_nanos());
            }
            Some(true)
        }
        Err(error) => {
            println!("{error:#}");
            Some(false)
        }
    }
}

/// Runs `cells`, several at a time, by this program with `arguments`, until `end`.
pub fn run_all(
    cells: &[Cell],
    ground: Ground,
    arguments: &[&str],
    at_once: usize,
    end: Instant,
    report: &Report,
    watchdog: &Watchdog,
) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&cell) = cells.get(number) else { break };
                    if Instant::now() > end || report.gives_up() {
                        report.not_run(1);
                        continue;
                    }
                    report.run(watchdog, cell.fault.name(), &format!("{cell:?}"), || {
                        let killed = cell.fault.kills().then_some(cell.victim);
                        let ended = crate::meet::run(arguments, Case(cell.world, number as u32), killed, LIMIT);
                        let (facts, killed) = facts(ended)?;
                        if !cell.fault.kills() {
                            return Ok(facts);
                        }
                        let killed = killed.context("no process has said that it is killed now")?;
                        let most = match ground {
                            Ground::Cpu => AFTER_KILL,
                            Ground::Gpu(_) => cell.fault.timeout(ground) + AFTER_DEADLINE,
                        };
                        for fact in facts.iter().filter(|fact| !fact.right) {
                            // Or since it waits.
                            let took = fact.at.saturating_sub(killed).min(fact.took);
                            report.after_kill(took);
                            ensure!(took <= most, "an error {took:?} after a kill, later than {most:?}");
                        }
                        Ok(facts)
                    });
                }
            });
        }
    });
}

/// What the ranks of a cell say they got, and when one was killed.
fn facts(ended: Ended) -> Result<(Vec<Facts>, Option<Duration>)> {
    ensure!(ended.failures.is_empty(), "{}", ended.failures.trim());
    let (mut facts, mut killed) = (Vec::new(), None);
    for line in ended.said.iter().flat_map(|said| said.lines()) {
        let nanos = |word: &str| word.parse().map(Duration::from_nanos).with_context(|| line.to_owned());
        if let Some(rest) = line.strip_prefix(KILLED) {
            killed = Some(nanos(rest.trim())?);
        }
        if let Some(rest) = line.strip_prefix(GOT) {
            let words: Vec<_> = rest.split_whitespace().collect();
            let [right, late, at, took] = words[..] else { bail!("{line}") };
            facts.push(Facts { right: right == "true", late: nanos(late)?, at: nanos(at)?, took: nanos(took)? });
        }
    }
    ensure!(!facts.is_empty(), "no rank says what it got");
    Ok((facts, killed))
}
