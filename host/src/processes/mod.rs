//! Ranks that are processes of their own: how they come to one communicator, whatever the backend. Uses `std`,
//! `rustix` and a
//! [`Rendezvous`](crate::rendezvous::Rendezvous).
//!
//! | file | what |
//! |---|---|
//! | `meeting.rs` | steps that succeed on all ranks or fail on all |
//! | `agreement.rs` | what has to be the same on all ranks, compared |
//! | `line.rs` | a line of their own, for all that comes after that |
//! | `host.rs` | which host this is, and whose process |
//! | `descriptors.rs` | file descriptors of each rank to all others |
//! | `room.rs` | whether there is memory for all |
//! | `shared_memory.rs` | memory that all of them map |
//! | `watch.rs` | sees it when one of them ends |
//!
//! The way of a connection:
//!
//! ```text
//! meet          versions, host, options compared           -> Error::Disagreement on every rank
//! open a line   rank 0 tells all where they meet again     -> its error, and Error::RankFailed on the others
//! allocate      if there is room, each its own workspace   -> as above
//! exchange      a descriptor of it to every other rank     -> as above
//! map           each rank the workspaces of all others     -> as above
//! ```
//!
//! The caller's rendezvous serves the first two; the line lives as long as the communicator.
//!
//! Nothing is left behind, however it ends: the memory has no name and is not in `/dev/shm`, however small that is,
//! the sockets are abstract ones, and descriptors are closed once the memory is mapped. Memory lives until the last
//! process that has mapped it unmaps it or ends: a rank that leaves takes nothing from its peers.

mod agreement;
mod descriptors;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod host;
mod line;
mod meeting;
mod room;
mod shared_memory;
mod watch;

pub(crate) use agreement::{agree, describe};
pub(crate) use descriptors::exchange;
pub(crate) use host::identity;
pub(crate) use line::{of_seats, open_line};
pub(crate) use meeting::{Meeting, deadline_after};
pub(crate) use room::check_room;
pub(crate) use shared_memory::SharedMemory;
pub(crate) use watch::Watch;
