//! Registered buffers that are many, and such that are larger than what a communicator has room for.

use std::fs;

use allfold::{Algorithm, CallOptions, Communicator, Dtype, Preset, ReduceOp, Registered, Span};
use anyhow::{Context, Result, ensure};

use crate::data::{Data, mix};
use crate::machine::{Memory, raw_buffers};
use crate::numbers::{read, write};
use crate::oracle;
use crate::suite::{Bench, Outcome};

const DTYPE: Dtype = Dtype::F32;
/// What the communicators have room for.
const CAPACITY_BYTES: usize = 4096;
/// From an input to its output.
const OUTPUT_OFFSET_BYTES: usize = 1 << 15;
/// Registered at the same time.
const NAMES: usize = 200;

/// A call from the start of the memories, its input [`Data::Ramp`] of `number`, and the check of each sum.
fn call(
    comm: &mut Communicator,
    memories: &mut [Box<dyn Memory>],
    number: u64,
    bytes: usize,
    registered: Registered,
) -> Result<()> {
    let elems = bytes / DTYPE.bytes();
    for (rank, memory) in comm.local_ranks().zip(memories.iter_mut()) {
        let mut image = vec![0xff; OUTPUT_OFFSET_BYTES + bytes];
        (0..elems).for_each(|elem| write(DTYPE, &mut image, elem, Data::Ramp(number).bits(DTYPE, rank, elem)));
        memory.upload(&image)?;
    }
    let options = CallOptions { algorithm: Some(Algorithm::OnePass), registered, ..CallOptions::default() };
    let buffers: Vec<_> = memories
        .iter()
        // SAFETY: the memories live until the call is done, below, and each has one stream.
        .map(|memory| unsafe { raw_buffers(DTYPE, &**memory, 0, OUTPUT_OFFSET_BYTES, elems) })
        .collect();
    // SAFETY: as above.
    unsafe { comm.all_reduce_raw(DTYPE, &buffers, ReduceOp::Sum, &options) }?;
    drop(buffers);
    for memory in memories.iter() {
        let mut got = vec![0; OUTPUT_OFFSET_BYTES + bytes];
        memory.download(&mut got)?;
        for elem in 0..elems {
            let terms: Vec<_> = (0..comm.world()).map(|rank| Data::Ramp(number).bits(DTYPE, rank, elem)).collect();
            let (got, want) = (read(DTYPE, &got[OUTPUT_OFFSET_BYTES..], elem), oracle::sum(DTYPE, &terms));
            ensure!(got == want, "call {number} of {bytes} bytes, element {elem}: {got:#x}, not {want:#x}");
        }
    }
    comm.check()?;
    Ok(())
}

fn spans(memories: &[Box<dyn Memory>]) -> Vec<Span> {
    memories.iter().map(|memory| memory.span()).collect()
}

pub(super) fn b61_larger_than_the_room(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds().filter(|&world| world > 1) {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, CAPACITY_BYTES))?;
        let memory = |rank| bench.machine.memory(rank, 2 * OUTPUT_OFFSET_BYTES);
        let mut memories = comm.local_ranks().map(memory).collect::<Result<Vec<_>>>()?;
        // SAFETY: the memories live longer than the communicator's calls.
        let name = unsafe { comm.register(&spans(&memories)) }?;
        let by_name = Registered::By { input: name, output: name };
        for number in 0..if bench.quick { 60 } else { 2000 } {
            let more = (mix(61, world as u64, number) as usize % (OUTPUT_OFFSET_BYTES - CAPACITY_BYTES - 16)) & !3;
            let bytes = [CAPACITY_BYTES - 16, CAPACITY_BYTES, CAPACITY_BYTES + 16, CAPACITY_BYTES + 16 + more];
            call(&mut comm, &mut memories, number, bytes[number as usize % 4], by_name)?;
            bench.count(1);
        }
        comm.release(name)?;
    }
    Ok(Outcome::Holds)
}

pub(super) fn b75_many_names(bench: &Bench) -> Result<Outcome> {
    let world = bench.machine.most_ranks();
    let mut comm = bench.communicator(world, bench.options(Preset::Allfold, CAPACITY_BYTES))?;
    let bytes = if bench.on_cpu() { 2 * OUTPUT_OFFSET_BYTES } else { 2 << 20 };
    let mut all = Vec::new();
    for _ in 0..NAMES {
        all.push(comm.local_ranks().map(|rank| bench.machine.memory(rank, bytes)).collect::<Result<Vec<_>>>()?);
    }
    let before = reserved_bytes()?;
    // SAFETY: the memories live longer than the communicator's calls.
    let register = |memories: &Vec<Box<dyn Memory>>| Ok(unsafe { comm.register(&spans(memories)) }?);
    let names = all.iter().map(register).collect::<Result<Vec<_>>>()?;
    let (grown, registered) = (reserved_bytes()?.saturating_sub(before), (world * NAMES * bytes) as u64);
    ensure!(grown <= 2 * registered + (256 << 20), "{grown} bytes of addresses for {registered} bytes");
    for number in 0..40 {
        let which = mix(75, 0, number) as usize % NAMES;
        let registered = Registered::By { input: names[which], output: names[which] };
        let length = 4 + ((mix(75, 1, number) as usize % (OUTPUT_OFFSET_BYTES - 4)) & !3);
        call(&mut comm, &mut all[which], number, length, registered).with_context(|| format!("buffer {which}"))?;
        bench.count(1);
    }
    names.into_iter().try_for_each(|name| comm.release(name))?;
    Ok(Outcome::Holds)
}

/// Addresses that this process has taken.
fn reserved_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("reading what this process has")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).context("there is no VmSize")?;
    Ok(1024 * line.trim().trim_end_matches(" kB").parse::<u64>()?)
}
