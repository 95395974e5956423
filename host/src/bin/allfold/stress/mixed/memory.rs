//! The ranks' memory in a mixed run: two regions each, for inputs and outputs of calls that lie anywhere in them.

use std::ptr::with_exposed_provenance_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use allfold::cuda::{Context, DeviceMemory, DriverError, RawStream, Stream};
use allfold::{Element, RankBuffers};
use anyhow::Result;

use super::batch::{Call, Late, Region};
use super::draw::SHIFTS;
use crate::gpus::Gpus;

/// Regions start at multiples of so many bytes of their rank's memory, which is as well aligned.
const ALIGN_BYTES: u64 = 256;

/// Bytes of a copy that makes a rank late: of the order of a microsecond on a GPU.
const COPY_BYTES: usize = 4 << 20;

/// Elements at the end of an output that [`Part::End`] names.
pub const END_ELEMS: u64 = 16;

/// Memory of all ranks, and the streams that use it.
pub struct Memory<'a> {
    region_bytes: u64,
    place: Place<'a>,
}

enum Place<'a> {
    Cpu(Vec<allfold::Memory>),
    Gpus {
        /// The ranks' streams, a set after the other.
        sets: &'a [Gpus],
        ranks: Vec<DeviceMemory>,
        /// Of each rank: what is copied to make it late.
        ballast: Vec<DeviceMemory>,
    },
}

/// Which of a call's buffers a kernel reads and writes.
#[derive(Clone, Copy)]
pub enum Part {
    /// Its input alone.
    Input,
    InputToOutput,
    /// Its output alone.
    Output,
    /// The last elements of its output.
    End,
}

impl<'a> Memory<'a> {
    /// Room for calls of `most_bytes` of `world` ranks, on the GPUs of `sets` if there are any.
    pub fn new(world: usize, sets: &'a [Gpus], most_bytes: u64) -> Result<Memory<'a>> {
        // The largest element has four bytes.
        let region_bytes = (most_bytes + 4 * SHIFTS).next_multiple_of(ALIGN_BYTES);
        let bytes = usize::try_from(2 * region_bytes)?;
        let place = match sets.first() {
            None => Place::Cpu((0..world).map(|_| allfold::Memory::host(bytes)).collect::<Result<_, _>>()?),
            Some(gpus) => {
                let memory = |bytes| gpus.contexts.iter().map(move |at: &Context| DeviceMemory::alloc(at, bytes));
                let (ranks, ballast) = (memory(bytes).collect::<Result<_, _>>()?, memory(2 * COPY_BYTES));
                Place::Gpus { sets, ranks, ballast: ballast.collect::<Result<_, _>>()? }
            }
        };
        Ok(Memory { region_bytes, place })
    }

    /// A stream of each rank; none on the CPU.
    pub fn streams(&self, set: usize) -> Vec<RawStream<'a>> {
        match self.place {
            Place::Cpu(_) => Vec::new(),
            Place::Gpus { sets, .. } => {
                sets.get(set).into_iter().flat_map(|gpus| &gpus.streams).map(Stream::raw).collect()
            }
        }
    }

    /// Waits for all that is in the streams.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        match self.place {
            Place::Cpu(_) => Ok(()),
            Place::Gpus { sets, .. } => sets.iter().try_for_each(Gpus::synchronize),
        }
    }

    /// Each rank's buffers of a call, or of a part of it, in one of its streams.
    pub fn buffers<T: Element>(&self, call: &Call, part: Part, set: usize) -> Vec<RankBuffers<'_, T>> {
        match &self.place {
            Place::Cpu(ranks) => {
                let buffers = |(memory, shifts): (&allfold::Memory, &[u8; 2])| {
                    let [read, written, elems] = self.spot::<T>(call, part, memory.span().address, *shifts);
                    // SAFETY: in this rank's memory, with room for the largest call and shift, and aligned to an element.
                    // Calls are done when they return, or in a replay that is made while the memory lives.
                    unsafe { on_host(read, written, elems) }
                };
                ranks.iter().zip(&call.shifts).map(buffers).collect()
            }
            Place::Gpus { ranks, .. } => {
                let buffers = |((memory, shifts), stream): ((&DeviceMemory, &[u8; 2]), RawStream<'_>)| {
                    let [read, written, elems] = self.spot::<T>(call, part, memory.address(), *shifts);
                    // SAFETY: as above, in memory of this rank's GPU, and the stream is of its primary context. Every use
                    // is waited for before the memory is freed, and calls alone touch it.
                    unsafe { RankBuffers::device_raw(read, written, elems, stream.as_ptr()) }
                };
                ranks.iter().zip(&call.shifts).zip(self.streams(set)).map(buffers).collect()
            }
        }
    }

    /// Addresses of what is read and of what is written, and how many elements, in a rank's memory from `start` on.
    fn spot<T: Element>(&self, call: &Call, part: Part, start: u64, shifts: [u8; 2]) -> [u64; 3] {
        let elem_bytes = size_of::<T>() as u64;
        let address = |region: Region, shift: u8| {
            let region_start = match region {
                Region::First => start,
                Region::Second => start + self.region_bytes,
            };
            region_start + u64::from(shift) * elem_bytes
        };
        let (input, output) = (address(call.input, shifts[0]), address(call.output, shifts[1]));
        match part {
            Part::Input => [input, input, call.elems],
            Part::InputToOutput => [input, output, call.elems],
            Part::Output => [output, output, call.elems],
            Part::End => {
                let before = call.elems.saturating_sub(END_ELEMS);
                let address = output + before * elem_bytes;
                [address, address, call.elems - before]
            }
        }
    }

    /// Puts copies into a rank's stream: what comes behind them is late.
    pub fn delay(&self, late: Late, set: usize) -> Result<(), DriverError> {
        let Place::Gpus { sets, ballast, .. } = &self.place else { return Ok(()) };
        let (Some(ballast), Some(stream)) = (ballast.get(late.rank), self.streams(set).get(late.rank).copied()) else {
            return Ok(());
        };
        let Some(context) = sets.get(set).and_then(|gpus| gpus.contexts.get(late.rank)) else { return Ok(()) };
        let (from, to) = (ballast.address(), ballast.address() + COPY_BYTES as u64);
        for _ in 0..late.copies {
            // SAFETY: two halves of the rank's ballast, which lives until its streams have been waited for.
            unsafe { context.copy_async(to, from, COPY_BYTES, stream) }?;
        }
        Ok(())
    }
}

/// # Safety
/// Both are host memory of `elems` elements that lives as long as what is made, and calls alone touch it; the same address, or
/// apart from each other.
unsafe fn on_host<'m, T: Element>(read: u64, written: u64, elems: u64) -> RankBuffers<'m, T> {
    let start = |address: u64| with_exposed_provenance_mut::<T>(address as usize);
    // SAFETY: the caller's promise.
    let to = unsafe { from_raw_parts_mut(start(written), elems as usize) };
    if read == written {
        return RankBuffers::in_place(to);
    }
    // SAFETY: as above.
    RankBuffers::new(unsafe { from_raw_parts(start(read), elems as usize) }, to)
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // After an error calls may still be under way. One that failed has been reported already.
        let _ = self.synchronize();
    }
}
