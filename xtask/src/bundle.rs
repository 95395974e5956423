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
    copy_all(&root.join("host/benches/peers"), &bundle.join("peers"))?;
    let script = root.join("tests/gpu/run.sh");
    if script.is_file() {
        copy(&script, &bundle.join("run.sh"))?;
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

/// Copies a folder, if it is there.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to)?;
        } else {
            copy(&entry.path(), &to)?;
        }
    }
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
