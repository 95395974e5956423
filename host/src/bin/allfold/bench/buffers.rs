//! Memory on the ranks' GPUs, for one size: whoever makes the calls, they are on these buffers.

use allfold::cuda::{DeviceMemory, DriverError, Stream};
use allfold::{Element, RankBuffers};
use anyhow::Result;

use super::case::{SETS, Side};
use super::guarded::{GUARD_BYTES, Guarded};
use crate::gpus::Gpus;

/// `SETS` sets of an input and an output for each rank, between guard zones.
pub struct Buffers<'a> {
    gpus: &'a Gpus,
    bytes: usize,
    /// `[set][rank]`, guard zones included.
    inputs: Vec<Vec<DeviceMemory>>,
    /// `[set][rank]`; none of a call in place.
    outputs: Vec<Vec<DeviceMemory>>,
}

/// Which buffers a kernel reads and writes.
#[derive(Clone, Copy)]
pub enum Use {
    InputToOutput,
    Only(Side),
}

impl<'a> Buffers<'a> {
    /// Buffers of `bytes` bytes; in place, a rank's output is its input.
    pub fn new(gpus: &'a Gpus, bytes: usize, in_place: bool) -> Result<Self, DriverError> {
        let all_bytes = Guarded::all_bytes(bytes);
        let of_ranks = || gpus.contexts.iter().map(|context| DeviceMemory::alloc(context, all_bytes)).collect();
        let sets = || (0..SETS).map(|_| of_ranks()).collect::<Result<Vec<Vec<_>>, DriverError>>();
        let inputs = sets()?;
        let outputs = if in_place { Vec::new() } else { sets()? };
        Ok(Buffers { gpus, bytes, inputs, outputs })
    }

    /// Where the ranks are.
    pub fn gpus(&self) -> &'a Gpus {
        self.gpus
    }

    fn memory(&self, set: usize, rank: usize, side: Side) -> &DeviceMemory {
        let of_side = match side {
            Side::Output if !self.outputs.is_empty() => &self.outputs,
            Side::Input | Side::Output => &self.inputs,
        };
        &of_side[set][rank]
    }

    /// What each rank's kernel gets of a set.
    pub fn of<T: Element>(&self, set: usize, used: Use) -> Vec<RankBuffers<'static, T>> {
        let (read, written) = match used {
            Use::InputToOutput => (Side::Input, Side::Output),
            Use::Only(side) => (side, side),
        };
        let elems = (self.bytes / size_of::<T>()) as u64;
        let data = |rank, side| self.memory(set, rank, side).address() + GUARD_BYTES as u64;
        let of_rank = |(rank, stream): (usize, &Stream)| {
            // SAFETY: memory of this rank's GPU, allocated with room for `elems` elements behind the guard zone, and a
            // stream of its primary context. Every use is waited for before the memory is freed or touched.
            unsafe { RankBuffers::device_raw(data(rank, read), data(rank, written), elems, stream.raw().as_ptr()) }
        };
        self.gpus.streams.iter().enumerate().map(of_rank).collect()
    }

    /// Copies `image` to a buffer.
    pub fn write(&self, set: usize, rank: usize, side: Side, image: &Guarded) -> Result<()> {
        let address = self.memory(set, rank, side).address();
        // SAFETY: the memory is as long as an image, and no stream uses it: every call has been waited for.
        Ok(unsafe { self.gpus.contexts[rank].copy_to_device(address, image.all()) }?)
    }

    /// Copies a buffer to `image`.
    pub fn read(&self, set: usize, rank: usize, side: Side, image: &mut Guarded) -> Result<()> {
        let address = self.memory(set, rank, side).address();
        // SAFETY: as above.
        Ok(unsafe { self.gpus.contexts[rank].copy_to_host(image.all_mut(), address) }?)
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        // After an error calls may still be under way. One that failed has been reported already.
        let _ = self.gpus.synchronize();
    }
}
