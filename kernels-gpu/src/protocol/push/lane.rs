//! Which packs a thread of a push has, and in which order it takes them.

use core::array::from_fn;
use core::convert::Infallible;

use super::super::element::Element;
use super::super::machine::{Machine, Pack};
use super::super::share::packs;
use super::super::wait::Left;
use super::{Access, Exchange, Turn};

/// A range of packs. 32 bits count the packs of the largest landing slot, and halve the arithmetic of a thread.
#[derive(Clone, Copy)]
pub(in crate::protocol) struct Window {
    pub(in crate::protocol) start: u32,
    pub(in crate::protocol) end: u32,
}

impl Window {
    #[inline(always)]
    pub(in crate::protocol) fn has(self, pack: u32) -> bool {
        self.start <= pack && pack < self.end
    }
}

/// The indices of a thread: one every `stride` from `first` on; and which packs are whole.
#[derive(Clone, Copy)]
pub struct Lane {
    first: u32,
    stride: u32,
    end: u32,
    whole_end: u32,
    packs: u32,
}

impl Lane {
    /// Those of the thread that `m` is, of `len`.
    #[inline(always)]
    pub(in crate::protocol) fn of<M: Machine, T: Element>(m: &M, len: u32) -> Lane {
        let (block, blocks) = match m.blocks() {
            1 => (0, 1),
            blocks => (m.block().wrapping_sub(1), blocks - 1),
        };
        Lane {
            first: block.wrapping_mul(m.threads()).wrapping_add(m.thread()),
            stride: blocks * m.threads(),
            // Block 0 of several has the number -1, and nothing.
            end: if block < blocks { len } else { 0 },
            whole_end: if m.aligned() { (m.elems() / T::DTYPE.lanes() as u64) as u32 } else { 0 },
            packs: packs(T::DTYPE, m.elems()) as u32,
        }
    }

    /// The bits that are set in all of its numbers, for an exit that is never taken: never all, since a stride is at most that of 255 blocks of 1024 threads.
    #[inline(always)]
    pub fn all_ones(&self) -> u32 {
        self.first & self.stride & self.end & self.whole_end & self.packs
    }

    /// All packs of the call.
    #[inline(always)]
    pub(in crate::protocol) fn packs(&self) -> u32 {
        self.packs
    }

    /// The packs that are whole and aligned.
    #[inline(always)]
    pub(super) fn whole(&self) -> Window {
        Window { start: 0, end: self.whole_end }
    }

    /// The others, if there are any.
    #[inline(always)]
    pub(super) fn rest(&self) -> Option<Window> {
        (self.whole_end != self.packs).then_some(Window { start: self.whole_end, end: self.packs })
    }

    /// What is sent first at the first index, if that is one of this lane and in `window`; [`Access::KEEPS_FIRST`].
    #[inline(always)]
    pub(super) fn load_lead<M: Machine, A: Access>(
        &self,
        m: &M,
        exchange: &impl Exchange<M>,
        window: Window,
    ) -> Option<Pack> {
        if A::KEEPS_FIRST && self.first < self.end {
            load::<M, A>(m, window, exchange.lead(m, self.first))
        } else {
            None
        }
    }

    /// Sends all that this thread sends; `lead` is from [`Lane::load_lead`].
    #[inline(always)]
    pub(super) fn send<M: Machine, A: Access, E: Exchange<M>>(
        &self,
        m: &M,
        turn: &Turn<E::Wire>,
        exchange: &E,
        window: Window,
        lead: Option<Pack>,
    ) {
        let sent: Result<(), Infallible> = self.all::<A, _>(|index, is_first| {
            let lead = if is_first { lead } else { load::<M, A>(m, window, exchange.lead(m, index)) };
            exchange.send::<A>(m, turn, window, index, lead);
            Ok(())
        });
        match sent {
            Ok(()) => (),
        }
    }

    /// Adds and takes all that this thread does; `lead` is from [`Lane::load_lead`].
    ///
    /// # Errors
    /// A wait ended before all had landed.
    #[inline(always)]
    pub(super) fn receive<M: Machine, A: Access, E: Exchange<M>>(
        &self,
        m: &M,
        turn: &Turn<E::Wire>,
        exchange: &E,
        window: Window,
        lead: Option<Pack>,
    ) -> Result<(), Left> {
        self.all::<A, _>(|index, is_first| {
            let is_lead = is_first && E::LEADS_WITH_OWN;
            let own = if is_lead { lead } else { load::<M, A>(m, window, exchange.own(m, index)) };
            match own {
                Some(own) => exchange.reduce::<A>(m, turn, index, own),
                None => Ok(()),
            }
        })?;
        match A::KEEPS_FIRST {
            true => self.gather::<M, A, E, 4>(m, turn, exchange, window),
            false => self.gather::<M, A, E, 1>(m, turn, exchange, window),
        }
    }

    /// Takes all that this thread does, what lands at `N` indices at a time: it is the end of a call, and nothing else is left to
    /// do while a pack is loaded.
    #[inline(always)]
    fn gather<M: Machine, A: Access, E: Exchange<M>, const N: usize>(
        &self,
        m: &M,
        turn: &Turn<E::Wire>,
        exchange: &E,
        window: Window,
    ) -> Result<(), Left> {
        let mut index = self.first;
        while index < self.end {
            let indices = from_fn(|ahead| Some(index + ahead as u32 * self.stride).filter(|&index| index < self.end));
            exchange.gather::<A, N>(m, turn, window, indices)?;
            index += N as u32 * self.stride;
        }
        Ok(())
    }

    /// `step` for each index, and whether it is the first one, whose pack was kept.
    #[inline(always)]
    fn all<A: Access, E>(&self, step: impl Fn(u32, bool) -> Result<(), E>) -> Result<(), E> {
        let mut index = self.first;
        if A::KEEPS_FIRST && index < self.end {
            step(index, true)?;
            index += self.stride;
        }
        while index < self.end {
            step(index, false)?;
            index += self.stride;
        }
        Ok(())
    }

    /// `visit` for each index.
    #[inline(always)]
    pub(super) fn each<M: Machine>(&self, m: &M, visit: impl Fn(u32)) {
        let mut index = self.first;
        while index < self.end {
            visit(index);
            index += m.step(self.stride);
        }
    }
}

/// Pack `pack` of this rank's input, if it is in `window`.
#[inline(always)]
fn load<M: Machine, A: Access>(m: &M, window: Window, pack: Option<u32>) -> Option<Pack> {
    let pack = pack?;
    window.has(pack).then(|| A::load(m, pack))
}
