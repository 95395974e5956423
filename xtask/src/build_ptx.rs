//! `build-ptx [--check]`: host/ptx from kernels-gpu. What the compiler is asked and what it answers is in [`codegen`].

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::packs::{self, Files, Packs};
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
    let dir = packs::committed();
    let packed = packs::read(&dir)?;
    let committed = match packs::unpack(&packed) {
        Err(error) if !check => {
            println!("build-ptx: {error:#}; all is built anew");
            Files::new()
        }
        unpacked => unpacked?,
    };
    let compiler = Compiler::find(committed.values().find_map(|text| split::version_in(text)))?;
    println!("build-ptx: {compiler}");
    let built = codegen::build(&compiler)?;
    if !check {
        let text = packs::leave_text(&built)?;
        println!("build-ptx: the text is in {}", text.display());
        return packs::write(&dir, &packs::pack(&built)?);
    }
    // One file of this compiler is enough: then all must be, as one build makes them all.
    if committed.is_empty() || committed.values().any(|text| split::version_in(text) == Some(&compiler.version)) {
        compare(&committed, &built)?;
        compare_packs(&packed, &packs::pack(&committed)?)?;
        println!(
            "build-ptx: {} files in {} packs are, byte for byte, what this compiler makes",
            built.len(),
            packed.len()
        );
        return Ok(());
    }
    println!("build-ptx: host/ptx was made by another compiler; its text cannot be compared, so this build is audited");
    same_kernels(&committed, &built)?;
    compare_packs(&packed, &packs::pack(&committed)?)?;
    let fresh = shell::target()?.join("ptx/fresh");
    packs::write_text(&fresh, &built)?;
    audit_ptx::audit(&fresh).map(|_| ())
}

fn compare(committed: &Files, built: &Files) -> Result<()> {
    let mut wrong = Vec::new();
    for (file, text) in built {
        match committed.get(file) {
            Some(old) if old == text => {}
            Some(old) => wrong.push(format!("{}:{} is out of date", place(file), first_difference(old, text))),
            None => wrong.push(format!("{} is missing", place(file))),
        }
    }
    let stale = committed.keys().filter(|file| !built.contains_key(*file));
    wrong.extend(stale.map(|file| format!("{} belongs to no kernel", place(file))));
    report(&wrong)
}

/// Where `file` is committed.
fn place(file: &Path) -> String {
    format!("host/ptx/{}: {}", packs::pack_of(file), file.display())
}

/// That packs of the right text have the right bytes: nobody can read them, so there is one way to pack.
fn compare_packs(committed: &Packs, packed: &Packs) -> Result<()> {
    let differs = packed.iter().filter(|(name, bytes)| committed.get(*name) != Some(*bytes));
    let differs = differs.map(|(name, _)| format!("host/ptx/{name} has the right text, packed in another way"));
    let empty = committed.keys().filter(|name| !packed.contains_key(*name));
    report(&differs.chain(empty.map(|name| format!("host/ptx/{name} has nothing in it"))).collect::<Vec<_>>())
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
        for part in [
            "host/ptx/a.tar.zst: sm_90/a.ptx:2 is out of date",
            "sm_90/b.ptx is missing",
            "sm_90/c.ptx belongs to no kernel",
            MEND,
        ] {
            assert!(said.contains(part), "{said}");
        }
        compare(&built, &built).unwrap();
    }

    #[test]
    fn a_pack_of_other_bytes_is_named_with_what_mends_it() {
        let packs = |list: &[(&str, &[u8])]| -> Packs {
            list.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect()
        };
        let right = packs(&[("a.tar.zst", b"1"), ("b.tar.zst", b"2")]);
        compare_packs(&right, &right).unwrap();
        let wrong = packs(&[("a.tar.zst", b"1"), ("b.tar.zst", b"3"), ("c.tar.zst", b"")]);
        let said = compare_packs(&wrong, &right).unwrap_err().to_string();
        for part in ["b.tar.zst has the right text", "c.tar.zst has nothing in it", MEND] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("a.tar.zst"), "{said}");
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
}
