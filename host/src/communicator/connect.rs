//! A communicator whose ranks are processes of their own: agree, then connect, and every rank has it or none.

use std::time::Instant;

use allfold_kernels::protocol::abi::WorkspaceLayout;

use super::own_line::OwnLine;
use super::self_test::Untested;
use super::{Backend, Communicator, of_backend};
use crate::cpu::CpuRanks;
use crate::cuda::CudaRanks;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::plan::Limits;
use crate::processes::{Meeting, Watch, agree, describe, open_line};
use crate::rendezvous::{Line, Rendezvous, Seed};
use crate::setup::{check_captured_calls, prepare};
use crate::spans;

impl Communicator {
    /// This process's rank of `rendezvous`' ranks, each on the CPU of this machine and in a process of its own, made for what
    /// [`Options::for_processes`] says.
    ///
    /// # Errors
    /// As [`Communicator::connect_cpu_with`].
    pub fn connect_cpu(rendezvous: &dyn Rendezvous) -> Result<Communicator> {
        Communicator::connect_cpu_with(rendezvous, Options::for_processes())
    }

    /// This process's rank of `rendezvous`' ranks, each on the CPU of this machine and in a process of its own. All ranks call
    /// it with the same options; it returns when all are connected, or fails on all within [`Options::connect_timeout`], and
    /// then leaves nothing behind. `rendezvous` is not used any more then: what ranks tell each other later goes by a
    /// connection of the communicator's own, which rank 0 serves by a few threads, and which ends with it.
    ///
    /// A call names this rank's buffers, and all ranks must make the same calls: of the same length and dtype, with the same
    /// [`CallOptions`](crate::CallOptions). Ranks compare that in each call, unless [`Options::compare_calls`] says otherwise; a rank
    /// whose own buffers are refused keeps the others waiting, until their [`Options::timeout`]. With registered input only pushes are possible: other algorithms get [`Error::OutOfReach`].
    ///
    /// A rank may be dropped at any time: its peers keep the memory that they have mapped. A call that waits for a rank that
    /// is gone, or whose process has ended, ends soon after, with [`Error::PeerGone`]; where this process cannot see that one, in another
    /// namespace, after [`Options::timeout`].
    ///
    /// # Errors
    /// Those of [`Communicator::cpu_with`]; [`Error::NotDeclared`] and [`Error::CapturedCallsTooLarge`] for
    /// [`Options::captured_calls`]; [`Error::NoSuchRank`], [`Error::Rendezvous`], [`Error::Disagreement`],
    /// [`Error::TooLittleMemory`], [`Error::Host`] when memory, threads or file descriptors run out; and on the other ranks
    /// [`Error::RankFailed`].
    pub fn connect_cpu_with(rendezvous: &dyn Rendezvous, options: Options) -> Result<Communicator> {
        Communicator::connect(On::Cpu, rendezvous, options)
    }

    /// This process's rank of `rendezvous`' ranks, on GPU `ordinal` as this process counts, made for what
    /// [`Options::for_processes`] says.
    ///
    /// # Errors
    /// As [`Communicator::connect_cuda_with`].
    pub fn connect_cuda(ordinal: u32, rendezvous: &dyn Rendezvous) -> Result<Communicator> {
        Communicator::connect_cuda_with(ordinal, rendezvous, Options::for_processes())
    }

    /// This process's rank of `rendezvous`' ranks, on GPU `ordinal` as this process counts: it need not see the others' GPUs.
    /// Otherwise as [`Communicator::connect_cpu_with`], and calls are those of [`Communicator::cuda_with`]: asynchronous, in
    /// the order of this rank's stream, and captured by each rank into a graph of its own.
    ///
    /// Ranks that share a GPU from several processes take turns on it by time slices, and wait long for each other.
    ///
    /// Each process has addresses of its own for the memory that all of them map. Where a location has several, the
    /// manual of PTX asks for proxy fences between accesses by one and by another, which no kernel here has; see
    /// *One address* in `docs/axioms.md`.
    ///
    /// # Errors
    /// Those of [`Communicator::cuda_with`] and of [`Communicator::connect_cpu_with`]; [`Error::Driver`]
    /// also where a peer's memory cannot be mapped.
    pub fn connect_cuda_with(ordinal: u32, rendezvous: &dyn Rendezvous, options: Options) -> Result<Communicator> {
        Communicator::connect(On::Gpu(ordinal), rendezvous, options)
    }

    fn connect(on: On, rendezvous: &dyn Rendezvous, options: Options) -> Result<Communicator> {
        let _connect = spans::connect(on.name(), rendezvous.rank(), rendezvous.world()).entered();
        let meeting = Meeting::new(rendezvous, options.connect_timeout)?;
        let world = meeting.members().world;
        let prepared = || {
            let (layout, limits) = on.prepare(world, &options)?;
            Ok(((layout, limits), describe(on.name(), &options, &layout)?))
        };
        let prepared = agree(&meeting, prepared())?;
        let all: Vec<_> = (0..world).collect();
        let line = open_line(&meeting, &all)?.ok_or(Error::NoSuchRank { rank: meeting.rank(), world })?;
        Communicator::over(line, &meeting, on, prepared, options)
    }

    /// This rank of those that have seats at `line`, who agree on all that is given here, and have until the end of `meeting`.
    pub(super) fn over(
        line: Line,
        meeting: &Meeting<'_>,
        on: On,
        (layout, limits): (WorkspaceLayout, Limits),
        options: Options,
    ) -> Result<Communicator> {
        let line = line.meet(meeting.deadline())?;
        Communicator::on(line, meeting.deadline(), on, (layout, limits), options)
    }

    /// This rank of those that have met at `line`, who agree on all that is given here, and have until `deadline`.
    pub(super) fn on(
        line: Line,
        deadline: Instant,
        on: On,
        (layout, limits): (WorkspaceLayout, Limits),
        options: Options,
    ) -> Result<Communicator> {
        let meeting = Meeting::until(&line, deadline)?;
        let members = meeting.members();
        let (_, shares) = meeting.step(Seed::share().map_err(Error::from), Vec::clone)?;
        let seed = Seed::of(&shares);
        let limits = Limits { reaches_buffers: members.all_local(), ..limits };
        let backend = match on {
            On::Cpu => Backend::Cpu(Box::new(CpuRanks::connect(&meeting, layout, &options, limits)?)),
            On::Gpu(ordinal) => {
                Backend::Cuda(Box::new(CudaRanks::connect(&meeting, ordinal, layout, &options, limits)?))
            }
        };
        let boards = of_backend!(&backend, ranks => ranks.boards());
        let watch = Watch::new(&meeting, boards)?;
        let communicator = Communicator::of(members, options, backend);
        let untested = communicator.untested();
        let (watch, words) = meeting.step(watch, |_| Untested::word(untested.as_ref()))?;
        let communicator = communicator.tested_with(untested.as_ref(), &meeting, &words)?;
        Ok(Communicator { _watch: Some(watch), seed: Some(seed), line: Some(OwnLine::new(line)), ..communicator })
    }
}

/// What a rank in a process of its own runs on.
#[derive(Clone, Copy)]
pub(super) enum On {
    Cpu,
    /// By its ordinal.
    Gpu(u32),
}

impl On {
    fn name(self) -> &'static str {
        match self {
            On::Cpu => "CPU ranks",
            On::Gpu(_) => "GPUs",
        }
    }

    /// The workspaces and limits of `world` such ranks, if `options` can be.
    pub(super) fn prepare(self, world: u32, options: &Options) -> Result<(WorkspaceLayout, Limits)> {
        let landing_bytes = match self {
            On::Cpu => {
                CpuRanks::check(options)?;
                Options::CPU_LANDING_BYTES
            }
            On::Gpu(_) => Options::LANDING_BYTES,
        };
        if world > 1 {
            check_captured_calls(options)?;
        }
        let (_, layout, limits) = prepare(world as usize, options, landing_bytes)?;
        Ok((layout, limits))
    }
}
