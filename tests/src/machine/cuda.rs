//! Ranks on GPUs: memory and one stream a rank, of `cust`, on the primary context of the rank's GPU.

use std::cell::OnceCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use allfold::{Communicator, Options};
use anyhow::{Context as _, Result, ensure};
use cust::context::{Context, CurrentContext};
use cust::device::Device;
use cust::error::CudaResult;
use cust::event::{Event, EventFlags};
use cust::memory::{AsyncCopyDestination, DeviceBuffer, DevicePointer};
use cust::stream::{Stream, StreamFlags, StreamWaitEventFlags};

use super::pieces::Pieces;
use super::{Machine, Memory};

/// A rank on each of a list of GPUs; one that is named several times has several ranks.
pub struct CudaMachine {
    devices: Vec<u32>,
    ranks: Vec<Rc<Rank>>,
}

/// What the work of a rank needs. One stream for all of it: streams beyond the hardware's queues share them, and then a
/// kernel that waits could be in front of the one that it waits for.
struct Rank {
    // Gone before the context.
    ballast: OnceCell<DeviceBuffer<u8>>,
    stream: Stream,
    context: Context,
}

/// Bytes set again and again to keep a stream busy.
const BALLAST_BYTES: usize = 64 << 20;
/// How often: an H200 needs about 20 µs each time.
const DELAY_FILLS: usize = 200;

impl CudaMachine {
    /// GPUs that this process sees; none without a driver.
    pub fn count() -> u32 {
        if cust::init(cust::CudaFlags::empty()).is_err() {
            return 0;
        }
        Device::num_devices().unwrap_or(0)
    }

    /// A rank on each of `devices`, by ordinal.
    ///
    /// # Errors
    /// There is no such GPU, or no driver.
    pub fn new(devices: &[u32]) -> Result<CudaMachine> {
        cust::init(cust::CudaFlags::empty()).context("cannot start the CUDA driver")?;
        let rank = |&ordinal: &u32| {
            let context = Context::new(Device::get_device(ordinal).with_context(|| format!("no GPU {ordinal}"))?)?;
            CurrentContext::set_current(&context)?;
            let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
            Ok(Rc::new(Rank { ballast: OnceCell::new(), stream, context }))
        };
        let ranks = devices.iter().map(rank).collect::<Result<Vec<_>>>()?;
        Ok(CudaMachine { devices: devices.to_vec(), ranks })
    }

    /// `rank`, its GPU made the current one of this thread.
    fn enter(&self, rank: usize) -> Result<&Rc<Rank>> {
        let rank = self.ranks.get(rank).context("no such rank")?;
        CurrentContext::set_current(&rank.context)?;
        Ok(rank)
    }
}

impl Machine for CudaMachine {
    fn name(&self) -> String {
        let name = |&ordinal: &u32| Device::get_device(ordinal).and_then(Device::name).unwrap_or_default();
        let mut names: Vec<_> = self.devices.iter().map(name).collect();
        names.dedup();
        let ordinals: Vec<_> = self.devices.iter().map(u32::to_string).collect();
        format!("GPUs {} ({})", ordinals.join(","), names.join(", "))
    }

    fn devices(&self) -> Option<&[u32]> {
        Some(&self.devices)
    }

    fn most_ranks(&self) -> usize {
        self.devices.len()
    }

    fn communicator(&self, world: usize, options: Options) -> allfold::Result<Communicator> {
        Communicator::cuda_with(self.devices.get(..world).unwrap_or(&self.devices), options)
    }

    fn streams(&self, rank: usize, count: usize) -> Result<Vec<Stream>> {
        self.enter(rank)?;
        Ok((0..count).map(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).collect::<CudaResult<_>>()?)
    }

    fn chain(&self, rank: usize, stream: &Stream) -> Result<()> {
        let rank = self.enter(rank)?;
        let event = Event::new(EventFlags::DISABLE_TIMING)?;
        event.record(&rank.stream)?;
        Ok(stream.wait_event(event, StreamWaitEventFlags::DEFAULT)?)
    }

    fn make_current(&self, rank: usize) -> Result<()> {
        self.enter(rank).map(drop)
    }

    fn memory(&self, rank: usize, bytes: usize) -> Result<Box<dyn Memory>> {
        let rank = Rc::clone(self.enter(rank)?);
        // SAFETY: bytes of any value are bytes, and whoever asks sets them first.
        let buffer = unsafe { DeviceBuffer::uninitialized(bytes.max(1)) };
        let buffer = ManuallyDrop::new(buffer.with_context(|| format!("allocating {bytes} bytes on a GPU"))?);
        Ok(Box::new(DeviceMemory { buffer, bytes, rank, holder: None }))
    }
}

impl CudaMachine {
    /// Memory of `rank` that other processes can map: now of one kind, now of another.
    pub(super) fn shareable(&self, rank: usize, bytes: usize) -> Result<Box<dyn Memory>> {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let ordinal = *self.devices.get(rank).context("no such rank")?;
        let holder = match LAST.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => return self.memory(rank, bytes),
            1 => Holder::Memory(allfold::Memory::gpu(ordinal, bytes)?),
            _ => Holder::Pieces(Pieces::new(ordinal, bytes)?),
        };
        let address = match &holder {
            Holder::Memory(memory) => memory.span().address,
            Holder::Pieces(pieces) => pieces.address(),
        };
        let rank = Rc::clone(self.enter(rank)?);
        // SAFETY: it is mapped as long as its holder lives, and never freed as a buffer.
        let buffer = unsafe { DeviceBuffer::from_raw_parts(DevicePointer::from_raw(address), bytes.max(1)) };
        Ok(Box::new(DeviceMemory { buffer: ManuallyDrop::new(buffer), bytes, rank, holder: Some(holder) }))
    }
}

/// What keeps memory that is not a buffer of `cust`.
enum Holder {
    Memory(allfold::Memory),
    Pieces(Pieces),
}

struct DeviceMemory {
    buffer: ManuallyDrop<DeviceBuffer<u8>>,
    bytes: usize,
    rank: Rc<Rank>,
    holder: Option<Holder>,
}

impl DeviceMemory {
    fn enter(&self) -> Result<&Stream> {
        CurrentContext::set_current(&self.rank.context)?;
        Ok(&self.rank.stream)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // A failure shows in the next use of the GPU.
        let _ = self.synchronize();
        if self.holder.is_none() {
            // SAFETY: it is not used again.
            unsafe { ManuallyDrop::drop(&mut self.buffer) }
        }
    }
}

impl Memory for DeviceMemory {
    fn address(&self) -> u64 {
        self.buffer.as_device_ptr().as_raw()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn stream(&self) -> Option<&Stream> {
        Some(&self.rank.stream)
    }

    fn upload(&mut self, bytes: &[u8]) -> Result<()> {
        ensure!(bytes.len() <= self.bytes, "outside the memory");
        let stream = self.enter()?;
        // SAFETY: `bytes` lives until the stream has been waited for, below.
        unsafe { self.buffer.index(..bytes.len()).async_copy_from(bytes, stream) }?;
        Ok(stream.synchronize()?)
    }

    fn download(&self, bytes: &mut [u8]) -> Result<()> {
        ensure!(bytes.len() <= self.bytes, "outside the memory");
        let stream = self.enter()?;
        // SAFETY: as above.
        unsafe { self.buffer.index(..bytes.len()).async_copy_to(bytes, stream) }?;
        Ok(stream.synchronize()?)
    }

    fn fill(&mut self, offset: usize, bytes: usize, value: u8) -> Result<()> {
        ensure!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "outside the memory");
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.enter()?;
        // SAFETY: the memory waits for the stream before it is freed.
        Ok(unsafe { self.buffer.index(offset..offset + bytes).set_8_async(value, stream) }?)
    }

    fn delay(&self) -> Result<()> {
        let stream = self.enter()?;
        let ballast = match self.rank.ballast.get() {
            Some(ballast) => ballast,
            // SAFETY: nobody reads it.
            None => match self.rank.ballast.set(unsafe { DeviceBuffer::uninitialized(BALLAST_BYTES) }?) {
                Ok(()) | Err(_) => self.rank.ballast.get().context("set just now")?,
            },
        };
        for turn in 0..DELAY_FILLS {
            // SAFETY: the ballast lives as long as the stream.
            unsafe { ballast.index(..).set_8_async(turn as u8, stream) }?;
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.enter()?.synchronize()?)
    }
}
