//! The command line made into what is run: ranks, sizes, the communicator's options, and what to say about them.

use std::path::{Path, PathBuf};

use allfold::tuning::Table;
use allfold::{Algorithm, CallOptions, Dtype, InputMode, Options, ReduceOp};
use anyhow::{Context, Result, bail};

use super::case::Repeats;
use super::report::Report;
use crate::args::{Algo, BenchArgs, Vs, Waits};
use crate::choice::Choice;
use crate::here;
use crate::nccl;
use crate::target::{Described, Target};

/// Graphs of calls up to this size have more calls and are replayed more often.
const SMALL_BYTES: u64 = 4 << 20;

/// All that a run is made of.
#[derive(Debug)]
pub struct Settings {
    pub target: Target,
    /// Bytes a rank, before they are rounded down to whole elements.
    pub sizes: Vec<u64>,
    pub dtypes: Vec<Dtype>,
    pub op: ReduceOp,
    pub in_place: bool,
    pub seed: u64,
    /// Of calls one by one.
    pub repeats: Repeats,
    /// NCCL's file, where that is to be timed as well.
    pub nccl: Option<PathBuf>,
    algorithm: Algo,
    protocol: Choice,
    input: InputMode,
    graph: bool,
    chain: Option<u32>,
    replays: Option<u32>,
    tuning: Option<Table>,
    blocks: Option<u32>,
    threads: Option<u32>,
    max_blocks: Option<u32>,
    early_launch: bool,
    waits: Waits,
    /// Why the ranks are where nobody asked for them.
    chosen: Option<String>,
}

impl Settings {
    /// Chooses what the command line leaves open.
    pub fn new(args: &BenchArgs) -> Result<Settings> {
        let (target, chosen) = Target::choose(&args.ranks)?;
        let (least, most, dtype, calls) = match target {
            Target::Cpu { .. } => (1 << 10, 4 << 20, Dtype::F32, 20),
            Target::Cuda { .. } => (512, 256 << 20, Dtype::Bf16, 100),
        };
        if args.graph && matches!(target, Target::Cpu { .. }) {
            bail!("--graph needs GPUs: CPU ranks have no graphs");
        }
        let library = |Vs::Nccl| args.nccl_library.clone().unwrap_or_else(|| nccl::LIBRARY.into());
        let nccl = args.vs.map(library);
        if nccl.is_some() {
            let refused = nccl::check_ranks(target.world(), &target.ordinals());
            // Why the ranks are there, if nobody asked for them there.
            match &chosen {
                Some(why) => refused.with_context(|| why.clone())?,
                None => refused?,
            }
        }
        let sizes = if args.bytes.is_empty() {
            ladder(args.min.unwrap_or(least), args.max.unwrap_or(most), args.factor)?
        } else {
            args.bytes.clone()
        };
        let waits = args.ranks.waits();
        Ok(Settings {
            target,
            sizes,
            dtypes: if args.dtype.is_empty() { vec![dtype] } else { args.dtype.clone() },
            op: args.op,
            in_place: args.in_place,
            seed: args.seed.unwrap_or_else(here::fresh_seed),
            repeats: Repeats { warmup: args.warmup as usize, timed: args.iters.unwrap_or(calls) as usize },
            nccl,
            algorithm: args.algo,
            protocol: Choice::new(&args.protocol),
            input: args.input,
            graph: args.graph,
            chain: args.chain,
            replays: args.replays,
            tuning: args.tuning.as_deref().map(table).transpose()?,
            blocks: args.blocks,
            threads: args.threads,
            max_blocks: args.ranks.max_blocks,
            early_launch: !args.ranks.no_early_launch,
            waits,
            chosen,
        })
    }

    /// Calls in the graph of a size; `None` without a graph.
    pub fn chain(&self, bytes: u64) -> Option<usize> {
        let usual = if bytes <= SMALL_BYTES { 40 } else { 5 };
        self.graph.then(|| self.chain.map_or(usual, |chain| chain as usize))
    }

    /// Replays of the graph of a size.
    pub fn replays(&self, bytes: u64) -> usize {
        let usual = if bytes <= SMALL_BYTES { 102 } else { 22 };
        self.replays.map_or(usual, |replays| replays as usize)
    }

    /// What the communicator is made for.
    pub fn options(&self) -> Options {
        let capacity_bytes = self.sizes.iter().copied().max().unwrap_or(0);
        self.protocol.of(Options {
            dtypes: self.dtypes.clone(),
            ops: vec![self.op],
            inputs: vec![self.input],
            algorithms: self.algorithms(),
            tuning: self.tuning.clone(),
            capacity_bytes,
            timeout: self.waits.timeout,
            compare_calls: self.waits.compare_calls,
            stamps: true,
            // A grid that was asked for is one to hold blocks for; and nobody else is here to leave any to.
            max_blocks: self.max_blocks.or(self.blocks).or_else(|| self.target.all_blocks()),
            early_launch: self.early_launch,
            landing_bytes: self
                .algorithm
                .filter(|algorithm| algorithm.pushes())
                .map(|_| self.landing_bytes(capacity_bytes)),
            cpu_shape: (self.blocks.unwrap_or(1), self.threads.unwrap_or(1)),
            ..Options::default()
        })
    }

    /// Of a landing slot, where the algorithm is given: room for every size, and no less than there is by default.
    fn landing_bytes(&self, capacity_bytes: u64) -> u64 {
        let of_all = match self.target {
            Target::Cpu { .. } => Options::CPU_LANDING_BYTES,
            Target::Cuda { .. } => Options::LANDING_BYTES,
        };
        let landing_packs = self.dtypes.iter().map(|dtype| dtype.landing_packs()).max().unwrap_or(1);
        capacity_bytes.saturating_mul(landing_packs.into()).max(of_all / self.target.world() as u64)
    }

    /// What each call asks for.
    pub fn call(&self) -> CallOptions {
        let (blocks, threads) = (self.blocks, self.threads);
        CallOptions { algorithm: self.algorithm, input: Some(self.input), blocks, threads, ..CallOptions::default() }
    }

    fn algorithms(&self) -> Vec<Algorithm> {
        self.algorithm.map_or(Algorithm::ALL.to_vec(), |algorithm| vec![algorithm])
    }

    /// What a user has to know before the numbers, a line each.
    pub fn notes(&self) -> Vec<String> {
        let chosen = self.chosen.iter().cloned().chain(self.protocol.notes(&self.algorithms(), self.input));
        let world = self.target.world() as u32;
        let unspoken = self.tuning.iter().flat_map(|table| {
            let silent = self.dtypes.iter().filter(move |&&dtype| !table.speaks_of(world, dtype));
            silent.map(move |dtype| {
                format!("the table has no rows for {world} ranks and {}: built-in ones", dtype.name())
            })
        });
        chosen.chain(unspoken).collect()
    }

    /// A report without rows.
    pub fn report(&self) -> Report {
        let Described { device, backend, devices } = self.target.described();
        Report {
            device,
            ranks: self.target.world(),
            devices,
            backend,
            dtype: self.dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(","),
            protocol: self.protocol.name(),
            in_words: self.protocol.in_words(),
            input: self.input.name(),
            in_place: self.in_place,
            graph: self.graph,
            chain: self.chain,
            seed: self.seed,
            version: env!("CARGO_PKG_VERSION"),
            date: here::date(),
            nccl: None,
            tuning: self.tuning.as_ref().map(Table::origin).map(|from| format!("{}, {}", from.command, from.date)),
            rows: Vec::new(),
        }
    }
}

/// The tuning table of a file.
fn table(path: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Table::read(&text).with_context(|| path.display().to_string())
}

/// Sizes from `min` to `max`, each `factor` times the one before, as nccl-tests has them.
pub fn ladder(min: u64, max: u64, factor: u64) -> Result<Vec<u64>> {
    if min > max {
        bail!("--min {min} is above --max {max}");
    }
    let next = |&bytes: &u64| bytes.checked_mul(factor).filter(|&next| next > bytes && next <= max);
    Ok(std::iter::successors(Some(min), next).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn settings(line: &str) -> Result<Settings> {
        let words = ["allfold", "bench", "--backend", "cpu"].into_iter().chain(line.split_whitespace());
        match Args::parse_from(words).command {
            Command::Bench(args) => Settings::new(&args),
            Command::Doctor(_) | Command::Launch(_) | Command::Stress(_) | Command::Trace(_) | Command::Tune(_) => {
                panic!("asked for bench")
            }
        }
    }

    #[test]
    fn sizes_go_up_to_the_largest() {
        assert_eq!(ladder(512, 4096, 2).expect("possible"), [512, 1024, 2048, 4096]);
        assert_eq!(ladder(1000, 5000, 4).expect("possible"), [1000, 4000]);
        assert_eq!(ladder(0, 5000, 4).expect("possible"), [0]);
        assert_eq!(ladder(u64::MAX, u64::MAX, 2).expect("possible"), [u64::MAX]);
        assert!(ladder(2, 1, 2).is_err());
        assert_eq!(settings("--bytes 3,1K,5").expect("possible").sizes, [3, 1024, 5]);
    }

    #[test]
    fn a_doubtful_protocol_is_noted_with_the_reason() {
        let notes = |line| settings(line).expect("possible").notes();
        assert_eq!(notes(""), [""; 0]);
        assert_eq!(notes("--input copied"), [""; 0]);
        let minimal = notes("--protocol minimal --input copied");
        assert_eq!(minimal.len(), 1, "{minimal:?}");
        assert!(
            minimal[0].starts_with("protocol minimal with copied input is not known to be sound: the kernel"),
            "{minimal:?}"
        );
        let vllm = notes("--protocol vllm --algo one-shot");
        assert!(vllm[0].starts_with("protocol vllm with registered input rests on KernelEndPublishes"), "{vllm:?}");
        let custom = notes("--start block --order volatile --end none --input copied");
        assert!(
            custom[0].starts_with("custom protocol (block volatile start, end none) with copied input is not known"),
            "{custom:?}"
        );
        let two = notes("--protocol minimal");
        assert!(
            two.len() == 2 && two[0].contains("input, one-shot ") && two[1].contains("input, two-shot "),
            "{two:?}"
        );
    }

    #[test]
    fn chains_follow_the_size_unless_asked_for() {
        let mut settings = settings("").expect("possible");
        assert_eq!(settings.chain(1024), None);
        settings.graph = true;
        assert_eq!([1 << 10, 4 << 20, (4 << 20) + 2].map(|bytes| settings.chain(bytes)), [Some(40), Some(40), Some(5)]);
        settings.chain = Some(7);
        assert_eq!(settings.chain(1 << 30), Some(7));
    }

    #[test]
    fn a_graph_on_the_cpu_is_refused() {
        assert!(settings("--graph").is_err());
        assert!(settings("--devices 0").is_err());
    }

    #[test]
    fn nccl_on_the_cpu_is_refused_by_a_typed_error() {
        let refused = settings("--vs nccl --ranks 2").expect_err("no GPU a rank");
        let typed = refused.downcast_ref::<nccl::NcclError>();
        assert!(matches!(typed, Some(nccl::NcclError::CpuRanks { ranks: 2 })), "{refused:?}");
        assert!(settings("").expect("possible").nccl.is_none());
    }

    #[test]
    fn no_timeout_is_asked_for_by_zero() {
        let timeout = |line| settings(line).expect("possible").options().timeout;
        assert_eq!(timeout("--timeout 0"), None);
        assert_eq!(timeout("--timeout 0.5"), Some(Duration::from_millis(500)));
        assert_eq!(timeout(""), Some(Duration::from_secs(10)));
        let compared = |line| settings(line).expect("possible").options().compare_calls;
        assert!(compared("") && !compared("--no-compare"));
    }
}
