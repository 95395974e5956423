//! Request, plan and workspaces made into kernel arguments: the same for every backend.

use std::time::Duration;

use allfold_kernels::protocol::abi::{
    InputMode, KernelArgs, LANDING_SHARED_PACKS, MAX_RANKS, PACK_BYTES, Rank, Reduction, WorkspaceLayout, landing_slot,
};
use allfold_kernels::protocol::signature::Signature;

use crate::buffers::RawBuffers;
use crate::members::Members;
use crate::options::{Delays, OnTimeout, Options};
use crate::plan::Plan;
use crate::request::Request;

/// The memory of a communicator that kernels work on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workspaces {
    /// Start of each rank's workspace, in this process.
    pub(crate) addresses: [u64; MAX_RANKS],
    /// What lies where in each.
    pub(crate) layout: WorkspaceLayout,
    /// Ranks.
    pub(crate) members: Members,
    /// Nanoseconds after which a wait ends; `u64::MAX`: never.
    timeout_ns: u64,
    /// Whether a wait that ends early ends the context.
    traps: bool,
    /// Whether ranks compare their calls.
    compares: bool,
    /// Where kernels find the words of their host, if not in workspaces.
    host_board: u64,
    /// Delays to plant.
    delays: Option<Delays>,
}

/// Where a call finds the buffers of the callers, if its algorithm has ranks use each other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    /// Among the call's own: all ranks are here, or no rank uses another's.
    Local,
    /// At these addresses of this process.
    At {
        /// The inputs of all ranks.
        inputs: [u64; MAX_RANKS],
        /// Their outputs.
        outputs: [u64; MAX_RANKS],
    },
    /// In a row of the local rank's memory, at this address.
    Row(u64),
}

/// How long a wait lasts, for kernels.
fn nanoseconds(timeout: Option<Duration>) -> u64 {
    timeout.map_or(u64::MAX, |timeout| timeout.as_nanos().min(u64::MAX.into()) as u64)
}

impl Workspaces {
    pub(crate) fn new(
        addresses: [u64; MAX_RANKS],
        layout: WorkspaceLayout,
        members: Members,
        options: &Options,
        host_board: u64,
    ) -> Self {
        Workspaces {
            addresses,
            layout,
            members,
            timeout_ns: nanoseconds(options.timeout),
            traps: options.on_timeout == OnTimeout::Trap,
            compares: options.compare_calls,
            host_board,
            delays: options.delays,
        }
    }

    /// The same, for calls of a self-test: a wait lasts `limit`, and what ends early never ends the context.
    pub(crate) fn within(self, limit: Duration) -> Workspaces {
        Workspaces { timeout_ns: nanoseconds(Some(limit)), traps: false, ..self }
    }

    /// Each local rank's arguments for an all-reduce.
    pub(crate) fn all_reduce(
        &self,
        request: &Request,
        plan: &Plan,
        buffers: &[RawBuffers<'_>],
        peers: &Peers,
    ) -> [KernelArgs; MAX_RANKS] {
        let (mut inputs, mut outputs) = ([0; MAX_RANKS], [0; MAX_RANKS]);
        for (rank, workspace) in (0..self.members.world).zip(self.addresses) {
            // What peers read, and where they may store: the caller's buffers, or what stands for them.
            let place = rank as usize;
            (inputs[place], outputs[place]) = match (plan.input, peers) {
                (InputMode::Memcpy | InputMode::Copied, _) => {
                    [workspace + self.layout.staging_offset_bytes as u64; 2].into()
                }
                // Those of another process are out of reach, and then no plan has an algorithm that uses them.
                (InputMode::Registered, Peers::Local) => {
                    self.members.index(rank).map_or((0, 0), |index| (buffers[index].input, buffers[index].output))
                }
                (InputMode::Registered, Peers::At { inputs, outputs }) => (inputs[place], outputs[place]),
                (InputMode::Registered, Peers::Row(_)) => (0, 0),
            };
        }
        let (row, low_bits) = match peers {
            Peers::Local => (0, 0),
            Peers::At { inputs, outputs } => (0, inputs.iter().chain(outputs).fold(0, |bits, address| bits | address)),
            // The kernel looks for itself.
            Peers::Row(address) => (*address, 0),
        };
        let aligned = request.aligned && low_bits.is_multiple_of(PACK_BYTES as u64);
        let alternates = plan.input.staged() && plan.protocol.alternates();
        let bank_bytes = if alternates { self.layout.staging_bank_bytes as u64 } else { 0 };
        self.each(request, buffers, |args| KernelArgs {
            inputs,
            outputs,
            row,
            aligned: aligned.into(),
            input_bank_bytes: bank_bytes,
            protocol: plan.protocol.encode() as u16,
            reduction: Reduction::of(request.op, request.dtype.is_unsigned()).0,
            signature: if self.compares { plan.signature(request).0 } else { Signature::NONE.0 },
            ..args
        })
    }

    /// Each local rank's arguments for a kernel that reads its `input` and writes its `output`, and sees no peer's data.
    pub(crate) fn local(&self, request: &Request, buffers: &[RawBuffers<'_>]) -> [KernelArgs; MAX_RANKS] {
        self.each(request, buffers, |args| args)
    }

    /// Start of `rank`'s landing slot on each peer, from the right neighbour on.
    fn slots_on_peers(&self, rank: Rank) -> [u64; MAX_RANKS - 1] {
        let mut slots = [0; MAX_RANKS - 1];
        let world = self.members.world;
        for (step, slot) in (1..world).zip(&mut slots) {
            let peer = Rank((rank.0 + step) % world);
            let offset_bytes = landing_slot(peer, rank) as usize * self.layout.landing_slot_bytes;
            *slot = self.addresses[peer.0 as usize] + (self.layout.landing_offset_bytes + offset_bytes) as u64;
        }
        slots
    }

    /// Start of `rank`'s marks; 0: there are none.
    fn marks(&self, rank: u32) -> u64 {
        match self.layout.has_marks() {
            true => self.addresses[rank as usize] + self.layout.marks_offset_bytes as u64,
            false => 0,
        }
    }

    fn each(
        &self,
        request: &Request,
        buffers: &[RawBuffers<'_>],
        finish: impl Fn(KernelArgs) -> KernelArgs,
    ) -> [KernelArgs; MAX_RANKS] {
        let world = self.members.world;
        let mut all = [KernelArgs::default(); MAX_RANKS];
        for ((rank, args), b) in self.members.ranks().zip(&mut all).zip(buffers) {
            *args = finish(KernelArgs {
                workspaces: self.addresses,
                workspace: self.addresses[rank as usize],
                source: b.input,
                output: b.output,
                elems: request.elems,
                scratch_offset_bytes: self.layout.scratch_offset_bytes as u64,
                landings: self.slots_on_peers(Rank(rank)),
                landing: self.addresses[rank as usize] + self.layout.landing_offset_bytes as u64,
                landing_slot_bytes: self.layout.landing_slot_bytes as u64,
                landing_shared_packs: (LANDING_SHARED_PACKS / (world.max(2) - 1)).min(self.layout.landing_slot_packs()),
                generation_packs: self.layout.landing_generation_packs(world),
                timeout_ns: self.timeout_ns,
                host_board: self.host_board,
                traps: self.traps.into(),
                rank,
                world,
                aligned: request.aligned.into(),
                marks: self.marks(rank),
                delay_ns: self.delays.map_or(0, |delays| delays.nanoseconds),
                delay_one_in: self.delays.map_or(0, |delays| delays.one_in),
                ..KernelArgs::default()
            });
        }
        all
    }
}
