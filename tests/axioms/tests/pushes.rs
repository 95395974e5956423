//! The push kernels in rows of calls in which a generation comes round, and what becomes of them when they are
//! weakened.

use allfold_axioms::assumption::Assumption;
use allfold_axioms::event::Order;
use allfold_axioms::kernels::pushes::{Row, judge, mutants, orders, wrong};
use allfold_axioms::kernels::{Judgement, Landing, Weakened, rows};
use allfold_kernels::protocol::abi::{Algorithm, InputMode, Phase};

const PUSHES: [Algorithm; 2] = [Algorithm::OneShotPush, Algorithm::TwoShotPush];

/// Rows of pushes alone, in which one of `generations` comes round.
fn alone(generations: u32) -> Vec<Row> {
    let fewest = |together| rows::fewest(generations, together);
    [rows::plain(1), rows::plain(2), fewest(2), fewest(3), rows::mixed()].concat()
}

fn assert_right(rows: &[Row], weakened: Weakened) {
    for row in rows {
        if let Some(steps) = wrong(row, weakened, &[]) {
            panic!("{}:\n{}", row.name, steps.join("\n"));
        }
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_another_calls() {
    let all = alone(rows::ROUND);
    assert!(all.len() > 100, "{} rows", all.len());
    assert_right(&all, Weakened::Nothing);
}

/// A generation comes round in every row, and nothing but announcements keeps its markers from the next pushes.
#[test]
fn every_row_comes_round_and_needs_an_announcement() {
    for row in alone(rows::ROUND) {
        for weakened in [Weakened::Clear, Weakened::Poll(Phase::Landing)] {
            assert!(wrong(&row, weakened, &[]).is_some(), "{}: {weakened:?}", row.name);
        }
    }
}

/// Also one that comes between an announcement and the wait for it.
#[test]
fn a_call_of_another_algorithm_in_between_changes_nothing() {
    let rows = rows::others();
    assert!(rows.len() > 30, "{} rows", rows.len());
    assert_right(&rows, Weakened::Nothing);
}

/// Words beside flags, alone and where others were or will be. Accesses have one size here, where those of f32 have 4 bytes and those
/// of i32 have 8: two of unequal sizes are never morally strong to each other. None need be: what one call does at a place comes before
/// what a later one does there by the announcements, also where the marker is put back by an ordinary store.
#[test]
fn integers_land_beside_flags_and_where_others_did() {
    let rows = rows::integers();
    assert_eq!(rows.len(), 3 * PUSHES.len() * 3);
    assert_right(&rows, Weakened::Nothing);
    assert_right(&rows, Weakened::Landing(Landing::Clear, Order::Weak));
    for row in &rows {
        assert!(wrong(row, Weakened::Clear, &[]).is_some(), "{}", row.name);
    }
}

/// Whether some row goes wrong with `weakened`.
fn found(rows: &[Row], weakened: Weakened) -> bool {
    rows.iter().any(|row| wrong(row, weakened, &[]).is_some())
}

#[test]
fn every_strength_of_a_push_is_needed() {
    for algorithm in PUSHES {
        let rows: Vec<Row> = rows::plain(1).into_iter().filter(|row| row.calls[0].algorithm == algorithm).collect();
        for (name, weakened) in mutants() {
            // The marker may go back with an ordinary store: the poll before it and the announcement after it order it.
            let spare = matches!(weakened, Weakened::Landing(Landing::Clear, _));
            // Only a two-shot pushes sums.
            let needed = !spare && (weakened != Weakened::Sum || algorithm == Algorithm::TwoShotPush);
            assert_eq!(found(&rows, weakened), needed, "{algorithm:?}: {name}");
        }
    }
}

/// A volatile store leaves its half to the end of a kernel, a volatile poll its own to the hardware's loads.
#[test]
fn a_weaker_announcement_rests_on_assumptions() {
    let (k, p) = (Assumption::KernelEndPublishes, Assumption::PollOrdersLoads);
    for (name, weakened) in orders() {
        let rests_on = match weakened {
            Weakened::Release => vec![k],
            Weakened::Acquire => vec![p],
            Weakened::Scope | Weakened::Poll(_) | Weakened::Generations(2) => vec![k, p],
            Weakened::Nothing
            | Weakened::Sync(_)
            | Weakened::Landing(..)
            | Weakened::Clear
            | Weakened::Generations(_)
            | Weakened::Sum => continue,
        };
        for row in PUSHES.into_iter().flat_map(|algorithm| rows::small(algorithm, weakened.generations())) {
            let expected = Judgement::RestsOn(vec![rests_on.clone()]);
            assert_eq!(judge(&row, weakened), expected, "{}: {name}", row.name);
        }
    }
}

/// Three generations are enough; two are where two calls share one, so that a call waits before the generation comes
/// round; one is not, whatever is assumed.
#[test]
fn three_generations_are_enough() {
    assert_right(&[alone(3), rows::others()].concat(), Weakened::Generations(3));
    assert_right(&rows::plain(2), Weakened::Generations(2));
    for row in rows::plain(1) {
        assert!(wrong(&row, Weakened::Generations(2), &[]).is_some(), "{}", row.name);
    }
    for row in PUSHES.into_iter().flat_map(|algorithm| rows::small(algorithm, 1)) {
        let found = judge(&row, Weakened::Generations(1));
        assert!(matches!(found, Judgement::Unsound(_)), "{}: {found:?}", row.name);
    }
}

/// Where no call announces itself, it is left to the hardware that a marker comes before the next push.
#[test]
fn without_announcements_a_push_rests_on_assumptions() {
    for row in rows::silent() {
        let both = vec![Assumption::KernelEndPublishes, Assumption::PollOrdersLoads];
        assert_eq!(judge(&row, Weakened::Nothing), Judgement::RestsOn(vec![both]), "{}", row.name);
    }
}

const STAGED: [InputMode; 2] = [InputMode::Memcpy, InputMode::Copied];

/// Of two banks in turn, one comes round in the call after the next. Where that is a push, no start barrier lies in
/// between: a peer's loads of a one-shot are ordered before the next write of the bank by relaxed pushes alone. So a
/// communicator that pushes keeps one bank.
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

/// One bank is written again in the next call already, and needs nothing: an end barrier, or the middle one, says that
/// it has been read.
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

/// Nor would two banks need an assumption, were they counted by staged calls: the start barrier of the one in between
/// would order it.
#[test]
fn banks_that_alternate_by_staged_calls_need_no_assumption() {
    for row in rows::banks_in_turn() {
        assert_eq!(judge(&row, Weakened::Nothing), Judgement::Sound, "{}", row.name);
    }
}
