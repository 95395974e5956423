//! Ranks as threads: memory is ordinary memory, and a call is done when it returns.

use std::time::Duration;

use allfold::{Communicator, MAX_RANKS, Options};
use anyhow::{Result, ensure};
use cust::stream::Stream;

use super::{MEMORY_ALIGN_BYTES, Machine, Memory};

/// Up to eight ranks on this machine's CPU.
pub struct CpuMachine;

impl Machine for CpuMachine {
    fn name(&self) -> String {
        format!("CPU ranks, {} cores", std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn most_ranks(&self) -> usize {
        MAX_RANKS
    }

    fn communicator(&self, world: usize, options: Options) -> allfold::Result<Communicator> {
        Communicator::cpu_with(world, options)
    }

    fn memory(&self, _rank: usize, bytes: usize) -> Result<Box<dyn Memory>> {
        Ok(Box::new(HostMemory::new(bytes, Duration::ZERO)))
    }
}

/// Bytes that start where a memory must.
#[derive(Clone, Copy)]
#[repr(align(256))]
struct Line(#[expect(dead_code, reason = "reached by address")] [u8; MEMORY_ALIGN_BYTES]);
const _: () = assert!(align_of::<Line>() == MEMORY_ALIGN_BYTES && size_of::<Line>() == MEMORY_ALIGN_BYTES);

/// Memory of this process.
pub(super) struct HostMemory {
    /// All access is through this: ranks write through addresses, while the memory is only borrowed.
    start: *mut u8,
    bytes: usize,
    /// How long its rank is made to wait.
    delay: Duration,
    _held: Held,
}

/// What keeps it.
#[expect(dead_code, reason = "kept for what its end does")]
enum Held {
    Lines(Vec<Line>),
    Memory(allfold::Memory),
}

impl HostMemory {
    pub(super) fn new(bytes: usize, delay: Duration) -> HostMemory {
        let mut lines = vec![Line([0; MEMORY_ALIGN_BYTES]); bytes.div_ceil(MEMORY_ALIGN_BYTES)];
        HostMemory { start: lines.as_mut_ptr().cast(), bytes, delay, _held: Held::Lines(lines) }
    }

    /// Memory that other processes can map.
    pub(super) fn shareable(bytes: usize, delay: Duration) -> Result<HostMemory> {
        let memory = allfold::Memory::host(bytes)?;
        Ok(HostMemory { start: memory.span().address as *mut u8, bytes, delay, _held: Held::Memory(memory) })
    }

    fn part(&mut self, offset: usize, bytes: usize) -> Result<&mut [u8]> {
        ensure!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside the memory");
        // SAFETY: inside the lines, which lie one after another, and no call runs while this is borrowed mutably.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start.add(offset), bytes) })
    }
}

impl Memory for HostMemory {
    fn address(&self) -> u64 {
        self.start as u64
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn stream(&self) -> Option<&Stream> {
        None
    }

    fn upload(&mut self, bytes: &[u8]) -> Result<()> {
        self.part(0, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn download(&self, bytes: &mut [u8]) -> Result<()> {
        ensure!(bytes.len() <= self.bytes, "outside the memory");
        // SAFETY: inside, and no call runs.
        bytes.copy_from_slice(unsafe { std::slice::from_raw_parts(self.start, bytes.len()) });
        Ok(())
    }

    fn fill(&mut self, offset: usize, bytes: usize, value: u8) -> Result<()> {
        self.part(offset, bytes)?.fill(value);
        Ok(())
    }

    fn delay(&self) -> Result<()> {
        std::thread::sleep(self.delay);
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}
