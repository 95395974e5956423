//! Faults of ranks that are processes: killed, stopped for a while, or leaving; as `fault_matrix.rs` has them for threads.

mod meet;

use allfold_tests::faults::{Fault, Ground, Phase, matrix, processes};
use meet::{Case, on_all_but};

fn each(test: &str, faults: &[Fault], phases: &[Phase]) {
    for (number, cell) in (0..).zip(matrix::of_processes(faults, phases)) {
        let killed = cell.fault.kills().then_some(cell.victim);
        on_all_but(test, Case(cell.world, number), killed, |seat| {
            let got = processes::run_rank(cell, seat, Ground::Cpu);
            got.unwrap_or_else(|why| panic!("{cell:?}: {why:#}"));
        });
    }
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
