//! Buffers that ranks reach of each other: registered before calls, or captured and registered afterwards.

use super::{Backend, Communicator, of_backend};
use crate::arguments::Peers;
use crate::buffers::RawBuffers;
use crate::error::{Error, Result};
use crate::options::CallOptions;
use crate::plan::Plan;
use crate::processes::Meeting;
use crate::reach::{Recorded, Registered, Registration, Span};
use crate::request::Request;
use crate::spans;

impl Communicator {
    /// Makes a buffer of each rank reachable for all, so that calls copy nothing: `spans` are those of
    /// [`local_ranks`](Communicator::local_ranks), in order. All ranks call it, in the same order as their other
    /// `register`, `release` and `finish_capture`, with buffers of one length. It returns when all have them, or fails
    /// on all within
    /// [`Options::connect_timeout`](crate::Options::connect_timeout). A call names them by [`CallOptions::registered`].
    ///
    /// Buffers may be parts of larger allocations, and may overlap: an allocation is mapped once, however many of its
    /// parts are registered; of mapped memory, each range of its pieces. Between processes they may be, on the CPU,
    /// [`Memory`](crate::Memory); on GPUs that, memory of `cuMemAlloc`, and mapped memory that was made for file
    /// descriptors, as PyTorch's expandable segments are. In one process any memory will do, of GPUs also that of
    /// stream-ordered pools.
    ///
    /// # Safety
    /// - Each `span` is memory that stays allocated, and its pieces mapped, until the registration is
    ///   [released](Communicator::release), or the communicators of *all* ranks are dropped.
    /// - All ranks make the same calls on it, at the same distances from its start. Peers read and write it in those
    ///   calls: while any rank may be in one, nothing else touches it.
    ///
    /// # Errors
    /// [`Error::RankCount`], [`Error::WrongMemory`]; on every rank the same [`Error::Disagreement`] where lengths
    /// differ, and
    /// [`Error::NotShareable`]; [`Error::OutsideRegistration`] for a span that its allocation does not hold;
    /// [`Error::Driver`],
    /// [`Error::Host`], and on the other ranks [`Error::RankFailed`]; [`Error::Rendezvous`]; [`Error::Ended`].
    pub unsafe fn register(&mut self, spans: &[Span]) -> Result<Registration> {
        let _register = spans::register(self.members.first, spans.first().map_or(0, |span| span.bytes)).entered();
        let local = self.members.local as usize;
        let right = match spans.len() == local {
            true => self.check_goes_on().map(|()| spans),
            false => Err(Error::RankCount { local, got: spans.len() }),
        };
        let meeting =
            self.line.as_ref().map(|own| Meeting::new(own.line(), self.options.connect_timeout)).transpose()?;
        of_backend!(&mut self.backend, ranks => ranks.reach_mut().register(meeting.as_ref(), right))
    }

    /// Takes a registration back. All ranks call it; it waits for all work on the GPUs that this process drives, and
    /// when it returns no rank reaches the buffers any more: their memory may be freed.
    ///
    /// # Errors
    /// [`Error::NotRegistered`], [`Error::Driver`], and on the other ranks [`Error::RankFailed`];
    /// [`Error::Disagreement`] where ranks release different ones: no rank's is gone then. [`Error::Rendezvous`].
    pub fn release(&mut self, registration: Registration) -> Result<()> {
        let _release = spans::release(self.members.first).entered();
        let timeout = self.options.connect_timeout;
        let meeting = self.line.as_ref().map(|own| Meeting::new(own.line(), timeout)).transpose()?;
        of_backend!(&mut self.backend, ranks => {
            // Kernels that use what is about to be unmapped.
            let finished = ranks.reach().check_name(registration).and_then(|()| ranks.finish());
            let Some(meeting) = meeting else {
                finished?;
                return ranks.reach_mut().release(registration).map(drop);
            };
            let ((), words) = meeting.step(finished, |()| registration.word().into_bytes())?;
            if words.iter().any(|word| *word != words[0]) {
                let names = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
                return Err(Error::disagreement("which registration to release".to_owned(), names));
            }
            // When all have let go of it, and not before, its memory may be freed.
            meeting.done(ranks.reach_mut().release(registration).map(drop))
        })
    }

    /// Makes known to all ranks the buffers of calls that were captured as [`Registered::Later`] since the last time:
    /// of any number of calls and graphs. All ranks call it, after they have captured the same calls in the same
    /// order, and before any of those graphs is launched. What graphs that are gone have held is free again; for that
    /// it waits for all work on this process's GPUs.
    ///
    /// Not while a stream is being captured. The memory of the buffers stays allocated as long as the graph may be
    /// launched on any rank; of a graph that was dropped before, until the driver has let go of it. The calls of such a
    /// graph are compared with the others, and then left out.
    ///
    /// # Errors
    /// On every rank the same [`Error::Disagreement`] for the first call that is not the same on all,
    /// [`Error::RankFailed`] with what a rank's last [`capture`](Communicator::capture) failed for where it lacks that one, and
    /// [`Error::NotShareable`]; otherwise as [`Communicator::register`]. Then the graphs captured since the last time
    /// must not be launched: their kernels would find no buffers, leave at once, and [`Communicator::check`] says so.
    pub fn finish_capture(&mut self) -> Result<()> {
        let _finish_capture = spans::finish_capture(self.members.first).entered();
        let right = self.check_goes_on();
        let Some(own) = &mut self.line else { return right };
        let failed = own.failed();
        let meeting = Meeting::new(own.line(), self.options.connect_timeout)?;
        of_backend!(&mut self.backend, ranks => {
            let rows = ranks.reach().returned();
            let finished = right.and_then(|()| if rows.is_empty() { Ok(()) } else { ranks.finish() });
            let ready = meeting.done(ranks.reach_mut().reclaim(rows, finished));
            // What was captured until now is left out everywhere.
            ready.inspect_err(|_| ranks.reach_mut().forget_after(0))?;
            ranks.reach_mut().finish_capture(&meeting, failed.as_deref())
        })
    }

    /// Where a call finds the buffers of all ranks; a captured one is noted.
    pub(super) fn peers(
        &mut self,
        request: &Request,
        plan: &Plan,
        buffers: &[RawBuffers<'_>],
        call: &CallOptions,
    ) -> Result<Peers> {
        let bytes = request.bytes;
        let input_spans = || buffers.iter().map(|b| Span { address: b.input, bytes });
        let output_spans = || buffers.iter().map(|b| Span { address: b.output, bytes });
        match call.registered {
            Registered::No => Ok(Peers::Local),
            Registered::By { input, output } => of_backend!(&self.backend, ranks => {
                let reach = ranks.reach();
                let inputs = reach.addresses(input, input_spans())?;
                let outputs = reach.addresses(output, output_spans())?;
                // One name for one buffer: otherwise each rank would find for itself whether a call is in place.
                if input != output && request.in_place {
                    let rank = self.members.first;
                    return Err(Error::Overlap { rank, other: "input", other_rank: rank, overlap_bytes: bytes });
                }
                Ok(if plan.uses_buffers() { Peers::At { inputs, outputs } } else { Peers::Local })
            }),
            // All are here, and reach each other's buffers.
            Registered::Later if self.members.all_local() => Ok(Peers::Local),
            Registered::Later if self.options.captured_calls == 0 => {
                Err(Error::NotDeclared { what: "a captured call", option: "captured_calls" })
            }
            Registered::Later => of_backend!(&mut self.backend, ranks => {
                let lease = ranks.capturing(buffers)?;
                let used = input_spans().next().zip(output_spans().next()).filter(|_| plan.uses_buffers());
                let recorded = Recorded { what: described(request, plan), buffers: used.map(<[Span; 2]>::from) };
                let row = ranks.reach_mut().note(recorded, &lease)?;
                Ok(row.map_or(Peers::Local, |row| Peers::Row(ranks.row_address(row))))
            }),
        }
    }
}

/// All of a captured call that must be the same on all ranks.
fn described(request: &Request, plan: &Plan) -> String {
    let Request { dtype, elems, in_place, .. } = request;
    let Plan { algorithm, input, protocol, blocks, threads } = plan;
    format!(
        "{elems} {}{}, {} {} {:#x}, {blocks} blocks of {threads}",
        dtype.name(),
        if *in_place { " in place" } else { "" },
        algorithm.name(),
        input.name(),
        protocol.encode(),
    )
}
