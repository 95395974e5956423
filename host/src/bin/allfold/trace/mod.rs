//! `allfold trace`: a few calls, and when each block of each rank came where.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | the command line made into what is run |
//! | `calls.rs` | the calls, and some before them by which clocks are set |
//! | `clocks.rs` | how far the ranks' clocks are apart, by what came from one to the other |
//! | `late.rs` | of each call, who came last and who waited for it |
//! | `picture.rs` | the trace as a browser shows it |
//! | `report.rs` | results made into text |

mod calls;
mod clocks;
mod late;
mod picture;
mod report;
mod settings;

use anyhow::Result;

use crate::Verdict;
use crate::args::TraceArgs;
use crate::output::{is_stdout, print, say, write};
use clocks::Clocks;
use report::Report;
use settings::Settings;

/// Makes the calls, prints who was late, and writes the picture.
pub fn run(args: &TraceArgs) -> Result<Verdict> {
    let settings = Settings::new(args)?;
    settings.chosen.iter().for_each(|note| say(&format!("note: {note}\n")));
    let traced = calls::run(&settings)?;
    let clocks = Clocks::set(&traced.before, &settings.clocks());
    let report = Report::new(&settings, clocks.apply(&traced.calls), &clocks);
    // A call that came to a bad end is what one most wants to see.
    let output = Some(args.output.clone());
    write(&output, || Ok(picture::json(&report)?))?;
    let text = report.text(&args.output);
    if is_stdout(&output) {
        say(&text)
    } else {
        print(&text)?
    }
    traced.done?;
    Ok(if traced.wrong == 0 { Verdict::Right } else { Verdict::Wrong })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn settings(line: &str) -> Result<Settings> {
        let words = ["allfold", "trace", "--backend", "cpu"].into_iter().chain(line.split_whitespace());
        let Command::Trace(args) = Args::try_parse_from(words)?.command else { panic!("asked for a trace") };
        Settings::new(&args)
    }

    #[test]
    fn each_algorithm_is_traced_on_the_cpu() {
        for (line, phases) in [
            ("--algo one-shot", vec!["start", "end"]),
            ("--algo two-shot", vec!["start", "middle"]),
            ("--algo one-shot-push", vec!["landing"]),
            ("--algo two-shot-push", vec!["landing", "middle"]),
            ("--algo one-pass", vec!["start", "end"]),
            ("--algo exchange", vec!["start", "middle", "end"]),
        ] {
            let settings = settings(&format!("--ranks 2 --calls 3 --bytes 4K {line}")).expect("possible");
            let traced = calls::run(&settings).expect("it runs");
            traced.done.as_ref().expect("all came");
            assert_eq!((traced.wrong, traced.calls.len()), (0, 3 * 2 * 2), "{line}");
            let clocks = Clocks::set(&traced.before, &settings.clocks());
            let report = Report::new(&settings, clocks.apply(&traced.calls), &clocks);
            let mut seen: Vec<_> =
                report.calls.iter().flat_map(|call| &call.phases).map(|at| at.phase.name()).collect();
            seen.truncate(seen.len() / 3);
            assert_eq!(seen, phases, "{line}");
            let picture: serde_json::Value =
                serde_json::from_str(&picture::json(&report).expect("it can be written")).expect("it is JSON");
            let events = picture["traceEvents"].as_array().expect("there are events");
            let calls = events.iter().filter(|event| event["cat"] == "call").count();
            assert_eq!(calls, 3 * 2 * 2, "{line}");
        }
    }

    #[test]
    fn calls_that_came_to_a_bad_end_are_shown_as_far_as_they_came() {
        // Everybody is late, always, and nobody waits so long.
        let line = "--ranks 2 --bytes 4K --algo one-shot --delay-ns 1000000 --delay-one-in 1 --timeout 0.0005";
        let traced = calls::run(&settings(line).expect("possible")).expect("there is something to show");
        assert!(traced.done.is_err() && !traced.calls.is_empty(), "{:?}", traced.done);
    }

    #[test]
    fn what_cannot_be_traced_is_refused() {
        for line in ["--ranks 1", "--bytes 1", "--graph", "--calls 101", "--calls 0", "--ranks 3 --algo exchange"] {
            let outcome = settings(line).and_then(|settings| calls::run(&settings));
            assert!(outcome.is_err(), "{line}");
        }
    }
}
