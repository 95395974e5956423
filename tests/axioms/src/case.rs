//! One row of the tables: a program, the outcome asked for and the verdict expected. Uses `program`, `verdict`.

use crate::assumption::Assumption;
use crate::program::{Program, Thread};
use crate::verdict::{Answer, Outcome, Verdict, ask};

/// A question with the answer that it must get.
#[derive(Clone, Debug)]
pub struct Case {
    /// The test's name.
    pub test: &'static str,
    /// Which form of it.
    pub form: String,
    /// Scope and placement, where a test is asked for several.
    pub variant: String,
    /// Whether the scope bridges the distance, in a test that is asked for several.
    pub reaches: bool,
    /// The program.
    pub program: Program,
    /// What is assumed beyond the model.
    pub assumptions: Vec<Assumption>,
    /// The outcome asked for.
    pub outcome: Outcome,
    /// The verdict expected.
    pub expected: Verdict,
    /// Where the verdict was published, for those that are not ours.
    pub source: &'static str,
    /// For a sound core of ours: parts of names of mutants that survive, each with the reason.
    pub spare: Vec<(&'static str, &'static str)>,
    /// Whether its mutants are to be killed.
    pub mutate: bool,
}

impl Case {
    /// A case with no variant, no assumption, no source and no mutants.
    pub fn new(
        test: &'static str,
        form: impl Into<String>,
        threads: impl Into<Vec<Thread>>,
        outcome: Outcome,
        expected: Verdict,
    ) -> Case {
        Case {
            test,
            form: form.into(),
            variant: String::new(),
            reaches: true,
            program: Program::new(threads),
            assumptions: Vec::new(),
            outcome,
            expected,
            source: "",
            spare: Vec::new(),
            mutate: false,
        }
    }

    /// The same, for one scope and placement.
    pub fn variant(mut self, variant: impl Into<String>) -> Case {
        self.variant = variant.into();
        self
    }

    /// The same, with whether the scope bridges the distance.
    pub fn reaching(mut self, reaches: bool) -> Case {
        self.reaches = reaches;
        self
    }

    /// The same, with where it was published.
    pub fn from(mut self, source: &'static str) -> Case {
        self.source = source;
        self
    }

    /// The same under `assumptions`.
    pub fn assuming(mut self, assumptions: &[Assumption]) -> Case {
        self.assumptions = assumptions.into();
        self
    }

    /// The same, its mutants to be killed but for those that `spare` names.
    pub fn mutated(mut self, spare: &[(&'static str, &'static str)]) -> Case {
        self.mutate = true;
        self.spare = spare.into();
        self
    }

    /// Its name in full.
    pub fn name(&self) -> String {
        let mut name = format!("{}: {}", self.test, self.form);
        if !self.variant.is_empty() {
            name += &format!(" ({})", self.variant);
        }
        for assumption in &self.assumptions {
            name += &format!(" + {assumption}");
        }
        name
    }

    /// The model's answer.
    pub fn answer(&self) -> Answer {
        ask(&self.program, &self.assumptions, &self.outcome)
    }
}
