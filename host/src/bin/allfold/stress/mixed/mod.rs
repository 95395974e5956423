//! `allfold stress --mixed`: calls of all kinds by one communicator, drawn from a seed, every element of each checked.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | the command line made into what is run, and back |
//! | `batch.rs` | calls that are made together, and the order of what is done for them |
//! | `draw.rs` | which calls a seed gives |
//! | `memory.rs` | where their inputs and outputs lie |
//! | `run.rs` | the calls made, on CPU ranks and on GPUs alike, and looked at |
//! | `report.rs` | results made into text |

mod batch;
mod draw;
mod memory;
mod report;
mod run;
mod settings;

use anyhow::Result;

use crate::Verdict;
use crate::args::StressArgs;
use crate::output::{is_stdout, print, say, write};
use settings::Settings;

/// Makes the calls, prints and writes what came out.
pub fn run(args: &StressArgs) -> Result<Verdict> {
    let settings = Settings::new(args)?;
    // The seed before all else: should this never end, it is known.
    for note in settings.notes() {
        say(&format!("note: {note}\n"));
    }
    let mut report = settings.report();
    let done = run::run(&settings, &mut report);
    if done.is_ok() || report.counts.calls > 0 {
        let text = report.text();
        if is_stdout(&args.json) {
            say(&text);
        } else {
            print(&text)?;
        }
        write(&args.json, || Ok(report.json()?))?;
    }
    done?;
    Ok(if report.wrong == 0 { Verdict::Right } else { Verdict::Wrong })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
