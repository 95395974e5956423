//! Streams: one communicator on several, and several communicators at once.

use std::time::Duration;

use allfold::cuda::{Graph, RawStream};
use allfold::{Algorithm, CallOptions, Communicator, Dtype, Error, Options, Preset, RankBuffers, ReduceOp};
use anyhow::{Context, Result, bail, ensure};
use cust::stream::Stream;

use crate::call::Call;
use crate::machine::{Machine, Memory};
use crate::numbers::{decode, encode, read, write};
use crate::suite::{Bench, Outcome};

const DTYPE: Dtype = Dtype::F32;

/// Memories with `value(rank)` in each of `elems` elements at their start, and room for an output behind.
fn memories(machine: &dyn Machine, world: usize, elems: usize) -> Result<Vec<Box<dyn Memory>>> {
    let memory = |rank: usize| {
        let mut image = vec![0; 2 * elems * DTYPE.bytes()];
        (0..elems).for_each(|elem| write(DTYPE, &mut image, elem, encode(DTYPE, rank as f64 + 1.0)));
        let mut memory = machine.memory(rank, image.len())?;
        memory.upload(&image)?;
        Ok(memory)
    };
    (0..world).map(memory).collect()
}

/// A call from byte `input` to byte `output` of the memories, on `streams` or else on the memories' own.
fn call(
    comm: &mut Communicator,
    memories: &[Box<dyn Memory>],
    (input, output): (usize, usize),
    streams: Option<&[Stream]>,
    options: &CallOptions,
) -> Result<()> {
    let elems = memories[0].bytes() / DTYPE.bytes() / 2;
    let buffers = memories.iter().enumerate().map(|(rank, memory)| {
        let Some(stream) = streams.map_or(memory.stream(), |streams| streams.get(rank)) else {
            bail!("rank {rank} has no stream");
        };
        let [input, output] = [input, output].map(|offset| memory.address() + offset as u64);
        // SAFETY: the memories live until the streams have been waited for, and calls on them are ordered.
        Ok(unsafe { RankBuffers::<f32>::device_raw(input, output, elems as u64, stream.as_inner().cast()) })
    });
    comm.all_reduce_with(&buffers.collect::<Result<Vec<_>>>()?, ReduceOp::Sum, options)?;
    Ok(())
}

fn outputs_are(memories: &[Box<dyn Memory>], want: f64) -> Result<()> {
    for (rank, memory) in memories.iter().enumerate() {
        let mut image = vec![0; memory.bytes()];
        memory.download(&mut image)?;
        let output = &image[image.len() / 2..];
        for elem in 0..output.len() / DTYPE.bytes() {
            let got = decode(DTYPE, read(DTYPE, output, elem));
            ensure!(got == want, "rank {rank}, element {elem}: {got}, not {want}");
        }
    }
    Ok(())
}

/// The sum of what [`memories`] of `world` ranks hold.
fn sum(world: usize) -> f64 {
    (world * (world + 1) / 2) as f64
}

pub(super) fn b29_chained_streams(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("CPU ranks have no streams".into()));
    }
    // Streams beyond the hardware's queues share them: a pair of streams for each of four ranks at most.
    for world in bench.worlds().take(4) {
        let elems = 10_000;
        let output = elems * DTYPE.bytes();
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, output))?;
        let memories = memories(bench.machine, world, elems)?;
        let others = streams(bench.machine, world, 1)?.remove(0);
        memories[world - 1].delay()?;
        call(&mut comm, &memories, (0, output), None, &CallOptions::default())?;
        comm.change_streams(&own(&memories), &raw(&others))?;
        call(&mut comm, &memories, (output, output), Some(&others), &CallOptions::default())?;
        others.iter().try_for_each(Stream::synchronize)?;
        comm.check()?;
        outputs_are(&memories, world as f64 * sum(world)).with_context(|| format!("{world} ranks"))?;
        bench.count(2);
    }
    Ok(Outcome::Holds)
}

pub(super) fn b27_b29_b30_other_streams(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("CPU ranks have no streams".into()));
    }
    for world in bench.worlds().take(4) {
        let elems = 10_000;
        let output = elems * DTYPE.bytes();
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, output))?;
        let memories = memories(bench.machine, world, elems)?;
        let others = streams(bench.machine, world, 1)?.remove(0);
        let mut want = sum(world);
        call(&mut comm, &memories, (0, output), Some(&others), &CallOptions::default())?;
        // A rank's own stream is late now and then, each time another rank's: calls on the other streams have nothing before
        // them but what the library puts there.
        for turn in 0..6 {
            let (here, from, to) = match turn % 2 {
                0 => (None, raw(&others), own(&memories)),
                _ => (Some(&others[..]), own(&memories), raw(&others)),
            };
            // Neither without a word, nor by a wrong one.
            let error = call(&mut comm, &memories, (output, output), here, &CallOptions::default());
            is_refused(&error.map_err(|error| error.downcast()))?;
            is_refused(&comm.change_streams(&to, &from).map_err(Ok))?;
            comm.change_streams(&from, &to)?;
            if here.is_none() {
                memories[turn / 2 % world].delay()?;
            }
            call(&mut comm, &memories, (output, output), here, &CallOptions::default())?;
            want *= world as f64;
        }
        comm.change_streams(&raw(&others), &own(&memories))?;
        // What is captured on other streams than the last waits for nothing, and takes no turn.
        memories[0].delay()?;
        call(&mut comm, &memories, (output, output), None, &CallOptions::default())?;
        let graphs = Graph::capture_all(&raw(&others), || {
            call(&mut comm, &memories, (output, output), Some(&others), &CallOptions::default())
        })?;
        call(&mut comm, &memories, (output, output), None, &CallOptions::default())?;
        memories.iter().try_for_each(|memory| memory.synchronize())?;
        for (rank, (graph, stream)) in graphs.iter().zip(&others).enumerate() {
            bench.machine.make_current(rank)?;
            // SAFETY: communicator and memories live until the streams have been waited for.
            unsafe { graph.launch(stream) }?;
        }
        others.iter().try_for_each(Stream::synchronize)?;
        want *= (world * world * world) as f64;
        want *= graphs_take_turns(&mut comm, &memories, &others, output)?;
        comm.check()?;
        outputs_are(&memories, want).with_context(|| format!("{world} ranks"))?;
        // Streams that are gone are not asked.
        drop(others);
        comm.finish()?;
        let others = streams(bench.machine, world, 1)?.remove(0);
        call(&mut comm, &memories, (0, output), Some(&others), &CallOptions::default())?;
        others.iter().try_for_each(Stream::synchronize)?;
        drop(others);
        let error = call(&mut comm, &memories, (0, output), None, &CallOptions::default());
        is_refused(&error.map_err(|error| error.downcast()))?;
        bench.count(10);
    }
    Ok(Outcome::Holds)
}

/// Two graphs of one communicator, whose last call came on the memories' own streams: on others neither is replayed. By how much
/// the outputs grow.
fn graphs_take_turns(
    comm: &mut Communicator,
    memories: &[Box<dyn Memory>],
    others: &[Stream],
    output: usize,
) -> Result<f64> {
    let mut capture = || {
        let other = |error: anyhow::Error| error.downcast().unwrap_or(Error::Ended("an error of another library"));
        comm.capture(&own(memories), |comm| {
            call(comm, memories, (output, output), None, &CallOptions::default()).map_err(other)
        })
    };
    let graphs = [capture()?, capture()?];
    for turn in 0..4 {
        // SAFETY: memories and communicator live until the streams have been waited for, by whoever calls this too.
        let done = unsafe { comm.replay(&graphs[turn % 2], &raw(others)) };
        is_refused(&done.map_err(Ok))?;
        // SAFETY: as above.
        unsafe { comm.replay(&graphs[turn % 2], &own(memories)) }?;
    }
    memories.iter().try_for_each(|memory| memory.synchronize())?;
    Ok((memories.len() as f64).powi(4))
}

fn is_refused(done: &std::result::Result<(), std::result::Result<Error, anyhow::Error>>) -> Result<()> {
    ensure!(matches!(done, Err(Ok(Error::OtherStream { rank: 0 }))), "{done:?}");
    Ok(())
}

/// The memories' own streams.
fn own(memories: &[Box<dyn Memory>]) -> Vec<RawStream<'_>> {
    memories.iter().filter_map(|memory| memory.stream()).map(RawStream::from).collect()
}

fn raw(streams: &[Stream]) -> Vec<RawStream<'_>> {
    streams.iter().map(RawStream::from).collect()
}

/// `count` sets of streams, each with one a rank.
fn streams(machine: &dyn Machine, world: usize, count: usize) -> Result<Vec<Vec<Stream>>> {
    let mut sets: Vec<_> = (0..count).map(|_| Vec::new()).collect();
    for rank in 0..world {
        for (set, stream) in sets.iter_mut().zip(machine.streams(rank, count)?) {
            set.push(stream);
        }
    }
    Ok(sets)
}

pub(super) fn b27_b35_b47_communicators_at_once(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("a call on CPU ranks is done when it returns".into()));
    }
    let most = bench.machine.most_ranks();
    if most < 2 {
        return Ok(Outcome::Skipped(format!("2 ranks needed, {most} there")));
    }
    // Two that take all they can get, and four that take what they choose.
    at_once(bench, 2, true).context("2 communicators with the largest grids")?;
    at_once(bench, 4, false).context("4 communicators as they choose")?;
    room_runs_out(bench)?;
    Ok(Outcome::Holds)
}

/// Communicators until there is no room for another: all of them work, and one that goes makes room.
fn room_runs_out(bench: &Bench) -> Result<()> {
    let make = || bench.machine.communicator(2, bench.options(Preset::Allfold, 1 << 14));
    let mut comms = Vec::new();
    let error = loop {
        ensure!(comms.len() < 1000, "there is room for 1000 communicators");
        match make() {
            Ok(comm) => comms.push(comm),
            Err(error) => break error,
        }
    };
    let Error::NotResident { ranks, free, .. } = error else { return Err(error).context("when room runs out") };
    ensure!((1..=2).contains(&ranks) && free <= 2 * ranks, "{error:?}");
    for comm in &mut comms {
        bench.run(comm, &[Call::new(DTYPE, 3000)])?;
    }
    // The first has most.
    drop(comms.remove(0));
    bench.run(&mut make().context("after one has gone")?, &[Call::new(DTYPE, 3000)])
}

/// Algorithms whose kernels have different numbers of registers.
const LARGEST: [Algorithm; 3] = [Algorithm::TwoShotPush, Algorithm::Exchange, Algorithm::OneShotPush];

/// Communicators of two ranks, each on streams of its own. Half of them have to wait for their first rank, half for their
/// second: if the ranks that came take all the room, those that are waited for have none. Each has several calls under way, by
/// kernels of different size: while one runs, the next one may be early.
fn at_once(bench: &Bench, count: usize, largest: bool) -> Result<()> {
    let elems = 2 << 20;
    let output = elems * DTYPE.bytes();
    let streams = streams(bench.machine, 2, count)?;
    // Long enough to tell a wait from a deadlock.
    let timeout = Some(Duration::from_secs(2));
    let options = Options { timeout, ..bench.options(Preset::Allfold, output) };
    let mut comms = Vec::new();
    for _ in 0..count {
        match bench.machine.communicator(2, options.clone()) {
            Ok(comm) => comms.push(comm),
            // To refuse what could lock the others out is right as well.
            Err(Error::NotResident { .. }) if !comms.is_empty() => {
                bench.count(1);
                return Ok(());
            }
            Err(error) => return Err(error).context("making a communicator beside others"),
        }
    }
    let all = (0..count).map(|_| memories(bench.machine, 2, elems)).collect::<Result<Vec<_>>>()?;
    for (number, memories) in all.iter().enumerate() {
        let late = usize::from(number < count / 2);
        memories[late].delay()?;
        bench.machine.chain(late, &streams[number][late])?;
    }
    for (number, ((comm, memories), streams)) in comms.iter_mut().zip(&all).zip(&streams).enumerate() {
        let limits = *comm.limits();
        for turn in 0..LARGEST.len() {
            let algorithm = LARGEST[(number + turn) % LARGEST.len()];
            let (blocks, threads) = (Some(limits.max_blocks), Some(limits.threads_of(algorithm)));
            let largest = largest.then_some(CallOptions {
                algorithm: Some(algorithm),
                blocks,
                threads,
                ..CallOptions::default()
            });
            call(comm, memories, (0, output), Some(streams), &largest.unwrap_or_default())?;
        }
    }
    streams.iter().flatten().try_for_each(Stream::synchronize)?;
    for (comm, memories) in comms.iter().zip(&all) {
        comm.check()?;
        outputs_are(memories, sum(2))?;
        bench.count(1);
    }
    Ok(())
}
