//! The words that kernels and host leave for each other: in each rank's workspace, and on a page of the host.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use allfold_kernels::protocol::abi::{
    FIRST_WRONG_OFFSET_BYTES, FIRST_WRONG_WORDS, GONE_OFFSET_BYTES, HOST_BOARD_WORDS, MAX_RANKS, MISSING_OFFSET_BYTES,
    STOP_OFFSET_BYTES, WAITED_OFFSET_BYTES, WRONG_OFFSET_BYTES, call_offset_bytes, flag_offset_bytes,
};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::status::{LongestWait, Ranks, Stop};

use super::rank::Rank;
use super::ranks::CudaRanks;
use super::raw::{Context, HostWords, ShareableMemory};
use crate::error::Result;
use crate::members::Members;
use crate::self_test::Finding;
use crate::stop::{Boards, Word};

/// What the host tells ranks: those of this process by a page that their kernels look at, the others by a copy to their workspaces.
pub(super) struct Pages {
    page: HostWords,
    context: Context,
    members: Members,
    /// Workspaces of ranks in other processes, which stay mapped as long as they may be told something.
    peers: Arc<Vec<ShareableMemory>>,
}

impl Pages {
    pub(super) fn new(context: &Context, members: Members, peers: Arc<Vec<ShareableMemory>>) -> Result<Pages> {
        let page = HostWords::alloc(context, HOST_BOARD_WORDS)?;
        Ok(Pages { page, context: context.clone(), members, peers })
    }

    /// Where kernels find the page.
    pub(super) fn address(&self) -> u64 {
        self.page.address()
    }

    /// Takes note of what a workspace says, if it says anything and nothing was known: what is known then.
    fn know(&self, word: u64) -> u64 {
        match self.page.words()[0].compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => word,
            Err(known) => known,
        }
    }

    fn stop_word(&self) -> u64 {
        self.page.words()[0].load(Ordering::Relaxed)
    }

    /// Tells all ranks of other processes, by a word of their workspaces.
    fn tell_peers(&self, offset_bytes: usize, bytes: &[u8]) {
        for peer in self.peers.iter() {
            let address = peer.address() + offset_bytes as u64;
            // SAFETY: inside the peer's workspace; kernels read it as a whole. The copy waits for no stream of theirs.
            if let Err(error) = unsafe { self.context.copy_to_device(address, bytes) } {
                tracing::warn!(%error, "a rank of another process could not be told what happened here");
            }
        }
    }
}

impl Boards for Pages {
    fn stop(&self, stop: Stop) {
        let word = stop.encode();
        // Where something is known already, whoever found it has told the others.
        if self.know(word) == word {
            self.tell_peers(STOP_OFFSET_BYTES, &word.to_ne_bytes());
        }
    }

    fn gone(&self, rank: u32) {
        self.page.words()[1].fetch_or(1 << (8 * rank), Ordering::Relaxed);
    }

    fn leave(&self) {
        for rank in self.members.ranks() {
            self.tell_peers(GONE_OFFSET_BYTES + rank as usize, &[1]);
        }
    }
}

impl CudaRanks {
    /// Where the host can tell ranks something.
    pub(crate) fn boards(&self) -> Arc<dyn Boards> {
        Arc::clone(&self.pages) as Arc<dyn Boards>
    }

    /// Whether this process knows of a local rank that has stopped. Nothing is waited for.
    pub(crate) fn is_stopped(&self) -> bool {
        self.pages.stop_word() != 0
    }

    /// What each local rank has left word of.
    pub(crate) fn left(&self) -> Result<Vec<Word>> {
        self.ranks
            .iter()
            .map(|rank| {
                let words = Words::read(rank, STOP_OFFSET_BYTES, WAITED_OFFSET_BYTES + 8)?;
                // Whoever told this rank has told its workspace alone, and no kernel of it may have looked since: from here on its
                // host knows without asking.
                let stop = Stop::decode(self.pages.know(words.at(STOP_OFFSET_BYTES)));
                let missing = Ranks(words.at(MISSING_OFFSET_BYTES) as u8);
                Ok(Word { stop, missing, wait: LongestWait::decode(words.at(WAITED_OFFSET_BYTES)) })
            })
            .collect()
    }

    /// Ranks whose flags of the start barrier of the call of `epoch` have come to the local rank of this index.
    pub(super) fn started(&self, index: usize, epoch: Epoch) -> Result<Ranks> {
        let of = |rank| flag_offset_bytes(Finding::start_row(epoch), allfold_kernels::protocol::abi::Rank(rank));
        let words = Words::read(&self.ranks[index], of(0), of(MAX_RANKS as u32))?;
        let come = (0..MAX_RANKS as u32).filter(|&rank| Epoch(words.at(of(rank))).reached(epoch));
        Ok(Ranks(come.fold(0, |ranks, rank| ranks | 1 << rank)))
    }

    /// What each rank has told the local rank of this index of the call of `epoch`.
    pub(crate) fn told(&self, index: usize, epoch: Epoch) -> Result<[[u64; 2]; MAX_RANKS]> {
        let of = |rank| call_offset_bytes(epoch.bank(), allfold_kernels::protocol::abi::Rank(rank));
        let words = Words::read(&self.ranks[index], of(0), of(MAX_RANKS as u32))?;
        Ok(std::array::from_fn(|rank| [0, 8].map(|word| words.at(of(rank as u32) + word))))
    }

    /// The marks of each local rank.
    pub(crate) fn marks(&self) -> Result<Vec<Vec<u64>>> {
        let layout = &self.workspaces.layout;
        let of = |rank| Ok(Words::read(rank, layout.marks_offset_bytes, layout.total_bytes)?.all());
        self.ranks.iter().map(of).collect()
    }

    /// Wrong elements that each rank has counted.
    pub(crate) fn wrong(&self) -> Result<Vec<u64>> {
        let word = |rank| Ok(Words::read(rank, WRONG_OFFSET_BYTES, WRONG_OFFSET_BYTES + 8)?.at(WRONG_OFFSET_BYTES));
        self.ranks.iter().map(word).collect()
    }

    /// The words of each rank about its first wrong element.
    pub(crate) fn first_wrong(&self) -> Result<Vec<[u64; FIRST_WRONG_WORDS]>> {
        let first = FIRST_WRONG_OFFSET_BYTES;
        let words = |rank| {
            let words = Words::read(rank, first, first + 8 * FIRST_WRONG_WORDS)?;
            Ok(std::array::from_fn(|word| words.at(first + 8 * word)))
        };
        self.ranks.iter().map(words).collect()
    }
}

/// Some words of a rank's workspace.
struct Words {
    start: usize,
    bytes: Vec<u8>,
}

impl Words {
    /// Those at the offsets `start` up to `end`.
    fn read(rank: &Rank, start: usize, end: usize) -> Result<Words> {
        let mut bytes = vec![0; end - start];
        // SAFETY: words of the rank's workspace; a kernel that writes one at this moment writes it as a whole.
        unsafe { rank.context.copy_to_host(&mut bytes, rank.workspace.address() + start as u64) }?;
        Ok(Words { start, bytes })
    }

    /// All of them.
    fn all(&self) -> Vec<u64> {
        self.bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect()
    }

    /// That at an offset.
    fn at(&self, offset_bytes: usize) -> u64 {
        let word = self.bytes.get(offset_bytes - self.start..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |&word| u64::from_ne_bytes(word))
    }
}
