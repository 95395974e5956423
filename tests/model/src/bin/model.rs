//! Runs the model and writes `docs/barriers.md`, or checks it.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use allfold_model::cell::quick;
use allfold_model::page::{self, Record};
use allfold_model::report::{Report, Verdicts};
use anyhow::{Context, Result, bail};
use clap::Parser;

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
    /// Explorations at a time
    #[arg(long, default_value = "2")]
    workers: NonZero<usize>,
}

fn main() -> ExitCode {
    let begun = Instant::now();
    match run(&Arguments::parse()) {
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

fn run(arguments: &Arguments) -> Result<&'static str> {
    let Arguments { check, quick: is_quick, text, page, record, workers } = arguments;
    let known = || Ok::<_, anyhow::Error>(Record::read(&read(record)?));
    let said = match (is_quick, text) {
        (true, _) => Record::quick(&Verdicts::new(*workers, quick)),
        (false, true) => known()?,
        (false, false) => Record::new(&Report::new(*workers))?,
    };
    if *is_quick || *check {
        let known = known()?;
        let differs =
            if *is_quick { said.differs(&known) } else { said.differs(&known).or_else(|| known.differs(&said)) };
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
