//! The arguments of a kernel, as the host passes them.

use core::mem::size_of;

use super::abi::MAX_RANKS;

/// Words of a [`KernelArgs::row`]: an input and an output of each rank.
pub const ROW_WORDS: usize = 2 * MAX_RANKS;

/// The arguments of every kernel, passed by value. They do not change from replay to replay of a captured call.
///
/// Addresses are unified virtual addresses: every rank of the process may use them. What a push needs stands together at the
/// start, so that a multiprocessor fetches few lines of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct KernelArgs {
    /// This rank's own input, as the caller gave it.
    pub source: u64,
    /// This rank's output.
    pub output: u64,
    /// Elements of the call.
    pub elems: u64,
    /// This rank's own workspace, `workspaces[rank]`: a kernel need not look it up.
    pub workspace: u64,
    /// Start of this rank's own landing area: generation 0, slot 0.
    pub landing: u64,
    /// Packs of a generation of landing slots.
    pub generation_packs: u32,
    /// Packs of a landing slot that small calls share.
    pub landing_shared_packs: u32,
    /// This rank.
    pub rank: u32,
    /// Ranks of the communicator.
    pub world: u32,
    /// 1 when every buffer of the caller that this rank touches is aligned to [`PACK_BYTES`](super::abi::PACK_BYTES), else 0; of those in a row it is not
    /// said.
    pub aligned: u16,
    /// 1 when the next kernel of the stream may become resident while this one runs, else 0.
    pub early: u16,
    /// The protocol, encoded by [`super::spec::Protocol::encode`]; read by the kernels of the presets, and by those of any operation.
    pub protocol: u16,
    /// The operation, as [`Reduction`](super::reduction::Reduction) has it; read by the kernels of any operation only.
    pub reduction: u16,
    /// Start of this rank's slot, in generation 0, on each of the others, by [`step_to`](super::abi::step_to).
    pub landings: [u64; MAX_RANKS - 1],
    /// Bytes of a landing slot.
    pub landing_slot_bytes: u64,
    /// Nanoseconds after which a wait ends; `u64::MAX`: never.
    pub timeout_ns: u64,
    /// What the call is, for the ranks to compare; zeros: they do not.
    pub signature: [u64; 2],
    /// [`HOST_BOARD_WORDS`](super::abi::HOST_BOARD_WORDS) words of the host's memory. CPU ranks have none: their host writes into
    /// workspaces.
    pub host_board: u64,
    /// Where each rank's input can be read by all ranks: the caller's buffer, or staging bank 0.
    pub inputs: [u64; MAX_RANKS],
    /// Start of each rank's workspace.
    pub workspaces: [u64; MAX_RANKS],
    /// Each rank's output, where all ranks may write it.
    pub outputs: [u64; MAX_RANKS],
    /// A row of [`ROW_WORDS`] words in this rank's memory that stands for `inputs` and `outputs`, one after the other, in a
    /// captured call whose buffers are made known afterwards; 0: there is none. All words are 0 until then.
    pub row: u64,
    /// Bytes added to `inputs` in calls of odd epoch: the distance of the staging banks, or 0.
    pub input_bank_bytes: u64,
    /// Bytes from the start of a workspace to its scratch area.
    pub scratch_offset_bytes: u64,
    /// Nanoseconds of a planted delay; read by the kernels of stress runs only.
    pub delay_ns: u32,
    /// One in so many places of a call is delayed.
    pub delay_one_in: u32,
    /// 1 when a wait that ends early is to end the context with it, else 0.
    pub traps: u32,
    /// Start of this rank's marks; 0: none are left. Read by the kernels of stress runs only.
    pub marks: u64,
}

const _: () = {
    let fields_bytes = 8 * (4 * MAX_RANKS - 1) + 14 * 8 + 9 * 4;
    assert!(size_of::<KernelArgs>() == fields_bytes.next_multiple_of(16) && size_of::<KernelArgs>() <= 4096);
};
