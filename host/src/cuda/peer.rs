//! Which GPU can reach which, and letting it. Uses `raw.rs`.

use super::{
    device::Device,
    raw::{Context, DriverError},
};

/// The way from one device's kernels to another's memory, as the driver describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerLink {
    /// Whether there is one.
    pub access: bool,
    /// Whether the link itself does atomic operations.
    pub native_atomics: bool,
    /// The driver's rank of the link: 0 is the fastest kind.
    pub performance_rank: i32,
}

/// Peer access that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The machine has no way from one device to the other.
    #[error("rank {rank} has no peer access to rank {peer}")]
    NoAccess {
        /// Index of the context whose kernels would need it.
        rank: usize,
        /// Index of the context whose memory it is.
        peer: usize,
    },
    /// The driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// All links: `[from][to]`. A device's link to itself has everything.
///
/// # Errors
///
/// `cuDeviceCanAccessPeer` or `cuDeviceGetP2PAttribute` failed.
pub fn matrix(devices: &[Device]) -> Result<Vec<Vec<PeerLink>>, DriverError> {
    devices.iter().map(|from| devices.iter().map(|to| link(from, to)).collect()).collect()
}

fn link(from: &Device, to: &Device) -> Result<PeerLink, DriverError> {
    let (from, to) = (from.handle(), to.handle());
    if from == to {
        return Ok(PeerLink { access: true, native_atomics: true, performance_rank: 0 });
    }
    Ok(PeerLink {
        access: from.can_access(to)?,
        native_atomics: from.native_atomics(to)?,
        performance_rank: from.performance_rank(to)?,
    })
}

/// Lets the kernels of every context use what is allocated in every other one. Contexts may repeat: ranks that share a
/// device need nothing.
///
/// # Errors
///
/// [`PeerError::NoAccess`] for the first pair without, before anything is changed; else what the driver says.
pub(crate) fn enable_all(contexts: &[Context]) -> Result<(), PeerError> {
    for (rank, peer) in pairs(contexts.len()) {
        let (from, to) = (contexts[rank].device(), contexts[peer].device());
        if from != to && !from.can_access(to)? {
            return Err(PeerError::NoAccess { rank, peer });
        }
    }
    for (rank, peer) in pairs(contexts.len()) {
        contexts[rank].enable_peer_access(&contexts[peer])?;
    }
    Ok(())
}

fn pairs(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..ranks).flat_map(move |rank| (0..ranks).map(move |peer| (rank, peer))).filter(|(rank, peer)| rank != peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_ordered_and_of_two() {
        assert_eq!(pairs(3).collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
        assert_eq!(pairs(1).count(), 0);
    }
}
