//! Ranks as processes, on the CPU or on GPUs, seen from one of them: memory is this process's own, and the rendezvous
//! is the test's.

use std::time::Duration;

use allfold::rendezvous::Rendezvous;
use allfold::{Communicator, Error, Options};
use anyhow::Result;
use cust::stream::Stream;

use super::cpu::HostMemory;
use super::{CudaMachine, Machine, Memory};

/// How late a rank is that is made to come late.
const DELAY: Duration = Duration::from_millis(5);

/// The ranks of a rendezvous.
pub struct ProcessMachine<'a>(pub &'a dyn Rendezvous);

impl Machine for ProcessMachine<'_> {
    fn name(&self) -> String {
        format!("rank {} of {} processes", self.0.rank(), self.0.world())
    }

    fn most_ranks(&self) -> usize {
        self.0.world() as usize
    }

    fn in_processes(&self) -> bool {
        true
    }

    fn communicator(&self, world: usize, options: Options) -> allfold::Result<Communicator> {
        match world == self.most_ranks() {
            true => Communicator::connect_cpu_with(self.0, options),
            false => Err(Error::WorldSize { world }),
        }
    }

    fn memory(&self, _rank: usize, bytes: usize) -> Result<Box<dyn Memory>> {
        Ok(Box::new(HostMemory::shareable(bytes, DELAY)?))
    }
}

/// The ranks of a rendezvous, of which this process has one, on a GPU.
pub struct CudaProcess<'a> {
    rendezvous: &'a dyn Rendezvous,
    ordinal: u32,
    gpu: CudaMachine,
}

impl<'a> CudaProcess<'a> {
    /// This process's rank on GPU `ordinal`.
    ///
    /// # Errors
    /// There is no such GPU, or no driver.
    pub fn new(rendezvous: &'a dyn Rendezvous, ordinal: u32) -> Result<CudaProcess<'a>> {
        Ok(CudaProcess { rendezvous, ordinal, gpu: CudaMachine::new(&[ordinal])? })
    }
}

impl Machine for CudaProcess<'_> {
    fn name(&self) -> String {
        let (rank, world) = (self.rendezvous.rank(), self.rendezvous.world());
        format!("rank {rank} of {world} processes, {}", self.gpu.name())
    }

    fn devices(&self) -> Option<&[u32]> {
        self.gpu.devices()
    }

    fn most_ranks(&self) -> usize {
        self.rendezvous.world() as usize
    }

    fn in_processes(&self) -> bool {
        true
    }

    fn communicator(&self, world: usize, options: Options) -> allfold::Result<Communicator> {
        match world == self.most_ranks() {
            true => Communicator::connect_cuda_with(self.ordinal, self.rendezvous, options),
            false => Err(Error::WorldSize { world }),
        }
    }

    fn streams(&self, _rank: usize, count: usize) -> Result<Vec<Stream>> {
        self.gpu.streams(0, count)
    }

    fn chain(&self, _rank: usize, stream: &Stream) -> Result<()> {
        self.gpu.chain(0, stream)
    }

    fn make_current(&self, _rank: usize) -> Result<()> {
        self.gpu.make_current(0)
    }

    fn memory(&self, _rank: usize, bytes: usize) -> Result<Box<dyn Memory>> {
        self.gpu.shareable(0, bytes)
    }
}
