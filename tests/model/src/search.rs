//! How deep each shape is explored, and what a verdict says of it.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::explore::{Depth, Subject, explore};
use crate::program::Shape;
use crate::story::Story;

/// How much is spent on a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Most preemptions that are tried.
    pub preemptions: u32,
    /// Executions for all of these together.
    pub bounded: u64,
    /// Executions after which the exhaustive exploration is given up; 0: it is not tried.
    pub exhaustive: u64,
}

/// How a program that passed was explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The shape.
    pub shape: Shape,
    /// The deepest that was completed.
    pub depth: Depth,
    /// Executions in all.
    pub executions: u64,
}

impl Display for Coverage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Coverage { shape, depth, executions } = self;
        match depth {
            Depth::Exhaustive | Depth::Uncut => write!(f, "{shape} all ({executions})"),
            Depth::Preemptions(bound) => write!(f, "{shape} ≤{bound} ({executions})"),
        }
    }
}

/// A failure, found with the fewest preemptions that show it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counterexample {
    /// The shape.
    pub shape: Shape,
    /// The program in words.
    pub program: String,
    /// Preemptions.
    pub preemptions: u32,
    /// The steps.
    pub story: Story,
}

/// Explores `subject`, with more preemptions each time.
///
/// # Errors
/// The first failure.
pub fn search(subject: &Subject, effort: Effort) -> Result<Coverage, Box<Counterexample>> {
    let shape = subject.program.shape;
    let mut coverage = Coverage { shape, depth: Depth::Preemptions(0), executions: 0 };
    let mut go = |depth, preemptions, budget: u64| {
        let explored = explore(subject, depth, budget);
        coverage.executions += explored.executions;
        if let Some((failure, steps)) = explored.failed {
            let story = Story::new(&subject.program, &failure, &steps);
            return Err(Box::new(Counterexample { shape, program: subject.program.to_string(), preemptions, story }));
        }
        if explored.complete {
            coverage.depth = depth;
        }
        Ok(explored)
    };
    let mut left = effort.bounded;
    for preemptions in 0..=effort.preemptions {
        let explored = go(Depth::Preemptions(preemptions), preemptions, left)?;
        left = left.saturating_sub(explored.executions);
        if !explored.complete || left == 0 {
            break;
        }
    }
    if effort.exhaustive > 0 {
        go(Depth::Exhaustive, effort.preemptions + 1, effort.exhaustive)?;
    }
    Ok(coverage)
}
