//! Paths between CPU ranks that do not work, for tests alone: a rank gets other memory where it looks for a peer's.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use allfold_kernels::protocol::abi::{KernelArgs, MAX_RANKS, Rank, WorkspaceLayout, landing_slot, step_to};

use super::area::Area;
use crate::error::Result;

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What the one stores into the workspace of the other comes nowhere.
    Lost,
    /// Where the other looks for the input of the one, there are zeros: what was there before.
    Old,
    /// Where the other looks for it, every bit is set: as a bus answers that has nothing to answer.
    Ones,
}

/// A path that does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: Kind,
}

thread_local! {
    static FAULTS: RefCell<Vec<Fault>> = const { RefCell::new(Vec::new()) };
}

/// From here on communicators that this thread makes have these faults.
pub(crate) fn plant(faults: &[Fault]) {
    FAULTS.with_borrow_mut(|all| *all = faults.to_vec());
}

/// The faults of a communicator, each with the memory that a rank gets.
pub(super) struct Planted(Vec<(Fault, Area)>);

impl Planted {
    pub(super) fn of_thread(layout: &WorkspaceLayout) -> Result<Planted> {
        let of = |fault: Fault| {
            let area = Area::own(layout, 0)?;
            if fault.kind == Kind::Ones {
                // As much as any call of the self-test takes.
                (0..4096).step_by(8).for_each(|offset| area.word(offset).store(u64::MAX, Ordering::Relaxed));
            }
            Ok((fault, area))
        };
        FAULTS.with_borrow(|faults| faults.iter().copied().map(of).collect::<Result<_>>()).map(Planted)
    }

    /// The arguments of a call, as ranks get them that have these faults.
    pub(super) fn spoil(&self, mut all: [KernelArgs; MAX_RANKS], layout: &WorkspaceLayout) -> [KernelArgs; MAX_RANKS] {
        for (Fault { from, to, kind }, area) in &self.0 {
            for args in all.iter_mut().filter(|args| args.world > 0) {
                match kind {
                    Kind::Lost if args.rank == *from => {
                        let slot = landing_slot(Rank(*to), Rank(*from)) as usize * layout.landing_slot_bytes;
                        args.workspaces[*to as usize] = area.address();
                        args.landings[step_to(Rank(*from), Rank(*to), args.world) as usize] =
                            area.address() + (layout.landing_offset_bytes + slot) as u64;
                    }
                    Kind::Old | Kind::Ones if args.rank == *to => args.inputs[*from as usize] = area.address(),
                    Kind::Lost | Kind::Old | Kind::Ones => {}
                }
            }
        }
        all
    }
}
