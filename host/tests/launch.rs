//! The program `allfold launch`: it tells each process its rank, and writes whose each line is, all of them.

mod launching;

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use allfold::rendezvous::{Environment, Rendezvous};
use launching::{SOON, itself, launch, lines, shell};

/// Set where this program is a rank.
const RANK_OF_TEST: &str = "ALLFOLD_RANK_OF_TEST";

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
fn a_slow_reader_gets_every_line() {
    let mut launch = launch("-n 2", &["seq", "1", "11000"]);
    let mut running = launch.stdout(Stdio::piped()).spawn().expect("the program starts");
    // By now the ranks have ended, and the pipe is full.
    std::thread::sleep(Duration::from_millis(2500));
    let mut said = Vec::new();
    running.stdout.take().expect("piped").read_to_end(&mut said).expect("a pipe");
    assert_eq!(lines(&said).len(), 22_000);
    assert_eq!(running.wait().expect("it ends").code(), Some(0));
}

#[test]
fn what_is_left_with_the_pipes_of_ranks_is_not_waited_for() {
    let begun = Instant::now();
    let ran = shell("-n 2", "setsid sleep $HANGS & echo out");
    assert_eq!((ran.status.code(), lines(&ran.stdout)), (Some(0), vec!["[0] out".to_string(), "[1] out".to_string()]));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn output_that_cannot_be_written_is_no_success_and_no_panic() {
    let full = || File::options().write(true).open("/dev/full").expect("Linux has it");
    let closed = || std::io::pipe().expect("a pipe").1;
    let code = |command: &mut Command| command.output().expect("the program starts").status.code();
    let lost = launch("-n 2", &["echo", "out"]).stdout(full()).output().expect("the program starts");
    assert_eq!(lost.status.code(), Some(2), "{lost:?}");
    assert!(String::from_utf8_lossy(&lost.stderr).contains("writing what the ranks wrote"), "{lost:?}");
    assert_eq!(code(launch("-n 2", &["sh", "-c", "echo err >&2"]).stderr(full())), Some(2));
    // Who has stopped reading has what was wanted.
    assert_eq!(code(launch("-n 2", &["echo", "out"]).stdout(closed())), Some(0));
    assert_eq!(code(launch("-n 2", &["false"]).stderr(closed())), Some(1));
    assert_eq!(code(launch("-n 2", &["false"]).stderr(full())), Some(1));
    assert_eq!(code(launch("-n 2", &["/no/such/program"]).stderr(full())), Some(2));
    let doctor = || {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_allfold"));
        doctor.arg("doctor");
        doctor
    };
    assert_eq!(code(doctor().stdout(full())), Some(2));
    assert_ne!(code(doctor().stdout(closed())), Some(101));
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
        let ran = itself("-n 4", "launched_ranks_meet", RANK_OF_TEST);
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
