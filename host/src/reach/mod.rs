//! How ranks reach each other's buffers: those that all of them have registered, and those of captured calls, which
//! are made known when the capture is finished. Knows nothing of a backend but [`Sharing`]; uses `processes/`.
//!
//! | file | what |
//! |---|---|
//! | `span.rs` | memory, by address and length |
//! | `allocation.rs` | what a rank tells of the allocation that its buffers lie in |
//! | `exchange.rs` | each rank's buffers made reachable for all: the only step that ranks take together |
//! | `table.rs` | all of it, for one communicator |
//! | `registration.rs` | buffers by name, and the table that a call looks them up in |
//! | `captured.rs` | captured calls until they are finished, and the rows that their kernels read |
//!
//! Whether a call's buffers are registered is what its caller declares, on all ranks the same. Nothing is looked for
//! in a cache that one rank has and another has not.

use std::os::fd::OwnedFd;

use allfold_kernels::protocol::abi::ROW_WORDS;

use crate::error::Result;

mod allocation;
mod captured;
mod exchange;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod registration;
mod span;
mod table;

pub(crate) use allocation::{Allocation, IPC_BYTES, Shared};
use captured::Captured;
pub(crate) use captured::{Lease, Recorded};
pub use registration::{Registered, Registration};
pub use span::Span;
pub(crate) use table::Reach;

/// What a backend does so that ranks reach each other's buffers.
pub(crate) trait Sharing {
    /// Another process's allocation, in reach as long as this lives.
    type Mapping: Send + Sync;

    /// The allocation of this process in which `rank`'s `span` lies as a whole, and descriptors by which other
    /// processes map it.
    fn export(&self, rank: u32, span: Span) -> Result<(Allocation, Vec<OwnedFd>)>;

    /// Where another process's allocation starts here, and what keeps it in reach.
    fn open(&self, allocation: &Allocation, descriptors: &[OwnedFd]) -> Result<(u64, Self::Mapping)>;

    /// Lets the local ranks use what `rank`, of this process, has at `span`.
    fn adopt(&self, rank: u32, span: Span) -> Result<()>;

    /// A number that no other allocation of this process has or had; `None` where nothing is allocated any more, or
    /// no memory has such numbers.
    fn id(&self, span: Span) -> Result<Option<u64>>;

    /// Writes a row of the local rank's memory, and waits until kernels see it.
    fn write_row(&self, row: u32, words: &[u64; ROW_WORDS]) -> Result<()>;
}
