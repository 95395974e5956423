//! The GPUs of a command's ranks: their streams, and graphs that are replayed on all of them together.

use std::sync::atomic::{AtomicBool, Ordering};

use allfold::cuda::{Context, Device, DeviceHandle, DriverError, Event, Graph, Stream};

use crate::gate::Gate;

/// A context and a stream for each rank.
pub struct Gpus {
    pub contexts: Vec<Context>,
    pub streams: Vec<Stream>,
}

impl Gpus {
    /// One for each of `devices`, which may repeat.
    pub fn new(devices: &[Device]) -> Result<Gpus, DriverError> {
        let retain = |device: &Device| DeviceHandle::get(device.ordinal).and_then(Context::retain);
        let contexts = devices.iter().map(retain).collect::<Result<Vec<_>, _>>()?;
        let streams = contexts.iter().map(Stream::new).collect::<Result<Vec<_>, _>>()?;
        Ok(Gpus { contexts, streams })
    }

    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.streams.iter().try_for_each(Stream::synchronize)
    }

    /// Launches the ranks' graphs together, again and again; `[rank]`, microseconds of each replay.
    pub fn replay(&self, graphs: &mut [Graph], replays: usize) -> Result<Vec<Vec<f64>>, DriverError> {
        let gate = Gate::new(graphs.len());
        let failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (gate, failed) = (&gate, &failed);
            let ranks = graphs.iter_mut().zip(&self.contexts).zip(&self.streams);
            let threads: Vec<_> = ranks
                .map(|((graph, at), stream)| scope.spawn(move || rank(graph, at, stream, replays, gate, failed)))
                .collect();
            let joined = threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.collect()
        })
    }
}

/// One rank's replays, on a thread of its own.
fn rank(
    graph: &mut Graph,
    context: &Context,
    stream: &Stream,
    replays: usize,
    gate: &Gate,
    failed: &AtomicBool,
) -> Result<Vec<f64>, DriverError> {
    let events = || Ok((Event::new(context, true)?, Event::new(context, true)?));
    let events: Result<_, DriverError> = events();
    let one = || {
        let (start, end) = events.as_ref().map_err(Clone::clone)?;
        start.record(stream.raw())?;
        // SAFETY: the buffers and the communicator outlive the scope of this thread, which waits for the stream.
        unsafe { graph.launch(stream) }?;
        end.record(stream.raw())?;
        stream.synchronize()?;
        end.micros_since(start)
    };
    let mut micros = Vec::with_capacity(replays);
    for replay in 0..replays {
        gate.pass(2 * replay);
        let outcome = one();
        if outcome.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        // Nobody goes on alone: that rank would wait for the others at the next gate.
        gate.pass(2 * replay + 1);
        micros.push(outcome?);
        if failed.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(micros)
}
