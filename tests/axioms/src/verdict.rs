//! Questions and answers: may this outcome be seen, and which axioms forbid it. Uses `enumerate`, `assumption`.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use crate::assumption::{Assumed, Assumption};
use crate::axioms::Axiom;
use crate::enumerate::{Model, explore};
use crate::event::{Loc, Reg};
use crate::execution::{Execution, Skeleton};
use crate::program::Program;
use crate::relation::members;

/// Part of an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// The register holds the value.
    Is(Reg, u32),
    /// The register holds another value.
    IsNot(Reg, u32),
    /// The location holds the value in the end.
    Final(Loc, u32),
}

/// An outcome: all terms hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome(pub Vec<Term>);

impl Outcome {
    /// The outcome in which registers hold these values.
    pub fn of<const N: usize>(registers: [(&str, u32); N]) -> Outcome {
        Outcome(registers.map(|(reg, value)| Term::Is(reg.into(), value)).into())
    }

    /// The outcome in which locations hold these values in the end.
    pub fn finals<const N: usize>(locs: [(&str, u32); N]) -> Outcome {
        Outcome(locs.map(|(loc, value)| Term::Final(loc.into(), value)).into())
    }

    /// Both.
    pub fn and(mut self, other: Outcome) -> Outcome {
        self.0.extend(other.0);
        self
    }

    fn shows_in(&self, execution: &Execution<'_>) -> bool {
        execution.values.is_some()
            && self.0.iter().all(|term| match term {
                Term::Is(reg, value) => execution.register(reg) == Some(*value),
                Term::IsNot(reg, value) => execution.register(reg).is_some_and(|held| held != *value),
                Term::Final(loc, value) => execution.finals(loc).any(|held| held == *value),
            })
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (n, term) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            match term {
                Term::Is(reg, value) => write!(f, "{comma}{reg} = {value}")?,
                Term::IsNot(reg, value) => write!(f, "{comma}{reg} != {value}")?,
                Term::Final(loc, value) => write!(f, "{comma}[{loc}] = {value} at the end")?,
            }
        }
        Ok(())
    }
}

/// Whether an outcome may be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// In no execution that the model allows.
    Forbidden,
    /// In one without a data race.
    Allowed,
    /// Only in ones with a data race.
    Race,
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Forbidden => "forbidden",
            Verdict::Allowed => "allowed",
            Verdict::Race => "race",
        })
    }
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// May it be seen?
    pub verdict: Verdict,
    /// Candidate executions looked at.
    pub candidates: usize,
    /// Those of them that the model allows.
    pub consistent: usize,
    /// Whether any that the model allows has a data race, with this outcome or another.
    pub racy: bool,
    /// The axioms that forbid candidates with this outcome.
    pub forbidden_by: Vec<Axiom>,
    /// An execution with the outcome, a line a step, where there is one; without a race if possible.
    pub witness: Vec<String>,
}

/// Asks whether `program` may show `outcome`.
pub fn ask(program: &Program, assumptions: &[Assumption], outcome: &Outcome) -> Answer {
    ask_model(program, assumptions, outcome, Model::default())
}

/// [`ask`], of a variant of the model; the assumptions are added to it.
pub fn ask_model(program: &Program, assumptions: &[Assumption], outcome: &Outcome, mut model: Model) -> Answer {
    let program = assumptions.iter().fold(program.clone(), |program, assumption| assumption.applied_to(program));
    let skeleton = Skeleton::new(&program);
    model.no_load_buffering |= assumptions.contains(&Assumption::LoadsDoneBeforeBarrier);
    let mut answer = Answer {
        verdict: Verdict::Forbidden,
        candidates: 0,
        consistent: 0,
        racy: false,
        forbidden_by: Vec::new(),
        witness: Vec::new(),
    };
    explore(&skeleton, model, &mut |execution| {
        answer.candidates += 1;
        let broken = model.broken(execution);
        // Where a value would follow from itself, any outcome is what No-Thin-Air is there to forbid.
        if !broken.is_empty() && (execution.values.is_none() || outcome.shows_in(execution)) {
            answer.forbidden_by.extend(&broken);
        }
        if !broken.is_empty() {
            return;
        }
        answer.consistent += 1;
        let races = execution.races().next().is_some();
        answer.racy |= races;
        if outcome.shows_in(execution) {
            let seen = if races { Verdict::Race } else { Verdict::Allowed };
            if answer.verdict == Verdict::Forbidden || answer.verdict == Verdict::Race && seen == Verdict::Allowed {
                answer.verdict = seen;
                answer.witness = steps(execution);
            }
        }
    });
    answer.forbidden_by.sort();
    answer.forbidden_by.dedup();
    answer
}

/// What the registers, in the order of their names, hold in the executions that `model` allows.
pub fn outcomes(program: &Program, model: Model) -> BTreeSet<Vec<u32>> {
    let skeleton = Skeleton::new(program);
    let mut outcomes = BTreeSet::new();
    explore(&skeleton, model, &mut |execution| {
        if model.broken(execution).is_empty() {
            outcomes.extend(skeleton.set_by.keys().map(|reg| execution.register(reg)).collect::<Option<Vec<u32>>>());
        }
    });
    outcomes
}

/// The execution as text: what each read returned and from where, and the races.
fn steps(execution: &Execution<'_>) -> Vec<String> {
    let s = execution.skeleton;
    let name = |event: usize| match s.events[event].place {
        Some(place) => format!("{place}: {}", s.events[event].op),
        None => format!("the initial 0 of [{}]", s.events[event].op.loc().map_or("", |loc| &loc.0)),
    };
    let sources = execution.rf.inverse();
    let reads = members(s.reads).filter_map(|read| {
        let source = members(sources.after(read)).next()?;
        Some(format!("{} reads {}", name(read), name(source)))
    });
    let races = execution.races().map(|(a, b)| format!("race: {} and {}", name(a), name(b)));
    reads.chain(races).collect()
}
