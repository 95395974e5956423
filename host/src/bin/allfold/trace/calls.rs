//! The calls that are traced, and some before them by which clocks are set.

use allfold::cuda::{Graph, Stream};
use allfold::{BlockTrace, CallOptions, Communicator, Options, Plan, RankBuffers, ReduceOp, TRACED_CALLS};
use anyhow::Result;
use half::bf16;

use super::settings::Settings;
use crate::gpus::Gpus;
use crate::pairs::Pairs;
use crate::target::Target;

/// Calls before those that are shown, for the first ones take longer.
const WARM: usize = 10;

/// What came out.
pub struct Traced {
    /// Calls in a chain before those that are shown: by them clocks are set.
    pub before: Vec<BlockTrace>,
    /// The calls that are shown.
    pub calls: Vec<BlockTrace>,
    /// Wrong elements of a call after them.
    pub wrong: u64,
    /// Whether all came to a good end.
    pub done: Result<()>,
}

/// Makes the calls.
pub fn run(settings: &Settings) -> Result<Traced> {
    match &settings.target {
        Target::Cpu { ranks } => {
            let data = || vec![vec![bf16::ZERO; settings.elems]; *ranks];
            traced(settings, Cpu { inputs: data(), outputs: data() })
        }
        Target::Cuda { devices } => {
            let gpus = Gpus::new(devices)?;
            let pairs = Pairs::alloc(&gpus, settings.elems)?;
            traced(settings, Cuda { gpus: &gpus, pairs })
        }
    }
}

/// Calls that are all alike.
#[derive(Clone, Copy)]
struct Chain {
    call: CallOptions,
    elems: usize,
    calls: usize,
    /// On GPUs: in a graph, and not one by one.
    graph: bool,
}

/// Where ranks and their buffers are.
trait Place {
    /// Fills the inputs with stamps for the next call.
    fn fill(&mut self, comm: &mut Communicator) -> Result<()>;
    /// Makes all calls of `chain`, and waits for their end.
    fn calls(&mut self, comm: &mut Communicator, chain: Chain) -> Result<()>;
    /// Counts wrong elements of the last call's outputs.
    fn check(&mut self, comm: &mut Communicator) -> Result<()>;
}

fn traced(settings: &Settings, mut place: impl Place) -> Result<Traced> {
    let shown = Chain { call: settings.call(), elems: settings.elems, calls: settings.calls, graph: settings.graph };
    let (before, done) = clocked(settings, &mut place)?;
    match done {
        Ok(()) => {}
        // Refused, and nothing to show.
        Err(error) if before.is_empty() => return Err(error),
        Err(_) => return Ok(Traced { calls: before.clone(), before, wrong: 0, done }),
    }
    let mut comm = settings.target.communicator(settings.options())?;
    let mut make = |comm: &mut Communicator, chain| {
        place.calls(comm, chain)?;
        Ok(comm.check()?)
    };
    let warm = make(&mut comm, Chain { calls: WARM, graph: false, ..shown });
    let done = warm.and_then(|()| make(&mut comm, shown));
    let mut calls = comm.trace()?;
    if done.is_ok() {
        calls.retain(|block| block.epoch > WARM as u64);
    }
    let done = done.and_then(|()| {
        place.fill(&mut comm)?;
        place.calls(&mut comm, Chain { calls: 1, ..shown })?;
        place.check(&mut comm)?;
        Ok(comm.check()?)
    });
    Ok(Traced { before, calls, wrong: comm.wrong()?.iter().sum(), done })
}

/// A chain of calls in which nobody is made late. Each rank waits for each other in turn there, so that what comes says the most of clocks.
fn clocked(settings: &Settings, place: &mut impl Place) -> Result<(Vec<BlockTrace>, Result<()>)> {
    let mut comm = settings.target.communicator(Options { delays: None, ..settings.options() })?;
    let chain = Chain { call: settings.call(), elems: settings.even_elems(), calls: TRACED_CALLS, graph: true };
    let done = place.calls(&mut comm, chain).and_then(|()| Ok(comm.check()?));
    Ok((comm.trace()?, done))
}

struct Cpu {
    inputs: Vec<Vec<bf16>>,
    outputs: Vec<Vec<bf16>>,
}

impl Place for Cpu {
    fn fill(&mut self, comm: &mut Communicator) -> Result<()> {
        let stamped: Vec<_> = self.inputs.iter_mut().map(|input| RankBuffers::in_place(input)).collect();
        Ok(comm.fill_stamps(&stamped)?)
    }

    fn calls(&mut self, comm: &mut Communicator, chain: Chain) -> Result<()> {
        for _ in 0..chain.calls {
            let pairs = self.inputs.iter().zip(&mut self.outputs);
            let both: Vec<_> =
                pairs.map(|(from, to)| RankBuffers::new(&from[..chain.elems], &mut to[..chain.elems])).collect();
            comm.all_reduce_with(&both, ReduceOp::Sum, &chain.call)?;
        }
        Ok(())
    }

    fn check(&mut self, comm: &mut Communicator) -> Result<()> {
        let results: Vec<_> = self.outputs.iter_mut().map(|output| RankBuffers::in_place(output)).collect();
        Ok(comm.check_stamps(&results)?)
    }
}

struct Cuda<'a> {
    gpus: &'a Gpus,
    pairs: Pairs<'a>,
}

impl Place for Cuda<'_> {
    fn fill(&mut self, comm: &mut Communicator) -> Result<()> {
        Ok(comm.fill_stamps(&self.pairs.inputs())?)
    }

    fn calls(&mut self, comm: &mut Communicator, chain: Chain) -> Result<()> {
        let both = self.pairs.first(chain.elems as u64);
        let all = |comm: &mut Communicator| -> allfold::Result<()> {
            let one = |_| comm.all_reduce_with(&both, ReduceOp::Sum, &chain.call).map(|_: Plan| ());
            (0..chain.calls).try_for_each(one)
        };
        if chain.graph {
            let streams: Vec<_> = self.gpus.streams.iter().map(Stream::raw).collect();
            let mut graphs = Graph::capture_all(&streams, || all(comm))?;
            self.gpus.replay(&mut graphs, 1)?;
        } else {
            all(comm)?;
        }
        Ok(self.gpus.synchronize()?)
    }

    fn check(&mut self, comm: &mut Communicator) -> Result<()> {
        comm.check_stamps(&self.pairs.outputs())?;
        Ok(self.gpus.synchronize()?)
    }
}
