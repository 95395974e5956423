//! The program: parse, match, and what the exit code is. Each command has a folder of its own.
//!
//! | exit code | means |
//! |---|---|
//! | 0 | done; every result was right |
//! | 1 | a result was wrong, also of a self-test, or a rank gave up waiting for another; in a stress run: though its protocol is known to be sound |
//! | 2 | it could not be done as asked |
//! | any | of `launch`: what the rank that failed first ended with, 128 and the signal where it was one; 2 where that is not known |

mod args;
mod bench;
mod choice;
mod doctor;
mod gate;
mod gpus;
mod here;
mod launch;
mod mix;
mod nccl;
mod output;
mod pairs;
mod progress;
mod stats;
mod stress;
mod table;
mod target;
mod trace;
mod tune;

use std::process::ExitCode;

use clap::Parser;
use tracing::level_filters::LevelFilter;

use args::{Args, Command};

/// How a command that ran to its end went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    /// A program that was launched ended with this.
    Ended(u8),
}

fn main() -> ExitCode {
    let args = Args::parse();
    // Eight ranks on one GPU need more than the usual eight hardware queues.
    let ours = !matches!(args.command, Command::Launch(_));
    for (name, value) in [("CUDA_DEVICE_MAX_CONNECTIONS", "32"), nccl::NVLS] {
        // A program that is launched gets what its user has set.
        if ours && std::env::var_os(name).is_none() {
            // SAFETY: no other thread runs yet.
            unsafe { std::env::set_var(name, value) };
        }
    }
    let level = match args.verbose {
        0 => LevelFilter::ERROR,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // What it could not write it would say where it could not write, and panic.
    let log = tracing_subscriber::fmt().with_max_level(level).log_internal_errors(false);
    log.with_target(false).with_writer(std::io::stderr).init();
    let done = match args.command {
        Command::Bench(args) => bench::run(&args),
        Command::Stress(args) => stress::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Launch(args) => launch::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    };
    match done {
        Ok(Verdict::Right) => ExitCode::SUCCESS,
        Ok(Verdict::Wrong) => ExitCode::from(1),
        Ok(Verdict::Ended(code)) => ExitCode::from(code),
        Err(error) => {
            output::say(&in_words(&error));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// The error, and each cause on a line of its own unless the line above has said it already.
fn in_words(error: &anyhow::Error) -> String {
    let mut said = format!("error: {error}");
    let mut text = said.clone();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&cause) {
            text += &format!("\n  cause: {cause}");
            said = cause;
        }
    }
    text + "\n"
}

fn exit_code(error: &anyhow::Error) -> u8 {
    use allfold::Error;
    let gave_up = |e: &(dyn std::error::Error + 'static)| {
        matches!(
            e.downcast_ref(),
            Some(
                Error::Timeout { .. }
                    | Error::PeerGone { .. }
                    | Error::Disagreement { .. }
                    | Error::Aborted { .. }
                    | Error::SelfTest { .. }
            )
        )
    };
    if error.chain().any(gave_up) { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let error = Err::<(), _>(allfold::Error::LaunchBlocking).context("1K bf16").expect_err("an error");
        let text = in_words(&error);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.starts_with("error: 1K bf16\n  cause: CUDA_LAUNCH_BLOCKING"), "{text}");
        let error = Err::<(), _>(anyhow::anyhow!("no driver")).context("GPU 0: no driver").expect_err("an error");
        assert_eq!(in_words(&error), "error: GPU 0: no driver\n");
    }

    #[test]
    fn a_refusal_is_2_and_a_rank_that_gave_up_is_1() {
        let refused = anyhow::Error::from(allfold::Error::WorldSize { world: 9 }).context("a bench");
        assert_eq!(exit_code(&refused), 2);
        let phase = allfold::Phase::Start;
        let gave_up = allfold::Error::Timeout {
            waiting_rank: 0,
            missing: vec![1],
            phase,
            block: 0,
            epoch: 7,
            waited: std::time::Duration::from_secs(1),
        };
        assert_eq!(exit_code(&anyhow::Error::from(gave_up).context("a bench")), 1);
    }
}
