//! What an output holds whose call was left before its end: every element that this thread would have written is all ones, which
//! is a NaN of each floating-point type, and -1 of an integer. Whether a result counts is not seen by it: see the host's `check`.

use super::abi::{PACK_WORDS, Phase};
use super::element::Element;
use super::machine::{Machine, Pack, Region};
use super::share::Span;
use super::wait::Left;

/// An element of any type.
const POISON: Pack = Pack([u32::MAX; PACK_WORDS]);

/// The packs of each of `spans` that belong to this thread, which `left`: as [`share::for_each`](super::share::for_each) deals them
/// where buffers are aligned, and elements of the same block's chunks where they are not. At the end of a call a thread waits for
/// what all of its block give out, and where the others have ended it answers for them.
#[inline(always)]
pub(super) fn poison<M: Machine, T: Element>(m: &M, left: Left, spans: impl Iterator<Item = Span>) {
    let lanes = T::DTYPE.lanes() as u64;
    let threads = m.threads() as u64;
    let (first, stride) = if left.phase == Phase::End { (0, 1) } else { (m.thread(), m.threads()) };
    for span in spans {
        let mut chunk = span.start + m.block() as u64 * threads;
        while chunk < span.end {
            // All of a chunk, by its block's threads in turn, whoever of them had which element.
            let end = (chunk + threads).min(span.end);
            poison_elems::<M, T>(m, chunk * lanes + first as u64, end * lanes, stride);
            chunk += threads * m.step(m.blocks()) as u64;
        }
    }
}

/// Pack `pack` of the output.
#[inline(always)]
pub(super) fn poison_pack<M: Machine, T: Element>(m: &M, pack: u64) {
    let lanes = T::DTYPE.lanes() as u64;
    poison_elems::<M, T>(m, pack * lanes, (pack + 1) * lanes, 1);
}

#[inline(always)]
fn poison_elems<M: Machine, T: Element>(m: &M, start: u64, end: u64, stride: u32) {
    let end = end.min(m.elems());
    let mut elem = start;
    while elem < end {
        m.st_elem::<T>(Region::Output, elem, POISON);
        elem += m.step(stride) as u64;
    }
}
