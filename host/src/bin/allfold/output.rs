//! Where results go: files, or standard output for `-`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Whether that is standard output.
pub fn is_stdout(path: &Option<PathBuf>) -> bool {
    path.as_deref() == Some(Path::new("-"))
}

/// Writes what `text` makes, if somebody asked for it.
pub fn write(path: &Option<PathBuf>, text: impl FnOnce() -> Result<String>) -> Result<()> {
    match path.as_deref() {
        None => {}
        Some(path) if path == Path::new("-") => print!("{}", text()?),
        Some(path) => std::fs::write(path, text()?).with_context(|| format!("writing {}", path.display()))?,
    }
    Ok(())
}
