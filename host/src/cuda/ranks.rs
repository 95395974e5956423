//! The ranks of a communicator on GPUs: their workspaces, and a plan made into one launch a rank.

use std::ffi::c_void;
use std::ptr::from_mut;
use std::sync::Arc;

use allfold_kernels::protocol::abi::{
    EPOCH_WORDS, FIRST_WRONG_OFFSET_BYTES, GAVE_UP_OFFSET_BYTES, InputMode, KernelArgs, MAX_BLOCKS, MAX_RANKS,
    WRONG_OFFSET_BYTES, WorkspaceLayout,
};
use allfold_kernels::protocol::entry_point::EntryPoint;
use allfold_kernels::protocol::status::ABANDONED;

use super::device::Device;
use super::kernels::{self, Kernels};
use super::peer::{self, PeerError};
use super::raw::{Context, DeviceMemory, Function};
use super::residency::Hold;
use super::stream::RawStream;
use crate::arguments::Workspaces;
use crate::buffers::{Place, RawBuffers};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::plan::{Limits, Plan};
use crate::request::Request;

/// Blocks and threads of the stamp kernels, which wait for nobody.
const STAMP_GRID: (u32, u32) = (256, 256);

/// All ranks of one communicator.
pub(crate) struct CudaRanks {
    ranks: Vec<Rank>,
    workspaces: Workspaces,
    limits: Limits,
    options: Options,
    _holds: Vec<Hold>,
}

impl Drop for CudaRanks {
    /// Waits for all work on the GPUs: a peer's kernel may still use any rank's workspace. Where that cannot be waited for,
    /// the workspaces are left alone for good: better lost than freed under a kernel that runs.
    fn drop(&mut self) {
        for rank in &self.ranks {
            if let Err(error) = rank.context.finish() {
                tracing::warn!(%error, "the workspaces of a dropped communicator are lost");
                std::mem::forget(std::mem::take(&mut self.ranks));
                return;
            }
        }
    }
}

struct Rank {
    device: u32,
    context: Context,
    kernels: Arc<Kernels>,
    workspace: DeviceMemory,
}

impl CudaRanks {
    pub(crate) fn new(
        ordinals: &[u32],
        layout: WorkspaceLayout,
        options: &Options,
        limits: Limits,
    ) -> Result<CudaRanks> {
        if std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value != "0" && !value.is_empty()) {
            return Err(Error::LaunchBlocking);
        }
        let devices = ordinals.iter().map(|&ordinal| Ok(Device::get(ordinal)?)).collect::<Result<Vec<_>>>()?;
        let contexts = devices.iter().map(|device| Ok(device.context()?)).collect::<Result<Vec<_>>>()?;
        reach_peers(ordinals, &contexts)?;

        let (holds, max_blocks) = hold_blocks(&devices, options)?;
        let (mut ranks, mut addresses, mut max_threads) = (Vec::<Rank>::new(), [0; MAX_RANKS], u32::MAX);
        for ((device, context), address) in devices.iter().zip(contexts).zip(&mut addresses) {
            let kernels = match ranks.iter().find(|rank| rank.device == device.ordinal) {
                Some(rank) => Arc::clone(&rank.kernels),
                None => Arc::new(Kernels::load(&context, device, options, limits.world)?),
            };
            let threads = kernels.max_threads();
            if kernels.blocks_per_multiprocessor(threads)? == 0 {
                return Err(Error::KernelTooLarge { ordinal: device.ordinal, threads });
            }
            max_threads = max_threads.min(threads);

            let workspace = DeviceMemory::alloc(&context, layout.total_bytes)?;
            clear(&workspace, options.last_epoch)?;
            *address = workspace.address();
            ranks.push(Rank { device: device.ordinal, context, kernels, workspace });
        }
        Ok(CudaRanks {
            workspaces: Workspaces::new(addresses, layout, limits.world, options),
            limits: Limits { max_blocks, max_threads, ..limits },
            ranks,
            options: options.clone(),
            _holds: holds,
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Refuses buffers that are not device memory, and streams in which a rank would wait behind another.
    pub(crate) fn check_place(&self, buffers: &[RawBuffers<'_>]) -> Result<()> {
        for (rank, (b, here)) in (0..).zip(buffers.iter().zip(&self.ranks)) {
            let Place::Device(stream) = b.place else {
                return Err(Error::WrongMemory { rank, got: "host", expected: "GPUs" });
            };
            for (other, (c, there)) in (0..rank).zip(buffers.iter().zip(&self.ranks)) {
                let Place::Device(other_stream) = c.place else { continue };
                let waits = stream == other_stream || waits_for_all(stream) || waits_for_all(other_stream);
                if here.device == there.device && waits {
                    return Err(Error::SharedStream { ranks: [other, rank], device: here.device });
                }
            }
        }
        Ok(())
    }

    /// Puts an all-reduce into the stream of each rank.
    ///
    /// # Safety
    /// As for [`crate::RankBuffers::device_raw`], for every rank.
    pub(crate) unsafe fn all_reduce(&self, request: &Request, plan: &Plan, buffers: &[RawBuffers<'_>]) -> Result<()> {
        let args = self.workspaces.all_reduce(request, plan, buffers);
        let name = kernels::all_reduce(request.dtype, plan.algorithm, plan.input, &self.options, self.limits.world);
        if plan.input == InputMode::Memcpy {
            for ((rank, b), args) in self.ranks.iter().zip(buffers).zip(args) {
                if plan.protocol.alternates() {
                    let stage = rank.kernels.get(EntryPoint::Stage(request.dtype))?;
                    // SAFETY: the caller's promise; the kernel writes this rank's staging only.
                    unsafe { launch(stage, plan.blocks, plan.threads, stream(b)?, args) }?;
                } else {
                    let to = args.inputs[args.rank as usize];
                    // SAFETY: the staging area has room for the request; the input lives by the caller's promise.
                    unsafe { rank.context.copy_async(to, b.input, request.bytes as usize, stream(b)?) }?;
                }
            }
        }
        for ((rank, b), args) in self.ranks.iter().zip(buffers).zip(args) {
            let kernel = rank.kernels.get(name)?;
            // SAFETY: buffers and streams by the caller's promise; workspaces are this communicator's; the grid is
            // within what can be resident with every rank of the device.
            unsafe { launch(kernel, plan.blocks, plan.threads, stream(b)?, args) }?;
        }
        Ok(())
    }

    /// Ends every wait of calls that were launched on some ranks only.
    pub(crate) fn abandon(&self) {
        for rank in &self.ranks {
            let address = rank.workspace.address() + GAVE_UP_OFFSET_BYTES as u64;
            // SAFETY: a word of the rank's workspace, which kernels read as a whole. The copy waits for no stream of theirs.
            if let Err(error) = unsafe { rank.context.copy_to_device(address, &ABANDONED.to_ne_bytes()) } {
                tracing::warn!(%error, "a call that was launched on some ranks only could not be abandoned");
            }
        }
    }

    /// Puts a stamp kernel into the stream of each rank.
    ///
    /// # Safety
    /// As for [`CudaRanks::all_reduce`].
    pub(crate) unsafe fn stamps(&self, check: bool, request: &Request, buffers: &[RawBuffers<'_>]) -> Result<()> {
        let (blocks, threads) = STAMP_GRID;
        let name = if check { EntryPoint::CheckStamps(request.dtype) } else { EntryPoint::FillStamps(request.dtype) };
        for ((rank, b), args) in self.ranks.iter().zip(buffers).zip(self.workspaces.local(request, buffers)) {
            // SAFETY: the kernel touches this rank's buffers, which live by the caller's promise, and its workspace.
            unsafe { launch(rank.kernels.get(name)?, blocks, threads, stream(b)?, args) }?;
        }
        Ok(())
    }

    /// The status word of each rank.
    pub(crate) fn gave_up(&self) -> Result<Vec<u64>> {
        self.words(GAVE_UP_OFFSET_BYTES)
    }

    /// Wrong elements that each rank has counted.
    pub(crate) fn wrong(&self) -> Result<Vec<u64>> {
        self.words(WRONG_OFFSET_BYTES)
    }

    /// The two words of each rank about its first wrong element.
    pub(crate) fn first_wrong(&self) -> Result<Vec<[u64; 2]>> {
        let (first, call) = (self.words(FIRST_WRONG_OFFSET_BYTES)?, self.words(FIRST_WRONG_OFFSET_BYTES + 8)?);
        Ok(first.into_iter().zip(call).map(|(first, call)| [first, call]).collect())
    }

    fn words(&self, offset_bytes: usize) -> Result<Vec<u64>> {
        let word = |rank: &Rank| {
            let mut bytes = [0; 8];
            // SAFETY: a word of the rank's workspace; a kernel that writes it at this moment writes it as a whole.
            unsafe { rank.context.copy_to_host(&mut bytes, rank.workspace.address() + offset_bytes as u64) }?;
            Ok(u64::from_ne_bytes(bytes))
        };
        self.ranks.iter().map(word).collect()
    }
}

/// Blocks of each GPU, and how many of them each rank may use: the same on all.
fn hold_blocks(devices: &[Device], options: &Options) -> Result<(Vec<Hold>, u32)> {
    let (mut holds, mut max_blocks) = (Vec::new(), MAX_BLOCKS as u32);
    for (index, device) in devices.iter().enumerate() {
        let same = |other: &&Device| other.ordinal == device.ordinal;
        if devices[..index].iter().any(|other| same(&other)) {
            continue;
        }
        let sharing = devices.iter().filter(same).count() as u32;
        check_queues(device.ordinal, sharing)?;
        let hold = Hold::take(device.ordinal, device.multiprocessors, sharing, options.max_blocks)?;
        max_blocks = max_blocks.min(hold.blocks() / sharing);
        holds.push(hold);
    }
    Ok((holds, max_blocks))
}

/// Hardware queues of a GPU where the environment does not set their number.
const CONNECTIONS: u32 = 8;

/// Ranks that share a GPU need a queue each, and one for copies of the host.
fn check_queues(ordinal: u32, ranks: u32) -> Result<()> {
    let set = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok().and_then(|number| number.trim().parse().ok());
    let connections = set.unwrap_or(CONNECTIONS);
    if ranks > 1 && ranks >= connections {
        return Err(Error::TooFewQueues { ordinal, ranks, connections });
    }
    Ok(())
}

/// Peer access between all GPUs of the communicator, for allocations of every kind.
fn reach_peers(ordinals: &[u32], contexts: &[Context]) -> Result<()> {
    peer::enable_all(contexts).map_err(|error| match error {
        PeerError::NoAccess { rank, peer } => Error::NoPeerAccess { from: ordinals[rank], to: ordinals[peer] },
        PeerError::Driver(error) => Error::Driver(error),
    })?;
    for from in contexts {
        for to in contexts {
            // Only buffers of stream-ordered pools need it, and not every device has pools.
            if let Err(error) = from.enable_pool_access(to) {
                tracing::debug!(%error, "registered input from a memory pool will not work");
            }
        }
    }
    Ok(())
}

/// Makes a new workspace what kernels expect: flags and epoch words that of the last call, the rest zero.
fn clear(workspace: &DeviceMemory, last_epoch: u64) -> Result<()> {
    let context = workspace.context();
    // SAFETY: the allocation is this function's alone so far. Both calls wait until the work is done.
    unsafe {
        context.memset(workspace.address(), 0, workspace.bytes())?;
        context.copy_to_device(workspace.address(), [last_epoch.to_ne_bytes(); EPOCH_WORDS].as_flattened())?;
    }
    Ok(())
}

/// Whether `stream` is a default stream, which waits for other streams of its GPU or is the same for all threads.
fn waits_for_all(stream: RawStream<'_>) -> bool {
    // Null is the legacy default stream, 1 its name for whoever compiles with per-thread ones.
    (stream.as_ptr() as usize) < 2
}

fn stream<'s>(buffers: &RawBuffers<'s>) -> Result<RawStream<'s>> {
    match buffers.place {
        Place::Device(stream) => Ok(stream),
        // Refused by `check_place` before.
        Place::Host => Err(Error::WrongMemory { rank: 0, got: "host", expected: "GPUs" }),
    }
}

/// # Safety
/// `args` are what `kernel` needs until `stream` has done it, and all blocks that wait for each other fit the GPUs.
unsafe fn launch(
    kernel: &Function,
    blocks: u32,
    threads: u32,
    stream: RawStream<'_>,
    mut args: KernelArgs,
) -> Result<()> {
    let mut parameters = [from_mut(&mut args).cast::<c_void>()];
    // SAFETY: every entry point has one parameter, `KernelArgs` by value; the rest by the caller's promise.
    Ok(unsafe { kernel.launch(blocks, threads, 0, stream, &mut parameters) }?)
}
