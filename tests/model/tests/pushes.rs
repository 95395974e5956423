//! Pushes, one-pass and exchange in rows of calls, and with planted faults.

use allfold_kernels::protocol::abi::{GENERATIONS, Phase};
use allfold_kernels::protocol::push::Cursor;
use allfold_model::assumptions::Assumptions;
use allfold_model::explore::{Depth, Lineup, Subject, explore_in};
use allfold_model::integers;
use allfold_model::mutants::Mutation;
use allfold_model::program::Program;
use allfold_model::pushes::{self, Fault, GIVES, effort};
use allfold_model::search::search;
use allfold_model::trace::Failure;

fn subject(program: &Program, mutation: Mutation) -> Subject {
    Subject { program: program.clone(), assumptions: Assumptions::NONE, mutation }
}

/// Nothing fails, with nothing assumed. Two ranks of one thread come to the end of their bound on preemptions; of larger
/// shapes it is a part.
fn hold(rows: Vec<Program>) {
    hold_with(Mutation::Nothing, rows);
}

/// The same with something changed that should make no difference.
fn hold_with(mutation: Mutation, rows: Vec<Program>) {
    for program in &rows {
        match search(&subject(program, mutation), effort(program)) {
            Ok(coverage) => {
                let threads = program.shape.ranks * program.threads_of_rank();
                assert!(coverage.executions > 100, "{program}: {coverage}");
                assert!(threads > 2 || coverage.depth == Some(Depth::Preemptions(2)), "{program}: {coverage}");
            }
            Err(found) => panic!("{program} after {:?}:\n{}", program.cursor, found.story),
        }
    }
}

#[test]
fn pushes_of_any_size_may_follow_one_another() {
    hold(pushes::alone());
}

#[test]
fn a_generation_may_come_round() {
    hold(pushes::rounds());
}

#[test]
fn pushes_and_other_calls_may_follow_one_another() {
    hold(pushes::mixed());
}

#[test]
fn pushes_of_integers_are_right() {
    hold(integers::beside_flags());
    hold(integers::rounds());
}

#[test]
fn every_fault_of_a_push_of_integers_is_found() {
    let faults = integers::faults();
    assert_eq!(faults.len(), 5);
    faults.iter().for_each(is_found);
}

#[test]
fn a_one_pass_and_an_exchange_are_right() {
    GIVES.map(pushes::given).into_iter().for_each(hold);
}

/// How the first row that notices fails.
fn found(fault: &Fault) -> Option<Failure> {
    fault.programs.iter().find_map(|program| {
        let effort = effort(program);
        let mut lineups = Lineup::all(program);
        lineups.truncate(effort.lineups);
        let subject = subject(program, fault.mutation);
        let bounds = (0..=effort.preemptions).flat_map(|bound| lineups.iter().map(move |lineup| (bound, lineup)));
        let mut failures = bounds.filter_map(|(bound, lineup)| {
            explore_in(&subject, lineup, Depth::Preemptions(bound), effort.bounded).failed
        });
        failures.next().map(|(failure, _)| failure)
    })
}

fn is_found(fault: &Fault) {
    match found(fault) {
        None => panic!("nobody misses it: {}", fault.name),
        Some(Failure::Broken(said)) => panic!("{}: {said}", fault.name),
        Some(Failure::Hang { phase, .. }) if fault.mutation == Mutation::NoArrive(phase) => {}
        Some(other) if fault.mutation == Mutation::NoArrive(Phase::Landing) => panic!("{}: {other:?}", fault.name),
        Some(Failure::Race | Failure::WrongSum { .. } | Failure::Hang { .. }) => {}
    }
}

#[test]
fn every_fault_of_a_push_is_found() {
    let faults = pushes::of_pushes();
    assert_eq!(faults.len(), 2 * 16 + 1);
    faults.iter().for_each(is_found);
}

#[test]
fn every_fault_of_a_one_pass_and_an_exchange_is_found() {
    let faults = pushes::of_gives();
    assert_eq!(faults.len(), 5 * (2 + 3));
    faults.iter().for_each(is_found);
}

/// A push has no start barrier, so two banks in turn need one that is kept: a peer may still read what is staged again.
#[test]
fn a_push_between_two_staged_one_shots_needs_one_bank() {
    let programs = vec![pushes::banks_in_turn()];
    let fault = Fault { name: "banks in turn".into(), mutation: Mutation::Nothing, programs };
    assert_eq!(found(&fault), Some(Failure::Race));
}

/// No communicator launches them. They do no harm: those in a row begin one generation at most.
#[test]
fn empty_pushes_do_no_harm() {
    hold(vec![pushes::empty()]);
}

/// Of four generations one is there for the wrap of 32 bits of the serial number alone.
#[test]
fn three_generations_are_enough_until_32_bits_of_the_serial_number_wrap() {
    let high = |cursor: Cursor| cursor.serial >> 32;
    let wraps = |program: &Program| high(program.cursor_after(program.calls.len() as u32)) > high(program.cursor);
    let mut rows = pushes::rounds();
    rows.retain(|program| !wraps(program) && program.shape.ranks * program.threads_of_rank() == 2);
    hold_with(Mutation::Generations(3), rows);
}

/// The rows are what they are said to be.
#[test]
fn in_each_round_a_place_is_used_again_and_each_call_of_a_row_announces_in_some() {
    let begun = |program: &Program, call| program.cursor_after(call).announced;
    for program in pushes::rounds().into_iter().chain([pushes::empty()]) {
        let serials = (1..=program.calls.len() as u32).map(|call| program.cursor_after(call).serial);
        let first = program.cursor_after(1).serial;
        assert!(serials.map(|serial| serial.wrapping_sub(first)).any(|on| on == GENERATIONS as u64), "{program}");
    }
    for call in 1..=2 * GENERATIONS as u32 + 1 {
        let long = |program: &&Program| program.calls.len() as u32 >= call;
        let rows = pushes::rounds();
        let rows: Vec<_> = rows.iter().filter(long).filter(|program| program.shared_packs > 1).collect();
        assert!(rows.iter().any(|program| begun(program, call)) && rows.iter().any(|program| !begun(program, call)));
    }
}
