//! How a push accesses the caller's buffers: by whole packs, or element by element.

use core::marker::PhantomData;

use super::super::abi::PACK_WORDS;
use super::super::element::Element;
use super::super::machine::{Machine, Pack, Region};
use super::clean;

/// How packs of the caller's buffers are accessed.
pub(in crate::protocol) trait Access {
    /// Pack `pack` of this rank's input, no word of it the marker.
    fn load<M: Machine>(m: &M, pack: u64) -> Pack;
    /// Stores pack `pack` of this rank's output.
    fn store<M: Machine>(m: &M, pack: u64, value: Pack);
}

/// At once: the pack is whole and aligned.
pub(super) struct Whole;

impl Access for Whole {
    #[inline(always)]
    fn load<M: Machine>(m: &M, pack: u64) -> Pack {
        clean(m.ld_pack(Region::Source, m.rank(), pack))
    }
    #[inline(always)]
    fn store<M: Machine>(m: &M, pack: u64, value: Pack) {
        m.st_pack(Region::Output, pack, value);
    }
}

/// Element by element: those beyond the end are 0, and not stored.
pub(super) struct Elems<T>(PhantomData<T>);

impl<T: Element> Access for Elems<T> {
    #[inline(always)]
    fn load<M: Machine>(m: &M, pack: u64) -> Pack {
        let lanes = T::DTYPE.lanes();
        let mut words = [0; PACK_WORDS];
        for lane in 0..lanes {
            let elem = pack * lanes as u64 + lane as u64;
            if elem < m.elems() {
                let (word, shift) = place::<T>(lane);
                words[word] |= m.ld_elem::<T>(Region::Source, m.rank(), elem).0[0] << shift;
            }
        }
        clean(Pack(words))
    }
    #[inline(always)]
    fn store<M: Machine>(m: &M, pack: u64, value: Pack) {
        let lanes = T::DTYPE.lanes();
        for lane in 0..lanes {
            let elem = pack * lanes as u64 + lane as u64;
            if elem < m.elems() {
                let (word, shift) = place::<T>(lane);
                m.st_elem::<T>(Region::Output, elem, Pack([value.0[word] >> shift, 0, 0, 0]));
            }
        }
    }
}

/// The word of a pack that has element `lane`, and where in it.
#[inline(always)]
fn place<T: Element>(lane: usize) -> (usize, usize) {
    let bytes = lane * T::DTYPE.bytes();
    (bytes / 4, bytes % 4 * 8)
}
