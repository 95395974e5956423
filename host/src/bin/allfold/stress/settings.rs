//! The command line made into what is run, and what to say about it.

use allfold::{Algorithm, CallOptions, Delays, Dtype, Options};
use anyhow::{Result, bail};

use super::cells::{Cell, cells};
use super::report::Report;
use crate::args::{StressArgs, Waits};
use crate::here;
use crate::target::{Described, Target};

/// Calls in a graph.
const CHAIN: u64 = 100;

/// All that a run is made of.
pub struct Settings {
    pub target: Target,
    pub cells: Vec<Cell>,
    /// Elements of each rank.
    pub elems: usize,
    pub traffic: bool,
    calls: u64,
    delays: Option<Delays>,
    waits: Waits,
    blocks: u32,
    threads: u32,
    /// Whether the cells follow one protocol, of which something can be said beforehand.
    one_protocol: bool,
    /// Why the ranks are where nobody asked for them.
    chosen: Option<String>,
}

impl Settings {
    /// Chooses what the command line leaves open.
    pub fn new(args: &StressArgs) -> Result<Settings> {
        let (target, chosen) = Target::choose(&args.ranks)?;
        if target.world() < 2 {
            bail!("one rank waits for nobody: a stress run needs two or more");
        }
        let elems = usize::try_from(args.bytes)? / Dtype::Bf16.bytes();
        if elems == 0 {
            bail!("{} bytes are no element of bf16", args.bytes);
        }
        // Several blocks that all have something to do in a call of the usual size; on the CPU each is a thread.
        let (blocks, threads, calls) = match target {
            Target::Cpu { .. } => (2, 1, 2_000),
            Target::Cuda { .. } => (8, 64, 50_000),
        };
        if args.traffic && matches!(target, Target::Cpu { .. }) {
            bail!("--traffic needs GPUs: CPU ranks have no links to fill");
        }
        Ok(Settings {
            cells: cells(args, target.world())?,
            elems,
            traffic: args.traffic,
            calls: args.calls.unwrap_or(calls),
            delays: delays(args),
            waits: args.ranks.waits(),
            blocks: args.blocks.unwrap_or(blocks),
            threads: args.threads.unwrap_or(threads),
            one_protocol: !args.matrix && !args.presets,
            target,
            chosen,
        })
    }

    /// Calls of a cell's graph, and how often it is replayed: at least as many calls as were asked for.
    pub fn chain(&self, cell: &Cell) -> (usize, usize) {
        let calls = self.calls.div_ceil(cell.sharing);
        let chain = calls.min(CHAIN);
        (chain as usize, calls.div_ceil(chain) as usize)
    }

    /// What a cell's communicator is made for, and nothing else, so that it is soon there.
    pub fn options(&self, cell: &Cell) -> Options {
        let capacity_bytes = (self.elems * Dtype::Bf16.bytes()) as u64;
        cell.choice.of(Options {
            delays: self.delays,
            dtypes: vec![Dtype::Bf16],
            inputs: vec![cell.input],
            algorithms: vec![cell.algorithm],
            capacity_bytes,
            // Room for one call: so each push begins a generation, and announces that.
            landing_bytes: Some(capacity_bytes),
            timeout: self.waits.timeout,
            compare_calls: self.waits.compare_calls,
            stamps: true,
            cpu_shape: (self.blocks, self.threads),
            ..Options::default()
        })
    }

    /// What each call asks for.
    pub fn call(&self, cell: &Cell) -> CallOptions {
        let (blocks, threads) = (Some(self.blocks), Some(self.threads));
        CallOptions {
            algorithm: Some(cell.algorithm),
            input: Some(cell.input),
            blocks,
            threads,
            ..CallOptions::default()
        }
    }

    /// What a user has to know before the numbers, a line each.
    pub fn notes(&self) -> Vec<String> {
        let about = self.cells.first().filter(|_| self.one_protocol).map_or(Vec::new(), |cell| {
            let algorithms: Vec<Algorithm> = self.cells.iter().map(|cell| cell.algorithm).collect();
            cell.choice.notes(&algorithms, cell.input)
        });
        self.chosen.iter().cloned().chain(about).collect()
    }

    /// A report without rows.
    pub fn report(&self) -> Report {
        let Described { device, backend, devices } = self.target.described();
        Report {
            device,
            ranks: self.target.world(),
            devices,
            backend,
            bytes: self.elems * Dtype::Bf16.bytes(),
            dtype: Dtype::Bf16.name(),
            blocks: self.blocks,
            threads: self.threads,
            delay_ns: self.delays.map_or(0, |delays| delays.nanoseconds),
            delay_one_in: self.delays.map_or(0, |delays| delays.one_in),
            traffic: self.traffic,
            version: env!("CARGO_PKG_VERSION"),
            date: here::date(),
            seconds: 0.0,
            rows: Vec::new(),
        }
    }
}

/// Delays to plant.
fn delays(args: &StressArgs) -> Option<Delays> {
    (args.delay_ns > 0).then_some(Delays { nanoseconds: args.delay_ns, one_in: args.delay_one_in })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn args(line: &str) -> Result<Box<StressArgs>> {
        let words = ["allfold", "stress", "--backend", "cpu"].into_iter().chain(line.split_whitespace());
        let Command::Stress(args) = Args::try_parse_from(words)?.command else { panic!("asked for stress") };
        Ok(args)
    }

    fn settings(line: &str) -> Result<Settings> {
        Settings::new(args(line)?.as_ref())
    }

    #[test]
    fn what_is_left_open_is_chosen() {
        let settings = settings("").expect("possible");
        let options = settings.options(&settings.cells[0]);
        assert_eq!((options.capacity_bytes, settings.elems), (16 << 10, 8 << 10));
        assert!(options.stamps && options.timeout.is_some());
        assert_eq!(settings.notes(), [""; 0]);
    }

    #[test]
    fn delays_are_planted_unless_they_are_0() {
        let planted = |line| delays(&args(line).expect("right"));
        assert_eq!(planted(""), Some(Delays { nanoseconds: 2000, one_in: 64 }));
        assert_eq!(planted("--delay-ns 9 --delay-one-in 3"), Some(Delays { nanoseconds: 9, one_in: 3 }));
        assert_eq!(planted("--delay-ns 0"), None);
    }

    #[test]
    fn no_fewer_calls_are_made_than_asked_for() {
        for (line, expected) in [
            ("--calls 50000", (100, 500)),
            ("--calls 7", (7, 1)),
            ("--calls 101", (100, 2)),
            ("--presets --calls 600 --algo one-shot --input registered", (100, 6)),
        ] {
            let settings = settings(line).expect("possible");
            assert_eq!(settings.chain(&settings.cells[0]), expected, "{line}");
        }
        let settings = settings("--presets --calls 1200").expect("possible");
        let of_first = settings.cells.iter().filter(|cell| cell.choice == settings.cells[0].choice).count();
        assert_eq!(settings.chain(&settings.cells[0]).1, 1200_usize.div_ceil(of_first).div_ceil(100));
    }

    #[test]
    fn a_doubtful_protocol_is_noted_and_what_cannot_be_is_refused() {
        let doubtful = settings("--start block --order volatile --end none --algo one-shot").expect("possible").notes();
        assert!(doubtful[0].starts_with("custom protocol (block volatile start, end none) with "), "{doubtful:?}");
        for line in ["--ranks 1", "--traffic", "--bytes 1", "--calls 0", "--delay-one-in 0", "--delay-ns 2000000"] {
            assert!(settings(line).is_err(), "{line}");
        }
    }
}
