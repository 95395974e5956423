//! Everything that the model has to say, computed on several threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use allfold_kernels::protocol::preset::Preset;

use crate::assumptions::Assumption;
use crate::cell::{Cell, Efforts, Verdict, fair, quick, thorough};
use crate::faults::{self, Fate, Fault};
use crate::matrix;
use crate::mutants::Mutation;
use crate::program::Program;
use crate::search::{Counterexample, Coverage};
use crate::sequences::{self, EARLY, Early};

/// Cells and their verdicts.
pub type Answers = Vec<(Cell, Verdict)>;

/// What a quick run says, too.
pub struct Verdicts {
    /// The whole matrix.
    pub matrix: Answers,
    /// The presets.
    pub presets: Vec<(Preset, Cell, Verdict)>,
    /// Our own forms in place.
    pub in_place: Answers,
    /// Two-shots with a volatile middle barrier.
    pub volatile_middle: Answers,
}

impl Verdicts {
    /// Computes them.
    pub fn new(workers: NonZero<usize>, efforts: Efforts) -> Verdicts {
        let presets = matrix::presets();
        let in_place = matrix::in_place();
        let middle = matrix::volatile_middle();
        let mut cells = matrix::cells();
        let others =
            presets.iter().map(|&(_, cell)| cell).chain(in_place.iter().copied()).chain(middle.iter().copied());
        for cell in others {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        let answers = parallel(workers, &cells, |cell| (*cell, cell.verdict(Mutation::Nothing, efforts)));
        let of = |cell: &Cell| (*cell, verdict_of(&answers, cell));
        Verdicts {
            matrix: matrix::cells().iter().map(of).collect(),
            presets: presets.into_iter().map(|(preset, cell)| (preset, cell, of(&cell).1)).collect(),
            in_place: in_place.iter().map(of).collect(),
            volatile_middle: middle.iter().map(of).collect(),
        }
    }
}

fn verdict_of(answers: &Answers, cell: &Cell) -> Verdict {
    let answer = answers.iter().find(|(other, _)| other == cell);
    answer.expect("every cell was asked for").1.clone()
}

/// What only the whole run says.
pub struct Report {
    /// The verdicts.
    pub verdicts: Verdicts,
    /// How a cell that rests on every assumption fails without each.
    pub without: Vec<(Assumption, Option<Box<Counterexample>>)>,
    /// Rows of calls of different forms.
    pub mixed: Vec<(Program, Result<Coverage, Box<Counterexample>>)>,
    /// Kernels launched early.
    pub early: Vec<(Early, Result<Coverage, Box<Counterexample>>)>,
    /// Planted faults.
    pub faults: Vec<(Fault, Fate)>,
}

impl Report {
    /// Computes it.
    pub fn new(workers: NonZero<usize>) -> Report {
        let verdicts = Verdicts::new(workers, thorough);
        let needy = |(_, _, verdict): &&(Preset, Cell, Verdict)| match verdict {
            Verdict::RestsOn(sets) => sets.iter().all(|(set, _)| set.len() == Assumption::ALL.len() as u32),
            Verdict::Proved(_) | Verdict::Unsound(_) => false,
        };
        let needy = verdicts.presets.iter().find(needy).map(|&(_, cell, _)| cell);
        let without = |&assumption: &Assumption| (assumption, needy.and_then(|cell| cell.without(assumption)));
        Report {
            without: parallel(workers, &Assumption::ALL, without),
            mixed: parallel(workers, &sequences::mixed(), |program| {
                (program.clone(), sequences::check(program.clone(), quick))
            }),
            early: parallel(workers, &EARLY, |early| (*early, sequences::check(early.program(), thorough))),
            faults: parallel(workers, &faults::all(), |fault| (fault.clone(), fault.fate(fair))),
            verdicts,
        }
    }
}

/// `answer` to each question, in order.
fn parallel<Q: Sync, A: Send>(workers: NonZero<usize>, questions: &[Q], answer: impl Fn(&Q) -> A + Sync) -> Vec<A> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut answers = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(question) = questions.get(index) else { return answers };
            answers.push((index, answer(question)));
        }
    };
    let mut answers: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.get()).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("an exploration does not panic")).collect()
    });
    answers.sort_by_key(|&(index, _)| index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
