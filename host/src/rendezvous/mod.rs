//! Where the ranks of a group meet that are processes of their own: a few small collectives over bytes, each with a
//! deadline.
//!
//! | | ranks are | they meet |
//! |---|---|---|
//! | [`Environment::join`] | processes that `allfold launch`, `torchrun` or Slurm started | where the environment says |
//! | [`Tcp::join`] | processes | at a TCP address of this machine |
//! | [`Unix::join`] | processes | at a Unix-domain socket |
//! | `Mpi::join`, with feature `mpi` | processes that `mpirun` started | by MPI's messages |
//! | [`local()`] | threads of one process | in its memory |
//!
//! All behave alike, but that `Mpi` has neither threads nor addresses: its documentation says what follows. Whatever
//! keeps ranks from meeting is one [`RendezvousError`] on each of them, within the deadline; at
//! most 0.2 s after it where a rank waits for the word of rank 0, which knows who is missing.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//!
//! use allfold::rendezvous::{Environment, Rendezvous};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let deadline = Instant::now() + Duration::from_secs(60);
//! let ranks = Environment::read()?.join(deadline)?;
//! let process_ids = ranks.all_gather(&std::process::id().to_le_bytes(), deadline)?;
//! # drop(process_ids);
//! # Ok(())
//! # }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `meeting.rs` | who has come to a call, what came of it, what went wrong; `local.rs` is that and no more |
//! | `hub.rs`, `served.rs` | rank 0's threads, which bring the others' calls to the meeting: at the door, and for each rank |
//! | `client.rs` | the others |
//! | `seat.rs` | a rank of either side |
//! | `tcp.rs`, `unix.rs`, `stream.rs` | what differs between connections, and their deadlines |
//! | `line.rs` | what a communicator of several processes has of its own, to meet again without the caller's rendezvous |
//! | `star.rs`, `said.rs`, `mpi.rs` | ranks without connections: by messages that each looks for in its calls |
//! | `handshake.rs`, `secret.rs` | how ranks know each other |
//! | `frame.rs`, `failure.rs`, `bytes.rs` | what they send |

use std::time::Instant;

mod bytes;
mod call;
mod client;
mod environment;
mod error;
mod failure;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handshake;
mod hub;
mod line;
mod local;
mod meeting;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(any(test, fuzzing, feature = "mpi"))]
mod said;
mod seat;
mod secret;
mod served;
#[cfg(any(test, feature = "mpi"))]
mod star;
mod stream;
mod tcp;
#[cfg(test)]
mod tests;
mod unix;

pub(crate) use bytes::{Reader, Writer};
pub use call::{Call, MOST_BYTES};
pub use environment::{Environment, EnvironmentError};
pub use error::RendezvousError;
pub(crate) use line::{Line, Seed, Ticket, check_user};
pub use local::{Local, local};
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use secret::Secret;
pub use tcp::Tcp;
pub use unix::Unix;

/// Most ranks of a group.
const MAX_WORLD: u32 = crate::MAX_RANKS as u32;

/// Where the ranks of a group meet. All ranks make the same calls in the same order.
///
/// A call that fails on one rank fails on all of them within the deadline, and so does each later one. But what all came to is
/// done: where a rank goes away, or is cut off, before it has heard so, the others hear of that at their next call. Rank 0
/// returns from a call when all have been sent what came of it, or at the deadline: it may end then, and fail nobody's call.
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

/// Whether there can be such a rank.
fn check(rank: u32, world: u32) -> Result<(), RendezvousError> {
    if world == 0 || world > MAX_WORLD {
        return Err(RendezvousError::WorldSize { world });
    }
    if rank >= world {
        return Err(RendezvousError::NoSuchRank { rank, world });
    }
    Ok(())
}
