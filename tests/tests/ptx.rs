//! The PTX that the library has in it, in host/ptx: how kernels read their arguments, and what a driver that refuses it is said to
//! have refused.

use std::collections::BTreeSet;
use std::mem::{align_of, offset_of, size_of};

use allfold::cuda::DriverError;
use allfold::cuda::ptx::{PtxRefused, TARGETS};
use allfold::{Error, MAX_RANKS};
use allfold_kernels::protocol::abi::KernelArgs;
use allfold_tests::data::mix;

/// Name and text of each file.
fn files() -> Vec<(String, &'static str)> {
    let mut files = Vec::new();
    for target in &TARGETS {
        let modules = target.modules().expect("they unpack");
        files.extend(modules.into_iter().map(|(module, text)| (format!("{}/{module}.ptx", target.name), text)));
    }
    assert!(files.len() > 20);
    files
}

/// Bytes that an access of this type moves: `v2.b64` has 16.
fn width_bytes(opcode: &str) -> usize {
    let parts: Vec<_> = opcode.split('.').collect();
    let lanes = parts.iter().find_map(|part| part.strip_prefix('v')).map_or(1, |lanes| lanes.parse().expect("lanes"));
    let bits: usize = parts.last().map_or("", |last| &last[1..]).parse().expect("bits");
    lanes * bits / 8
}

/// `ld.param.v2.b64 {%rd1, %rd2}, [name_param_0+48];`: the bytes that it reads.
fn read_bytes(line: &str) -> Option<std::ops::Range<usize>> {
    let opcode = line.split_whitespace().next().filter(|opcode| opcode.starts_with("ld.param."))?;
    let place = line.split('[').nth(1)?.split(']').next()?;
    let start = place.split_once('+').map_or(0, |(_, offset)| offset.parse().expect("an offset"));
    Some(start..start + width_bytes(opcode))
}

#[test]
fn b135_kernels_read_their_arguments_where_the_host_puts_them() {
    let (size, align) = (size_of::<KernelArgs>(), align_of::<KernelArgs>());
    let of_all = |start: usize| (start..start + 8 * MAX_RANKS).step_by(8).collect::<BTreeSet<_>>();
    let (inputs, workspaces) = (of_all(offset_of!(KernelArgs, inputs)), of_all(offset_of!(KernelArgs, workspaces)));
    let mut of_eight = 0;
    for (file, text) in files() {
        for kernel in text.split(".visible .entry ").skip(1) {
            let name = kernel.split('(').next().expect("a name");
            let mut words = BTreeSet::new();
            for line in kernel.lines() {
                if let Some(param) = line.trim().strip_prefix(".param ") {
                    assert_eq!(param, format!(".align {align} .b8 {name}_param_0[{size}]"), "{file}");
                }
                let Some(read) = read_bytes(line) else { continue };
                assert!(read.end <= size && read.start.is_multiple_of(read.len()), "{file}, {name}: {line}");
                words.extend(read.step_by(8));
            }
            // One that reads every peer's input by itself has the addresses of all eight, and of their flags.
            if name.ends_with("__one_shot_w8") && !name.contains("captured") {
                assert!(words.is_superset(&inputs) && words.is_superset(&workspaces), "{file}, {name}: {words:?}");
                of_eight += 1;
            }
        }
    }
    assert!(of_eight >= 16, "{of_eight} kernels of eight ranks");
}

#[test]
fn b123_b125_a_refusal_of_ptx_gives_its_version_and_the_drivers() {
    for number in 0..200 {
        let any = |what, below: u64| (mix(123, what, number) % below) as u32;
        let target = &TARGETS[any(0, 2) as usize];
        let driver_version = (11 + any(1, 4), any(2, 10));
        let log = if any(3, 2) == 0 { String::new() } else { format!("ptxas fatal: Unsupported .version {number}") };
        let source = DriverError { call: "cuModuleLoadDataEx", code: 222, text: "unsupported PTX version".to_owned() };
        let version = target.ptx_version().to_owned();
        let refused =
            PtxRefused { ptx_version: version.clone(), target: target.name.into(), driver_version, log, source };
        let log = refused.log.clone();
        let said = Error::PtxRefused(Box::new(refused)).to_string();
        let versions =
            format!("CUDA {}.{}) refused PTX {version} for {}", driver_version.0, driver_version.1, target.name);
        assert!(said.contains(&versions) && said.contains("unsupported PTX version"), "{said}");
        assert!(log.is_empty() || said.lines().any(|line| line == log), "{said}");
    }
}
