//! The program `allfold launch`: how it ends, and what it does with signals.

mod launching;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use allfold::rendezvous::{Environment, Rendezvous};
use launching::{Fifo, HANGS, SOON, heedful, itself, launch, lines, ready, shell};
use rustix::process::{Pid, Signal, getpgid, getppid, kill_process, setpgid, test_kill_process};

/// Set where this program is a rank.
const RANK_OF_TEST: &str = "ALLFOLD_RANK_OF_TEST";

#[test]
fn the_first_that_fails_ends_the_others() {
    let begun = Instant::now();
    // What a rank has started ends with it.
    let ran = shell("-n 3", "test $RANK = 1 && exit 7; sleep $HANGS & wait");
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    assert_eq!(lines(&ran.stderr), ["rank 1 failed first: exit code 7"]);
    let ran = shell("-n 2", "test $RANK = 0 && kill -9 $$; exec sleep $HANGS");
    assert_eq!(ran.status.code(), Some(137), "{ran:?}");
    assert_eq!(lines(&ran.stderr), ["rank 0 failed first: signal 9"]);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn who_fails_because_a_peer_was_killed_is_not_called_the_first() {
    // Rank 1 dies when it hears that rank 0 has gone; as if it were the other way round, and were seen late.
    let ran = Fifo::new().shell("-n 2", "test $RANK = 0 && exec 3>$PIPE && exit 1; read word <$PIPE; kill -9 $$");
    assert_eq!(ran.status.code(), Some(137), "{ran:?}");
    assert_eq!(lines(&ran.stderr), ["rank 1 failed first: signal 9; then rank 0: exit code 1"]);
}

#[test]
fn the_others_are_asked_and_then_killed() {
    let begun = Instant::now();
    // Rank 1 fails when rank 0 has set its trap.
    let fails = "if test $RANK = 1; then read word <$PIPE; exit 3; fi";
    let asks = format!("{fails}; trap 'echo asked; exit 0' TERM; echo set >$PIPE; sleep $HANGS & wait");
    let asked = Fifo::new().shell("-n 2", &asks);
    assert_eq!((asked.status.code(), lines(&asked.stdout)), (Some(3), vec!["[0] asked".to_string()]), "{asked:?}");
    let deaf = format!("{fails}; trap '' TERM; echo set >$PIPE; sleep $HANGS; echo no");
    let deaf = Fifo::new().shell("-n 2 --grace 0", &deaf);
    assert_eq!((deaf.status.code(), deaf.stdout.len()), (Some(3), 0), "{deaf:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

/// This test is also the program that it launches.
#[test]
fn a_rank_that_has_left_its_group_is_ended_too() {
    let begun = Instant::now();
    if std::env::var_os(RANK_OF_TEST).is_none() {
        let ran = itself("-n 2 --grace 0", "a_rank_that_has_left_its_group_is_ended_too", RANK_OF_TEST);
        assert_eq!(ran.status.code(), Some(7), "{ran:?}");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        return;
    }
    let ranks = Environment::read().expect("told").join(begun + SOON).expect("all come");
    if ranks.rank() == 1 {
        setpgid(None, getpgid(getppid()).ok()).expect("the group of the launcher is of this session");
    }
    ranks.barrier(begun + SOON).expect("all come");
    if ranks.rank() == 0 {
        std::process::exit(7);
    }
    std::thread::sleep(Duration::from_secs(HANGS.parse().expect("a number")));
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let script = format!("ulimit -c 0; trap 'echo heard; exit 9' {name}; echo ready; while :; do sleep 0.05; done");
        let (mut running, out, mut said) = ready(heedful(&launch("-n 2", &["sh", "-c", &script]), ""));
        kill_process(Pid::from_child(&running), signal).expect("it runs");
        said.extend(out.map(|line| line.expect("a line")));
        said.sort();
        assert_eq!(said, ["[0] heard", "[0] ready", "[1] heard", "[1] ready"], "{name}");
        assert_eq!(running.wait().expect("it ends").code(), Some(9), "{name}");
    }
}

#[test]
fn what_it_was_started_to_ignore_it_ignores() {
    for (signal, name) in [(Signal::HUP, "HUP"), (Signal::INT, "INT")] {
        let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
        let command = heedful(&launch("-n 2", &["sh", "-c", script]), &format!("trap '' {name}"));
        let (mut running, _out, _) = ready(command);
        let launcher = Pid::from_child(&running);
        kill_process(launcher, signal).expect("it runs");
        kill_process(launcher, Signal::TERM).expect("it runs");
        assert_eq!(running.wait().expect("it ends").code(), Some(9), "{name}");
    }
}

#[test]
fn deaf_ranks_that_are_asked_to_end_are_killed() {
    let begun = Instant::now();
    let script = "trap '' INT TERM; echo ready; while :; do sleep 0.05; done";
    for (line, signals) in [("-n 2 --grace 0", &[Signal::INT][..]), ("-n 2 --grace 999", &[Signal::TERM, Signal::INT])]
    {
        let (mut running, _out, _) = ready(heedful(&launch(line, &["sh", "-c", script]), ""));
        for signal in signals {
            kill_process(Pid::from_child(&running), *signal).expect("it runs");
        }
        assert_eq!(running.wait().expect("it ends").code(), Some(137), "{line}");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

/// Waits until the process is stopped, or is not.
fn await_stopped(pid: Pid, stopped: bool) {
    let begun = Instant::now();
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    while stat().contains(") T ") != stopped {
        assert!(begun.elapsed() < SOON, "{}", stat());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_stops_and_goes_on_with_its_ranks() {
    let (mut running, _out, said) = ready(heedful(&launch("-n 2", &["sh", "-c", "echo $$; exec sleep $HANGS"]), ""));
    let launcher = Pid::from_child(&running);
    let rank = |line: &String| line[4..].parse().ok().and_then(Pid::from_raw).expect("a number");
    let all: Vec<_> = said.iter().map(rank).chain([launcher]).collect();
    for (signal, stopped) in [(Signal::TSTP, true), (Signal::CONT, false)] {
        kill_process(launcher, signal).expect("it runs");
        all.iter().for_each(|&pid| await_stopped(pid, stopped));
    }
    kill_process(launcher, Signal::TERM).expect("it runs");
    assert_eq!(running.wait().expect("it ends").code(), Some(128 + 15));
}

#[test]
fn ranks_end_when_it_is_killed() {
    let mut running = launch("-n 1", &["sh", "-c", "echo $$; exec sleep $HANGS"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut out = BufReader::new(running.stdout.take().expect("piped")).lines();
    let line = out.next().expect("a line").expect("a line");
    let rank = line.strip_prefix("[0] ").and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw).expect("a number");
    assert!(test_kill_process(rank).is_ok());
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    let deadline = Instant::now() + SOON;
    let stat = format!("/proc/{rank}/stat");
    // Gone, or dead and not reaped: that is for whoever has inherited it.
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "rank {rank} still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}
