//! `fuzz`: everything in crate allfold that reads bytes of others, under libFuzzer with the address sanitizer, by cargo-fuzz and an
//! installed nightly. cargo-fuzz is built into `target/` where there is none.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// The package of the targets, from the root.
const FOLDER: &str = "tests/fuzz";

/// What libFuzzer takes for a finding beside a panic: more seconds for one input, and more MiB at a time, than any may take.
const LIMITS: [&str; 2] = ["-timeout=10", "-malloc_limit_mb=16"];

/// Runs the target `only`, or each of them, for `seconds`. Where there is no nightly, or nothing to build libFuzzer with, it says
/// SKIPPED and does nothing.
///
/// # Errors
///
/// When a target has a finding, which is then in `tests/fuzz/artifacts/`; when there is no such target; when cargo-fuzz cannot be had.
pub fn run(seconds: u64, only: Option<&str>) -> Result<()> {
    if let Some(why) = lacking() {
        println!("SKIPPED: {why}");
        return Ok(());
    }
    let cargo_fuzz = CargoFuzz::find()?;
    let listed = shell::read(&mut cargo_fuzz.command("list"))?;
    let targets: Vec<_> = listed.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    let wanted: Vec<_> = targets.iter().filter(|&&target| only.is_none_or(|only| only == target)).collect();
    if wanted.is_empty() {
        bail!("there is no target {}; there are {}", only.unwrap_or("at all"), targets.join(", "));
    }
    let mut failed = Vec::new();
    for target in wanted {
        println!("\n==> fuzz {target} for {seconds} s");
        let mut command = cargo_fuzz.command("run");
        command.arg("--target-dir").arg(shell::target()?.join("fuzz"));
        command
            .arg(target)
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .args(LIMITS)
            .arg("-print_final_stats=1");
        if let Err(error) = shell::run(&mut command) {
            println!("{error:#}");
            failed.push(*target);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("findings of {}: the bytes are in {FOLDER}/artifacts/", failed.join(", ")),
    }
}

/// What is needed and not here.
fn lacking() -> Option<&'static str> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        return Some("no nightly of rustup's: rustup toolchain install nightly");
    }
    shell::on_path("c++").is_none().then_some("no C++ compiler to build libFuzzer with")
}

/// The program cargo-fuzz.
struct CargoFuzz(PathBuf);

impl CargoFuzz {
    fn find() -> Result<CargoFuzz> {
        if let Some(found) = shell::on_path("cargo-fuzz") {
            return Ok(CargoFuzz(found));
        }
        let dir = shell::target()?.join("cargo-fuzz");
        let program = dir.join("bin/cargo-fuzz");
        if !program.is_file() {
            println!("fuzz: no cargo-fuzz here; building it into {} …", dir.display());
            let mut install = shell::cargo();
            install.args(["install", "--locked", "cargo-fuzz", "--root"]).arg(&dir);
            shell::run(&mut install).context("no cargo-fuzz. Install it: cargo install --locked cargo-fuzz")?;
        }
        Ok(CargoFuzz(program))
    }

    /// Its subcommand `name`, with nightly.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly"]).arg(&self.0).args([name, "--fuzz-dir", FOLDER]).current_dir(shell::root());
        // Those of the toolchain that runs this.
        for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(variable);
        }
        command
    }
}
