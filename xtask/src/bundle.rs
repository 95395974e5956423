//! `bundle`: program, test suite and benches in one folder that a GPU machine without Rust can run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Most bytes that the folder may have: what can be carried to a machine in one go.
const MOST_BYTES: u64 = 64 << 20;

/// Packs bundle/ anew.
///
/// # Errors
///
/// When a build fails, a file cannot be copied, or the folder gets too large.
pub fn run() -> Result<()> {
    let root = shell::root();
    let bundle = root.join("bundle");
    shell::remove_dir(&bundle)?;
    fs::create_dir_all(&bundle)?;
    for (package, program, features) in [("allfold", "allfold", "cli"), ("allfold-tests", "suite", "")] {
        let mut build = shell::cargo();
        build.args(["build", "--release", "--config", "profile.release.strip=\"symbols\""]);
        build.args(["--package", package, "--bin", program, "--features", features]);
        shell::run(&mut build)?;
        copy(&shell::target()?.join("release").join(program), &bundle.join(program))?;
    }
    for script in ["tests/gpu/run.sh", "host/benches/sweep.sh", "host/benches/cost.sh", "host/benches/stress.sh"] {
        let name = Path::new(script).file_name().context("a script has a name")?;
        copy(&root.join(script), &bundle.join(name))?;
    }
    let bytes = size(&bundle)?;
    println!("bundle: {:.1} MiB in {}", bytes as f64 / f64::from(1 << 20), bundle.display());
    if bytes > MOST_BYTES {
        bail!("bundle/ has {bytes} bytes, more than {MOST_BYTES}");
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn size(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
