//! What a property may do with a machine: make communicators, and use memory of each rank. CPU threads, processes
//! and GPUs behind one trait, so that every property runs on all of them.

use allfold::{Communicator, Dtype, Element, Options, RankBuffers, RawBuffers, Span, of_dtype};
use anyhow::Result;
use cust::stream::Stream;

mod cpu;
mod cuda;
pub(crate) mod pieces;
mod processes;

pub use cpu::CpuMachine;
pub use cuda::CudaMachine;
pub use processes::{CudaProcess, ProcessMachine};

/// Bytes to which every memory is aligned.
pub const MEMORY_ALIGN_BYTES: usize = 256;

/// Something that has ranks.
pub trait Machine {
    /// How a report names it.
    fn name(&self) -> String;
    /// The ordinals of the ranks' GPUs; `None` on the CPU.
    fn devices(&self) -> Option<&[u32]> {
        None
    }
    /// World sizes that it can have: 1 up to this.
    fn most_ranks(&self) -> usize;
    /// Whether each rank is a process of its own, of which this is one. Then it has one world size, and all processes
    /// check the same properties at the same time.
    fn in_processes(&self) -> bool {
        false
    }
    /// A communicator over the first `world` ranks.
    ///
    /// # Errors
    /// What the library says.
    fn communicator(&self, world: usize, options: Options) -> allfold::Result<Communicator>;
    /// Further streams of `rank`, beside the one that its memories use; none on the CPU.
    ///
    /// # Errors
    /// The driver's.
    fn streams(&self, rank: usize, count: usize) -> Result<Vec<Stream>> {
        let _ = (rank, count);
        Ok(Vec::new())
    }
    /// Makes `stream`, one of [`Machine::streams`], wait for what `rank`'s own stream has to do now.
    ///
    /// # Errors
    /// The driver's.
    fn chain(&self, rank: usize, stream: &Stream) -> Result<()> {
        let _ = (rank, stream);
        Ok(())
    }
    /// Makes `rank`'s context that of this thread; nothing on the CPU.
    ///
    /// # Errors
    /// The driver's.
    fn make_current(&self, rank: usize) -> Result<()> {
        let _ = rank;
        Ok(())
    }
    /// Fresh memory of `rank`, with anything in it.
    ///
    /// # Errors
    /// There is not so much.
    fn memory(&self, rank: usize, bytes: usize) -> Result<Box<dyn Memory>>;
}

/// Memory of one rank, aligned to [`MEMORY_ALIGN_BYTES`].
pub trait Memory {
    /// Where it starts.
    fn address(&self) -> u64;
    /// Its length.
    fn bytes(&self) -> usize;
    /// Where it is.
    fn span(&self) -> Span {
        Span { address: self.address(), bytes: self.bytes() as u64 }
    }
    /// The stream that all of this rank's work goes to; `None` on the CPU, where work is done when a call returns.
    fn stream(&self) -> Option<&Stream>;
    /// Sets it from its start, and waits until that is done.
    ///
    /// # Errors
    /// The driver's.
    fn upload(&mut self, bytes: &[u8]) -> Result<()>;
    /// Waits for the rank's work, then reads from its start.
    ///
    /// # Errors
    /// The driver's.
    fn download(&self, bytes: &mut [u8]) -> Result<()>;
    /// Sets `bytes` bytes from `offset` to `value`, after the rank's earlier work and without waiting.
    ///
    /// # Errors
    /// The driver's.
    fn fill(&mut self, offset: usize, bytes: usize, value: u8) -> Result<()>;
    /// Makes the rank's work to come wait for some milliseconds, without waiting here. Does nothing where all ranks
    /// are threads of this process, and waits here where they are processes.
    ///
    /// # Errors
    /// The driver's.
    fn delay(&self) -> Result<()>;
    /// Waits for the rank's work.
    ///
    /// # Errors
    /// The driver's.
    fn synchronize(&self) -> Result<()>;
}

/// A rank's buffers at byte offsets `input` and `output` of its memory, the same for a call in place.
///
/// # Safety
/// - What is asked for is used for one call; until that is done, nobody else touches it.
///
/// # Panics
/// When they are not inside, or not aligned to an element.
pub unsafe fn buffers<T: Element>(
    memory: &dyn Memory,
    input: usize,
    output: usize,
    elems: usize,
) -> RankBuffers<'_, T> {
    for offset in [input, output] {
        assert!(offset.is_multiple_of(size_of::<T>()) && offset + elems * size_of::<T>() <= memory.bytes());
    }
    let [input, output] = [input, output].map(|offset| memory.address() + offset as u64);
    if let Some(stream) = memory.stream() {
        let stream = stream.as_inner().cast();
        // SAFETY: both are inside this rank's memory, and the stream is its own.
        return unsafe { RankBuffers::device_raw(input, output, elems as u64, stream) };
    }
    // SAFETY: inside, aligned, and by the caller's promise nobody else's until the call is done.
    let output_slice = unsafe { std::slice::from_raw_parts_mut(output as *mut T, elems) };
    if input == output {
        return RankBuffers::in_place(output_slice);
    }
    // SAFETY: as above; a property that wants an overlap changes the raw buffers instead.
    RankBuffers::new(unsafe { std::slice::from_raw_parts(input as *const T, elems) }, output_slice)
}

/// [`buffers`] for a dtype known at run time.
///
/// # Safety
/// As for [`buffers`].
///
/// # Panics
/// As [`buffers`].
pub unsafe fn raw_buffers(
    dtype: Dtype,
    memory: &dyn Memory,
    input: usize,
    output: usize,
    elems: usize,
) -> RawBuffers<'_> {
    // SAFETY: the caller's promise.
    of_dtype!(dtype, T => unsafe { buffers::<T>(memory, input, output, elems) }.raw())
}
