//! What came of cells: a line for each kind, and one for all.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;

use super::{Facts, Watchdog};
use crate::soft;

/// After so many failures one after the other nothing more is to be learned: as when a GPU is lost.
const GIVES_UP: usize = 8;
/// Failures whose reasons are told at once.
const TOLD: usize = 20;

/// A kind of fault.
struct Kind {
    name: String,
    cells: usize,
    failed: usize,
    right: usize,
    errors: usize,
    late: Duration,
    /// The cell of that.
    latest: String,
}

#[derive(Default)]
struct State {
    kinds: Vec<Kind>,
    in_a_row: usize,
    not_run: usize,
    /// From each kill of a process to the error of another.
    after_kill: Vec<Duration>,
    failures: Vec<String>,
    notes: Vec<String>,
}

/// A report that grows.
#[derive(Default)]
pub struct Report {
    state: Mutex<State>,
    /// What the cells have in their names that are run.
    filter: Option<String>,
}

/// What a report says.
pub struct Lines {
    /// All of it, to be printed.
    pub text: String,
    /// Cells that were run.
    pub cells: usize,
    /// Those that failed, each with its reason.
    pub failures: Vec<String>,
    /// Those that were not run.
    pub not_run: usize,
}

impl Report {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of those cells whose kind or name contains this.
    pub fn of(filter: Option<&str>) -> Report {
        Report { filter: filter.map(str::to_owned), ..Report::default() }
    }

    /// Whether a cell is wanted.
    pub fn wants(&self, kind: &str, cell: &str) -> bool {
        self.filter.as_ref().is_none_or(|part| kind.contains(part) || cell.contains(part))
    }

    /// Runs a cell of `kind`, and notes what its ranks got, or why it failed. False: it is not among those that are wanted.
    pub fn run(&self, watchdog: &Watchdog, kind: &str, cell: &str, run: impl FnOnce() -> Result<Vec<Facts>>) -> bool {
        let wanted = self.wants(kind, cell);
        if wanted {
            let done = watchdog.during(&format!("{kind}: {cell}"), run);
            let blameless = soft::blameless();
            self.add(kind, cell, done.and_then(|facts| blameless.map(|()| facts)));
        }
        wanted
    }

    /// Notes a cell of `kind`: what its ranks got, or why it failed.
    pub fn add(&self, kind: &str, cell: &str, done: Result<Vec<Facts>>) {
        let mut state = self.lock();
        let at = match state.kinds.iter().position(|known| known.name == kind) {
            Some(at) => at,
            None => {
                let name = kind.to_owned();
                state.kinds.push(Kind {
                    name,
                    cells: 0,
                    failed: 0,
                    right: 0,
                    errors: 0,
                    late: Duration::ZERO,
                    latest: String::new(),
                });
                state.kinds.len() - 1
            }
        };
        let known = &mut state.kinds[at];
        known.cells += 1;
        match done {
            Ok(facts) => {
                known.right += facts.iter().filter(|fact| fact.right).count();
                known.errors += facts.iter().filter(|fact| !fact.right).count();
                // A result that is right comes when it comes.
                let late = facts.iter().filter(|fact| !fact.right).map(|fact| fact.late).max();
                if let Some(late) = late.filter(|late| *late > known.late) {
                    (known.late, known.latest) = (late, cell.to_owned());
                }
                state.in_a_row = 0;
            }
            Err(error) => {
                known.failed += 1;
                let line = format!("{kind}: {cell}: {error:#}");
                if state.failures.len() < TOLD {
                    println!("FAILED {line}");
                }
                state.failures.push(line);
                state.in_a_row += 1;
            }
        }
    }

    /// Notes how long after the kill of a process another one had its error.
    pub fn after_kill(&self, took: Duration) {
        self.lock().after_kill.push(took);
    }

    /// Notes cells that were not run, since there was no time left.
    pub fn not_run(&self, count: usize) {
        self.lock().not_run += count;
    }

    /// Something more that is to be said.
    pub fn note(&self, line: String) {
        self.lock().notes.push(line);
    }

    /// Whether so many have failed one after the other that there is no use in going on.
    pub fn gives_up(&self) -> bool {
        self.lock().in_a_row >= GIVES_UP
    }

    /// What there is to say so far.
    pub fn lines(&self) -> Lines {
        let state = self.lock();
        let mut text = String::new();
        for kind in &state.kinds {
            let Kind { name, cells, failed, right, errors, late, .. } = kind;
            let _ = writeln!(
                text,
                "{name:32} {cells:5} cells {failed:4} failed {right:6} right {errors:6} errors, {:.1} ms late at most",
                late.as_secs_f64() * 1e3
            );
        }
        state.notes.iter().for_each(|note| text.extend([note, "\n"]));
        let sum = |of: fn(&Kind) -> usize| state.kinds.iter().map(of).sum::<usize>();
        let (cells, failed) = (sum(|kind| kind.cells), sum(|kind| kind.failed));
        let latest = state.kinds.iter().max_by_key(|kind| kind.late).filter(|kind| kind.late > Duration::ZERO);
        if let Some(kind) = latest {
            let _ = writeln!(text, "the latest error: {}: {}", kind.name, kind.latest);
        }
        let late = latest.map_or(Duration::ZERO, |kind| kind.late);
        let _ = write!(text, "faults: {cells} cells, {failed} failed");
        if state.not_run > 0 {
            let _ = write!(text, ", {} NOT RUN", state.not_run);
        }
        let _ = write!(text, "; an error came {:.1} ms after its deadline at most", late.as_secs_f64() * 1e3);
        if let Some(most) = state.after_kill.iter().max() {
            let mut sorted = state.after_kill.clone();
            sorted.sort();
            let (count, median) = (sorted.len(), sorted[sorted.len() / 2]);
            let _ = write!(
                text,
                "; {:.1} ms after a SIGKILL, the median of {count} {:.1} ms",
                most.as_secs_f64() * 1e3,
                median.as_secs_f64() * 1e3
            );
        }
        text.push('\n');
        Lines { text, cells, failures: state.failures.clone(), not_run: state.not_run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_by_kind_and_says_what_was_late_and_what_was_not_run() {
        let report = Report::default();
        let fact =
            |right, late| Facts { right, late: Duration::from_millis(late), at: Duration::ZERO, took: Duration::ZERO };
        report.add("late", "one", Ok(vec![fact(true, 900), fact(false, 7)]));
        report.add("gone", "two", Ok(vec![fact(false, 12)]));
        report.add("late", "three", Err(anyhow::anyhow!("why")));
        report.not_run(5);
        [30, 10, 20].into_iter().for_each(|ms| report.after_kill(Duration::from_millis(ms)));
        let Lines { text, cells, failures, not_run } = report.lines();
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("late") && lines[0].contains("2 cells    1 failed      1 right      1 errors, 7.0 ms")
        );
        assert_eq!(lines[2], "the latest error: gone: two");
        assert_eq!(
            lines[3],
            "faults: 3 cells, 1 failed, 5 NOT RUN; an error came 12.0 ms after its deadline at most; 30.0 ms after a \
             SIGKILL, the median of 3 20.0 ms"
        );
        assert_eq!((cells, failures, not_run), (3, vec!["late: three: why".to_owned()], 5));
        assert!(!report.gives_up());
        (0..GIVES_UP).for_each(|_| report.add("late", "four", Err(anyhow::anyhow!("why"))));
        assert!(report.gives_up());
    }
}
