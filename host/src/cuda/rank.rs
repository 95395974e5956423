//! A rank on a GPU of this process: what it needs for its calls; and what all of them are made of.

use std::sync::Arc;

use super::kernels::Kernels;
use super::raw::{Context, DeviceMemory, ShareableMemory};
use super::residency::Hold;
use super::sharing::CudaSharing;
use super::status::Pages;
use super::turn::Turn;
use crate::arguments::Workspaces;
use crate::options::Options;
use crate::plan::Limits;
use crate::reach::Reach;

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

/// What [`CudaRanks`](super::ranks::CudaRanks) are made of.
pub(super) struct Made {
    pub(super) ranks: Vec<Rank>,
    pub(super) peers: Arc<Vec<ShareableMemory>>,
    pub(super) pages: Arc<Pages>,
    pub(super) workspaces: Workspaces,
    pub(super) limits: Limits,
    pub(super) early: bool,
    pub(super) reach: Reach<CudaSharing>,
    pub(super) options: Options,
    pub(super) gpus: Vec<String>,
    pub(super) holds: Vec<Hold>,
}
