//! `cargo xtask driver-symbols`: writes `host/src/cuda/driver/symbols.rs` from the source of `cust_raw`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// Where the functions go.
const TARGET: &str = "host/src/cuda/driver/symbols.rs";

/// Those that `host/src/cuda/driver.rs` defines itself.
const BY_HAND: [&str; 2] = ["cuGetErrorName", "cuGetErrorString"];

/// Writes the file, or with `check` only compares it.
///
/// # Errors
///
/// When the source of `cust_raw` is not found or not as expected, or with `check` when the file differs.
pub fn run(check: bool) -> Result<()> {
    let metadata = shell::read(shell::cargo().args(["metadata", "--format-version", "1"]))?;
    let package = package(&metadata)?;
    let source = shell::text(&package.join("src/cuda.rs"))?;
    let text = generate(&source, &version(&shell::text(&package.join("Cargo.toml"))?)?)?;
    let target = shell::root().join(TARGET);
    if !check {
        return shell::write(&target, &text);
    }
    ensure!(shell::text(&target)? == text, "{TARGET} is not what cust_raw gives; run: cargo xtask driver-symbols");
    Ok(())
}

/// The folder of `cust_raw`, from what `cargo metadata` says; registries add the version to its name.
fn package(metadata: &str) -> Result<PathBuf> {
    let manifests = metadata.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut folders = manifests.filter_map(|manifest| Path::new(manifest).parent());
    folders
        .find(|folder| folder.file_name().is_some_and(|name| name == "cust_raw" || starts(name, "cust_raw-")))
        .map(Path::to_path_buf)
        .context("cargo metadata names no package cust_raw: is `cust` still a dependency of host?")
}

fn starts(name: &std::ffi::OsStr, with: &str) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(with))
}

fn version(manifest: &str) -> Result<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    Ok(line.and_then(|rest| rest.strip_suffix('"')).context("cust_raw's manifest names no version")?.to_owned())
}

fn generate(source: &str, version: &str) -> Result<String> {
    let functions = functions(source)?;
    let codes = codes(source)?;
    let mut text = format!(
        "//! The driver's interface; made by `cargo xtask driver-symbols`, not by hand.\n\
         //!\n\
         //! Long: a line for each function.\n\
         //! From cust_raw {version}: {} functions, of which `driver.rs` defines {}, and {} codes. May use `driver.rs`.\n\n\
         #![allow(non_snake_case, clippy::too_many_arguments)]\n\n\
         use std::ffi::*;\n\n\
         use cust::sys::*;\n\n\
         use super::{{codes, forward}};\n\n\
         forward! {{\n",
        functions.len(),
        BY_HAND.len(),
        codes.len(),
    );
    for function in functions.iter().filter(|function| !BY_HAND.iter().any(|name| names(function, name))) {
        writeln!(text, "    fn {function};")?;
    }
    text.push_str("}\n\ncodes! {\n");
    for code in codes {
        writeln!(text, "    {code}")?;
    }
    text.push_str("}\n");
    Ok(text)
}

fn names(function: &str, name: &str) -> bool {
    function.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
}

/// Every `pub fn name(arguments) -> CUresult;` of an `extern "C"` block, as `name(arguments)` on one line.
fn functions(source: &str) -> Result<Vec<String>> {
    let mut functions = Vec::new();
    for block in source.split("\nextern \"C\" {\n").skip(1) {
        let block = block.split("\n}").next().unwrap_or(block);
        let line = block.split_whitespace().collect::<Vec<_>>().join(" ").replace("::std::os::raw::", "");
        let function = line.strip_prefix("pub fn ").and_then(|line| line.strip_suffix(") -> CUresult;"));
        let Some(function) = function.filter(|function| !function.contains(';')) else {
            bail!("cust_raw declares something that is not one function returning CUresult: {line}");
        };
        functions.push(format!("{})", function.trim_end_matches(',').replacen("( ", "(", 1).trim_end_matches(", ")));
    }
    ensure!(!functions.is_empty(), "cust_raw declares no function");
    for name in BY_HAND {
        ensure!(functions.iter().any(|function| names(function, name)), "cust_raw does not declare {name}");
    }
    Ok(functions)
}

/// The values of `CUresult`.
fn codes(source: &str) -> Result<Vec<&str>> {
    let (_, body) = source.split_once("pub enum cudaError_enum {").context("cust_raw has no enum cudaError_enum")?;
    let body = body.split('}').next().unwrap_or(body);
    let codes: Vec<_> = body.lines().filter_map(|line| Some(line.trim().split_once(" = ")?.0)).collect();
    ensure!(codes.contains(&"CUDA_SUCCESS") && codes.contains(&"CUDA_ERROR_UNKNOWN"), "unexpected codes: {codes:?}");
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
#[repr(i32)]
pub enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_UNKNOWN = 999,
}
extern \"C\" {
    pub fn cuGetErrorString(error: CUresult, pStr: *mut *const ::std::os::raw::c_char) -> CUresult;
}
extern \"C\" {
    pub fn cuGetErrorName(error: CUresult, pStr: *mut *const ::std::os::raw::c_char) -> CUresult;
}
extern \"C\" {
    pub fn cuDeviceGet(
        device: *mut CUdevice,
        ordinal: ::std::os::raw::c_int,
    ) -> CUresult;
}
extern \"C\" {
    pub fn cuCtxSynchronize() -> CUresult;
}
";

    #[test]
    fn each_function_becomes_one_line() {
        let text = generate(SOURCE, "1.2.3").expect("well formed");
        assert!(
            text.contains("From cust_raw 1.2.3: 4 functions, of which `driver.rs` defines 2, and 2 codes."),
            "{text}"
        );
        let lines =
            "forward! {\n    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);\n    fn cuCtxSynchronize();\n}\n";
        assert!(text.contains(lines), "{text}");
        assert!(text.ends_with("codes! {\n    CUDA_SUCCESS\n    CUDA_ERROR_UNKNOWN\n}\n"), "{text}");
    }

    #[test]
    fn what_is_no_such_function_is_refused() {
        let source = format!("{SOURCE}extern \"C\" {{\n    pub fn cuOdd() -> u32;\n}}\n");
        assert!(generate(&source, "1").is_err());
    }

    #[test]
    fn the_package_is_found_by_its_folder() {
        let metadata =
            r#"{"manifest_path":"/r/cust-0.3.2/Cargo.toml","x":1,"manifest_path":"/r/cust_raw-0.11.3/Cargo.toml"}"#;
        assert_eq!(package(metadata).expect("it is there"), Path::new("/r/cust_raw-0.11.3"));
        assert!(package("{}").is_err());
    }
}
