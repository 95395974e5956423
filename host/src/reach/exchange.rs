//! Buffers of each rank made reachable for all, in three steps that all ranks take together: tell, send descriptors,
//! map.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

use allfold_kernels::protocol::abi::MAX_RANKS;

use super::allocation::{self, Allocation, Shared, Told};
use super::{Sharing, Span};
use crate::error::{Error, Result};
use crate::processes::{Meeting, exchange};

/// A buffer of each rank, in reach of this one.
pub(super) struct Reached<M> {
    /// Where each rank's is, in this process.
    pub(super) addresses: [u64; MAX_RANKS],
    /// What keeps those of other processes in reach.
    pub(super) mappings: Vec<Arc<M>>,
}

/// Other processes' allocations that are mapped here, so that each is mapped once, however many buffers lie in it.
pub(super) struct Opened<M>(Vec<Known<M>>);

struct Known<M> {
    rank: u32,
    allocation: Allocation,
    start: u64,
    mapping: Weak<M>,
}

impl<M> Default for Opened<M> {
    fn default() -> Self {
        Opened(Vec::new())
    }
}

impl<M> Opened<M> {
    fn get(&mut self, rank: u32, allocation: &Allocation) -> Option<(u64, Arc<M>)> {
        self.0.retain(|known| known.mapping.strong_count() > 0);
        let known = self.0.iter().find(|known| known.rank == rank && known.allocation == *allocation)?;
        Some((known.start, known.mapping.upgrade()?))
    }
}

/// What this rank tells, and the descriptors that go with it.
struct Offer {
    told: Told,
    descriptors: Vec<OwnedFd>,
}

impl Offer {
    fn new<S: Sharing>(sharing: &S, rank: u32, spans: &[Span]) -> Result<Offer> {
        let told = Told { process: allocation::process()?, allocations: Vec::new(), buffers: Vec::new() };
        let mut offer = Offer { told, descriptors: Vec::new() };
        for &span in spans {
            let (index, offset) = match offer.place(span) {
                Some(place) => place,
                None => {
                    let (allocation, descriptors) = sharing.export(rank, span)?;
                    offer.told.allocations.push(allocation);
                    offer.descriptors.extend(descriptors);
                    // An allocation that is offered holds what it was asked for.
                    offer.place(span).unwrap_or_default()
                }
            };
            offer.told.buffers.push((index, offset, span.bytes));
        }
        Ok(offer)
    }

    /// In which of the allocations a buffer lies, and where.
    fn place(&self, span: Span) -> Option<(u32, u64)> {
        (0..).zip(&self.told.allocations).find_map(|(index, it)| Some((index, it.span.offset_of(span)?)))
    }
}

/// Makes `spans` of this rank, which are as many as those of each other one and as long, reachable for all; or tells the others
/// why it cannot.
///
/// # Errors
/// On every rank the same [`Error::Disagreement`] where lengths differ, and [`Error::NotShareable`] for a buffer that
/// others cannot map; else that of the step that failed, and [`Error::RankFailed`] on the other ranks.
pub(super) fn reach<S: Sharing>(
    sharing: &S,
    opened: &mut Opened<S::Mapping>,
    meeting: &Meeting<'_>,
    spans: Result<&[Span]>,
) -> Result<Vec<Reached<S::Mapping>>> {
    let offer = spans.and_then(|spans| Ok((Offer::new(sharing, meeting.rank(), spans)?, spans)));
    let ((offer, spans), words) = meeting.step_long(offer, |(offer, _)| offer.told.encode())?;
    let told = (0..).zip(&words).map(|(rank, word)| {
        let failed =
            || Error::RankFailed { rank, why: "it said of its buffers what this version does not know".into() };
        Told::decode(word).filter(|told| told.buffers.len() == spans.len()).ok_or_else(failed)
    });
    let told = meeting.done(told.collect::<Result<Vec<_>>>())?;
    compare(&told)?;

    let descriptors: Vec<_> = offer.descriptors.iter().map(AsFd::as_fd).collect();
    let received = match told.iter().all(|told| told.allocations.iter().all(|it| it.descriptors() == 0)) {
        true => told.iter().map(|_| Vec::new()).collect(),
        false => exchange(meeting, &descriptors)?,
    };
    let mapped = (0..).zip(told.iter().zip(received)).map(|(rank, (theirs, received))| {
        if rank == meeting.rank() || theirs.process == offer.told.process {
            return in_this_process(sharing, rank, theirs, spans.len());
        }
        map(sharing, opened, rank, theirs, received)
    });
    let mapped = meeting.done(mapped.collect::<Result<Vec<_>>>())?;

    let mut reached: Vec<_> =
        spans.iter().map(|_| Reached { addresses: [0; MAX_RANKS], mappings: Vec::new() }).collect();
    for (rank, buffers) in mapped.into_iter().enumerate() {
        for (reached, (address, mapping)) in reached.iter_mut().zip(buffers) {
            reached.addresses[rank] = address;
            reached.mappings.extend(mapping);
        }
    }
    Ok(reached)
}

/// Each buffer of a rank here, and what keeps it in reach.
type Mapped<M> = Vec<(u64, Option<Arc<M>>)>;

/// Of a rank in this process: where they are.
fn in_this_process<S: Sharing>(sharing: &S, rank: u32, told: &Told, count: usize) -> Result<Mapped<S::Mapping>> {
    let mut buffers = Vec::with_capacity(count);
    for &(index, offset, bytes) in &told.buffers {
        // Decoding has seen that it lies inside.
        let address = told.allocations[index as usize].span.address + offset;
        sharing.adopt(rank, Span { address, bytes })?;
        buffers.push((address, None));
    }
    Ok(buffers)
}

/// Of a rank in another process: each allocation mapped once.
fn map<S: Sharing>(
    sharing: &S,
    opened: &mut Opened<S::Mapping>,
    rank: u32,
    told: &Told,
    descriptors: Vec<OwnedFd>,
) -> Result<Mapped<S::Mapping>> {
    let mut descriptors = descriptors.into_iter();
    let mut starts = Vec::with_capacity(told.allocations.len());
    for allocation in &told.allocations {
        let own: Vec<_> = descriptors.by_ref().take(allocation.descriptors()).collect();
        let (start, mapping) = match opened.get(rank, allocation) {
            Some(known) => known,
            None => {
                let (start, mapping) = sharing.open(allocation, &own)?;
                let mapping = Arc::new(mapping);
                let known = Known { rank, allocation: allocation.clone(), start, mapping: Arc::downgrade(&mapping) };
                opened.0.push(known);
                (start, mapping)
            }
        };
        starts.push((start, mapping));
    }
    let buffer = |&(index, offset, bytes): &(u32, u64, u64)| {
        let (start, mapping) = &starts[index as usize];
        let address = start.checked_add(offset).filter(|address| address.checked_add(bytes).is_some());
        let failed = || Error::RankFailed { rank, why: "it told of a buffer that no process has room for".to_owned() };
        Ok((address.ok_or_else(failed)?, Some(Arc::clone(mapping))))
    };
    told.buffers.iter().map(buffer).collect()
}

/// Refuses what cannot be shared and buffers of different lengths; on every rank the same.
fn compare(told: &[Told]) -> Result<()> {
    for (rank, theirs) in (0..).zip(told) {
        let alone = told.iter().all(|other| other.process == theirs.process);
        for &(index, offset, _) in theirs.buffers.iter().filter(|_| !alone) {
            let Allocation { span, shared, .. } = &theirs.allocations[index as usize];
            if let Shared::Not(why) = shared {
                return Err(Error::NotShareable { rank, address: span.address + offset, why: why.clone() });
            }
        }
    }
    let Some(first) = told.first() else { return Ok(()) };
    for (number, &(_, _, bytes)) in first.buffers.iter().enumerate() {
        if told.iter().any(|theirs| theirs.buffers[number].2 != bytes) {
            let lengths = told.iter().map(|theirs| theirs.buffers[number].2.to_string());
            return Err(Error::disagreement(format!("the bytes of registered buffer {number}"), lengths));
        }
    }
    Ok(())
}
