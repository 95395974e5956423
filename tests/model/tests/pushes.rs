//! Pushes, one-pass and exchange in rows of calls, and with planted faults.

use allfold_kernels::protocol::abi::Phase;
use allfold_model::assumptions::Assumptions;
use allfold_model::explore::{Depth, Lineup, Subject, explore_in};
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
    for program in &rows {
        match search(&subject(program, Mutation::Nothing), effort(program)) {
            Ok(coverage) => {
                let threads = program.shape.ranks * program.threads_of_rank();
                assert!(coverage.executions > 100, "{program}: {coverage}");
                assert!(threads > 2 || coverage.depth == Some(Depth::Preemptions(2)), "{program}: {coverage}");
            }
            Err(found) => panic!("{program} after {:?}:\n{}", program.last, found.story),
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
        Some(other) if fault.mutation == Mutation::NoArrive(Phase::Start) => panic!("{}: {other:?}", fault.name),
        Some(Failure::Race | Failure::WrongSum { .. } | Failure::Hang { .. }) => {}
    }
}

#[test]
fn every_fault_of_a_push_is_found() {
    let faults = pushes::of_pushes();
    assert_eq!(faults.len(), 19);
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

/// Why no call without elements may be launched: an announcement of four calls later does not count for this one.
#[test]
fn empty_pushes_may_wait_for_ever() {
    let fault = Fault { name: "empty".into(), mutation: Mutation::Nothing, programs: vec![pushes::empty()] };
    assert!(matches!(found(&fault), Some(Failure::Hang { phase: Phase::Start, .. })), "{:?}", found(&fault));
}
