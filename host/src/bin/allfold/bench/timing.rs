//! How calls on GPUs are timed, whoever makes them: by events on each rank's stream, one by one or many in a captured
//! graph. Uses the library's streams, events and graphs.

use std::time::{Duration, Instant};

use allfold::cuda::{DriverError, Event, Graph, Stream};
use anyhow::Result;

use super::case::{Repeats, SETS};
use crate::gpus::Gpus;

/// Replays at the start that are not counted: the first uploads the graph, the second finds cold caches.
const UNCOUNTED_REPLAYS: usize = 2;

/// How long calls are made one by one before those that are timed, at least: a processor that was idle before is slow for a while.
const WARM_UP: Duration = Duration::from_millis(100);

/// How calls are made and timed.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// One by one.
    Eager(Repeats),
    /// `chain` calls in a graph.
    Graph { chain: usize, replays: usize },
}

impl How {
    /// Times `call`, which puts a call on a set into the streams of all ranks: `[rank]`, microseconds a call.
    pub fn timed(self, gpus: &Gpus, call: impl FnMut(usize) -> Result<()>) -> Result<Vec<Vec<f64>>> {
        match self {
            How::Eager(repeats) => eager(gpus, repeats, call),
            How::Graph { chain, replays } => {
                let mut graphs = capture(gpus, chain, call)?;
                let replays = gpus.replay(&mut graphs, replays)?;
                let a_call =
                    |of_rank: Vec<f64>| of_rank.iter().skip(UNCOUNTED_REPLAYS).map(|m| m / chain as f64).collect();
                Ok(replays.into_iter().map(a_call).collect())
            }
        }
    }
}

/// A graph for each rank, of `chain` times `call`, the sets in turn.
pub fn capture(gpus: &Gpus, chain: usize, call: impl FnMut(usize) -> Result<()>) -> Result<Vec<Graph>> {
    let streams: Vec<_> = gpus.streams.iter().map(Stream::raw).collect();
    Graph::capture_all(&streams, || (0..chain).map(|i| i % SETS).try_for_each(call))
}

fn eager(gpus: &Gpus, repeats: Repeats, mut call: impl FnMut(usize) -> Result<()>) -> Result<Vec<Vec<f64>>> {
    let pair = |context| Ok((Event::new(context, true)?, Event::new(context, true)?));
    let of_rank = |context| (0..repeats.timed).map(|_| pair(context)).collect::<Result<Vec<_>, DriverError>>();
    let events = gpus.contexts.iter().map(of_rank).collect::<Result<Vec<_>, _>>()?;
    let (start, mut warmup) = (Instant::now(), 0);
    while warmup < repeats.warmup || start.elapsed() < WARM_UP {
        call(warmup % SETS)?;
        warmup += 1;
    }
    for i in 0..repeats.timed {
        let of_call = || events.iter().zip(&gpus.streams).map(|(e, stream)| (&e[i], stream));
        of_call().try_for_each(|((start, _), stream)| start.record(stream.raw()))?;
        call(i % SETS)?;
        of_call().try_for_each(|((_, end), stream)| end.record(stream.raw()))?;
    }
    gpus.synchronize()?;
    let micros = |of_rank: &Vec<(Event, Event)>| of_rank.iter().map(|(start, end)| end.micros_since(start)).collect();
    Ok(events.iter().map(micros).collect::<Result<_, _>>()?)
}
