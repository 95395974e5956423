//! The command line made into what is run.

use allfold::{Algorithm, CallOptions, Delays, Dtype, InputMode, Options};
use anyhow::{Result, bail};

use crate::args::{Algo, TraceArgs, Waits};
use crate::target::Target;

/// All that a run is made of.
pub struct Settings {
    pub target: Target,
    /// Elements of each rank.
    pub elems: usize,
    pub calls: usize,
    pub graph: bool,
    pub delays: Option<Delays>,
    /// Why the ranks are where nobody asked for them.
    pub chosen: Option<String>,
    algorithm: Algo,
    input: InputMode,
    blocks: Option<u32>,
    threads: Option<u32>,
    max_blocks: Option<u32>,
    early_launch: bool,
    waits: Waits,
}

impl Settings {
    /// Chooses what the command line leaves open.
    pub fn new(args: &TraceArgs) -> Result<Settings> {
        let (target, chosen) = Target::choose(&args.ranks)?;
        if target.world() < 2 {
            bail!("one rank waits for nobody: a trace needs two or more");
        }
        let on_cpu = matches!(target, Target::Cpu { .. });
        if args.graph && on_cpu {
            bail!("--graph needs GPUs: CPU ranks have no graphs");
        }
        let elems = usize::try_from(args.bytes)? / Dtype::Bf16.bytes();
        if elems == 0 {
            bail!("{} bytes are no element of bf16", args.bytes);
        }
        let delays = Delays { nanoseconds: args.delay_ns, one_in: args.delay_one_in };
        Ok(Settings {
            elems,
            calls: args.calls as usize,
            graph: args.graph,
            delays: (args.delay_ns > 0).then_some(delays),
            chosen,
            algorithm: args.algo,
            input: args.input,
            blocks: args.blocks.or(on_cpu.then_some(2)),
            threads: args.threads.or(on_cpu.then_some(1)),
            max_blocks: args.ranks.max_blocks.or(target.all_blocks()),
            early_launch: !args.ranks.no_early_launch,
            waits: args.ranks.waits(),
            target,
        })
    }

    /// So many elements or fewer, and no less than one pack a rank: so many that parts of all ranks are equal. Then whatever a block
    /// waits for, it waits for something of each of its namesakes.
    pub fn even_elems(&self) -> usize {
        let each = Dtype::Bf16.lanes() * self.target.world();
        if self.elems < each { self.elems } else { self.elems / each * each }
    }

    /// What the communicator is made for.
    pub fn options(&self) -> Options {
        let capacity_bytes = (self.elems * Dtype::Bf16.bytes()) as u64;
        Options {
            delays: self.delays,
            trace: true,
            dtypes: vec![Dtype::Bf16],
            inputs: vec![self.input],
            algorithms: self.algorithm.map_or(Algorithm::ALL.to_vec(), |algorithm| vec![algorithm]),
            capacity_bytes,
            max_blocks: self.max_blocks,
            early_launch: self.early_launch,
            timeout: self.waits.timeout,
            compare_calls: self.waits.compare_calls,
            stamps: true,
            cpu_shape: (self.blocks.unwrap_or(1), self.threads.unwrap_or(1)),
            ..Options::default()
        }
    }

    /// What each call asks for.
    pub fn call(&self) -> CallOptions {
        CallOptions {
            algorithm: self.algorithm,
            input: Some(self.input),
            blocks: self.blocks,
            threads: self.threads,
            ..CallOptions::default()
        }
    }

    /// Which clock each rank has: that of its GPU, or the one of the CPU.
    pub fn clocks(&self) -> Vec<u32> {
        match &self.target {
            Target::Cpu { ranks } => vec![0; *ranks],
            Target::Cuda { .. } => self.target.ordinals(),
        }
    }
}
