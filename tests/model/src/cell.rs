//! One cell of the matrix: what is asked, and the verdict.

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode};
use allfold_kernels::protocol::spec::Protocol;

use serde::{Deserialize, Serialize};

use crate::assumptions::{Assumption, Assumptions};
use crate::explore::Subject;
use crate::mutants::Mutation;
use crate::program::{Call, Program, Shape, Usage};
use crate::search::{Counterexample, Coverage, Effort, search};

/// The shapes that each cell is explored in, the smallest first.
pub const SHAPES: [Shape; 5] = [
    Shape { ranks: 2, blocks: 1, threads: 1 },
    Shape { ranks: 2, blocks: 2, threads: 1 },
    Shape { ranks: 2, blocks: 1, threads: 2 },
    Shape { ranks: 3, blocks: 1, threads: 1 },
    Shape { ranks: 4, blocks: 1, threads: 1 },
];

/// What is spent on a program.
pub type Efforts = fn(&Program) -> Effort;

/// What the whole run spends.
pub fn thorough(program: &Program) -> Effort {
    let effort = Effort { preemptions: 1, lineups: 4, bounded: 13_000, exhaustive: 0 };
    match program.shape {
        Shape { ranks: 2, blocks: 1, threads: 1 } => Effort { preemptions: 3, exhaustive: 140_000, ..effort },
        Shape { ranks: 2, blocks: 1, .. } => Effort { bounded: 20_000, exhaustive: 15_000, ..effort },
        Shape { .. } => effort,
    }
}

/// What the whole run spends on our own forms: with two blocks it is enough for two calls in a row with one preemption.
pub fn deep(program: &Program) -> Effort {
    match (program.shape.blocks, program.calls.len()) {
        (2, 2) => Effort { lineups: 2, bounded: 700_000, ..thorough(program) },
        _ => thorough(program),
    }
}

/// What the whole run spends where there is much to ask: on planted faults, on rows of calls of different forms, and on
/// data in words where they were in cells.
pub fn fair(program: &Program) -> Effort {
    let effort = Effort { preemptions: 1, lineups: 4, bounded: 2_000, exhaustive: 0 };
    match program.shape {
        Shape { ranks: 2, blocks: 1, threads: 1 } => Effort { preemptions: 2, bounded: 4_000, ..effort },
        Shape { .. } => effort,
    }
}

/// What is spent where a quick answer is wanted.
pub fn quick(program: &Program) -> Effort {
    let effort = Effort { preemptions: 1, lineups: 2, bounded: 500, exhaustive: 0 };
    match program.shape {
        Shape { ranks: 2, blocks: 1, .. } => Effort { preemptions: 2, lineups: 1, bounded: 2_000, ..effort },
        Shape { .. } => effort,
    }
}

/// One question: is this protocol right if its caller does that?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// How peers see the input.
    pub input: InputMode,
    /// The protocol.
    pub protocol: Protocol,
    /// What the caller does with its buffers.
    pub usage: Usage,
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// Right in every execution that was explored, with nothing assumed.
    Proved(Vec<Coverage>),
    /// The same with the assumptions of any one of these sets, and with no smaller set.
    RestsOn(Vec<(Assumptions, Vec<Coverage>)>),
    /// Wrong, whatever is assumed.
    Unsound(Box<Counterexample>),
}

/// How each shape was explored, or the first failure.
pub type Checked = Result<Vec<Coverage>, Box<Counterexample>>;

impl Cell {
    /// One call on `shape`.
    pub fn call(&self, shape: Shape) -> Call {
        Call {
            algorithm: self.algorithm,
            input: self.input,
            protocol: self.protocol,
            blocks: shape.blocks,
            packs: None,
            dtype: Dtype::F32,
        }
    }

    /// So many calls on `shape`.
    fn calls(&self, shape: Shape, calls: usize) -> Program {
        Program { shape, calls: vec![self.call(shape); calls], usage: self.usage, ..Program::EMPTY }
    }

    /// As many calls as it takes until every buffer has been used again.
    pub fn program(&self, shape: Shape) -> Program {
        let calls = match self.usage {
            Usage::InTurn => 3,
            Usage::Rewritten | Usage::InPlace | Usage::Chained => 2,
        };
        self.calls(shape, calls)
    }

    /// Looks for a failure in every shape. Where the calls are too many for the depth that is wanted of a shape, there is
    /// one more coverage of it, for one call less, and so on.
    ///
    /// # Errors
    /// The failure on the first shape that has one.
    pub fn check(&self, assumptions: Assumptions, mutation: Mutation, efforts: impl Fn(&Program) -> Effort) -> Checked {
        let mut coverages = Vec::new();
        for shape in SHAPES {
            for calls in (1..=self.program(shape).calls.len()).rev() {
                let program = self.calls(shape, calls);
                let effort = efforts(&program);
                let subject = Subject { program, assumptions, mutation };
                let coverage = search(&subject, effort)?;
                coverages.push(coverage);
                if effort.is_met_by(&coverage) {
                    break;
                }
            }
        }
        Ok(coverages)
    }

    /// The verdict, with a planted fault or without: the smallest sets of assumptions with which no shape fails.
    pub fn verdict(&self, mutation: Mutation, efforts: Efforts) -> Verdict {
        let shallow = |program: &Program| efforts(program).at_most(fair(program));
        let mut passed: Vec<(Assumptions, Vec<Coverage>)> = Vec::new();
        for set in Assumptions::sets() {
            if passed.first().is_some_and(|(least, _)| least.len() < set.len()) {
                break;
            }
            match self.check(set, mutation, efforts) {
                // What is ordered in cells gives the right sums in words: the other way to keep data must say the same.
                Ok(coverage) => {
                    if !set.has(Assumption::LoadsDoneBeforeBarrier)
                        && let Err(contradiction) = self.check(set.with_words(), mutation, shallow)
                    {
                        return Verdict::Unsound(contradiction);
                    }
                    if set.is_empty() {
                        return Verdict::Proved(coverage);
                    }
                    passed.push((set, coverage));
                }
                Err(found) if set == Assumptions::ALL => {
                    return Verdict::Unsound(self.fewest_calls(set, mutation).unwrap_or(found));
                }
                Err(_) => {}
            }
        }
        Verdict::RestsOn(passed)
    }

    /// How it fails with the fewest calls where all assumptions hold but one; `None` where it does not fail.
    pub fn without(&self, assumption: Assumption) -> Option<Box<Counterexample>> {
        self.fewest_calls(Assumptions::ALL.without(assumption), Mutation::Nothing)
    }

    /// A failure with the fewest calls, then on the smallest shape, then with the fewest preemptions.
    fn fewest_calls(&self, assumptions: Assumptions, mutation: Mutation) -> Option<Box<Counterexample>> {
        (1..=self.program(SHAPES[0]).calls.len()).find_map(|calls| {
            SHAPES.into_iter().find_map(|shape| {
                let program = self.calls(shape, calls);
                let effort = quick(&program);
                search(&Subject { program, assumptions, mutation }, effort).err()
            })
        })
    }
}
