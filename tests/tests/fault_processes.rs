//! Faults of ranks that are processes: killed, stopped for a while, or leaving; as `fault_matrix.rs` has them for threads.

mod faults;
mod meet;

use allfold::rendezvous::Unix;
use allfold::{Algorithm, InputMode};
use faults::{Cell, Fault, Phase};
use meet::{Case, on_all_but, tell};
use rustix::process::{Pid, Signal, kill_process};

/// Runs the cell on the rank of `seat`, a process.
fn run(cell: Cell, seat: &Unix) {
    let pids = tell(seat, &std::process::id().to_string());
    let victim = pids[cell.victim as usize].parse().ok().and_then(Pid::from_raw).expect("a process");
    let signal = |name: &str| {
        let signal = if name == "STOP" { Signal::STOP } else { Signal::CONT };
        kill_process(victim, signal).expect("it is there");
    };
    cell.run(seat, Some(&signal)).unwrap_or_else(|why| panic!("{cell:?}: {why}"));
}

const FORMS: [(Algorithm, InputMode); 5] = [
    (Algorithm::OneShot, InputMode::Copied),
    (Algorithm::TwoShot, InputMode::Registered),
    (Algorithm::OneShotPush, InputMode::Copied),
    (Algorithm::TwoShotPush, InputMode::Copied),
    (Algorithm::OnePass, InputMode::Registered),
];

fn each(test: &str, faults: &[Fault], phases: &[Phase]) {
    let mut number = 0;
    for &fault in faults {
        for &phase in phases {
            for (form, world) in FORMS.into_iter().flat_map(|form| [(form, 2), (form, 3)]) {
                // Rank 0 too, where the others meet.
                let victim = number % world;
                let cell = Cell { fault, phase, form, world, victim };
                let killed = (fault == Fault::Killed).then_some(victim);
                on_all_but(test, Case(world, number), killed, |seat| run(cell, seat));
                number += 1;
            }
        }
    }
}

#[test]
fn b46_a_process_that_is_killed_is_named_by_the_others_who_go_on() {
    let test = "b46_a_process_that_is_killed_is_named_by_the_others_who_go_on";
    each(test, &[Fault::Killed], &[Phase::First, Phase::Many, Phase::Within]);
}

#[test]
fn a_process_that_leaves_or_aborts_is_named_by_the_others() {
    let test = "a_process_that_leaves_or_aborts_is_named_by_the_others";
    each(test, &[Fault::Dropped, Fault::Aborts, Fault::Longer], &[Phase::First, Phase::Within]);
}

#[test]
fn a_process_that_is_stopped_for_a_while_is_waited_for_or_named() {
    let test = "a_process_that_is_stopped_for_a_while_is_waited_for_or_named";
    each(test, &[Fault::Stopped, Fault::StoppedTooLong], &[Phase::Between]);
}
