//! Finds a rustc that can build for NVPTX: one with the source of `core`, whose version is at least the workspace's.
//!
//! Any will do, stable ones too, as `RUSTC_BOOTSTRAP` opens what is unstable; rustup's stable comes without the source.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::shell;

/// Names a rustc to use, whatever else there is.
const OVERRIDE: &str = "ALLFOLD_PTX_RUSTC";

/// Debian's packages: the compiler that browsers are built with, and its source. The version in the names of what they
/// depend on (libstd-rust-web-1.96, libllvm22) changes, so it is looked up.
const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

/// A compiler that can build the PTX.
pub struct Compiler {
    /// As the header of PTX files names it: `rustc 1.96.0 (…), LLVM 22.1.8`.
    pub version: String,
    /// Where the source of the standard library lies.
    pub source: PathBuf,
    rustc: PathBuf,
    origin: &'static str,
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}: {}", self.version, self.origin, self.rustc.display())
    }
}

impl Compiler {
    /// The compiler to use: the override; else one that is here, `wanted`'s version first; else Debian's, fetched.
    ///
    /// # Errors
    ///
    /// When there is none and none can be had; names the ways out.
    pub fn find(wanted: Option<&str>) -> Result<Compiler> {
        if let Some(rustc) = env::var_os(OVERRIDE) {
            let rustc = PathBuf::from(rustc);
            return Compiler::probe(&rustc, OVERRIDE).with_context(|| format!("{OVERRIDE} cannot be used"));
        }
        let unpacked = shell::target()?.join("ptx-toolchain");
        let mut here = nightlies();
        here.push(("Debian's packages, installed", PathBuf::from("/usr/bin/rustc")));
        here.push(("Debian's packages, unpacked", unpacked.join("usr/bin/rustc")));
        let mut usable: Vec<_> =
            here.iter().filter_map(|(origin, rustc)| Compiler::probe(rustc, origin).ok()).collect();
        let best = usable.iter().position(|compiler| Some(compiler.version.as_str()) == wanted).unwrap_or(0);
        if !usable.is_empty() {
            return Ok(usable.swap_remove(best));
        }
        println!("build-ptx: no compiler here can build for NVPTX; fetching Debian's into {} …", unpacked.display());
        fetch(&unpacked).context(
            "no compiler for NVPTX. Either install a nightly with its source:\n    \
             rustup toolchain install nightly --component rust-src\n\
             or Debian's packages rustc-web and rust-web-src (which exclude a packaged rustc), \
             or name a rustc that has the source of core in ALLFOLD_PTX_RUSTC",
        )
    }

    /// A Cargo that uses this compiler.
    pub fn cargo(&self) -> Command {
        // A rustup toolchain has a Cargo of its own, which knows the layout of its source best.
        let own = self.rustc.with_file_name("cargo");
        let mut cargo = if own.is_file() { Command::new(own) } else { Command::new(shell::cargo().get_program()) };
        cargo.current_dir(shell::root()).env("RUSTC", &self.rustc).env("RUSTC_BOOTSTRAP", "1");
        cargo.env_remove("RUSTC_WRAPPER").env_remove("RUSTC_WORKSPACE_WRAPPER");
        debian::set_libraries(&mut cargo, &self.rustc);
        cargo
    }

    fn probe(rustc: &Path, origin: &'static str) -> Result<Compiler> {
        let ask = |argument: &[&str]| -> Result<String> {
            let mut command = Command::new(rustc);
            debian::set_libraries(&mut command, rustc);
            shell::read(command.args(argument))
        };
        let verbose = ask(&["-vV"])?;
        let field = |name: &str| verbose.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let llvm = field("LLVM version:").context("it names no LLVM version")?;
        let release = field("release:").context("it names no release")?;
        let needed = env!("CARGO_PKG_RUST_VERSION");
        if numbers(release) < numbers(needed) {
            bail!("it is {release}; the workspace needs {needed}");
        }
        let source = Path::new(ask(&["--print", "sysroot"])?.trim()).join("lib/rustlib/src/rust");
        if !source.join("library/core/Cargo.toml").is_file() {
            bail!("it has no source of core in {}", source.display());
        }
        let version = format!("{}, LLVM {llvm}", verbose.lines().next().unwrap_or_default());
        Ok(Compiler { version, source, rustc: rustc.to_path_buf(), origin })
    }
}

fn nightlies() -> Vec<(&'static str, PathBuf)> {
    let home = env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let Some(home) = home.or_else(|| Some(env::home_dir()?.join(".rustup"))) else { return Vec::new() };
    let Ok(toolchains) = fs::read_dir(home.join("toolchains")) else { return Vec::new() };
    let mut names: Vec<_> = toolchains.flatten().map(|entry| entry.path()).collect();
    names.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nightly")));
    // Dated ones sort by age; the newest first.
    names.sort();
    names.iter().rev().map(|path| ("rustup's nightly", path.join("bin/rustc"))).collect()
}

fn fetch(at: &Path) -> Result<Compiler> {
    let of_rust = |name: &str| name.starts_with("libstd-rust-web") || name.starts_with("libllvm");
    let packages = debian::unpack(at, &PACKAGES, &[], of_rust)?;
    println!("build-ptx: unpacked {}", packages.join(" "));
    let compiler = Compiler::probe(&at.join("usr/bin/rustc"), "Debian's packages, unpacked");
    compiler.context("apt's sources have no newer one (Debian's security archive has the newest)")
}

fn numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_compare_by_number() {
        assert!(numbers("1.96.0") > numbers("1.95") && numbers("1.97.0-nightly") > numbers("1.95"));
        assert!(numbers("1.85.0") < numbers("1.95") && numbers("1.95.0") >= numbers("1.95"));
        assert!(numbers("1.100.0") > numbers("1.95"));
    }
}
