//! Calls recorded once and replayed: a graph on each GPU's stream, a list of jobs on CPU ranks.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use allfold_kernels::protocol::abi::Rank;
use allfold_kernels::protocol::status::{Stop, Why};

use super::{Backend, Communicator, of_backend};
use crate::counters::Recorded;
use crate::cpu::CpuRecording;
use crate::cuda::{Graph, RawStream};
use crate::error::{Error, Result};
use crate::spans;

/// What [`Communicator::capture`] recorded on the local ranks.
pub struct Captured(Work, Recorded);

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
    /// [`Communicator::finish_capture`]. Where one rank lacks calls of the others because its last capture has failed, that tells all ranks
    /// what it failed for; so does a communicator that is dropped before, for which it waits a second at most. Whoever captures streams by
    /// other means, into graphs of their own, makes the same calls; where such a capture is given up half-way, its calls count all the same.
    ///
    /// # Errors
    /// That of `record`; [`Error::RankCount`] for streams that are not one a local rank; [`Error::Capturing`] on the CPU
    /// within another capture, which goes on; [`Error::NotCaptured`] where `record` has put another communicator in this
    /// one's place; [`Error::Driver`], also on GPUs within another capture. Where `record` fails or panics nothing is
    /// recorded any longer.
    pub fn capture(
        &mut self,
        streams: &[RawStream<'_>],
        record: impl FnOnce(&mut Communicator) -> Result<()>,
    ) -> Result<Captured> {
        let owner = self.owner();
        match catch_unwind(AssertUnwindSafe(|| self.capture_here(streams, record))) {
            Ok(captured) => {
                self.note_captured(owner, &captured);
                captured
            }
            Err(panic) => {
                self.note_captured(owner, &Err::<(), _>("it panicked"));
                resume_unwind(panic)
            }
        }
    }

    /// Notes how a capture of `owner` went, for the ranks of other processes.
    fn note_captured<T>(&mut self, owner: u32, captured: &std::result::Result<T, impl fmt::Display>) {
        let stopped = of_backend!(&self.backend, ranks => ranks.is_stopped());
        if self.options.captured_calls > 0
            && self.owner() == owner
            && let Some(own) = &mut self.line
        {
            // Of a communicator that has come to its end all know.
            if stopped { own.captured(&Ok::<_, &str>(())) } else { own.captured(captured) }
        }
    }

    /// [`Communicator::capture`], of which the others learn nothing.
    fn capture_here(
        &mut self,
        streams: &[RawStream<'_>],
        record: impl FnOnce(&mut Communicator) -> Result<()>,
    ) -> Result<Captured> {
        let (on_cpu, local) = (matches!(self.backend, Backend::Cpu(_)), self.members.local as usize);
        if streams.len() != if on_cpu { 0 } else { local } {
            return Err(Error::RankCount { local, got: streams.len() });
        }
        if let Backend::Cpu(ranks) = &self.backend
            && ranks.is_recording()
        {
            return Err(Error::Capturing);
        }
        let pending = of_backend!(&mut self.backend, ranks => {
            let rows = ranks.reach().returned();
            let ended = if rows.is_empty() { Ok(()) } else { ranks.finish() };
            ranks.reach_mut().reclaim(rows, ended)?;
            ranks.reach().pending()
        });
        let owner = self.owner();
        let _capture = spans::capture(self.members.first).entered();
        let capturing = self.counted.begin();
        // What a panic leaves is put right below, and then it goes on.
        let captured = catch_unwind(AssertUnwindSafe(|| self.capture_work(streams, record)));
        if self.owner() != owner {
            // Calls of the one that was here are not recorded any more; of the one that is here nothing is known.
            captured.unwrap_or_else(|panic| resume_unwind(panic))?;
            return Err(Error::NotCaptured { rank: self.members.first });
        }
        if !matches!(captured, Ok(Ok(_))) {
            if let Backend::Cpu(ranks) = &mut self.backend {
                ranks.end_recording();
            }
            of_backend!(&mut self.backend, ranks => ranks.reach_mut().forget_after(pending));
        }
        let recorded = self.counted.end(capturing);
        captured.unwrap_or_else(|panic| resume_unwind(panic)).map(|work| Captured(work, recorded))
    }

    /// Which communicator this is.
    fn owner(&self) -> u32 {
        of_backend!(&self.backend, ranks => ranks.reach().owner())
    }

    fn capture_work(
        &mut self,
        streams: &[RawStream<'_>],
        record: impl FnOnce(&mut Communicator) -> Result<()>,
    ) -> Result<Work> {
        if let Backend::Cpu(ranks) = &mut self.backend {
            let recorder = Arc::new(());
            ranks.begin_recording(&recorder);
            record(self)?;
            let recording = match &mut self.backend {
                Backend::Cpu(ranks) => ranks.end_recording(),
                Backend::Cuda(_) => None,
            };
            return recording.map(Work::Cpu).ok_or(Error::NotCaptured { rank: self.members.first });
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
    /// [`Error::RankCount`], [`Error::SharedStream`], [`Error::OtherStream`]; [`Error::Driver`] when a launch fails, and
    /// [`Error::Ended`] after that; on the CPU those of [`Communicator::check`].
    pub unsafe fn replay(&mut self, captured: &Captured, streams: &[RawStream<'_>]) -> Result<()> {
        let _replay = spans::replay(self.members.first).entered();
        // SAFETY: the caller's promise.
        let done = unsafe { self.launch_again(captured, streams) };
        self.count_error(&done);
        done.inspect(|()| self.counted.replay(&captured.1))
    }

    /// [`Communicator::replay`], uncounted.
    ///
    /// # Safety
    /// As there.
    unsafe fn launch_again(&mut self, captured: &Captured, streams: &[RawStream<'_>]) -> Result<()> {
        self.check_goes_on()?;
        match (&captured.0, &mut self.backend) {
            (Work::Cpu(recording), Backend::Cpu(ranks)) => {
                // SAFETY: the caller's promise.
                unsafe { ranks.replay(recording) }?;
                self.check_words()
            }
            (Work::Cuda(graphs), Backend::Cuda(ranks)) if graphs.len() == streams.len() => {
                ranks.check_streams(streams.iter().copied())?;
                ranks.check_turns(streams.iter().copied())?;
                ranks.take_turns(streams.iter().copied())?;
                // SAFETY: the caller's promise.
                let mut launches = graphs.iter().zip(streams).map(|(graph, &stream)| unsafe { graph.launch(stream) });
                launches.try_for_each(|launched| launched).map_err(|error| {
                    // Ranks that were launched wait for those that were not.
                    ranks.boards().stop(Stop::outside(Why::Abandoned, Rank(self.members.first)));
                    Error::from(error)
                })
            }
            (Work::Cpu(_) | Work::Cuda(_), _) => {
                Err(Error::RankCount { local: self.members.local as usize, got: streams.len() })
            }
        }
    }
}
