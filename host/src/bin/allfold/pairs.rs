//! An input and an output of bf16 on each rank's GPU.

use allfold::RankBuffers;
use allfold::cuda::{DeviceMemory, DriverError, Stream};
use half::bf16;

use crate::gpus::Gpus;

/// The buffers of calls that are all alike.
pub struct Pairs<'a> {
    gpus: &'a Gpus,
    inputs: Vec<DeviceMemory>,
    outputs: Vec<DeviceMemory>,
    elems: u64,
}

impl<'a> Pairs<'a> {
    /// Of `elems` elements each.
    pub fn alloc(gpus: &'a Gpus, elems: usize) -> Result<Pairs<'a>, DriverError> {
        let bytes = elems * size_of::<bf16>();
        let memory =
            || gpus.contexts.iter().map(|context| DeviceMemory::alloc(context, bytes)).collect::<Result<_, _>>();
        Ok(Pairs { gpus, inputs: memory()?, outputs: memory()?, elems: elems as u64 })
    }

    /// For kernels that read inputs and write outputs.
    pub fn both(&self) -> Vec<RankBuffers<'static, bf16>> {
        self.first(self.elems)
    }

    /// [`Pairs::both`], but of the first elements alone.
    pub fn first(&self, elems: u64) -> Vec<RankBuffers<'static, bf16>> {
        self.buffers(&self.inputs, &self.outputs, elems.min(self.elems))
    }

    /// For kernels that know of the inputs alone.
    pub fn inputs(&self) -> Vec<RankBuffers<'static, bf16>> {
        self.buffers(&self.inputs, &self.inputs, self.elems)
    }

    /// For kernels that know of the outputs alone.
    pub fn outputs(&self) -> Vec<RankBuffers<'static, bf16>> {
        self.buffers(&self.outputs, &self.outputs, self.elems)
    }

    fn buffers(&self, read: &[DeviceMemory], written: &[DeviceMemory], elems: u64) -> Vec<RankBuffers<'static, bf16>> {
        let of_rank = |((stream, read), written): ((&Stream, &DeviceMemory), &DeviceMemory)| {
            // SAFETY: memory of this rank's GPU with room for at least `elems` elements, and a stream of its primary context.
            // Every use is waited for before the memory is freed, and nobody but the calls touches it.
            unsafe { RankBuffers::device_raw(read.address(), written.address(), elems, stream.raw().as_ptr()) }
        };
        self.gpus.streams.iter().zip(read).zip(written).map(of_rank).collect()
    }
}

impl Drop for Pairs<'_> {
    fn drop(&mut self) {
        // After an error calls may still be under way. One that failed has been reported already.
        let _ = self.gpus.synchronize();
    }
}
