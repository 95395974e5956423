//! The embedded PTX: which file serves a GPU, and a module of only those entry points that are wanted.
//!
//! The driver compiles PTX when it loads a module, at about 6 ms a kilobyte where its cache is cold. So what it gets is
//! put together from a file's header and the entry points that a communicator declares.

use std::collections::HashSet;

use allfold_kernels::protocol::entry_point::EntryPoint;

use crate::cuda::DriverError;
use crate::error::{Error, Result};

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
    /// Module name and text.
    modules: &'static [(&'static str, &'static str)],
}

/// A file's text. Fuzzing goes without: it is much, and a compiler takes very long to instrument it.
macro_rules! text {
    ($($part:expr),*) => {
        if cfg!(fuzzing) { "" } else { include_str!(concat!($($part),*)) }
    };
}

macro_rules! target {
    ($name:literal, $compute_capability:expr, $($module:literal)*) => {
        Target {
            name: $name,
            compute_capability: $compute_capability,
            modules: &[$(($module, text!("../../ptx/", $name, "/", $module, ".ptx"))),*],
        }
    };
    ($name:literal, $compute_capability:expr) => {
        target!(
            $name, $compute_capability,
            "f32" "f32_captured" "f32_presets" "f32_verify" "f16" "f16_captured" "f16_presets" "f16_verify" "bf16" "bf16_captured"
            "bf16_presets" "bf16_stress" "bf16_verify" "i32" "i32_captured" "i32_presets" "i32_verify"
        )
    };
}

/// All targets, the newest first.
pub static TARGETS: [Target; 2] = [target!("sm_90", (9, 0)), target!("sm_80", (8, 0))];

/// The newest target that a GPU of this compute capability can run.
pub fn target(compute_capability: (u32, u32)) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.compute_capability <= compute_capability)
}

impl Target {
    /// Whether its kernels wait by themselves for what is before them in their stream: the machine of `kernels-gpu` has the
    /// instruction from sm_90 on.
    pub fn waits(&self) -> bool {
        self.compute_capability >= (9, 0)
    }

    /// The PTX version that the files are written in, as `7.8`.
    pub fn ptx_version(&self) -> &'static str {
        self.modules.first().map_or(UNKNOWN, |&(_, text)| version(text))
    }

    /// One module with just these entry points, which may come from several files; those that share a kernel get one.
    ///
    /// # Errors
    /// [`Error::NoKernel`] when one of them is not in the files.
    pub fn select(&self, entry_points: &[EntryPoint]) -> Result<String> {
        let mut module = String::new();
        let mut names = HashSet::new();
        for entry_point in entry_points {
            if !names.insert(entry_point.to_string()) {
                continue;
            }
            let missing = || Error::NoKernel { name: entry_point.to_string(), dtype: entry_point.dtype() };
            let file = entry_point.module().to_string();
            let &(_, text) = self.modules.iter().find(|(name, _)| *name == file).ok_or_else(missing)?;
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
    use allfold_kernels::protocol::entry_point::Form;
    use allfold_kernels::protocol::preset::Preset;

    use super::*;

    fn every_entry_point() -> Vec<EntryPoint> {
        let mut all = Vec::new();
        for dtype in Dtype::ALL {
            all.extend([EntryPoint::Stage(dtype), EntryPoint::FillStamps(dtype), EntryPoint::CheckStamps(dtype)]);
            for algorithm in Algorithm::ALL {
                let has = |input: &InputMode| Preset::Allfold.protocol(algorithm, *input).is_some();
                let own = InputMode::ALL.into_iter().filter(has).map(Form::Own);
                let any = algorithm.has_any_protocol().then_some(Form::Any);
                let delayed = (dtype == Dtype::Bf16).then_some(Form::Delayed);
                let captured = (!algorithm.pushes()).then_some(Form::Captured);
                for form in own.chain(any).chain(delayed).chain(captured) {
                    let alone = (form, algorithm) == (Form::Own(InputMode::Registered), Algorithm::OneShot);
                    let worlds = if alone { 1..=8 } else { 2..=8 };
                    for world in worlds.filter(|&world| algorithm.takes(world)) {
                        all.push(EntryPoint::AllReduce { dtype, algorithm, form, world });
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
            let there: usize = target.modules.iter().map(|(_, text)| text.matches(".visible .entry ").count()).sum();
            assert_eq!(there, names.len(), "{}", target.name);
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
