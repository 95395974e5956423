//! Stamps: inputs that the device makes and sums that the device checks, so that nothing comes between two calls.

use allfold::cuda::RawStream;
use allfold::{
    CallOptions, Communicator, Dtype, Element, Options, Plan, Preset, ReduceOp, Registered, of_dtype, stamp_sum,
};
use allfold_kernels::protocol::epoch::Epoch;
use anyhow::{Result, ensure};

use crate::machine::{Memory, buffers};
use crate::suite::{Bench, Outcome, in_place};

/// A call whose input is stamps and whose output is checked.
#[derive(Clone, Copy)]
pub(super) struct Stamped {
    pub(super) dtype: Dtype,
    pub(super) elems: usize,
    pub(super) in_place: bool,
    pub(super) options: CallOptions,
}

/// Most elements of a call here; every rank has an input and an output of so many f32.
pub(super) const MOST_ELEMS: usize = 1 << 16;
pub(super) const OUTPUT_OFFSET_BYTES: usize = 4 * MOST_ELEMS;

/// Memory of each rank of this process.
pub(super) fn memories(bench: &Bench, comm: &Communicator) -> Result<Vec<Box<dyn Memory>>> {
    comm.local_ranks().map(|rank| bench.machine.memory(rank, 2 * OUTPUT_OFFSET_BYTES)).collect()
}

pub(super) fn call(comm: &mut Communicator, memories: &[Box<dyn Memory>], call: Stamped) -> allfold::Result<Plan> {
    of_dtype!(call.dtype, T => call_typed::<T>(comm, memories, call))
}

fn call_typed<T: Element>(
    comm: &mut Communicator,
    memories: &[Box<dyn Memory>],
    call: Stamped,
) -> allfold::Result<Plan> {
    let Stamped { elems, options, .. } = call;
    let output = if call.in_place { 0 } else { OUTPUT_OFFSET_BYTES };
    let from_to = |from, to| -> Vec<_> {
        // SAFETY: what uses them is put into each rank's one stream, or is done on return; the memories live longer.
        memories.iter().map(|memory| unsafe { buffers::<T>(&**memory, from, to, elems) }).collect()
    };
    comm.fill_stamps(&from_to(0, 0))?;
    let plan = comm.all_reduce_with(&from_to(0, output), ReduceOp::Sum, &options)?;
    comm.check_stamps(&from_to(output, output))?;
    Ok(plan)
}

/// Every kind of call, round and round.
fn rounds(bench: &Bench, preset: Preset, world: usize, registered: Registered) -> Vec<Stamped> {
    let mut calls = Vec::new();
    for elems in [8, 1000, 4096, 17, MOST_ELEMS] {
        for form in bench.forms(preset, world) {
            let dtype = Options::DTYPES[calls.len() % Options::DTYPES.len()];
            let in_place = in_place(form) && calls.len() % 2 == 1;
            let (algorithm, input) = (Some(form.0), Some(form.1));
            let options = CallOptions { algorithm, input, registered, ..CallOptions::default() };
            calls.push(Stamped { dtype, elems, in_place, options });
        }
    }
    calls
}

pub(super) fn settle(comm: &Communicator, memories: &[Box<dyn Memory>]) -> Result<Vec<u64>> {
    memories.iter().try_for_each(|memory| memory.synchronize())?;
    comm.check()?;
    Ok(comm.wrong()?)
}

pub(super) fn b01_b02_stamps_back_to_back(bench: &Bench) -> Result<Outcome> {
    let rounds_of = if bench.quick { 2 } else { 20 };
    for world in bench.worlds() {
        for preset in Preset::ALL {
            let options = Options { stamps: true, cpu_shape: (2, 1), ..bench.options(preset, OUTPUT_OFFSET_BYTES) };
            let mut comm = bench.communicator(world, options)?;
            let memories = memories(bench, &comm)?;
            let spans: Vec<_> = memories.iter().map(|memory| memory.span()).collect();
            // SAFETY: the memories live longer than the communicator's calls.
            let name = unsafe { comm.register(&spans) }?;
            let calls = rounds(bench, preset, world, Registered::By { input: name, output: name });
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
            comm.release(name)?;
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
const CAPTURED: usize = 101;
/// Replays between two looks at the result.
const REPLAYS: u64 = 20;

pub(super) fn b02_b06_b31_b52_stress(bench: &Bench) -> Result<Outcome> {
    if bench.stress_calls == 0 {
        return Ok(Outcome::Skipped("asked for no calls: see --stress".into()));
    }
    let world = bench.machine.most_ranks();
    let options = Options {
        stamps: true,
        captured_calls: 3 * CAPTURED as u32, // Graphs that are gone give theirs back in their own time.
        ..bench.options(Preset::Allfold, OUTPUT_OFFSET_BYTES)
    };
    let mut comm = bench.communicator(world, options)?;
    let memories = memories(bench, &comm)?;
    let streams: Vec<RawStream<'_>> = memories.iter().filter_map(|memory| memory.stream()).map(Into::into).collect();
    let calls = rounds(bench, Preset::Allfold, world, Registered::Later);
    let mut cycle = calls.iter().copied().cycle();
    let mut done = 0;
    while done < bench.stress_calls {
        // The next kinds of calls each time, so that every kind comes first in a graph some time.
        let left = bench.stress_calls - done;
        let kinds: Vec<_> = cycle.by_ref().take(left.min(CAPTURED as u64) as usize).collect();
        let (calls, replays) = (kinds.len() as u64, REPLAYS.min(left / kinds.len() as u64));
        let graph =
            comm.capture(&streams, |comm| kinds.iter().try_for_each(|&it| call(comm, &memories, it).map(drop)))?;
        comm.finish_capture()?;
        for _ in 0..replays {
            // SAFETY: memories and communicator live until the streams have been waited for.
            unsafe { comm.replay(&graph, &streams) }?;
        }
        let wrong = settle(&comm, &memories)?;
        done += calls * replays;
        ensure!(wrong.iter().all(|&wrong| wrong == 0), "in the last {calls} of {done} calls: wrong by rank {wrong:?}");
    }
    bench.count(done);
    Ok(Outcome::Holds)
}
