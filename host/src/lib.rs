//! allfold: all-reduce across the GPUs of one machine, with kernels written in Rust; the same on CPU ranks.
//!
//! ```
//! use allfold::{Communicator, RankBuffers, ReduceOp};
//!
//! # fn main() -> Result<(), allfold::Error> {
//! // Four ranks on this machine's CPU. `Communicator::cuda(&[0, 1])` is the same over two GPUs.
//! let mut ranks = Communicator::cpu(4)?;
//! let mut data: Vec<Vec<f32>> = (0..4).map(|rank| vec![rank as f32; 1000]).collect();
//! let buffers: Vec<_> = data.iter_mut().map(|d| RankBuffers::in_place(d)).collect();
//! ranks.all_reduce(&buffers, ReduceOp::Sum)?;
//! drop(buffers);
//! assert!(data.iter().flatten().all(|&x| x == 0.0 + 1.0 + 2.0 + 3.0));
//! # Ok(())
//! # }
//! ```
//!
//! # The way of a call
//!
//! ```text
//! buffers on each rank
//!   Communicator::all_reduce     communicator.rs
//!     Request::new               request.rs      length, alignment, overlap    -> Error
//!     Plan::choose               plan.rs         pure: bytes, ranks, tuning    -> Plan
//!     launch                     cuda/ or cpu/   Plan + workspaces -> kernel arguments, one launch a rank
//!       ---------------------------------------- allfold_kernels::protocol::abi is the border
//!       one_shot / two_shot      barrier, reduce, barrier
//! ```
//!
//! # On GPUs
//!
//! ```no_run
//! use allfold::{Communicator, RankBuffers, ReduceOp, cuda};
//! use cust::memory::DeviceBuffer;
//! use cust::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut ranks = Communicator::cuda(&[0, 1])?;
//! cust::init(CudaFlags::empty())?;
//! let (mut contexts, mut memory) = (Vec::new(), Vec::new());
//! for gpu in 0..2 {
//!     contexts.push(Context::new(Device::get_device(gpu)?)?); // made current for what follows
//!     let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//!     memory.push((DeviceBuffer::from_slice(&[1.0_f32; 1000])?, DeviceBuffer::from_slice(&[0.0_f32; 1000])?, stream));
//! }
//! let buffers: Vec<_> = memory
//!     .iter_mut()
//!     // SAFETY: the buffers are left alone until the streams have been synchronised below.
//!     .map(|(input, output, stream)| unsafe { RankBuffers::<f32>::device(input, output, stream) })
//!     .collect();
//! ranks.all_reduce(&buffers, ReduceOp::Sum)?; // asynchronous, in each stream's order; may be captured into a graph
//! drop(buffers);
//! for (_, _, stream) in &memory {
//!     stream.synchronize()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Buffers of other libraries go in as pointers, by [`RankBuffers::device_raw`]: `examples/` of the repository does so for cudarc,
//! candle and DLPack. [`cuda::Graph`] captures calls.
//!
//! # A process for each rank
//!
//! Each rank may be a process of its own: on the CPU, or with a GPU by [`Communicator::connect_cuda`]. Started by
//! `allfold launch -n 4 -- PROGRAM`, by `torchrun` or by Slurm:
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//!
//! use allfold::rendezvous::Environment;
//! use allfold::{Communicator, RankBuffers, ReduceOp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ranks = Environment::read()?.join(Instant::now() + Duration::from_secs(60))?;
//! let mut communicator = Communicator::connect_cpu(&ranks)?;
//! let mut data = vec![1.0_f32; 1000]; // this rank's own
//! communicator.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum)?;
//! # Ok(())
//! # }
//! ```
//!
//! In a program that `mpirun` starts, `rendezvous::Mpi` takes the place of [`Environment`](rendezvous::Environment), with feature
//! `mpi`. Any other [`rendezvous::Rendezvous`] does as well. Ranks compare what has to be the same on all, and a rank that fails is an
//! error on every one, within [`Options::connect_timeout`]. Workspaces are shared memory without a name; nothing is left behind,
//! whoever ends and however. `host/examples/processes.rs` is a whole program, and `latency.rs` one with GPUs.
//!
//! Buffers of another process are out of reach: input is pushed, or copied to staging. For large calls that copies nothing
//! [`Communicator::register`] makes a buffer of each rank reachable for all, under a name that calls use
//! ([`CallOptions::registered`]). Between processes any memory of `cuMemAlloc` can be, mapped memory that was made for file descriptors, and
//! [`Memory`]:
//!
//! ```
//! use allfold::{CallOptions, Communicator, Memory, RankBuffers, ReduceOp, Registered, rendezvous};
//!
//! # fn main() -> Result<(), allfold::Error> {
//! # let seat = rendezvous::local(1).expect("one rank").remove(0);
//! let mut communicator = Communicator::connect_cpu(&seat)?; // of any rendezvous
//! let mut memory = Memory::host(1 << 20)?;
//! // SAFETY: the memory lives until it is released.
//! let name = unsafe { communicator.register(&[memory.span()])? };
//! let data = memory.as_mut_slice::<f32>().expect("host memory");
//! let registered = Registered::By { input: name, output: name };
//! let call = CallOptions { registered, ..CallOptions::default() };
//! communicator.all_reduce_with(&[RankBuffers::in_place(data)], ReduceOp::Sum, &call)?;
//! communicator.release(name)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Captured calls
//!
//! Calls may be captured into graphs, by [`Communicator::capture`] or by the means of any framework. Between processes the buffers of
//! captured calls need no name: with [`Registered::Later`] calls are noted, and one [`Communicator::finish_capture`] makes the buffers of all of them known,
//! before the first graph is launched.
//!
//! [`Communicator::split`] makes communicators over some of the ranks, which take turns with the whole.
//!
//! # Whether ranks reach each other
//!
//! A communicator is there when its ranks have shown it: on a new machine, or after a boot, the first one of each set of GPUs makes
//! a small call by each declared algorithm and compares every element. A path that does not work is [`Error::SelfTest`] then, on every rank,
//! with the ordered pairs of ranks and a hint at the cause, and not a wrong sum later. [`SelfTest`] says when it is done and where it is kept
//! that it has passed; [`Communicator::self_test_took`], how long it took.
//!
//! # When a rank does not come
//!
//! A rank waits for another [`Options::timeout`] at most. After that, or where the other's process has ended, where it makes another call, or
//! where somebody has called [`Communicator::abort`], the communicator comes to its end on all ranks within milliseconds. A result counts only
//! once [`Communicator::check`] was `Ok` after it; on the CPU a call does that by itself. Calls that are queued end at their start, and
//! [`OnTimeout`] says what outputs hold. [`Communicator::rebuild`] goes on with the ranks that are left.
//!
//! ```
//! use std::time::Duration;
//!
//! use allfold::{Communicator, Error, Options, RankBuffers, ReduceOp, rendezvous};
//!
//! std::thread::scope(|scope| {
//!     for seat in rendezvous::local(3).expect("three ranks") {
//!         scope.spawn(move || {
//!             let options = Options { timeout: Some(Duration::from_millis(200)), ..Options::for_processes() };
//!             let mut ranks = Communicator::connect_cpu_with(&seat, options).expect("all come");
//!             if ranks.local_ranks().contains(&1) {
//!                 return; // dropped: it has left
//!             }
//!             let mut data = [1.0_f32; 100];
//!             let sum = |ranks: &mut Communicator, data: &mut [f32]| {
//!                 ranks.all_reduce(&[RankBuffers::in_place(data)], ReduceOp::Sum)
//!             };
//!             let error = sum(&mut ranks, &mut data).expect_err("rank 1 is not there");
//!             assert!(matches!(error, Error::PeerGone { rank: 1 }), "{error}");
//!             let mut left = ranks.rebuild(&[0, 2]).expect("the other one does the same");
//!             data.fill(1.0);
//!             sum(&mut left, &mut data).expect("both are there");
//!             assert_eq!(data, [2.0; 100]);
//!         });
//!     }
//! });
//! ```
//!
//! # Watching it
//!
//! [`Communicator::counters`] are plain numbers: calls and bytes, by algorithm, captured, replayed and refused. For whoever subscribes to
//! `tracing`, a communicator opens spans: `create`, `connect`, `split`, `register`, `release`, `capture`, `finish_capture` and `self_test` at level
//! debug, and of each call `plan` and `launch` at level trace, with dtype, bytes, algorithm and grid; `replay` likewise. On GPUs a
//! span ends when the call is launched. Spans that nobody asked for take no memory.
//!
//! [`Communicator::longest_wait`] says how long a rank has waited at most, and for whom. With [`Options::trace`] blocks leave word of when they
//! came where, which [`Communicator::trace`] reads; `allfold trace` makes a picture of it.
//!
//! # In a project of your own
//!
//! `cust` looks for a CUDA installation when it is built. Where there is none, any folder that holds an (empty) folder
//! `lib64` will do, named in the environment: `CUDA_LIBRARY_PATH=/some/folder cargo build`. The driver is opened at run time.
//!
//! # Results
//!
//! Terms are taken in rank order, types narrower than f32 in f32 with one rounding at the end: all ranks get the same bits, whatever the size and the
//! algorithm. A NaN stays a NaN; its payload is the machine's affair.
//!
//! | | sum, product | min, max | avg |
//! |---|---|---|---|
//! | f64, f32, f16, bf16 | rounded | NaN if one term is; -0.0 is less than 0.0 | the sum times 1/n |
//! | [`E4m3`], [`E5m2`] | the same; what is too large, infinity included, is the largest finite number | the same | the same |
//! | i8, u8, i32, u32, i64, u64 | wraps | | the sum, which wraps, over n, rounded towards 0 |
//!
//! Every type has every operation by every algorithm, on CPU ranks and on GPUs; f32, f16, bf16, i32 and u32 have kernels that do nothing but
//! sum. What a communicator is to load is [`Options::dtypes`] and [`Options::ops`].
//!
//! ```
//! use allfold::{Communicator, Dtype, Options, RankBuffers, ReduceOp};
//!
//! # fn main() -> Result<(), allfold::Error> {
//! let options = Options { dtypes: vec![Dtype::U8], ops: vec![ReduceOp::Max], ..Options::default() };
//! let mut ranks = Communicator::cpu_with(2, options)?;
//! let (mut one, mut two) = ([3_u8, 200], [5_u8, 4]);
//! ranks.all_reduce(&[RankBuffers::in_place(&mut one), RankBuffers::in_place(&mut two)], ReduceOp::Max)?;
//! assert_eq!((one, two), ([5, 200], [5, 200]));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `cli` (default): the program `allfold` and what only it depends on. The library needs none of it.
//!
//! `driver-faults`: for this crate's own tests, and no part of what is promised: driver calls that fail where a test wants it.
//!
//! `mpi`: `rendezvous::Mpi`, where processes meet that MPI has started; by the crate `mpi`, which is part of what users see. To build
//! it takes an MPI with its compiler `mpicc`, and `libclang`. Tested with Open MPI 4.1, as Debian 12 has it.

#[cfg(not(target_os = "linux"))]
compile_error!("allfold is for Linux: it shares memory by memfd, and descriptors over Unix sockets");

mod arguments;
mod buffers;
mod communicator;
mod counters;
pub mod cpu;
pub mod cuda;
#[cfg(feature = "driver-faults")]
#[doc(hidden)]
pub mod driver_faults;
mod element;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod members;
mod memory;
mod options;
mod plan;
mod processes;
mod reach;
pub mod rendezvous;
mod request;
mod self_test;
mod setup;
mod spans;
mod stop;
mod trace;
pub mod tuning;

pub use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode, MAX_BLOCKS, MAX_RANKS, Phase, Rank, ReduceOp};
pub use allfold_kernels::protocol::epoch::Epoch;
pub use allfold_kernels::protocol::preset::Preset;
pub use allfold_kernels::protocol::soundness::{Assumption, Soundness};
pub use allfold_kernels::protocol::spec::{Check, Order, Protocol, Reuse, Scope, Start};
pub use allfold_kernels::protocol::status::{FirstWrong, Ranks, Stop, Why};
/// The number that a stamped input has for an element, and the sum over all ranks; see [`Communicator::fill_stamps`].
pub use allfold_kernels::protocol::verify::{stamp, stamp_sum};
pub use half::{bf16, f16};

pub use buffers::{Place, RankBuffers, RawBuffers};
pub use communicator::{Captured, Communicator};
pub use counters::{Count, Counters, LongestWait};
pub use element::{E4m3, E5m2, Element};
pub use error::{Error, Result};
pub use memory::Memory;
pub use options::{CallOptions, Delays, OnTimeout, Options, SelfTest};
pub use plan::{Limits, Plan};
pub use reach::{Registered, Registration, Span};
pub use request::Request;
pub use stop::Aborter;
pub use trace::{BlockTrace, PhaseTrace, TRACED_CALLS};

/// The README's example, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
