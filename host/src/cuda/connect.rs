//! A rank on a GPU whose peers are processes of their own: what each tells the others, and workspaces that all of them map.

use std::os::fd::AsFd;
use std::sync::Arc;

use allfold_kernels::protocol::abi::{Algorithm, MAX_RANKS, WorkspaceLayout};

use super::device::Device;
use super::kernels::{self, Kernels};
use super::prepare::{Held, check_launches, clear, hold_blocks, most_threads, waits};
use super::rank::{Made, Rank, Workspace};
use super::ranks::CudaRanks;
use super::raw::{Context, ShareableMemory};
use super::sharing::CudaSharing;
use super::status::Pages;
use super::turn::Turn;
use crate::arguments::Workspaces;
use crate::error::{Error, Result};
use crate::members::Members;
use crate::options::Options;
use crate::plan::Limits;
use crate::processes::{Meeting, exchange};
use crate::reach::Reach;
use crate::tuning::Origin;

/// A GPU that is ready but for workspaces.
struct Ready {
    device: Device,
    context: Context,
    kernels: Arc<Kernels>,
    turn: Turn,
    held: Held,
    max_threads: [u32; Algorithm::ALL.len()],
}

impl Ready {
    fn new(ordinal: u32, options: &Options, members: Members) -> Result<Ready> {
        check_launches()?;
        let device = Device::get(ordinal)?;
        let context = device.context()?;
        let held = hold_blocks(std::slice::from_ref(&device), options)?;
        let kernels = Arc::new(Kernels::load(&context, &device, options, members)?);
        // Whether early kernels, of this communicator or another, may lie beside this one's blocks.
        let beside = !held.alone && waits(&device);
        let max_threads = most_threads(&kernels, ordinal, beside)?;
        let turn = Turn::new(&context)?;
        Ok(Ready { device, context, kernels, turn, held, max_threads })
    }

    fn tell(&self) -> Told {
        let Ready { device, held, max_threads, .. } = self;
        let (uuid, name) = (device.uuid.clone(), device.name.clone());
        Told { uuid, name, max_blocks: held.max_blocks, max_threads: *max_threads }
    }
}

/// What a rank tells the others of its GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// By which GPUs are told from each other: each process counts them in its own way.
    uuid: String,
    name: String,
    max_blocks: u32,
    max_threads: [u32; Algorithm::ALL.len()],
}

impl Told {
    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers: Vec<_> = self.max_threads.iter().map(u32::to_string).collect();
        format!("{}\n{}\n{}\n{}", self.uuid, self.name, self.max_blocks, numbers.join(" ")).into_bytes()
    }

    pub(super) fn decode(word: &[u8]) -> Option<Told> {
        let text = str::from_utf8(word).ok()?;
        // Not `lines`, which would take what ends otherwise, and leave out the end of it.
        let [uuid, name, max_blocks, numbers] = text.split('\n').collect::<Vec<_>>().try_into().ok()?;
        let numbers = numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<Vec<_>>>()?;
        Some(Told {
            uuid: uuid.to_owned(),
            name: name.to_owned(),
            max_blocks: max_blocks.parse().ok()?,
            max_threads: numbers.try_into().ok()?,
        })
    }
}

impl CudaRanks {
    /// The rank of `meeting` on this process's GPU `ordinal`, and its peers in theirs. `options` have been agreed upon.
    pub(crate) fn connect(
        meeting: &Meeting<'_>,
        ordinal: u32,
        layout: WorkspaceLayout,
        options: &Options,
        limits: Limits,
    ) -> Result<CudaRanks> {
        let members = meeting.members();
        let (ready, words) = meeting.step(Ready::new(ordinal, options, members), |ready| ready.tell().encode())?;
        let told = (0..).zip(&words).map(|(rank, word)| {
            let failed =
                || Error::RankFailed { rank, why: "it said of its GPU what this version does not know".into() };
            Told::decode(word).ok_or_else(failed)
        });
        let told = meeting.done(told.collect::<Result<Vec<_>>>())?;
        // Each GPU by the first rank that has it.
        let first = |gpu: &Told| told.iter().position(|other| other.uuid == gpu.uuid).unwrap_or(0) as u32;
        if let Some(table) = &options.tuning {
            table.check_device(&Origin::gpus(told.iter().map(|gpu| (first(gpu), &*gpu.name))))?;
        }
        let Ready { device, context, kernels, turn, held, .. } = ready;
        let shared = told.iter().filter(|gpu| gpu.uuid == device.uuid).count() > 1;
        if shared {
            tracing::warn!(
                ordinal,
                "ranks of several processes share this GPU, whose kernels take turns by time slices"
            );
        }

        let workspace = || {
            let (memory, descriptor) = ShareableMemory::create(&context, layout.total_bytes)?;
            clear(&context, memory.address(), &layout, options.last_epoch)?;
            let rows = if kernels::reads_rows(options, members) { options.captured_calls } else { 0 };
            Ok((memory, descriptor, Reach::new(CudaSharing::new(vec![context.clone()], rows)?, members, rows)))
        };
        let (own, descriptor, reach) = meeting.done(workspace())?;
        let descriptors = exchange(meeting, &[descriptor.as_fd()])?;
        let import = |descriptor| Ok(ShareableMemory::import(&context, &[(descriptor, layout.total_bytes)])?);
        let peers = descriptors.iter().flatten().map(import).collect::<Result<Vec<_>>>();
        let peers = meeting.done(peers)?;

        let mut addresses = [0; MAX_RANKS];
        let mut mapped = peers.iter();
        for (rank, address) in (0..members.world).zip(&mut addresses) {
            let memory = if rank == meeting.rank() { Some(&own) } else { mapped.next() };
            *address = memory.map_or(0, ShareableMemory::address);
        }
        let all = |of: fn(&Told) -> u32| told.iter().map(of).min().unwrap_or(0);
        let max_threads =
            std::array::from_fn(|algorithm| told.iter().map(|gpu| gpu.max_threads[algorithm]).min().unwrap_or(0));
        let early = options.early_launch && !shared && waits(&device);
        let rank = Rank { device: device.ordinal, context, kernels, turn, workspace: Workspace::Shareable(own) };
        let peers = Arc::new(peers);
        let pages = Arc::new(meeting.done(Pages::new(&rank.context, members, Arc::clone(&peers)))?);
        Ok(CudaRanks::of(Made {
            ranks: vec![rank],
            peers,
            workspaces: Workspaces::new(addresses, layout, members, options, pages.address()),
            pages,
            limits: Limits { max_blocks: all(|gpu| gpu.max_blocks), max_threads, ..limits },
            early,
            reach,
            options: options.clone(),
            gpus: told.into_iter().map(|gpu| gpu.uuid).collect(),
            holds: held.holds,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard_and_anything_else_is_refused() {
        let told =
            Told { uuid: "2a00".into(), name: "NVIDIA H200".into(), max_blocks: 66, max_threads: [1, 2, 3, 4, 5, 6] };
        assert_eq!(Told::decode(&told.encode()), Some(told.clone()));
        let word = told.encode();
        for end in 0..word.len() - 1 {
            assert_ne!(Told::decode(&word[..end]), Some(told.clone()), "{end} bytes");
        }
        for word in [&b""[..], b"a\nb\nc\n1 2 3 4 5 6", b"a\nb\n1\n1 2 3", b"\xff\nb\n1\n1 2 3 4 5 6"] {
            assert_eq!(Told::decode(word), None);
        }
        assert_eq!(Told::decode(b"a\nb\n1\n1 2 3 4 5 6\nand more"), None);
        let odd = Told { name: "a name\r".into(), ..told };
        assert_eq!(Told::decode(&odd.encode()), Some(odd));
    }
}
