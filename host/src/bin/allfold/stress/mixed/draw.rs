//! Which calls a mixed run makes: a pure function of its seed, and of what the communicator is made for and can do.

use allfold::tuning::Row;
use allfold::{CallOptions, Dtype, Limits, MAX_RANKS, Options, Plan, ReduceOp, Request};
use anyhow::{Context, Result, bail};

use super::batch::{Batch, Call, Late, Region, Way};
use crate::mix::mix;

/// What calls are drawn from.
#[derive(Clone)]
pub struct Facts {
    pub options: Options,
    pub limits: Limits,
    pub rows: &'static [Row],
    /// Bytes of a rank's largest call.
    pub most_bytes: u64,
    /// Streams that each rank has; none on the CPU.
    pub streams: usize,
}

/// Most elements by which a buffer is off alignment, and one more.
pub const SHIFTS: u64 = 8;

/// Draws that may be refused one after the other, before something must be wrong.
const MOST_REFUSED: u32 = 10_000;

/// Packs that a thread may have to do where the grid is drawn: a whole call by one thread would take its time.
const PACKS_A_THREAD: u64 = 1024;

/// The calls of a seed, batch after batch.
pub struct Draw {
    facts: Facts,
    seed: u64,
    /// Numbers taken so far.
    taken: u64,
    /// Calls that were drawn, and that the library refuses: others were drawn in their place.
    pub refused: u64,
}

impl Draw {
    pub fn new(seed: u64, facts: Facts) -> Draw {
        Draw { facts, seed, taken: 0, refused: 0 }
    }

    /// The next batch.
    pub fn batch(&mut self) -> Result<Batch> {
        let graph = self.one_in(3);
        let count = 1 + self.below(if graph { 12 } else { 6 });
        let streams = self.below(self.facts.streams as u64) as usize;
        let way = if graph {
            let captured_on = self.below(self.facts.streams as u64) as usize;
            Way::Graph { captured_on, replays: 1 + self.below(9) }
        } else {
            Way::Eager
        };
        let late = self.one_in(8).then(|| {
            let rank = self.below(self.facts.limits.world.into()) as usize;
            Late { rank, copies: 1 + self.below(16) as u32 }
        });
        let calls = (0..count).map(|_| self.call()).collect::<Result<_>>()?;
        // CPU ranks start together, whatever is before them.
        let late = late.filter(|_| self.facts.streams > 0);
        Ok(Batch { calls, way, streams, late })
    }

    /// The batch of call `number`, from 1, of a run from its start, and the call's number in it, from 0.
    pub fn find(&mut self, number: u64) -> Result<(Batch, u64)> {
        let mut before = 0;
        loop {
            let batch = self.batch()?;
            match number.checked_sub(before + 1) {
                None => bail!("there is no call {number}"),
                Some(at) if at < batch.made() => return Ok((batch, at)),
                Some(_) => before += batch.made(),
            }
        }
    }

    /// A call that the library does not refuse.
    fn call(&mut self) -> Result<Call> {
        let mut refused = 0;
        loop {
            match self.any_call() {
                Ok(call) => return Ok(call),
                Err(error) if refused == MOST_REFUSED => {
                    return Err(error).with_context(|| format!("{MOST_REFUSED} calls drawn, and all refused"));
                }
                Err(_) => (refused, self.refused) = (refused + 1, self.refused + 1),
            }
        }
    }

    fn any_call(&mut self) -> allfold::Result<Call> {
        let dtype = self.of(|facts| &facts.options.dtypes).unwrap_or(Dtype::F32);
        let elems = self.elems(dtype);
        let input = if self.one_in(2) { Region::First } else { Region::Second };
        let output = if self.one_in(3) { input } else { input.other() };
        let shifts = self.shifts(input == output);
        let pause_micros = if self.one_in(16) { 1 + self.below(200) } else { 0 };
        let chosen = self.one_in(4);
        let algorithm = self.of(|facts| &facts.options.algorithms).filter(|_| !chosen);
        let mode = self.of(|facts| &facts.options.inputs);
        let own_grid = self.one_in(2);
        let mut call = Call {
            dtype,
            elems,
            options: CallOptions { algorithm, input: mode, ..CallOptions::default() },
            plan: self.plan(
                dtype,
                elems,
                input == output,
                &CallOptions { algorithm, input: mode, ..CallOptions::default() },
            )?,
            input,
            output,
            shifts,
            pause_micros,
        };
        if own_grid {
            self.draw_grid(&mut call)?;
        }
        Ok(call)
    }

    /// Another grid than the plan's, if a call of this size may have it.
    fn draw_grid(&mut self, call: &mut Call) -> allfold::Result<()> {
        let most_blocks = self.facts.limits.max_blocks.min(self.facts.options.max_blocks.unwrap_or(u32::MAX));
        let most_threads = self.facts.limits.threads_of(call.plan.algorithm);
        let (blocks, threads) = (1 + self.below(most_blocks.into()), 1 + self.below(most_threads.into()));
        // Whole warps as often as not.
        let threads = if self.one_in(2) { threads.next_multiple_of(32).min(most_threads.into()) } else { threads };
        let packs = call.elems.div_ceil(call.dtype.lanes() as u64);
        if packs > blocks * threads * PACKS_A_THREAD {
            return Ok(());
        }
        let (blocks, threads) = (Some(blocks as u32), Some(threads as u32));
        let options = CallOptions { blocks, threads, ..call.options };
        call.plan = self.plan(call.dtype, call.elems, call.in_place(), &options)?;
        call.options = options;
        Ok(())
    }

    /// What the library makes of a call, or why it refuses it.
    fn plan(&self, dtype: Dtype, elems: u64, in_place: bool, call: &CallOptions) -> allfold::Result<Plan> {
        let Facts { options, limits, rows, .. } = &self.facts;
        // No plan depends on how buffers are aligned.
        let request =
            Request { dtype, op: ReduceOp::Sum, elems, bytes: elems * dtype.bytes() as u64, in_place, aligned: false };
        Plan::choose(&request, call, options, limits, rows)
    }

    /// From 1 up: an empty call launches nothing, and leaves nothing to check. As many calls between two powers of two
    /// as between the next; many of them at such a power or close to it.
    fn elems(&mut self, dtype: Dtype) -> u64 {
        let most = (self.facts.most_bytes / dtype.bytes() as u64).max(1);
        let power = 1 << self.below(u64::from(most.ilog2()) + 1);
        let elems: u64 = match self.below(4) {
            0 => power,
            1 => power + 1 + self.below(SHIFTS),
            2 => power.saturating_sub(1 + self.below(SHIFTS)),
            _ => power + self.below(power),
        };
        elems.clamp(1, most)
    }

    /// All aligned, or each buffer of each rank in another way.
    fn shifts(&mut self, in_place: bool) -> [[u8; 2]; MAX_RANKS] {
        if self.one_in(3) {
            return [[0; 2]; MAX_RANKS];
        }
        let world = self.facts.limits.world as usize;
        let mut shifts = [[0; 2]; MAX_RANKS];
        for [input, output] in shifts.iter_mut().take(world) {
            *input = self.below(SHIFTS) as u8;
            *output = if in_place { *input } else { self.below(SHIFTS) as u8 };
        }
        shifts
    }

    /// One of a list; `None` of an empty one.
    fn of<T: Copy>(&mut self, list: impl Fn(&Facts) -> &Vec<T>) -> Option<T> {
        let at = self.below(list(&self.facts).len() as u64);
        list(&self.facts).get(at as usize).copied()
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// From 0 to `end`, and without it; 0 where that is nothing.
    fn below(&mut self, end: u64) -> u64 {
        let number = mix(self.seed, self.taken);
        self.taken += 1;
        number % end.max(1)
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
