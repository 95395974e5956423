//! What a call costs its caller: a launch a rank, and no memory.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use allfold::{CallOptions, Dtype, Preset, RankBuffers, ReduceOp, Registered};
use anyhow::{Context, Result, ensure};
use cust::module::Module;

use crate::counting::allocations;
use crate::machine::Memory;
use crate::suite::{Bench, Outcome};

/// Calls put into a stream before it is waited for: fewer than it has room for.
const BURST: u32 = 100;
/// Bursts, of which the fastest counts: the host is shared.
const BURSTS: u32 = 30;
/// How many times what a bare launch for each rank takes a call may take.
const MOST_TIMES: f64 = 1.25;
const ELEMS: usize = 512;

const EMPTY: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n";

pub(super) fn b37_a_call_is_a_launch(bench: &Bench) -> Result<Outcome> {
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

        bench.machine.make_current(0)?;
        let module = Module::from_ptx(EMPTY, &[])?;
        let empty = module.get_function("empty")?;
        // As many streams as the call has on this GPU: to change between them costs the driver something, too.
        let devices = bench.machine.devices().context("ranks on GPUs")?;
        let here = memories.iter().zip(devices).filter(|(_, device)| **device == devices[0]);
        let streams: Vec<_> = here.filter_map(|(memory, _)| memory.stream()).collect();

        let spans: Vec<_> = memories.iter().map(|memory| memory.span()).collect();
        // SAFETY: the memories live longer than the communicator's calls.
        let name = unsafe { comm.register(&spans) }?;
        let named = CallOptions { registered: Registered::By { input: name, output: name }, ..CallOptions::default() };
        let comm = RefCell::new(&mut comm);
        let (failed, mut not_launched) = (Cell::new(None), None);
        let all_reduce = |options: &CallOptions| {
            let done = comm.borrow_mut().all_reduce_with(&buffers, ReduceOp::Sum, options);
            failed.set(done.err().or(failed.take()));
        };
        let (mut call, mut named_call) = (|| all_reduce(&CallOptions::default()), || all_reduce(&named));
        let mut launch = || {
            for stream in &streams {
                // SAFETY: the kernel has no parameters and does nothing.
                let launched = unsafe { stream.launch(&empty, 1, 32, 0, &[]) };
                not_launched = launched.err().or(not_launched.take());
            }
        };
        let [mut call_us, mut named_us, mut bare_us] = [f64::INFINITY; 3];
        for _ in 0..BURSTS {
            // In turn: what else the host does is in both.
            call_us = call_us.min(burst(&memories, &mut call)? / world as f64);
            named_us = named_us.min(burst(&memories, &mut named_call)? / world as f64);
            bare_us = bare_us.min(burst(&memories, &mut launch)? / streams.len() as f64);
        }
        let asked = allocations(call) + allocations(named_call);
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
        not_launched.map_or(Ok(()), Err)?;
        memories.iter().try_for_each(|memory| memory.synchronize())?;

        println!(
            "    a call of {world} ranks: {call_us:.2} µs of the host a rank, {named_us:.2} by names; a bare launch: {bare_us:.2} µs"
        );
        ensure!(asked == 0, "a call asked for memory {asked} times");
        for us in [call_us, named_us] {
            ensure!(us <= bare_us * MOST_TIMES, "{us:.2} µs a rank, a bare launch takes {bare_us:.2}");
        }
        bench.count(3);
    }
    Ok(Outcome::Holds)
}

/// Host time of `work`, in µs, when it is done many times.
fn burst(memories: &[Box<dyn Memory>], work: &mut impl FnMut()) -> Result<f64> {
    let begun = Instant::now();
    (0..BURST).for_each(|_| work());
    let microseconds = begun.elapsed().as_secs_f64() * 1e6 / f64::from(BURST);
    memories.iter().try_for_each(|memory| memory.synchronize())?;
    Ok(microseconds)
}
