//! Answers on several processors: processes and not threads, since an exploration lives on mapping and unmapping
//! stacks, and the threads of a process wait for one another there.

use std::num::NonZero;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::report::{Answer, Question, Report, everything, verdicts};

/// A question that took so many seconds is named: a sign of life, and what to look at when the run grows too long.
const SLOW: u64 = 20;

/// Which questions are asked, and how deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// All.
    Whole,
    /// The verdicts, less deep.
    Quick,
}

impl Run {
    /// What tells a worker which run it works for.
    pub const fn name(self) -> &'static str {
        match self {
            Run::Whole => "whole",
            Run::Quick => "quick",
        }
    }

    fn questions(self) -> Vec<Question> {
        match self {
            Run::Whole => everything(),
            Run::Quick => verdicts(),
        }
    }

    /// The questions and their answers, from `workers` processes that are this program with `arguments`, the run's name,
    /// the worker's number and the number of workers.
    ///
    /// # Errors
    /// When a worker cannot be started, fails, or does not say what it should.
    pub fn report(self, workers: NonZero<usize>, arguments: &[&str]) -> Result<Report> {
        let program = std::env::current_exe().context("where is this program?")?;
        let start = |worker: usize| {
            let numbers = [worker.to_string(), workers.to_string()];
            let mut command = Command::new(&program);
            command.args(arguments).arg(self.name()).args(numbers).stdout(Stdio::piped());
            command.spawn().context("cannot start a worker")
        };
        let started: Vec<Child> = (0..workers.get()).map(start).collect::<Result<_>>()?;
        let mut answers: Vec<(usize, Answer)> = Vec::new();
        for worker in started {
            let output = worker.wait_with_output()?;
            if !output.status.success() {
                bail!("a worker failed: {}", output.status);
            }
            answers.extend(serde_json::from_slice::<Vec<_>>(&output.stdout).context("a worker's answers")?);
        }
        answers.sort_by_key(|&(index, _)| index);
        let questions = self.questions();
        if !answers.iter().map(|&(index, _)| index).eq(0..questions.len()) {
            bail!("{} questions, {} answers", questions.len(), answers.len());
        }
        Ok(Report(questions.into_iter().zip(answers.into_iter().map(|(_, answer)| answer)).collect()))
    }

    /// What worker `worker` of `workers` says: every so manieth answer, with its number.
    ///
    /// # Errors
    /// When the answers cannot be written down.
    pub fn work(self, worker: usize, workers: NonZero<usize>) -> Result<String> {
        let questions = self.questions();
        let mine = questions.iter().enumerate().skip(worker).step_by(workers.get());
        let answer = |(index, question): (usize, &Question)| {
            let begun = Instant::now();
            let answer = question.answer(self == Run::Whole);
            let took = begun.elapsed().as_secs();
            if took >= SLOW {
                eprintln!("question {index} of {} took {took} s: {question:?}", questions.len());
            }
            (index, answer)
        };
        let answers: Vec<_> = mine.map(answer).collect();
        Ok(serde_json::to_string(&answers)?)
    }
}
