//! Paths, files and processes: what more than one command needs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The repository's root.
pub fn root() -> PathBuf {
    // Cargo names the folder at run time too: a program built in one checkout and run in another must act on the latter.
    let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&xtask).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder of the dev profile's programs, in which this one is.
///
/// # Errors
///
/// When the operating system does not say where this program is.
pub fn programs() -> Result<PathBuf> {
    let exe = env::current_exe().context("where is this program?")?;
    let dir = exe.parent().context("this program has no folder")?;
    // Unit tests are one folder deeper.
    Ok(if dir.ends_with("deps") { dir.parent().unwrap_or(dir) } else { dir }.to_path_buf())
}

/// Cargo's target folder, wherever it was told to be.
///
/// # Errors
///
/// As [`programs`].
pub fn target() -> Result<PathBuf> {
    let programs = programs()?;
    Ok(programs.parent().context("programs lie in no target folder")?.to_path_buf())
}

/// The Cargo that started this program.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs `command` with this program's output.
///
/// # Errors
///
/// When it cannot be started or fails; names it.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("{status}: {}", line(command));
    }
    Ok(())
}

/// Runs `command` and returns its standard output.
///
/// # Errors
///
/// When it cannot be started or fails; names it and shows what it wrote.
pub fn read(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {}", line(command)))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{}: {}\n{stdout}{}", output.status, line(command), String::from_utf8_lossy(&output.stderr));
    }
    Ok(stdout)
}

/// `command` as one would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Whether `program` is on the path.
pub fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// All files under `dir` with the extension `ext`, sorted; none when there is no such folder. What Cargo built is left out.
///
/// # Errors
///
/// When a folder cannot be read.
pub fn files(dir: &Path, ext: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.extend((entry.file_name() != "target").then(|| entry.path()));
            } else if entry.path().extension().is_some_and(|e| e == ext) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of `file`.
///
/// # Errors
///
/// When it cannot be read; names it.
pub fn text(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Writes `bytes` to `file` if it is not what it has, so that nothing is rebuilt for nothing; makes its folder.
///
/// # Errors
///
/// When the folder or the file cannot be written; names the file.
pub fn write(file: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let bytes = bytes.as_ref();
    if fs::read(file).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
}

/// Removes `dir` with all it holds, if it is there.
///
/// # Errors
///
/// When it cannot be removed.
pub fn remove_dir(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(())
}
