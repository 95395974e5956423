//! What can keep ranks from meeting.

/// Why ranks did not meet. Every rank that still runs gets one, within the deadline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RendezvousError {
    /// Not all ranks came in time.
    #[error("ranks {missing:?} did not come within the deadline")]
    Missing {
        /// Those that did not come.
        missing: Vec<u32>,
    },
    /// A rank is gone: its process ended, or it left.
    #[error("rank {rank} is gone")]
    Gone {
        /// Which.
        rank: u32,
    },
}
