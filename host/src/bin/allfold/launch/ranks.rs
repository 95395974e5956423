//! The processes of the ranks. Each has a process group of its own, so that a signal reaches what it has started, too. None
//! is reaped before all have ended: so no process number can be another's by then.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::low_level::emulate_default_handler;

use super::environment::Environment;
use super::lines::{self, Output};
use super::process::{Ended, Process, end_with_us};
use crate::output::write_all;

/// How long a signal may lie about while the last output is written.
const PAUSE: Duration = Duration::from_millis(50);

/// The processes, in rank order. What still runs is killed when this is dropped.
pub struct Ranks {
    processes: Vec<Process>,
    /// Closed when all have ended.
    running: Option<PipeWriter>,
    /// What kept their output from being written; it ends when all has been.
    lost: Receiver<io::Error>,
}

impl Ranks {
    /// Starts the program for every rank; if one cannot be started, none is left.
    pub fn start(program: &[OsString], environment: &Environment) -> Result<Ranks> {
        let (copying, lost) = channel();
        let (ended, running) = io::pipe().context("making a pipe")?;
        let ended = Arc::new(ended);
        let mut ranks = Ranks { processes: Vec::new(), running: Some(running), lost };
        let name = program.first().context("no program")?;
        for rank in 0..environment.world() {
            let mut command = Command::new(name);
            command.args(&program[1..]).envs(environment.of(rank));
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
            end_with_us(&mut command);
            let mut child = command.spawn().with_context(|| format!("starting {} as rank {rank}", name.display()))?;
            let (out, err) = (child.stdout.take(), child.stderr.take());
            ranks.processes.push(Process::new(child));
            let out = out.map(|from| Output { from, ranks: Arc::clone(&ended) });
            let err = err.map(|from| Output { from, ranks: Arc::clone(&ended) });
            copy(rank, out, &copying, |line| write_all(io::stdout().lock(), line))?;
            copy(rank, err, &copying, |line| write_all(io::stderr().lock(), line))?;
        }
        Ok(ranks)
    }

    /// Looks which have ended. Gives those that have failed since the last look.
    pub fn look(&mut self) -> Vec<(u32, Ended)> {
        let mut failed = Vec::new();
        for (rank, process) in (0..).zip(&mut self.processes) {
            if process.ended.is_none() {
                process.ended = process.look();
                let ended = process.ended.filter(|ended| *ended != Ended::Code(0));
                failed.extend(ended.map(|ended| (rank, ended)));
            }
        }
        failed
    }

    /// Whether all had ended at the last look.
    pub fn all_ended(&self) -> bool {
        self.processes.iter().all(|process| process.ended.is_some())
    }

    /// Sends a signal to those that run.
    pub fn signal(&self, signal: Signal) {
        self.processes.iter().filter(|process| process.ended.is_none()).for_each(|process| process.signal(signal));
    }

    /// Ends what the ranks have left running, and waits until all that they wrote has been written. There is no limit to that
    /// where whoever reads it is slow: from now on a signal does to this program what it does to others.
    ///
    /// # Errors
    /// Why not all could be written.
    pub fn end(mut self, news: &Receiver<i32>) -> io::Result<()> {
        self.reap();
        drop(self.running.take());
        // What was sent before was for the ranks.
        news.try_iter().for_each(drop);
        let mut written = Ok(());
        loop {
            match self.lost.recv_timeout(PAUSE) {
                Ok(error) => written = written.and(Err(error)),
                Err(RecvTimeoutError::Disconnected) => return written,
                Err(RecvTimeoutError::Timeout) => {}
            }
            // What this program does not know is for the ranks alone.
            for signal in news.try_iter().filter(|signal| ![SIGUSR1, SIGUSR2].contains(signal)) {
                // It fails for signals alone that it does not know.
                let _ = emulate_default_handler(signal);
            }
        }
    }

    fn reap(&mut self) {
        self.processes.drain(..).for_each(|mut process| process.kill());
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.reap();
    }
}

/// Copies what `from` has in a thread of its own, which holds `copying` to its end.
fn copy(
    rank: u32,
    from: Option<Output<impl Read + AsFd + Send + 'static>>,
    copying: &Sender<io::Error>,
    line: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
) -> Result<()> {
    let Some(from) = from else { return Ok(()) };
    let copying = copying.clone();
    let copy = move || {
        if let Err(error) = lines::copy(rank, from, line) {
            // Nobody hears it where the ranks could not all be started.
            let _ = copying.send(error);
        }
    };
    std::thread::Builder::new().spawn(copy).context("starting a thread for a rank's output")?;
    Ok(())
}
