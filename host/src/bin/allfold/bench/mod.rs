//! `allfold bench`: all-reduce timed size by size, every result verified.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | the command line made into what is run: ranks, sizes, options |
//! | `case.rs` | one size, from verification to timing and back |
//! | `cpu.rs`, `cuda.rs` | memory and calls of each backend |
//! | `buffers.rs`, `timing.rs` | memory on GPUs, and how calls on it are timed, whoever makes them |
//! | `guarded.rs`, `oracle.rs` | buffers between guard zones; what a result may be |
//! | `nccl.rs` | NCCL's calls on these buffers, with `--vs nccl`: each size is timed with ours, then with NCCL |
//! | `report.rs` | numbers made into text |

mod buffers;
pub mod case;
pub mod cpu;
pub mod cuda;
mod guarded;
mod nccl;
mod oracle;
mod report;
mod settings;
pub mod timing;

use allfold::{Communicator, Plan, of_dtype};
use anyhow::{Context, Result};

use crate::Verdict;
use crate::args::BenchArgs;
use crate::gpus::Gpus;
use crate::mix::mix;
use crate::nccl::{NVLS, Nccl};
use crate::output::{is_stdout, print, say, write};
use crate::progress::Progress;
use crate::target::Target;
use case::{Case, Measured};
use cpu::CpuBed;
use cuda::CudaBed;
use nccl::NcclBed;
pub use oracle::Real;
use report::{Beside, Report, Row};
use settings::Settings;
pub use settings::ladder;
use timing::How;

/// Runs the bench, prints and writes what came out.
pub fn run(args: &BenchArgs) -> Result<Verdict> {
    let settings = Settings::new(args)?;
    for note in settings.notes() {
        say(&format!("note: {note}\n"));
    }
    let mut report = settings.report();
    // What was measured until then is printed also where a size fails.
    let measured = measure(&settings, &mut report);
    if measured.is_ok() || !report.rows.is_empty() {
        let text = report.text();
        if is_stdout(&args.json) || is_stdout(&args.csv) {
            say(&text);
        } else {
            print(&text)?;
        }
        write(&args.json, || Ok(report.json()?))?;
        write(&args.csv, || Ok(report.csv()))?;
    }
    measured?;
    Ok(if report.all_right() { Verdict::Right } else { Verdict::Wrong })
}

/// Measures all sizes of all dtypes.
fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let mut ranks = Ranks::new(settings)?;
    report.nccl = ranks.nccl.as_ref().map(|nccl| Beside {
        version: nccl.version().to_owned(),
        library: nccl.library().to_owned(),
        nvls_enable: std::env::var(NVLS.0).ok(),
    });
    let progress = Progress::new((settings.dtypes.len() * settings.sizes.len()) as u64);
    for &dtype in &settings.dtypes {
        for &size in &settings.sizes {
            let elem_bytes = dtype.bytes() as u64;
            let bytes = size / elem_bytes * elem_bytes;
            let said = |what: &str| progress.doing(format!("{bytes} bytes {}: {what}", dtype.name()));
            let measured = of_dtype!(dtype, T => ranks.measure::<T>(settings, bytes, said));
            let (ours, nccl) = measured.with_context(|| format!("{bytes} bytes of {}", dtype.name()))?;
            let row = Row::new(bytes, (dtype, settings.op), settings.chain(bytes), settings.target.world(), &ours);
            report.rows.push(match nccl {
                Some(nccl) => row.beside(&nccl),
                None => row,
            });
            progress.step();
        }
    }
    Ok(())
}

/// What came out of one size, of ours and of NCCL.
type Both = (Measured<Plan>, Option<Measured<()>>);

/// The communicator, on GPUs the streams of its calls, and NCCL's communicators where asked for.
struct Ranks {
    nccl: Option<Nccl>,
    comm: Communicator,
    gpus: Option<Gpus>,
}

impl Ranks {
    fn new(settings: &Settings) -> Result<Ranks> {
        let nccl =
            settings.nccl.as_ref().map(|library| Nccl::open(library, &settings.target.ordinals())).transpose()?;
        let comm = settings.target.communicator(settings.options())?;
        let gpus = match &settings.target {
            Target::Cpu { .. } => None,
            Target::Cuda { devices } => Some(Gpus::new(devices)?),
        };
        Ok(Ranks { nccl, comm, gpus })
    }

    /// One size with ours; and with NCCL, on the same buffers.
    fn measure<T: Real>(&mut self, settings: &Settings, bytes: u64, said: impl Fn(&str)) -> Result<Both> {
        let bytes_here = usize::try_from(bytes).context("more bytes than this machine can address")?;
        let in_place = settings.in_place;
        let seed = mix(mix(settings.seed, bytes), T::DTYPE as u64);
        let case = Case { op: settings.op, world: self.comm.world(), bytes: bytes_here, in_place, seed };
        let call = (settings.op, settings.call());
        match &self.gpus {
            None => {
                let bed = &mut CpuBed::<T>::new(&mut self.comm, call, settings.repeats, bytes_here, in_place);
                Ok((case.run::<T, _>(bed, said)?, None))
            }
            Some(gpus) => {
                let how = match settings.chain(bytes) {
                    Some(chain) => How::Graph { chain, replays: settings.replays(bytes) },
                    None => How::Eager(settings.repeats),
                };
                let bed = &mut CudaBed::<T>::new(&mut self.comm, gpus, call, how, bytes_here, in_place)?;
                let ours = case.run::<T, _>(bed, &said)?;
                let Some(nccl) = &self.nccl else { return Ok((ours, None)) };
                let bed = &mut NcclBed::<T>::new(nccl, settings.op, bed.buffers(), how);
                let nccls = case.run::<T, _>(bed, |what| said(&format!("NCCL, {what}")));
                Ok((ours, Some(nccls.context("NCCL")?)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn rows(line: &str) -> Vec<Row> {
        let words = ["allfold", "bench", "--backend", "cpu", "--iters", "3"].into_iter().chain(line.split_whitespace());
        let Command::Bench(args) = Args::parse_from(words).command else { panic!("asked for bench") };
        let settings = Settings::new(&args).expect("possible");
        let mut report = settings.report();
        measure(&settings, &mut report).expect("runs");
        report.rows
    }

    #[test]
    fn every_dtype_algorithm_and_input_is_measured_and_right_on_the_cpu() {
        for line in [
            "--bytes 0,2,1K,100003 --dtype f32,f16,bf16,i32",
            "--bytes 1K,400K --algo one-shot-push --dtype i32",
            "--bytes 1K,64K --algo two-shot --in-place",
            "--bytes 1K,64K --algo one-shot --input copied --ranks 3 --in-place",
            "--bytes 4K --input memcpy --ranks 1",
            "--bytes 4K --blocks 2 --threads 2 --dtype bf16 --ranks 2",
        ] {
            for row in rows(line) {
                assert_eq!(row.wrong, 0, "{line}: {row:?}");
                assert!(row.median_us > 0.0 && row.median_us <= row.p99_us && row.samples == 3, "{line}: {row:?}");
            }
        }
        assert_eq!(rows("--bytes 1K --algo two-shot")[0].algorithm, "two-shot");
        assert_eq!(rows("--bytes 1023 --dtype bf16")[0].count, 511);
    }
}
