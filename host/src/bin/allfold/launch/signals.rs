//! Signals that this program gets, one after the other.

use std::sync::mpsc::{Receiver, channel};

use anyhow::Result;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// What ranks are to get, too.
const PASSED_ON: [i32; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT];

/// Signals as they come: those that somebody sends, and that a process has ended. What this program was started to ignore, as
/// `nohup` starts it, is left alone: the ranks ignore it, too.
pub fn listen() -> Result<Receiver<i32>> {
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let heeded = PASSED_ON.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heeded.chain([SIGCHLD]))?;
    let (heard, news) = channel();
    std::thread::Builder::new().name("allfold signals".to_string()).spawn(move || {
        // To the end of the program.
        let _ = signals.forever().try_for_each(|signal| heard.send(signal));
    })?;
    Ok(news)
}

/// A bit for each signal that `/proc/self/status` says is ignored, from signal 1 on.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read() {
        assert_eq!(ignored("SigBlk:\t00000000000000ff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 0x1001);
        assert_eq!(ignored("SigBlk:\t0\n"), 0);
    }
}
