//! The machine that one thread of a CPU rank is: atomics on addresses.
//!
//! Data are relaxed atomic words, so that a protocol with a missing order gives a wrong sum here and never undefined
//! behaviour.
//!
//! Long: so that the whole machine is in one file.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use allfold_kernels::protocol::abi::{
    Bank, Dtype, FIRST_WRONG_OFFSET_BYTES, FlagRow, GONE_OFFSET_BYTES, HOST_BOARD_WORDS, KernelArgs, MARKER, MAX_RANKS,
    MISSING_OFFSET_BYTES, PACK_BYTES, PACK_WORDS, ROW_WORDS, Rank, STOP_OFFSET_BYTES, WAITED_OFFSET_BYTES,
    WRONG_OFFSET_BYTES, call_offset_bytes, cursor_offset_bytes, epoch_offset_bytes, flag_offset_bytes, landing_slot,
    step_to,
};
use allfold_kernels::protocol::element::Element;
use allfold_kernels::protocol::epoch::{self, Epoch};
use allfold_kernels::protocol::machine::{Landing, Machine, Pack, Region};
use allfold_kernels::protocol::mark::{Mark, marks_offset_bytes};
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::reduction::Reduction;
use allfold_kernels::protocol::signature::Signature;
use allfold_kernels::protocol::status::{Board, LongestWait, Ranks, Why};
use allfold_kernels::protocol::wait::refuse;

use super::block::{Block, relax};

/// One thread of a rank, in one call.
#[derive(Clone, Copy)]
pub(super) struct Cpu<'a> {
    args: &'a KernelArgs,
    place: Place,
    sync: &'a Block,
}

/// Where the clock of waits began.
static CLOCK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Where in the launch a thread is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) block: u32,
    pub(super) blocks: u32,
    pub(super) thread: u32,
    pub(super) threads: u32,
}

impl<'a> Cpu<'a> {
    /// The thread at `place` of the rank that `args` are for.
    ///
    /// # Safety
    /// - Every address in `args` is that of live memory of the length that `args` implies, for as long as this lives.
    /// - `args.workspaces` are laid out by `abi`, their first words set as `abi::first_words` says and the rest to 0 when their
    ///   communicator was made, and used by it alone.
    /// - `place.block` is below `place.blocks`, at most `MAX_BLOCKS`, the same on each rank.
    /// - `sync` is that of this rank's block, and the block's threads are exactly `place.threads`.
    pub(super) unsafe fn new(args: &'a KernelArgs, place: Place, sync: &'a Block) -> Self {
        Cpu { args, place, sync }
    }

    #[inline]
    fn word(&self, workspace: u64, offset_bytes: usize) -> &AtomicU64 {
        // SAFETY: a word of a live workspace, aligned by `abi`'s layout, and never accessed but atomically.
        unsafe { AtomicU64::from_ptr((workspace + offset_bytes as u64) as *mut u64) }
    }

    fn peer_flag(&self, listener: Rank, row: FlagRow) -> &AtomicU64 {
        self.word(self.args.workspaces[listener.0 as usize], flag_offset_bytes(row, self.rank()))
    }

    fn own_flag(&self, emitter: Rank, row: FlagRow) -> &AtomicU64 {
        self.word(self.args.workspace, flag_offset_bytes(row, emitter))
    }

    /// `owner`'s buffer: as the arguments say, or the row in their place, where `place` is the buffer's.
    #[inline]
    fn of_row(&self, place: usize, buffers: &[u64; MAX_RANKS]) -> u64 {
        match self.args.row {
            0 => buffers[place % MAX_RANKS],
            row => self.word(row, 8 * place).load(Ordering::Relaxed),
        }
    }

    fn output_of(&self, owner: Rank) -> u64 {
        self.of_row(MAX_RANKS + owner.0 as usize, &self.args.outputs)
    }

    /// Whether the buffers of all ranks are known. If not, this rank leaves word of it.
    pub(super) fn knows_buffers(&self) -> bool {
        let known = self.of_row(0, &[1; MAX_RANKS]) != 0;
        if !known {
            refuse(self, epoch::current(self), Why::UnknownBuffers);
        }
        known
    }

    /// The words of a host that does not write into workspaces: that of a GPU whose kernels run here, see `stand_in.rs`.
    fn host_words(&self) -> Option<[&AtomicU64; HOST_BOARD_WORDS]> {
        match self.args.host_board {
            0 => None,
            page => Some([0, 8].map(|offset| self.word(page, offset))),
        }
    }

    fn call_words(&self, workspace: u64, bank: Bank, emitter: Rank) -> [&AtomicU64; 2] {
        [0, 8].map(|word| self.word(workspace, call_offset_bytes(bank, emitter) + word))
    }

    #[inline]
    fn base(&self, region: Region, owner: Rank) -> u64 {
        match region {
            Region::Source => self.args.source,
            Region::Output => self.args.output,
            Region::Input(Bank(bank)) => {
                self.of_row(owner.0 as usize, &self.args.inputs) + u64::from(bank) * self.args.input_bank_bytes
            }
            Region::Scratch => self.args.workspaces[owner.0 as usize] + self.args.scratch_offset_bytes,
        }
    }

    #[inline]
    fn halves(&self, region: Region, owner: Rank, pack: u64) -> [&AtomicU64; 2] {
        self.halves_at(self.base(region, owner) + pack * PACK_BYTES as u64)
    }

    #[inline]
    fn halves_at(&self, address: u64) -> [&AtomicU64; 2] {
        debug_assert!(address.is_multiple_of(PACK_BYTES as u64), "a pack's address is aligned");
        // SAFETY: 16 aligned bytes inside a region of `args`. In a call they are accessed only atomically.
        [0, 8].map(|offset| unsafe { AtomicU64::from_ptr((address + offset) as *mut u64) })
    }

    /// The halves of the pack `at` in the slot that starts at `slot` in generation 0.
    fn landing(&self, slot: u64, at: Landing) -> [&AtomicU64; 2] {
        let pack = at.generation.0 * self.args.generation_packs + at.pack;
        self.halves_at(slot + u64::from(pack) * PACK_BYTES as u64)
    }

    /// Start of this rank's slot for `emitter`, in generation 0.
    fn own_slot(&self, emitter: Rank) -> u64 {
        self.args.landing + u64::from(landing_slot(self.rank(), emitter)) * self.args.landing_slot_bytes
    }

    fn st_elem_at<T: Element>(&self, address: u64, value: Pack) {
        let word = value.0[0];
        match T::DTYPE {
            Dtype::F64 | Dtype::I64 | Dtype::U64 => {
                // SAFETY: an element of a region of `args`, aligned to itself. In a call it is accessed only atomically.
                unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value.double(0), Ordering::Relaxed);
            }
            Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 => {
                // SAFETY: as above.
                unsafe { AtomicU8::from_ptr(address as *mut u8) }.store(word as u8, Ordering::Relaxed);
            }
            Dtype::F32 | Dtype::I32 | Dtype::U32 => {
                // SAFETY: as above.
                unsafe { AtomicU32::from_ptr(address as *mut u32) }.store(word, Ordering::Relaxed);
            }
            Dtype::F16 | Dtype::Bf16 => {
                // SAFETY: as above.
                unsafe { AtomicU16::from_ptr(address as *mut u16) }.store(word as u16, Ordering::Relaxed);
            }
        }
    }
}

fn store(halves: [&AtomicU64; 2], value: Pack) {
    let values: [u64; 2] = bytemuck::cast(value.0);
    halves.into_iter().zip(values).for_each(|(half, value)| half.store(value, Ordering::Relaxed));
}

impl Machine for Cpu<'_> {
    #[inline]
    fn rank(&self) -> Rank {
        Rank(self.args.rank)
    }
    #[inline]
    fn world(&self) -> u32 {
        self.args.world
    }
    #[inline]
    fn block(&self) -> u32 {
        self.place.block
    }
    #[inline]
    fn blocks(&self) -> u32 {
        self.place.blocks
    }
    #[inline]
    fn thread(&self) -> u32 {
        self.place.thread
    }
    #[inline]
    fn threads(&self) -> u32 {
        self.place.threads
    }
    #[inline]
    fn elems(&self) -> u64 {
        self.args.elems
    }
    #[inline]
    fn landing_shared_packs(&self) -> u32 {
        self.args.landing_shared_packs
    }
    #[inline]
    fn reduction(&self) -> Reduction {
        Reduction(self.args.reduction)
    }
    #[inline]
    fn aligned(&self) -> bool {
        // The host knows it of those buffers only that stand in the arguments.
        let low_bits = match self.args.row {
            0 => 0,
            row => (0..ROW_WORDS).fold(0, |bits, word| bits | self.word(row, 8 * word).load(Ordering::Relaxed)),
        };
        self.args.aligned != 0 && low_bits.is_multiple_of(PACK_BYTES as u64)
    }

    #[inline]
    fn mark(&self, epoch: Epoch, mark: Mark) {
        if self.args.marks != 0 {
            let at = marks_offset_bytes(epoch, self.block());
            let raise =
                |word: usize, value| self.word(self.args.marks, at + 8 * word).fetch_max(value, Ordering::Relaxed);
            raise(mark.word(), self.now_ns());
            if mark == Mark::Begin {
                raise(0, epoch.next().0);
            }
        }
    }

    #[inline]
    fn sync_block(&self) {
        self.sync_block_all(true);
    }
    #[inline]
    fn sync_block_all(&self, ok: bool) -> bool {
        self.sync.sync_all(self.place.threads, ok, relax)
    }
    #[inline]
    fn pause_to_look(&self, polls: u32) -> bool {
        relax(polls.into());
        // All but the first polls give the processor away, and on a busy host that may be for long: a look costs nothing beside it.
        polls.is_multiple_of(16)
    }
    #[inline]
    fn now_ns(&self) -> u64 {
        CLOCK.elapsed().as_nanos() as u64 + 1
    }
    #[inline]
    fn timeout_ns(&self) -> u64 {
        self.args.timeout_ns
    }
    #[inline]
    fn board(&self) -> Board {
        let word = |offset_bytes| self.word(self.args.workspace, offset_bytes).load(Ordering::Acquire);
        Board { stop: word(STOP_OFFSET_BYTES), gone: Ranks::of_bytes(word(GONE_OFFSET_BYTES)) }
    }
    #[inline]
    fn host_board(&self) -> Board {
        // The host writes where peers do, but where a test's driver runs this in a GPU's place.
        match self.host_words().map(|words| words.map(|word| word.load(Ordering::Acquire))) {
            Some([stop, gone]) => Board { stop, gone: Ranks::of_bytes(gone) },
            None => Board::default(),
        }
    }
    #[inline]
    fn tell_stop(&self, rank: Rank, stop: u64) {
        let word = self.word(self.args.workspaces[rank.0 as usize], STOP_OFFSET_BYTES);
        // The first word stays, so that all ranks say the same.
        let _ = word.compare_exchange(0, stop, Ordering::Relaxed, Ordering::Relaxed);
        if let Some([word, _]) = self.host_words().filter(|_| rank == self.rank()) {
            let _ = word.compare_exchange(0, stop, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
    #[inline]
    fn add_wait(&self, wait: LongestWait) {
        self.word(self.args.workspace, WAITED_OFFSET_BYTES).fetch_max(wait.encode(), Ordering::Relaxed);
    }
    #[inline]
    fn add_missing(&self, missing: Ranks) {
        self.word(self.args.workspace, MISSING_OFFSET_BYTES).fetch_or(missing.0.into(), Ordering::Relaxed);
    }

    #[inline]
    fn signature(&self) -> Signature {
        Signature(self.args.signature)
    }
    #[inline]
    fn tell_call(&self, listener: Rank, bank: Bank, words: [u64; 2]) {
        let told = self.call_words(self.args.workspaces[listener.0 as usize], bank, self.rank());
        told.into_iter().zip(words).for_each(|(told, word)| told.store(word, Ordering::Relaxed));
    }
    #[inline]
    fn call_told(&self, emitter: Rank, bank: Bank) -> [u64; 2] {
        self.call_words(self.args.workspace, bank, emitter).map(|word| word.load(Ordering::Relaxed))
    }

    #[inline]
    fn st_flag_volatile(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.peer_flag(listener, row).store(epoch.0, Ordering::Relaxed);
    }
    #[inline]
    fn ld_flag_volatile(&self, emitter: Rank, row: FlagRow) -> Epoch {
        Epoch(self.own_flag(emitter, row).load(Ordering::Relaxed))
    }
    #[inline]
    fn st_flag_release(&self, listener: Rank, row: FlagRow, epoch: Epoch) {
        self.peer_flag(listener, row).store(epoch.0, Ordering::Release);
    }
    #[inline]
    fn ld_flag_acquire(&self, emitter: Rank, row: FlagRow) -> Epoch {
        Epoch(self.own_flag(emitter, row).load(Ordering::Acquire))
    }

    #[inline]
    fn ld_epoch(&self, block: u32) -> Epoch {
        Epoch(self.word(self.args.workspace, epoch_offset_bytes(block)).load(Ordering::Relaxed))
    }
    #[inline]
    fn st_epoch(&self, block: u32, epoch: Epoch) {
        self.word(self.args.workspace, epoch_offset_bytes(block)).store(epoch.0, Ordering::Relaxed);
    }
    #[inline]
    fn ld_cursor(&self, block: u32) -> Cursor {
        let offset = cursor_offset_bytes(block);
        Cursor::decode([0, 8].map(|word| self.word(self.args.workspace, offset + word).load(Ordering::Relaxed)))
    }
    #[inline]
    fn st_cursor(&self, block: u32, cursor: Cursor) {
        for (offset, word) in (cursor_offset_bytes(block)..).step_by(8).zip(cursor.encode()) {
            self.word(self.args.workspace, offset).store(word, Ordering::Relaxed);
        }
    }

    #[inline]
    fn ld_pack(&self, region: Region, owner: Rank, pack: u64) -> Pack {
        let [low, high] = self.halves(region, owner, pack).map(|half| half.load(Ordering::Relaxed));
        Pack(bytemuck::cast([low, high]))
    }
    #[inline]
    fn st_pack(&self, region: Region, pack: u64, value: Pack) {
        store(self.halves(region, self.rank(), pack), value);
    }
    #[inline]
    fn ld_elem<T: Element>(&self, region: Region, owner: Rank, elem: u64) -> Pack {
        let address = self.base(region, owner) + elem * T::DTYPE.bytes() as u64;
        let word = match T::DTYPE {
            Dtype::F64 | Dtype::I64 | Dtype::U64 => {
                // SAFETY: an element of `owner`'s region, aligned to itself. In a call it is accessed only atomically.
                let double = unsafe { AtomicU64::from_ptr(address as *mut u64) }.load(Ordering::Relaxed);
                return Pack::of_doubles([double, 0]);
            }
            Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 => {
                // SAFETY: as above.
                unsafe { AtomicU8::from_ptr(address as *mut u8) }.load(Ordering::Relaxed).into()
            }
            Dtype::F32 | Dtype::I32 | Dtype::U32 => {
                // SAFETY: as above.
                unsafe { AtomicU32::from_ptr(address as *mut u32) }.load(Ordering::Relaxed)
            }
            Dtype::F16 | Dtype::Bf16 => {
                // SAFETY: as above.
                unsafe { AtomicU16::from_ptr(address as *mut u16) }.load(Ordering::Relaxed).into()
            }
        };
        Pack([word, 0, 0, 0])
    }
    #[inline]
    fn st_elem<T: Element>(&self, region: Region, elem: u64, value: Pack) {
        let address = self.base(region, self.rank()) + elem * T::DTYPE.bytes() as u64;
        self.st_elem_at::<T>(address, value);
    }

    #[inline]
    fn push_pack(&self, listener: Rank, at: Landing, value: Pack) {
        let slot = self.args.landings[step_to(self.rank(), listener, self.args.world) as usize];
        store(self.landing(slot, at), value);
    }
    #[inline]
    fn poll_pack(&self, emitter: Rank, at: Landing) -> Pack {
        Pack(bytemuck::cast(self.landing(self.own_slot(emitter), at).map(|half| half.load(Ordering::Relaxed))))
    }
    #[inline]
    fn clear_pack(&self, emitter: Rank, at: Landing) {
        store(self.landing(self.own_slot(emitter), at), Pack([MARKER; PACK_WORDS]));
    }
    // ORDER: of pairs as of packs. Each two words of a pack are one atomic word here.
    #[inline]
    fn push_pairs(&self, listener: Rank, at: Landing, value: Pack) {
        self.push_pack(listener, at, value);
    }
    #[inline]
    fn poll_pairs(&self, emitter: Rank, at: Landing) -> Pack {
        self.poll_pack(emitter, at)
    }
    #[inline]
    fn clear_pairs(&self, emitter: Rank, at: Landing) {
        self.clear_pack(emitter, at);
    }
    #[inline]
    fn give_pack(&self, owner: Rank, pack: u64, value: Pack) {
        store(self.halves_at(self.output_of(owner) + pack * PACK_BYTES as u64), value);
    }
    #[inline]
    fn give_elem<T: Element>(&self, owner: Rank, elem: u64, value: Pack) {
        let address = self.output_of(owner) + elem * T::DTYPE.bytes() as u64;
        self.st_elem_at::<T>(address, value);
    }

    #[inline]
    fn add_wrong(&self, count: u64, elem: u64, bits: u64, epoch: Epoch) {
        self.word(self.args.workspace, WRONG_OFFSET_BYTES).fetch_add(count, Ordering::Relaxed);
        let [first, value, call] =
            [0, 8, 16].map(|offset| self.word(self.args.workspace, FIRST_WRONG_OFFSET_BYTES + offset));
        if call.load(Ordering::Relaxed) == 0 {
            first.store(elem, Ordering::Relaxed);
            value.store(bits, Ordering::Relaxed);
            call.store(epoch.0.wrapping_add(1), Ordering::Relaxed);
        }
    }

    #[inline]
    fn ticks(&self) -> u32 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos())
    }
    #[inline]
    fn pause(&self, nanoseconds: u32) {
        std::thread::sleep(Duration::from_nanos(nanoseconds.into()));
    }
}
