//! `allfold launch`: a process for each rank, each told which it is; when one fails, the others end.
//!
//! | file | what |
//! |---|---|
//! | `environment.rs` | what the processes are told |
//! | `ranks.rs`, `process.rs` | the processes: started, looked at, given signals |
//! | `lines.rs` | what they write, with the rank before each line |
//! | `signals.rs` | what this program gets, and passes on |

mod environment;
mod lines;
mod process;
mod ranks;
mod signals;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use crate::Verdict;
use crate::args::LaunchArgs;
use crate::output::say;
use environment::Environment;
use process::Ended;
use ranks::Ranks;

/// How long others are heard of when one has failed, before any is called the first: who fails because a peer has gone may
/// be seen before that peer, whose connections end before it is seen to have ended.
const TOGETHER: Duration = Duration::from_millis(100);

/// Runs the program on every rank, to the end.
pub fn run(args: &LaunchArgs) -> Result<Verdict> {
    // Before there is a process to hear of.
    let news = signals::listen().context("listening for signals")?;
    let environment = Environment::new(args.ranks)?;
    let mut ranks = Ranks::start(&args.program, &environment)?;
    let failed = in_order(watch(&mut ranks, &news, Duration::from_secs(args.grace)));
    let written = ranks.end(&news).context("writing what the ranks wrote");
    let Some((rank, first)) = failed.first() else { return written.map(|()| Verdict::Right) };
    let others = failed[1..].iter().map(|(rank, ended)| format!("; then rank {rank}: {ended}"));
    say(&format!("rank {rank} failed first: {first}{}\n", others.collect::<String>()));
    if let Err(error) = written {
        say(&format!("error: {error:#}\n"));
    }
    Ok(Verdict::Ended(first.code()))
}

/// Those that failed together, the likely first before the others. A code is often what a rank ends with when a peer has
/// gone, a signal seldom: but for SIGPIPE, which a rank gets for writing to one that has.
fn in_order(mut failed: Vec<(u32, Ended)>) -> Vec<(u32, Ended)> {
    let pipe = Ended::Signal(Signal::PIPE.as_raw());
    failed.sort_by_key(|(_, ended)| match ended {
        ended if *ended == pipe => 2,
        Ended::Signal(_) => 0,
        Ended::Code(_) | Ended::Unknown => 1,
    });
    failed
}

/// Waits for all ranks. Gives those that failed together with the first, as they were seen.
fn watch(ranks: &mut Ranks, news: &Receiver<i32>, grace: Duration) -> Vec<(u32, Ended)> {
    let mut failed = Vec::new();
    // When those that failed together have been heard of; `None`: they have, or none has failed.
    let mut heard_at = None;
    let mut kill_at = None;
    // Whether somebody has asked the ranks to end. They do so in their own way, and are not asked twice.
    let mut asked = false;
    loop {
        let more = ranks.look();
        if failed.is_empty() && !more.is_empty() {
            heard_at = Some(Instant::now() + TOGETHER);
        }
        if heard_at.is_some() {
            failed.extend(more);
        }
        if ranks.all_ended() {
            return failed;
        }
        let now = Instant::now();
        if heard_at.is_some_and(|at| at <= now) {
            heard_at = None;
            if !asked {
                ranks.signal(Signal::TERM);
            }
            kill_at.get_or_insert(now + grace);
        }
        if kill_at.is_some_and(|at| at <= now) {
            ranks.signal(Signal::KILL);
            kill_at = None;
        }
        let heard = match heard_at.into_iter().chain(kill_at).min() {
            Some(at) => news.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match heard {
            Ok(SIGINT | SIGTERM) if asked => ranks.signal(Signal::KILL),
            Ok(signal) => {
                // Not what says that a process has ended.
                if let Some(signal) = Signal::from_named_raw(signal).filter(|signal| *signal != Signal::CHILD) {
                    ranks.signal(signal);
                }
                if signal == SIGTSTP {
                    // It fails for signals alone that it does not know.
                    let _ = emulate_default_handler(signal);
                } else if [SIGINT, SIGTERM].contains(&signal) {
                    asked = true;
                    kill_at.get_or_insert(Instant::now() + grace);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody listens for signals any more: look from time to time.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_died_of_a_signal_is_the_likely_first() {
        let (code, fault, pipe) = (Ended::Code(1), Ended::Signal(11), Ended::Signal(13));
        assert_eq!(in_order(vec![(0, code), (2, fault), (1, fault)]), [(2, fault), (1, fault), (0, code)]);
        assert_eq!(in_order(vec![(3, pipe), (1, code), (0, code)]), [(1, code), (0, code), (3, pipe)]);
        assert!(in_order(Vec::new()).is_empty());
    }
}
