//! The CPU backend: ranks are threads on ordinary memory, running the kernels' own source. All of them are in this process, or
//! each is in a process of its own.
//!
//! A communicator has one thread for each (rank, block, thread) of its largest shape, in the process of the rank. They sleep between calls; in a
//! call a thread that waits for a peer gives the processor away, so that eight ranks run on two cores.
//!
//! | file | what |
//! |---|---|
//! | `machine.rs` | what one thread can do: atomics on addresses |
//! | `block.rs` | a block's barrier |
//! | `kernels.rs` | which instance of the source a call runs |
//! | `workers.rs` | the threads, and a job handed to all of them |
//! | `area.rs` | the memory of a workspace |
//! | `boards.rs` | what the host tells ranks, and what they have left word of |
//! | `sharing.rs` | buffers that other processes map, and the rows of captured calls |
//! | `ranks.rs` | workspaces, and a plan made into jobs |
//! | `self_test.rs` | what the self-test asks of them |
//! | `stand_in.rs` | kernels that a test's driver runs in a GPU's place; with the feature `driver-faults` |

mod area;
mod block;
mod boards;
mod kernels;
mod machine;
#[cfg(test)]
pub(crate) mod planted;
mod ranks;
mod self_test;
mod sharing;
#[cfg(feature = "driver-faults")]
pub(crate) mod stand_in;
mod workers;

pub(crate) use ranks::{CpuRanks, CpuRecording};
pub(crate) use sharing::HostMemory;
