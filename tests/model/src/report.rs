//! All that is asked, and the answers.

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::preset::Preset;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::assumptions::Assumption;
use crate::cell::{Cell, Efforts, Verdict, deep, fair, quick, thorough};
use crate::faults::{self, Fate, Fault};
use crate::matrix;
use crate::mutants::Mutation;
use crate::program::{Program, Usage};
use crate::search::{Counterexample, Coverage};
use crate::sequences::{self, Early};

/// One question.
#[derive(Clone, Debug)]
pub enum Question {
    /// The verdict of a cell.
    Cell(Cell),
    /// How a protocol that rests on every assumption fails without this one.
    Without(Assumption),
    /// Whether a row of calls of different forms fails.
    Mixed(Program),
    /// Whether a kernel that is launched early fails.
    Early(Early),
    /// Whether a planted fault is found.
    Fault(Fault),
}

/// Its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Question::Cell`].
    Verdict(Verdict),
    /// To [`Question::Without`].
    Found(Option<Box<Counterexample>>),
    /// To [`Question::Mixed`] and [`Question::Early`].
    Checked(Result<Coverage, Box<Counterexample>>),
    /// To [`Question::Fault`].
    Fate(Fate),
}

/// The verdicts that are asked for: matrix, presets, and what goes with them. None is asked for twice.
pub fn verdicts() -> Vec<Question> {
    let mut cells = matrix::cells();
    let presets = matrix::presets().into_iter().map(|(_, cell)| cell);
    for cell in presets.chain(matrix::in_place()).chain(matrix::volatile_middle()) {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    cells.into_iter().map(Question::Cell).collect()
}

/// All that is asked.
pub fn everything() -> Vec<Question> {
    let mut questions = verdicts();
    questions.extend(Assumption::ALL.map(Question::Without));
    questions.extend(sequences::early().into_iter().map(Question::Early));
    questions.extend(sequences::mixed().into_iter().map(Question::Mixed));
    questions.extend(faults::all().into_iter().map(Question::Fault));
    questions
}

impl Question {
    /// Asks the model; a `whole` run goes deeper in verdicts, and for our own forms deeper still.
    pub fn answer(&self, whole: bool) -> Answer {
        let efforts: Efforts = if whole { thorough } else { quick };
        match self {
            Question::Cell(cell) => {
                let efforts = if whole && ours(cell) { deep } else { efforts };
                Answer::Verdict(cell.verdict(Mutation::Nothing, efforts))
            }
            Question::Without(assumption) => Answer::Found(needy().and_then(|cell| cell.without(*assumption))),
            Question::Mixed(program) => Answer::Checked(sequences::check(program.clone(), fair)),
            Question::Early(early) => Answer::Checked(sequences::check(early.program(), efforts)),
            Question::Fault(fault) => Answer::Fate(fault.fate(fair)),
        }
    }
}

/// Whether a cell is one of the six forms of our own library, as its callers may use it.
fn ours(cell: &Cell) -> bool {
    let usage = if cell.input.staged() { Usage::InTurn } else { Usage::Rewritten };
    Preset::Allfold.protocol(cell.algorithm, cell.input) == Some(cell.protocol) && cell.usage == usage
}

/// A preset that rests on every assumption: vLLM's one-shot.
fn needy() -> Option<Cell> {
    let (algorithm, input) = (Algorithm::OneShot, InputMode::Registered);
    let protocol = Preset::Vllm.protocol(algorithm, input)?;
    Some(Cell { algorithm, input, protocol, usage: Usage::Rewritten })
}

/// Questions and their answers.
pub struct Report(pub Vec<(Question, Answer)>);

impl Report {
    /// The verdict of `cell`.
    ///
    /// # Errors
    /// When it was not asked for.
    pub fn verdict(&self, cell: &Cell) -> Result<&Verdict> {
        let found = self.0.iter().find_map(|(question, answer)| match (question, answer) {
            (Question::Cell(asked), Answer::Verdict(verdict)) if asked == cell => Some(verdict),
            _ => None,
        });
        found.with_context(|| format!("nobody asked for {cell:?}"))
    }
}
