//! The code generator: what rustc is asked, and where its answer lies. See `docs/codegen.md` for who else knows it.
//!
//! Someone who has another one (rust-cuda's, say) changes `build` here to hand over its assembly.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::compiler::Compiler;
use super::split;
use crate::packs::{Files, relative};
use crate::shell;

/// GPU architectures, each with the oldest PTX version that serves: the older the version, the older the driver that
/// accepts it. 7.0 is the first for sm_80, 7.8 the first for sm_90.
const ARCHITECTURES: [(&str, &str); 2] = [("sm_80", "ptx70"), ("sm_90", "ptx78")];

const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Part of the header, so that a change here makes all committed files out of date.
const PROFILE: [(&str, &str); 7] = [
    ("opt-level", "3"),
    ("codegen-units", "1"),
    ("lto", "\"off\""),
    ("panic", "\"abort\""),
    ("debug", "false"),
    ("overflow-checks", "false"),
    ("incremental", "false"),
];

/// Builds kernels-gpu for each architecture: the text of each module.
///
/// # Errors
///
/// When the compiler fails, or its output has what no module may have.
pub fn build(compiler: &Compiler) -> Result<Files> {
    let dir = shell::target()?.join("ptx");
    let mut modules = Files::new();
    for (sm, ptx) in ARCHITECTURES {
        println!("build-ptx: core and kernels for {sm} …");
        let flags = format!("-Ctarget-cpu={sm} -Ctarget-feature=+{ptx}");
        let assembly = assembly(compiler, &dir, sm, &flags)?;
        let profile = PROFILE.map(|(name, value)| format!("{name}={}", value.trim_matches('"'))).join(" ");
        let header = format!(
            "// allfold: {}; target {sm}; flags {flags} {profile}; made by cargo xtask build-ptx",
            compiler.version
        );
        for (module, text) in split::modules(sm, &assembly, &header)? {
            for (folder, _) in renames(compiler) {
                if text.contains(&*folder.to_string_lossy()) {
                    bail!("{module} for {sm} contains a path of this machine, {}", folder.display());
                }
            }
            // The names that packs keep, whatever the compiler's were.
            let text = relative::decode(&relative::encode(&text)?)?;
            modules.insert(PathBuf::from(sm).join(format!("{module}.ptx")), text);
        }
    }
    Ok(modules)
}

fn assembly(compiler: &Compiler, dir: &Path, sm: &str, flags: &str) -> Result<String> {
    // Cargo compiles again only what changed, and a changed setting gets a file of its own: more than one for an
    // architecture means that one is old, and which one cannot be told.
    compile(compiler, dir, flags)?;
    let mut found = outputs(dir, sm)?;
    if found.len() != 1 {
        shell::remove_dir(&dir.join(TRIPLE))?;
        compile(compiler, dir, flags)?;
        found = outputs(dir, sm)?;
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        other => bail!("{} assembly files for {sm} in {}", other.len(), dir.display()),
    }
}

fn outputs(dir: &Path, sm: &str) -> Result<Vec<String>> {
    let target = format!(".target {sm}");
    let mut texts = Vec::new();
    for file in shell::files(&dir.join(TRIPLE), "s")? {
        let text = shell::text(&file)?;
        if text.lines().any(|line| line == target) {
            texts.push(text);
        }
    }
    Ok(texts)
}

fn compile(compiler: &Compiler, dir: &Path, flags: &str) -> Result<()> {
    let mut cargo = compiler.cargo();
    cargo.args(["rustc", "--release", "--lib", "--package", "allfold-kernels", "--target", TRIPLE, "-Zbuild-std=core"]);
    cargo.arg("--target-dir").arg(dir);
    for (name, value) in PROFILE {
        cargo.args(["--config", &format!("profile.release.{name}={value}")]);
    }
    cargo.args(["--", "--emit=asm"]).args(flags.split(' '));
    let renames = renames(compiler).map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", renames.join("\x1f"));
    shell::read(&mut cargo).map(|_| ())
}

/// Folders of this machine, and what stands for them in the output.
fn renames(compiler: &Compiler) -> [(PathBuf, &'static str); 3] {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(env::home_dir()?.join(".cargo"))).unwrap_or_else(|| "/.cargo".into());
    [(shell::root(), "/allfold"), (compiler.source.clone(), "/rust"), (cargo_home, "/cargo")]
}
