//! Refusals of grids, of communicators that cannot be, and of memory and streams of the wrong kind.

use std::process::Command;

use allfold::{CallOptions, Communicator, Dtype, Error, InputMode, MAX_BLOCKS, Options, Preset, RankBuffers, ReduceOp};
use anyhow::{Context, Result, ensure};

use super::setup::{Setup, refused};
use super::{F32, each_world};
use crate::machine::CudaMachine;
use crate::suite::{Bench, Outcome};

pub(in crate::properties) fn b35_refused_grids(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        let (most_blocks, most_threads) = (MAX_BLOCKS as u32, 1024);
        for shape in [(0, 1), (1, 0), (most_blocks + 1, 1), (1, most_threads + 1), (u32::MAX, u32::MAX)] {
            let options = Options { cpu_shape: shape, ..bench.options(Preset::Allfold, 4096) };
            let error = refusal(bench.machine.communicator(1, options))?;
            refused!(error, Error::Grid { blocks: b, threads: t, max_blocks: mb, max_threads: mt }
                if ((b, t), mb, mt) == (shape, most_blocks, most_threads));
        }
    }
    each_world(bench, |setup, _, world| {
        let options = Options { cpu_shape: (3, 2), ..bench.options(Preset::Allfold, 4096) };
        let mut comm = bench.communicator(world, options.clone())?;
        let limits = *comm.limits();
        ensure!((1..=MAX_BLOCKS as u32).contains(&limits.max_blocks), "{limits:?}");
        let (most_blocks, most_threads) = (limits.max_blocks, limits.threads_of_all());
        let too_many = [(0, 1), (1, 0), (most_blocks + 1, 1), (2 * most_blocks, 1), (1, 1025)];
        for (blocks, threads) in too_many.into_iter().chain([(u32::MAX, u32::MAX)]) {
            let call = grid(blocks, threads);
            let error = setup.refused_with(bench, &mut comm, F32, |_| {}, call)?;
            refused!(error, Error::Grid { blocks: b, threads: t, max_blocks: mb, max_threads: mt }
                if (b, t, mb) == (blocks, threads, most_blocks) && limits.max_threads.contains(&mt));
        }
        setup.accepted(bench, &mut comm, F32, |_| {}, grid(most_blocks, most_threads))?;

        // An option that allows fewer.
        let mut comm = bench.communicator(world, Options { max_blocks: Some(2), ..options })?;
        let error = setup.refused_with(bench, &mut comm, F32, |_| {}, grid(3, 1))?;
        refused!(error, Error::Grid { blocks: 3, threads: 1, max_blocks: 2, .. });
        setup.accepted(bench, &mut comm, F32, |_| {}, grid(2, 1))
    })
}

fn grid(blocks: u32, threads: u32) -> CallOptions {
    CallOptions { blocks: Some(blocks), threads: Some(threads), ..CallOptions::default() }
}

fn refusal(result: allfold::Result<Communicator>) -> Result<Error> {
    result.err().context("a communicator that cannot be was made")
}

pub(in crate::properties) fn b59_b88_refused_makings(bench: &Bench) -> Result<Outcome> {
    for world in [0, 9, 16, 1000] {
        let error = if bench.on_cpu() {
            refusal(Communicator::cpu(world))?
        } else {
            refusal(Communicator::cuda(&vec![0; world]))?
        };
        refused!(error, Error::WorldSize { world: w } if w == world);
        bench.count(1);
    }
    for (protocol, input) in [
        (Preset::Vllm, InputMode::Copied),
        (Preset::Sglang, InputMode::Memcpy),
        (Preset::Trtllm, InputMode::Registered),
    ] {
        let options = Options { protocol, inputs: vec![input], ..Options::default() };
        let error = refusal(bench.machine.communicator(1, options))?;
        refused!(error, Error::NoSuchForm { preset: p, input: i } if (p, i) == (protocol, input));
        bench.count(1);
    }
    // Sizes that overflow, and sizes that no machine has.
    for capacity_bytes in [u64::MAX, u64::MAX - 15, u64::MAX / 2] {
        let inputs = vec![InputMode::Memcpy];
        let options = Options { capacity_bytes, inputs, ..Options::default() };
        let error = refusal(bench.machine.communicator(1, options))?;
        refused!(error, Error::CapacityTooLarge { capacity_bytes: c } if c == capacity_bytes);
        bench.count(1);
    }
    let options = Options { capacity_bytes: 1 << 48, ..Options::default() };
    let error = refusal(bench.machine.communicator(1, options))?;
    ensure!(matches!(error, Error::Host { .. } | Error::Driver(_)), "{error:?} for 2^48 bytes");

    if CudaMachine::count() == 0 {
        let error = refusal(Communicator::cuda(&[0]))?;
        refused!(error, Error::DriverMissing(_) | Error::NoSuchDevice { ordinal: 0, count: 0 });
    } else {
        let none = CudaMachine::count();
        let error = refusal(Communicator::cuda(&[0, none]))?;
        refused!(error, Error::NoSuchDevice { ordinal, count } if (ordinal, count) == (none, none));
    }
    bench.count(1);
    Ok(Outcome::Holds)
}

/// The driver reads the variable when it starts, so this needs a process of its own.
pub(in crate::properties) fn b38_launches_that_block(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("CPU ranks are not launched by a driver".into()));
    }
    for filter in ["empty_calls", "small_lengths"] {
        let mut suite = Command::new(std::env::current_exe()?);
        suite.args(["--backend", "cuda", "--devices", "0,0", "--quick", "--filter", filter]);
        let said = suite.env("CUDA_LAUNCH_BLOCKING", "1").output()?;
        let text = String::from_utf8_lossy(&said.stdout);
        ensure!(said.status.code() == Some(1) && text.contains("CUDA_LAUNCH_BLOCKING"), "blocking launches: {text}");
        bench.count(1);
    }
    Ok(Outcome::Holds)
}

pub(in crate::properties) fn b48_refused_memory(bench: &Bench) -> Result<Outcome> {
    each_world(bench, |setup, comm, world| {
        // On one rank only, and on all.
        for first in [0, world - 1] {
            let mut host = [[0f32; 200]; 8];
            let wrong: Vec<_> = host
                .iter_mut()
                .map(|host| {
                    let address = host.as_mut_ptr() as u64;
                    if bench.on_cpu() {
                        // SAFETY: refused, so the stream, which is none, is never used.
                        return unsafe {
                            RankBuffers::<f32>::device_raw(address, address + 400, 100, std::ptr::null_mut())
                        };
                    }
                    let (input, output) = host.split_at_mut(100);
                    RankBuffers::new(input, output)
                })
                .map(|buffers| buffers.raw())
                .collect();
            let place = wrong[0].place;
            let error = {
                let mut all = setup.buffers(F32);
                all[first..].iter_mut().for_each(|b| b.place = place);
                // SAFETY: refused; were it not, the addresses are of live memory all the same.
                unsafe { comm.all_reduce_raw(Dtype::F32, &all, ReduceOp::Sum, &CallOptions::default()) }
            };
            let (got, expected) = if bench.on_cpu() { ("device", "CPU ranks") } else { ("host", "GPUs") };
            let error = error.err().context("memory of the wrong kind was taken")?;
            refused!(error, Error::WrongMemory { rank: r, got: g, expected: e }
                if (r as usize, g, e) == (first, got, expected));
            bench.count(1);
        }
        shared_streams(bench, setup, comm, world)
    })
}

/// Ranks on one GPU that would wait for each other in one stream.
fn shared_streams(bench: &Bench, setup: &mut Setup, comm: &mut Communicator, world: usize) -> Result<()> {
    let Some(devices) = bench.machine.devices() else { return Ok(()) };
    for rank in 1..world {
        if devices[rank] != devices[0] {
            continue;
        }
        let error = setup.refused(bench, comm, F32, |all| all[rank].place = all[0].place)?;
        refused!(error, Error::SharedStream { ranks, device } if (ranks, device) == ([0, rank as u32], devices[0]));
    }
    Ok(())
}
