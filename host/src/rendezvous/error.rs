//! What can keep ranks from meeting.

use super::EnvironmentError;
use super::call::Call;
use crate::MAX_RANKS;

/// Why ranks did not meet. Every rank that still runs gets one, within the deadline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// Rank 0 is where the others meet, and nobody answers there.
    #[error("rank 0 does not answer at {address}: {why}")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// What the last attempt came to.
        why: String,
    },
    /// Whoever answers at rank 0's address is no rank of this library.
    #[error("what answers at {address} is not allfold")]
    NotAllfold {
        /// The address.
        address: String,
    },
    /// Somebody else listens at the address of rank 0.
    #[error("{address} is in use by another program, or by another rank 0: rank 0 cannot listen there")]
    InUse {
        /// The address.
        address: String,
    },
    /// Rank 0 cannot listen at its address.
    #[error("rank 0 cannot listen at {address}: {why}")]
    Listen {
        /// The address.
        address: String,
        /// The system's words.
        why: String,
    },
    /// This rank's secret is not rank 0's. The group goes on waiting for one who has it.
    #[error("the secret of rank {rank} is not the secret of rank 0")]
    Secret {
        /// Who was refused, or who refused rank 0.
        rank: u32,
    },
    /// A group of no ranks, or of more than there can be.
    #[error("{world} ranks asked for: a group has 1 to {MAX_RANKS}")]
    WorldSize {
        /// Ranks asked for.
        world: u32,
    },
    /// A rank that the group does not have.
    #[error("rank {rank} in a group of {world} ranks")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Ranks of the group.
        world: u32,
    },
    /// Ranks disagree on how many there are.
    #[error("rank {rank} belongs to a group of {theirs} ranks, rank 0 to one of {ours}")]
    World {
        /// Who differs from rank 0.
        rank: u32,
        /// Its ranks.
        theirs: u32,
        /// Those of rank 0.
        ours: u32,
    },
    /// Ranks run different versions of this library.
    #[error("rank {rank} runs allfold {theirs}, rank 0 runs {ours}")]
    Version {
        /// Who differs from rank 0.
        rank: u32,
        /// Its version.
        theirs: String,
        /// The version of rank 0.
        ours: String,
    },
    /// Ranks speak different versions of the rendezvous' protocol.
    #[error("rank {rank} speaks version {theirs} of the rendezvous, rank 0 version {ours}")]
    Protocol {
        /// Who differs from rank 0.
        rank: u32,
        /// Its version.
        theirs: u32,
        /// The version of rank 0.
        ours: u32,
    },
    /// Two processes say that they are the same rank.
    #[error("two processes say that they are rank {rank}")]
    Twice {
        /// Which.
        rank: u32,
    },
    /// Ranks make different calls at the same place.
    #[error("call {sequence}: rank {rank} makes {call}, rank {other_rank} makes {other_call}")]
    DifferentCalls {
        /// Which call of the group, counted from 0, the meeting itself.
        sequence: u64,
        /// Who came second.
        rank: u32,
        /// Its call.
        call: Call,
        /// Who came before.
        other_rank: u32,
        /// That one's call.
        other_call: Call,
    },
    /// A rank counts its calls differently.
    #[error("rank {rank} is at call {sequence}, and the group at call {expected}")]
    OutOfStep {
        /// Which.
        rank: u32,
        /// Where it is.
        sequence: u64,
        /// Where the group is.
        expected: u64,
    },
    /// A rank gives more bytes than a call takes.
    #[error("rank {rank} gives {bytes} bytes: a call takes {most_bytes} of a rank")]
    TooLong {
        /// Which.
        rank: u32,
        /// Its bytes.
        bytes: u64,
        /// The most that there may be.
        most_bytes: u64,
    },
    /// What a rank sends cannot be read.
    #[error("what rank {rank} sends cannot be read")]
    Garbled {
        /// Which.
        rank: u32,
    },
    /// The host refuses what this needs: a thread, a file descriptor, a random number. What rank 0 lacks is said on all ranks.
    #[error("{what}: {why}")]
    Host {
        /// What was being done.
        what: &'static str,
        /// The system's words.
        why: String,
    },
    /// The environment does not say which rank this is.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}
