//! `build-ptx [--check]`: host/ptx from kernels-gpu. What the compiler is asked and what it answers is in [`codegen`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::{audit_ptx, shell};

pub mod codegen;
mod compiler;
mod split;

use compiler::Compiler;

/// What mends a failed check.
const MEND: &str = "cargo xtask build-ptx && cargo xtask audit-ptx";

/// Builds, then writes or compares.
///
/// # Errors
///
/// When there is no compiler, the build fails, or `check` finds a difference.
pub fn run(check: bool) -> Result<()> {
    let dir = shell::root().join("host/ptx");
    let committed = read(&dir)?;
    let compiler = Compiler::find(committed.values().find_map(|text| split::version_in(text)))?;
    println!("build-ptx: {compiler}");
    let built = codegen::build(&compiler)?;
    if !check {
        return write(&dir, &committed, &built);
    }
    // One file of this compiler is enough: then all must be, as one build makes them all.
    if committed.is_empty() || committed.values().any(|text| split::version_in(text) == Some(&compiler.version)) {
        compare(&committed, &built)?;
        println!("build-ptx: {} files are, byte for byte, what this compiler makes", built.len());
        return Ok(());
    }
    println!(
        "build-ptx: host/ptx was made by another compiler; its bytes cannot be compared, so this build is audited"
    );
    same_kernels(&committed, &built)?;
    let fresh = shell::target()?.join("ptx/fresh");
    shell::remove_dir(&fresh)?;
    write(&fresh, &BTreeMap::new(), &built)?;
    audit_ptx::audit(&fresh).map(|_| ())
}

/// Files by their path in host/ptx.
type Files = BTreeMap<PathBuf, String>;

fn read(dir: &Path) -> Result<Files> {
    let mut files = Files::new();
    for file in shell::files(dir, "ptx")? {
        files.insert(file.strip_prefix(dir)?.to_path_buf(), shell::text(&file)?);
    }
    Ok(files)
}

fn write(dir: &Path, old: &Files, new: &Files) -> Result<()> {
    for (file, text) in new {
        shell::write(&dir.join(file), text)?;
        println!("{:>9} bytes {}", text.len(), file.display());
    }
    for stale in old.keys().filter(|file| !new.contains_key(*file)) {
        fs::remove_file(dir.join(stale))?;
        println!("  removed       {}", stale.display());
    }
    Ok(())
}

fn compare(committed: &Files, built: &Files) -> Result<()> {
    let mut wrong = Vec::new();
    for (file, text) in built {
        match committed.get(file) {
            Some(old) if old == text => {}
            Some(old) => {
                wrong.push(format!("host/ptx/{}:{} is out of date", file.display(), first_difference(old, text)))
            }
            None => wrong.push(format!("host/ptx/{} is missing", file.display())),
        }
    }
    let stale = committed.keys().filter(|file| !built.contains_key(*file));
    wrong.extend(stale.map(|file| format!("host/ptx/{} belongs to no kernel", file.display())));
    report(&wrong)
}

/// That `built` has the files and kernels of `committed`: what another compiler's build can be asked.
fn same_kernels(committed: &Files, built: &Files) -> Result<()> {
    let names = |files: &Files| -> Vec<String> {
        let named = |(file, text): (&PathBuf, &String)| {
            let file = file.display().to_string();
            let kernels: Vec<_> = split::entries(text).map(|name| format!("{file}: {name}")).collect();
            std::iter::once(file).chain(kernels)
        };
        files.iter().flat_map(named).collect()
    };
    let (old, new) = (names(committed), names(built));
    let missing = new.iter().filter(|name| !old.contains(name)).map(|name| format!("host/ptx lacks {name}"));
    let stale = old.iter().filter(|name| !new.contains(name)).map(|name| format!("no source for host/ptx/{name}"));
    report(&missing.chain(stale).collect::<Vec<_>>())
}

fn report(wrong: &[String]) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{}\nmend it with: {MEND}", wrong.join("\n"));
}

fn first_difference(old: &str, new: &str) -> usize {
    let same = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    same + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(file, text)| (PathBuf::from(file), text.to_string())).collect()
    }

    #[test]
    fn each_difference_is_named_with_what_mends_it() {
        let built = files(&[("sm_90/a.ptx", "1\n2\n"), ("sm_90/b.ptx", "")]);
        let committed = files(&[("sm_90/a.ptx", "1\n3\n"), ("sm_90/c.ptx", "")]);
        let said = compare(&committed, &built).unwrap_err().to_string();
        for part in ["sm_90/a.ptx:2 is out of date", "sm_90/b.ptx is missing", "sm_90/c.ptx belongs to no kernel", MEND]
        {
            assert!(said.contains(part), "{said}");
        }
        compare(&built, &built).unwrap();
    }

    #[test]
    fn another_compiler_must_make_the_same_kernels() {
        let built = files(&[("sm_90/a.ptx", ".visible .entry a__x(\n.visible .entry a__y(\n")]);
        let z = ".visible .entry a__x(\n.visible .entry a__z(\n";
        let committed = files(&[("sm_90/a.ptx", z), ("sm_90/empty.ptx", "")]);
        let said = same_kernels(&committed, &built).unwrap_err().to_string();
        for part in ["lacks sm_90/a.ptx: a__y", "for host/ptx/sm_90/a.ptx: a__z", "for host/ptx/sm_90/empty.ptx"] {
            assert!(said.contains(part), "{said}");
        }
        same_kernels(&built, &built).unwrap();
    }

    #[test]
    fn stale_files_go_and_the_table_stays() {
        let dir = shell::target().unwrap().join("test-build-ptx");
        shell::remove_dir(&dir).unwrap();
        let old = files(&[("sm_90/a.ptx", "old"), ("sm_80/b.ptx", "old")]);
        write(&dir, &Files::new(), &old).unwrap();
        shell::write(&dir.join("AUDIT.md"), "table").unwrap();
        let new = files(&[("sm_90/a.ptx", "new")]);
        write(&dir, &read(&dir).unwrap(), &new).unwrap();
        assert_eq!(read(&dir).unwrap(), new);
        assert!(dir.join("AUDIT.md").is_file());
        shell::remove_dir(&dir).unwrap();
    }
}
