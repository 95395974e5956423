//! What a build of this workspace asks for: no nightly, no CUDA toolkit, no code generator of its own.

use crate::{packs, shell};

/// Packages that need a toolkit, or a certain compiler with its LLVM.
const NOT_WANTED: [&str; 4] = ["cuda_builder", "cuda_std", "nvvm", "rustc_codegen_nvvm"];

/// Whether it is the script that cargo runs before a package is built.
fn is_script(path: &str) -> bool {
    path.rsplit('/').next() == Some("build.rs")
}

/// What is asked for by the file at `path`, a Rust file of the workspace or its lock file, that not everybody has.
fn asked(path: &str, text: &str) -> Vec<String> {
    let mut asked = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("#!") && line.contains("feature(") && !line.contains("cfg_attr(target_arch = \"nvptx64\", ")
        {
            asked.push(format!("{path}: a nightly, for {line}"));
        }
    }
    if is_script(path) {
        let variables = text.split("var(\"").skip(1).chain(text.split("var_os(\"").skip(1));
        let variables = variables.filter_map(|rest| rest.split('"').next()).filter(|name| *name != "OUT_DIR");
        asked.extend(variables.map(|name| format!("{path}: the environment's {name}")));
        let starts = text.contains("process::") || text.contains("Command::");
        asked.extend(starts.then(|| format!("{path}: another program")));
    }
    if path == "Cargo.lock" {
        let names = NOT_WANTED.iter().filter(|name| text.contains(&format!("name = \"{name}\"\n")));
        asked.extend(names.map(|name| format!("{path}: {name}")));
    }
    asked
}

#[test]
fn b119_b120_b126_a_build_asks_for_no_nightly_no_toolkit_and_no_code_generator() {
    let root = shell::root();
    let mut found = asked("Cargo.lock", &shell::text(&root.join("Cargo.lock")).unwrap());
    let mut scripts = Vec::new();
    for folder in super::FOLDERS {
        for path in shell::files(&root.join(folder), "rs").unwrap() {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            found.extend(asked(&name, &shell::text(&path).unwrap()));
            scripts.extend(is_script(&name).then_some(name));
        }
    }
    assert_eq!(found, [""; 0]);
    // It only makes an empty file for the linker.
    assert_eq!(scripts, ["host/build.rs"]);
    for name in ["rust-toolchain", "rust-toolchain.toml", "kernels-gpu/rust-toolchain.toml", "host/rust-toolchain.toml"]
    {
        assert!(!root.join(name).exists(), "{name} names the one toolchain that will do");
    }
    // What the code generator would give is here.
    let files = packs::unpack(&packs::read(&packs::committed()).unwrap()).unwrap();
    for target in ["sm_80", "sm_90"] {
        assert!(files.keys().any(|path| path.starts_with(target)), "{target}");
    }
}

#[test]
fn what_is_asked_for_is_found() {
    assert_eq!(asked("host/src/a.rs", "//! A.\n#![feature(abi_ptx)]\n").len(), 1);
    assert_eq!(asked("host/src/a.rs", "#![cfg_attr(docsrs, feature(doc_cfg))]\n").len(), 1);
    assert_eq!(asked("a.rs", "#![cfg_attr(target_arch = \"nvptx64\", feature(abi_ptx))]\n"), [""; 0]);
    let script = "fn main() {\n    std::process::Command::new(env::var(\"NVCC\")?).arg(\"--version\");\n}\n";
    assert_eq!(asked("host/build.rs", script).len(), 2);
    assert_eq!(asked("host/src/a.rs", script), [""; 0]);
    assert_eq!(asked("Cargo.lock", "[[package]]\nname = \"cuda_builder\"\n").len(), 1);
    assert_eq!(asked("Cargo.lock", "[[package]]\nname = \"cuda_builder_of_another_name\"\n"), [""; 0]);
}
