//! `examples`: builds what `examples/` has for other libraries' memory, and runs it on the CPU.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// All but `candle-cuda`, which needs CUDA's compiler and libraries when it is built.
const FEATURES: &str = "cudarc,candle,dlpack";

/// Ranks that the candle example is run with.
const WORLDS: [&str; 3] = ["1", "2", "3"];

/// Lints, builds and runs them.
///
/// # Errors
///
/// When one does not build, or does not end as it must on a machine like this.
pub fn run() -> Result<()> {
    let cargo = |command: &str, arguments: &[&str]| {
        let mut cargo = shell::cargo();
        cargo.args([command, "--profile", "quick", "--package", "allfold-examples", "--features", FEATURES]);
        shell::run(cargo.args(arguments))
    };
    cargo("clippy", &["--all-targets", "--", "-Dwarnings"])?;
    cargo("build", &["--examples"])?;
    cudarc()?;
    candle()?;
    dlpack()
}

/// On GPUs if there is a driver, and else it has to say that there is none.
fn cudarc() -> Result<()> {
    let mut example = Command::new(built("all_reduce_cudarc")?);
    let output = example.output().with_context(|| format!("cannot start {}", shell::line(&example)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !said.contains("no CUDA driver") {
        bail!("{}: {}\n{said}", output.status, shell::line(&example));
    }
    print!("cudarc: {}{said}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// By CPU ranks, a process each.
fn candle() -> Result<()> {
    let mut build = shell::cargo();
    shell::run(build.args(["build", "--package", "allfold", "--features", "cli", "--bin", "allfold"]))?;
    let example = built("all_reduce_candle")?;
    for world in WORLDS {
        let mut launch = Command::new(shell::programs()?.join("allfold"));
        launch.args(["launch", "-n", world, "--"]).arg(&example);
        shell::run(&mut launch)?;
    }
    Ok(())
}

/// On capsules of its own, and on NumPy's arrays where pip has NumPy for this Python.
fn dlpack() -> Result<()> {
    let Some(python) = shell::on_path("python3") else {
        println!("SKIPPED: dlpack: there is no python3 to load it");
        return Ok(());
    };
    let numpy = shell::target()?.join("numpy");
    if !numpy.join("numpy").is_dir() {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--target"]);
        // The example itself says what it skips then.
        if let Err(why) = shell::read(pip.arg(&numpy).arg("numpy")) {
            println!("no NumPy: {why:#}");
        }
    }
    let mut script = Command::new(python);
    // -B: nothing is left beside the script.
    script.arg("-B").arg(shell::root().join("examples/dlpack.py")).env("PYTHONPATH", numpy);
    shell::run(script.arg(built("liballfold_dlpack.so")?))
}

fn built(example: &str) -> Result<PathBuf> {
    Ok(shell::target()?.join("quick").join("examples").join(example))
}
