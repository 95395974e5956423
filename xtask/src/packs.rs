//! Packs: host/ptx as it is committed, and its text. `host/src/cuda/ptx/pack.rs` reads the same, and says why they are as they are.
//!
//! A pack is a tar archive in one frame of zstd, so `tar --zstd -xf host/ptx/f32.tar.zst` reads it too; the text in it has the names of
//! [`relative`]. The same text gives the same bytes, with the
//! version of zstd that Cargo.lock pins: the archive names nobody and no time, and one thread compresses a frame.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::shell;

#[path = "../../host/src/cuda/ptx/relative.rs"]
pub mod relative;

/// What a pack's name ends in.
const EXTENSION: &str = ".tar.zst";

/// The slowest level but for those that want gigabytes, which gain a thousandth.
const LEVEL: i32 = 19;

/// A frame's window has 2 to the power of so many bytes: more than a pack's text, all of which is at hand then to refer to.
const WINDOW_LOG: u32 = 24;

/// Text by its path, as `sm_90/f32.ptx`.
pub type Files = BTreeMap<PathBuf, String>;

/// Packs by their name in host/ptx.
pub type Packs = BTreeMap<String, Vec<u8>>;

/// The folder of the packs.
pub fn committed() -> PathBuf {
    shell::root().join("host/ptx")
}

/// The packs in `dir`.
///
/// # Errors
///
/// When one cannot be read.
pub fn read(dir: &Path) -> Result<Packs> {
    let mut packs = Packs::new();
    for path in shell::files(dir, "zst")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        packs.insert(name, fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(packs)
}

/// Makes `dir` have `packs` and no other; what else is there stays.
///
/// # Errors
///
/// When a file cannot be written or removed.
pub fn write(dir: &Path, packs: &Packs) -> Result<()> {
    let old = read(dir)?;
    for (name, bytes) in packs {
        shell::write(&dir.join(name), bytes)?;
        println!("{:>9} bytes {name}", bytes.len());
    }
    for stale in old.keys().filter(|name| !packs.contains_key(*name)) {
        fs::remove_file(dir.join(stale))?;
        println!("  removed       {stale}");
    }
    Ok(())
}

/// Puts `files` into target/ptx/text, for people to read, and nothing else there. Returns this folder.
///
/// # Errors
///
/// When it cannot be written.
pub fn leave_text(files: &Files) -> Result<PathBuf> {
    let dir = shell::target()?.join("ptx/text");
    write_text(&dir, files)?;
    Ok(dir)
}

/// Makes `dir` have `files` and nothing else.
///
/// # Errors
///
/// When it cannot be written.
pub fn write_text(dir: &Path, files: &Files) -> Result<()> {
    shell::remove_dir(dir)?;
    files.iter().try_for_each(|(path, text)| shell::write(&dir.join(path), text))
}

/// Packs `files`.
///
/// # Errors
///
/// When zstd or a thread fails.
pub fn pack(files: &Files) -> Result<Packs> {
    let mut groups: BTreeMap<String, Vec<(&Path, &str)>> = BTreeMap::new();
    for (path, text) in files {
        groups.entry(pack_of(path)).or_default().push((path, text));
    }
    // A thread a pack: they are independent, and take seconds each.
    std::thread::scope(|scope| {
        let workers = groups.into_iter().map(|(name, files)| (name, scope.spawn(move || compress(&files))));
        let workers: Vec<_> = workers.collect();
        let packed = workers.into_iter().map(|(name, worker)| {
            let bytes = worker.join().map_err(|_| anyhow!("the worker for {name} panicked"))?;
            let bytes = bytes.with_context(|| format!("cannot pack {name}"))?;
            Ok((name, bytes))
        });
        packed.collect()
    })
}

/// The text in `packs`.
///
/// # Errors
///
/// When one is damaged, or has what is no file of PTX, or not of its own.
pub fn unpack(packs: &Packs) -> Result<Files> {
    let mut files = Files::new();
    for (name, bytes) in packs {
        let tar = zstd::decode_all(bytes.as_slice()).with_context(|| format!("host/ptx/{name}: no frame of zstd"))?;
        let mut archive = tar::Archive::new(tar.as_slice());
        for file in archive.entries()? {
            let mut file = file.with_context(|| format!("host/ptx/{name}: no archive"))?;
            let path = file.path()?.into_owned();
            let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
            if !plain || path.extension() != Some(OsStr::new(relative::EXTENSION)) || pack_of(&path) != *name {
                bail!("host/ptx/{name}: {} does not belong there", path.display());
            }
            let place = || format!("host/ptx/{name}: {}", path.display());
            let mut packed = String::new();
            file.read_to_string(&mut packed).with_context(place)?;
            files.insert(path.with_extension("ptx"), relative::decode(&packed).with_context(place)?);
        }
    }
    Ok(files)
}

/// The pack that a file belongs to: its dtype's, all targets together; modules with planted delays, which few want, have their own.
pub fn pack_of(path: &Path) -> String {
    let module = path.file_stem().unwrap_or_default().to_string_lossy();
    let dtype = module.split('_').next().unwrap_or_default();
    let pack = if module.ends_with("_stress") { &module } else { dtype };
    format!("{pack}{EXTENSION}")
}

fn compress(files: &[(&Path, &str)]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let packed = relative::encode(text).with_context(|| path.display().to_string())?;
        if relative::decode(&packed)? != *text {
            bail!("{}: its names are not those that build-ptx gives", path.display());
        }
        let mut header = tar::Header::new_ustar();
        header.set_size(packed.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, path.with_extension(relative::EXTENSION), packed.as_bytes())?;
    }
    let mut compressor = Compressor::new(LEVEL)?;
    compressor.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
    compressor.include_checksum(true)?;
    Ok(compressor.compress(&archive.into_inner()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect()
    }

    #[test]
    fn text_comes_out_as_it_went_in_and_always_as_the_same_bytes() {
        let all =
            ["sm_80/f32.ptx", "sm_90/f32.ptx", "sm_90/f32_presets.ptx", "sm_90/bf16.ptx", "sm_90/bf16_stress.ptx"];
        let all = files(&all.map(|path| (path, path)));
        let packs = pack(&all).unwrap();
        assert_eq!(packs.keys().collect::<Vec<_>>(), ["bf16.tar.zst", "bf16_stress.tar.zst", "f32.tar.zst"]);
        assert_eq!(unpack(&packs).unwrap(), all);
        assert_eq!(pack(&all).unwrap(), packs);
        let other = pack(&files(&[("sm_90/bf16.ptx", "another")])).unwrap();
        assert_ne!(other["bf16.tar.zst"], packs["bf16.tar.zst"]);
    }

    #[test]
    fn a_pack_that_is_damaged_or_has_what_is_not_its_own_is_refused() {
        let packs = pack(&files(&[("sm_90/f32.ptx", "text")])).unwrap();
        let bytes = &packs["f32.tar.zst"];
        let refused = |name: &str, bytes: &[u8]| {
            unpack(&Packs::from([(name.to_string(), bytes.to_vec())])).expect_err("refused").to_string()
        };
        assert!(refused("f32.tar.zst", &bytes[..bytes.len() - 1]).contains("f32.tar.zst: no frame"));
        assert!(refused("f16.tar.zst", bytes).contains("sm_90/f32.relative does not belong there"));
        let names = pack(&files(&[("sm_90/f32.ptx", "%r7")])).expect_err("refused").to_string();
        assert!(names.contains("f32.tar.zst"), "{names}");
    }

    #[test]
    fn stale_packs_go_and_the_table_stays() {
        let dir = shell::target().unwrap().join("test-packs");
        shell::remove_dir(&dir).unwrap();
        write(&dir, &pack(&files(&[("sm_90/a.ptx", "old"), ("sm_80/b.ptx", "old")])).unwrap()).unwrap();
        shell::write(&dir.join("AUDIT.md"), "table").unwrap();
        let new = files(&[("sm_90/a.ptx", "new")]);
        write(&dir, &pack(&new).unwrap()).unwrap();
        assert_eq!(unpack(&read(&dir).unwrap()).unwrap(), new);
        assert!(dir.join("AUDIT.md").is_file());
        shell::remove_dir(&dir).unwrap();
    }
}
