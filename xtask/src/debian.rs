//! Debian packages without root: fetched and unpacked into a folder, never installed.
//!
//! apt keeps its lists in that folder too, so that a machine whose own lists are old or missing serves as well.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Unpacks into `dir`: `roots`, what they depend on and this system has not installed, and, installed or not, what `also` names;
/// and `alone`, without what these depend on. Returns the packages' names.
///
/// # Errors
///
/// When apt or dpkg is missing, or a package cannot be had; `dir` is as it was then.
pub fn unpack(dir: &Path, roots: &[&str], alone: &[&str], also: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    for program in ["apt-get", "apt-cache", "dpkg", "dpkg-query"] {
        shell::on_path(program).with_context(|| format!("no {program} here: not a Debian system?"))?;
    }
    let partial = dir.with_extension("partial");
    let lists = dir.with_extension("apt");
    shell::remove_dir(&partial)?;
    fs::create_dir_all(&partial)?;
    fs::create_dir_all(lists.join("lists/partial"))?;
    fs::create_dir_all(lists.join("cache/archives/partial"))?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        let option = |name: &str, folder: &str| format!("{name}={}", lists.join(folder).display());
        command.current_dir(&partial).env("LC_ALL", "C");
        command.args(["-o", &option("Dir::State::Lists", "lists"), "-o", &option("Dir::Cache", "cache")]);
        // Root's downloads are done by another user, who may not write here.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]);
        command
    };
    shell::read(apt("apt-get").arg("update"))?;
    // By name, as the versions in the names of dependencies change.
    let mut depends = apt("apt-cache");
    depends.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks"]);
    let closure = shell::read(depends.args(["--no-replaces", "--no-enhances"]).args(roots))?;
    let installed = installed()?;
    let wanted = |name: &&str| {
        let is_package = !name.starts_with([' ', '|', '<']) && !name.contains(':');
        is_package && (roots.contains(name) || also(name) || !installed.contains(*name))
    };
    let wanted = closure.lines().filter(wanted).chain(alone.iter().copied());
    let packages: Vec<String> = wanted.map(str::to_string).collect();
    shell::read(apt("apt-get").arg("download").args(&packages))?;
    for package in shell::files(&partial, "deb")? {
        shell::read(Command::new("dpkg").arg("-x").arg(&package).arg(&partial))?;
        fs::remove_file(&package)?;
    }
    shell::remove_dir(&lists)?;
    shell::remove_dir(dir)?;
    fs::rename(&partial, dir).with_context(|| format!("cannot move to {}", dir.display()))?;
    Ok(packages)
}

/// Lets `command` find the shared libraries that were unpacked with `program`, a file in `…/usr/bin`.
pub fn set_libraries(command: &mut Command, program: &Path) {
    // Some packages have theirs in /lib and not in /usr/lib, for which a system has a link.
    let folders = program.ancestors().skip(2).take(2).filter_map(|above| fs::read_dir(above.join("lib")).ok());
    let folders = folders.flatten().flatten().map(|entry| entry.path());
    let libraries: Vec<_> = folders.filter(|folder| folder.to_string_lossy().ends_with("-linux-gnu")).collect();
    if let Ok(path) = std::env::join_paths(&libraries)
        && !libraries.is_empty()
    {
        command.env("LD_LIBRARY_PATH", path);
    }
}

fn installed() -> Result<BTreeSet<String>> {
    let format = "--showformat=${Package} ${db:Status-Status}\\n";
    let listed = shell::read(Command::new("dpkg-query").args(["--show", format]))?;
    Ok(listed.lines().filter_map(|line| line.strip_suffix(" installed")).map(str::to_string).collect())
}
