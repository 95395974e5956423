//! What has to be there before the ranks of a communicator can run: peers in reach, blocks, queues, clean workspaces.

use allfold_kernels::protocol::abi::{Algorithm, MARKER, MAX_BLOCKS, WorkspaceLayout, first_words};

use super::device::Device;
use super::kernels::Kernels;
use super::peer::{self, PeerError};
use super::ptx;
use super::raw::Context;
use super::residency::Hold;
use crate::error::{Error, Result};
use crate::options::Options;

/// Each byte of the marker.
const MARKER_BYTE: u8 = MARKER as u8;
const _: () = assert!(MARKER == u32::from_ne_bytes([MARKER_BYTE; 4]));

/// Whether the kernels that this device gets may be launched early.
pub(super) fn waits(device: &Device) -> bool {
    ptx::target(device.compute_capability).is_some_and(ptx::Target::waits)
}

/// Refuses an environment in which each launch waits for its end: a rank would wait for peers that are not launched yet.
pub(super) fn check_launches() -> Result<()> {
    match std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value != "0" && !value.is_empty()) {
        true => Err(Error::LaunchBlocking),
        false => Ok(()),
    }
}

/// Threads of the largest block of each algorithm's kernels on GPU `ordinal`; `beside`: see [`Kernels::max_threads`].
pub(super) fn most_threads(kernels: &Kernels, ordinal: u32, beside: bool) -> Result<[u32; Algorithm::ALL.len()]> {
    let max_threads = Algorithm::ALL.map(|algorithm| kernels.max_threads(algorithm, beside));
    if max_threads.contains(&0) { Err(Error::KernelTooLarge { ordinal }) } else { Ok(max_threads) }
}

/// What a communicator holds of its GPUs.
pub(super) struct Held {
    /// One a GPU.
    pub(super) holds: Vec<Hold>,
    /// Most blocks of a rank.
    pub(super) max_blocks: u32,
    /// Whether no other communicator can hold blocks of any of them.
    pub(super) alone: bool,
}

/// Blocks of each GPU, and how many of them each rank may use: the same on all.
pub(super) fn hold_blocks(devices: &[Device], options: &Options) -> Result<Held> {
    let mut held = Held { holds: Vec::new(), max_blocks: MAX_BLOCKS as u32, alone: true };
    for (index, device) in devices.iter().enumerate() {
        let same = |other: &&Device| other.ordinal == device.ordinal;
        if devices[..index].iter().any(|other| same(&other)) {
            continue;
        }
        let sharing = devices.iter().filter(same).count() as u32;
        check_queues(device.ordinal, sharing)?;
        let hold = Hold::take(device.ordinal, device.multiprocessors, sharing, options.max_blocks)?;
        held.max_blocks = held.max_blocks.min(hold.blocks() / sharing);
        held.alone &= hold.is_alone(device.multiprocessors);
        held.holds.push(hold);
    }
    Ok(held)
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
pub(super) fn reach_peers(ordinals: &[u32], contexts: &[Context]) -> Result<()> {
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

/// Makes a new workspace what kernels expect: its first words as `first_words` says, landing slots full of markers,
/// the rest zero.
pub(super) fn clear(context: &Context, address: u64, layout: &WorkspaceLayout, last_epoch: u64) -> Result<()> {
    // SAFETY: the workspace is this function's alone so far. The call waits until the work is done.
    unsafe { context.memset(address, 0, layout.total_bytes) }?;
    begin(context, address, layout, last_epoch)
}

/// Makes a workspace of zeros, or one of ranks whose calls so far have come to a good end, what kernels expect.
pub(super) fn begin(context: &Context, address: u64, layout: &WorkspaceLayout, last_epoch: u64) -> Result<()> {
    let words: Vec<u8> = first_words(last_epoch).flat_map(u64::to_ne_bytes).collect();
    let landing_bytes = layout.marks_offset_bytes - layout.landing_offset_bytes;
    // SAFETY: no kernel uses the workspace now. The calls wait until the work is done.
    unsafe {
        context.memset(address + layout.landing_offset_bytes as u64, MARKER_BYTE, landing_bytes)?;
        context.copy_to_device(address, &words)?;
    }
    Ok(())
}
