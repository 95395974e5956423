//! What a call costs its caller: a launch a rank, and no memory.

use std::time::Instant;

use allfold::{Dtype, Preset, RankBuffers, ReduceOp};
use anyhow::{Context, Result, ensure};
use cust::module::Module;

use crate::counting::allocations;
use crate::machine::Memory;
use crate::suite::{Bench, Outcome};

/// Calls put into a stream before it is waited for: fewer than it has room for.
const BURST: u32 = 100;
/// Bursts, of which the fastest counts: the host is shared.
const BURSTS: u32 = 30;
/// By how much a call may be dearer than a bare launch for each rank, in µs.
const MOST_MORE: f64 = 0.5;
const ELEMS: usize = 512;

const EMPTY: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n";

pub(super) fn a_call_is_a_launch(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("a call on CPU ranks is done when it returns".into()));
    }
    for world in bench.worlds() {
        let bytes = ELEMS * Dtype::F32.bytes();
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, bytes))?;
        let memories = (0..world).map(|rank| bench.machine.memory(rank, 2 * bytes)).collect::<Result<Vec<_>>>()?;
        let mut buffers = Vec::new();
        for memory in &memories {
            let stream = memory.stream().context("a rank's memory has a stream")?;
            let (input, output) = (memory.address(), memory.address() + bytes as u64);
            // SAFETY: the memories live until their streams have been waited for, and all calls are in one stream a rank.
            buffers
                .push(unsafe { RankBuffers::<f32>::device_raw(input, output, ELEMS as u64, stream.as_inner().cast()) });
        }

        let mut failed = None;
        let mut call = || failed = comm.all_reduce(&buffers, ReduceOp::Sum).err().or(failed.take());
        let call_us = fastest(&memories, &mut call)? / world as f64;
        let asked = allocations(&mut call);
        if let Some(error) = failed {
            return Err(error.into());
        }
        memories.iter().try_for_each(|memory| memory.synchronize())?;

        let bare_us = bare(bench, &memories)?;
        println!("    a call of {world} ranks: {call_us:.2} µs of the host a rank; a bare launch: {bare_us:.2} µs");
        ensure!(asked == 0, "a call asked for memory {asked} times");
        ensure!(call_us <= bare_us + MOST_MORE, "{call_us:.2} µs a rank, a bare launch takes {bare_us:.2}");
        bench.count(2);
    }
    Ok(Outcome::Holds)
}

/// Host time of `work`, in µs: of the fastest burst.
fn fastest(memories: &[Box<dyn Memory>], work: &mut impl FnMut()) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..BURSTS {
        let begun = Instant::now();
        (0..BURST).for_each(|_| work());
        best = best.min(begun.elapsed().as_secs_f64() * 1e6 / f64::from(BURST));
        memories.iter().try_for_each(|memory| memory.synchronize())?;
    }
    Ok(best)
}

/// Host time of the launch of an empty kernel by `cust` into rank 0's stream, in µs.
fn bare(bench: &Bench, memories: &[Box<dyn Memory>]) -> Result<f64> {
    bench.machine.make_current(0)?;
    let module = Module::from_ptx(EMPTY, &[])?;
    let empty = module.get_function("empty")?;
    let stream = memories[0].stream().context("a rank's memory has a stream")?;
    let mut failed = None;
    let microseconds = fastest(&memories[..1], &mut || {
        // SAFETY: the kernel has no parameters and does nothing.
        let launched = unsafe { stream.launch(&empty, 1, 32, 0, &[]) };
        failed = launched.err().or(failed.take());
    })?;
    failed.map_or(Ok(microseconds), |error| Err(error.into()))
}
