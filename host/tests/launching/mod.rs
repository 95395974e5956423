//! How the tests of `allfold launch` start it.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Longer than anything takes here that does not hang, on a machine that does other things as well; what must be ended would
/// run for [`HANGS`].
pub const SOON: Duration = Duration::from_secs(25);
pub const HANGS: &str = "60";

pub fn launch(line: &str, program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allfold"));
    command.env_remove("CUDA_DEVICE_MAX_CONNECTIONS").env("HANGS", HANGS);
    command.arg("launch").args(line.split_whitespace()).arg("--").args(program);
    command
}

pub fn shell(line: &str, script: &str) -> Output {
    launch(line, &["sh", "-c", script]).output().expect("the program starts")
}

/// This test of this program on `ranks` ranks: they see `variable`.
pub fn itself(line: &str, test: &str, variable: &str) -> Output {
    let this = std::env::current_exe().expect("this program");
    let program = [this.to_str().expect("a name"), "--exact", test, "--nocapture"];
    launch(line, &program).env(variable, "").output().expect("the program starts")
}

/// `command` with every signal as a user's shell has it, whatever this test was started to ignore; or as `trap` says.
pub fn heedful(command: &Command, trap: &str) -> Command {
    let mut heedful = Command::new("env");
    heedful.args(["--default-signal", "sh", "-c", &format!("{trap}\nexec \"$0\" \"$@\"")]);
    heedful.arg(command.get_program()).args(command.get_args()).env("HANGS", HANGS);
    heedful
}

/// It runs, and each of two ranks has said one line.
pub fn ready(mut command: Command) -> (Child, Lines<BufReader<ChildStdout>>, Vec<String>) {
    let mut running = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut out = BufReader::new(running.stdout.take().expect("piped")).lines();
    let said = out.by_ref().take(2).map(|line| line.expect("a line")).collect();
    (running, out, said)
}

pub fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(bytes).lines().map(str::to_string).collect();
    lines.sort();
    lines
}

/// A pipe with a name, by which one rank waits for another.
pub struct Fifo(pub PathBuf);

impl Fifo {
    pub fn new() -> Fifo {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("allfold-launch-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        Fifo(path)
    }

    /// `script` on two ranks, which know the pipe as `$PIPE`.
    pub fn shell(&self, line: &str, script: &str) -> Output {
        launch(line, &["sh", "-c", script]).env("PIPE", &self.0).output().expect("the program starts")
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // What is left of it is no failure of the test.
        let _ = std::fs::remove_file(&self.0);
    }
}
