//! Which packs a thread of a push has, and in which order it takes them.

use core::array::from_fn;
use core::hint::cold_path;

use super::super::abi::Phase;
use super::super::element::Element;
use super::super::machine::{Machine, Pack, Region};
use super::super::mark::Mark;
use super::super::share::packs;
use super::super::wait::Left;
use super::{Exchange, Turn, access};

/// The indices of a thread: one every `stride` from `first` on; and which packs are whole. 32 bits count the packs of the largest
/// landing slot, and halve the arithmetic of a thread.
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

    /// Whether it has no index at all.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first >= self.end
    }

    /// All packs of the call.
    #[inline(always)]
    pub(in crate::protocol) fn packs(&self) -> u32 {
        self.packs
    }

    /// Pack `pack` of this rank's input.
    #[inline(always)]
    pub(in crate::protocol) fn load<M: Machine, T: Element>(&self, m: &M, pack: u32) -> Pack {
        self.complete::<M, T>(m, pack, self.load_ahead(m, Some(pack)))
    }

    /// Pack `pack` of this rank's input, if there is one and it can be loaded at once: without a branch, and under way while this
    /// thread does something else.
    #[inline(always)]
    fn load_ahead<M: Machine>(&self, m: &M, pack: Option<u32>) -> Option<Pack> {
        pack.filter(|&pack| pack < self.whole_end).map(|pack| m.ld_pack(Region::Source, m.rank(), pack as u64))
    }

    /// Pack `pack` of this rank's input, unless it was loaded `ahead`.
    #[inline(always)]
    pub(in crate::protocol) fn complete<M: Machine, T: Element>(&self, m: &M, pack: u32, ahead: Option<Pack>) -> Pack {
        ahead.unwrap_or_else(|| {
            cold_path();
            access::load::<M, T>(m, pack)
        })
    }

    /// Stores pack `pack` of this rank's output.
    #[inline(always)]
    pub(in crate::protocol) fn store<M: Machine, T: Element>(&self, m: &M, pack: u32, value: Pack) {
        if pack < self.whole_end {
            return m.st_pack(Region::Output, pack as u64, value);
        }
        cold_path();
        access::store::<M, T>(m, pack, value);
    }

    /// What is sent first at the first index, if it can be loaded ahead: in a small call all that a thread has. So what is done with
    /// it stands by itself, and nothing that a larger call or another access needs lies in its way.
    #[inline(always)]
    pub(super) fn load_lead<M: Machine>(&self, m: &M, exchange: &impl Exchange<M>) -> Option<Pack> {
        let pack = if self.first < self.end { exchange.lead(m, self.first) } else { None };
        self.load_ahead(m, pack)
    }

    /// Sends all that this thread sends; `lead` is from [`Lane::load_lead`].
    #[inline(always)]
    pub(super) fn send<M: Machine, E: Exchange<M>>(
        &self,
        m: &M,
        turn: &Turn<E::Wire>,
        exchange: &E,
        lead: Option<Pack>,
    ) {
        let mut index = self.first;
        if lead.is_some() {
            turn.mark(m, Mark::Told(Phase::Landing));
            exchange.send(m, turn, self, index, lead);
            index += self.stride;
        }
        while index < self.end {
            turn.mark(m, Mark::Told(Phase::Landing));
            exchange.send(m, turn, self, index, self.load_ahead(m, exchange.lead(m, index)));
            index += self.stride;
        }
    }

    /// Adds and takes all that this thread does; `lead` is from [`Lane::load_lead`].
    ///
    /// # Errors
    /// A wait ended before all had landed.
    #[inline(always)]
    pub(super) fn receive<M: Machine, E: Exchange<M>>(
        &self,
        m: &M,
        turn: &Turn<E::Wire>,
        exchange: &E,
        lead: Option<Pack>,
    ) -> Result<(), Left> {
        let mut index = self.first;
        if E::LEADS_WITH_OWN && lead.is_some() {
            exchange.reduce(m, turn, self, index, lead)?;
            index += self.stride;
        }
        while index < self.end {
            // Under way while the thread waits.
            let ahead = self.load_ahead(m, exchange.own(m, index));
            exchange.reduce(m, turn, self, index, ahead)?;
            index += self.stride;
        }
        self.gather::<M, E, 4>(m, turn, exchange)
    }

    /// Takes all that this thread does, what lands at `N` indices at a time: it is the end of a call, and nothing else is left to
    /// do while a pack is loaded.
    #[inline(always)]
    fn gather<M: Machine, E: Exchange<M>, const N: usize>(
        &self,
        m: &M,
        turn: &Turn<E::Wire>,
        exchange: &E,
    ) -> Result<(), Left> {
        let mut index = self.first;
        while index < self.end {
            let indices = from_fn(|ahead| Some(index + ahead as u32 * self.stride).filter(|&index| index < self.end));
            exchange.gather::<N>(m, turn, self, indices)?;
            index += N as u32 * self.stride;
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
