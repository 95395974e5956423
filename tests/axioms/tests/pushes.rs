//! The push kernels in rows of calls in which a generation comes round, and what becomes of them when they are weakened.

use allfold_axioms::assumption::Assumption;
use allfold_axioms::kernels::pushes::{Row, judge, mutants, wrong};
use allfold_axioms::kernels::{Judgement, Landing, Weakened, rows};
use allfold_kernels::protocol::abi::{Algorithm, InputMode, Phase};

#[test]
fn nothing_is_lost_and_nothing_is_another_calls() {
    let all = [rows::plain(), rows::mixed()].concat();
    assert!(all.len() > 50, "{} rows", all.len());
    for row in all {
        if let Some(steps) = wrong(&row, Weakened::Nothing, &[]) {
            panic!("{}:\n{}", row.name, steps.join("\n"));
        }
    }
}

/// Whether some row goes wrong with `weakened`.
fn found(rows: &[Row], weakened: Weakened) -> bool {
    rows.iter().any(|row| wrong(row, weakened, &[]).is_some())
}

#[test]
fn every_strength_of_a_push_is_needed() {
    for algorithm in ["one_shot_push", "two_shot_push"] {
        let rows: Vec<Row> = rows::plain().into_iter().filter(|row| row.name.starts_with(algorithm)).collect();
        for (name, weakened) in mutants() {
            // The marker may go back with an ordinary store: the poll before it and the announcement after it order it.
            let spare = matches!(weakened, Weakened::Landing(Landing::Clear, _));
            // Only a two-shot pushes sums.
            let needed = !spare && (weakened != Weakened::Sum || algorithm == "two_shot_push");
            assert_eq!(found(&rows, weakened), needed, "{algorithm}: {name}");
        }
    }
}

/// Nor does the fence of the next push make up for a volatile wait: it is another kernel's, so another thread's.
#[test]
fn the_next_fence_does_not_make_up_for_a_volatile_wait() {
    let rows = rows::with_the_next();
    assert!(rows.len() > 10, "{} rows", rows.len());
    for row in rows {
        assert!(wrong(&row, Weakened::Nothing, &[]).is_none(), "{}", row.name);
        assert!(wrong(&row, Weakened::Acquire, &[]).is_some(), "{}", row.name);
    }
}

/// Where no call announces itself, it is left to the hardware that a marker comes before the next push. The fence of a push
/// helps a little: the thread that fences needs no [`Assumption::KernelEndPublishes`]; but of several blocks it is not the one
/// that pushes.
#[test]
fn without_announcements_a_push_rests_on_assumptions() {
    let (k, p) = (Assumption::KernelEndPublishes, Assumption::PollOrdersLoads);
    let [one_block, two_blocks] = rows::silent();
    assert_eq!(judge(&one_block, Weakened::Nothing), Judgement::RestsOn(vec![vec![p]]));
    assert_eq!(judge(&two_blocks, Weakened::Nothing), Judgement::RestsOn(vec![vec![k, p]]));
}

const STAGED: [InputMode; 2] = [InputMode::Memcpy, InputMode::Copied];

/// Of two banks in turn, one comes round in the call after the next. Where that is a push, no start barrier lies in between: a
/// peer's loads of a one-shot are ordered before the next write of the bank by relaxed pushes alone. So a communicator that
/// pushes keeps one bank.
#[test]
fn with_banks_in_turn_a_push_between_two_one_shots_rests_on_assumptions() {
    let (k, p, l) = (Assumption::KernelEndPublishes, Assumption::PollOrdersLoads, Assumption::LoadsDoneBeforeBarrier);
    for row in rows::between(Algorithm::OneShot, &STAGED, false) {
        assert_eq!(judge(&row, Weakened::Nothing), Judgement::RestsOn(vec![vec![l], vec![k, p]]), "{}", row.name);
    }
    // A two-shot's middle barrier says that its bank has been read.
    for row in rows::between(Algorithm::TwoShot, &STAGED, false) {
        assert_eq!(judge(&row, Weakened::Nothing), Judgement::Sound, "{}", row.name);
    }
}

/// One bank is written again in the next call already, and needs nothing: an end barrier, or the middle one, says that it has
/// been read.
#[test]
fn with_one_bank_that_is_kept_pushes_may_come_between() {
    let between = Algorithm::OF_ANY_PROTOCOL.map(|algorithm| rows::between(algorithm, &InputMode::ALL, true));
    let all = between.into_iter().chain([rows::kept()]).flatten();
    let mut asked = 0;
    for row in all {
        assert_eq!(judge(&row, Weakened::Nothing), Judgement::Sound, "{}", row.name);
        asked += 1;
    }
    assert!(asked > 60, "{asked} rows");
}

/// What keeps the one bank of a one-shot is its end barrier, and of a two-shot its middle one.
#[test]
fn the_barrier_that_keeps_the_bank_is_needed() {
    for (algorithm, phase) in [(Algorithm::OneShot, Phase::End), (Algorithm::TwoShot, Phase::Middle)] {
        let rows = rows::between(algorithm, &STAGED, true);
        assert!(found(&rows, Weakened::Poll(phase)), "{algorithm:?}");
    }
}

/// Nor would two banks need an assumption, were they counted by staged calls: the start barrier of the one in between would
/// order it.
#[test]
fn banks_that_alternate_by_staged_calls_need_no_assumption() {
    for row in rows::banks_in_turn() {
        assert_eq!(judge(&row, Weakened::Nothing), Judgement::Sound, "{}", row.name);
    }
}
