//! Which packs belong to which rank, block and thread: everything is covered, nothing twice.
//!
//! A buffer of `elems` elements is a row of packs, the last one perhaps partial. A [`Span`] of it is cut into chunks of
//! one pack a thread; block `b` of `G` has chunks `b`, `b + G`, …. The rule knows neither addresses nor alignment, so
//! every rank cuts in the same way: block `b` of one rank reads what block `b` of another wrote, which is all that a
//! block barrier speaks of.
//!
//! How a chunk is accessed is each rank's own matter: pack by pack, or element by element where a buffer is not aligned
//! and for the tail of the last pack. Elements of a chunk are then dealt to the same block's threads in turn.

use core::array::from_fn;
use core::iter::zip;

use super::abi::{Bank, Dtype, Rank};
use super::element::Element;
use super::machine::{Machine, Pack, Region};

/// A range of packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first pack.
    pub start: u64,
    /// One past the last pack.
    pub end: u64,
}

/// Packs that `elems` elements fill, the last one perhaps partly.
pub const fn packs(dtype: Dtype, elems: u64) -> u64 {
    elems.div_ceil(dtype.lanes() as u64)
}

/// Packs of the largest part when `packs` are parted among `world` ranks.
pub const fn part_packs(packs: u64, world: u32) -> u64 {
    packs.div_ceil(world as u64)
}

/// The part of `packs` that `rank` of `world` reduces in a two-shot. Parts are equal but for the last ones.
pub const fn part(packs: u64, world: u32, rank: Rank) -> Span {
    const fn min(a: u64, b: u64) -> u64 {
        if a < b { a } else { b }
    }
    let each = part_packs(packs, world);
    Span { start: min(each * rank.0 as u64, packs), end: min(each * (rank.0 as u64 + 1), packs) }
}

/// The parts of all ranks, of a call of the machine's.
#[inline(always)]
pub fn parts<M: Machine, T: Element>(m: &M) -> impl Iterator<Item = Span> {
    let (packs, world) = (packs(T::DTYPE, m.elems()), m.world());
    (0..world).map(move |rank| part(packs, world, Rank(rank)))
}

/// What a step handles at a time: a whole pack or one element.
pub trait Unit: Copy {
    /// Loads it from `owner`'s `region`.
    fn load<M: Machine, T: Element>(self, m: &M, region: Region, owner: Rank) -> Pack;
    /// Stores it to this rank's `region`.
    fn store<M: Machine, T: Element>(self, m: &M, region: Region, value: Pack);
    /// Stores it to `owner`'s output.
    fn give<M: Machine, T: Element>(self, m: &M, owner: Rank, value: Pack);
    /// The same unit, counted from pack `start` on.
    fn counted_from<T: Element>(self, start: u64) -> Self;
}

/// A whole, aligned pack, by its index.
#[derive(Clone, Copy)]
pub struct Whole(pub u64);

/// A single element, by its index.
#[derive(Clone, Copy)]
pub struct Single(pub u64);

impl Unit for Whole {
    #[inline(always)]
    fn load<M: Machine, T: Element>(self, m: &M, region: Region, owner: Rank) -> Pack {
        m.ld_pack(region, owner, self.0)
    }
    #[inline(always)]
    fn store<M: Machine, T: Element>(self, m: &M, region: Region, value: Pack) {
        m.st_pack(region, self.0, value)
    }
    #[inline(always)]
    fn give<M: Machine, T: Element>(self, m: &M, owner: Rank, value: Pack) {
        m.give_pack(owner, self.0, value)
    }
    #[inline(always)]
    fn counted_from<T: Element>(self, start: u64) -> Self {
        Whole(self.0 - start)
    }
}

impl Unit for Single {
    #[inline(always)]
    fn load<M: Machine, T: Element>(self, m: &M, region: Region, owner: Rank) -> Pack {
        m.ld_elem::<T>(region, owner, self.0)
    }
    #[inline(always)]
    fn store<M: Machine, T: Element>(self, m: &M, region: Region, value: Pack) {
        m.st_elem::<T>(region, self.0, value)
    }
    #[inline(always)]
    fn give<M: Machine, T: Element>(self, m: &M, owner: Rank, value: Pack) {
        m.give_elem::<T>(owner, self.0, value)
    }
    #[inline(always)]
    fn counted_from<T: Element>(self, start: u64) -> Self {
        Single(self.0 - start * T::DTYPE.lanes() as u64)
    }
}

/// `unit` of each rank's input in `bank`: all loads start before the first is used, so that their latencies overlap.
#[inline(always)]
pub fn load_inputs<M: Machine, T: Element, U: Unit, const W: usize>(m: &M, unit: U, bank: Bank) -> [Pack; W] {
    from_fn(|rank| unit.load::<M, T>(m, Region::Input(bank), Rank(rank as u32)))
}

/// One step of an algorithm, done for each unit of a span.
pub trait Step<M: Machine> {
    /// What it loads for a unit.
    type Loaded;
    /// Loads what it needs for `unit`.
    fn load<U: Unit>(&self, m: &M, unit: U) -> Self::Loaded;
    /// Does with it what is to be done, and stores.
    fn finish<U: Unit>(&self, m: &M, unit: U, loaded: Self::Loaded);

    /// Does it for `unit`.
    #[inline(always)]
    fn run<U: Unit>(&self, m: &M, unit: U) {
        self.finish(m, unit, self.load(m, unit));
    }
}

/// Runs `step` for the units of `span` that belong to this thread. It loads `AHEAD` packs before it finishes the first, while so
/// many are left: a launch of few blocks needs that to keep a link busy.
#[inline(always)]
pub fn for_each<M: Machine, T: Element, const AHEAD: usize>(m: &M, span: Span, step: &impl Step<M>) {
    let lanes = T::DTYPE.lanes() as u64;
    let (thread, threads) = (m.thread() as u64, m.threads() as u64);
    let stride = threads * m.blocks() as u64;
    let (elems, aligned) = (m.elems(), m.aligned());
    let mut pack = span.start + m.block() as u64 * threads + thread;

    if aligned {
        let whole_end = span.end.min(elems / lanes);
        while AHEAD > 1 && pack + (AHEAD as u64 - 1) * stride < whole_end {
            let units: [Whole; AHEAD] = from_fn(|ahead| Whole(pack + ahead as u64 * stride));
            let loaded = units.map(|unit| step.load(m, unit));
            zip(units, loaded).for_each(|(unit, loaded)| step.finish(m, unit, loaded));
            pack += AHEAD as u64 * stride;
        }
        while pack < whole_end {
            step.run(m, Whole(pack));
            pack += stride;
        }
    }

    // What is left of this thread's chunks goes element by element. Aligned: the tail of the last pack, by the thread
    // that the pack belongs to. Else: every chunk, its elements dealt to the threads in turn, so that a warp's accesses
    // are neighbours.
    let elem_stride = if aligned { 1 } else { threads };
    while pack - thread < span.end {
        let chunk = pack - thread;
        let (first, packs_end) =
            if aligned { (pack * lanes, pack + 1) } else { (chunk * lanes + thread, chunk + threads) };
        let end = (packs_end.min(span.end) * lanes).min(elems);
        let mut elem = first;
        while elem < end {
            step.run(m, Single(elem));
            elem += elem_stride;
        }
        pack += stride;
    }
}
