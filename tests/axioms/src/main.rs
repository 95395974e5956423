//! `axioms`: prints the tables, writes or checks the page, explains a case.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use allfold_axioms::report;
use anyhow::{Context, Result, bail};
use clap::Parser;

/// The PTX memory model over litmus tests: published ones, the cores of our barriers, and the kernels.
#[derive(Parser)]
struct Args {
    /// Print the page for docs/axioms.md.
    #[arg(long, conflicts_with_all = ["check", "explain"])]
    markdown: bool,
    /// Fail unless this file is the page.
    #[arg(long, value_name = "FILE", conflicts_with = "explain")]
    check: Option<PathBuf>,
    /// Print program, execution and axioms of the cases that have this in their names.
    #[arg(long, value_name = "TEXT")]
    explain: Option<String>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    if args.markdown {
        write!(out, "{}", report::page())?;
    } else if let Some(file) = args.check {
        let found = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        if found != report::page() {
            bail!("{} is not what the model says: write it again with --markdown", file.display());
        }
    } else if let Some(part) = args.explain {
        let lines = report::explain(&part);
        if lines.is_empty() {
            bail!("no case has \"{part}\" in its name");
        }
        writeln!(out, "{}", lines.join("\n"))?;
    } else {
        let (lines, wrong) = report::lines();
        writeln!(out, "{}\n{} cases, {wrong} not as expected", lines.join("\n"), lines.len())?;
        if wrong > 0 {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
