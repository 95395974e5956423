//! A part of what `docs/barriers.md` says, explored less deep: what the library's own claims must agree with.

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::soundness::Soundness;
use allfold_model::cell::{Cell, Verdict, quick};
use allfold_model::explore::{Depth, explore};
use allfold_model::faults::{self, Fate};
use allfold_model::matrix;
use allfold_model::mutants::Mutation;
use allfold_model::program::Usage;
use allfold_model::sequences;

/// What the kernels' crate declares of a protocol is what the model finds, where the caller may do what it likes.
#[test]
fn the_declarations_of_soundness_are_true() {
    let presets = matrix::presets().into_iter().map(|(_, cell)| cell);
    let mut asked: Vec<Cell> = Vec::new();
    for cell in matrix::cells().into_iter().chain(presets).chain(matrix::volatile_middle()) {
        if asked.contains(&cell) || !cell.input.staged() && cell.usage != Usage::Rewritten {
            continue;
        }
        asked.push(cell);
        match (cell.protocol.soundness(cell.algorithm, cell.input), cell.verdict(Mutation::Nothing, quick)) {
            (Soundness::Sound, Verdict::Proved(_)) | (Soundness::NotKnown(_), Verdict::Unsound(_)) => {}
            (Soundness::RestsOn(declared), Verdict::RestsOn(found)) => {
                let found: Vec<Vec<_>> = found.into_iter().map(|(set, _)| set.iter().collect()).collect();
                assert_eq!(found, [declared.to_vec()], "{cell:?}");
            }
            (declared, found) => panic!("{cell:?} is declared {declared:?}, and found to be {found:?}"),
        }
    }
    assert!(asked.len() > 80, "{} cells were asked", asked.len());
}

#[test]
fn in_place_our_own_forms_are_proved_but_for_the_registered_one_shot() {
    for cell in matrix::in_place() {
        let proved = matches!(cell.verdict(Mutation::Nothing, quick), Verdict::Proved(_));
        let sound = (cell.algorithm, cell.input) != (Algorithm::OneShot, InputMode::Registered);
        assert_eq!(proved, sound, "{:?} {:?}", cell.algorithm, cell.input);
    }
}

#[test]
fn b02_a_middle_barrier_cannot_be_volatile() {
    for cell in matrix::volatile_middle() {
        assert!(matches!(cell.verdict(Mutation::Nothing, quick), Verdict::Unsound(_)), "{:?}", cell.input);
    }
}

#[test]
fn every_fault_in_our_own_protocols_is_found_or_known_to_be_none() {
    let mut found = 0;
    for fault in faults::all().into_iter().filter(|fault| fault.preset == Preset::Allfold) {
        if faults::why_it_survives(&fault.name).is_some() {
            continue;
        }
        match fault.fate(quick) {
            Fate::Killed(..) => found += 1,
            Fate::Survived(_) => panic!("{:?} {:?}: {}", fault.algorithm, fault.input, fault.name),
        }
    }
    assert!(found > 70, "{found} faults were planted");
}

/// The beginning of what the whole run does.
#[test]
fn b01_b31_our_forms_may_follow_one_another() {
    for program in sequences::mixed() {
        let name = format!("{program}");
        let subject =
            allfold_model::explore::Subject { program, assumptions: Default::default(), mutation: Mutation::Nothing };
        let explored = explore(&subject, Depth::Preemptions(1), 50);
        assert!(explored.failed.is_none(), "{name}: {:?}", explored.failed);
    }
}

/// How many assumptions a one-shot with a volatile start needs, by what protects its staging area.
#[test]
fn what_ends_a_call_adds_to_what_a_volatile_start_rests_on() {
    let verdict = |reuse| {
        let start = matrix::starts().next().expect("there are start barriers");
        let cell: Cell = matrix::cell(Algorithm::OneShot, InputMode::Memcpy, Usage::InTurn, start, reuse);
        match cell.verdict(Mutation::Nothing, quick) {
            Verdict::Proved(_) => 0,
            Verdict::RestsOn(sets) => sets[0].0.len(),
            Verdict::Unsound(_) => u32::MAX,
        }
    };
    let needs: Vec<_> = matrix::reuses(InputMode::Memcpy).map(verdict).collect();
    assert_eq!(needs, [u32::MAX, 2, 3, 2], "nothing, parity, a volatile end, an end with release and acquire");
}
