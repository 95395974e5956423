//! `cargo xtask …`: parses and matches; one file a command. Depends on no crate of the workspace.

use std::process::ExitCode;

use clap::Parser;

mod audit;
mod audit_ptx;
mod build_ptx;
mod bundle;
mod catalogue;
mod debian;
mod driver_symbols;
mod examples;
mod fuzz;
mod model;
mod mpi;
mod packs;
mod shell;
mod test;
mod tidy;

/// The workspace's own tools.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Build host/ptx from kernels-gpu with rustc's NVPTX back end, and leave its text in target/ptx/text
    BuildPtx {
        /// Write nothing; fail if the committed files are not what the sources give
        #[arg(long)]
        check: bool,
    },
    /// Check the instructions of host/ptx, write host/ptx/AUDIT.md, and leave the text in target/ptx/text
    AuditPtx {
        /// Write nothing; fail if the committed table is not that of the files
        #[arg(long)]
        check: bool,
    },
    /// Put the failures that others met and the tests that are for them together, in tests/CATALOGUE.md
    Catalogue {
        /// Write nothing; fail if the committed page is not that of the list and the tests
        #[arg(long)]
        check: bool,
    },
    /// Write the driver's functions, opened at run time, from the source of cust_raw
    DriverSymbols {
        /// Write nothing; fail if the committed file is another
        #[arg(long)]
        check: bool,
    },
    /// Build the examples for other libraries' memory, and run them on the CPU
    Examples,
    /// Give everything that reads bytes of others bytes of libFuzzer's: needs a nightly and a C++ compiler
    Fuzz {
        /// For how long, each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// This one alone
        target: Option<String>,
    },
    /// Ask the kernels, under a model checker, which barrier each all-reduce needs, and write docs/barriers.md
    Model {
        /// Write nothing; fail if the page is not what the model says
        #[arg(long)]
        check: bool,
        /// Check the verdicts alone, less deep
        #[arg(long)]
        quick: bool,
        /// Ask nothing: put the last run's verdicts into the page's words
        #[arg(long)]
        text: bool,
    },
    /// Check and test the feature `mpi` with Open MPI, which is fetched where there is none
    Mpi,
    /// All that CI runs
    Test,
    /// Check the house rules that no compiler checks
    Tidy,
    /// Pack program, test suite and benches into bundle/, for a GPU machine without Rust
    Bundle,
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::BuildPtx { check } => build_ptx::run(check),
        Command::AuditPtx { check } => audit_ptx::run(check),
        Command::Catalogue { check } => catalogue::run(check),
        Command::DriverSymbols { check } => driver_symbols::run(check),
        Command::Examples => examples::run(),
        Command::Fuzz { seconds, target } => fuzz::run(seconds, target.as_deref()),
        Command::Model { check, quick, text } => model::run(check, quick, text),
        Command::Mpi => mpi::run(),
        Command::Test => test::run(),
        Command::Tidy => tidy::run(),
        Command::Bundle => bundle::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
