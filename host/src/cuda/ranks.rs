//! The ranks of a communicator on GPUs: their workspaces, and a plan made into one launch a rank.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::from_mut;
use std::sync::{Arc, Weak};

use allfold_kernels::protocol::abi::{Algorithm, KernelArgs, MAX_RANKS, WorkspaceLayout};
use allfold_kernels::protocol::entry_point::EntryPoint;

use super::device::Device;
use super::kernels::{self, Kernel, Kernels};
use super::prepare::{Held, check_launches, clear, hold_blocks, most_threads, reach_peers, waits};
use super::rank::{Made, Rank, Workspace};
use super::raw::{CapturingGraph, DeviceMemory, Function, ShareableMemory, Start};
use super::residency::Hold;
use super::sharing::CudaSharing;
use super::status::Pages;
use super::stream::RawStream;
use super::turn::Turn;
use crate::arguments::{Peers, Workspaces};
use crate::buffers::RawBuffers;
use crate::error::{Error, Result};
use crate::members::Members;
use crate::options::Options;
use crate::plan::{Limits, Plan};
use crate::reach::{Lease, Reach};
use crate::request::Request;
use crate::stop::Boards;
use crate::tuning::Origin;

/// Blocks and threads of the stamp kernels, which wait for nobody.
const STAMP_GRID: (u32, u32) = (256, 256);

/// The ranks of one communicator that this process drives, and the workspaces of all.
pub(crate) struct CudaRanks {
    pub(super) ranks: Vec<Rank>,
    /// Workspaces of ranks in other processes.
    peers: Arc<Vec<ShareableMemory>>,
    /// What the host tells ranks.
    pub(super) pages: Arc<Pages>,
    pub(super) workspaces: Workspaces,
    limits: Limits,
    /// Whether kernels are launched early. Never where ranks share a GPU.
    early: bool,
    options: Options,
    reach: ManuallyDrop<Reach<CudaSharing>>,
    /// The UUID of each rank's GPU, in whatever process.
    pub(super) gpus: Vec<String>,
    /// The graph that captured calls were last recorded into, and its rows.
    capturing: Option<(u64, Weak<Lease>)>,
    holds: Vec<Hold>,
}

impl Drop for CudaRanks {
    /// Waits for all work on this process's GPUs: any of its kernels may still use any rank's workspace. Where that cannot be
    /// waited for, the workspaces and all that is in reach are left alone for good: better lost than freed under a kernel that
    /// runs. Kernels of other processes use mappings of their own.
    fn drop(&mut self) {
        for rank in &self.ranks {
            if let Err(error) = rank.context.finish() {
                tracing::warn!(%error, "the workspaces of a dropped communicator are lost");
                let (peers, pages) = (Arc::clone(&self.peers), Arc::clone(&self.pages));
                // Peers are to hear of it all the same, if they can be told.
                self.pages.leave();
                std::mem::forget((std::mem::take(&mut self.ranks), peers, pages));
                return;
            }
        }
        self.pages.leave();
        // SAFETY: dropped here alone, and not used after it.
        unsafe { ManuallyDrop::drop(&mut self.reach) };
    }
}

impl CudaRanks {
    pub(crate) fn new(
        ordinals: &[u32],
        layout: WorkspaceLayout,
        options: &Options,
        limits: Limits,
    ) -> Result<CudaRanks> {
        check_launches()?;
        let devices = ordinals.iter().map(|&ordinal| Ok(Device::get(ordinal)?)).collect::<Result<Vec<_>>>()?;
        if let Some(table) = &options.tuning {
            table.check_device(&Origin::gpus(devices.iter().map(|device| (device.ordinal, &*device.name))))?;
        }
        let contexts = devices.iter().map(|device| Ok(device.context()?)).collect::<Result<Vec<_>>>()?;
        reach_peers(ordinals, &contexts)?;

        let Held { holds, max_blocks, alone } = hold_blocks(&devices, options)?;
        let members = Members::all(limits.world);
        let reach = Reach::new(CudaSharing::new(contexts.clone(), 0)?, members, 0);
        let (mut ranks, mut addresses) = (Vec::<Rank>::new(), [0; MAX_RANKS]);
        let mut max_threads = [u32::MAX; Algorithm::ALL.len()];
        let early = options.early_launch && holds.len() == devices.len() && devices.iter().all(waits);
        // Whether early kernels, of this communicator or another, may lie beside this one's blocks.
        let beside = !alone && devices.iter().any(waits);
        for ((device, context), address) in devices.iter().zip(contexts).zip(&mut addresses) {
            let kernels = match ranks.iter().find(|rank| rank.device == device.ordinal) {
                Some(rank) => Arc::clone(&rank.kernels),
                None => Arc::new(Kernels::load(&context, device, options, members)?),
            };
            for (most, here) in max_threads.iter_mut().zip(most_threads(&kernels, device.ordinal, beside)?) {
                *most = (*most).min(here);
            }

            let workspace = DeviceMemory::alloc(&context, layout.total_bytes)?;
            clear(&context, workspace.address(), &layout, options.last_epoch)?;
            *address = workspace.address();
            let (turn, workspace) = (Turn::new(&context)?, Workspace::Private(workspace));
            ranks.push(Rank { device: device.ordinal, context, kernels, turn, workspace });
        }
        let peers = Arc::new(Vec::new());
        // A communicator has a rank, and thus a context.
        let Some(first) = ranks.first() else { return Err(Error::WorldSize { world: 0 }) };
        let pages = Arc::new(Pages::new(&first.context, members, Arc::clone(&peers))?);
        Ok(CudaRanks::of(Made {
            workspaces: Workspaces::new(addresses, layout, members, options, pages.address()),
            ranks,
            peers,
            pages,
            limits: Limits { max_blocks, max_threads, ..limits },
            early,
            reach,
            options: options.clone(),
            gpus: devices.into_iter().map(|device| device.uuid).collect(),
            holds,
        }))
    }

    pub(super) fn of(made: Made) -> CudaRanks {
        let Made { ranks, peers, pages, workspaces, limits, early, reach, options, gpus, holds } = made;
        let reach = ManuallyDrop::new(reach);
        CudaRanks { ranks, peers, pages, workspaces, limits, early, options, reach, gpus, capturing: None, holds }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The GPU of `rank`, which is local.
    pub(crate) fn device(&self, rank: u32) -> u32 {
        self.workspaces.members.index(rank).map_or(0, |index| self.ranks[index].device)
    }

    /// Refuses buffers that are not device memory, and streams in which a rank would wait behind another.
    pub(crate) fn check_place(&self, buffers: &[RawBuffers<'_>]) -> Result<()> {
        for (rank, b) in (self.workspaces.members.first..).zip(buffers) {
            if b.stream().is_none() {
                return Err(Error::WrongMemory { rank, got: "host", expected: "GPUs" });
            }
        }
        self.check_streams(buffers.iter().filter_map(RawBuffers::stream))
    }

    pub(crate) fn reach(&self) -> &Reach<CudaSharing> {
        &self.reach
    }

    pub(crate) fn reach_mut(&mut self) -> &mut Reach<CudaSharing> {
        &mut self.reach
    }

    /// Where `row` of the local rank is.
    pub(crate) fn row_address(&self, row: u32) -> u64 {
        self.reach.sharing.row_address(row)
    }

    /// Waits for all of its work, and gives back the blocks that are held for it: none of its kernels waits for another any more.
    ///
    /// # Errors
    /// [`Error::ContextLost`].
    pub(crate) fn retire(&mut self) -> Result<()> {
        for (rank, local) in self.workspaces.members.ranks().zip(&self.ranks) {
            local.context.finish().map_err(|source| Error::ContextLost { rank, source })?;
        }
        self.holds.clear();
        Ok(())
    }

    /// Waits for all work on this process's GPUs.
    pub(crate) fn finish(&self) -> Result<()> {
        self.ranks.iter().try_for_each(|rank| Ok(rank.context.finish()?))
    }

    /// The rows of the calls that the local rank's stream captures now. They come back when the graph is gone.
    pub(crate) fn capturing(&mut self, buffers: &[RawBuffers<'_>]) -> Result<Arc<Lease>> {
        let rank = self.workspaces.members.first;
        let (Some(local), Some(b)) = (self.ranks.first(), buffers.first()) else {
            return Err(Error::NotCaptured { rank });
        };
        let graph = CapturingGraph::of_stream(&local.context, stream(b)?)?.ok_or(Error::NotCaptured { rank })?;
        let known = self.capturing.as_ref().filter(|(id, _)| *id == graph.id).and_then(|(_, lease)| lease.upgrade());
        if let Some(lease) = known {
            return Ok(lease);
        }
        let lease = Arc::new(self.reach.lease());
        graph.keep(&local.context, Arc::clone(&lease))?;
        self.capturing = Some((graph.id, Arc::downgrade(&lease)));
        Ok(lease)
    }

    /// Puts an all-reduce into the stream of each rank.
    ///
    /// # Safety
    /// As for [`crate::RankBuffers::device_raw`], for every rank.
    pub(crate) unsafe fn all_reduce(
        &self,
        request: &Request,
        plan: &Plan,
        buffers: &[RawBuffers<'_>],
        peers: &Peers,
    ) -> Result<()> {
        let args = self.workspaces.all_reduce(request, plan, buffers, peers);
        let grid = (plan.blocks, plan.threads);
        let world = self.limits.world;
        let name = match peers {
            Peers::Local | Peers::At { .. } => {
                kernels::all_reduce((request.dtype, request.op), plan.algorithm, plan.input, &self.options, world)
            }
            Peers::Row(_) => kernels::captured((request.dtype, request.op), plan.algorithm, world),
        };
        if plan.stages() {
            for ((rank, b), args) in self.ranks.iter().zip(buffers).zip(args) {
                if plan.protocol.alternates() {
                    let stage = rank.kernels.get(EntryPoint::Stage(request.dtype.kernels()))?;
                    let start = self.start(stage, plan.threads);
                    // SAFETY: the caller's promise; the kernel writes this rank's staging only.
                    unsafe { launch(&stage.function, grid, start, stream(b)?, args) }?;
                } else {
                    let to = args.inputs[args.rank as usize];
                    // SAFETY: the staging area has room for the request; the input lives by the caller's promise.
                    unsafe { rank.context.copy_async(to, b.input, request.bytes as usize, stream(b)?) }?;
                }
            }
        }
        for ((rank, b), args) in self.ranks.iter().zip(buffers).zip(args) {
            let kernel = rank.kernels.get(name)?;
            let start = self.start(kernel, plan.threads);
            // SAFETY: buffers and streams by the caller's promise; workspaces are this communicator's; the grid is
            // within what can be resident with every rank of the device.
            unsafe { launch(&kernel.function, grid, start, stream(b)?, args) }?;
        }
        Ok(())
    }

    /// Whether `kernel`, by blocks of `threads`, may become resident while the one before it still runs, and lets the next one.
    ///
    /// Only if its blocks take half of a multiprocessor at most. A communicator that does not have its GPUs to itself has no larger ones:
    /// so wherever blocks of running and of early kernels lie, those of another communicator find room.
    fn start(&self, kernel: &Kernel, threads: u32) -> Start {
        if self.early && threads <= kernel.half_threads { Start::Early } else { Start::InOrder }
    }

    /// Puts a stamp kernel into the stream of each rank.
    ///
    /// # Safety
    /// As for [`CudaRanks::all_reduce`].
    pub(crate) unsafe fn stamps(&self, check: bool, request: &Request, buffers: &[RawBuffers<'_>]) -> Result<()> {
        let dtype = request.dtype.kernels();
        let name = if check { EntryPoint::CheckStamps(dtype) } else { EntryPoint::FillStamps(dtype) };
        for ((rank, b), args) in self.ranks.iter().zip(buffers).zip(self.workspaces.local(request, buffers)) {
            // SAFETY: the kernel touches this rank's buffers, which live by the caller's promise, and its workspace.
            unsafe { launch(&rank.kernels.get(name)?.function, STAMP_GRID, Start::InOrder, stream(b)?, args) }?;
        }
        Ok(())
    }
}

fn stream<'s>(buffers: &RawBuffers<'s>) -> Result<RawStream<'s>> {
    // Refused by `check_place` before.
    buffers.stream().ok_or(Error::WrongMemory { rank: 0, got: "host", expected: "GPUs" })
}

/// # Safety
/// `args` are what `kernel` needs until `stream` has done it, and all blocks that wait for each other fit the GPUs.
unsafe fn launch(
    kernel: &Function,
    grid: (u32, u32),
    start: Start,
    stream: RawStream<'_>,
    mut args: KernelArgs,
) -> Result<()> {
    args.early = (start == Start::Early).into();
    let mut parameters = [from_mut(&mut args).cast::<c_void>()];
    // SAFETY: every entry point has one parameter, `KernelArgs` by value, and waits first of all for what is before it;
    // the rest by the caller's promise.
    Ok(unsafe { kernel.launch(grid, start, stream, &mut parameters) }?)
}
