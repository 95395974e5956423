//! Packs: the PTX as the program carries it, compressed, and its text, unpacked when it is first wanted. Uses `ruzstd` and `tar`.
//!
//! A pack is a tar archive in one frame of zstd, `host/ptx/{pack}.tar.zst`. Its files are `{target}/{module}.relative`: the modules of one dtype, for
//! every target, with the names of [`relative`]. Targets and modules of a dtype have most of their text in common, and few communicators want two dtypes. Modules with
//! planted delays have a pack of their own, as only stress tests want them. `cargo xtask build-ptx` makes packs, `xtask/src/packs.rs` says how.
//!
//! Relative names make of 592 KB of bf16 115 KB (2026-12-01), and of that with f16 before it in the window 28 KB: not done, as whoever wants the
//! one would unpack the other.
//!
//! Why zstd, by the same 35 MB of text, before names were relative, on a shared 2-core Xeon, 2026-11-30. Bytes are of zstd 1.5.7 at level 19, which 22 betters by a thousandth,
//! and of xz at its best; milliseconds of a core are of `ruzstd` 0.9 and `lzma-rust2` 0.25, from the start of a pack to the last module of f32:
//!
//! | a pack for each | zstd | xz |
//! |---|---|---|
//! | module and target | 4.0 MB | 3.5 MB |
//! | dtype and target | 3.8 MB | 3.4 MB |
//! | dtype | 2.9 MB, 25 ms for either target | 2.5 MB, 40 ms for sm_90 and 75 ms for sm_80 |
//! | target | 2.7 MB, all dtypes to be unpacked for one | 2.4 MB, the same |
//!
//! `cargo test --release -p allfold --lib cuda::ptx::pack -- --nocapture` says what it takes today. The dev profile of this workspace
//! takes as long; a program whose dependencies are not optimised takes 170 ms.
//!
//! Both decoders are kept well and are Rust alone; `ruzstd` is the one in the standard library's own backtraces. A frame's checksum is for
//! whoever unpacks files: what is embedded is trusted as much as the code beside it.

use std::fmt;
use std::io::{self, Read};
use std::sync::OnceLock;

use ruzstd::decoding::StreamingDecoder;
use tar::Archive;

use super::relative;
use crate::error::{Error, Result};

/// A pack.
struct Pack {
    name: &'static str,
    bytes: &'static [u8],
}

/// Fuzzing goes without: it wants no text, and the fewer megabytes a compiler has to instrument the better.
macro_rules! packs {
    ($($name:literal)*) => {
        [$(Pack {
            name: $name,
            bytes: if cfg!(fuzzing) { &[] } else { include_bytes!(concat!("../../../ptx/", $name, ".tar.zst")) },
        }),*]
    };
}

/// All of host/ptx.
static PACKS: [Pack; 10] = packs!("f32" "f16" "bf16" "bf16_stress" "i32" "f64" "e4m3" "e5m2" "i8" "i64");

/// A module's name, as `bf16_presets`, and its text.
struct Module {
    name: Box<str>,
    text: Box<str>,
}

/// What is unpacked for one target: of each pack nothing yet, its modules, or why it does not unpack. It stays for the process.
pub(super) struct Unpacked([OnceLock<std::result::Result<Vec<Module>, String>>; PACKS.len()]);

impl Unpacked {
    pub(super) const fn nothing() -> Unpacked {
        Unpacked([const { OnceLock::new() }; PACKS.len()])
    }

    /// The text of `module` for `target`, if there is such a module.
    pub(super) fn text(&self, target: &str, module: &str) -> Result<Option<&str>> {
        let Some(pack) = pack_of(module) else { return Ok(None) };
        let modules = self.modules_of(pack, target)?;
        Ok(modules.iter().find(|it| *it.name == *module).map(|it| &*it.text))
    }

    /// All modules for `target`, name and text.
    pub(super) fn modules(&self, target: &str) -> Result<Vec<(&str, &str)>> {
        let mut all = Vec::new();
        for pack in 0..PACKS.len() {
            all.extend(self.modules_of(pack, target)?.iter().map(|it| (&*it.name, &*it.text)));
        }
        Ok(all)
    }

    fn modules_of(&self, pack: usize, target: &str) -> Result<&[Module]> {
        let Pack { name, bytes } = PACKS[pack];
        let unpacked = self.0[pack].get_or_init(|| unpack(bytes, target).map_err(|error| error.to_string()));
        let damaged = |why: &String| Error::PtxDamaged { pack: name, bytes: bytes.len(), why: why.clone() };
        unpacked.as_deref().map_err(damaged)
    }
}

/// Names, for the text is much.
impl fmt::Debug for Unpacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unpacked = PACKS.iter().zip(&self.0).filter(|(_, modules)| modules.get().is_some());
        f.debug_set().entries(unpacked.map(|(pack, _)| pack.name)).finish()
    }
}

/// The pack that `module` is in: that of its own name, or else of its dtype's.
fn pack_of(module: &str) -> Option<usize> {
    let of = |name: &str| PACKS.iter().position(|pack| pack.name == name);
    of(module).or_else(|| of(module.split('_').next()?))
}

/// The modules for `target` in a pack.
fn unpack(bytes: &[u8], target: &str) -> io::Result<Vec<Module>> {
    let mut archive = Archive::new(StreamingDecoder::new(bytes).map_err(io::Error::other)?);
    let mut modules = Vec::new();
    for file in archive.entries()? {
        let mut file = file?;
        let path = file.path()?.into_owned();
        let Ok(name) = path.strip_prefix(target) else { continue };
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(relative::EXTENSION)?.strip_suffix('.'))
        else {
            continue;
        };
        let mut packed = String::new();
        file.read_to_string(&mut packed)?;
        if packed.len() as u64 != file.size() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = relative::decode(&packed).map_err(|why| io::Error::other(format!("{}: {why}", path.display())))?;
        modules.push(Module { name: name.into(), text: text.into() });
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// Most bytes that the program carries: what a rebuild adds to the history of whoever clones it.
    const MOST_BYTES: usize = 3_000_000;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, text) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, path, *text).expect("memory");
        }
        archive.into_inner().expect("memory")
    }

    fn frame(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    #[test]
    fn a_pack_gives_the_modules_of_one_target() {
        let files: [(&str, &[u8]); 4] = [
            ("sm_80/a.relative", b"old"),
            ("sm_90/a.relative", b"a"),
            ("sm_90/a_b.relative", b"b"),
            ("sm_90a/a.relative", b"another"),
        ];
        let modules = unpack(&frame(&archive(&files)), "sm_90").expect("a pack");
        let modules: Vec<_> = modules.iter().map(|it| (&*it.name, &*it.text)).collect();
        assert_eq!(modules, [("a", "a"), ("a_b", "b")]);
    }

    #[test]
    fn every_pack_unpacks_for_every_target_and_says_how_long_it_took() {
        let bytes: usize = PACKS.iter().map(|pack| pack.bytes.len()).sum();
        assert!(bytes < MOST_BYTES, "{bytes} bytes");
        println!("{bytes} bytes in {} packs", PACKS.len());
        for Pack { name, bytes } in &PACKS {
            for target in ["sm_90", "sm_80"] {
                let begun = Instant::now();
                let modules = unpack(bytes, target).expect("a pack of ours");
                let took = begun.elapsed();
                let text_bytes: usize = modules.iter().map(|module| module.text.len()).sum();
                println!("{name} for {target}: {} bytes unpacked to {text_bytes} in {took:.1?}", bytes.len());
                assert!(text_bytes > bytes.len(), "{name} for {target}");
                for module in &modules {
                    assert_eq!(pack_of(&module.name).map(|pack| PACKS[pack].name), Some(*name), "{}", module.name);
                }
            }
        }
    }

    #[test]
    fn what_is_damaged_is_an_error() {
        let tar = archive(&[("sm_90/a.relative", b"\n.version 7.8\n".repeat(100).as_slice())]);
        let whole = frame(&tar);
        assert_eq!(unpack(&whole, "sm_90").expect("a pack").len(), 1);
        for length in 0..whole.len() {
            assert!(unpack(&whole[..length], "sm_90").is_err(), "{length} of {} bytes", whole.len());
        }
        // Whole frames of what is no archive, ends within a file, is no text, or has a name that stands for none.
        assert!(unpack(&frame(&archive(&[("sm_90/a.relative", b"%r0")])), "sm_90").is_err());
        assert!(unpack(&frame(&[b'x'; 2048]), "sm_90").is_err());
        assert!(unpack(&frame(&tar[..700]), "sm_90").is_err());
        assert!(unpack(&frame(&archive(&[("sm_90/a.relative", b"\xff")])), "sm_90").is_err());
        // A text that is another target's is not read.
        assert!(unpack(&frame(&archive(&[("sm_80/a.relative", b"\xff")])), "sm_90").expect("a pack").is_empty());
    }

    #[test]
    fn why_a_pack_does_not_unpack_stays_and_is_said_of_it() {
        let unpacked = Unpacked::nothing();
        let first = unpacked.0[2].get_or_init(|| unpack(&[], "sm_90").map_err(|error| error.to_string()));
        assert!(first.is_err());
        for _ in 0..2 {
            let error = unpacked.text("sm_90", "bf16_presets").expect_err("damaged");
            let Error::PtxDamaged { pack: "bf16", bytes, why } = &error else { panic!("{error}") };
            assert!(*bytes == PACKS[2].bytes.len() && !why.is_empty(), "{error}");
            assert!(error.to_string().contains("pack bf16"), "{error}");
        }
        assert!(unpacked.modules("sm_90").is_err());
        assert!(unpacked.text("sm_90", "i32").expect("another pack").is_some());
    }

    #[test]
    fn only_what_is_wanted_is_unpacked_and_once() {
        let unpacked = Unpacked::nothing();
        assert_eq!(format!("{unpacked:?}"), "{}");
        assert_eq!(unpacked.text("sm_90", "f128").expect("no pack, and no error"), None);
        assert_eq!(unpacked.text("sm_90", "i32_none").expect("a pack"), None);
        let texts = std::thread::scope(|scope| {
            let ask = || unpacked.text("sm_90", "i32").expect("a pack").expect("a module").as_ptr() as usize;
            [scope.spawn(ask), scope.spawn(ask)].map(|thread| thread.join().expect("no panic"))
        });
        assert_eq!(texts[0], texts[1]);
        assert_eq!(format!("{unpacked:?}"), r#"{"i32"}"#);
    }
}
