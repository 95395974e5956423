//! Calls with all that can be asked for, counted; and what they have come to so far.

use std::time::Duration;

use allfold_kernels::protocol::abi::{Dtype, Rank, ReduceOp};

use super::{Backend, Communicator, of_backend};
use crate::buffers::{RankBuffers, RawBuffers};
use crate::counters::{Counters, LongestWait};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::options::CallOptions;
use crate::plan::Plan;
use crate::reach::Registered;
use crate::trace::{self, BlockTrace};

impl Communicator {
    /// [`Communicator::all_reduce`] with the algorithm, input mode or grid asked for. Returns how the call is done.
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`].
    pub fn all_reduce_with<T: Element>(
        &mut self,
        buffers: &[RankBuffers<'_, T>],
        op: ReduceOp,
        call: &CallOptions,
    ) -> Result<Plan> {
        let raw = self.raw_of(buffers);
        self.count_error(&raw);
        let raw = raw?;
        // SAFETY: `RankBuffers` borrow their memory, or their makers promised that it lives as long.
        unsafe { self.all_reduce_raw(T::DTYPE, &raw[..buffers.len()], op, call) }
    }

    /// [`Communicator::all_reduce_with`] for a dtype known at run time only.
    ///
    /// # Safety
    /// - Host memory: each buffer is live, of its length, and not accessed by anyone else until this returns.
    /// - Device memory: as for [`RankBuffers::device_raw`].
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`].
    pub unsafe fn all_reduce_raw(
        &mut self,
        dtype: Dtype,
        buffers: &[RawBuffers<'_>],
        op: ReduceOp,
        call: &CallOptions,
    ) -> Result<Plan> {
        // SAFETY: the caller's promise.
        let done = unsafe { self.launch(dtype, buffers, op, call) };
        self.count_error(&done);
        if let Ok(plan) = &done {
            let bytes = buffers.first().map_or(0, |rank| rank.input_elems * dtype.bytes() as u64);
            // Whoever captures it, it runs when it is replayed.
            let captured = call.registered == Registered::Later && !self.members.all_local();
            self.counted.call(plan.algorithm, bytes, captured);
        }
        done
    }

    /// Calls so far, how large they were and by which algorithm, of this communicator and in this process. Stamps are no calls.
    ///
    /// ```
    /// use allfold::{Algorithm, CallOptions, Communicator, RankBuffers, ReduceOp};
    ///
    /// # fn main() -> Result<(), allfold::Error> {
    /// let mut ranks = Communicator::cpu(2)?;
    /// let (mut one, mut two) = ([1.0_f32; 100], [2.0_f32; 100]);
    /// let buffers = [RankBuffers::in_place(&mut one), RankBuffers::in_place(&mut two)];
    /// let call = CallOptions { algorithm: Some(Algorithm::TwoShot), ..CallOptions::default() };
    /// ranks.all_reduce_with(&buffers, ReduceOp::Sum, &call)?;
    /// let two_shots = ranks.counters().by_algorithm(Algorithm::TwoShot);
    /// assert_eq!((two_shots.calls, two_shots.bytes), (1, 400));
    /// # Ok(())
    /// # }
    /// ```
    pub fn counters(&self) -> Counters {
        self.counted.counters()
    }

    /// The longest that a local rank has waited for others so far, in one place of one call; `None` where no wait lasted for a
    /// millisecond or two. Calls that are still under way count as far as they have come.
    ///
    /// ```
    /// # fn main() -> Result<(), allfold::Error> {
    /// let ranks = allfold::Communicator::cpu(2)?;
    /// if let Some(wait) = ranks.longest_wait()? {
    ///     println!("rank {} waited {:?} for {:?}", wait.rank, wait.waited, wait.missing);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Driver`] when a rank's memory cannot be read.
    pub fn longest_wait(&self) -> Result<Option<LongestWait>> {
        let words = of_backend!(&self.backend, ranks => ranks.left())?;
        let longest = self.members.ranks().zip(words).max_by_key(|(_, word)| word.wait.ticks);
        Ok(longest.filter(|(_, word)| word.wait.ticks > 0).map(|(rank, word)| LongestWait {
            rank,
            waited: Duration::from_nanos(word.wait.ns()),
            missing: word.wait.ranks.iter().map(|Rank(rank)| rank).collect(),
        }))
    }

    /// When the blocks of the local ranks came where in the last [`TRACED_CALLS`](crate::TRACED_CALLS) calls, rank by rank, the earliest call
    /// first: what they told their peers and how long they waited for them. The calls are to be done, or to have come to a bad end: then
    /// it shows how far each block came. What a rank alone in its communicator leaves on a GPU is nothing.
    ///
    /// ```
    /// use allfold::{Communicator, Dtype, Options, Phase, RankBuffers, ReduceOp};
    /// use half::bf16;
    ///
    /// # fn main() -> Result<(), allfold::Error> {
    /// let options = Options { trace: true, dtypes: vec![Dtype::Bf16], ..Options::default() };
    /// let mut ranks = Communicator::cpu_with(2, options)?;
    /// let (mut one, mut two) = ([bf16::ONE; 100], [bf16::ONE; 100]);
    /// ranks.all_reduce(&[RankBuffers::in_place(&mut one), RankBuffers::in_place(&mut two)], ReduceOp::Sum)?;
    /// for block in ranks.trace()? {
    ///     let landing = block.phases[Phase::Landing as usize];
    ///     println!("rank {} had stored all but the last at {:?}, and had all at {:?}", block.rank, landing.told_ns, landing.came_ns);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotDeclared`] without [`Options::trace`](crate::Options::trace). [`Error::Driver`] when a rank's memory cannot be read.
    pub fn trace(&self) -> Result<Vec<BlockTrace>> {
        if !self.options.trace {
            return Err(Error::NotDeclared { what: "a trace", option: "trace" });
        }
        let marks = of_backend!(&self.backend, ranks => ranks.marks())?;
        Ok(self.members.ranks().zip(marks).flat_map(|(rank, words)| trace::decode(rank, &words)).collect())
    }

    /// Counts a call or a replay that got an error.
    pub(super) fn count_error<T>(&mut self, done: &Result<T>) {
        if let Err(error) = done {
            let stopped = of_backend!(&self.backend, ranks => ranks.is_stopped());
            tracing::debug!(%error, stopped, "a call got an error");
            self.counted.error(stopped);
        }
    }
}
