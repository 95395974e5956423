//! The processes of the ranks. Each has a process group of its own, so that a signal reaches what it has started, too. None
//! is reaped before all have ended: so no process number can be another's by then.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::environment::Environment;
use super::lines;

/// How long output may come when all have ended: something may have taken their pipes to a group of its own.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Ended {
    /// As a shell says it.
    pub fn code(self) -> u8 {
        match self {
            Ended::Code(code) => code as u8,
            Ended::Signal(signal) => 128_u8.wrapping_add(signal as u8),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "exit code {code}"),
            Ended::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

struct Process {
    child: Child,
    ended: Option<Ended>,
}

/// The processes, in rank order. What still runs is killed when this is dropped.
pub struct Ranks {
    processes: Vec<Process>,
    /// Ends when all output has been copied.
    output: Option<Receiver<()>>,
}

impl Ranks {
    /// Starts the program for every rank; if one cannot be started, none is left.
    pub fn start(program: &[OsString], environment: &Environment) -> Result<Ranks> {
        let (copying, output) = channel();
        let mut ranks = Ranks { processes: Vec::new(), output: Some(output) };
        let name = program.first().context("no program")?;
        for rank in 0..environment.world() {
            let mut command = Command::new(name);
            command.args(&program[1..]).envs(environment.of(rank));
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
            end_with_us(&mut command);
            let mut child = command.spawn().with_context(|| format!("starting {} as rank {rank}", name.display()))?;
            let (out, err) = (child.stdout.take(), child.stderr.take());
            ranks.processes.push(Process { child, ended: None });
            copy(rank, out, &copying, |line| lines::write(io::stdout().lock(), line))?;
            copy(rank, err, &copying, |line| lines::write(io::stderr().lock(), line))?;
        }
        Ok(ranks)
    }

    /// Looks which have ended. Gives one that has failed since the last look.
    pub fn look(&mut self) -> Option<(u32, Ended)> {
        let mut failed = None;
        for (rank, process) in (0..).zip(&mut self.processes) {
            if process.ended.is_none() {
                process.ended = process.look();
                let ended = process.ended.filter(|ended| *ended != Ended::Code(0));
                failed = failed.or(ended.map(|ended| (rank, ended)));
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

    /// Ends what the ranks have left running, and waits for what they wrote.
    pub fn end(mut self) {
        self.reap();
        if let Some(output) = self.output.take() {
            // It says nothing, and ends when all have ended who could.
            let _ = output.recv_timeout(LAST_OUTPUT);
        }
    }

    fn reap(&mut self) {
        for process in &mut self.processes {
            process.signal(Signal::KILL);
            // It is dead: this does not wait long, and fails only where somebody else has reaped it.
            let _ = process.child.wait();
        }
        self.processes.clear();
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.reap();
    }
}

impl Process {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// How it has ended, if it has. It is not reaped.
    fn look(&self) -> Option<Ended> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid()?), options) {
            Ok(status) => {
                let status = status?;
                let code = status.exit_status().map(Ended::Code);
                code.or_else(|| status.terminating_signal().map(Ended::Signal))
            }
            // Where a parent ignores SIGCHLD nobody can say how its children ended.
            Err(Errno::CHILD) => Some(Ended::Code(0)),
            Err(_) => None,
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It fails where the whole group has ended.
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// A rank ends when this program does, however it does.
fn end_with_us(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpid, getppid, set_parent_process_death_signal};
        let parent = getpid();
        let ask = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have ended before it was asked about.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        };
        // SAFETY: between fork and exec it makes two system calls, and neither allocates nor takes a lock.
        unsafe { command.pre_exec(ask) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Copies what `from` has in a thread of its own, which holds `copying` to its end.
fn copy(
    rank: u32,
    from: Option<impl Read + Send + 'static>,
    copying: &Sender<()>,
    line: impl FnMut(&[u8]) + Send + 'static,
) -> Result<()> {
    let Some(from) = from else { return Ok(()) };
    let copying = copying.clone();
    let copy = move || {
        lines::copy(rank, from, line);
        drop(copying);
    };
    std::thread::Builder::new().spawn(copy).context("starting a thread for a rank's output")?;
    Ok(())
}
