//! The model of a GPU itself: what orders accesses in it and what does not, known from outside.

use std::rc::Rc;

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::spec::{Order, Reuse, Scope, Start};
use allfold_model::assumptions::{Assumption, Assumptions};
use allfold_model::block::Meeting;
use allfold_model::cell::{Cell, SHAPES, Verdict, quick};
use allfold_model::explore::{Depth, Explored, Lineup, Subject, explore};
use allfold_model::faults;
use allfold_model::matrix;
use allfold_model::mutants::Mutation;
use allfold_model::program::Usage;
use allfold_model::search::{Effort, search};
use allfold_model::trace::Failure;
use loom::cell::UnsafeCell;

/// What two threads do with a cell and a meeting: stores before, loads after, where they are told to.
fn two_threads(first: fn(&UnsafeCell<u32>, &Meeting), second: fn(&UnsafeCell<u32>, &Meeting)) -> Result<(), String> {
    let check = move || {
        loom::model(move || {
            let shared = Rc::new((UnsafeCell::new(0), Meeting::new(2)));
            let other = shared.clone();
            loom::thread::spawn(move || first(&other.0, &other.1));
            second(&shared.0, &shared.1);
        });
    };
    let thread = std::thread::spawn(check);
    thread.join().map_err(|said| said.downcast_ref::<String>().cloned().unwrap_or_default())
}

fn store(cell: &UnsafeCell<u32>, value: u32) {
    // SAFETY: loom panics where the access is not ordered with all others.
    cell.with_mut(|place| unsafe { *place = value });
}

fn load(cell: &UnsafeCell<u32>) -> u32 {
    // SAFETY: as in `store`.
    cell.with(|place| unsafe { *place })
}

#[test]
fn a_meeting_orders_what_is_before_it_with_what_is_after() {
    let before = |cell: &UnsafeCell<u32>, meeting: &Meeting| {
        store(cell, 7);
        meeting.meet(true, || ());
    };
    let after = |cell: &UnsafeCell<u32>, meeting: &Meeting| {
        meeting.meet(true, || ());
        assert_eq!(load(cell), 7);
    };
    two_threads(before, after).unwrap();
    two_threads(after, before).unwrap();
}

#[test]
fn a_meeting_orders_nothing_else() {
    let store_before = |cell: &UnsafeCell<u32>, meeting: &Meeting| {
        store(cell, 7);
        meeting.meet(true, || ());
    };
    let load_before = |cell: &UnsafeCell<u32>, meeting: &Meeting| {
        load(cell);
        meeting.meet(true, || ());
    };
    let store_after = |cell: &UnsafeCell<u32>, meeting: &Meeting| {
        meeting.meet(true, || ());
        store(cell, 7);
    };
    let load_after = |cell: &UnsafeCell<u32>, meeting: &Meeting| {
        meeting.meet(true, || ());
        load(cell);
    };
    for (first, second) in [(store_before as fn(&_, &_), load_before as fn(&_, &_)), (store_after, load_after)] {
        for said in [two_threads(first, second), two_threads(second, first)] {
            assert!(said.unwrap_err().contains("Causality violation"));
        }
    }
}

#[test]
fn the_work_of_a_meeting_lies_between_and_votes_are_counted() {
    let work = |cell: &UnsafeCell<u32>, meeting: &Meeting| {
        assert!(!meeting.meet(true, || store(cell, load(cell) + 1)));
        assert!(meeting.meet(true, || store(cell, load(cell) + 1)));
        assert_eq!(load(cell), 2);
    };
    let other = |cell: &UnsafeCell<u32>, meeting: &Meeting| {
        assert!(!meeting.meet(false, || store(cell, load(cell) + 1)));
        assert!(meeting.meet(true, || store(cell, load(cell) + 1)));
        assert_eq!(load(cell), 2);
    };
    two_threads(work, other).unwrap();
}

fn start(scope: Scope, order: Order) -> Start {
    Start { scope, order, sync_before: scope == Scope::Block }
}

fn one_shot_memcpy(order: Order, reuse: Reuse) -> Cell {
    matrix::cell(Algorithm::OneShot, InputMode::Memcpy, Usage::InTurn, start(Scope::MultiGpu, order), reuse)
}

#[test]
fn each_assumption_is_needed_where_it_should_be_and_helps_nowhere_else() {
    let verdict = |cell: Cell| match cell.verdict(Mutation::Nothing, quick) {
        Verdict::Proved(_) => vec![],
        Verdict::RestsOn(sets) => sets.into_iter().map(|(set, _)| set.iter().collect::<Vec<_>>()).collect(),
        Verdict::Unsound(found) => panic!("{}", found.story),
    };
    let end = |order| Reuse::EndBarrier { order, sync_after: false };
    let (k, p, l) = (Assumption::KernelEndPublishes, Assumption::PollOrdersLoads, Assumption::LoadsDoneBeforeBarrier);
    assert_eq!(verdict(one_shot_memcpy(Order::Volatile, Reuse::Parity)), [vec![k, p]]);
    assert_eq!(verdict(one_shot_memcpy(Order::ReleaseAcquire, end(Order::Volatile))), [vec![l]]);
    assert_eq!(verdict(one_shot_memcpy(Order::Volatile, end(Order::Volatile))), [vec![k, p, l]]);
    assert!(verdict(one_shot_memcpy(Order::ReleaseAcquire, Reuse::Parity)).is_empty());
}

#[test]
fn no_assumption_makes_a_volatile_flag_publish_what_the_kernel_wrote() {
    let copied = |algorithm, order| {
        matrix::cell(algorithm, InputMode::Copied, Usage::InTurn, start(Scope::Block, order), Reuse::Parity)
    };
    for algorithm in Algorithm::OF_ANY_PROTOCOL {
        let volatile = copied(algorithm, Order::Volatile).check(Assumptions::ALL, Mutation::Nothing, quick);
        assert!(volatile.unwrap_err().story.to_string().contains("nothing yet, although step"));
        assert!(copied(algorithm, Order::ReleaseAcquire).check(Assumptions::NONE, Mutation::Nothing, quick).is_ok());
    }
}

#[test]
fn a_story_can_be_followed() {
    let cell = one_shot_memcpy(Order::ReleaseAcquire, Reuse::Nothing);
    let Verdict::Unsound(found) = cell.verdict(Mutation::Nothing, quick) else { panic!("it is sound") };
    let told = found.story.to_string();
    let step = |text: &str| told.find(text).unwrap_or_else(|| panic!("no {text:?} in\n{told}"));
    let overwritten = step("rank 1, before its next kernel: stores pack 0 of its staging buffer: the input of call 2");
    let read = step("rank 0: reads pack 0 of rank 1's staging buffer: the input of call 2, not what call 1 needs");
    let sum = step("Rank 0's sum of call 1, pack 0, has in it rank 1's input of call 2.");
    assert!(overwritten < read && read < sum, "{told}");
    assert_eq!(found.story.short, "rank 0 reads pack 0 of rank 1's staging buffer too late");
}

/// What is wrong with what was found, in a word.
fn kind(explored: &Explored) -> &'static str {
    match &explored.failed {
        None => "none",
        Some((Failure::Race, _)) => "race",
        Some((Failure::WrongSum { .. }, _)) => "wrong sum",
        Some((Failure::Hang { .. } | Failure::Broken(_), _)) => "hang",
    }
}

/// Every fault in a staged form of `algorithm`, in so many calls of two ranks of one thread.
fn faulty(algorithm: Algorithm, calls: usize, assumptions: Assumptions) -> impl Iterator<Item = (String, Subject)> {
    let forms = faults::all().into_iter().filter(move |fault| fault.algorithm == algorithm && fault.input.staged());
    forms.map(move |fault| {
        let cell =
            Cell { algorithm: fault.algorithm, input: fault.input, protocol: fault.protocol, usage: Usage::InTurn };
        let mut program = cell.program(SHAPES[0]);
        program.calls.truncate(calls);
        (fault.name, Subject { program, assumptions, mutation: fault.mutation })
    })
}

/// Explores with the cut and without; the two must agree. How many passed and how many failed.
fn cut_or_not(subjects: impl Iterator<Item = (String, Subject)>, depths: [Depth; 2], budget: u64) -> [u32; 2] {
    let mut found = [0; 2];
    for (name, subject) in subjects {
        let [uncut, cut] = depths.map(|depth| explore(&subject, depth, budget));
        assert_eq!(uncut.failed.is_some(), cut.failed.is_some(), "{name}: {} and {}", kind(&uncut), kind(&cut));
        assert!(uncut.failed.is_some() || uncut.complete && cut.complete, "{name}");
        assert!(uncut.failed.is_some() || uncut.executions >= cut.executions, "{name}");
        found[uncut.failed.is_some() as usize] += 1;
    }
    found
}

/// What loom finds by itself and what it finds with the cut must be the same.
#[test]
fn what_is_cut_changes_no_verdict() {
    let depths = [Depth::Uncut(None), Depth::Exhaustive];
    for (algorithm, calls, assumptions) in [
        (Algorithm::OneShot, 2, Assumptions::NONE),
        (Algorithm::OneShot, 1, Assumptions::NONE.with_words()),
        (Algorithm::TwoShot, 1, Assumptions::NONE),
    ] {
        let found = cut_or_not(faulty(algorithm, calls, assumptions), depths, 100_000);
        assert!(found[0] > 5 && found[1] > 5, "{found:?} passed and failed: {algorithm:?} {calls} {assumptions}");
    }
}

/// Nor with a bound on preemptions, in these programs; that it never does is not shown.
#[test]
fn what_is_cut_under_a_bound_changes_no_verdict_here() {
    let depths = [Depth::Uncut(Some(1)), Depth::Preemptions(1)];
    for algorithm in Algorithm::OF_ANY_PROTOCOL {
        let found = cut_or_not(faulty(algorithm, 1, Assumptions::NONE), depths, 100_000);
        assert!(found[0] > 5 && found[1] > 5, "{found:?} passed and failed: {algorithm:?}");
    }
}

/// Every order of the threads, but for which rank has which number.
#[test]
fn lineups_differ_in_who_goes_first() {
    let cell = one_shot_memcpy(Order::ReleaseAcquire, Reuse::Parity);
    let counts = SHAPES.map(|shape| Lineup::all(&cell.program(shape)).len());
    assert_eq!(counts, [1, 12, 12, 2, 6]);
}

/// A bound that was not completed is never told as one that was.
#[test]
fn what_was_not_completed_is_no_depth() {
    let program = one_shot_memcpy(Order::ReleaseAcquire, Reuse::Parity).program(SHAPES[1]);
    let subject = Subject { program, assumptions: Assumptions::NONE, mutation: Mutation::Nothing };
    let effort = Effort { preemptions: 1, lineups: 2, bounded: 100, exhaustive: 10 };
    let coverage = search(&subject, effort).unwrap();
    assert_eq!((coverage.depth, coverage.depth_name().as_str()), (None, "part of ≤ 1"));
}

/// Where a wrong sum was passed on, the story blames who made it.
#[test]
fn a_sum_that_was_wrong_already_is_not_blamed_on_its_reader() {
    let minimal = matrix::starts().next().unwrap();
    let cell = matrix::cell(Algorithm::TwoShot, InputMode::Copied, Usage::InTurn, minimal, Reuse::Nothing);
    let Verdict::Unsound(found) = cell.verdict(Mutation::Nothing, quick) else { panic!("it is sound") };
    assert!(found.story.short.contains("staging buffer too early"), "{}\n{}", found.story.short, found.story);
}
