//! One cell of the matrix: what is asked, and the verdict.

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::spec::Protocol;

use serde::{Deserialize, Serialize};

use crate::assumptions::{Assumption, Assumptions};
use crate::explore::Subject;
use crate::mutants::Mutation;
use crate::program::{Call, Launch, Program, Shape, Usage};
use crate::search::{Counterexample, Coverage, Effort, search};

/// The shapes that each cell is explored in, the smallest first.
pub const SHAPES: [Shape; 5] = [
    Shape { ranks: 2, blocks: 1, threads: 1 },
    Shape { ranks: 2, blocks: 2, threads: 1 },
    Shape { ranks: 2, blocks: 1, threads: 2 },
    Shape { ranks: 3, blocks: 1, threads: 1 },
    Shape { ranks: 4, blocks: 1, threads: 1 },
];

/// What is spent on a shape.
pub type Efforts = fn(Shape) -> Effort;

/// What the whole run spends.
pub fn thorough(shape: Shape) -> Effort {
    match shape {
        Shape { ranks: 2, blocks: 1, threads: 1 } => Effort { preemptions: 3, bounded: 20_000, exhaustive: 200_000 },
        Shape { ranks: 2, blocks: 1, .. } => Effort { preemptions: 1, bounded: 20_000, exhaustive: 60_000 },
        Shape { .. } => Effort { preemptions: 2, bounded: 20_000, exhaustive: 0 },
    }
}

/// What the whole run spends where there is much to ask: on planted faults and rows of calls.
pub fn fair(shape: Shape) -> Effort {
    match shape {
        Shape { ranks: 2, blocks: 1, threads: 1 } => Effort { preemptions: 2, bounded: 3_000, exhaustive: 20_000 },
        Shape { .. } => Effort { preemptions: 1, bounded: 3_000, exhaustive: 0 },
    }
}

/// What is spent where a quick answer is wanted.
pub fn quick(shape: Shape) -> Effort {
    match shape {
        Shape { ranks: 2, blocks: 1, .. } => Effort { preemptions: 2, bounded: 2_000, exhaustive: 0 },
        Shape { .. } => Effort { preemptions: 1, bounded: 500, exhaustive: 0 },
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
        Call { algorithm: self.algorithm, input: self.input, protocol: self.protocol, blocks: shape.blocks }
    }

    /// So many calls on `shape`.
    fn calls(&self, shape: Shape, calls: usize) -> Program {
        Program { shape, calls: vec![self.call(shape); calls], usage: self.usage, launch: Launch::InOrder }
    }

    /// As many calls as it takes until every buffer has been used again.
    pub fn program(&self, shape: Shape) -> Program {
        let calls = match self.usage {
            Usage::InTurn => 3,
            Usage::Rewritten | Usage::InPlace | Usage::Chained => 2,
        };
        self.calls(shape, calls)
    }

    /// Looks for a failure in every shape.
    ///
    /// # Errors
    /// The failure on the first shape that has one.
    pub fn check(&self, assumptions: Assumptions, mutation: Mutation, efforts: Efforts) -> Checked {
        let explore = |shape| {
            let subject = Subject { program: self.program(shape), assumptions, mutation };
            search(&subject, efforts(shape))
        };
        SHAPES.into_iter().map(explore).collect()
    }

    /// The verdict, with a planted fault or without: the smallest sets of assumptions with which no shape fails.
    pub fn verdict(&self, mutation: Mutation, efforts: Efforts) -> Verdict {
        let mut passed: Vec<(Assumptions, Vec<Coverage>)> = Vec::new();
        for set in Assumptions::sets() {
            if passed.first().is_some_and(|(least, _)| least.len() < set.len()) {
                break;
            }
            match self.check(set, mutation, efforts) {
                // Where every access is ordered every sum is right: the other way to keep data must say the same.
                Ok(coverage) if set.is_empty() => match self.check(Assumptions::WORDS, mutation, quick) {
                    Ok(_) => return Verdict::Proved(coverage),
                    Err(contradiction) => return Verdict::Unsound(contradiction),
                },
                Ok(coverage) => passed.push((set, coverage)),
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
                let subject = Subject { program: self.calls(shape, calls), assumptions, mutation };
                search(&subject, quick(shape)).err()
            })
        })
    }
}
