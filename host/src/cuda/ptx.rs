//! The embedded PTX: which file serves a GPU, and a module of only those entry points that are wanted.
//!
//! The driver compiles PTX when it loads a module, at about 6 ms a kilobyte where its cache is cold. So what it gets is
//! put together from a file's header and the entry points that a communicator declares. Files are embedded compressed: see `ptx/pack.rs`.

use std::collections::HashSet;

use allfold_kernels::protocol::entry_point::EntryPoint;

use crate::cuda::DriverError;
use crate::error::{Error, Result};

mod pack;
pub(super) mod relative;

use pack::Unpacked;

/// PTX that the driver did not take.
#[derive(Debug, thiserror::Error)]
#[error(
    "the driver (CUDA {}.{}) refused PTX {ptx_version} for {target}: {source}{}{log}",
    driver_version.0, driver_version.1, if log.is_empty() { "" } else { "\n" }
)]
pub struct PtxRefused {
    /// `.version` of the PTX.
    pub ptx_version: String,
    /// `.target` of the PTX.
    pub target: String,
    /// CUDA version of the driver, which bounds the PTX version that it can read.
    pub driver_version: (u32, u32),
    /// What the driver's compiler said.
    pub log: String,
    /// The call that failed.
    pub source: DriverError,
}

/// The PTX files for one target.
#[derive(Debug)]
pub struct Target {
    /// The target's name, as `sm_90`.
    pub name: &'static str,
    /// The least compute capability that can run it; every later one can, too.
    pub compute_capability: (u32, u32),
    /// `.version` of each of its files.
    ptx_version: &'static str,
    /// The text of its files, as far as it was wanted.
    unpacked: Unpacked,
}

/// All targets, the newest first.
pub static TARGETS: [Target; 2] = [Target::new("sm_90", (9, 0), "7.8"), Target::new("sm_80", (8, 0), "7.0")];

/// The newest target that a GPU of this compute capability can run.
pub fn target(compute_capability: (u32, u32)) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.compute_capability <= compute_capability)
}

impl Target {
    const fn new(name: &'static str, compute_capability: (u32, u32), ptx_version: &'static str) -> Target {
        Target { name, compute_capability, ptx_version, unpacked: Unpacked::nothing() }
    }

    /// Whether its kernels wait by themselves for what is before them in their stream: the machine of `kernels-gpu` has the
    /// instruction from sm_90 on.
    pub fn waits(&self) -> bool {
        self.compute_capability >= (9, 0)
    }

    /// The PTX version that the files are written in, as `7.8`.
    pub fn ptx_version(&self) -> &'static str {
        self.ptx_version
    }

    /// All its files: the name of each module, as `bf16_presets`, and its text, many megabytes in all. The first call unpacks what
    /// [`select`](Target::select) has not, which takes a tenth of a second or two.
    ///
    /// # Errors
    /// [`Error::PtxDamaged`] when something does not unpack.
    pub fn modules(&self) -> Result<Vec<(&str, &str)>> {
        self.unpacked.modules(self.name)
    }

    /// One module with just these entry points, which may come from several files; those that share a kernel get one.
    ///
    /// The first call for a dtype unpacks its text, in some 30 ms, and the text stays: 4 MB a dtype.
    ///
    /// # Errors
    /// [`Error::NoKernel`] when one of them is not in the files, [`Error::PtxDamaged`] when these do not unpack.
    pub fn select(&self, entry_points: &[EntryPoint]) -> Result<String> {
        let mut module = String::new();
        let mut names = HashSet::new();
        for entry_point in entry_points {
            if !names.insert(entry_point.to_string()) {
                continue;
            }
            let missing = || Error::NoKernel { name: entry_point.to_string(), dtype: entry_point.dtype() };
            let file = entry_point.module().to_string();
            let text = self.unpacked.text(self.name, &file)?.ok_or_else(missing)?;
            if module.is_empty() {
                module.push_str(header(text));
            }
            module.push_str(entry(text, &entry_point.to_string()).ok_or_else(missing)?);
        }
        Ok(module)
    }
}

/// The PTX version of a file that names none.
const UNKNOWN: &str = "unknown";

/// The PTX version that a file names.
pub(super) fn version(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix(".version ")).unwrap_or(UNKNOWN).trim()
}

/// What stands before the first entry point.
pub(super) fn header(text: &str) -> &str {
    text.find(".visible .entry ").map_or(text, |end| &text[..end])
}

/// From `.visible .entry NAME(` to the brace that ends it, the only one at the start of a line.
pub(super) fn entry<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = text.find(&format!(".visible .entry {name}("))?;
    let length = text[start..].find("\n}\n")? + "\n}\n".len();
    Some(&text[start..start + length])
}

#[cfg(test)]
mod tests {
    use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode};
    use allfold_kernels::protocol::entry_point::{Does, Form};
    use allfold_kernels::protocol::preset::Preset;

    use super::*;

    fn every_entry_point() -> Vec<EntryPoint> {
        let mut all = Vec::new();
        for dtype in Dtype::ALL.into_iter().filter(|&dtype| dtype.kernels() == dtype) {
            all.extend([EntryPoint::Stage(dtype), EntryPoint::FillStamps(dtype), EntryPoint::CheckStamps(dtype)]);
            for algorithm in Algorithm::ALL {
                let captured = (!algorithm.pushes()).then_some(Form::Captured);
                for form in captured.into_iter().chain([Form::Any]) {
                    let alone = (form, algorithm) == (Form::Any, Algorithm::OneShot);
                    let worlds = if alone { 1..=8 } else { 2..=8 };
                    for world in worlds.filter(|&world| algorithm.takes(world)) {
                        all.push(EntryPoint::AllReduce { dtype, does: Does::AnyOp, algorithm, form, world });
                    }
                }
                if !dtype.has_sums() {
                    continue;
                }
                let has = |input: &InputMode| Preset::Allfold.protocol(algorithm, *input).is_some();
                let own = InputMode::ALL.into_iter().filter(has).map(Form::Own);
                let any = algorithm.has_any_protocol().then_some(Form::Any);
                let delayed = (dtype == Dtype::Bf16).then_some(Form::Stress);
                for form in own.chain(any).chain(delayed).chain(captured) {
                    let alone = (form, algorithm) == (Form::Own(InputMode::Registered), Algorithm::OneShot);
                    let worlds = if alone { 1..=8 } else { 2..=8 };
                    for world in worlds.filter(|&world| algorithm.takes(world)) {
                        all.push(EntryPoint::AllReduce { dtype, does: Does::Sums, algorithm, form, world });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn every_entry_point_is_in_every_target_and_nothing_else_is() {
        for target in &TARGETS {
            let mut names: Vec<_> = every_entry_point().iter().map(ToString::to_string).collect();
            names.sort();
            names.dedup();
            for &entry_point in &every_entry_point() {
                let module = target.select(&[entry_point]).expect("in the PTX");
                assert_eq!(module.matches(".entry ").count(), 1, "{entry_point}");
                assert!(module.ends_with("\n}\n"), "{entry_point}");
            }
            let modules = target.modules().expect("they unpack");
            let there: usize = modules.iter().map(|(_, text)| text.matches(".visible .entry ").count()).sum();
            assert_eq!(there, names.len(), "{}", target.name);
        }
    }

    #[test]
    fn every_file_has_the_header_of_its_target() {
        for target in &TARGETS {
            for (name, text) in target.modules().expect("they unpack") {
                let head = header(text);
                assert!(head.starts_with("// allfold: ") && text.ends_with("\n}\n"), "{name} for {}", target.name);
                assert_eq!(version(head), target.ptx_version(), "{name} for {}", target.name);
                let of = head.lines().find_map(|line| line.strip_prefix(".target "));
                assert_eq!(of, Some(target.name), "{name}");
                assert!(text[head.len()..].starts_with(&format!(".visible .entry {name}__")), "{name}");
            }
        }
    }

    #[test]
    fn the_newest_target_that_runs_is_chosen() {
        let name = |cc| target(cc).map(|target| target.name);
        assert_eq!(name((7, 5)), None);
        assert_eq!(name((8, 0)), Some("sm_80"));
        assert_eq!(name((8, 9)), Some("sm_80"));
        assert_eq!(name((9, 0)), Some("sm_90"));
        assert_eq!(name((10, 3)), Some("sm_90"));
    }

    #[test]
    fn a_module_declares_one_version_and_one_target() {
        let both = [EntryPoint::Stage(Dtype::F32), EntryPoint::FillStamps(Dtype::F32)];
        let module = target((9, 0)).expect("there").select(&both).expect("in the PTX");
        assert_eq!((module.matches("\n.version ").count(), module.matches("\n.target ").count()), (1, 1));
        assert_eq!(module.matches(".entry ").count(), 2);
    }
}
