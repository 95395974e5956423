//! What a rank of a cell stands on: the CPU, or a GPU. Its memory there, and its communicator.

use std::time::Duration;

use allfold::cuda::{Context, Device, Stream};
use allfold::rendezvous::Rendezvous;
use allfold::{Communicator, Element, Memory, Options, RankBuffers, Span};

/// What a rank runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// The CPU.
    Cpu,
    /// The GPU of this ordinal.
    Gpu(u32),
}

impl Ground {
    /// Whether it is a GPU.
    pub fn is_gpu(self) -> bool {
        matches!(self, Ground::Gpu(_))
    }

    /// How long ranks wait in a cell whose fault is that somebody does not come.
    pub fn timeout(self) -> Duration {
        match self {
            // Others may take the processor.
            Ground::Cpu => Duration::from_millis(400),
            Ground::Gpu(_) => Duration::from_millis(300),
        }
    }

    /// The rank of `seat`, in a communicator of its own.
    ///
    /// # Errors
    /// The library's.
    pub fn connect(self, seat: &dyn Rendezvous, options: Options) -> allfold::Result<Communicator> {
        match self {
            Ground::Cpu => Communicator::connect_cpu_with(seat, options),
            Ground::Gpu(ordinal) => Communicator::connect_cuda_with(ordinal, seat, options),
        }
    }

    /// Memory that others can reach: half of it for inputs, half for outputs.
    ///
    /// # Errors
    /// The library's.
    pub fn memory(self, bytes: usize) -> allfold::Result<RankMemory> {
        match self {
            Ground::Cpu => Ok(RankMemory { memory: Memory::host(bytes)?, bytes, gpu: None }),
            Ground::Gpu(ordinal) => {
                let context = Device::get(ordinal)?.context()?;
                let stream = Stream::new(&context)?;
                let memory = Memory::gpu(ordinal, bytes)?;
                Ok(RankMemory { memory, bytes, gpu: Some((stream, context)) })
            }
        }
    }
}

/// A rank's memory: inputs in its first half, outputs in the second. On a GPU with the stream of the rank's calls.
pub struct RankMemory {
    memory: Memory,
    bytes: usize,
    gpu: Option<(Stream, Context)>,
}

impl RankMemory {
    /// Where it is.
    pub fn span(&self) -> Span {
        self.memory.span()
    }

    /// The stream of the rank's calls; none on the CPU.
    pub fn stream(&self) -> Option<&Stream> {
        self.gpu.as_ref().map(|(stream, _)| stream)
    }

    /// Puts `input` where the input is, and `output` where the output will be.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// When they are longer than half of it.
    pub fn write(&mut self, input: &[u8], output: &[u8]) -> allfold::Result<()> {
        let half = self.bytes / 2;
        assert!(input.len().max(output.len()) <= half, "there is room for {half} bytes");
        match (&self.gpu, self.memory.as_mut_slice::<i32>().map(bytemuck::cast_slice_mut::<_, u8>)) {
            (None, Some(all)) => {
                all[..input.len()].copy_from_slice(input);
                all[half..half + output.len()].copy_from_slice(output);
            }
            (Some((_, context)), _) => {
                let start = self.memory.span().address;
                // SAFETY: inside this memory, of which no call is under way.
                unsafe { context.copy_to_device(start, input) }?;
                // SAFETY: as above.
                unsafe { context.copy_to_device(start + half as u64, output) }?;
            }
            (None, None) => unreachable!("memory of the host"),
        }
        Ok(())
    }

    /// `bytes` bytes of the output.
    ///
    /// # Errors
    /// The driver's.
    pub fn output(&self, bytes: usize) -> allfold::Result<Vec<u8>> {
        let half = self.bytes / 2;
        match (&self.gpu, self.memory.as_slice::<i32>().map(bytemuck::cast_slice::<_, u8>)) {
            (None, Some(all)) => Ok(all[half..half + bytes].to_vec()),
            (Some((_, context)), _) => {
                let mut output = vec![0; bytes];
                // SAFETY: inside this memory, of which no call is under way.
                unsafe { context.copy_to_host(&mut output, self.memory.span().address + half as u64) }?;
                Ok(output)
            }
            (None, None) => unreachable!("memory of the host"),
        }
    }

    /// Waits for the rank's calls.
    ///
    /// # Errors
    /// The driver's.
    pub fn synchronize(&self) -> allfold::Result<()> {
        Ok(self.stream().map_or(Ok(()), Stream::synchronize)?)
    }

    /// The buffers of a call of `elems` elements, on `stream` in the place of the rank's own, if there is one.
    pub fn buffers<'a, T: Element>(&'a mut self, elems: usize, stream: Option<&'a Stream>) -> RankBuffers<'a, T> {
        let (start, half) = (self.memory.span().address, self.bytes / 2);
        if let Some((own, _)) = &self.gpu {
            let stream = stream.unwrap_or(own).raw().as_ptr();
            // SAFETY: halves of this memory, which whoever calls keeps until the stream has been waited for.
            return unsafe { RankBuffers::device_raw(start, start + half as u64, elems as u64, stream) };
        }
        let all = self.memory.as_mut_slice::<T>().unwrap_or_default();
        let middle = all.len() / 2;
        let (input, output) = all.split_at_mut(middle);
        RankBuffers::new(&input[..elems], &mut output[..elems])
    }
}
