//! How a push accesses a pack of the caller's buffers that is not whole, or not aligned: element by element. Those beyond the end
//! are 0, and not stored.
//!
//! Slower than at once, so kept small: the loops over elements stay loops, and each kernel has one of each.

use core::array::from_fn;

use super::super::element::Element;
use super::super::machine::{Machine, Pack, Region};

const fn bits<T: Element>() -> u32 {
    8 * T::DTYPE.bytes() as u32
}

/// The first element of `pack`, and how many it has.
#[inline(always)]
fn elems<M: Machine, T: Element>(m: &M, pack: u32) -> (u64, u32) {
    // In a way that a compiler cannot look into: it would compute it before a wait, and keep it all the while.
    let pack = m.step(pack);
    let lanes = T::DTYPE.lanes() as u64;
    let first = pack as u64 * lanes;
    (first, lanes.min(m.elems() - first) as u32)
}

/// Pack `pack` of this rank's input.
#[inline(always)]
pub(super) fn load<M: Machine, T: Element>(m: &M, pack: u32) -> Pack {
    let (first, mut elem) = elems::<M, T>(m, pack);
    let mut value = 0_u128;
    while elem > 0 {
        elem -= m.step(1);
        value = value << bits::<T>() | m.ld_elem::<T>(Region::Source, m.rank(), first + elem as u64).double(0) as u128;
    }
    Pack(from_fn(|word| (value >> (32 * word)) as u32))
}

/// Stores pack `pack` of this rank's output.
#[inline(always)]
pub(super) fn store<M: Machine, T: Element>(m: &M, pack: u32, value: Pack) {
    let (mut elem, mut left) = elems::<M, T>(m, pack);
    let mut value = value.0.iter().rev().fold(0_u128, |bits, &word| bits << 32 | word as u128);
    while left > 0 {
        m.st_elem::<T>(Region::Output, elem, Pack([value as u32, (value >> 32) as u32, 0, 0]));
        value >>= bits::<T>();
        elem += 1;
        left -= m.step(1);
    }
}
