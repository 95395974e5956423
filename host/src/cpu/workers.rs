//! The threads of a communicator's local ranks, and a job handed to all of them.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use allfold_kernels::protocol::abi::{Dtype, KernelArgs, MAX_RANKS, Rank};
use allfold_kernels::protocol::status::{Ranks, Stop, Why};

use super::block::Block;
use super::kernels::{self, Kernel};
use super::machine::{Cpu, Place};
use crate::error::{Error, Result};
use crate::stop::Boards;

/// One kernel on all local ranks.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) kernel: Kernel,
    pub(super) dtype: Dtype,
    /// Of each local rank, in order.
    pub(super) args: [KernelArgs; MAX_RANKS],
    pub(super) blocks: u32,
    pub(super) threads: u32,
}

struct State {
    /// Counts jobs, so that a thread that wakes up knows whether one is new.
    generation: u64,
    job: Option<Job>,
    /// Threads that have not finished the job.
    running: usize,
    /// A rank one of whose threads has ended.
    gone: Option<u32>,
    closing: bool,
}

struct Shared {
    state: Mutex<State>,
    start: Condvar,
    done: Condvar,
    /// Told of a rank that is gone, so that whoever waits for it stops.
    boards: Arc<dyn Boards>,
    /// The local ranks.
    ranks: Range<u32>,
    /// One for each (local rank, block).
    blocks: Vec<Block>,
    max_blocks: u32,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads; they end when this is dropped.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// A thread for each thread of `max_blocks` blocks of `max_threads` on each of `ranks`, whose peers `boards` can tell something.
    pub(super) fn start(
        ranks: Range<u32>,
        max_blocks: u32,
        max_threads: u32,
        boards: Arc<dyn Boards>,
    ) -> Result<Workers> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { generation: 0, job: None, running: 0, gone: None, closing: false }),
            start: Condvar::new(),
            done: Condvar::new(),
            boards,
            blocks: (0..ranks.len() * max_blocks as usize).map(|_| Block::new()).collect(),
            ranks: ranks.clone(),
            max_blocks,
        });
        let mut workers = Workers { shared, threads: Vec::new() };
        for rank in ranks {
            for block in 0..max_blocks {
                for thread in 0..max_threads {
                    let shared = Arc::clone(&workers.shared);
                    let handle = std::thread::Builder::new()
                        .name(format!("allfold rank {rank}"))
                        .spawn(move || work(&shared, rank, block, thread))
                        .map_err(|source| Error::Host { what: "starting a CPU rank's thread", source })?;
                    workers.threads.push(handle);
                }
            }
        }
        Ok(workers)
    }

    /// Runs `job` on all local ranks and waits for its end.
    ///
    /// # Safety
    /// As for [`Cpu::new`], for every rank's arguments, until this returns.
    pub(super) unsafe fn run(&self, job: Job) -> Result<()> {
        let mut state = self.shared.lock();
        if let Some(rank) = state.gone {
            return Err(Error::PeerGone { rank });
        }
        state.job = Some(job);
        state.generation += 1;
        state.running = self.threads.len();
        self.shared.start.notify_all();
        while state.running > 0 {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.gone {
            Some(rank) => Err(Error::PeerGone { rank }),
            None => Ok(()),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.start.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, rank: u32, block: u32, thread: u32) {
    let mut seen = 0;
    loop {
        let mut state = shared.lock();
        let job = loop {
            if state.closing {
                return;
            }
            if state.generation != seen {
                seen = state.generation;
                break state.job;
            }
            state = shared.start.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);

        let ran = catch_unwind(AssertUnwindSafe(|| {
            if let Some(job) = &job {
                run_one(shared, job, rank, block, thread);
            }
        }));

        let mut state = shared.lock();
        if ran.is_err() {
            state.gone = Some(rank);
            // Whoever waits looks at that; a block mate that waits in `sync_block` does not, so a block of
            // several threads, which only tests have, must not panic.
            shared.boards.stop(Stop { ranks: Ranks::of(Rank(rank)), ..Stop::outside(Why::Gone, Rank(rank)) });
        }
        state.running -= 1;
        if state.running == 0 {
            shared.done.notify_all();
        }
    }
}

fn run_one(shared: &Shared, job: &Job, rank: u32, block: u32, thread: u32) {
    if block >= job.blocks || thread >= job.threads {
        return;
    }
    let index = rank - shared.ranks.start;
    let args = &job.args[index as usize];
    let place = Place { block, blocks: job.blocks, thread, threads: job.threads };
    let sync = &shared.blocks[(index * shared.max_blocks + block) as usize];
    // SAFETY: promised by the caller of `Workers::run`, who waits for this thread.
    let machine = unsafe { Cpu::new(args, place, sync) };
    kernels::run(job.kernel, job.dtype, args, &machine);
}

#[cfg(test)]
mod tests {
    use allfold_kernels::protocol::abi::Algorithm;

    use super::*;

    /// Nobody to be told anything.
    struct Nobody;

    impl Boards for Nobody {
        fn stop(&self, _: Stop) {}
        fn gone(&self, _: u32) {}
        fn leave(&self) {}
    }

    #[test]
    fn a_rank_whose_thread_panics_is_named_in_this_job_and_in_every_later_one() {
        let workers = Workers::start(0..2, 1, 1, Arc::new(Nobody)).expect("two threads");
        // A world that no kernel is built for: both threads panic before they touch an address.
        let args = [KernelArgs { world: 9, ..KernelArgs::default() }; MAX_RANKS];
        let kernel = Kernel::AllReduce(Algorithm::OneShot);
        let job = Job { kernel, dtype: Dtype::F32, args, blocks: 1, threads: 1 };
        // SAFETY: no address is touched.
        let run = || unsafe { workers.run(job) };
        for _ in 0..2 {
            let error = run().expect_err("rank 1 is gone");
            assert!(matches!(error, Error::PeerGone { rank: 0 | 1 }), "{error}");
        }
    }
}
