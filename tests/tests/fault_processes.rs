//! Faults of ranks that are processes: killed, stopped for a while, or leaving; as `fault_matrix.rs` has them for threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use allfold_tests::faults::{Fault, Ground, Phase, Report, Watchdog, matrix, processes};
use allfold_tests::meet::starts_ranks;

/// All such cells. `test` is the name of the test that calls this, and each rank another run of it.
fn each(test: &str, faults: &[Fault], phases: &[Phase]) {
    let (cells, report) = (matrix::of_processes(faults, phases), Arc::new(Report::default()));
    let limit = if starts_ranks() { Duration::from_secs(240) } else { processes::RANK_STUCK };
    let watchdog = Watchdog::start(limit, Arc::clone(&report));
    if let Some(right) = processes::as_rank(&cells, &[Ground::Cpu], &watchdog) {
        std::process::exit(if right { 0 } else { 1 });
    }
    // With one thread for tests the name of the test would stand before the first words of a rank.
    let arguments = [test, "--exact", "--nocapture", "--test-threads=2"];
    let end = Instant::now() + Duration::from_secs(200);
    processes::run_all(&cells, Ground::Cpu, &arguments, 1, end, &report, &watchdog);
    let lines = report.lines();
    println!("{}", lines.text);
    assert!(lines.failures.is_empty(), "{:#?}", lines.failures);
    assert_eq!((lines.cells, lines.not_run), (cells.len(), 0));
}

#[test]
fn b46_a_process_that_is_killed_is_named_by_the_others_who_go_on() {
    let test = "b46_a_process_that_is_killed_is_named_by_the_others_who_go_on";
    each(test, &[Fault::Killed], &[Phase::First, Phase::Many, Phase::Within]);
}

#[test]
fn b46_a_process_that_is_killed_in_its_own_call_leaves_a_right_sum_or_is_named() {
    let test = "b46_a_process_that_is_killed_in_its_own_call_leaves_a_right_sum_or_is_named";
    each(test, &[Fault::KilledInCall], &[Phase::First, Phase::Between]);
}

#[test]
fn a_process_that_leaves_or_aborts_is_named_by_the_others() {
    let test = "a_process_that_leaves_or_aborts_is_named_by_the_others";
    each(test, &[Fault::Dropped, Fault::Aborts, Fault::Longer], &[Phase::First, Phase::Within]);
}

#[test]
fn b58_a_call_that_is_empty_on_one_of_several_processes_is_told_by_its_next_or_by_waiting() {
    let test = "b58_a_call_that_is_empty_on_one_of_several_processes_is_told_by_its_next_or_by_waiting";
    each(test, &[Fault::Empty, Fault::EmptyAlone], &[Phase::First, Phase::Between]);
}

#[test]
fn a_process_that_is_stopped_for_a_while_is_waited_for_or_named() {
    let test = "a_process_that_is_stopped_for_a_while_is_waited_for_or_named";
    each(test, &[Fault::Stopped, Fault::StoppedTooLong], &[Phase::Between]);
}
