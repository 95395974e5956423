//! Where the ranks of a group meet that are processes of their own: a few small collectives over bytes, each with a deadline.

use std::time::Instant;

mod error;

pub use error::RendezvousError;

/// Where the ranks of a group meet. All ranks make the same calls in the same order.
///
/// A call that fails on one rank fails on all of them within the deadline, and so does each later one.
pub trait Rendezvous {
    /// This rank.
    fn rank(&self) -> u32;

    /// Ranks of the group.
    fn world(&self) -> u32;

    /// The bytes of every rank, in rank order; their lengths may differ.
    ///
    /// # Errors
    /// [`RendezvousError`]: not all ranks came in time, one of them is gone or failed, or they make different calls.
    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError>;

    /// Returns when all ranks have come here.
    ///
    /// # Errors
    /// As [`Rendezvous::all_gather`].
    fn barrier(&self, deadline: Instant) -> Result<(), RendezvousError> {
        self.all_gather(&[], deadline).map(drop)
    }
}
