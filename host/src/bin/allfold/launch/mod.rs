//! `allfold launch`: a process for each rank, each told which it is; when one fails, the others end.
//!
//! | file | what |
//! |---|---|
//! | `environment.rs` | what the processes are told |
//! | `ranks.rs` | the processes: started, looked at, given signals |
//! | `lines.rs` | what they write, with the rank before each line |

mod environment;
mod lines;
mod ranks;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Verdict;
use crate::args::LaunchArgs;
use environment::Environment;
use ranks::{Ended, Ranks};

/// Runs the program on every rank, to the end.
pub fn run(args: &LaunchArgs) -> Result<Verdict> {
    // Before there is a process to hear of.
    let news = signals().context("listening for signals")?;
    let mut ranks = Ranks::start(&args.program, &Environment::new(args.ranks)?)?;
    let first = watch(&mut ranks, &news, Duration::from_secs(args.grace));
    ranks.end();
    let Some((rank, ended)) = first else { return Ok(Verdict::Right) };
    eprintln!("rank {rank} failed first: {ended}");
    Ok(Verdict::Ended(ended.code()))
}

/// Signals as they come: those that somebody sends, and that a process has ended.
fn signals() -> Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM])?;
    let (heard, news) = channel();
    std::thread::Builder::new().name("allfold signals".to_string()).spawn(move || {
        // To the end of the program.
        let _ = signals.forever().try_for_each(|signal| heard.send(signal));
    })?;
    Ok(news)
}

/// Waits for all ranks. Gives the one that failed first.
fn watch(ranks: &mut Ranks, news: &Receiver<i32>, grace: Duration) -> Option<(u32, Ended)> {
    let mut first = None;
    let mut kill_at = None;
    // Whether somebody has asked the ranks to end. They do so in their own way, and are not asked twice.
    let mut asked = false;
    loop {
        let failed = ranks.look();
        if first.is_none() && failed.is_some() {
            first = failed;
            if !asked {
                ranks.signal(Signal::TERM);
            }
            kill_at = Some(Instant::now() + grace);
        }
        if ranks.all_ended() {
            return first;
        }
        let heard = match kill_at {
            Some(at) => news.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match heard {
            Ok(SIGHUP) => ranks.signal(Signal::HUP),
            Ok(signal @ (SIGINT | SIGTERM)) => {
                ranks.signal(if signal == SIGINT { Signal::INT } else { Signal::TERM });
                asked = true;
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                ranks.signal(Signal::KILL);
                kill_at = None;
            }
            // Nobody listens for signals any more: look from time to time.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
