//! All-reduce of cudarc's buffers: a `CudaSlice` on each GPU, in the order of a `CudaStream` of its own.
//!
//! ```sh
//! cargo run --package allfold-examples --features cudarc --example all_reduce_cudarc         # on all GPUs
//! cargo run --package allfold-examples --features cudarc --example all_reduce_cudarc -- 0 1  # on these
//! ```

use std::error::Error;
use std::process::ExitCode;

use allfold::cuda::Device;
use allfold::{Communicator, Element, InputMode, Options, RankBuffers, ReduceOp};
use cudarc::driver::{CudaContext, CudaSlice, DevicePtrMut, DeviceRepr};
use half::bf16;

/// The ranks, and the GPU of each.
struct Ranks {
    communicator: Communicator,
    devices: Vec<u32>,
}

impl Ranks {
    fn new(devices: Vec<u32>) -> Result<Ranks, allfold::Error> {
        // cudarc allocates in stream order, from a pool that other GPUs have no access to. So peers are to read a copy of the
        // input, in memory of the communicator's, which the kernel makes; no rank then touches another one's slice.
        let options = Options { inputs: vec![InputMode::Copied], ..Options::default() };
        Ok(Ranks { communicator: Communicator::cuda_with(&devices, options)?, devices })
    }

    /// Leaves the sum of all slices in each of them, `slices[r]` being rank r's. Asynchronous, in the order of the stream
    /// that each slice has been allocated on.
    fn all_reduce<T: Element + DeviceRepr>(&mut self, slices: &mut [CudaSlice<T>]) -> Result<(), Box<dyn Error>> {
        for (rank, (slice, &device)) in slices.iter().zip(&self.devices).enumerate() {
            if slice.ordinal() != device as usize || !slice.context().is_primary() {
                return Err(format!("the slice of rank {rank} is not in the primary context of GPU {device}").into());
            }
        }
        let streams: Vec<_> = slices.iter().map(|slice| slice.stream().clone()).collect();
        let (mut buffers, mut guards) = (Vec::new(), Vec::new());
        for (slice, stream) in slices.iter_mut().zip(&streams) {
            let elems = slice.len() as u64;
            // The stream now waits for what other streams do to the slice; the guard tells them, when dropped, to wait for
            // what the stream has been given until then. So it has to outlive the call.
            let (address, guard) = slice.device_ptr_mut(stream);
            guards.push(guard);
            // SAFETY: the slice is device memory of so many elements in the primary context of the rank's GPU, and the
            // stream is its own. Whoever drops the slice or uses it in another stream is put behind the call: by the guard,
            // or, where events are not tracked, by cudarc's own contract. Peers do not touch it, see `new`.
            buffers.push(unsafe { RankBuffers::<T>::device_raw(address, address, elems, stream.cu_stream().cast()) });
        }
        self.communicator.all_reduce(&buffers, ReduceOp::Sum)?;
        Ok(())
    }
}

/// Small integers, whose sum over all ranks every element type holds.
fn value(rank: usize, index: usize) -> f32 {
    (rank + index % 8) as f32
}

/// Sums slices of `elems` elements on all GPUs, and compares every element with the sum that it must be.
fn verify<T>(ranks: &mut Ranks, elems: usize, of: fn(f32) -> T) -> Result<(), Box<dyn Error>>
where
    T: Element + DeviceRepr + PartialEq,
{
    let mut slices = Vec::new();
    for (rank, &device) in ranks.devices.iter().enumerate() {
        let stream = CudaContext::new(device as usize)?.new_stream()?;
        let input: Vec<T> = (0..elems).map(|index| of(value(rank, index))).collect();
        slices.push(stream.clone_htod(&input)?);
    }
    ranks.all_reduce(&mut slices)?;
    for (rank, slice) in slices.iter().enumerate() {
        let output = slice.stream().clone_dtoh(slice)?;
        slice.stream().synchronize()?;
        let sum = |index| of((0..slices.len()).map(|rank| value(rank, index)).sum());
        let wrong = output.iter().enumerate().filter(|&(index, &element)| element != sum(index)).count();
        if wrong > 0 {
            return Err(format!("rank {rank}: {wrong} of {elems} sums of {} are wrong", T::DTYPE.name()).into());
        }
    }
    // The next slices have other streams.
    ranks.communicator.finish()?;
    println!("{} ranks, {elems} elements of {}: every sum is right", slices.len(), T::DTYPE.name());
    Ok(())
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut devices = std::env::args().skip(1).map(|device| device.parse()).collect::<Result<Vec<u32>, _>>()?;
    if devices.is_empty() {
        devices = (0..Device::count()?).collect();
    }
    if devices.is_empty() {
        return Err("there is no GPU here".into());
    }
    // First of all, since it returns an error where cudarc panics: without a driver.
    let mut ranks = Ranks::new(devices)?;
    for elems in [0, 1000, 3_000_001] {
        verify(&mut ranks, elems, |value| value)?;
        verify(&mut ranks, elems, bf16::from_f32)?;
    }
    Ok(ranks.communicator.check()?)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
