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
pub const FAULTS: [Fault; 14] = [
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
];

const PHASES: [Phase; 4] = [Phase::First, Phase::Between, Phase::Many, Phase::Within];

/// Whether the fault can be there.
fn can_be(cell: &Cell) -> bool {
    // The others are in their call before the victim does anything.
    let within = cell.phase == Phase::Within;
    cell.form.0.takes(cell.world) && (!within || matches!(cell.fault, Fault::Late | Fault::Dropped))
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
                    cells.push(Cell { fault, phase, form, world, victim });
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
                    let waits = matches!(fault, Fault::Absent | Fault::EmptyAlone);
                    if waits && turn == EACH - 1 {
                        continue;
                    }
                    let number = fault as usize + 3 * turn + 2 * at + 4 * victim as usize;
                    let form = FORMS[number % FORMS.len()];
                    cells.push(Cell { fault, phase, form, world: 2, victim });
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
        for (turn, &phase) in (0..).zip(phases) {
            for (number, form) in (0..).zip(FORMS_OF_PROCESSES) {
                for world in [2, 3] {
                    // Rank 0 too, where the others meet.
                    cells.push(Cell { fault, phase, form, world, victim: (number + turn) % world });
                }
            }
        }
    }
    // Of those that are left, one may have got all that it needs and start anew before the other has seen what happened.
    cells.retain(|cell| cell.fault != Fault::KilledInCall || cell.world == 2);
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
                    cells.push(Cell { fault, phase, form, world, victim });
                    number += 1;
                }
                if fault == Fault::KilledInCall || fault == Fault::Killed && phase == Phase::Within {
                    let form = FORMS_OF_PROCESSES[number % FORMS_OF_PROCESSES.len()];
                    cells.push(Cell { fault, phase, form, world: 2, victim });
                    number += 1;
                }
            }
        }
    }
    // After all that were killed, new ones use the same GPUs.
    let form = FORMS_OF_PROCESSES[0];
    cells.extend([2, 3].map(|world| Cell { fault: Fault::Late, phase: Phase::First, form, world, victim: 1 }));
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
        for (fault, phases) in [(Fault::Killed, 3), (Fault::KilledInCall, 2), (Fault::Stopped, 1)] {
            let cells = of_processes(&[fault], &PHASES[..phases]);
            for world in [2, 3].into_iter().filter(|&world| world == 2 || fault != Fault::KilledInCall) {
                let of = |victim| cells.iter().any(|cell| (cell.world, cell.victim) == (world, victim));
                assert!((0..world).all(of), "{fault:?} of {world} processes");
            }
        }
        assert!(cpu.len() > 600 && gpu.len() > 200, "{} and {}", cpu.len(), gpu.len());
    }
}
