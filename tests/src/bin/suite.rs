//! The suite as a program, for machines that have GPUs and no Rust.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use allfold::rendezvous::Environment;
use allfold_tests::faults::Faults;
use allfold_tests::machine::{CpuMachine, CudaMachine, CudaProcess, Machine, ProcessMachine};
use allfold_tests::suite::{Bench, Property};
use allfold_tests::{properties, soft};
use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};

/// How long processes wait for each other at the start.
const MEETING: Duration = Duration::from_secs(60);

/// Checks what allfold promises on this machine: a line for each property, exit code 1 when one fails.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// What the ranks are; by default GPUs where there are any.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// The GPU of each rank, by ordinal; all world sizes up to their number are tried. By default every GPU once, and a
    /// single GPU eight times.
    #[arg(long, value_delimiter = ',')]
    devices: Vec<u32>,
    /// This process has one rank of several processes, as `allfold launch` or `torchrun` says in the environment: on the GPU
    /// that `--devices` names for it, or on the CPU.
    #[arg(long)]
    processes: bool,
    /// Fewer and smaller calls.
    #[arg(long)]
    quick: bool,
    /// Only properties, or faults, whose name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Calls of the stress property.
    #[arg(long, default_value_t = 0)]
    stress: u64,
    /// Name the properties and check none.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    faults: Faults,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    Cpu,
    Cuda,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if std::env::var_os("CUDA_DEVICE_MAX_CONNECTIONS").is_none() {
        // SAFETY: no other thread runs yet. Eight ranks on one GPU need more than the usual eight hardware queues.
        unsafe { std::env::set_var("CUDA_DEVICE_MAX_CONNECTIONS", "32") };
    }
    if arguments.faults.soft {
        ensure!(soft::install(), "there is a driver already");
    }
    if arguments.faults.faults.is_some() {
        let right = arguments.faults.run(&gpus(&arguments)?, arguments.filter.as_deref())?;
        return Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let wanted = |property: &&Property| arguments.filter.as_ref().is_none_or(|part| property.name.contains(part));
    let properties: Vec<_> = properties::ALL.iter().filter(wanted).copied().collect();
    ensure!(!properties.is_empty(), "no property has such a name");
    if arguments.list {
        properties.iter().for_each(|property| println!("{:48} {}", property.name, property.says));
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.processes {
        let environment = Environment::read()?;
        let rendezvous = environment.join(Instant::now() + MEETING)?;
        let ordinal = arguments.devices.get(environment.local_rank as usize);
        let machine: Box<dyn Machine> = match ordinal {
            Some(&ordinal) => Box::new(CudaProcess::new(&rendezvous, ordinal)?),
            None => Box::new(ProcessMachine(&rendezvous)),
        };
        let of_processes = |property: &&Property| {
            properties::OF_PROCESSES.contains(&property.name)
                || ordinal.is_some() && properties::OF_GPU_PROCESSES.contains(&property.name)
        };
        let properties: Vec<_> = properties.iter().filter(of_processes).copied().collect();
        let bench = Bench::new(&*machine, arguments.quick, arguments.stress);
        return Ok(if bench.report(&properties) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let machine = machine(&arguments)?;
    let bench = Bench::new(&*machine, arguments.quick, arguments.stress);
    Ok(if bench.report(&properties) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn machine(arguments: &Arguments) -> Result<Box<dyn Machine>> {
    match gpus(arguments)? {
        none if none.is_empty() => Ok(Box::new(CpuMachine)),
        devices => Ok(Box::new(CudaMachine::new(&devices)?)),
    }
}

/// The GPU of each rank; empty: ranks are the CPU's.
fn gpus(arguments: &Arguments) -> Result<Vec<u32>> {
    let wants_gpus = !arguments.devices.is_empty();
    let gpus = match arguments.backend {
        Some(Backend::Cpu) => {
            ensure!(!wants_gpus, "--devices names GPUs, and --backend says cpu");
            return Ok(Vec::new());
        }
        Some(Backend::Cuda) => CudaMachine::count(),
        None if wants_gpus => CudaMachine::count(),
        None => match CudaMachine::count() {
            0 => return Ok(Vec::new()),
            count => count,
        },
    };
    ensure!(gpus > 0, "no GPU, or no CUDA driver");
    let devices = match (arguments.devices.as_slice(), gpus) {
        ([], 1) => vec![0; allfold::MAX_RANKS],
        ([], _) => (0..gpus.min(allfold::MAX_RANKS as u32)).collect(),
        (devices, _) => devices.to_vec(),
    };
    ensure!(devices.len() <= allfold::MAX_RANKS, "at most {} ranks", allfold::MAX_RANKS);
    Ok(devices)
}
