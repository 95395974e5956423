//! All that a communicator's ranks reach of each other's buffers: the table behind `register`, `release` and
//! `finish_capture`.

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

    /// Makes a buffer of each local rank reachable for all, under a new name; or tells the others why it cannot. `meeting`: of
    /// ranks in several processes.
    pub(crate) fn register(&mut self, meeting: Option<&Meeting<'_>>, spans: Result<&[Span]>) -> Result<Registration> {
        let own = spans.as_ref().copied().unwrap_or_default();
        let reached = match meeting {
            Some(meeting) => reach(&self.sharing, &mut self.opened, meeting, spans)?.into_iter().next(),
            None => Some(self.adopt(spans?)?),
        };
        let Some(Reached { addresses, mappings }) = reached else {
            return Err(Error::RankCount { local: self.members.local as usize, got: 0 });
        };
        // Where it is not known it is not looked at later.
        let ids = own.iter().map(|&span| self.sharing.id(span).ok().flatten()).collect();
        let spans = own;
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

    /// A number that no other communicator of this process has.
    pub(crate) fn owner(&self) -> u32 {
        self.registrations.owner()
    }

    /// Captured calls that are not finished.
    pub(crate) fn pending(&self) -> usize {
        self.captured.pending()
    }

    /// Forgets all of those but the first `count`.
    pub(crate) fn forget_after(&mut self, count: usize) {
        self.captured.forget_after(count);
    }

    /// The rows of graphs that are gone. Once their kernels have ended they go to [`Reach::reclaim`].
    pub(crate) fn returned(&self) -> Vec<u32> {
        self.captured.returned()
    }

    /// Frees rows of graphs that are gone, if their kernels have `ended`.
    pub(crate) fn reclaim(&mut self, rows: Vec<u32>, ended: Result<()>) -> Result<()> {
        self.captured.reclaim(&self.sharing, rows, ended)
    }

    /// Makes the buffers of captured calls known to all ranks.
    pub(crate) fn finish_capture(&mut self, meeting: &Meeting<'_>, failed: Option<&str>) -> Result<()> {
        self.captured.finish(&self.sharing, &mut self.opened, meeting, failed)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    use allfold_kernels::protocol::abi::ROW_WORDS;

    use super::*;
    use crate::reach::Allocation;

    /// Ranks of one process, whose memory is in reach without means.
    struct Here;

    impl Sharing for Here {
        type Mapping = ();

        fn export(&self, rank: u32, span: Span) -> Result<(Allocation, Vec<OwnedFd>)> {
            Err(Error::NotShareable { rank, address: span.address, why: "nobody else is there".into() })
        }

        fn open(&self, _: &Allocation, _: &[OwnedFd]) -> Result<(u64, ())> {
            Err(Error::NotRegistered)
        }

        fn adopt(&self, _: u32, _: Span) -> Result<()> {
            Ok(())
        }

        fn id(&self, _: Span) -> Result<Option<u64>> {
            Ok(None)
        }

        fn write_row(&self, _: u32, _: &[u64; ROW_WORDS]) -> Result<()> {
            Ok(())
        }
    }

    const BYTES: u64 = 1 << 20;

    fn spans() -> [Span; 8] {
        std::array::from_fn(|rank| Span { address: (rank as u64 + 1) << 30, bytes: BYTES })
    }

    #[test]
    fn a_name_is_looked_up_in_less_than_a_tenth_of_a_microsecond() {
        const TURNS: usize = 1000;
        let mut reach = Reach::new(Here, Members::all(8), 0);
        let names: Vec<_> = (0..TURNS).map(|_| reach.register(None, Ok(&spans())).expect("all are here")).collect();
        let inner = spans().map(|span| Span { address: span.address + 4096, bytes: 4096 });
        let round = |_| {
            let begun = Instant::now();
            for &name in &names {
                let addresses = reach.addresses(black_box(name), black_box(inner).into_iter());
                black_box(addresses.expect("they lie inside"));
            }
            begun.elapsed().as_secs_f64() * 1e6 / TURNS as f64
        };
        // The host is shared: the fastest round counts.
        let fastest = (0..100).map(round).fold(f64::INFINITY, f64::min);
        println!("a look-up of 8 local ranks: {fastest:.4} µs");
        assert!(fastest < 0.1, "{fastest} µs");
    }

    #[test]
    fn lengths_that_differ_are_named_with_their_ranks() {
        let mut reach = Reach::new(Here, Members::all(3), 0);
        let mut three = [spans()[0], spans()[1], spans()[2]];
        three[1].bytes = 7;
        let error = reach.register(None, Ok(&three)).expect_err("they differ");
        assert_eq!(
            error.to_string(),
            "ranks disagree on the bytes of registered buffer 0: 1048576 on ranks [0, 2], 7 on ranks [1]"
        );
    }
}
