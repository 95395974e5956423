//! The machine that one GPU thread is. The only inline assembly of the workspace is here.
//!
//! Long: so that all of it is in one file.
//!
//! Every memory access ends in a comment with the name of its operation; `cargo xtask audit-ptx` compares the two.
//! `options`: conversions are `pure, nomem`; plain loads of data are `readonly`; whatever is ordered has none, so that
//! the compiler moves no memory access across it.

use core::arch::asm;
use core::arch::nvptx::{_block_dim_x, _block_idx_x, _grid_dim_x, _thread_idx_x};

use crate::protocol::abi::{
    Bank, Dtype, FIRST_WRONG_OFFSET_BYTES, FlagRow, GONE_OFFSET_BYTES, KernelArgs, MARKER, MAX_RANKS,
    MISSING_OFFSET_BYTES, PACK_BYTES, Rank, STOP_OFFSET_BYTES, WAITED_OFFSET_BYTES, WRONG_OFFSET_BYTES,
    call_offset_bytes, cursor_offset_bytes, epoch_offset_bytes, flag_offset_bytes, landing_slot, step_to,
};
use crate::protocol::element::{Element, portable};
use crate::protocol::epoch::{self, Epoch};
use crate::protocol::machine::{Landing, Machine, Pack, Region};
use crate::protocol::mark::{Mark, marks, marks_offset_bytes};
use crate::protocol::push::{Cursor, Lane};
use crate::protocol::reduction::Reduction;
use crate::protocol::signature::Signature;
use crate::protocol::status::{Board, LongestWait, Ranks, Why};
use crate::protocol::wait::refuse;

/// A GPU thread of one of `W` ranks, with its kernel's arguments. If it is `CAPTURED`, the buffers of all ranks stand in the row
/// that the arguments name, else in the arguments. If it `MARKS`, it leaves word of when it came where, if the arguments say so.
#[derive(Clone, Copy)]
pub(super) struct Ptx<'a, const W: usize, const CAPTURED: bool, const MARKS: bool> {
    args: &'a KernelArgs,
    /// What the row says, where there is one.
    row_inputs: [u64; MAX_RANKS],
    row_outputs: [u64; MAX_RANKS],
}

impl<'a, const W: usize, const CAPTURED: bool, const MARKS: bool> Ptx<'a, W, CAPTURED, MARKS> {
    /// The thread that runs this.
    ///
    /// # Safety
    /// - Every address in `args` is that of a live buffer of the length that `args` implies, accessible to this GPU.
    /// - `args.workspaces` are laid out by `abi`, their first words set as `abi::first_words` says, their landing areas to the
    ///   marker and the rest to 0 when their communicator was made, and used by it alone.
    /// - The grid has at most `MAX_BLOCKS` blocks, the same number on each rank, all resident together.
    #[inline(always)]
    pub(super) unsafe fn new(args: &'a KernelArgs) -> Self {
        // Here, so that no loop has it to do; what is not used is not loaded.
        let word = |word| if CAPTURED { Self::ld_row(args, word) } else { 0 };
        let row_inputs = core::array::from_fn(word);
        let row_outputs = core::array::from_fn(|rank| word(MAX_RANKS + rank));
        Ptx { args, row_inputs, row_outputs }
    }

    /// A word of the row. It does not change while a kernel runs that uses it: hence `pure` and `nomem`.
    #[inline(always)]
    fn ld_row(args: &KernelArgs, word: usize) -> u64 {
        let address;
        let from = args.row + 8 * word as u64;
        // SAFETY: inside the row, which the host has written before any launch that uses it.
        unsafe {
            asm!("ld.global.u64 {}, [{}]; // ld_row", out(reg64) address, in(reg64) from, options(pure, nomem, nostack))
        }
        address
    }

    /// `table[rank]` for a rank known at run time only. An index would put the table into local memory, and so would a
    /// choice between loads of it, which the compiler turns back into an index; hence the copies that it cannot look into.
    #[inline(always)]
    fn select<const N: usize>(table: &[u64; N], rank: Rank) -> u64 {
        let copy = |i: usize| {
            let address: u64;
            // SAFETY: arithmetic on registers.
            unsafe { asm!("mov.b64 {}, {};", out(reg64) address, in(reg64) table[i], options(pure, nomem, nostack)) }
            address
        };
        let mut address = copy(0);
        for i in 1..if W < N { W } else { N } {
            if rank.0 == i as u32 {
                address = copy(i);
            }
        }
        address
    }

    #[inline(always)]
    fn input_of(&self, owner: Rank) -> u64 {
        Self::select(if CAPTURED { &self.row_inputs } else { &self.args.inputs }, owner)
    }

    #[inline(always)]
    fn output_of(&self, owner: Rank) -> u64 {
        Self::select(if CAPTURED { &self.row_outputs } else { &self.args.outputs }, owner)
    }

    /// Whether the buffers of all ranks are known. If not, this rank leaves word of it.
    #[inline(always)]
    pub(super) fn knows_buffers(&self) -> bool {
        if !CAPTURED || self.row_inputs[0] != 0 {
            return true;
        }
        refuse(self, epoch::current(self), Why::UnknownBuffers);
        false
    }

    #[inline(always)]
    fn peer_flag(&self, listener: Rank, row: FlagRow) -> u64 {
        Self::select(&self.args.workspaces, listener) + flag_offset_bytes(row, self.rank()) as u64
    }

    #[inline(always)]
    fn own_flag(&self, row: FlagRow, emitter: Rank) -> u64 {
        self.args.workspace + flag_offset_bytes(row, emitter) as u64
    }

    #[inline(always)]
    fn ld_word(&self, offset_bytes: usize) -> u64 {
        let word;
        let address = self.args.workspace + offset_bytes as u64;
        // SAFETY: a word of this rank's workspace.
        unsafe { asm!("ld.global.u64 {}, [{}]; // ld_word", out(reg64) word, in(reg64) address, options(nostack)) }
        word
    }

    /// Two words that peers or the host write while this kernel runs.
    #[inline(always)]
    fn board_at(&self, address: u64) -> Board {
        const { assert!(GONE_OFFSET_BYTES == STOP_OFFSET_BYTES + 8 && STOP_OFFSET_BYTES.is_multiple_of(16)) };
        let (stop, gone);
        // SAFETY: aligned words of this rank's workspace, or of the page of its host.
        unsafe {
            asm!(
                "ld.acquire.sys.global.v2.u64 {{{}, {}}}, [{}]; // ld_board",
                out(reg64) stop, out(reg64) gone, in(reg64) address,
                options(nostack)
            );
        }
        Board { stop, gone: Ranks::of_bytes(gone) }
    }

    /// That all are to stop.
    #[inline(always)]
    fn st_stop(&self, address: u64, stop: u64) {
        // SAFETY: a word of a rank's workspace, or of the host's page. Several threads may write it; any of their words is a true
        // answer.
        unsafe {
            asm!("st.relaxed.sys.global.u64 [{}], {}; // st_stop", in(reg64) address, in(reg64) stop, options(nostack));
        }
    }

    /// Where `emitter` tells this rank, or `listener` is told by this rank, what a call is.
    #[inline(always)]
    fn call_word(workspace: u64, bank: Bank, emitter: Rank) -> u64 {
        let (first, next) = (call_offset_bytes(Bank(0), Rank(0)), call_offset_bytes(Bank(1), Rank(0)));
        let each = call_offset_bytes(Bank(0), Rank(1)) - first;
        workspace + first as u64 + bank.0 as u64 * (next - first) as u64 + emitter.0 as u64 * each as u64
    }

    /// Raises a word of this rank's marks.
    #[inline(always)]
    fn red_mark(&self, address: u64, value: u64) {
        // SAFETY: a word of this rank that only its own kernels write.
        unsafe {
            asm!("red.global.max.u64 [{}], {}; // red_mark", in(reg64) address, in(reg64) value, options(nostack))
        }
    }

    /// Waits until the kernel before in the stream has ended and is visible, and with it, if it waited in its turn, all
    /// before it; then lets the next kernel become resident, if the host says so. Every thread comes here before it touches
    /// memory.
    #[inline(always)]
    pub(super) fn begin(&self) {
        if cfg!(target_feature = "sm_90") {
            // SAFETY: waits, and nothing else; after an ordinary launch there is nothing to wait for.
            unsafe { asm!("griddepcontrol.wait;", options(nostack)) }
            if self.args.early != 0 {
                // SAFETY: touches no memory. However this kernel was launched, the next one may be an early one.
                unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack)) }
            }
        }
    }

    /// [`Ptx::begin`] with `lane` known before: the time for it is gone while the kernel waits.
    #[inline(always)]
    pub(super) fn begin_with(&self, lane: Lane) -> Lane {
        let all = lane.all_ones();
        // SAFETY: compares registers. A lane's stride is less than 2^20; the compiler does not know that the threads all go on, so
        // it computes the lane here.
        unsafe {
            asm!("{{ .reg .pred p; setp.eq.u32 p, {}, 0xffffffff; @p exit; }}", in(reg32) all, options(nomem, nostack))
        }
        self.begin();
        lane
    }

    /// The address of `at` in the slot that starts at `slot` in generation 0.
    #[inline(always)]
    fn landing(&self, slot: u64, at: Landing) -> u64 {
        slot + (at.generation.0 * self.args.generation_packs + at.pack) as u64 * PACK_BYTES as u64
    }

    /// Start of this rank's slot on `listener`, in generation 0.
    #[inline(always)]
    fn peer_slot(&self, listener: Rank) -> u64 {
        match W {
            2 => self.args.landings[0],
            _ => Self::select(&self.args.landings, Rank(step_to(self.rank(), listener, W as u32))),
        }
    }

    /// Start of this rank's slot for `emitter`, in generation 0. Two ranks have one slot each.
    #[inline(always)]
    fn own_slot(&self, emitter: Rank) -> u64 {
        let slot = if W == 2 { 0 } else { landing_slot(self.rank(), emitter) };
        self.args.landing + slot as u64 * self.args.landing_slot_bytes
    }

    #[inline(always)]
    fn st_landing(&self, address: u64, [a, b, c, d]: [u32; 4]) {
        // SAFETY: an aligned pack inside a landing slot.
        unsafe {
            asm!(
                "st.relaxed.sys.global.v4.u32 [{}], {{{}, {}, {}, {}}}; // st_landing",
                in(reg64) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
                options(nostack)
            );
        }
    }

    /// As [`Ptx::st_landing`], each half of 8 bytes at once.
    #[inline(always)]
    fn st_landing_pairs(&self, address: u64, words: [u32; 4]) {
        let [low, high] = pairs(words);
        // SAFETY: as above.
        unsafe {
            asm!(
                "st.relaxed.sys.global.v2.u64 [{}], {{{}, {}}}; // st_landing_pairs",
                in(reg64) address, in(reg64) low, in(reg64) high,
                options(nostack)
            );
        }
    }

    #[inline(always)]
    fn st_pack_at(&self, address: u64, [a, b, c, d]: [u32; 4]) {
        // SAFETY: inside a region that this rank may write, and aligned, as the kernel's arguments promise.
        unsafe {
            asm!(
                "st.global.v4.u32 [{}], {{{}, {}, {}, {}}}; // st_pack",
                in(reg64) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
                options(nostack)
            );
        }
    }

    #[inline(always)]
    fn st_elem_at<T: Element>(&self, address: u64, value: Pack) {
        let word = value.0[0];
        match T::DTYPE {
            // SAFETY: an element of a region that this rank may write.
            Dtype::F64 | Dtype::I64 | Dtype::U64 => unsafe {
                asm!("st.global.u64 [{}], {}; // st_elem", in(reg64) address, in(reg64) value.double(0), options(nostack));
            },
            // SAFETY: as above.
            Dtype::F32 | Dtype::I32 | Dtype::U32 => unsafe {
                asm!("st.global.u32 [{}], {}; // st_elem", in(reg64) address, in(reg32) word, options(nostack));
            },
            // SAFETY: as above.
            Dtype::F16 | Dtype::Bf16 => unsafe {
                asm!("st.global.u16 [{}], {}; // st_elem", in(reg64) address, in(reg16) word as u16, options(nostack));
            },
            // SAFETY: as above.
            Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 => unsafe {
                asm!("st.global.u8 [{}], {}; // st_elem", in(reg64) address, in(reg32) word, options(nostack));
            },
        }
    }

    #[inline(always)]
    fn st_word(&self, offset_bytes: usize, word: u64) {
        let address = self.args.workspace + offset_bytes as u64;
        // SAFETY: a word of this rank's workspace.
        unsafe { asm!("st.global.u64 [{}], {}; // st_word", in(reg64) address, in(reg64) word, options(nostack)) }
    }

    #[inline(always)]
    fn base(&self, region: Region, owner: Rank) -> u64 {
        match region {
            Region::Source => self.args.source,
            Region::Output => self.args.output,
            Region::Input(Bank(bank)) => self.input_of(owner) + bank as u64 * self.args.input_bank_bytes,
            Region::Scratch => Self::select(&self.args.workspaces, owner) + self.args.scratch_offset_bytes,
        }
    }
}

/// Words 0 and 1, and words 2 and 3.
#[inline(always)]
fn pairs([a, b, c, d]: [u32; 4]) -> [u64; 2] {
    [a as u64 | (b as u64) << 32, c as u64 | (d as u64) << 32]
}

impl<const W: usize, const CAPTURED: bool, const MARKS: bool> Machine for Ptx<'_, W, CAPTURED, MARKS> {
    #[inline(always)]
    fn rank(&self) -> Rank {
        Rank(self.args.rank)
    }
    #[inline(always)]
    fn world(&self) -> u32 {
        self.args.world
    }
    #[inline(always)]
    fn block(&self) -> u32 {
        // SAFETY: reads a special register.
        unsafe { _block_idx_x() as u32 }
    }
    #[inline(always)]
    fn blocks(&self) -> u32 {
        // SAFETY: reads a special register.
        unsafe { _grid_dim_x() as u32 }
    }
    #[inline(always)]
    fn thread(&self) -> u32 {
        // SAFETY: reads a special register.
        unsafe { _thread_idx_x() as u32 }
    }
    #[inline(always)]
    fn threads(&self) -> u32 {
        // SAFETY: reads a special register.
        unsafe { _block_dim_x() as u32 }
    }
    #[inline(always)]
    fn elems(&self) -> u64 {
        self.args.elems
    }
    #[inline(always)]
    fn landing_shared_packs(&self) -> u32 {
        self.args.landing_shared_packs
    }
    #[inline(always)]
    fn reduction(&self) -> Reduction {
        Reduction(self.args.reduction)
    }
    #[inline(always)]
    fn aligned(&self) -> bool {
        // The host knows it of those buffers only that stand in the arguments.
        let mut low_bits = 0;
        if CAPTURED {
            for rank in 0..W {
                low_bits |= self.row_inputs[rank] | self.row_outputs[rank];
            }
        }
        self.args.aligned != 0 && low_bits % PACK_BYTES as u64 == 0
    }

    #[inline(always)]
    fn mark(&self, epoch: Epoch, mark: Mark) {
        if MARKS && self.args.marks != 0 && marks(self.thread()) {
            let address = self.args.marks + marks_offset_bytes(epoch, self.block()) as u64;
            let now = self.now_ns();
            self.red_mark(address + 8 * mark.word() as u64, now);
            if matches!(mark, Mark::Begin) {
                self.red_mark(address, epoch.next().0);
            }
        }
    }

    #[inline(always)]
    fn sync_block(&self) {
        // SAFETY: all threads of the block come here, as the trait asks.
        unsafe { asm!("bar.sync 0;", options(nostack)) }
    }
    #[inline(always)]
    fn sync_block_all(&self, ok: bool) -> bool {
        let all: u32;
        // SAFETY: all threads of the block come here, as the trait asks.
        unsafe {
            asm!(
                "{{ .reg .pred p, q; setp.ne.u32 p, {ok}, 0; bar.red.and.pred q, 0, p; selp.u32 {all}, 1, 0, q; }}",
                ok = in(reg32) ok as u32,
                all = out(reg32) all,
                options(nostack)
            );
        }
        all != 0
    }
    #[inline(always)]
    fn pause_to_look(&self, polls: u32) -> bool {
        // Rarely: a look takes as long as a few polls, and is of use only where something is wrong.
        polls.is_multiple_of(1024)
    }
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        let now: u64;
        // SAFETY: reads a special register.
        unsafe { asm!("mov.u64 {}, %globaltimer;", out(reg64) now, options(nostack)) }
        now
    }
    #[inline(always)]
    fn timeout_ns(&self) -> u64 {
        self.args.timeout_ns
    }
    #[inline(always)]
    fn board(&self) -> Board {
        self.board_at(self.args.workspace + STOP_OFFSET_BYTES as u64)
    }
    #[inline(always)]
    fn host_board(&self) -> Board {
        self.board_at(self.args.host_board)
    }
    #[inline(always)]
    fn tell_stop(&self, rank: Rank, stop: u64) {
        let address = Self::select(&self.args.workspaces, rank) + STOP_OFFSET_BYTES as u64;
        self.st_stop(address, stop);
        // The host of this rank sees it there before it makes the next call.
        if rank == self.rank() {
            self.st_stop(self.args.host_board, stop);
        }
    }
    #[inline(always)]
    fn add_wait(&self, wait: LongestWait) {
        let address = self.args.workspace + WAITED_OFFSET_BYTES as u64;
        // SAFETY: a word of this rank's workspace that only its own kernels write.
        unsafe {
            asm!("red.global.max.u64 [{}], {}; // red_wait", in(reg64) address, in(reg64) wait.encode(), options(nostack));
        }
    }
    #[inline(always)]
    fn add_missing(&self, missing: Ranks) {
        let address = self.args.workspace + MISSING_OFFSET_BYTES as u64;
        // SAFETY: a word of this rank's workspace that only its own kernels write.
        unsafe {
            asm!("red.global.or.b64 [{}], {}; // red_missing", in(reg64) address, in(reg64) missing.0 as u64, options(nostack));
        }
    }
    #[inline(always)]
    fn trap_if_asked(&self) {
        if self.args.traps != 0 {
            // SAFETY: ends the kernel and its context, as the host asked for; what was left word of is on its way before.
            unsafe { asm!("fence.acq_rel.sys;\n\ttrap;", options(nostack)) }
        }
    }

    #[inline(always)]
    fn signature(&self) -> Signature {
        Signature(self.args.signature)
    }
    #[inline(always)]
    fn tell_call(&self, listener: Rank, bank: Bank, [low, high]: [u64; 2]) {
        let address = Self::call_word(Self::select(&self.args.workspaces, listener), bank, self.rank());
        // SAFETY: two aligned words that only this rank writes.
        unsafe {
            asm!(
                "st.relaxed.sys.global.v2.u64 [{}], {{{}, {}}}; // st_call",
                in(reg64) address, in(reg64) low, in(reg64) high,
                options(nostack)
            );
        }
    }
    #[inline(always)]
    fn call_told(&self, emitter: Rank, bank: Bank) -> [u64; 2] {
        let address = Self::call_word(self.args.workspace, bank, emitter);
        let (low, high);
        // SAFETY: two aligned words of this rank.
        unsafe {
            asm!(
                "ld.relaxed.sys.global.v2.u64 {{{}, {}}}, [{}]; // ld_call",
                out(reg64) low, out(reg64) high, in(reg64) address,
                options(nostack)
            );
        }
        [low, high]
    }

    #[inline(always)]
    fn st_flag_volatile(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        let address = self.peer_flag(listener, row);
        // SAFETY: a flag word that only this rank writes.
        unsafe {
            asm!("st.volatile.global.u64 [{}], {}; // st_flag_volatile", in(reg64) address, in(reg64) epoch.0, options(nostack));
        }
    }
    #[inline(always)]
    fn ld_flag_volatile(&self, emitter: Rank, row: FlagRow) -> Epoch {
        let epoch;
        let address = self.own_flag(row, emitter);
        // SAFETY: a flag word of this rank.
        unsafe {
            asm!("ld.volatile.global.u64 {}, [{}]; // ld_flag_volatile", out(reg64) epoch, in(reg64) address, options(nostack));
        }
        Epoch(epoch)
    }
    #[inline(always)]
    fn st_flag_release(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        let address = self.peer_flag(listener, row);
        // SAFETY: a flag word that only this rank writes.
        unsafe {
            asm!("st.release.sys.global.u64 [{}], {}; // st_flag_release", in(reg64) address, in(reg64) epoch.0, options(nostack));
        }
    }
    #[inline(always)]
    fn ld_flag_acquire(&self, emitter: Rank, row: FlagRow) -> Epoch {
        let epoch;
        let address = self.own_flag(row, emitter);
        // SAFETY: a flag word of this rank.
        unsafe {
            asm!("ld.acquire.sys.global.u64 {}, [{}]; // ld_flag_acquire", out(reg64) epoch, in(reg64) address, options(nostack));
        }
        Epoch(epoch)
    }

    #[inline(always)]
    fn ld_epoch(&self, block: u32) -> Epoch {
        Epoch(self.ld_word(epoch_offset_bytes(block)))
    }
    #[inline(always)]
    fn st_epoch(&self, block: u32, epoch: Epoch) {
        self.st_word(epoch_offset_bytes(block), epoch.0);
    }
    #[inline(always)]
    fn ld_cursor(&self, block: u32) -> Cursor {
        let address = self.args.workspace + cursor_offset_bytes(block) as u64;
        let (serial, rest);
        // SAFETY: an aligned cursor of this rank's workspace.
        unsafe {
            asm!("ld.global.v2.u64 {{{}, {}}}, [{}]; // ld_cursor", out(reg64) serial, out(reg64) rest, in(reg64) address, options(nostack));
        }
        Cursor::decode([serial, rest])
    }
    #[inline(always)]
    fn st_cursor(&self, block: u32, cursor: Cursor) {
        let address = self.args.workspace + cursor_offset_bytes(block) as u64;
        let [serial, rest] = cursor.encode();
        // SAFETY: an aligned cursor of this rank's workspace.
        unsafe {
            asm!("st.global.v2.u64 [{}], {{{}, {}}}; // st_cursor", in(reg64) address, in(reg64) serial, in(reg64) rest, options(nostack));
        }
    }

    #[inline(always)]
    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack {
        let address = self.base(region, owner) + pack * PACK_BYTES as u64;
        let (a, b, c, d);
        // SAFETY: inside `owner`'s region and aligned, as the kernel's arguments promise.
        unsafe {
            asm!(
                "ld.global.v4.u32 {{{}, {}, {}, {}}}, [{}]; // ld_pack",
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
                options(nostack, readonly)
            );
        }
        Pack([a, b, c, d])
    }
    #[inline(always)]
    fn st_pack(&self, region: Region, pack: u64, value: Pack) {
        let address = self.base(region, self.rank()) + pack * PACK_BYTES as u64;
        self.st_pack_at(address, value.0);
    }
    #[inline(always)]
    fn ld_elem<T: Element>(&self, region: Region, owner: Rank, elem: u64) -> Pack {
        let address = self.base(region, owner) + elem * T::DTYPE.bytes() as u64;
        let word = match T::DTYPE {
            Dtype::F64 | Dtype::I64 | Dtype::U64 => {
                let double: u64;
                // SAFETY: an element of `owner`'s region.
                unsafe {
                    asm!("ld.global.u64 {}, [{}]; // ld_elem", out(reg64) double, in(reg64) address, options(nostack, readonly));
                }
                return Pack::of_doubles([double, 0]);
            }
            Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 => {
                let word: u32;
                // SAFETY: an element of `owner`'s region. The bits above the loaded ones become 0.
                unsafe {
                    asm!("ld.global.u8 {}, [{}]; // ld_elem", out(reg32) word, in(reg64) address, options(nostack, readonly));
                }
                word
            }
            Dtype::F32 | Dtype::I32 | Dtype::U32 => {
                let word: u32;
                // SAFETY: an element of `owner`'s region.
                unsafe {
                    asm!("ld.global.u32 {}, [{}]; // ld_elem", out(reg32) word, in(reg64) address, options(nostack, readonly));
                }
                word
            }
            Dtype::F16 | Dtype::Bf16 => {
                let half: u16;
                // SAFETY: an element of `owner`'s region.
                unsafe {
                    asm!("ld.global.u16 {}, [{}]; // ld_elem", out(reg16) half, in(reg64) address, options(nostack, readonly));
                }
                half as u32
            }
        };
        Pack([word, 0, 0, 0])
    }
    #[inline(always)]
    fn st_elem<T: Element>(&self, region: Region, elem: u64, value: Pack) {
        let address = self.base(region, self.rank()) + elem * T::DTYPE.bytes() as u64;
        self.st_elem_at::<T>(address, value);
    }

    #[inline(always)]
    fn push_pack(&self, listener: Rank, at: Landing, value: Pack) {
        self.st_landing(self.landing(self.peer_slot(listener), at), value.0);
    }
    #[inline(always)]
    fn poll_pack(&self, emitter: Rank, at: Landing) -> Pack {
        let address = self.landing(self.own_slot(emitter), at);
        let (a, b, c, d);
        // SAFETY: an aligned pack inside a landing slot of this rank.
        unsafe {
            asm!(
                "ld.relaxed.sys.global.v4.u32 {{{}, {}, {}, {}}}, [{}]; // ld_landing",
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
                options(nostack)
            );
        }
        Pack([a, b, c, d])
    }
    #[inline(always)]
    fn clear_pack(&self, emitter: Rank, at: Landing) {
        self.st_landing(self.landing(self.own_slot(emitter), at), [MARKER; 4]);
    }
    #[inline(always)]
    fn push_pairs(&self, listener: Rank, at: Landing, value: Pack) {
        self.st_landing_pairs(self.landing(self.peer_slot(listener), at), value.0);
    }
    #[inline(always)]
    fn poll_pairs(&self, emitter: Rank, at: Landing) -> Pack {
        let address = self.landing(self.own_slot(emitter), at);
        let (low, high): (u64, u64);
        // SAFETY: an aligned pack inside a landing slot of this rank.
        unsafe {
            asm!(
                "ld.relaxed.sys.global.v2.u64 {{{}, {}}}, [{}]; // ld_landing_pairs",
                out(reg64) low, out(reg64) high, in(reg64) address,
                options(nostack)
            );
        }
        Pack([low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32])
    }
    #[inline(always)]
    fn clear_pairs(&self, emitter: Rank, at: Landing) {
        self.st_landing_pairs(self.landing(self.own_slot(emitter), at), [MARKER; 4]);
    }
    #[inline(always)]
    fn give_pack(&self, owner: Rank, pack: u64, value: Pack) {
        self.st_pack_at(self.output_of(owner) + pack * PACK_BYTES as u64, value.0);
    }
    #[inline(always)]
    fn give_elem<T: Element>(&self, owner: Rank, elem: u64, value: Pack) {
        let address = self.output_of(owner) + elem * T::DTYPE.bytes() as u64;
        self.st_elem_at::<T>(address, value);
    }

    #[inline(always)]
    fn add_wrong(&self, count: u64, elem: u64, bits: u64, epoch: Epoch) {
        let address = self.args.workspace + WRONG_OFFSET_BYTES as u64;
        // SAFETY: a word of this rank's workspace that is only ever added to.
        unsafe {
            asm!("red.global.add.u64 [{}], {}; // red_word", in(reg64) address, in(reg64) count, options(nostack))
        }
        // Threads of one launch may write the words at once: the answer is then about one of them each.
        if self.ld_word(FIRST_WRONG_OFFSET_BYTES + 16) == 0 {
            self.st_word(FIRST_WRONG_OFFSET_BYTES, elem);
            self.st_word(FIRST_WRONG_OFFSET_BYTES + 8, bits);
            self.st_word(FIRST_WRONG_OFFSET_BYTES + 16, epoch.0.wrapping_add(1));
        }
    }

    #[inline(always)]
    fn step(&self, by: u32) -> u32 {
        let step;
        // SAFETY: arithmetic. Every grid has one row, which the driver's compiler does not know: it would unroll loops, too. As this
        // is not `pure`, rustc leaves it where it is.
        unsafe {
            asm!(
                "{{ .reg .b32 one; mov.u32 one, %nctaid.y; mul.lo.u32 {}, {}, one; }}",
                out(reg32) step, in(reg32) by, options(nomem, nostack)
            );
        }
        step
    }
    #[inline(always)]
    fn ticks(&self) -> u32 {
        let ticks;
        // SAFETY: reads a special register.
        unsafe { asm!("mov.u32 {}, %clock;", out(reg32) ticks, options(nomem, nostack)) }
        ticks
    }
    #[inline(always)]
    fn pause(&self, nanoseconds: u32) {
        // The instruction takes a millisecond at most.
        let mut left = nanoseconds;
        while left > 0 {
            let step = left.min(1_000_000);
            // SAFETY: waits and does nothing else.
            unsafe { asm!("nanosleep.u32 {};", in(reg32) step, options(nostack)) }
            left -= step;
        }
    }

    #[inline(always)]
    fn f32_from_f16x2(&self, word: u32) -> [f32; 2] {
        let (low, high);
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!(
                "{{ .reg .b16 l, h; mov.b32 {{l, h}}, {word}; cvt.f32.f16 {low}, l; cvt.f32.f16 {high}, h; }}",
                word = in(reg32) word, low = out(reg32) low, high = out(reg32) high,
                options(pure, nomem, nostack)
            );
        }
        [f32::from_bits(low), f32::from_bits(high)]
    }
    #[inline(always)]
    fn f16x2_from_f32(&self, [low, high]: [f32; 2]) -> u32 {
        let word;
        // SAFETY: arithmetic on registers. The instruction takes the high half first.
        unsafe {
            asm!(
                "cvt.rn.f16x2.f32 {}, {}, {};",
                out(reg32) word, in(reg32) high, in(reg32) low,
                options(pure, nomem, nostack)
            );
        }
        word
    }
    #[inline(always)]
    fn add_f32(&self, a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn mul_f32(&self, a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn min_f32(&self, a: f32, b: f32) -> f32 {
        let min;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!("min.NaN.f32 {}, {}, {};", out(reg32) min, in(reg32) a, in(reg32) b, options(pure, nomem, nostack));
        }
        min
    }
    #[inline(always)]
    fn max_f32(&self, a: f32, b: f32) -> f32 {
        let max;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!("max.NaN.f32 {}, {}, {};", out(reg32) max, in(reg32) a, in(reg32) b, options(pure, nomem, nostack));
        }
        max
    }
    #[inline(always)]
    fn f32_from_e4m3x4(&self, word: u32) -> [f32; 4] {
        if !cfg!(target_feature = "sm_90") {
            return portable::f32_from_e4m3x4(word);
        }
        let [low, high] = [word as u16, (word >> 16) as u16].map(|pair| {
            let halves;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!("cvt.rn.f16x2.e4m3x2 {}, {};", out(reg32) halves, in(reg16) pair, options(pure, nomem, nostack));
            }
            self.f32_from_f16x2(halves)
        });
        [low[0], low[1], high[0], high[1]]
    }
    #[inline(always)]
    fn e4m3x4_from_f32(&self, [a, b, c, d]: [f32; 4]) -> u32 {
        if !cfg!(target_feature = "sm_90") {
            return portable::e4m3x4_from_f32([a, b, c, d]);
        }
        let [low, high] = [[a, b], [c, d]].map(|[low, high]| {
            let pair: u16;
            // SAFETY: arithmetic on registers. The instruction takes the high byte first.
            unsafe {
                asm!(
                    "cvt.rn.satfinite.e4m3x2.f32 {}, {}, {};",
                    out(reg16) pair, in(reg32) high, in(reg32) low,
                    options(pure, nomem, nostack)
                );
            }
            pair as u32
        });
        low | high << 16
    }
    #[inline(always)]
    fn f32_from_e5m2x4(&self, word: u32) -> [f32; 4] {
        if !cfg!(target_feature = "sm_90") {
            return portable::f32_from_e5m2x4(word);
        }
        let [low, high] = [word as u16, (word >> 16) as u16].map(|pair| {
            let halves;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!("cvt.rn.f16x2.e5m2x2 {}, {};", out(reg32) halves, in(reg16) pair, options(pure, nomem, nostack));
            }
            self.f32_from_f16x2(halves)
        });
        [low[0], low[1], high[0], high[1]]
    }
    #[inline(always)]
    fn e5m2x4_from_f32(&self, [a, b, c, d]: [f32; 4]) -> u32 {
        if !cfg!(target_feature = "sm_90") {
            return portable::e5m2x4_from_f32([a, b, c, d]);
        }
        let [low, high] = [[a, b], [c, d]].map(|[low, high]| {
            let pair: u16;
            // SAFETY: arithmetic on registers. The instruction takes the high byte first.
            unsafe {
                asm!(
                    "cvt.rn.satfinite.e5m2x2.f32 {}, {}, {};",
                    out(reg16) pair, in(reg32) high, in(reg32) low,
                    options(pure, nomem, nostack)
                );
            }
            pair as u32
        });
        low | high << 16
    }
    #[inline(always)]
    fn add_f16x2(&self, a: u32, b: u32) -> u32 {
        let sum;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!("add.rn.f16x2 {}, {}, {};", out(reg32) sum, in(reg32) a, in(reg32) b, options(pure, nomem, nostack));
        }
        sum
    }
    #[inline(always)]
    fn add_bf16x2(&self, a: u32, b: u32) -> u32 {
        let sum;
        // SAFETY: arithmetic on registers. `a * 1 + b` is `a + b`, also for zeros; a plain sum there is from sm_90 on only.
        unsafe {
            asm!(
                "fma.rn.bf16x2 {}, {}, {}, {};",
                out(reg32) sum, in(reg32) a, in(reg32) 0x3f80_3f80, in(reg32) b,
                options(pure, nomem, nostack)
            );
        }
        sum
    }
    #[inline(always)]
    fn bf16x2_from_f32(&self, [low, high]: [f32; 2]) -> u32 {
        let word;
        // SAFETY: arithmetic on registers. The instruction takes the high half first.
        unsafe {
            asm!(
                "cvt.rn.bf16x2.f32 {}, {}, {};",
                out(reg32) word, in(reg32) high, in(reg32) low,
                options(pure, nomem, nostack)
            );
        }
        word
    }
}
