//! Calls recorded once and replayed: a graph on each GPU's stream, a list of jobs on CPU ranks.

use std::fmt;

use super::{Backend, Communicator, of_backend};
use crate::cpu::CpuRecording;
use crate::cuda::{Graph, RawStream};
use crate::error::{Error, Result};

/// What [`Communicator::capture`] recorded on the local ranks.
pub struct Captured(Work);

enum Work {
    Cpu(CpuRecording),
    Cuda(Vec<Graph>),
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Work::Cpu(_) => "Captured on CPU ranks",
            Work::Cuda(_) => "Captured on GPUs",
        })
    }
}

impl Communicator {
    /// Records the calls that `record` makes, and runs none of them. On GPUs each is made in one of `streams`, one a
    /// local rank; on the CPU there are none.
    ///
    /// Between processes calls with [`Registered::Later`](crate::Registered::Later) can be replayed after
    /// [`Communicator::finish_capture`]. Whoever captures streams by other means, into graphs of their own, makes the
    /// same calls; where such a capture is given up half-way, its calls count all the same.
    ///
    /// # Errors
    /// That of `record`; [`Error::RankCount`] for streams that are not one a local rank; [`Error::Driver`].
    pub fn capture(
        &mut self,
        streams: &[RawStream<'_>],
        record: impl FnOnce(&mut Communicator) -> Result<()>,
    ) -> Result<Captured> {
        let (on_cpu, local) = (matches!(self.backend, Backend::Cpu(_)), self.members.local as usize);
        if streams.len() != if on_cpu { 0 } else { local } {
            return Err(Error::RankCount { local, got: streams.len() });
        }
        let pending = of_backend!(&mut self.backend, ranks => {
            let rows = ranks.reach().returned();
            if !rows.is_empty() {
                ranks.finish()?;
                ranks.reach_mut().reclaim(rows)?;
            }
            ranks.reach().pending()
        });
        let captured = self.capture_work(streams, record);
        if captured.is_err() {
            of_backend!(&mut self.backend, ranks => ranks.reach_mut().forget_after(pending));
        }
        captured.map(Captured)
    }

    fn capture_work(
        &mut self,
        streams: &[RawStream<'_>],
        record: impl FnOnce(&mut Communicator) -> Result<()>,
    ) -> Result<Work> {
        if let Backend::Cpu(ranks) = &mut self.backend {
            ranks.begin_recording();
            let recorded = record(self);
            let Backend::Cpu(ranks) = &mut self.backend else { unreachable!("the backend stays what it is") };
            let recording = ranks.end_recording().ok_or(Error::NotCaptured { rank: self.members.first })?;
            return recorded.map(|()| Work::Cpu(recording));
        }
        Graph::capture_all(streams, || record(self)).map(Work::Cuda)
    }

    /// Runs what was recorded: on the CPU to its end, on GPUs in the order of `streams`, one a local rank, which need
    /// not be those that were captured: those of the calls before, as for a call.
    ///
    /// # Safety
    /// - `captured` is of this communicator.
    /// - Of every recorded call: the buffers live until it is done, as for a call that is made now.
    ///
    /// # Errors
    /// [`Error::RankCount`], [`Error::OtherStream`], [`Error::Driver`]; on the CPU those of [`Communicator::check`];
    /// [`Error::Ended`].
    pub unsafe fn replay(&mut self, captured: &Captured, streams: &[RawStream<'_>]) -> Result<()> {
        self.check_not_ended()?;
        match (&captured.0, &mut self.backend) {
            (Work::Cpu(recording), Backend::Cpu(ranks)) => {
                // SAFETY: the caller's promise.
                unsafe { ranks.replay(recording) }?;
                self.check()
            }
            (Work::Cuda(graphs), Backend::Cuda(ranks)) if graphs.len() == streams.len() => {
                ranks.take_turns(streams.iter().copied())?;
                for (graph, &stream) in graphs.iter().zip(streams) {
                    // SAFETY: the caller's promise.
                    unsafe { graph.launch(stream) }?;
                }
                Ok(())
            }
            (Work::Cpu(_) | Work::Cuda(_), _) => {
                Err(Error::RankCount { local: self.members.local as usize, got: streams.len() })
            }
        }
    }
}
