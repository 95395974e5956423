//! The GPU backend, on a driver that is opened at run time.
//!
//! | file | what |
//! |---|---|
//! | `driver.rs` | opens `libcuda.so.1`; the driver's functions under their own names; `driver/faults.rs` lets them fail, for tests |
//! | `raw.rs` | one checked function for each driver call; the only floor that names `cust::sys` |
//! | `device.rs`, `stream.rs`, `graph.rs` | what users meet: GPUs, streams of anybody, captured graphs |
//! | `peer.rs` | which GPU can reach which |
//! | `ptx.rs`, `ptx/` | the embedded PTX: which file for which GPU, and the entry points that are wanted of it; how it is unpacked |
//! | `kernels.rs` | the kernels of a communicator, loaded on one GPU |
//! | `residency.rs` | how many blocks each communicator may hold of a GPU |
//! | `prepare.rs` | what has to be there before ranks can run |
//! | `connect.rs` | the same where peers are other processes |
//! | `status.rs` | the words that kernels and host leave for each other |
//! | `sharing.rs` | buffers that other processes map, and the rows of captured calls |
//! | `rank.rs`, `turn.rs`, `turns.rs` | what a rank has; on which stream its calls come; the same of all |
//! | `ranks.rs` | workspaces and streams of all ranks; a plan made into launches |
//! | `self_test.rs` | what the self-test asks of them |

mod connect;
pub mod device;
pub(crate) mod driver;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub mod graph;
mod kernels;
pub mod peer;
mod prepare;
pub mod ptx;
mod rank;
mod ranks;
pub(crate) mod raw;
mod residency;
mod self_test;
mod sharing;
mod status;
mod stream;
mod turn;
mod turns;

pub use device::Device;
pub use driver::DriverMissing;
pub use graph::Graph;
pub(crate) use ranks::CudaRanks;
pub use raw::{Context, Current, DeviceHandle, DeviceMemory, DriverError, Event, Stream};
pub use stream::RawStream;
