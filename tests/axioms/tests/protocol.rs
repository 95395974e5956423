//! The cores of our barriers, and the kernels: verdicts, mutants, and what `Protocol::soundness` declares.

use allfold_axioms::kernels::{Cell, Judgement, SHAPES, Usage, Weakened, judge, matrix, trace, wrong};
use allfold_axioms::mutate::harvest;
use allfold_axioms::protocol;
use allfold_axioms::verdict::Verdict;
use allfold_kernels::protocol::abi::{Algorithm, InputMode, Phase};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::soundness::{Assumption, Soundness};
use allfold_kernels::protocol::spec::Order;

#[test]
fn cores_have_their_verdicts() {
    for case in protocol::sections().into_iter().flat_map(|section| section.cases) {
        let answer = case.answer();
        assert_eq!(answer.verdict, case.expected, "{}: {}\n{}", case.name(), case.outcome, answer.witness.join("\n"));
    }
}

#[test]
fn mutants_of_sound_cores_are_killed_or_explained() {
    let mut killed = 0;
    for case in protocol::sections().into_iter().flat_map(|section| section.cases).filter(|case| case.mutate) {
        assert_eq!(case.expected, Verdict::Forbidden, "{}", case.name());
        let harvest = harvest(&case);
        assert!(harvest.unexplained.is_empty(), "{}:\n{}", case.name(), harvest.unexplained.join("\n"));
        killed += harvest.killed;
    }
    assert!(killed > 100, "{killed} mutants killed");
}

/// What the checker finds is what the protocol says of itself, in every cell of the matrix and for every preset.
#[test]
fn kernels_are_as_sound_as_declared() {
    let cells = matrix::rows().into_iter().flat_map(|row| row.cells);
    let presets = matrix::presets().into_iter().map(|(_, cell)| cell);
    // Two buffers in turn protect a registered input by themselves; the declaration does not count on it.
    let in_turn = |cell: &Cell| cell.usage == Usage::InTurn;
    for cell in cells.chain(presets.filter(|cell| !in_turn(cell))) {
        let found = judge(&cell);
        let declared = cell.protocol.soundness(cell.algorithm, cell.input);
        let agree = match (&found, declared) {
            (Judgement::Sound, Soundness::Sound) | (Judgement::Unsound(_), Soundness::NotKnown(_)) => true,
            // One smallest set of assumptions, and just the one declared.
            (Judgement::RestsOn(sets), Soundness::RestsOn(all)) => *sets == [all],
            (Judgement::Sound | Judgement::RestsOn(_) | Judgement::Unsound(_), _) => false,
        };
        assert!(agree, "{cell:?}\nfound {found:?}\ndeclared {declared:?}");
    }
}

/// Two registered inputs in turn: nothing rests on the end of a call, only on the start barrier's order. These are the
/// cells of the model checker's matrix that the tables of `docs/axioms.md` do not have.
#[test]
fn with_two_inputs_in_turn_only_the_start_barrier_counts() {
    for cell in matrix::rows().into_iter().flat_map(|row| row.cells) {
        if cell.input == InputMode::Registered {
            let found = judge(&Cell { usage: Usage::InTurn, ..cell });
            let agree = match (&found, cell.protocol.start.order) {
                (Judgement::Sound, Order::ReleaseAcquire) => true,
                (Judgement::RestsOn(sets), Order::Volatile) => {
                    *sets == [[Assumption::KernelEndPublishes, Assumption::PollOrdersLoads]]
                }
                (Judgement::Sound | Judgement::RestsOn(_) | Judgement::Unsound(_), _) => false,
            };
            assert!(agree, "{cell:?}: {found:?}");
        }
    }
}

/// In place, a one-shot with a registered input is unsound whatever ends it; that is why it is refused.
#[test]
fn one_shot_in_place_is_unsound() {
    for row in matrix::rows().into_iter().filter(|row| row.algorithm == Algorithm::OneShot) {
        for cell in row.cells {
            if cell.input == InputMode::Registered {
                let found = judge(&Cell { usage: Usage::InPlace, ..cell });
                assert!(matches!(found, Judgement::Unsound(_)), "{cell:?}: {found:?}");
            }
        }
    }
}

/// Every release, acquire, system scope, block sync and wait of our own kernels is needed.
#[test]
fn nothing_in_our_kernels_is_spare() {
    for (_, cell) in matrix::presets().into_iter().filter(|(preset, _)| *preset == Preset::Allfold) {
        for weakened in weakenings(&cell) {
            // With two buffers in turn a one-shot needs no end barrier: neither the wait nor the block sync before it.
            let spare = cell.usage == Usage::InTurn
                && cell.algorithm == Algorithm::OneShot
                && (weakened == Weakened::Poll(Phase::End) || weakened == Weakened::Sync(1));
            assert_eq!(wrong(&cell, weakened, &[]).is_none(), spare, "{weakened:?} in {cell:?}");
        }
    }
}

/// The weakenings that change something in `cell`.
fn weakenings(cell: &Cell) -> Vec<Weakened> {
    let all = [Weakened::Release, Weakened::Acquire, Weakened::Scope];
    let syncs = (0..16).map(Weakened::Sync);
    let candidates = all.into_iter().chain(syncs).chain(Phase::BARRIERS.map(Weakened::Poll));
    let changes = |weakened: &Weakened| {
        SHAPES.iter().any(|&shape| trace(cell, *weakened, shape).0 != trace(cell, Weakened::Nothing, shape).0)
    };
    candidates.filter(changes).collect()
}
