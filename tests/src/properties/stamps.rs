//! Stamps: inputs that the device makes and sums that the device checks, so that nothing comes between two calls.

use allfold::cuda::{Graph, RawStream};
use allfold::{Algorithm, CallOptions, Communicator, Dtype, Element, InputMode, Options, Preset, ReduceOp, stamp_sum};
use allfold_kernels::protocol::epoch::Epoch;
use anyhow::{Result, ensure};
use half::{bf16, f16};

use crate::machine::{Memory, buffers};
use crate::suite::{Bench, Outcome, in_place};

/// A call whose input is stamps and whose output is checked.
#[derive(Clone, Copy)]
struct Stamped {
    dtype: Dtype,
    elems: usize,
    form: (Algorithm, InputMode),
    in_place: bool,
}

/// Most elements of a call here; every rank has an input and an output of so many f32.
const MOST_ELEMS: usize = 1 << 16;
const OUTPUT_OFFSET_BYTES: usize = 4 * MOST_ELEMS;

/// Memory of each rank of this process.
fn memories(bench: &Bench, comm: &Communicator) -> Result<Vec<Box<dyn Memory>>> {
    comm.local_ranks().map(|rank| bench.machine.memory(rank, 2 * OUTPUT_OFFSET_BYTES)).collect()
}

fn call(comm: &mut Communicator, memories: &[Box<dyn Memory>], call: Stamped) -> allfold::Result<()> {
    match call.dtype {
        Dtype::F32 => call_typed::<f32>(comm, memories, call),
        Dtype::F16 => call_typed::<f16>(comm, memories, call),
        Dtype::Bf16 => call_typed::<bf16>(comm, memories, call),
        Dtype::I32 => call_typed::<i32>(comm, memories, call),
    }
}

fn call_typed<T: Element>(comm: &mut Communicator, memories: &[Box<dyn Memory>], call: Stamped) -> allfold::Result<()> {
    let Stamped { elems, form: (algorithm, input), .. } = call;
    let output = if call.in_place { 0 } else { OUTPUT_OFFSET_BYTES };
    let from_to = |from, to| -> Vec<_> {
        // SAFETY: what uses them is put into each rank's one stream, or is done on return; the memories live longer.
        memories.iter().map(|memory| unsafe { buffers::<T>(&**memory, from, to, elems) }).collect()
    };
    comm.fill_stamps(&from_to(0, 0))?;
    let options = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
    comm.all_reduce_with(&from_to(0, output), ReduceOp::Sum, &options)?;
    comm.check_stamps(&from_to(output, output))
}

/// Every kind of call, round and round.
fn rounds(bench: &Bench, preset: Preset, world: usize) -> Vec<Stamped> {
    let mut calls = Vec::new();
    for elems in [8, 1000, 4096, 17, MOST_ELEMS] {
        for form in bench.forms(preset, world) {
            let dtype = Dtype::ALL[calls.len() % Dtype::ALL.len()];
            calls.push(Stamped { dtype, elems, form, in_place: in_place(form) && calls.len() % 2 == 1 });
        }
    }
    calls
}

fn settle(comm: &Communicator, memories: &[Box<dyn Memory>]) -> Result<Vec<u64>> {
    memories.iter().try_for_each(|memory| memory.synchronize())?;
    comm.check()?;
    Ok(comm.wrong()?)
}

pub(super) fn stamps_back_to_back(bench: &Bench) -> Result<Outcome> {
    let rounds_of = if bench.quick { 2 } else { 20 };
    for world in bench.worlds() {
        for preset in Preset::ALL {
            let options = Options { stamps: true, cpu_shape: (2, 1), ..bench.options(preset, OUTPUT_OFFSET_BYTES) };
            let mut comm = bench.communicator(world, options)?;
            let memories = memories(bench, &comm)?;
            let calls = rounds(bench, preset, world);
            let mut epoch = 0;
            for _ in 0..rounds_of {
                for &stamped in &calls {
                    call(&mut comm, &memories, stamped)?;
                    epoch += 1;
                }
            }
            let wrong = settle(&comm, &memories)?;
            ensure!(wrong.iter().all(|&wrong| wrong == 0), "{world} ranks, {preset:?}: wrong by rank {wrong:?}");
            bench.count(epoch);
            counts_what_is_wrong(&mut comm, memories, epoch)?;
        }
    }
    Ok(Outcome::Holds)
}

/// The check itself can fail, and counts right: zeros on the last rank instead of the last call's sums.
fn counts_what_is_wrong(comm: &mut Communicator, mut memories: Vec<Box<dyn Memory>>, epoch: u64) -> Result<()> {
    let (world, elems) = (comm.world(), 1000);
    for memory in &mut memories {
        memory.fill(0, elems * 4, 0)?;
    }
    // SAFETY: as in `call_typed`.
    let zeros: Vec<_> = memories.iter().map(|memory| unsafe { buffers::<f32>(&**memory, 0, 0, elems) }).collect();
    comm.check_stamps(&zeros)?;
    let wrong = settle(comm, &memories)?;
    let not_zero = |elem: &u64| stamp_sum(world as u32, *elem, Epoch(epoch)) != 0;
    let want = (0..elems as u64).filter(not_zero).count() as u64;
    ensure!(want > 0 && wrong.iter().all(|&wrong| wrong == want), "{want} wrong elements a rank, counted {wrong:?}");
    Ok(())
}

/// Calls of one captured graph: odd, so that a replay starts with another bank than the last.
const CAPTURED: usize = 25;
/// Replays between two looks at the result.
const REPLAYS: u64 = 40;

pub(super) fn stress(bench: &Bench) -> Result<Outcome> {
    if bench.stress_calls == 0 {
        return Ok(Outcome::Skipped("asked for no calls: see --stress".into()));
    }
    let world = bench.machine.most_ranks();
    let options = Options { stamps: true, ..bench.options(Preset::Allfold, OUTPUT_OFFSET_BYTES) };
    let mut comm = bench.communicator(world, options)?;
    let memories = memories(bench, &comm)?;
    let calls = rounds(bench, Preset::Allfold, world);
    let mut cycle = calls.iter().copied().cycle();
    let mut done = 0;
    let mut count = |comm: &Communicator, calls: u64| {
        let wrong = settle(comm, &memories)?;
        ensure!(wrong.iter().all(|&wrong| wrong == 0), "after {done} calls and {calls} more: wrong by rank {wrong:?}");
        done += calls;
        bench.count(calls);
        Ok::<u64, anyhow::Error>(done)
    };
    if bench.on_cpu() {
        let mut left = bench.stress_calls;
        while left > 0 {
            let some = left.min(1000);
            (0..some).try_for_each(|_| cycle.next().map_or(Ok(()), |stamped| call(&mut comm, &memories, stamped)))?;
            count(&comm, some)?;
            left -= some;
        }
        return Ok(Outcome::Holds);
    }
    let streams: Vec<RawStream<'_>> = memories.iter().filter_map(|memory| memory.stream()).map(Into::into).collect();
    while count(&comm, 0)? < bench.stress_calls {
        // The next kinds of calls each time, so that every kind comes first in a graph some time.
        let kinds: Vec<_> = cycle.by_ref().take(CAPTURED).collect();
        let record = || kinds.iter().try_for_each(|&stamped| call(&mut comm, &memories, stamped));
        let graphs = Graph::capture_all(&streams, record)?;
        for _ in 0..REPLAYS {
            for (graph, &stream) in graphs.iter().zip(&streams) {
                // SAFETY: memories and communicator live until `count` has waited for the streams.
                unsafe { graph.launch(stream) }?;
            }
        }
        count(&comm, CAPTURED as u64 * REPLAYS)?;
    }
    Ok(Outcome::Holds)
}
