//! `allfold stress`: many calls on stamps, with planted delays, and the story of the first wrong sum.
//!
//! | file | what |
//! |---|---|
//! | `cells.rs` | which protocols, algorithms and inputs are run |
//! | `settings.rs` | the command line made into what is run |
//! | `calls.rs` | the calls of one cell: each input is rewritten at once after its call, without the host in between |
//! | `traffic.rs` | copies beside the calls |
//! | `story.rs` | what a wrong element tells |
//! | `report.rs` | results made into text |
//! | `mixed/` | instead of cells: calls of all kinds, drawn from a seed |

mod calls;
mod cells;
mod mixed;
mod report;
mod settings;
mod story;
mod traffic;

use std::time::Instant;

use anyhow::{Context, Result};

use crate::Verdict;
use crate::args::StressArgs;
use crate::gpus::Gpus;
use crate::output::{is_stdout, print, say, write};
use crate::progress::Progress;
use crate::target::Target;
use report::{Report, Row};
use settings::Settings;

/// Runs the cells, prints and writes what came out.
pub fn run(args: &StressArgs) -> Result<Verdict> {
    if args.mixed {
        return mixed::run(args);
    }
    let settings = Settings::new(args)?;
    for note in settings.notes() {
        say(&format!("note: {note}\n"));
    }
    let mut report = settings.report();
    // What was run until then is printed also where a cell fails.
    let done = stress(&settings, &mut report);
    if done.is_ok() || !report.rows.is_empty() {
        let text = report.text();
        if is_stdout(&args.json) || is_stdout(&args.markdown) {
            say(&text);
        } else {
            print(&text)?;
        }
        write(&args.json, || Ok(report.json()?))?;
        write(&args.markdown, || Ok(report.markdown()))?;
    }
    done?;
    Ok(if report.refuted() == 0 { Verdict::Right } else { Verdict::Wrong })
}

fn stress(settings: &Settings, report: &mut Report) -> Result<()> {
    let start = Instant::now();
    let gpus = match &settings.target {
        Target::Cpu { .. } => None,
        Target::Cuda { devices } => Some(Gpus::new(devices)?),
    };
    let progress = Progress::new(settings.cells.len() as u64);
    for cell in &settings.cells {
        progress.doing(cell.in_words());
        let outcome = calls::run(settings, cell, gpus.as_ref()).with_context(|| cell.in_words())?;
        report.rows.push(Row::new(cell, settings, &outcome));
        report.seconds = start.elapsed().as_secs_f64();
        progress.step();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn report(line: &str) -> Report {
        let words = ["allfold", "stress", "--backend", "cpu"].into_iter().chain(line.split_whitespace());
        let Command::Stress(args) = Args::parse_from(words).command else { panic!("asked for stress") };
        let settings = Settings::new(&args).expect("possible");
        let mut report = settings.report();
        stress(&settings, &mut report).expect("runs");
        report
    }

    #[test]
    fn our_own_protocol_is_right_on_the_cpu() {
        let report = report("--calls 200 --ranks 2 --bytes 4K");
        assert_eq!(report.rows.len(), allfold::Algorithm::ALL.len(), "every algorithm");
        for row in &report.rows {
            assert!(row.sound && row.wrong == 0 && row.gave_up.is_none() && row.calls == 200, "{row:?}");
        }
        assert_eq!(report.refuted(), 0);
    }

    #[test]
    fn a_doubtful_cell_is_run_and_reported_and_refutes_nothing() {
        let report = report(
            "--calls 50 --ranks 2 --bytes 1K --algo one-shot --input copied --start multi-gpu --order volatile --end none",
        );
        let [row] = &report.rows[..] else { panic!("{:?}", report.rows) };
        assert_eq!((row.sound, row.verdict.as_str(), row.calls), (false, "not known", 50));
        assert_eq!(report.refuted(), 0);
        assert!(report.text().contains("multi-gpu"), "{}", report.text());
    }

    #[test]
    fn every_cell_of_the_matrix_can_be_run() {
        let report = report("--matrix --calls 5 --ranks 2 --bytes 512 --delay-one-in 8");
        assert_eq!(report.rows.len(), 96);
        assert!(report.rows.iter().any(|row| row.sound) && report.rows.iter().any(|row| !row.sound));
        assert_eq!(report.refuted(), 0);
    }
}
