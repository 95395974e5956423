//! `allfold doctor`: what this machine has, what works on it, and what stops the rest.
//!
//! | file | what |
//! |---|---|
//! | `findings.rs` | what was found, as data, and the one line that sums it up |
//! | `probe.rs` | copies, self-tests, calls and first use tried, each within a time limit |
//! | `text.rs` | findings for people |

mod findings;
mod probe;
mod text;

use allfold::cuda::{Device, peer, ptx};
use anyhow::Result;

use crate::args::DoctorArgs;
use crate::output::print;
use crate::progress::Progress;
use crate::{Verdict, here};
use findings::{CudaDriver, Findings, FirstUse, Gpu, Link, Ptx, Together};

/// Examines the machine and prints what was found.
pub fn run(args: &DoctorArgs) -> Result<Verdict> {
    if args.load_only {
        let gpus = here::gpus().map_err(anyhow::Error::msg)?;
        print(&format!("{}\n", probe::first_use_ms(&ordinals(&usable(&gpus)))?))?;
        return Ok(Verdict::Right);
    }
    let findings = examine(args);
    if args.json {
        print(&(serde_json::to_string_pretty(&findings)? + "\n"))?;
    } else {
        print(&text::of(&findings))?;
    }
    Ok(if findings.any_wrong() { Verdict::Wrong } else { Verdict::Right })
}

/// The GPUs that some embedded PTX is for.
fn usable(gpus: &[Device]) -> Vec<Device> {
    gpus.iter().filter(|gpu| ptx::target(gpu.compute_capability).is_some()).cloned().collect()
}

/// The GPU of each rank where all of them are used: two ranks on a single one.
fn ordinals(usable: &[Device]) -> Vec<u32> {
    let ranks = if usable.len() == 1 { 2 } else { usable.len().min(allfold::MAX_RANKS) };
    usable.iter().map(|gpu| gpu.ordinal).cycle().take(ranks).collect()
}

fn examine(args: &DoctorArgs) -> Findings {
    let (cpu_ranks, cpu_paths) = (probe::cpu_ranks(), probe::cpu_paths());
    let (gpus, no_gpu) = match here::gpus() {
        Ok(gpus) => (gpus, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let usable = usable(&gpus);
    let pairs = pairs(&usable);
    let _contexts = probe::contexts(&usable);
    let progress = Progress::new((2 + gpus.len() * gpus.len() + pairs.len()) as u64);

    // First, so that no earlier probe has loaded the kernels.
    progress.doing("first use".to_owned());
    let first_use = (!usable.is_empty()).then(|| first_use(&ordinals(&usable), args.cold));
    progress.step();
    let links = links(&gpus, &progress);
    let together = pairs.iter().map(|pair| {
        progress.doing(format!("GPU {} with GPU {}", pair[0].ordinal, pair[1].ordinal));
        let paths = probe::paths(pair);
        let [one_shot, two_shot] = probe::together(pair);
        progress.step();
        Together { gpus: [pair[0].ordinal, pair[1].ordinal], paths, one_shot, two_shot }
    });
    Findings {
        version: env!("CARGO_PKG_VERSION"),
        cpu: here::cpu(),
        cpu_threads: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_ranks,
        cpu_paths,
        driver: driver(),
        together: together.collect(),
        links,
        first_use,
        gpus: gpus.iter().map(gpu).collect(),
        no_gpu,
        summary: String::new(),
    }
    .summed_up()
}

/// Every two of the GPUs; a single one with itself.
fn pairs(gpus: &[Device]) -> Vec<[Device; 2]> {
    if let [single] = gpus {
        return vec![[single.clone(), single.clone()]];
    }
    let later = |at: usize| gpus[at + 1..].iter().map(move |b| [gpus[at].clone(), b.clone()]);
    (0..gpus.len()).flat_map(later).collect()
}

fn driver() -> Option<CudaDriver> {
    let cuda = cust::CudaApiVersion::get().ok().map(|version| format!("{}.{}", version.major(), version.minor()))?;
    // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan …", or with other words before the number.
    let kernel = std::fs::read_to_string("/proc/driver/nvidia/version").ok();
    let number = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let release = kernel.and_then(|text| text.lines().next()?.split_whitespace().find(number).map(str::to_owned));
    Some(CudaDriver { cuda, release })
}

fn gpu(device: &Device) -> Gpu {
    let (major, minor) = device.compute_capability;
    let target = ptx::target(device.compute_capability);
    let all = ptx::TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(" and ");
    let why = match target {
        Some(target) => format!(
            "the newest of {all} that {major}.{minor} runs, from {}.{} on",
            target.compute_capability.0, target.compute_capability.1
        ),
        None => format!("none of {all} runs on {major}.{minor}"),
    };
    Gpu {
        ordinal: device.ordinal,
        name: device.name.clone(),
        compute_capability: format!("{major}.{minor}"),
        multiprocessors: device.multiprocessors,
        memory_bytes: device.memory_bytes,
        uuid: device.uuid.clone(),
        pci: device.pci.clone(),
        ptx: target.map(|target| Ptx { target: target.name, version: target.ptx_version() }),
        ptx_why: why,
    }
}

fn links(gpus: &[Device], progress: &Progress) -> Vec<Link> {
    let matrix = peer::matrix(gpus);
    let mut links = Vec::new();
    for (i, from) in gpus.iter().enumerate() {
        for (j, to) in gpus.iter().enumerate().filter(|&(j, _)| j != i) {
            progress.doing(format!("copy from GPU {} to GPU {}", from.ordinal, to.ordinal));
            let link = matrix.as_ref().map(|matrix| matrix[i][j]).map_err(ToString::to_string);
            let access = link.as_ref().is_ok_and(|link| link.access);
            let copy = probe::copy(from, to, access);
            links.push(Link {
                from: from.ordinal,
                to: to.ordinal,
                access,
                native_atomics: link.as_ref().is_ok_and(|link| link.native_atomics),
                performance_rank: link.as_ref().ok().map(|link| link.performance_rank),
                error: link.err(),
                copy,
            });
            progress.step();
        }
    }
    links
}

fn first_use(ordinals: &[u32], cold: bool) -> FirstUse {
    FirstUse {
        devices: ordinals.to_vec(),
        dtype: probe::FIRST_USE_DTYPE.name(),
        protocol: allfold::Preset::default().name(),
        ms: probe::first_use(ordinals),
        cold_ms: cold.then(probe::cold_first_use),
    }
}
