//! Faults on GPUs of software: what the program `suite` asks of GPUs, run here where there are none. So the host's code for GPUs is
//! run, and the program is known to be right before it meets a GPU.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
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

fn after(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// As many as there is time for, spread over all; each of them takes a few hundredths of a second.
#[test]
fn a_driver_call_that_fails_is_a_typed_error_and_a_fresh_communicator_works() {
    let (gpus, report) = (gpus(), Report::default());
    driver(&*gpus, after(15), &report, &Watchdog::default()).expect("stories in which nothing fails");
    check(&report, 100);
}

#[test]
fn no_memory_in_a_start_up_is_a_typed_error_on_every_rank() {
    let (gpus, report) = (gpus(), Report::default());
    allocations(&*gpus, after(15), &report, &Watchdog::default()).expect("communicators can be made");
    check(&report, 20);
}

#[test]
fn b42_b44_a_fault_of_a_rank_with_a_gpu_is_a_right_result_or_one_error_on_every_rank() {
    let (gpus, report) = (gpus(), Report::default());
    let cells = matrix::of_gpu_threads();
    threads::on_gpus(*gpus, &cells[..cells.len() / 4], after(40), &report, &Watchdog::default()).expect("two GPUs");
    check(&report, 40);
}

#[test]
fn b27_b35_a_stream_that_is_late_a_gpu_that_is_busy_and_no_room_are_right_results_or_typed_errors() {
    let (gpus, report) = (gpus(), Report::default());
    single(&*gpus, after(15), &report, &Watchdog::default()).expect("something to be busy with");
    check(&report, 20);
}

/// By the program, which starts itself anew for each rank. After all that were killed others use the same GPUs.
#[test]
fn b46_a_process_that_is_killed_in_a_call_on_a_gpu_is_named_or_all_came_before_and_its_gpu_is_of_use() {
    let suite = || Command::new(env!("CARGO_BIN_EXE_suite"));
    let faults = ["--soft", "--backend", "cuda", "--devices", "0,1", "--faults", "processes", "--limit", "100"];
    for (filter, cells) in [("KilledInCall", 8), ("fault: Late", 2)] {
        let output = suite().args(faults).args(["--filter", filter]).output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(&format!("faults: {cells} cells, 0 failed")), "{said}");
    }
}
