//! Which packs a thread of a push has, and in which order it does what.

use super::super::abi::PACK_WORDS;
use super::super::element::Element;
use super::super::machine::{Machine, Pack};
use super::super::share::{Span, packs};
use super::{Access, Exchange, Turn};

/// The indices of a thread: one every `stride` from `first` on; and which packs are whole.
#[derive(Clone, Copy)]
pub struct Lane {
    pub(super) first: u64,
    stride: u64,
    end: u64,
    whole_end: u64,
    packs: u64,
}

impl Lane {
    /// Those of the thread that `m` is, of `len`.
    #[inline(always)]
    pub(in crate::protocol) fn of<M: Machine, T: Element>(m: &M, len: u64) -> Lane {
        let threads = m.threads() as u64;
        let (block, blocks) = match m.blocks() {
            1 => (0, 1),
            blocks => (m.block().wrapping_sub(1), blocks - 1),
        };
        Lane {
            first: block as u64 * threads + m.thread() as u64,
            stride: blocks as u64 * threads,
            // Block 0 of several has the number -1, and nothing.
            end: if block < blocks { len } else { 0 },
            whole_end: if m.aligned() { m.elems() / T::DTYPE.lanes() as u64 } else { 0 },
            packs: packs(T::DTYPE, m.elems()),
        }
    }

    /// The lane with `f` of each of its numbers.
    #[inline(always)]
    pub fn map(self, f: impl Fn(u64) -> u64) -> Lane {
        let [first, stride, end, whole_end, packs] =
            [self.first, self.stride, self.end, self.whole_end, self.packs].map(f);
        Lane { first, stride, end, whole_end, packs }
    }

    /// The packs that are whole and aligned.
    #[inline(always)]
    pub(super) fn whole(&self) -> Span {
        Span { start: 0, end: self.whole_end }
    }

    /// Whether there are others.
    #[inline(always)]
    pub(super) fn has_rest(&self) -> bool {
        self.whole_end != self.packs
    }

    /// The others.
    #[inline(always)]
    pub(super) fn rest(&self) -> Span {
        Span { start: self.whole_end, end: self.packs }
    }

    /// The pack that this rank adds at `index`, if it is one of this lane and in `window`; else zeros.
    #[inline(always)]
    pub(super) fn load<M: Machine, A: Access>(
        &self,
        m: &M,
        exchange: &impl Exchange<M>,
        window: Span,
        index: u64,
    ) -> Pack {
        match exchange.own(m, index) {
            Some(pack) if index < self.end && window.has(pack) => A::load(m, pack),
            _ => Pack([0; PACK_WORDS]),
        }
    }

    /// Each step for all indices before the next: all that a thread sends is under way before it first waits. `first` is what
    /// [`Lane::load`] gives for the first index: the only one that a thread has in a small call, it stays in registers.
    #[inline(always)]
    pub(super) fn run<M: Machine, A: Access>(
        &self,
        m: &M,
        turn: &Turn,
        exchange: &impl Exchange<M>,
        window: Span,
        first: Pack,
    ) -> bool {
        let own = |index| if index == self.first { first } else { self.load::<M, A>(m, exchange, window, index) };
        self.all(|index| {
            exchange.send::<A>(m, turn, window, index, || own(index));
            true
        }) && self.all(|index| exchange.reduce::<A>(m, turn, window, index, own(index)))
            && self.all(|index| exchange.gather::<A>(m, turn, window, index))
    }

    #[inline(always)]
    fn all(&self, step: impl Fn(u64) -> bool) -> bool {
        let mut index = self.first;
        while index < self.end {
            if !step(index) {
                return false;
            }
            index += self.stride;
        }
        true
    }
}
