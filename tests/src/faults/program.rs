//! All faults as a program, for machines that have GPUs and no Rust.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use super::{Cell, Ground, Report, Watchdog, driver, matrix, pairs, processes, single, threads};

/// Seconds that a part may take beyond its own, for what it has begun.
const MORE: u64 = 70;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Two ranks that are processes and stay: late, gone, aborting, making another call.
    Pairs,
    /// The same with ranks that are threads, each with a communicator of its own; on GPUs fewer of them.
    Threads,
    /// Ranks that are processes: killed, stopped, gone.
    Processes,
    /// One communicator over all GPUs: late streams, busy GPUs, no room, other streams, no memory.
    Gpus,
    /// Driver calls that fail, one at a time.
    Driver,
}

/// What is asked of the faults.
#[derive(Args, Clone, Debug)]
pub struct Faults {
    /// Check no properties, but what comes of faults: of ranks that are late, gone, killed or make other calls, of busy GPUs, of
    /// driver calls that fail. Some parts of it, or all that there are here.
    #[arg(long, value_enum, value_delimiter = ',', num_args = 0..)]
    pub faults: Option<Vec<Part>>,
    /// Seconds that each part of the faults may take; what there was no time for is counted.
    #[arg(long, default_value_t = 80)]
    pub seconds: u64,
    /// Seconds after which the program ends whatever it is doing, says what that was, and returns 2 [default: so many that each part can
    /// take its time, and end what it has begun]
    #[arg(long)]
    pub limit: Option<u64>,
    /// Processes of so many cells at a time.
    #[arg(long, default_value_t = 2)]
    pub at_once: usize,
    /// GPUs of software in the place of a driver's: to try the program where there is none.
    #[arg(long)]
    pub soft: bool,
}

impl Faults {
    fn limit(&self) -> Duration {
        let each = self.seconds + MORE;
        Duration::from_secs(self.limit.unwrap_or(MORE + each * self.wanted().len() as u64))
    }

    fn wanted(&self) -> Vec<Part> {
        match self.faults.as_deref() {
            None | Some([]) => Part::value_variants().to_vec(),
            Some(some) => some.to_vec(),
        }
    }

    /// What this program is asked again for, as a rank of `part` on GPUs of this list, or on the CPU.
    fn again<'a>(&self, part: &'a str, gpus: &'a str) -> Vec<&'a str> {
        let mut arguments = vec!["--faults", part];
        arguments.extend(if gpus.is_empty() {
            vec!["--backend", "cpu"]
        } else {
            vec!["--backend", "cuda", "--devices", gpus]
        });
        arguments.extend(self.soft.then_some("--soft"));
        arguments
    }

    /// Runs them on GPUs, a rank on each of `devices`, or, where there are none, on the CPU; of cells only those whose name contains
    /// `filter`. True: nothing failed.
    ///
    /// # Errors
    /// Nothing can be run.
    pub fn run(&self, devices: &[u32], filter: Option<&str>) -> Result<bool> {
        let gpus = !devices.is_empty();
        let grounds: Vec<_> = match gpus {
            true => devices.iter().copied().map(Ground::Gpu).collect(),
            false => vec![Ground::Cpu],
        };
        let report = Arc::new(Report::of(filter));
        let watchdog = Watchdog::start(self.limit(), Arc::clone(&report));
        let (cells, pairs) = (of_processes(gpus), matrix::of_gpu_pairs());
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let rank = pairs::as_rank(&pairs, &grounds, end, &report);
        if let Some(right) = rank.or_else(|| processes::as_rank(&cells, &grounds)) {
            return Ok(right);
        }
        let named = devices.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        println!("faults on {}", if gpus { format!("GPUs {named}") } else { "the CPU".to_owned() });
        // Of two ranks that are threads each has a GPU of its own.
        let two = devices.iter().position(|device| *device != devices[0]).map(|other| [devices[0], devices[other]]);
        for part in self.wanted() {
            let (begun, end) = (Instant::now(), Instant::now() + Duration::from_secs(self.seconds));
            let done = match (part, gpus, two) {
                (Part::Threads, false, _) => {
                    threads::on_cpu(&matrix::of_cpu_threads(), &report, &watchdog);
                    Ok(())
                }
                (Part::Threads, true, Some(two)) => watchdog
                    .during("a first communicator", || threads::warm(two))
                    .map(|took| report.note(format!("a first communicator took {took:.1?}")))
                    .and_then(|()| threads::on_gpus(two, &pairs[..pairs.len() / 3], end, &report, &watchdog)),
                (Part::Threads, true, None) => {
                    report
                        .note("threads: SKIPPED: ranks that are threads need a GPU each, and there is one".to_owned());
                    Ok(())
                }
                (Part::Pairs, ..) => {
                    let (seconds, more) = (self.seconds.to_string(), (self.seconds + 50).to_string());
                    let mut arguments = self.again("pairs", &named);
                    arguments.extend(["--seconds", &*seconds, "--limit", &*more]);
                    arguments.extend(filter.into_iter().flat_map(|filter| ["--filter", filter]));
                    let time = Duration::from_secs(self.seconds);
                    watchdog.during("pairs", || pairs::run_all(&pairs, &arguments, time, &report))
                }
                (Part::Processes, ..) => {
                    let mut arguments = self.again("processes", &named);
                    arguments.extend(["--limit", "60"]);
                    processes::run_all(&cells, grounds[0], &arguments, self.at_once, end, &report, &watchdog);
                    Ok(())
                }
                (Part::Gpus, true, _) => single(devices, end, &report, &watchdog)
                    .and_then(|()| driver::allocations(devices, end + Duration::from_secs(20), &report, &watchdog)),
                (Part::Driver, true, _) => driver::driver(devices, end, &report, &watchdog),
                (Part::Gpus | Part::Driver, false, _) => {
                    report.note(format!("{part:?}: SKIPPED: the CPU has no driver"));
                    Ok(())
                }
            };
            if let Err(error) = done.with_context(|| format!("{part:?}")) {
                report.add("what comes before", &format!("{part:?}"), Err(error));
            }
            report.note(format!("{part:?}: {:.1} s", begun.elapsed().as_secs_f64()));
        }
        let lines = report.lines();
        print!("{}", lines.text);
        Ok(lines.failures.is_empty() && lines.cells > 0)
    }
}

fn of_processes(gpus: bool) -> Vec<Cell> {
    use super::Fault::{Aborts, Dropped, Empty, Killed, KilledInCall, Longer, Stopped, StoppedTooLong};
    use super::Phase::{Between, First, Many, Within};
    if gpus {
        return matrix::of_gpu_processes();
    }
    let mut cells = matrix::of_processes(&[Killed], &[First, Many, Within]);
    cells.extend(matrix::of_processes(&[KilledInCall], &[First, Between]));
    cells.extend(matrix::of_processes(&[Dropped, Aborts, Longer, Empty], &[First, Within]));
    cells.extend(matrix::of_processes(&[Stopped, StoppedTooLong], &[Between]));
    cells
}
