//! How a push accesses the caller's buffers: by whole packs, or element by element.

use core::array::from_fn;
use core::marker::PhantomData;

use super::super::element::Element;
use super::super::machine::{Machine, Pack, Region};

/// How packs of the caller's buffers are accessed.
pub(in crate::protocol) trait Access {
    /// Whether what a thread sends and adds first is loaded ahead and stays in registers. It is all that a thread has in a
    /// small call.
    const KEEPS_FIRST: bool;
    /// Pack `pack` of this rank's input.
    fn load<M: Machine>(m: &M, pack: u32) -> Pack;
    /// Stores pack `pack` of this rank's output.
    fn store<M: Machine>(m: &M, pack: u32, value: Pack);
}

/// At once: the pack is whole and aligned.
pub(super) struct Whole;

impl Access for Whole {
    const KEEPS_FIRST: bool = true;

    #[inline(always)]
    fn load<M: Machine>(m: &M, pack: u32) -> Pack {
        m.ld_pack(Region::Source, m.rank(), pack as u64)
    }
    #[inline(always)]
    fn store<M: Machine>(m: &M, pack: u32, value: Pack) {
        m.st_pack(Region::Output, pack as u64, value);
    }
}

/// Element by element: those beyond the end are 0, and not stored. Slower, so kept small: nothing is kept, and the loops over
/// elements stay loops.
pub(super) struct Elems<T>(PhantomData<T>);

impl<T: Element> Elems<T> {
    const BITS: u32 = 8 * T::DTYPE.bytes() as u32;

    /// The first element of `pack`, and how many it has.
    #[inline(always)]
    fn elems<M: Machine>(m: &M, pack: u32) -> (u64, u32) {
        let lanes = T::DTYPE.lanes() as u64;
        let first = pack as u64 * lanes;
        (first, lanes.min(m.elems() - first) as u32)
    }
}

impl<T: Element> Access for Elems<T> {
    const KEEPS_FIRST: bool = false;

    #[inline(always)]
    fn load<M: Machine>(m: &M, pack: u32) -> Pack {
        let (first, count) = Self::elems(m, pack);
        let mut bits = 0_u128;
        for elem in (0..count).rev() {
            bits = bits << Self::BITS | m.ld_elem::<T>(Region::Source, m.rank(), first + elem as u64).0[0] as u128;
        }
        Pack(from_fn(|word| (bits >> (32 * word)) as u32))
    }
    #[inline(always)]
    fn store<M: Machine>(m: &M, pack: u32, value: Pack) {
        let (first, count) = Self::elems(m, pack);
        let mut bits = value.0.iter().rev().fold(0_u128, |bits, &word| bits << 32 | word as u128);
        for elem in 0..count {
            m.st_elem::<T>(Region::Output, first + elem as u64, Pack([bits as u32, 0, 0, 0]));
            bits >>= Self::BITS;
        }
    }
}
