//! A rank on a GPU of this process: what it needs for its calls.

use std::sync::Arc;

use super::kernels::Kernels;
use super::raw::{Context, DeviceMemory, ShareableMemory};
use super::turn::Turn;

/// A rank that this process drives.
pub(super) struct Rank {
    pub(super) device: u32,
    pub(super) context: Context,
    pub(super) kernels: Arc<Kernels>,
    pub(super) turn: Turn,
    pub(super) workspace: Workspace,
}

/// The memory of a rank's workspace.
pub(super) enum Workspace {
    /// Of this process alone.
    Private(DeviceMemory),
    /// That other processes map.
    Shareable(ShareableMemory),
}

impl Workspace {
    /// Where it starts.
    pub(super) fn address(&self) -> u64 {
        match self {
            Workspace::Private(memory) => memory.address(),
            Workspace::Shareable(memory) => memory.address(),
        }
    }
}
