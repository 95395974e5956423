//! Runs the model and writes `docs/barriers.md`, or checks it.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use allfold_model::page::{self, Record};
use allfold_model::workers::Run;
use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

/// Which barrier does each all-reduce need: asks the kernels' own source under loom
#[derive(Parser)]
struct Arguments {
    /// Write nothing; fail if the page is not what the model says
    #[arg(long)]
    check: bool,
    /// Explore less, and check the verdicts alone; writes nothing
    #[arg(long)]
    quick: bool,
    /// Explore nothing: only put what the last whole run said into the page's words
    #[arg(long, conflicts_with = "quick")]
    text: bool,
    /// The page
    #[arg(long, default_value = "docs/barriers.md")]
    page: PathBuf,
    /// What the last whole run said
    #[arg(long, default_value = "tests/model/record.txt")]
    record: PathBuf,
    /// Processes that explore at a time
    #[arg(long, default_value = "2")]
    workers: NonZero<usize>,
    #[command(subcommand)]
    worker: Option<Worker>,
}

/// What this program runs itself as.
#[derive(Subcommand)]
enum Worker {
    /// Answers a part of the questions
    #[command(hide = true)]
    Work {
        /// Of which run
        run: String,
        /// This worker, from 0
        worker: usize,
        /// Of how many
        workers: NonZero<usize>,
    },
}

fn main() -> ExitCode {
    let begun = Instant::now();
    let arguments = Arguments::parse();
    if let Some(Worker::Work { run, worker, workers }) = &arguments.worker {
        return work(run, *worker, *workers);
    }
    match run(&arguments) {
        Ok(done) => {
            println!("{done}, {:.0} s", begun.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work(run: &str, worker: usize, workers: NonZero<usize>) -> ExitCode {
    let run = [Run::Whole, Run::Quick].into_iter().find(|known| known.name() == run);
    match run.context("there is no such run").and_then(|run| run.work(worker, workers)) {
        Ok(answers) => {
            println!("{answers}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<&'static str> {
    let Arguments { check, quick, text, page, record, workers, .. } = arguments;
    let report = |run: Run| run.report(*workers, &["work"]);
    let known = || Ok::<_, anyhow::Error>(Record::read(&read(record)?));
    let said = match (quick, text) {
        (true, _) => Record::quick(&report(Run::Quick)?)?,
        (false, true) => known()?,
        (false, false) => Record::new(&report(Run::Whole)?)?,
    };
    if *quick || *check {
        let known = known()?;
        let differs = if *quick { said.differs(&known) } else { said.differs(&known).or_else(|| known.differs(&said)) };
        if let Some(differs) = differs {
            bail!("{} is not what the model says; run `cargo xtask model`\n{differs}", record.display());
        }
        if read(page)? != page::render(&known)? {
            bail!("{} is not made of {}; run `cargo xtask model --text`", page.display(), record.display());
        }
        return Ok("the page is what the model says");
    }
    write(record, &said.to_string())?;
    write(page, &page::render(&said)?)?;
    Ok("the page is written")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
