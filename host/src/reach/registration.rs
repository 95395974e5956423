//! Registered buffers by name, and the table that a call looks them up in: an index and two comparisons.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use allfold_kernels::protocol::abi::MAX_RANKS;

use super::{Sharing, Span};
use crate::error::{Error, Result};

/// A buffer of each rank that all ranks reach: the name by which calls say so. See
/// [`Communicator::register`](crate::Communicator::register).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Of which communicator.
    owner: u32,
    /// Its place in the table.
    index: u32,
    /// Which of those that had that place.
    serial: u32,
}

impl Registration {
    /// What is the same on all ranks.
    pub(crate) fn word(self) -> String {
        format!("{}.{}", self.index, self.serial)
    }
}

/// Whether the buffers of a call are registered: the same on all ranks, which declare it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registered {
    /// They are not. In one process ranks reach each other's buffers all the same; between processes only what is
    /// pushed or staged can be used.
    #[default]
    No,
    /// Each rank's input lies in what it registered as `input`, and its output in `output`, which may be the same; on
    /// all ranks at the same distance from the start.
    By {
        /// Where inputs are.
        input: Registration,
        /// Where outputs are.
        output: Registration,
    },
    /// They will be: the call is captured, and [`Communicator::finish_capture`](crate::Communicator::finish_capture)
    /// makes the buffers of all ranks known before the graph is launched.
    Later,
}

/// What is registered under a name.
pub(crate) struct Entry<M> {
    /// Each local rank's.
    pub(crate) local: Vec<Span>,
    /// The numbers of the allocations that they lay in.
    pub(crate) ids: Vec<Option<u64>>,
    /// Each rank's, in this process.
    pub(crate) addresses: [u64; MAX_RANKS],
    /// What keeps those of other processes in reach.
    pub(crate) _mappings: Vec<Arc<M>>,
}

/// The table of a communicator.
pub(crate) struct Registrations<M> {
    owner: u32,
    places: Vec<Place<M>>,
}

struct Place<M> {
    serial: u32,
    entry: Option<Entry<M>>,
}

impl<M> Registrations<M> {
    pub(crate) fn new() -> Registrations<M> {
        static OWNERS: AtomicU32 = AtomicU32::new(0);
        Registrations { owner: OWNERS.fetch_add(1, Ordering::Relaxed), places: Vec::new() }
    }

    /// Which communicator's.
    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    /// A name for `entry`.
    pub(crate) fn add(&mut self, entry: Entry<M>) -> Registration {
        let free = self.places.iter().position(|place| place.entry.is_none());
        let index = free.unwrap_or_else(|| {
            self.places.push(Place { serial: 0, entry: None });
            self.places.len() - 1
        });
        let place = &mut self.places[index];
        place.serial = place.serial.wrapping_add(1);
        place.entry = Some(entry);
        Registration { owner: self.owner, index: index as u32, serial: place.serial }
    }

    /// What `name` stands for.
    ///
    /// # Errors
    /// [`Error::NotRegistered`].
    pub(crate) fn get(&self, name: Registration) -> Result<&Entry<M>> {
        let place = self.places.get(name.index as usize).filter(|place| place.serial == name.serial);
        let entry = place.filter(|_| name.owner == self.owner).and_then(|place| place.entry.as_ref());
        entry.ok_or(Error::NotRegistered)
    }

    /// Takes the name from what it stands for.
    ///
    /// # Errors
    /// As [`Registrations::get`].
    pub(crate) fn remove(&mut self, name: Registration) -> Result<Entry<M>> {
        self.get(name)?;
        self.places[name.index as usize].entry.take().ok_or(Error::NotRegistered)
    }

    /// Refuses the first buffer whose memory has been freed since, as far as the backend knows.
    ///
    /// # Errors
    /// [`Error::BufferFreed`]; [`Error::Driver`], where the backend could not be asked.
    pub(crate) fn check<S: Sharing>(&self, sharing: &S, first_rank: u32) -> Result<()> {
        for entry in self.places.iter().filter_map(|place| place.entry.as_ref()) {
            for (rank, (span, id)) in (first_rank..).zip(entry.local.iter().zip(&entry.ids)) {
                if id.is_some() && sharing.id(*span)? != *id {
                    return Err(Error::BufferFreed { rank, address: span.address });
                }
            }
        }
        Ok(())
    }
}

impl<M> Entry<M> {
    /// Where the buffers of all ranks are that lie here as `own` does, those of the local ranks in order.
    ///
    /// # Errors
    /// [`Error::OutsideRegistration`]: one of them does not, or not at the same distance from the start as the first.
    pub(crate) fn addresses(&self, own: impl Iterator<Item = Span>, first_rank: u32) -> Result<[u64; MAX_RANKS]> {
        let mut common = None;
        for (rank, (outer, inner)) in (first_rank..).zip(self.local.iter().zip(own)) {
            let outside = || Error::OutsideRegistration { rank, address: inner.address, bytes: inner.bytes };
            let offset = outer.offset_of(inner).ok_or_else(outside)?;
            if *common.get_or_insert(offset) != offset {
                return Err(outside());
            }
        }
        let offset = common.unwrap_or(0);
        Ok(self.addresses.map(|address| if address == 0 { 0 } else { address + offset }))
    }
}
