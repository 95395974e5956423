//! All-reduce of whatever speaks DLPack: a Python module that sums arrays of numpy, tensors of PyTorch, or bare capsules, where
//! they are. `dlpack.py` loads and uses it.
//!
//! ```sh
//! cargo build --package allfold-examples --features dlpack --example allfold_dlpack
//! python3 examples/dlpack.py target/debug/examples/liballfold_dlpack.so
//! ```

use std::sync::{Mutex, PoisonError};

use allfold::cuda::{Device, RawStream, Stream};
use allfold::{CallOptions, Dtype, InputMode, Options, Place, RawBuffers, ReduceOp};
use dlpark::DlpackFlags;
use dlpark::ffi::{DLDataType, DLDevice};
use dlpark::python::consumer::stream::{self, StreamArg};
use dlpark::python::{DlpackStream, ImportRequest, ImportedDlpack};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The Python module.
#[pymodule]
mod allfold_dlpack {
    #[pymodule_export]
    use super::Communicator;
}

/// Ranks of an all-reduce, all driven by this process.
#[pyclass]
struct Communicator {
    inner: Mutex<allfold::Communicator>,
    ranks: usize,
    /// Each rank's GPU, and the stream that its calls run in; none for ranks on the CPU.
    gpus: Vec<(u32, Stream)>,
}

#[pymethods]
impl Communicator {
    /// So many ranks on the CPU.
    #[staticmethod]
    fn cpu(ranks: usize) -> PyResult<Communicator> {
        let inner = allfold::Communicator::cpu(ranks).map_err(refusal)?;
        Ok(Communicator { inner: Mutex::new(inner), ranks, gpus: Vec::new() })
    }

    /// A rank on each of these GPUs.
    #[staticmethod]
    fn cuda(devices: Vec<u32>) -> PyResult<Communicator> {
        // Nobody knows whether other GPUs have access to what an exporter has allocated. So peers are to read a copy of the
        // input, in memory of the communicator's, which the kernel makes.
        let options = Options { inputs: vec![InputMode::Copied], ..Options::default() };
        let inner = allfold::Communicator::cuda_with(&devices, options).map_err(refusal)?;
        let gpus = devices.iter().map(|&device| Ok((device, Stream::new(&Device::get(device)?.context()?)?)));
        let gpus = gpus.collect::<Result<_, allfold::Error>>().map_err(refusal)?;
        Ok(Communicator { inner: Mutex::new(inner), ranks: devices.len(), gpus })
    }

    /// Leaves the sum of all tensors in each of them, `tensors[r]` being rank r's. The sums are there on return.
    fn all_reduce(&self, py: Python<'_>, tensors: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        if tensors.len() != self.ranks {
            return Err(PyValueError::new_err(format!("{} tensors for {} ranks", tensors.len(), self.ranks)));
        }
        // These own what was exported until the end: dropping one calls its deleter, once.
        let mut exported = Vec::new();
        let (mut dtypes, mut buffers) = (Vec::new(), Vec::new());
        for (rank, tensor) in tensors.iter().enumerate() {
            let gpu = self.gpus.get(rank);
            let tensor = import(tensor, gpu.map(|(_, stream)| stream))?;
            let checked = check(&tensor, gpu).map_err(|why| PyValueError::new_err(format!("rank {rank}: {why}")))?;
            exported.push(tensor);
            dtypes.push(checked.0);
            buffers.push(checked.1);
        }
        let [dtype, ..] = dtypes[..] else { return Ok(()) };
        if let Some(rank) = dtypes.iter().position(|&other| other != dtype) {
            let (one, other) = (dtype.name(), dtypes[rank].name());
            return Err(PyValueError::new_err(format!("rank {rank}: {other}, where rank 0 gives {one}")));
        }
        // Other threads of Python may run, and use other tensors.
        py.detach(|| {
            let mut communicator = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: what was exported is kept until the streams are done, below, and the exporters have made the streams wait
            // for their own work. That no other thread uses these tensors is up to the program, as it is wherever tensors are
            // written in place.
            let called =
                unsafe { communicator.all_reduce_raw(dtype, &buffers, ReduceOp::Sum, &CallOptions::default()) };
            // Also where the call has failed: some ranks may have been launched.
            let waited: Vec<_> = self.gpus.iter().map(|(_, stream)| stream.synchronize()).collect();
            waited.into_iter().collect::<Result<(), _>>().map_err(failure)?;
            called.map_err(refusal)?;
            communicator.check().map_err(failure)
        })
    }
}

/// A tensor or a capsule, whose contents are in order for `stream` when its exporter has been asked.
fn import(tensor: &Bound<'_, PyAny>, stream: Option<&Stream>) -> PyResult<ImportedDlpack> {
    let request = ImportRequest::new(tensor.as_borrowed())?;
    match stream {
        // A capsule has been made for a stream that its maker was told.
        Some(stream) if !tensor.is_instance_of::<PyCapsule>() => {
            // PyTorch exports from the current GPU alone.
            let _current = stream.context().enter().map_err(failure)?;
            request.import(Some(&Ordered(stream.raw())), None)
        }
        Some(_) | None => request.import(None, None),
    }
}

/// A stream that exporters are asked to be in order with.
struct Ordered<'s>(RawStream<'s>);

// SAFETY: the stream lives as long as this value, and is of the GPU that the tensor is checked to be on, or else is not used;
// dlpark turns the handle into what DLPack asks for CUDA.
unsafe impl DlpackStream for Ordered<'_> {
    fn as_python_arg(&self, _: Python<'_>, _: DLDevice) -> PyResult<StreamArg> {
        Ok(stream::cuda(self.0.as_ptr()))
    }
}

/// The element type and the memory of `tensor`, or why they are not to be summed on the CPU or on the GPU given.
fn check<'s>(tensor: &ImportedDlpack, gpu: Option<&'s (u32, Stream)>) -> Result<(Dtype, RawBuffers<'s>), String> {
    let flags = tensor.flags();
    let tensor = tensor.validate().map_err(|error| error.to_string())?;
    let (device, expected) = (tensor.device(), gpu.map_or(DLDevice::CPU, |(device, _)| DLDevice::cuda(*device as i32)));
    if device != expected {
        return Err(format!("{device:?}, where the rank is on {expected:?}"));
    }
    let dtypes = [
        (DLDataType::F32, Dtype::F32),
        (DLDataType::F16, Dtype::F16),
        (DLDataType::BF16, Dtype::Bf16),
        (DLDataType::I32, Dtype::I32),
    ];
    let Some((_, dtype)) = dtypes.into_iter().find(|(dtype, _)| tensor.dtype().matches(*dtype)) else {
        return Err(format!("there are no sums of {:?}", tensor.dtype()));
    };
    if !tensor.is_compact().map_err(|error| error.to_string())? {
        return Err(format!("not contiguous: strides {:?} of shape {:?}", tensor.strides(), tensor.shape()));
    }
    if flags.intersects(DlpackFlags::READ_ONLY | DlpackFlags::IS_COPIED) {
        return Err(format!("no sum can be left in it: {flags:?}"));
    }
    // SAFETY: an exporter's offset leads to the tensor's first element, in its memory.
    let address = unsafe { tensor.offset_bytes_ptr() }.map_err(|error| error.to_string())? as u64;
    let elems = tensor.num_elements() as u64;
    let place = gpu.map_or(Place::Host, |(_, stream)| Place::Device(stream.raw()));
    Ok((dtype, RawBuffers { input: address, output: address, input_elems: elems, output_elems: elems, place }))
}

/// What was asked for and cannot be.
fn refusal(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What went wrong.
fn failure(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
