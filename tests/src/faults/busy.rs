//! Work that keeps a GPU busy: copies that hold up one stream, and kernels that fill multiprocessors. How long it takes is measured.

use std::time::{Duration, Instant};

use allfold::cuda::{Device, DeviceMemory, RawStream, Stream};
use allfold::{Algorithm, Communicator, Dtype, InputMode, Options, RankBuffers};
use anyhow::{Context, Result};

/// Streams whose kernels together are more than a GPU holds at a time: each has 256 blocks of 256 threads.
pub const ALL: usize = 8;
/// One part of so many of a GPU's memory is written again and again: on a large one that takes a millisecond or so.
const PART_OF_MEMORY: u64 = 32;

/// Copies that are timed together.
const COPIES: u32 = 4;

/// What keeps a GPU busy.
pub struct Busy {
    // Gone before the memory.
    fillers: Vec<(Communicator, Stream)>,
    stream: Stream,
    memory: DeviceMemory,
    /// How long a copy takes.
    copy: Duration,
    /// How long a kernel in each stream takes, where there is one, and where there are all.
    fills: [Duration; 2],
}

impl Busy {
    /// For this GPU. Its kernels wait for nobody, and so are not among the blocks that are held for communicators.
    ///
    /// # Errors
    /// The library's.
    pub fn new(gpu: u32) -> Result<Busy> {
        let device = Device::get(gpu)?;
        let context = device.context()?;
        let memory = DeviceMemory::alloc(&context, (device.memory_bytes / PART_OF_MEMORY) as usize / 512 * 512)?;
        let options = Options {
            dtypes: vec![Dtype::F32],
            inputs: vec![InputMode::Registered],
            algorithms: vec![Algorithm::OneShot],
            capacity_bytes: 16,
            stamps: true,
            max_blocks: Some(1),
            ..Options::default()
        };
        let mut fillers = Vec::new();
        for _ in 0..ALL {
            let comm = Communicator::cuda_with(&[gpu], options.clone()).context("a communicator that fills memory")?;
            fillers.push((comm, Stream::new(&context)?));
        }
        let stream = Stream::new(&context)?;
        let mut busy = Busy { fillers, stream, memory, copy: Duration::MAX, fills: [Duration::MAX; 2] };
        // The shortest of several: whatever comes first takes longer, and so does all where others take the processor.
        for _ in 0..5 {
            let begun = Instant::now();
            (0..COPIES).try_for_each(|_| busy.copy_once(busy.stream.raw()))?;
            busy.stream.synchronize()?;
            busy.copy = busy.copy.min(begun.elapsed() / COPIES);
            for (at, streams) in [1, ALL].into_iter().enumerate() {
                let begun = Instant::now();
                busy.fill_once(streams)?;
                busy.wait()?;
                busy.fills[at] = busy.fills[at].min(begun.elapsed());
            }
        }
        Ok(busy)
    }

    fn copy_once(&self, stream: RawStream<'_>) -> Result<()> {
        let half = self.memory.bytes() / 2;
        let (to, from) = (self.memory.address() + half as u64, self.memory.address());
        // SAFETY: halves of this memory, which nobody reads, and which waits for its streams before it is freed.
        Ok(unsafe { self.memory.context().copy_async(to, from, half, stream) }?)
    }

    fn fill_once(&mut self, streams: usize) -> Result<()> {
        let (start, elems) = (self.memory.address(), self.memory.bytes() as u64 / 4);
        for (comm, stream) in &mut self.fillers[..streams] {
            // SAFETY: this memory, which nobody reads, and which waits for its streams before it is freed.
            let buffers = [unsafe { RankBuffers::<f32>::device_raw(start, start, elems, stream.raw().as_ptr()) }];
            comm.fill_stamps(&buffers)?;
        }
        Ok(())
    }

    /// Holds up `stream` of this GPU for about so long.
    ///
    /// # Errors
    /// The driver's.
    pub fn hold_up(&self, stream: &Stream, duration: Duration) -> Result<()> {
        (0..times(duration, self.copy)).try_for_each(|_| self.copy_once(stream.raw()))
    }

    /// Keeps multiprocessors busy for about so long: by one stream's kernels, or by more than there is room for.
    ///
    /// # Errors
    /// The library's.
    pub fn fill(&mut self, all: bool, duration: Duration) -> Result<()> {
        let (streams, each) = if all { (ALL, self.fills[1]) } else { (1, self.fills[0]) };
        (0..times(duration, each)).try_for_each(|_| self.fill_once(streams))
    }

    /// Waits until nothing is left to do.
    ///
    /// # Errors
    /// The driver's.
    pub fn wait(&self) -> Result<()> {
        Ok(self.fillers.iter().try_for_each(|(_, stream)| stream.synchronize())?)
    }

    /// What was measured.
    pub fn says(&self) -> String {
        let Busy { copy, fills: [one, all], memory, .. } = self;
        format!(
            "{} MiB: a copy of half takes {copy:.2?}, a kernel over all {one:.2?}, {ALL} at a time {all:.2?}",
            memory.bytes() >> 20
        )
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Copies may be in anybody's stream. A failure shows in the next use of the GPU.
        let _ = self.memory.context().finish();
    }
}

/// How often something has to be done that takes `each`, to last for `duration`: not so often that no stream of a GPU has room for it. One of
/// software has room for all.
fn times(duration: Duration, each: Duration) -> u32 {
    let most = if crate::soft::installed() { 1_000_000.0 } else { 3000.0 };
    duration.div_duration_f64(each.max(Duration::from_micros(10))).ceil().clamp(1.0, most) as u32
}
