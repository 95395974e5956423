//! Cells of two ranks that are processes and stay: each runs all cells, one after the other, and the two meet anew for each. So nothing
//! but what is between processes ties them together, and no process has to start for a cell.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::{Cell, Facts, Ground, Report, Watchdog};
use crate::meet::{Case, Ended, Guest, run, tell};
use crate::soft;

/// The number of such a run, which no cell has.
const RUN: u32 = u32::MAX;
/// Ranks wait so long for each other between two cells: longer than any cell takes.
const MEETING: Duration = Duration::from_secs(45);
/// After so much more time than cells are begun in, a rank says where it is stuck, and ends.
pub const RANK_STUCK: Duration = Duration::from_secs(50);
/// After so much more it is killed.
const MORE: Duration = Duration::from_secs(55);

/// This process as one of the two ranks, if it is one, on what `grounds` say.
pub fn as_rank(cells: &[Cell], grounds: &[Ground], end: Instant, report: &Report, watchdog: &Watchdog) -> Option<bool> {
    let (case, guest) = Guest::own().filter(|(case, _)| *case == Case(2, RUN))?;
    let wanted = |cell: &Cell| report.wants(cell.fault.name(), &format!("{cell:?}"));
    let ground = grounds[guest.rank as usize % grounds.len()];
    // Kept, so that no cell has to make the context.
    let _memory = ground.memory(16);
    for (number, cell) in cells.iter().enumerate().filter(|(_, cell)| wanted(cell)) {
        let seat = match guest.join_at(&format!("socket-{number}"), Instant::now() + MEETING) {
            Ok(seat) => seat,
            Err(error) => {
                println!("cell {number} failed the ranks of {case:?} did not meet: {error}");
                return Some(false);
            }
        };
        // Both end at the same cell.
        let word = if Instant::now() > end { "end" } else { "on" };
        if tell(&seat, word).iter().any(|word| word == "end") {
            break;
        }
        let got = watchdog.during(&format!("{cell:?}"), || cell.run(&seat, ground, None, &mut Vec::new()));
        match got.and_then(|facts| soft::blameless().map(|()| facts)) {
            Ok(None) => println!("cell {number} gone"),
            Ok(Some(Facts { right, late, at, took })) => {
                println!("cell {number} got {right} {} {} {}", late.as_nanos(), at.as_nanos(), took.as_nanos());
            }
            Err(error) => println!("cell {number} failed {}", format!("{error:#}").replace('\n', " ")),
        }
    }
    Some(true)
}

/// Runs `cells` by two processes of this program with `arguments`, as long as `seconds` say.
///
/// # Errors
/// A process did not end well.
pub fn run_all(cells: &[Cell], arguments: &[&str], seconds: Duration, report: &Report) -> Result<()> {
    let Ended { said, failures } = run(arguments, Case(2, RUN), None, seconds + MORE);
    for (number, cell) in cells.iter().enumerate() {
        let named = format!("{cell:?}");
        if !report.wants(cell.fault.name(), &named) {
            continue;
        }
        let start = format!("cell {number} ");
        let words: Vec<_> = said.iter().map(|said| said.lines().find_map(|line| line.strip_prefix(&*start))).collect();
        if words.iter().all(Option::is_none) {
            report.not_run(1);
            continue;
        }
        let ranks =
            (0..).zip(words).map(|(rank, word)| facts(word.with_context(|| format!("rank {rank} has said nothing"))?));
        let done: Result<Vec<_>> = ranks.collect();
        report.add(cell.fault.name(), &named, done.map(|facts| facts.into_iter().flatten().collect()));
    }
    if failures.is_empty() { Ok(()) } else { Err(anyhow!("{failures}")) }
}

fn facts(word: &str) -> Result<Option<Facts>> {
    let words: Vec<_> = word.split_whitespace().collect();
    let nanos = |word: &str| word.parse().map(Duration::from_nanos).with_context(|| word.to_owned());
    match words[..] {
        ["gone"] => Ok(None),
        ["got", right, late, at, took] => {
            Ok(Some(Facts { right: right == "true", late: nanos(late)?, at: nanos(at)?, took: nanos(took)? }))
        }
        _ => bail!("{word}"),
    }
}
