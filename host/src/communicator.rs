//! A communicator: `all_reduce` is request, plan, launch, and nothing else.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use allfold_kernels::protocol::abi::{Dtype, MAX_RANKS, Rank, ReduceOp};
use allfold_kernels::protocol::status::{Stop, Why};

use crate::buffers::{RankBuffers, RawBuffers};
use crate::counters::Counted;
use crate::cpu::CpuRanks;
use crate::cuda::CudaRanks;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::members::Members;
use crate::options::{CallOptions, Options};
use crate::plan::{Limits, Plan};
use crate::processes::Watch;
use crate::rendezvous::Seed;
use crate::request::Request;
use crate::setup::prepare;
use crate::spans;
use crate::tuning::{self, Row};

mod calls;
mod capture;
mod connect;
mod ends;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod own_line;
mod rebuild;
mod register;
mod self_test;
mod split;
mod stamps;
mod streams;

use own_line::OwnLine;

pub use capture::Captured;

/// Ranks of an all-reduce: threads on the CPU, or kernels on GPUs. All of them in this process, or one of several processes'.
///
/// A call names the buffers of every rank that this process drives, so that disagreement between those is found before
/// anything is launched.
///
/// Calls of one communicator are done one after the other. On GPUs a rank's calls come on one stream; one on another stream than the last is
/// refused, until [`Communicator::change_streams`] has put the two in order. What is captured runs when it is replayed, and whoever
/// launches the graph orders it among the calls: [`Communicator::replay`] is like a call in that.
pub struct Communicator {
    options: Options,
    members: Members,
    backend: Backend,
    /// Sees it when one of those processes ends.
    _watch: Option<Watch>,
    /// From which those that are left know where to meet when some are gone.
    seed: Option<Seed>,
    /// Where ranks that are processes of their own meet again.
    line: Option<OwnLine>,
    counted: Counted,
    self_test_took: Option<Duration>,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = match self.backend {
            Backend::Cpu(_) => "CPU ranks",
            Backend::Cuda(_) => "GPUs",
        };
        f.debug_struct("Communicator")
            .field("backend", &backend)
            .field("world", &self.members.world)
            .field("local_ranks", &self.members.ranks())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

const fn sent<T: Send>() {}
const _: () = sent::<Communicator>();

enum Backend {
    Cpu(Box<CpuRanks>),
    Cuda(Box<CudaRanks>),
}

/// The same expression for whichever backend there is.
macro_rules! of_backend {
    ($backend:expr, $ranks:ident => $body:expr) => {
        match $backend {
            Backend::Cpu($ranks) => $body,
            Backend::Cuda($ranks) => $body,
        }
    };
}
use of_backend;

impl Communicator {
    /// `world` ranks on this machine's CPU, made for whatever [`Options::default`] says.
    ///
    /// # Errors
    /// As [`Communicator::cpu_with`].
    pub fn cpu(world: usize) -> Result<Communicator> {
        Communicator::cpu_with(world, Options::default())
    }

    /// `world` ranks on this machine's CPU.
    ///
    /// # Errors
    /// [`Error::WorldSize`], [`Error::NoSuchForm`], [`Error::CapacityTooLarge`], [`Error::LandingTooLarge`], [`Error::Grid`] for a `cpu_shape` that
    /// cannot be, [`Error::Table`] for a table of GPUs, [`Error::Host`] when memory or threads run out, [`Error::SelfTest`].
    pub fn cpu_with(world: usize, options: Options) -> Result<Communicator> {
        let _create = spans::create("CPU ranks", world).entered();
        let (world, layout, limits) = prepare(world, &options, Options::CPU_LANDING_BYTES)?;
        let ranks = CpuRanks::new(layout, &options, limits)?;
        Communicator::of(Members::all(world), options, Backend::Cpu(Box::new(ranks))).tested()
    }

    /// A rank on each of `devices`, by ordinal; several ranks on one GPU where it is named several times.
    ///
    /// # Errors
    /// As [`Communicator::cuda_with`].
    pub fn cuda(devices: &[u32]) -> Result<Communicator> {
        Communicator::cuda_with(devices, Options::default())
    }

    /// A rank on each of `devices`, by ordinal. Loads the kernels that `options` declare, and returns when all ranks'
    /// workspaces are ready: the first call may come at once.
    ///
    /// # Errors
    /// [`Error::WorldSize`], [`Error::NoSuchForm`], [`Error::CapacityTooLarge`], [`Error::LandingTooLarge`], [`Error::DriverMissing`],
    /// [`Error::LaunchBlocking`], [`Error::NoSuchDevice`], [`Error::Table`], [`Error::TooOld`], [`Error::NoPeerAccess`],
    /// [`Error::TooFewQueues`], [`Error::NotResident`], [`Error::KernelTooLarge`], [`Error::PtxRefused`], [`Error::SelfTest`], and
    /// [`Error::Driver`] when a driver call fails.
    pub fn cuda_with(devices: &[u32], options: Options) -> Result<Communicator> {
        let _create = spans::create("GPUs", devices.len()).entered();
        let (world, layout, limits) = prepare(devices.len(), &options, Options::LANDING_BYTES)?;
        let ranks = CudaRanks::new(devices, layout, &options, limits)?;
        Communicator::of(Members::all(world), options, Backend::Cuda(Box::new(ranks))).tested()
    }

    fn of(members: Members, options: Options, backend: Backend) -> Communicator {
        let counted = Counted::default();
        Communicator { options, members, backend, _watch: None, seed: None, line: None, counted, self_test_took: None }
    }

    /// Ranks of this communicator, in whatever process.
    pub fn world(&self) -> usize {
        self.members.world as usize
    }

    /// The ranks that this process drives: those whose buffers a call names.
    pub fn local_ranks(&self) -> Range<usize> {
        self.members.ranks().start as usize..self.members.ranks().end as usize
    }

    /// What all its ranks can do.
    pub fn limits(&self) -> &Limits {
        match &self.backend {
            Backend::Cpu(ranks) => ranks.limits(),
            Backend::Cuda(ranks) => ranks.limits(),
        }
    }

    /// The built-in tuning rows, from which plans are chosen where [`Options::tuning`] says nothing.
    pub fn rows(&self) -> &'static [Row] {
        match &self.backend {
            Backend::Cpu(_) => tuning::CPU_ROWS,
            Backend::Cuda(_) => tuning::ROWS,
        }
    }

    /// What it was made for.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Leaves the reduction of all ranks' inputs in every rank's output. `buffers` are those of
    /// [`local_ranks`](Communicator::local_ranks), in order, all of one length, which may be 0.
    ///
    /// On the CPU the result is there on return. On GPUs the call is asynchronous, in the order of each rank's stream, and
    /// may be captured into a graph; nothing is written before the stream comes to it.
    ///
    /// # Errors
    /// Those of [`Request::new`] and [`Plan::choose`]; [`Error::WrongMemory`], [`Error::SharedStream`], [`Error::OtherStream`];
    /// [`Error::Driver`] when a launch fails, and [`Error::Ended`] after that. Those of [`Communicator::check`]: of this call on the CPU;
    /// of a call before, if it is known to have come to a bad end, on GPUs.
    pub fn all_reduce<T: Element>(&mut self, buffers: &[RankBuffers<'_, T>], op: ReduceOp) -> Result<()> {
        self.all_reduce_with(buffers, op, &CallOptions::default()).map(drop)
    }

    /// [`Communicator::all_reduce_raw`], uncounted.
    ///
    /// # Safety
    /// As there.
    unsafe fn launch(
        &mut self,
        dtype: Dtype,
        buffers: &[RawBuffers<'_>],
        op: ReduceOp,
        call: &CallOptions,
    ) -> Result<Plan> {
        self.check_goes_on()?;
        self.check_place(buffers)?;
        let request = Request::of(self.members, dtype, op, buffers, call.registered)?;
        let choose = || Plan::choose(&request, call, &self.options, self.limits(), self.rows());
        let plan = spans::plan(&request).in_scope(choose)?;
        if request.elems == 0 {
            return Ok(plan);
        }
        let _launch = spans::launch(&request, &plan).entered();
        self.check_turns(buffers)?;
        let peers = self.peers(&request, &plan, buffers, call)?;
        self.take_turns(buffers)?;
        match &mut self.backend {
            Backend::Cpu(ranks) => {
                // SAFETY: the caller's promise, and the request was checked.
                unsafe { ranks.all_reduce(&request, &plan, buffers, &peers) }?;
                self.check_words()?;
            }
            Backend::Cuda(ranks) => {
                // SAFETY: as above.
                if let Err(error) = unsafe { ranks.all_reduce(&request, &plan, buffers, &peers) } {
                    // Ranks that were launched wait for those that were not. What is captured runs on none now, and never where its
                    // capture has failed.
                    if !ranks.all_captured(buffers.iter().filter_map(RawBuffers::stream)) {
                        ranks.boards().stop(Stop::outside(Why::Abandoned, Rank(self.members.first)));
                    }
                    return Err(error);
                }
            }
        }
        Ok(plan)
    }

    /// The raw buffers of the local ranks, without an allocation.
    fn raw_of<'a, T: Element>(&self, buffers: &[RankBuffers<'a, T>]) -> Result<[RawBuffers<'a>; MAX_RANKS]> {
        let local = self.members.local as usize;
        if buffers.len() != local {
            return Err(Error::RankCount { local, got: buffers.len() });
        }
        let mut raw = [RawBuffers::NONE; MAX_RANKS];
        for (raw, b) in raw.iter_mut().zip(buffers) {
            *raw = b.raw();
        }
        Ok(raw)
    }

    fn check_place(&self, buffers: &[RawBuffers<'_>]) -> Result<()> {
        match &self.backend {
            Backend::Cpu(ranks) => ranks.check_place(buffers),
            Backend::Cuda(ranks) => ranks.check_place(buffers),
        }
    }
}
