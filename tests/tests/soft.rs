//! Faults on GPUs of software: what the program `suite` asks of GPUs, run here where there are none. So the host's code for GPUs is
//! run, and the program is known to be right before it meets a GPU.

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use allfold_tests::faults::{Report, Watchdog, allocations, driver, matrix, single, threads};
use allfold_tests::soft;

/// The GPUs of this process: whoever leaves a communicator waits for all of its kernels, whoever's they are.
fn gpus() -> MutexGuard<'static, [u32; 2]> {
    static GPUS: Mutex<Option<()>> = Mutex::new(None);
    static BOTH: Mutex<[u32; 2]> = Mutex::new([0, 1]);
    let mut installed = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
    if installed.is_none() {
        assert!(soft::install(), "no driver call was made before");
        *installed = Some(());
    }
    drop(installed);
    BOTH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing failed, of so many cells at least.
fn check(report: &Report, least: usize) {
    let lines = report.lines();
    println!("{}", lines.text);
    assert!(lines.failures.is_empty(), "{:#?}", lines.failures);
    assert!(lines.cells >= least, "{} cells", lines.cells);
}

/// Of a test that has got the GPUs.
fn watchdog(report: &Arc<Report>) -> Watchdog {
    Watchdog::start(Duration::from_secs(240), Arc::clone(report))
}

fn after(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// As many as there is time for, spread over all; each of them takes a few hundredths of a second.
#[test]
fn a_driver_call_that_fails_is_a_typed_error_and_a_fresh_communicator_works() {
    let (gpus, report) = (gpus(), Arc::new(Report::default()));
    driver(&*gpus, after(25), &report, &watchdog(&report)).expect("the GPUs are there");
    check(&report, 100);
}

#[test]
fn no_memory_in_a_start_up_is_a_typed_error_on_every_rank() {
    let (gpus, report) = (gpus(), Arc::new(Report::default()));
    allocations(&*gpus, after(40), &report, &watchdog(&report)).expect("the GPUs are there");
    check(&report, 20);
}

#[test]
fn b42_b44_a_fault_of_a_rank_with_a_gpu_is_a_right_result_or_one_error_on_every_rank() {
    let (gpus, report) = (gpus(), Arc::new(Report::default()));
    let cells = matrix::of_gpu_pairs();
    threads::on_gpus(*gpus, &cells[..cells.len() / 6], after(100), &report, &watchdog(&report)).expect("two GPUs");
    check(&report, 30);
}

#[test]
fn b27_b35_a_stream_that_is_late_a_gpu_that_is_busy_and_no_room_are_right_results_or_typed_errors() {
    let (gpus, report) = (gpus(), Arc::new(Report::default()));
    single(&*gpus, after(25), &report, &watchdog(&report)).expect("something to be busy with");
    check(&report, 20);
}

/// The processes of a program, and a part of what they say.
fn suite(arguments: &[&str], says: impl Fn(&str) -> bool) {
    let mut suite = Command::new(env!("CARGO_BIN_EXE_suite"));
    suite.args(["--soft", "--backend", "cuda", "--devices", "0,1"]);
    let output = suite.args(arguments).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && says(&said), "{said}");
}

#[test]
fn b42_b44_a_fault_of_a_process_with_a_gpu_is_a_right_result_or_one_error_on_every_rank() {
    suite(&["--faults", "pairs", "--filter", "victim: 0", "--seconds", "20"], |said| {
        let total = said.lines().find_map(|line| line.strip_prefix("faults: ")?.split(' ').next()?.parse().ok());
        println!("{said}");
        total.is_some_and(|cells: u32| cells > 30) && said.contains(" cells, 0 failed")
    });
}

/// By the program, which starts itself anew for each rank. Whether a GPU itself is of use afterwards only one that is none of software
/// can show.
#[test]
fn b46_a_process_that_is_killed_in_a_call_on_a_gpu_is_named_or_all_came_before_and_others_go_on() {
    for (filter, cells) in [("KilledInCall", 8), ("fault: Late", 2)] {
        let total = format!("faults: {cells} cells, 0 failed");
        suite(&["--faults", "processes", "--filter", filter, "--seconds", "40"], |said| said.contains(&total));
    }
}
