//! Attempts to connect that something may happen to.

use std::cell::Cell;
use std::time::{Duration, Instant};

use allfold::rendezvous::{Rendezvous, RendezvousError, Unix};
use allfold::{Communicator, Error, Options, RankBuffers, ReduceOp};

use super::tell;

/// Little of everything.
pub fn small() -> Options {
    Options { capacity_bytes: 4096, connect_timeout: Duration::from_secs(20), ..Options::for_processes() }
}

/// Connects and, if that is so on all ranks, calls; what came of it, as each rank says.
pub fn attempt(seat: &Unix, options: Options) -> (Result<(), Error>, Vec<String>) {
    let result = Communicator::connect_cpu_with(seat, options).and_then(|mut comm| {
        let mut data = [1.0_f32; 100];
        comm.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum)?;
        assert!(data.iter().all(|&x| x == seat.world() as f32));
        Ok(())
    });
    let said = tell(seat, &result.as_ref().map_or_else(Error::to_string, |()| "connected".to_owned()));
    (result, said)
}

/// A rendezvous to which something happens at one of its steps.
pub struct At<'a, F> {
    pub seat: &'a Unix,
    pub step: Cell<u32>,
    pub happens: F,
}

impl<'a, F: Fn(u32)> At<'a, F> {
    /// `happens` is told before each step which one comes, counted from 0.
    pub fn new(seat: &'a Unix, happens: F) -> Self {
        At { seat, step: Cell::new(0), happens }
    }
}

impl<F: Fn(u32)> Rendezvous for At<'_, F> {
    fn rank(&self) -> u32 {
        self.seat.rank()
    }

    fn world(&self) -> u32 {
        self.seat.world()
    }

    fn all_gather(&self, bytes: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>, RendezvousError> {
        (self.happens)(self.step.get());
        self.step.set(self.step.get() + 1);
        self.seat.all_gather(bytes, deadline)
    }
}
