//! The command line made into a mixed run, and a mixed run made into a command line.

use std::time::Duration;

use allfold::{Algorithm, Communicator, Dtype, InputMode, Options};
use anyhow::{Result, bail};

use super::draw::{Draw, Facts};
use super::report::Report;
use crate::args::{StressArgs, algorithm_name};
use crate::here;
use crate::target::{Described, Target};

/// Bytes of a rank beyond which no call goes.
const MOST_BYTES: u64 = 1 << 40;

/// Sets of streams of GPU ranks.
pub const STREAM_SETS: usize = 2;

/// All that a run is made of.
pub struct Settings {
    pub target: Target,
    pub seed: u64,
    /// Of a rank's largest call.
    pub most_bytes: u64,
    /// The number of a call whose result is overwritten before it is checked.
    pub spoiled: Option<u64>,
    pub traffic: bool,
    /// Calls between two looks at what was counted.
    pub calls_a_look: u64,
    pub calls: Option<u64>,
    pub duration: Option<Duration>,
    options: Options,
    /// Why the ranks are where nobody asked for them.
    chosen: Option<String>,
    /// The command of such a run, without its seed and its length.
    command: String,
}

impl Settings {
    /// Chooses what the command line leaves open.
    pub fn new(args: &StressArgs) -> Result<Settings> {
        let (target, chosen) = Target::choose(&args.ranks)?;
        if target.world() < 2 {
            bail!("one rank waits for nobody: a stress run needs two or more");
        }
        // A look costs nothing on the CPU; on GPUs all streams are waited for.
        let (calls, calls_a_look, most_bytes) = match target {
            Target::Cpu { .. } => (2_000, 1, 256 << 10),
            Target::Cuda { .. } => (50_000, 500, 16 << 20),
        };
        if args.traffic && matches!(target, Target::Cpu { .. }) {
            bail!("--traffic needs GPUs: CPU ranks have no links to fill");
        }
        let most_bytes = args.max_bytes.unwrap_or(most_bytes);
        let least_bytes = Dtype::ALL.map(|dtype| dtype.bytes() as u64).into_iter().max().unwrap_or(0);
        if !(least_bytes..=MOST_BYTES).contains(&most_bytes) {
            bail!("--max-bytes {most_bytes}: a largest call has {least_bytes} to {MOST_BYTES} bytes");
        }
        let options = Options {
            dtypes: Dtype::ALL.to_vec(),
            inputs: args.input.map_or(InputMode::ALL.to_vec(), |input| vec![input]),
            algorithms: args.algo.map_or(Algorithm::ALL.to_vec(), |algorithm| vec![algorithm]),
            capacity_bytes: most_bytes,
            max_blocks: args.ranks.max_blocks,
            early_launch: !args.ranks.no_early_launch,
            timeout: args.ranks.waits().timeout,
            compare_calls: args.ranks.waits().compare_calls,
            stamps: true,
            cpu_shape: (2, 2),
            ..Options::default()
        };
        Ok(Settings {
            seed: args.seed.unwrap_or_else(here::fresh_seed),
            most_bytes,
            spoiled: args.spoil_call,
            traffic: args.traffic,
            calls_a_look,
            calls: args.calls.or(args.seconds.is_none().then_some(calls)),
            duration: args.seconds.map(Duration::from_secs),
            options,
            chosen,
            command: command(args, &target, most_bytes),
            target,
        })
    }

    pub fn communicator(&self) -> allfold::Result<Communicator> {
        self.target.communicator(self.options.clone())
    }

    /// The calls of this run on `comm`, from the first.
    pub fn draw(&self, comm: &Communicator) -> Draw {
        let streams = match self.target {
            Target::Cpu { .. } => 0,
            Target::Cuda { .. } => STREAM_SETS,
        };
        let facts = Facts {
            options: self.options.clone(),
            limits: *comm.limits(),
            rows: comm.rows(),
            most_bytes: self.most_bytes,
            streams,
        };
        Draw::new(self.seed, facts)
    }

    /// Whether `calls` in `elapsed` are as many as were asked for.
    pub fn is_over(&self, calls: u64, elapsed: Duration) -> bool {
        self.calls.is_some_and(|most| calls >= most) || self.duration.is_some_and(|most| elapsed >= most)
    }

    /// The command that makes the same calls, up to `calls` at least.
    pub fn again(&self, calls: u64) -> String {
        format!("{} --seed {} --calls {calls}", self.command, self.seed)
    }

    /// What a user has to know before the numbers, a line each.
    pub fn notes(&self) -> Vec<String> {
        self.chosen.iter().cloned().chain([format!("seed {}", self.seed)]).collect()
    }

    /// A report without calls.
    pub fn report(&self) -> Report {
        let Described { device, backend, devices } = self.target.described();
        Report {
            device,
            ranks: self.target.world(),
            devices,
            backend,
            seed: self.seed,
            most_bytes: self.most_bytes,
            traffic: self.traffic,
            version: env!("CARGO_PKG_VERSION"),
            date: here::date(),
            seconds: 0.0,
            calls_a_second: 0.0,
            drawn_again: 0,
            wrong: 0,
            counts: Default::default(),
            first_wrong: None,
        }
    }
}

fn command(args: &StressArgs, target: &Target, most_bytes: u64) -> String {
    let ranks = match target {
        Target::Cpu { ranks } => format!("--backend cpu --ranks {ranks}"),
        Target::Cuda { .. } => {
            let ordinals: Vec<_> = target.ordinals().iter().map(u32::to_string).collect();
            format!("--devices {}", ordinals.join(","))
        }
    };
    let with = |name: &str, value: Option<String>| value.map(|value| format!(" --{name} {value}")).unwrap_or_default();
    let flag = |name: &str, is_set: bool| if is_set { format!(" --{name}") } else { String::new() };
    [
        format!("allfold stress --mixed {ranks} --max-bytes {most_bytes}"),
        with("algo", args.algo.map(|algorithm| algorithm_name(algorithm).to_owned())),
        with("input", args.input.map(|input| input.name().to_owned())),
        with("max-blocks", args.ranks.max_blocks.map(|blocks| blocks.to_string())),
        with("spoil-call", args.spoil_call.map(|number| number.to_string())),
        flag("no-early-launch", args.ranks.no_early_launch),
        flag("traffic", args.traffic),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn settings(line: &str) -> Result<Settings> {
        let words = ["allfold", "stress", "--mixed", "--backend", "cpu"].into_iter().chain(line.split_whitespace());
        let Command::Stress(args) = Args::try_parse_from(words)?.command else { panic!("asked for stress") };
        Settings::new(&args)
    }

    #[test]
    fn a_run_is_as_long_as_was_asked_for() {
        let over =
            |line: &str, calls, seconds| settings(line).expect("possible").is_over(calls, Duration::from_secs(seconds));
        assert!(!over("", 1_999, 1_000) && over("", 2_000, 0));
        assert!(!over("--calls 7", 6, 1_000) && over("--calls 7", 7, 0));
        assert!(!over("--seconds 3", 1 << 40, 2) && over("--seconds 3", 1, 3));
        assert!(over("--seconds 3 --calls 7", 7, 0) && over("--seconds 3 --calls 7", 0, 3));
    }

    #[test]
    fn the_seed_is_said_whoever_chose_it() {
        let ours = settings("").expect("possible");
        assert!(ours.notes().contains(&format!("seed {}", ours.seed)));
        assert!(ours.again(9).ends_with(&format!(" --seed {} --calls 9", ours.seed)));
        assert_eq!(settings("--seed 5").expect("possible").seed, 5);
    }

    #[test]
    fn a_command_line_is_made_again() {
        let words =
            "--ranks 3 --max-bytes 4096 --algo two-shot --input memcpy --max-blocks 2 --spoil-call 8 --no-early-launch";
        let again = settings(&format!("{words} --seed 5")).expect("possible").again(77);
        let (start, rest) = again.split_once(" --ranks").expect("it has ranks");
        assert_eq!(start, "allfold stress --mixed --backend cpu");
        assert_eq!(format!("--ranks{rest}"), format!("{words} --seed 5 --calls 77"));
    }

    #[test]
    fn what_is_for_cells_alone_or_cannot_be_is_refused() {
        for line in [
            "--matrix",
            "--presets",
            "--protocol vllm",
            "--bytes 1K",
            "--blocks 2",
            "--threads 2",
            "--delay-ns 9",
            "--delay-one-in 9",
            "--markdown",
            "--max-bytes 3",
            "--max-bytes 2048G",
            "--ranks 1",
            "--traffic",
            "--seconds 0",
        ] {
            assert!(settings(line).is_err(), "{line}");
        }
        for line in ["--seed 1", "--seconds 1", "--max-bytes 1K", "--spoil-call 1"] {
            let words = ["allfold", "stress"].into_iter().chain(line.split_whitespace());
            assert!(Args::try_parse_from(words).is_err(), "{line} without --mixed");
        }
    }
}
