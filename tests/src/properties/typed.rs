//! What most users write: typed buffers, and a communicator made with no options.

use allfold::{Communicator, Element, RankBuffers, ReduceOp};
use anyhow::{Result, ensure};
use bytemuck::{Pod, Zeroable};
use cust::memory::{CopyDestination, DeviceBuffer};
use half::{bf16, f16};

use crate::data::Data;
use crate::machine::MEMORY_ALIGN_BYTES;
use crate::numbers::{read, same, write};
use crate::oracle;
use crate::suite::{Bench, Outcome};

const ELEMS: usize = 1000;
const DATA: Data = Data::Random(11);

pub(super) fn typed_buffers(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        of_type::<f32>(bench, world)?;
        of_type::<f16>(bench, world)?;
        of_type::<bf16>(bench, world)?;
    }
    Ok(Outcome::Holds)
}

fn inputs_of<T: Element>(world: usize) -> Vec<Vec<T>> {
    let input = |rank| {
        let mut input = vec![T::zeroed(); ELEMS];
        let bytes = bytemuck::cast_slice_mut(&mut input);
        (0..ELEMS).for_each(|elem| write(T::DTYPE, bytes, elem, DATA.bits(T::DTYPE, rank, elem)));
        input
    };
    (0..world).map(input).collect()
}

fn check(bench: &Bench, dtype: allfold::Dtype, outputs: &[Vec<u8>]) -> Result<()> {
    for (rank, output) in outputs.iter().enumerate() {
        for elem in 0..ELEMS {
            let terms: Vec<_> = (0..outputs.len()).map(|rank| DATA.bits(dtype, rank, elem)).collect();
            let (want, got) = (oracle::sum(dtype, &terms), read(dtype, output, elem));
            ensure!(same(dtype, want, got), "rank {rank}, element {elem}: {got:#x}, not {want:#x}");
        }
    }
    bench.count(1);
    Ok(())
}

fn of_type<T: Element<Stored: Pod>>(bench: &Bench, world: usize) -> Result<()> {
    match bench.machine.devices() {
        None => on_cpu::<T>(bench, world),
        Some(devices) => on_gpus::<T>(bench, &devices[..world]),
    }
}

fn on_cpu<T: Element>(bench: &Bench, world: usize) -> Result<()> {
    let mut comm = Communicator::cpu(world)?;
    let (inputs, mut outputs) = (inputs_of::<T>(world), vec![vec![T::zeroed(); ELEMS]; world]);
    let buffers: Vec<_> = inputs.iter().zip(&mut outputs).map(|(i, o)| RankBuffers::new(i, o)).collect();
    comm.all_reduce(&buffers, ReduceOp::Sum)?;
    let bytes = |all: &[Vec<T>]| all.iter().map(|one| bytemuck::cast_slice(one).to_vec()).collect::<Vec<_>>();
    check(bench, T::DTYPE, &bytes(&outputs))?;

    let mut both = inputs;
    let buffers: Vec<_> = both.iter_mut().map(|both| RankBuffers::in_place(both)).collect();
    comm.all_reduce(&buffers, ReduceOp::Sum)?;
    check(bench, T::DTYPE, &bytes(&both))
}

fn on_gpus<T: Element<Stored: Pod>>(bench: &Bench, devices: &[u32]) -> Result<()> {
    let mut comm = Communicator::cuda(devices)?;
    // One memory a rank for its stream, and to make its GPU current.
    let memories =
        (0..devices.len()).map(|rank| bench.machine.memory(rank, MEMORY_ALIGN_BYTES)).collect::<Result<Vec<_>>>()?;
    let mut inputs = Vec::new();
    let mut outputs = Vec::new();
    for (memory, input) in memories.iter().zip(inputs_of::<T>(devices.len())) {
        memory.synchronize()?;
        let stored = bytemuck::cast_slice::<T, T::Stored>(&input);
        inputs.push(DeviceBuffer::from_slice(stored)?);
        outputs.push(DeviceBuffer::from_slice(stored)?);
    }
    let streams: Vec<_> = memories.iter().filter_map(|memory| memory.stream()).collect();
    let buffers: Vec<_> = inputs
        .iter()
        .zip(&mut outputs)
        .zip(&streams)
        // SAFETY: the streams are waited for before anything is dropped or read.
        .map(|((input, output), stream)| unsafe { RankBuffers::<T>::device(input, output, stream) })
        .collect();
    comm.all_reduce(&buffers, ReduceOp::Sum)?;
    let bytes = |all: &[DeviceBuffer<T::Stored>]| {
        let mut bytes = Vec::new();
        for (memory, buffer) in memories.iter().zip(all) {
            memory.synchronize()?;
            let mut host = vec![T::Stored::zeroed(); ELEMS];
            buffer.copy_to(&mut host)?;
            bytes.push(bytemuck::cast_slice(&host).to_vec());
        }
        Ok::<_, anyhow::Error>(bytes)
    };
    check(bench, T::DTYPE, &bytes(&outputs)?)?;

    let buffers: Vec<_> = inputs
        .iter_mut()
        .zip(&streams)
        // SAFETY: as above.
        .map(|(both, stream)| unsafe { RankBuffers::<T>::device_in_place(both, stream) })
        .collect();
    comm.all_reduce(&buffers, ReduceOp::Sum)?;
    check(bench, T::DTYPE, &bytes(&inputs)?)
}
