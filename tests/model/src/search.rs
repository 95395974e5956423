//! How deep each shape is explored, and what a verdict says of it.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::explore::{Depth, Lineup, Subject, explore_in};
use crate::program::Shape;
use crate::story::Story;

/// How much is spent on a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Most preemptions that are tried.
    pub preemptions: u32,
    /// Most lineups that these are tried in; loom's own reduction needs no more than one where nothing is bounded.
    pub lineups: usize,
    /// Executions for all of these together.
    pub bounded: u64,
    /// Executions after which the exhaustive exploration is given up; 0: it is not tried.
    pub exhaustive: u64,
}

impl Effort {
    /// The smaller of two, by executions.
    pub fn at_most(self, other: Effort) -> Effort {
        if self.bounded + self.exhaustive <= other.bounded + other.exhaustive { self } else { other }
    }

    /// Whether `coverage` is as deep as a program that is short enough would be explored: for two ranks of one thread in
    /// every order, else with one preemption. Small efforts are content with anything.
    pub fn is_met_by(self, coverage: &Coverage) -> bool {
        let Shape { ranks, blocks, threads } = coverage.shape;
        let small = ranks * blocks * threads == 2;
        match coverage.depth {
            Some(Depth::Exhaustive | Depth::Uncut(_)) => true,
            Some(Depth::Preemptions(_)) => !(small && self.exhaustive > 0),
            None => self.bounded < WORTH_SHORTENING,
        }
    }
}

/// A smaller budget is not spent again on fewer calls.
const WORTH_SHORTENING: u64 = 10_000;

/// How a program that passed was explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The shape.
    pub shape: Shape,
    /// How many calls in a row.
    pub calls: u32,
    /// The deepest that was completed, in every lineup that was tried; `None` where not even one preemption was, in all
    /// of them: then the executions are all that was done.
    pub depth: Option<Depth>,
    /// Lineups that were tried.
    pub lineups: u32,
    /// Executions in all.
    pub executions: u64,
}

impl Coverage {
    /// `all`, `≤ 1` or `part of ≤ 1`.
    pub fn depth_name(&self) -> String {
        match self.depth {
            Some(Depth::Exhaustive | Depth::Uncut(_)) => "all".to_string(),
            Some(Depth::Preemptions(bound)) => format!("≤ {bound}"),
            None => "part of ≤ 1".to_string(),
        }
    }
}

/// `≤ 1 (123)`: the depth, and the executions.
impl Display for Coverage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.depth_name(), thousands(self.executions))
    }
}

/// 12345 as `12,345`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A failure, found with the smallest bound on preemptions that shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counterexample {
    /// The shape.
    pub shape: Shape,
    /// The program in words.
    pub program: String,
    /// The bound; `None`: there was none.
    pub preemptions: Option<u32>,
    /// The steps.
    pub story: Story,
}

/// Explores `subject`: with a greater bound on preemptions each time, in every lineup; then with none.
///
/// # Errors
/// The first failure.
pub fn search(subject: &Subject, effort: Effort) -> Result<Coverage, Box<Counterexample>> {
    let shape = subject.program.shape;
    let mut lineups = Lineup::all(&subject.program);
    lineups.truncate(effort.lineups);
    let mut executions = 0;
    let mut go = |lineup: &Lineup, depth, budget: u64| {
        let explored = explore_in(subject, lineup, depth, budget);
        executions += explored.executions;
        match explored.failed {
            None => Ok(explored),
            Some((failure, steps)) => {
                let preemptions = match depth {
                    Depth::Preemptions(bound) => Some(bound),
                    Depth::Exhaustive | Depth::Uncut(_) => None,
                };
                let story = Story::new(&subject.program, &failure, &steps);
                let program = subject.program.to_string();
                Err(Box::new(Counterexample { shape, program, preemptions, story }))
            }
        }
    };
    let mut depth = None;
    let mut left = effort.bounded;
    for preemptions in 0..=effort.preemptions {
        let mut complete = true;
        // What a lineup leaves of its share goes to the next.
        for (lineup, waiting) in lineups.iter().zip((1..=lineups.len() as u64).rev()) {
            let explored = go(lineup, Depth::Preemptions(preemptions), left / waiting)?;
            left = left.saturating_sub(explored.executions);
            complete &= explored.complete;
        }
        if !complete {
            break;
        }
        // No preemption at all is the default schedule and no depth to speak of.
        if preemptions > 0 {
            depth = Some(Depth::Preemptions(preemptions));
        }
    }
    if let (Some(lineup), true) = (lineups.first(), depth.is_some() && effort.exhaustive > 0)
        && go(lineup, Depth::Exhaustive, effort.exhaustive)?.complete
    {
        depth = Some(Depth::Exhaustive);
    }
    let calls = subject.program.calls.len() as u32;
    Ok(Coverage { shape, calls, depth, lineups: lineups.len() as u32, executions })
}
