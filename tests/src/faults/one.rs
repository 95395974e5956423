//! One communicator over all ranks of a process, whose calls are checked: for cells of GPUs.

use std::time::{Duration, Instant};

use allfold::cuda::Stream;
use allfold::{Algorithm, Communicator, Dtype, InputMode, Options, RankBuffers, ReduceOp, SelfTest};
use anyhow::{Context, Result};

use super::rank::{BYTES, Call};
use super::{Ground, RankMemory};

/// A communicator over all ranks, and their memories.
pub struct One {
    // Gone before the memories.
    pub comm: Communicator,
    pub memories: Vec<RankMemory>,
}

/// What comes of a call: what the library says, and when the others than the victim had it.
pub struct Came {
    pub done: allfold::Result<()>,
    pub took: Duration,
}

impl One {
    pub fn new(gpus: &[u32], timeout: Duration, max_blocks: Option<u32>) -> allfold::Result<One> {
        let memories = gpus.iter().map(|&gpu| Ground::Gpu(gpu).memory(4 * BYTES)).collect::<allfold::Result<_>>()?;
        let options = Options {
            timeout: Some(timeout),
            dtypes: vec![Dtype::F32],
            inputs: vec![InputMode::Registered, InputMode::Copied],
            algorithms: vec![Algorithm::OneShot, Algorithm::TwoShot, Algorithm::OneShotPush, Algorithm::TwoShotPush],
            capacity_bytes: BYTES as u64,
            landing_bytes: Some(2 * BYTES as u64),
            max_blocks,
            // The same in every run.
            self_test: SelfTest::Always,
            ..Options::default()
        };
        Ok(One { comm: Communicator::cuda_with(gpus, options)?, memories })
    }

    /// The buffers of all ranks, `other` in the place of one rank's stream.
    pub fn launch(&mut self, call: Call, number: u32, other: Option<(usize, &Stream)>) -> Result<allfold::Result<()>> {
        for (rank, memory) in (0..).zip(&mut self.memories) {
            memory.write(&call.input(rank, number), &call.poison()).context("writing an input")?;
        }
        let buffers: Vec<RankBuffers<'_, f32>> = (0..)
            .zip(&mut self.memories)
            .map(|(rank, memory)| {
                let stream = other.filter(|(of, _)| *of == rank).map(|(_, stream)| stream);
                memory.buffers(call.elems, stream)
            })
            .collect();
        Ok(self.comm.all_reduce_with(&buffers, ReduceOp::Sum, &call.options(None)).map(drop))
    }

    /// Waits for a call that was launched at `begun`, and checks what came of it.
    pub fn wait(&mut self, call: Call, number: u32, victim: usize, begun: Instant) -> Result<Came> {
        for (_, memory) in (0..).zip(&self.memories).filter(|(rank, _)| *rank != victim) {
            memory.synchronize().context("waiting for a rank")?;
        }
        let took = begun.elapsed();
        self.memories[victim].synchronize().context("waiting for the victim")?;
        let done = self.comm.check();
        if done.is_ok() {
            let world = self.memories.len() as u32;
            for memory in &self.memories {
                call.check(&memory.output(4 * call.elems)?, world, number)?;
            }
        }
        Ok(Came { done, took })
    }

    /// A call that has to be right.
    pub fn good(&mut self, call: Call, number: u32) -> Result<()> {
        self.launch(call, number, None)??;
        Ok(self.wait(call, number, 0, Instant::now())?.done?)
    }

    /// The same ranks anew, which have to be right; whatever became of this one.
    pub fn rebuilt(mut self, call: Call) -> Result<()> {
        let all: Vec<_> = (0..self.memories.len()).collect();
        self.comm = self.comm.rebuild(&all).context("rebuilding")?;
        (0..3).try_for_each(|number| self.good(call, number)).context("after rebuilding")
    }
}
