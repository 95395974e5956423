//! Kernels that write and check stamped data, so that a bench or a stress run can see a wrong sum inside a captured graph.
//!
//! The value of an element is a small integer made of its rank, its index and the number of the call: sums of up to
//! eight are exact in f32 and in every order, and what is rounded from one is the same everywhere, and data of another call, rank or place show as wrong.

use super::abi::Rank;
use super::element::Element;
use super::epoch::{self, Epoch};
use super::machine::{Machine, Region};

/// The value, from -8 to 7, that `rank` gives as element `elem` to the call of `epoch`.
#[inline(always)]
pub const fn stamp(rank: Rank, elem: u64, epoch: Epoch) -> i32 {
    let mixed = (elem as u32 ^ (elem >> 32) as u32)
        .wrapping_add(rank.0.wrapping_mul(0x9e37_79b9))
        .wrapping_add((epoch.0 as u32).wrapping_mul(0x85eb_ca6b))
        .wrapping_mul(0xc2b2_ae35);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x2c1b_3c6d);
    (mixed >> 28) as i32 - 8
}

/// The sum of all ranks' values.
#[inline(always)]
pub const fn stamp_sum(world: u32, elem: u64, epoch: Epoch) -> i32 {
    let mut sum = 0;
    let mut rank = 0;
    while rank < world {
        sum += stamp(Rank(rank), elem, epoch);
        rank += 1;
    }
    sum
}

/// Fills the output region with this rank's stamps for the next call: it becomes that call's input.
#[inline(always)]
pub fn fill<M: Machine, T: Element>(m: &M) {
    let epoch = epoch::current(m);
    for_each_elem(m, |elem| {
        m.st_elem::<T>(Region::Output, elem, T::from_f32(m, stamp(m.rank(), elem, epoch) as f32));
    });
}

/// Counts the elements of the source region that are not the sum that the last call must have given; none, if the rank has left
/// it before its end.
#[inline(always)]
pub fn check<M: Machine, T: Element>(m: &M) {
    let epoch = m.ld_epoch(0);
    // Not every block of a call need have left it.
    // ORDER: by its value alone: the call before this kernel has ended, and what it left is visible.
    if epoch.is_stopped() || m.board().stop != 0 {
        return;
    }
    let mut wrong = 0;
    let mut last = (0, 0);
    for_each_elem(m, |elem| {
        let want = T::from_f32(m, stamp_sum(m.world(), elem, epoch) as f32);
        let got = m.ld_elem::<T>(Region::Source, m.rank(), elem);
        // Bit for bit: a stamp is never -0.0, so no sum is.
        if got != want {
            wrong += 1;
            last = (elem, got.double(0));
        }
    });
    if wrong != 0 {
        m.add_wrong(wrong, last.0, last.1, epoch);
    }
}

#[inline(always)]
fn for_each_elem<M: Machine>(m: &M, mut visit: impl FnMut(u64)) {
    let mut elem = m.block() as u64 * m.threads() as u64 + m.thread() as u64;
    while elem < m.elems() {
        visit(elem);
        elem += m.threads() as u64 * m.blocks() as u64;
    }
}
