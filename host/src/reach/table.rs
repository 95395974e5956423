//! All that a communicator's ranks reach of each other's buffers: the table behind `register`, `release` and `finish_capture`.

use std::sync::Arc;

use allfold_kernels::protocol::abi::MAX_RANKS;

use super::exchange::{Opened, Reached, reach};
use super::registration::{Entry, Registrations};
use super::{Captured, Lease, Recorded, Registration, Sharing, Span};
use crate::error::{Error, Result};
use crate::members::Members;
use crate::processes::Meeting;

/// What is in reach, by the means of a backend.
pub(crate) struct Reach<S: Sharing> {
    pub(crate) sharing: S,
    members: Members,
    opened: Opened<S::Mapping>,
    registrations: Registrations<S::Mapping>,
    captured: Captured<S::Mapping>,
}

impl<S: Sharing> Reach<S> {
    /// Nothing so far, with rows for `captured_calls`.
    pub(crate) fn new(sharing: S, members: Members, captured_calls: u32) -> Reach<S> {
        Reach {
            sharing,
            members,
            opened: Opened::default(),
            registrations: Registrations::new(),
            captured: Captured::new(captured_calls),
        }
    }

    /// Makes a buffer of each local rank reachable for all, under a new name. `meeting`: of ranks in several processes.
    pub(crate) fn register(&mut self, meeting: Option<&Meeting<'_>>, spans: &[Span]) -> Result<Registration> {
        let ids = spans.iter().map(|&span| self.sharing.id(span)).collect();
        let reached = match meeting {
            Some(meeting) => reach(&self.sharing, &mut self.opened, meeting, spans)?.into_iter().next(),
            None => Some(self.adopt(spans)?),
        };
        let Some(Reached { addresses, mappings }) = reached else {
            return Err(Error::RankCount { local: self.members.local as usize, got: 0 });
        };
        Ok(self.registrations.add(Entry { local: spans.to_vec(), ids, addresses, _mappings: mappings }))
    }

    /// Buffers of ranks that are all in this process.
    fn adopt(&self, spans: &[Span]) -> Result<Reached<S::Mapping>> {
        let mut addresses = [0; MAX_RANKS];
        let lengths = || spans.iter().map(|span| span.bytes.to_string());
        if spans.windows(2).any(|pair| pair[0].bytes != pair[1].bytes) {
            return Err(Error::disagreement("the bytes of registered buffer 0".to_owned(), lengths()));
        }
        for ((rank, &span), address) in (0..).zip(spans).zip(&mut addresses) {
            self.sharing.adopt(rank, span)?;
            *address = span.address;
        }
        Ok(Reached { addresses, mappings: Vec::new() })
    }

    /// Takes a name back. No kernel uses its buffers any more; what keeps them in reach goes with the answer.
    pub(crate) fn release(&mut self, name: Registration) -> Result<Entry<S::Mapping>> {
        self.registrations.remove(name)
    }

    /// Whether there is such a name.
    pub(crate) fn check_name(&self, name: Registration) -> Result<()> {
        self.registrations.get(name).map(drop)
    }

    /// Where the buffers of all ranks are that lie in `name` as `own`, those of the local ranks, do.
    pub(crate) fn addresses(&self, name: Registration, own: impl Iterator<Item = Span>) -> Result<[u64; MAX_RANKS]> {
        self.registrations.get(name)?.addresses(own, self.members.first)
    }

    /// Refuses registered memory that has been freed.
    pub(crate) fn check(&self) -> Result<()> {
        self.registrations.check(&self.sharing, self.members.first)
    }

    /// For the rows of a graph.
    pub(crate) fn lease(&self) -> Lease {
        self.captured.lease()
    }

    /// Notes a captured call, and gives the row that its kernel is to read, if it needs one.
    pub(crate) fn note(&mut self, recorded: Recorded, lease: &Arc<Lease>) -> Result<Option<u32>> {
        self.captured.note(recorded, lease)
    }

    /// Captured calls that are not finished.
    pub(crate) fn pending(&self) -> usize {
        self.captured.pending()
    }

    /// Forgets all of those but the first `count`.
    pub(crate) fn forget_after(&mut self, count: usize) {
        self.captured.forget_after(count);
    }

    /// Whether graphs are gone since the last finish, so that their kernels have to be waited for.
    pub(crate) fn has_returned(&self) -> bool {
        self.captured.has_returned()
    }

    /// Frees the rows of graphs that are gone. Their kernels have ended.
    pub(crate) fn reclaim(&mut self) -> Result<()> {
        self.captured.reclaim(&self.sharing)
    }

    /// Makes the buffers of captured calls known to all ranks. Kernels of graphs that are gone have ended.
    pub(crate) fn finish_capture(&mut self, meeting: &Meeting<'_>) -> Result<()> {
        meeting.done(self.reclaim())?;
        self.captured.finish(&self.sharing, &mut self.opened, meeting)
    }

    /// Leaves everything in reach for good: kernels may run that nobody can wait for.
    pub(crate) fn leave(&mut self) {
        std::mem::forget(std::mem::replace(&mut self.registrations, Registrations::new()));
        std::mem::forget(std::mem::replace(&mut self.captured, Captured::new(0)));
    }
}
