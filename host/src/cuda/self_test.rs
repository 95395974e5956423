//! What the self-test asks of ranks on GPUs.

use std::time::Duration;

use allfold_kernels::protocol::abi::Rank;
use allfold_kernels::protocol::status::{Stop, Why};

use super::prepare::begin;
use super::rank;
use super::ranks::CudaRanks;
use super::raw::{DeviceMemory, Stream};
use crate::arguments::Peers;
use crate::buffers::{Place, RawBuffers};
use crate::error::Result;
use crate::self_test::{Bench, Finding, Trial};

/// Input and output of a rank, one behind the other, and where its calls come: a stream of their own.
pub(crate) struct Buffers {
    memory: DeviceMemory,
    stream: Stream,
}

impl Buffers {
    fn input(&self) -> u64 {
        self.memory.address()
    }

    fn output(&self) -> u64 {
        self.memory.address() + self.memory.bytes() as u64 / 2
    }
}

impl CudaRanks {
    /// The UUID of each rank's GPU, in whatever process.
    pub(crate) fn gpus(&self) -> &[String] {
        &self.gpus
    }

    /// Makes the call and waits for its end.
    fn make(&mut self, trial: &Trial, limit: Duration, buffers: &[Buffers]) -> Result<()> {
        let Trial { request, plan, pattern, .. } = trial;
        let mut raw = Vec::new();
        for (rank, (local, b)) in self.workspaces.members.ranks().zip(self.ranks.iter().zip(buffers)) {
            // SAFETY: memory of the rank's own that nothing uses now, with room for the pattern. The calls wait until the work is
            // done; what is in the output then is no sum.
            unsafe {
                local.context.copy_to_device(b.input(), &pattern.input(rank))?;
                local.context.memset(b.output(), 0xff, pattern.bytes())?;
            }
            let (input_elems, output_elems) = (request.elems, request.elems);
            let place = Place::Device(b.stream.raw());
            raw.push(RawBuffers { input: b.input(), output: b.output(), input_elems, output_elems, place });
        }
        let usual = self.workspaces;
        self.workspaces = usual.within(limit);
        // SAFETY: each stream is of the rank's GPU, and its own; the buffers are `cuMemAlloc`'s, have room for the request, which is
        // that of the pattern, and live until the streams have been waited for, here or where this fails.
        let launched = unsafe { self.all_reduce(request, plan, &raw, &Peers::Local) };
        self.workspaces = usual;
        launched?;
        buffers.iter().try_for_each(|b| Ok(b.stream.synchronize()?))
    }
}

impl Bench for CudaRanks {
    type Buffers = Buffers;

    fn buffers(&self, bytes: usize) -> Result<Vec<Buffers>> {
        let of = |rank: &rank::Rank| {
            let (memory, stream) = (DeviceMemory::alloc(&rank.context, 2 * bytes)?, Stream::new(&rank.context)?);
            Ok(Buffers { memory, stream })
        };
        self.ranks.iter().map(of).collect()
    }

    fn call(&mut self, trial: &Trial, limit: Duration, buffers: &mut [Buffers]) -> Result<Vec<Finding>> {
        let found = self.make(trial, limit, buffers).and_then(|()| self.findings(trial, buffers));
        if found.is_err() {
            // Whoever was launched, here or in another process, waits for those that were not.
            self.boards().stop(Stop::outside(Why::Abandoned, Rank(self.workspaces.members.first)));
            buffers.iter().for_each(|b| drop(b.stream.synchronize()));
        }
        found
    }

    fn reset(&self, last_epoch: u64) -> Result<()> {
        let layout = &self.workspaces.layout;
        self.ranks.iter().try_for_each(|rank| begin(&rank.context, rank.workspace.address(), layout, last_epoch))
    }
}

impl CudaRanks {
    /// What each local rank has found in a call that is done.
    fn findings(&self, trial: &Trial, buffers: &[Buffers]) -> Result<Vec<Finding>> {
        let words = self.left()?;
        let mut found = Vec::new();
        for (index, (rank, word)) in self.workspaces.members.ranks().zip(words).enumerate() {
            found.push(match word.stop {
                Some(stop) => Finding::left(rank, stop, word, self.started(index, trial.epoch)?),
                None => {
                    let mut output = vec![0; trial.pattern.bytes()];
                    // SAFETY: memory of the rank's own, and its stream has been waited for.
                    unsafe { self.ranks[index].context.copy_to_host(&mut output, buffers[index].output()) }?;
                    Finding::ended(output)
                }
            });
        }
        Ok(found)
    }
}
