//! Which cells there are: every kind of fault at every place of a run, by every algorithm, whoever it befalls.

use allfold::{Algorithm, InputMode};

use super::{Cell, Fault, Phase};

type Form = (Algorithm, InputMode);

/// How calls are done in cells whose ranks are threads.
pub const FORMS: [Form; 8] = [
    (Algorithm::OneShot, InputMode::Copied),
    (Algorithm::OneShot, InputMode::Registered),
    (Algorithm::TwoShot, InputMode::Copied),
    (Algorithm::TwoShot, InputMode::Registered),
    (Algorithm::OneShotPush, InputMode::Copied),
    (Algorithm::TwoShotPush, InputMode::Copied),
    (Algorithm::OnePass, InputMode::Registered),
    (Algorithm::Exchange, InputMode::Copied),
];

/// The same where they are processes.
pub const FORMS_OF_PROCESSES: [Form; 5] = [
    (Algorithm::OneShot, InputMode::Copied),
    (Algorithm::TwoShot, InputMode::Registered),
    (Algorithm::OneShotPush, InputMode::Copied),
    (Algorithm::TwoShotPush, InputMode::Copied),
    (Algorithm::OnePass, InputMode::Registered),
];

/// What may befall a thread.
pub const FAULTS: [Fault; 18] = [
    Fault::Late,
    Fault::Absent,
    Fault::Dropped,
    Fault::Aborts,
    Fault::AbortedFromAside,
    Fault::Longer,
    Fault::Shorter,
    Fault::OtherDtype,
    Fault::OtherAlgorithm,
    Fault::OtherGrid,
    Fault::OtherOrder,
    Fault::OneMore,
    Fault::Empty,
    Fault::EmptyAlone,
    Fault::OtherHalf,
    Fault::OtherInput,
    Fault::OtherPlan,
    Fault::OtherTurn,
];

const PHASES: [Phase; 4] = [Phase::First, Phase::Between, Phase::Many, Phase::Within];

/// Whether the fault can be there.
fn can_be(cell: &Cell) -> bool {
    // The others are in their call before the victim does anything.
    let within = cell.phase == Phase::Within;
    // What a push or a one-pass does with its input is the same in all modes.
    let (algorithm, _) = cell.form;
    let staged = !algorithm.pushes() && algorithm != Algorithm::OnePass;
    algorithm.takes(cell.world)
        && (!within || matches!(cell.fault, Fault::Late | Fault::Dropped))
        && (staged || cell.fault != Fault::OtherInput)
}

/// Of CPU ranks that are threads.
pub fn of_cpu_threads() -> Vec<Cell> {
    let mut cells = Vec::new();
    for fault in FAULTS {
        for phase in PHASES {
            for (number, form) in FORMS.into_iter().enumerate() {
                for world in [2, 3] {
                    // Every rank is the victim in turn, from form to form and from phase to phase.
                    let victim = (number as u32 + phase as u32 + fault as u32) % world;
                    cells.push(Cell::drawn(fault, phase, form, world, victim));
                }
            }
        }
    }
    cells.retain(can_be);
    cells
}

/// Of two ranks with a GPU each: every fault in every phase befalls either rank, by some of the forms. The first third of them is a
/// little of everything.
pub fn of_gpu_pairs() -> Vec<Cell> {
    const EACH: usize = 3;
    let mut cells = Vec::new();
    for turn in 0..EACH {
        for (at, phase) in PHASES.into_iter().enumerate() {
            for fault in FAULTS {
                for victim in 0..2 {
                    // Those that wait are few: each of their cells takes as long as several others.
                    let waits = matches!(fault, Fault::Absent | Fault::EmptyAlone | Fault::OtherTurn);
                    if waits && turn == EACH - 1 {
                        continue;
                    }
                    let number = fault as usize + 3 * turn + 2 * at + 4 * victim as usize;
                    let form = FORMS[number % FORMS.len()];
                    cells.push(Cell::drawn(fault, phase, form, 2, victim));
                }
            }
        }
    }
    cells.retain(can_be);
    cells
}

/// Of processes: each of `faults` in each of `phases`.
pub fn of_processes(faults: &[Fault], phases: &[Phase]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &fault in faults {
        for &phase in phases {
            for (number, form) in FORMS_OF_PROCESSES.into_iter().enumerate() {
                for world in [2, 3] {
                    // Every rank in turn: rank 0 too, where the others meet.
                    let victim = (number as u32 + phase as u32 + fault as u32) % world;
                    cells.push(Cell::drawn(fault, phase, form, world, victim));
                }
            }
        }
    }
    cells
}

/// Those of the CPU.
pub fn of_cpu_processes() -> Vec<Cell> {
    use Fault::{Aborts, Dropped, Empty, EmptyAlone, Killed, KilledInCall, Longer, Stopped, StoppedTooLong};
    use Phase::{Between, First, Many, Within};
    let mut cells = of_processes(&[Killed], &[First, Many, Within]);
    cells.extend(of_processes(&[KilledInCall], &[First, Between]));
    cells.extend(of_processes(&[Dropped, Aborts, Longer], &[First, Within]));
    cells.extend(of_processes(&[Empty, EmptyAlone], &[First, Between]));
    cells.extend(of_processes(&[Stopped, StoppedTooLong], &[Between]));
    cells
}

/// Of processes with a GPU each; three of them share the GPUs of two.
pub fn of_gpu_processes() -> Vec<Cell> {
    let places = [
        (Fault::Killed, &[Phase::First, Phase::Many, Phase::Within][..]),
        (Fault::KilledInCall, &[Phase::First, Phase::Between]),
        (Fault::StoppedTooLong, &[Phase::Between]),
        (Fault::Stopped, &[Phase::Between]),
        (Fault::Dropped, &[Phase::Within]),
        (Fault::Empty, &[Phase::Between]),
    ];
    let (mut cells, mut number) = (Vec::new(), 0);
    for (fault, phases) in places {
        for &phase in phases {
            for victim in 0..2 {
                for world in [2, 3].into_iter().filter(|&world| world == 2 || !fault.kills() && victim == 0) {
                    let form = FORMS_OF_PROCESSES[number % FORMS_OF_PROCESSES.len()];
                    cells.push(Cell::drawn(fault, phase, form, world, victim));
                    number += 1;
                }
                if fault == Fault::KilledInCall || fault == Fault::Killed && phase == Phase::Within {
                    let form = FORMS_OF_PROCESSES[number % FORMS_OF_PROCESSES.len()];
                    cells.push(Cell::drawn(fault, phase, form, 2, victim));
                    number += 1;
                }
            }
        }
    }
    // After all that were killed, new ones use the same GPUs.
    let form = FORMS_OF_PROCESSES[0];
    cells.extend([2, 3].map(|world| Cell::drawn(Fault::Late, Phase::First, form, world, 1)));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_a_rank_is_there_in_every_phase_whoever_it_befalls() {
        let (cpu, gpu) = (of_cpu_threads(), of_gpu_pairs());
        for fault in FAULTS {
            for phase in PHASES.into_iter().filter(|phase| *phase != Phase::Within) {
                let of = |cells: &[Cell], victim| {
                    cells.iter().any(|cell| (cell.fault, cell.phase, cell.victim) == (fault, phase, victim))
                };
                assert!((0..3).all(|victim| of(&cpu, victim)), "{fault:?} {phase:?}");
                assert!((0..2).all(|victim| of(&gpu, victim)), "{fault:?} {phase:?}");
            }
        }
        for (number, cell) in gpu.iter().enumerate() {
            assert!(!gpu[..number].contains(cell), "{cell:?} is there twice");
        }
        assert!(cpu.len() > 700 && gpu.len() > 200, "{} and {}", cpu.len(), gpu.len());
    }

    #[test]
    fn every_fault_of_a_process_befalls_every_rank_of_every_world() {
        let cells = of_cpu_processes();
        for fault in cells.iter().map(|cell| cell.fault) {
            for world in [2, 3] {
                for victim in 0..world {
                    let is_there =
                        cells.iter().any(|cell| (cell.fault, cell.world, cell.victim) == (fault, world, victim));
                    assert!(is_there, "{fault:?}: rank {victim} of {world}");
                }
            }
        }
    }

    #[test]
    fn calls_that_differ_do_so_by_all_sorts_of_lengths_and_by_one_block_and_two() {
        let cells = of_cpu_threads();
        let differ: Vec<_> =
            cells.iter().filter(|cell| !cell.fault.differs_in().is_empty() && cell.fault != Fault::OtherGrid).collect();
        for fault in differ.iter().map(|cell| cell.fault) {
            let of = |blocks| differ.iter().filter(|cell| (cell.fault, cell.blocks) == (fault, blocks)).count();
            assert!(of(1) * 3 > of(2) && of(2) * 3 > of(1), "{fault:?}: {} and {}", of(1), of(2));
        }
        let by_length = differ.iter().filter(|cell| cell.fault.differs_in() == ["length"]);
        assert!(by_length.clone().all(|cell| cell.elems[0] != cell.elems[1]));
        let mut lengths: Vec<_> = by_length.map(|cell| cell.elems).collect();
        lengths.sort_unstable();
        lengths.dedup();
        assert!(lengths.len() > 100 && lengths.contains(&[409_600, 409_598]), "{lengths:?}");
    }
}
