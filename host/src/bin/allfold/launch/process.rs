//! One process of a rank, and how it ended.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgid, kill_process, kill_process_group, waitid};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Somebody else has been told.
    Unknown,
}

impl Ended {
    /// As a shell says it.
    pub fn code(self) -> u8 {
        match self {
            Ended::Code(code) => code as u8,
            Ended::Signal(signal) => 128_u8.wrapping_add(signal as u8),
            Ended::Unknown => 2,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "exit code {code}"),
            Ended::Signal(signal) => write!(f, "signal {signal}"),
            Ended::Unknown => write!(f, "how is not known"),
        }
    }
}

/// A process, which is not reaped before [`Process::kill`].
pub struct Process {
    child: Child,
    /// How it had ended at the last look, if it had.
    pub ended: Option<Ended>,
}

impl Process {
    /// `child`, which started a group of its own.
    pub fn new(child: Child) -> Process {
        Process { child, ended: None }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// How it has ended, if it has.
    pub fn look(&self) -> Option<Ended> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid()?), options) {
            Ok(status) => {
                let status = status?;
                let code = status.exit_status().map(Ended::Code);
                code.or_else(|| status.terminating_signal().map(Ended::Signal))
            }
            Err(_) => Some(Ended::Unknown),
        }
    }

    /// Sends a signal to it and to what it has started.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = self.pid() else { return };
        // It fails where the whole group has ended.
        let _ = kill_process_group(pid, signal);
        // The process may have left its group.
        if getpgid(Some(pid)) != Ok(pid) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it and what it has left running in its group.
    pub fn kill(&mut self) {
        // Not where its number may be another's by now.
        if self.ended != Some(Ended::Unknown) {
            self.signal(Signal::KILL);
        }
        // It is dead: this does not wait long, and fails only where somebody else has reaped it.
        let _ = self.child.wait();
    }
}

/// The process ends when this program does, however it does: on Linux. What it has started may go on where this program is
/// killed, and cannot pass that on.
pub fn end_with_us(command: &mut Command) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_is_no_success() {
        let mut child = Command::new("true").spawn().expect("it starts");
        child.wait().expect("it ends");
        let ended = Process::new(child).look().expect("there is no such child");
        assert_eq!((ended, ended.code(), ended.to_string().as_str()), (Ended::Unknown, 2, "how is not known"));
    }
}
