//! The two barriers, each as arrive and wait.
//!
//! | | multi-GPU barrier | block barrier |
//! |---|---|---|
//! | who announces | block 0 of each rank | every block of each rank |
//! | who waits | every block | every block |
//! | says | each rank has started this call | this block has come here on every rank |
//! | needs | block 0 runs | all blocks of a launch are resident together |
//! | visible after, release/acquire | what ranks did before their launch | also what the namesake blocks did before they announced |
//! | visible after, volatile | nothing more than the flags | nothing more than the flags |
//! | again | in the next call | in the next call, or in another phase of this one |
//!
//! Each (phase, bank, block, emitting rank) has a flag word of its own: one writer, one reader. All threads of a block
//! call a barrier together. Where a wait ends before the peer has come, the block must leave at once.

use super::abi::{FlagRow, Phase, Rank};
use super::epoch::Epoch;
use super::machine::Machine;
use super::mark::Mark;
use super::spec::{Check, Order, Scope};
use super::status::Ranks;
use super::wait::{Left, Wait};

/// A barrier of one call.
#[derive(Clone, Copy)]
pub struct Barrier {
    /// Whose flags are used.
    pub phase: Phase,
    /// Who announces.
    pub scope: Scope,
    /// With which order.
    pub order: Order,
    /// When a flag counts.
    pub check: Check,
    /// The call.
    pub epoch: Epoch,
}

impl Barrier {
    fn row(&self, block: u32) -> FlagRow {
        FlagRow { phase: self.phase, bank: self.epoch.bank(), block }
    }

    /// Announces to all peers: thread `t` to rank `t`, striding where there are fewer threads than ranks.
    ///
    /// What other threads of the block did before is published too if the block synchronised in between.
    #[inline(always)]
    pub fn arrive<M: Machine, const W: usize>(&self, m: &M) {
        match self.scope {
            Scope::MultiGpu if m.block() != 0 => return,
            Scope::MultiGpu | Scope::Block => {}
        }
        let row = self.row(m.block());
        let mut peer = m.thread();
        // If it tells anybody but its own rank.
        if peer < W as u32 && (peer != m.rank().0 || peer + m.threads() < W as u32) {
            self.mark(m, Mark::Told(self.phase));
        }
        while peer < W as u32 {
            if peer != m.rank().0 {
                match self.order {
                    // ORDER: pairs with the poll in `wait` and publishes nothing by itself: the presets that use it rest on
                    // a kernel's end or a load's completion instead. Weaker there is none.
                    Order::Volatile => m.st_flag_volatile(Rank(peer), row, self.epoch),
                    // ORDER: pairs with the acquire poll in `wait`; publishes what this rank did in stream order before
                    // the launch and what this block did before its last `sync_block` (cumulativity). Not weaker: a
                    // volatile store may become visible before those. Not stronger: no barrier here needs a total order.
                    Order::ReleaseAcquire => m.st_flag_release(Rank(peer), row, self.epoch),
                }
            }
            peer += m.threads();
        }
    }

    /// Waits for all peers, each thread for the ranks that [`Barrier::arrive`] gives it.
    ///
    /// # Errors
    /// The wait ended before one of them had come.
    #[inline(always)]
    pub fn wait<M: Machine, const W: usize>(&self, m: &M) -> Result<(), Left> {
        let row = self.row(match self.scope {
            Scope::MultiGpu => 0,
            Scope::Block => m.block(),
        });
        let mut peer = m.thread();
        while peer < W as u32 {
            if peer != m.rank().0 {
                self.poll(m, Rank(peer), row)?;
            }
            peer += m.threads();
        }
        Ok(())
    }

    /// Marks that this thread came to `mark`, if this is a barrier of a call: what announces a generation of a push is not.
    #[inline(always)]
    fn mark<M: Machine>(&self, m: &M, mark: Mark) {
        match self.phase {
            Phase::Start | Phase::Middle | Phase::End => m.mark(self.epoch, mark),
            Phase::Landing => {}
        }
    }

    #[inline(always)]
    fn poll<M: Machine>(&self, m: &M, peer: Rank, row: FlagRow) -> Result<(), Left> {
        let mut wait = Wait::new();
        loop {
            let flag = match self.order {
                // ORDER: pairs with the volatile store in `arrive`; receives nothing but the flag. Weaker there is none; a
                // stronger one would receive nothing more, since that store publishes nothing.
                Order::Volatile => m.ld_flag_volatile(peer, row),
                // ORDER: pairs with the release store in `arrive`; what the peer published is visible to this thread,
                // and after the next `sync_block` to its block. Not weaker: reads of the peer's data could be served
                // from before it. Not stronger: as above.
                Order::ReleaseAcquire => m.ld_flag_acquire(peer, row),
            };
            let arrived = match self.check {
                Check::Reached => flag.reached(self.epoch),
                Check::Equal => flag == self.epoch,
            };
            if arrived {
                self.mark(m, Mark::Came(self.phase));
                return Ok(());
            }
            if !wait.goes_on(m, || Ranks::of(peer)) {
                return Err(wait.left(self.phase, Ranks::of(peer)));
            }
        }
    }
}
