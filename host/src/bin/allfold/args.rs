//! The command line. Names are the library's own; sizes are read here.

use std::path::PathBuf;

use allfold::{Algorithm, Dtype, InputMode, MAX_RANKS, Preset};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser, Subcommand, ValueEnum};

/// All-reduce across the GPUs of one machine, or across ranks on its CPU.
#[derive(Debug, Parser)]
#[command(name = "allfold", version, max_term_width = 100)]
pub struct Args {
    /// Show what the library logs; twice: more of it
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 1000)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Time all-reduce, every result verified
    #[command(
        after_help = "A size is in bytes a rank: 512, 64K, 4M, 1G. Times are those of the slowest rank; bandwidths are \
                            nccl-tests'.\nExit code 1: a result was wrong. 2: it could not be done."
    )]
    Bench(Box<BenchArgs>),
    /// Say what this machine has, what works on it, and what stops the rest
    Doctor(DoctorArgs),
}

const SIZES: &str = "Sizes and types";
const RANKS: &str = "Ranks";
const CALLS: &str = "Calls";
const TIMING: &str = "Timing";
const RESULTS: &str = "Results";

#[derive(Debug, Parser)]
pub struct BenchArgs {
    /// Sizes, as 1K,64K,4M
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size, conflicts_with_all = ["min", "max", "factor"], help_heading = SIZES)]
    pub bytes: Vec<u64>,
    /// Smallest size [default: 512 on GPUs, 1K on CPU ranks]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = size, help_heading = SIZES)]
    pub min: Option<u64>,
    /// Largest size [default: 256M on GPUs, 4M on CPU ranks]
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = size, help_heading = SIZES)]
    pub max: Option<u64>,
    /// Each size is this many times the one before
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..), help_heading = SIZES)]
    pub factor: u64,
    /// Element types [default: bf16 on GPUs, f32 on CPU ranks]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = named(&Dtype::ALL, |&t| t.name()), help_heading = SIZES)]
    pub dtype: Vec<Dtype>,

    /// GPUs, CPU ranks, or GPUs where there are any
    #[arg(long, value_enum, default_value_t = Backend::Auto, help_heading = RANKS)]
    pub backend: Backend,
    /// Ranks; on GPUs they go round all of them [default: one a GPU, 2 on a single one, 4 on the CPU]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RANKS as u64), help_heading = RANKS)]
    pub ranks: Option<u64>,
    /// The GPU of each rank, as 0,1 or 0,0,0
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "ranks", help_heading = RANKS)]
    pub devices: Vec<u32>,

    /// The algorithm; auto: as the plan chooses
    #[arg(long, default_value = "auto", value_parser = algorithm(), help_heading = CALLS)]
    pub algo: Algo,
    /// Barriers and memory orders, by name; only the default is known to be sound with every input
    #[arg(long, default_value = Preset::Allfold.name(), value_parser = named(&Preset::ALL, |&p| p.name()), help_heading = CALLS)]
    pub protocol: Preset,
    /// How peers get to see the input: in place, copied before the kernel, or copied by it
    #[arg(long, default_value = InputMode::Registered.name(), value_parser = named(&InputMode::ALL, |&i| i.name()), help_heading = CALLS)]
    pub input: InputMode,
    /// The output is the input
    #[arg(long, help_heading = CALLS)]
    pub in_place: bool,
    /// Blocks of a launch, instead of what the plan chooses
    #[arg(long, value_name = "N", help_heading = CALLS)]
    pub blocks: Option<u32>,
    /// Threads of a block, instead of what the plan chooses
    #[arg(long, value_name = "N", help_heading = CALLS)]
    pub threads: Option<u32>,

    /// Capture many calls in a CUDA graph and replay it
    #[arg(long, help_heading = TIMING)]
    pub graph: bool,
    /// Calls in the graph [default: 40 up to 4M, 5 above]
    #[arg(long, value_name = "N", requires = "graph", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = TIMING)]
    pub chain: Option<u32>,
    /// Replays of the graph, the first two not counted [default: 102 up to 4M, 22 above]
    #[arg(long, value_name = "N", requires = "graph", value_parser = clap::value_parser!(u32).range(3..), help_heading = TIMING)]
    pub replays: Option<u32>,
    /// Calls timed without a graph [default: 100 on GPUs, 20 on CPU ranks]
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "graph", value_parser = clap::value_parser!(u32).range(1..), help_heading = TIMING)]
    pub iters: Option<u32>,
    /// Calls before them
    #[arg(short, long, value_name = "N", conflicts_with = "graph", default_value_t = 5, help_heading = TIMING)]
    pub warmup: u32,

    /// Polls after which a wait for a peer is given up, 0: never [default: several seconds' worth]
    #[arg(long, value_name = "N", help_heading = RESULTS)]
    pub poll_limit: Option<u64>,
    /// What the random input is made from [default: the time]
    #[arg(long, value_name = "N", help_heading = RESULTS)]
    pub seed: Option<u64>,

    /// Write the results as JSON; to standard output for -
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub json: Option<PathBuf>,
    /// Write the results as CSV; to standard output for -
    #[arg(long, value_name = "FILE", help_heading = RESULTS)]
    pub csv: Option<PathBuf>,
}

#[derive(Debug, Parser)]
pub struct DoctorArgs {
    /// Print JSON instead
    #[arg(long)]
    pub json: bool,
    /// Also measure the first use with the driver's cache of compiled kernels off
    #[arg(long)]
    pub cold: bool,
    /// Only load the kernels, and print how long that took: what --cold runs
    #[arg(long, hide = true)]
    pub load_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Auto,
    Cuda,
    Cpu,
}

/// The algorithm asked for; `None`: as the plan chooses.
pub type Algo = Option<Algorithm>;

/// Reads one of `all` by its name.
fn named<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: impl Fn(&T) -> &'static str + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    let names = all.iter().map(&name);
    PossibleValuesParser::new(names).try_map(move |text| {
        let found = all.iter().copied().find(|value| name(value) == text);
        found.ok_or_else(|| format!("no such name: {text}"))
    })
}

/// `auto`, or an algorithm as users write it: `one-shot`.
fn algorithm() -> impl TypedValueParser<Value = Algo> {
    const CHOICES: [Algo; 1 + Algorithm::ALL.len()] = {
        let mut choices = [None; 1 + Algorithm::ALL.len()];
        let mut i = 0;
        while i < Algorithm::ALL.len() {
            choices[1 + i] = Some(Algorithm::ALL[i]);
            i += 1;
        }
        choices
    };
    named(&CHOICES, |choice| choice.map_or("auto", algorithm_name))
}

/// An algorithm as users write it.
pub const fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::OneShot => "one-shot",
        Algorithm::TwoShot => "two-shot",
    }
}

/// A number of bytes: `512`, `64K`, `4M`, `1G`, with `B` or `iB` behind it if one likes.
fn size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let short = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, unit) = match short.char_indices().last() {
        Some((at, 'K')) => (&short[..at], 1 << 10),
        Some((at, 'M')) => (&short[..at], 1 << 20),
        Some((at, 'G')) => (&short[..at], 1 << 30),
        _ => (short, 1),
    };
    let number: u64 =
        digits.parse().map_err(|_| "a size is a whole number, then K, M or G: 512, 64K, 4M".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "more bytes than there are addresses".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn bench(line: &str) -> Result<BenchArgs, clap::Error> {
        let words = ["allfold", "bench"].into_iter().chain(line.split_whitespace());
        match Args::try_parse_from(words)?.command {
            Command::Bench(args) => Ok(*args),
            Command::Doctor(_) => panic!("asked for bench"),
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("1K", 1024),
            ("64k", 65_536),
            ("64KB", 65_536),
            ("4M", 4 << 20),
            ("4MiB", 4 << 20),
            ("2G", 2 << 30),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "1.5M", "-1", "4T", "iB", "4 K", "17179869184G", "1KK", "µ"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_consistent_with_itself() {
        Args::command().debug_assert();
    }

    #[test]
    fn lists_and_names_are_read() {
        let args =
            bench("--bytes 1K,64K,4M --dtype f32,bf16 --algo two-shot --protocol vllm --input memcpy").expect("right");
        assert_eq!(args.bytes, [1024, 65_536, 4 << 20]);
        assert_eq!(args.dtype, [Dtype::F32, Dtype::Bf16]);
        assert_eq!((args.algo, args.protocol, args.input), (Some(Algorithm::TwoShot), Preset::Vllm, InputMode::Memcpy));
        assert_eq!(bench("--devices 0,0,1").expect("right").devices, [0, 0, 1]);
        assert_eq!(bench("").expect("right").algo, None);
    }

    #[test]
    fn what_cannot_go_together_is_refused() {
        for line in [
            "--bytes 1K --min 1K",
            "--devices 0 --ranks 2",
            "--chain 5",
            "--graph --iters 5",
            "--ranks 9",
            "--ranks 0",
            "--factor 1",
            "--dtype f64",
            "--algo three-shot",
        ] {
            assert!(bench(line).is_err(), "{line}");
        }
    }
}
