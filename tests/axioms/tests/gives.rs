//! One-pass and exchange: what their ranks store into one another's outputs, and what each barrier is for.

use allfold_axioms::assumption::Assumption;
use allfold_axioms::kernels::gives::{barriers, cells, mutants, volatile};
use allfold_axioms::kernels::{Judgement, SHAPES, Weakened, judge, trace, wrong};
use allfold_kernels::protocol::abi::{Algorithm, Phase};

#[test]
fn b01_b08_our_forms_are_sound() {
    let cells = cells();
    assert_eq!(cells.len(), 5, "three usages of the one-pass, two of the exchange");
    for cell in cells {
        assert_eq!(judge(&cell), Judgement::Sound, "{cell:?}");
    }
}

/// Before the launch, stream order and assumptions may do what a start barrier does; for what a kernel itself stored nothing
/// stands in.
#[test]
fn b02_no_barrier_may_be_volatile() {
    let (k, p, l) = (Assumption::KernelEndPublishes, Assumption::PollOrdersLoads, Assumption::LoadsDoneBeforeBarrier);
    for cell in cells() {
        for phase in barriers(&cell) {
            let found = judge(&volatile(&cell, phase));
            match (phase, cell.algorithm) {
                (Phase::Start, Algorithm::OnePass) => {
                    assert_eq!(found, Judgement::RestsOn(vec![vec![k, p]]), "{cell:?}")
                }
                // No input is read: its start barrier has only to say that the last sums have been read.
                (Phase::Start, _) => assert_eq!(found, Judgement::RestsOn(vec![vec![l], vec![k, p]]), "{cell:?}"),
                (_, _) => assert!(matches!(found, Judgement::Unsound(_)), "{phase:?} in {cell:?}: {found:?}"),
            }
        }
    }
}

/// Every release, acquire, system scope, block sync and wait is.
#[test]
fn nothing_is_spare() {
    for cell in cells() {
        let mut needed = 0;
        for weakened in mutants(&cell) {
            let changes = |&shape: &_| trace(&cell, weakened, shape).0 != trace(&cell, Weakened::Nothing, shape).0;
            if SHAPES.iter().any(changes) {
                assert!(wrong(&cell, weakened, &[]).is_some(), "{weakened:?} in {cell:?}");
                needed += 1;
            }
        }
        // Three orders, a wait in each barrier, a block sync after each but the last and before each but the first.
        assert_eq!(needed, 3 + barriers(&cell).len() + 2 * (barriers(&cell).len() - 1), "{cell:?}");
    }
}
