//! The calls of one cell: on stamps, each input rewritten for the next call as soon as its rank has done this one.

use std::time::Instant;

use allfold::cuda::{DriverError, Graph, Stream};
use allfold::{Communicator, Dtype, Error, RankBuffers, ReduceOp};
use anyhow::Result;
use half::bf16;

use super::cells::Cell;
use super::settings::Settings;
use super::story::Story;
use super::traffic;
use crate::gpus::Gpus;
use crate::pairs::Pairs;

/// What came out of a cell.
#[derive(Debug)]
pub struct Outcome {
    /// Calls made.
    pub calls: u64,
    /// Wrong elements, of all calls and ranks.
    pub wrong: u64,
    /// Of the calls alone.
    pub seconds: f64,
    /// Who gave up waiting for whom; what was counted since then says nothing.
    pub gave_up: Option<String>,
    /// About the earliest call with a wrong element.
    pub story: Option<Story>,
}

/// Runs one cell. `gpus` are the target's, none on the CPU.
pub fn run(settings: &Settings, cell: &Cell, gpus: Option<&Gpus>) -> Result<Outcome> {
    let mut comm = settings.target.communicator(settings.options(cell))?;
    let (calls, seconds) = match gpus {
        None => on_cpu(&mut comm, settings, cell)?,
        Some(gpus) => on_gpus(&mut comm, settings, cell, gpus)?,
    };
    let gave_up = match comm.check() {
        Ok(()) => None,
        Err(error @ (Error::Timeout { .. } | Error::PeerGone { .. } | Error::Disagreement { .. })) => {
            Some(error.to_string())
        }
        Err(error) => return Err(error.into()),
    };
    let world = comm.world() as u32;
    let firsts = (0..world).zip(comm.first_wrong()?);
    let first = firsts.filter_map(|(rank, first)| Some((rank, first?))).min_by_key(|(_, first)| first.epoch);
    Ok(Outcome {
        calls,
        wrong: comm.wrong()?.iter().sum(),
        seconds,
        gave_up,
        story: first.map(|(rank, first)| Story::new(world, rank, Dtype::Bf16, first)),
    })
}

fn on_cpu(comm: &mut Communicator, settings: &Settings, cell: &Cell) -> Result<(u64, f64)> {
    let world = comm.world();
    let (chain, replays) = settings.chain(cell);
    let data = || vec![vec![bf16::ZERO; settings.elems]; world];
    let (mut inputs, mut outputs) = (data(), data());
    let call = settings.call(cell);
    let fill = |comm: &mut Communicator, inputs: &mut [Vec<bf16>]| {
        let stamped: Vec<_> = inputs.iter_mut().map(|input| RankBuffers::in_place(input)).collect();
        comm.fill_stamps(&stamped)
    };
    let start = Instant::now();
    fill(comm, &mut inputs)?;
    let mut calls = 0;
    // Nothing is to be learnt from a communicator that gave up.
    while calls < (chain * replays) as u64 && comm.check().is_ok() {
        let both: Vec<_> = inputs.iter().zip(&mut outputs).map(|(from, to)| RankBuffers::new(from, to)).collect();
        comm.all_reduce_with(&both, ReduceOp::Sum, &call)?;
        fill(comm, &mut inputs)?;
        let results: Vec<_> = outputs.iter_mut().map(|output| RankBuffers::in_place(output)).collect();
        comm.check_stamps(&results)?;
        calls += 1;
    }
    Ok((calls, start.elapsed().as_secs_f64()))
}

fn on_gpus(comm: &mut Communicator, settings: &Settings, cell: &Cell, gpus: &Gpus) -> Result<(u64, f64)> {
    let (chain, replays) = settings.chain(cell);
    let pairs = Pairs::alloc(gpus, settings.elems)?;
    let (both, input, output) = (pairs.both(), pairs.inputs(), pairs.outputs());
    let call = settings.call(cell);
    // The first call's input; each later one's is written in the graphs.
    comm.fill_stamps(&input)?;
    gpus.synchronize()?;
    let streams: Vec<_> = gpus.streams.iter().map(Stream::raw).collect();
    let mut graphs = Graph::capture_all(&streams, || {
        (0..chain).try_for_each(|_| {
            comm.all_reduce_with(&both, ReduceOp::Sum, &call)?;
            // At once, before this rank looks at its result: a peer that still reads meets the next call's stamps.
            comm.fill_stamps(&input)?;
            comm.check_stamps(&output)
        })
    })?;
    let mut replayed = || {
        let start = Instant::now();
        gpus.replay(&mut graphs, replays)?;
        Ok::<_, DriverError>(start.elapsed().as_secs_f64())
    };
    let seconds = if settings.traffic { traffic::beside(&gpus.contexts, replayed)? } else { replayed()? };
    Ok(((chain * replays) as u64, seconds))
}
