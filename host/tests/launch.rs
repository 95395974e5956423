//! The program `allfold launch`: it tells each process its rank, writes whose each line is, and ends all when one fails.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use allfold::rendezvous::{Environment, Rendezvous};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Set where this program is a rank.
const RANK_OF_TEST: &str = "ALLFOLD_RANK_OF_TEST";

fn launch(line: &str, program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allfold"));
    command.env_remove("CUDA_DEVICE_MAX_CONNECTIONS");
    command.arg("launch").args(line.split_whitespace()).arg("--").args(program);
    command
}

fn shell(line: &str, script: &str) -> Output {
    launch(line, &["sh", "-c", script]).output().expect("the program starts")
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(bytes).lines().map(str::to_string).collect();
    lines.sort();
    lines
}

#[test]
fn each_is_told_its_rank_and_each_line_says_whose_it_is() {
    let ran = shell(
        "-n 3",
        "echo $RANK $LOCAL_RANK of $WORLD_SIZE $LOCAL_WORLD_SIZE at $MASTER_ADDR; echo to stderr >&2; \
         echo $MASTER_PORT $ALLFOLD_PORT $ALLFOLD_SECRET; printf 'no end of line'; test -z \"$CUDA_DEVICE_MAX_CONNECTIONS\"",
    );
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let out = lines(&ran.stdout);
    for rank in 0..3 {
        assert!(out.contains(&format!("[{rank}] {rank} {rank} of 3 3 at 127.0.0.1")), "{out:?}");
        assert!(out.contains(&format!("[{rank}] no end of line")), "{out:?}");
    }
    let told: Vec<_> = out.iter().filter(|line| line.len() > 64).map(|line| &line[4..]).collect();
    assert!(told.len() == 3 && told.iter().all(|line| *line == told[0]), "{out:?}");
    assert_eq!(lines(&ran.stderr), ["[0] to stderr", "[1] to stderr", "[2] to stderr"]);
    assert_eq!(launch("-n 2", &["true"]).output().expect("it starts").status.code(), Some(0));
    assert_eq!(launch("-n 2", &["false"]).output().expect("it starts").status.code(), Some(1));
}

#[test]
fn the_first_that_fails_ends_the_others() {
    let begun = Instant::now();
    // What a rank has started ends with it.
    let ran = shell("-n 3", "test $RANK = 1 && exit 7; sleep 60 & wait");
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    assert_eq!(lines(&ran.stderr), ["rank 1 failed first: exit code 7"]);
    let ran = shell("-n 2", "test $RANK = 0 && kill -9 $$; exec sleep 60");
    assert_eq!(ran.status.code(), Some(137), "{ran:?}");
    assert_eq!(lines(&ran.stderr), ["rank 0 failed first: signal 9"]);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn the_others_are_asked_and_then_killed() {
    let begun = Instant::now();
    let asked = shell("-n 2", "test $RANK = 1 && sleep 0.2 && exit 3; trap 'echo asked; exit 0' TERM; sleep 60 & wait");
    assert_eq!((asked.status.code(), lines(&asked.stdout)), (Some(3), vec!["[0] asked".to_string()]), "{asked:?}");
    let deaf = shell("-n 2 --grace 0", "test $RANK = 1 && sleep 0.2 && exit 3; trap '' TERM; sleep 60; echo no");
    assert_eq!((deaf.status.code(), deaf.stdout.len()), (Some(3), 0), "{deaf:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT")] {
        let script = format!("trap 'echo heard; exit 9' {name}; echo ready; while :; do sleep 0.05; done");
        let mut running =
            launch("-n 2", &["sh", "-c", &script]).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut out = BufReader::new(running.stdout.take().expect("piped")).lines();
        let mut said: Vec<_> = out.by_ref().take(2).map(|line| line.expect("a line")).collect();
        kill_process(Pid::from_child(&running), signal).expect("it runs");
        said.extend(out.map(|line| line.expect("a line")));
        said.sort();
        assert_eq!(said, ["[0] heard", "[0] ready", "[1] heard", "[1] ready"]);
        assert_eq!(running.wait().expect("it ends").code(), Some(9));
    }
}

#[test]
fn ranks_end_when_it_is_killed() {
    let mut running = launch("-n 1", &["sh", "-c", "echo $$; exec sleep 60"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut out = BufReader::new(running.stdout.take().expect("piped")).lines();
    let line = out.next().expect("a line").expect("a line");
    let rank = line.strip_prefix("[0] ").and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw).expect("a number");
    assert!(test_kill_process(rank).is_ok());
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    let deadline = Instant::now() + Duration::from_secs(5);
    let stat = format!("/proc/{rank}/stat");
    // Gone, or dead and not reaped: that is for whoever has inherited it.
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "rank {rank} still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_refuses_what_it_cannot_do() {
    for (line, program, why) in [
        ("-n 0", &["true"][..], "--ranks"),
        ("-n 9", &["true"], "--ranks"),
        ("", &["true"], "--ranks"),
        ("-n 2", &[], "PROGRAM"),
        ("-n 2", &["/no/such/program"], "starting /no/such/program as rank 0"),
    ] {
        let refused = launch(line, program).output().expect("the program starts");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
}

/// This test is also the program that it launches.
#[test]
fn launched_ranks_meet() {
    let deadline = Instant::now() + Duration::from_secs(20);
    if std::env::var_os(RANK_OF_TEST).is_none() {
        let this = std::env::current_exe().expect("this program");
        let arguments = ["--exact", "launched_ranks_meet", "--nocapture"];
        let mut launch = launch("-n 4", &[&[this.to_str().expect("a name")][..], &arguments].concat());
        let ran = launch.env(RANK_OF_TEST, "").output().expect("the program starts");
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        let met = lines(&ran.stdout).iter().filter(|line| line.ends_with("met 4 processes")).count();
        assert_eq!(met, 4, "{ran:?}");
        return;
    }
    let ranks = Environment::read().expect("told").join(deadline).expect("all come");
    let mut processes = ranks.all_gather(&std::process::id().to_le_bytes(), deadline).expect("all call");
    assert_eq!(processes[ranks.rank() as usize], std::process::id().to_le_bytes());
    processes.sort();
    processes.dedup();
    println!("\nmet {} processes", processes.len());
    ranks.barrier(deadline).expect("all come");
}
