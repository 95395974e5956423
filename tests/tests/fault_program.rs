//! The program `suite`, where what it does with faults does not end: it says what it was doing, and leaves no process behind.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// A cell that takes two seconds at least, with a limit.
fn start(limit: &str) -> Child {
    let mut suite = Command::new(env!("CARGO_BIN_EXE_suite"));
    suite.args(["--backend", "cpu", "--faults", "processes", "--filter", "fault: Stopped,", "--at-once", "1"]);
    suite.args(["--limit", limit]).stdout(Stdio::piped()).spawn().expect("the program starts")
}

/// The ranks that it has started, once there are two.
fn ranks(suite: &Child) -> Vec<Pid> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", suite.id())).expect("it runs");
        let children = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<_> = children
            .flat_map(|list| {
                list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect::<Vec<_>>()
            })
            .collect();
        if children.len() >= 2 {
            return children;
        }
        assert!(Instant::now() < end, "{children:?} started");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Nobody is left, or soon will be.
fn all_end(ranks: &[Pid]) {
    let end = Instant::now() + Duration::from_secs(5);
    // Whose parent is gone may wait to be looked at.
    let lives = |pid: &Pid| {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
        test_kill_process(*pid).is_ok() && !state.contains(") Z ")
    };
    while ranks.iter().any(lives) {
        assert!(Instant::now() < end, "{ranks:?} live on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two runs of a program: one whose words somebody reads, and one whose words nobody does.
#[test]
fn a_program_that_is_stuck_says_in_what_and_ends_with_its_ranks() {
    for reads in [true, false] {
        let mut suite = start("1");
        let ranks = ranks(&suite);
        let mut said = String::new();
        let stdout = suite.stdout.take().expect("a pipe");
        if reads {
            std::io::BufReader::new(stdout).read_to_string(&mut said).expect("words");
        } else {
            drop(stdout);
        }
        assert_eq!(suite.wait().expect("it ends").code(), Some(2), "{said}");
        let named = said.lines().any(|line| line.starts_with("STUCK after 1s") && line.contains("fault: Stopped,"));
        assert!(!reads || named, "{said}");
        all_end(&ranks);
    }
}

#[test]
fn a_program_that_is_killed_leaves_no_rank_behind() {
    let mut suite = start("60");
    let ranks = ranks(&suite);
    let pid = Pid::from_raw(suite.id() as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
    suite.wait().expect("it was killed");
    all_end(&ranks);
}
