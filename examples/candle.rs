//! All-reduce of candle's tensors, as an operation of candle's: what ends a layer that ranks have a part of each. Each rank is
//! a process of its own, on the CPU or with a GPU.
//!
//! ```sh
//! cargo build --package allfold-examples --features candle --example all_reduce_candle
//! cargo allfold launch -n 2 -- target/debug/examples/all_reduce_candle        # on the CPU
//! cargo allfold launch -n 2 -- target/debug/examples/all_reduce_candle cuda   # built with the feature candle-cuda
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use allfold::rendezvous::{Environment, Rendezvous};
use allfold::{Communicator, Element, RankBuffers, ReduceOp};
use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CustomOp1, DType, Device, DeviceLocation, Error, Layout, Result, Shape, Tensor, WithDType,
};
use half::{bf16, f16};

/// The sum over all ranks, as a new tensor. All ranks apply it to tensors of one shape and dtype, in the same order.
struct AllReduce {
    /// Candle's operations are shared, and a communicator's calls are not.
    communicator: Mutex<Communicator>,
    location: DeviceLocation,
}

impl AllReduce {
    /// For tensors of `device`, of which each rank has one.
    fn new(ranks: &dyn Rendezvous, device: &Device) -> Result<AllReduce> {
        let location = device.location();
        let communicator = match location {
            DeviceLocation::Cpu => Communicator::connect_cpu(ranks),
            DeviceLocation::Cuda { gpu_id } => Communicator::connect_cuda(gpu_id as u32, ranks),
            DeviceLocation::Metal { .. } => return Err(Error::Msg("all-reduce: not for Metal".into())),
        };
        Ok(AllReduce { communicator: Mutex::new(communicator.map_err(Error::wrap)?), location })
    }

    fn call<T: Element>(&self, buffers: RankBuffers<'_, T>) -> Result<()> {
        // A panic elsewhere leaves a communicator as it is between two calls.
        let mut communicator = self.communicator.lock().unwrap_or_else(PoisonError::into_inner);
        communicator.all_reduce(&[buffers], ReduceOp::Sum).map_err(Error::wrap)
    }

    fn on_cpu<T: Element + WithDType>(&self, storage: &CpuStorage, layout: &Layout) -> Result<CpuStorage> {
        let (start, end) = self.elements(DeviceLocation::Cpu, layout)?;
        let input = &T::cpu_storage_as_slice(storage)?[start..end];
        let mut sum = vec![T::zero(); input.len()];
        self.call(RankBuffers::new(input, &mut sum))?;
        Ok(T::to_cpu_storage_owned(sum))
    }

    /// Where the elements of a tensor begin and end in its storage, which is on `location`.
    fn elements(&self, location: DeviceLocation, layout: &Layout) -> Result<(usize, usize)> {
        if location != self.location {
            return Err(Error::DeviceMismatchBinaryOp { lhs: location, rhs: self.location, op: self.name() });
        }
        layout.contiguous_offsets().ok_or(Error::RequiresContiguous { op: self.name() })
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "what there are no sums of is refused, whatever candle may add")]
impl CustomOp1 for AllReduce {
    fn name(&self) -> &'static str {
        "all-reduce"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let sum = match storage.dtype() {
            DType::F32 => self.on_cpu::<f32>(storage, layout),
            DType::F16 => self.on_cpu::<f16>(storage, layout),
            DType::BF16 => self.on_cpu::<bf16>(storage, layout),
            DType::I32 => self.on_cpu::<i32>(storage, layout),
            other => Err(Error::UnsupportedDTypeForOp(other, self.name())),
        };
        Ok((sum?, layout.shape().clone()))
    }

    #[cfg(feature = "candle-cuda")]
    fn cuda_fwd(
        &self,
        storage: &candle_core::CudaStorage,
        layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        let sum = match storage.dtype() {
            DType::F32 => self.on_gpu::<f32>(storage, layout),
            DType::F16 => self.on_gpu::<f16>(storage, layout),
            DType::BF16 => self.on_gpu::<bf16>(storage, layout),
            DType::I32 => self.on_gpu::<i32>(storage, layout),
            other => Err(Error::UnsupportedDTypeForOp(other, self.name())),
        };
        Ok((sum?, layout.shape().clone()))
    }
}

/// The half that needs CUDA when it is built.
#[cfg(feature = "candle-cuda")]
mod gpu {
    use candle_core::CudaStorage;
    use candle_core::backend::BackendDevice;
    use candle_core::cuda_backend::CudaDType;
    use candle_core::cuda_backend::cudarc::driver::{DevicePtr, DevicePtrMut, DeviceRepr};

    use super::*;

    impl AllReduce {
        /// In the order of the stream of the tensor's device, as all that candle does.
        pub(super) fn on_gpu<T>(&self, storage: &CudaStorage, layout: &Layout) -> Result<CudaStorage>
        where
            T: Element + CudaDType + DeviceRepr,
        {
            let device = storage.device();
            let (start, end) = self.elements(device.location(), layout)?;
            let stream = device.cuda_stream();
            let input = storage.as_cuda_slice::<T>()?.slice(start..end);
            // SAFETY: the call writes every element before anything reads one.
            let mut sum = unsafe { device.alloc::<T>(end - start) }?;
            // The stream now waits for what others do to these; the guards, dropped, tell others to wait for the call.
            let (from, read_until) = input.device_ptr(&stream);
            let (to, written_until) = sum.device_ptr_mut(&stream);
            // SAFETY: both are of so many elements, in the primary context of the rank's GPU, as is the stream; the guards
            // keep both until the stream has passed the call. Peers, other processes, get to see a copy of the input.
            let buffers =
                unsafe { RankBuffers::<T>::device_raw(from, to, (end - start) as u64, stream.cu_stream().cast()) };
            self.call(buffers)?;
            drop((read_until, written_until));
            Ok(CudaStorage::wrap_cuda_slice(sum, device.clone()))
        }
    }
}

/// Inputs, and outputs, of the layer.
const SHAPE: (usize, usize) = (48, 1000);
/// Rows that go through the layer at once.
const ROWS: usize = 5;

/// Small integers, so that every sum is exact in every dtype.
fn integers(rows: usize, columns: usize, device: &Device) -> Result<Tensor> {
    let numbers: Vec<f32> = (0..rows * columns).map(|index| (index % 3) as f32).collect();
    Tensor::from_vec(numbers, (rows, columns), device)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let environment = Environment::read()?;
    let ranks = environment.join(Instant::now() + Duration::from_secs(60))?;
    let device = match std::env::args().nth(1).as_deref() {
        None | Some("cpu") => Device::Cpu,
        Some("cuda") => Device::new_cuda_with_stream(environment.local_rank as usize)?,
        Some(other) => return Err(format!("{other}: cpu or cuda").into()),
    };
    let all_reduce = AllReduce::new(&ranks, &device)?;

    // A layer as models have it in parts: each rank has some of the inputs and their rows of the weights, so its product is one
    // term of the sum that the whole layer gives.
    let (inputs, outputs) = SHAPE;
    let (rows, weights) = (integers(ROWS, inputs, &device)?, integers(inputs, outputs, &device)?);
    let whole = rows.matmul(&weights)?;
    let (rank, world) = (ranks.rank() as usize, ranks.world() as usize);
    let (first, end) = (inputs * rank / world, inputs * (rank + 1) / world);
    let own_rows = rows.narrow(1, first, end - first)?.contiguous()?;
    let part = own_rows.matmul(&weights.narrow(0, first, end - first)?)?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let sum = part.to_dtype(dtype)?.apply_op1_no_bwd(&all_reduce)?;
        let wrong = sum.to_dtype(DType::F32)?.ne(&whole)?.to_dtype(DType::U32)?.sum_all()?.to_scalar::<u32>()?;
        if wrong > 0 {
            return Err(format!("rank {rank}: {wrong} of {} sums of {dtype:?} are wrong", ROWS * outputs).into());
        }
        println!(
            "rank {rank} of {world}: {:?} of {dtype:?} on {:?}, every sum is right",
            sum.dims(),
            device.location()
        );
    }
    // A tensor that starts inside its storage is summed where it is; one with gaps is refused.
    let last = part.narrow(0, ROWS - 1, 1)?.apply_op1_no_bwd(&all_reduce)?;
    if last.to_vec2::<f32>()? != whole.narrow(0, ROWS - 1, 1)?.to_vec2::<f32>()? {
        return Err(format!("rank {rank}: the sum of a part of a tensor is wrong").into());
    }
    match part.t()?.apply_op1_no_bwd(&all_reduce) {
        Err(Error::RequiresContiguous { .. }) => Ok(()),
        other => Err(format!("rank {rank}: a transposed tensor gives {other:?}").into()),
    }
}
