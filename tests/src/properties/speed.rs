//! Speed, with wide bounds: what is wrong in kind, and not a little slower than yesterday. The bench measures.

use std::time::Instant;

use allfold::{Algorithm, CallOptions, Communicator, Dtype, Preset, RankBuffers, ReduceOp};
use anyhow::{Context, Result, ensure};

use crate::machine::Memory;
use crate::suite::{Bench, Outcome};

/// Calls of a burst; of several, the fastest counts.
const BURST: u32 = 50;
const BURSTS: u32 = 20;
/// What a call of 256 KiB or less may take, in µs, with the launches of both ranks by one thread.
const MOST_SMALL_US: f64 = 60.0;
/// What is chosen may be slower than the best by a tenth, and by what a clock of the host is off.
const MOST_TIMES: f64 = 1.1;
const MOST_MORE_US: f64 = 1.0;

/// Time of a call, in µs, among many that follow each other.
fn time_us(comm: &mut Communicator, memories: &[Box<dyn Memory>], bytes: usize, options: &CallOptions) -> Result<f64> {
    let half = (memories[0].bytes() / 2) as u64;
    let mut buffers = Vec::new();
    for memory in memories {
        let stream = memory.stream().context("a rank's memory has a stream")?.as_inner().cast();
        let (from, elems) = (memory.address(), (bytes / Dtype::Bf16.bytes()) as u64);
        // SAFETY: the memories live until their streams have been waited for, and all calls are in one stream a rank.
        buffers.push(unsafe { RankBuffers::<half::bf16>::device_raw(from, from + half, elems, stream) });
    }
    let mut best = f64::INFINITY;
    for _ in 0..BURSTS {
        let begun = Instant::now();
        for _ in 0..BURST {
            comm.all_reduce_with(&buffers, ReduceOp::Sum, options)?;
        }
        memories.iter().try_for_each(|memory| memory.synchronize())?;
        best = best.min(begun.elapsed().as_secs_f64() * 1e6 / f64::from(BURST));
    }
    comm.check()?;
    Ok(best)
}

pub(super) fn b114_b117_speed(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("CPU ranks share cores: their times say nothing".into()));
    }
    let devices = bench.machine.devices().context("ranks on GPUs")?;
    if devices.len() < 2 || devices[0] == devices[1] {
        return Ok(Outcome::Skipped("two GPUs needed".into()));
    }
    const MOST_BYTES: usize = 64 << 20;
    let mut comm = bench.communicator(2, bench.options(Preset::Allfold, MOST_BYTES))?;
    let memories = (0..2).map(|rank| bench.machine.memory(rank, 2 * MOST_BYTES)).collect::<Result<Vec<_>>>()?;
    for bytes in (7..=26).map(|power| 1_usize << power) {
        let chosen = time_us(&mut comm, &memories, bytes, &CallOptions::default())?;
        ensure!(bytes > 256 << 10 || chosen <= MOST_SMALL_US, "{bytes} bytes took {chosen:.1} µs");
        let mut forced = f64::INFINITY;
        for algorithm in [Algorithm::OneShot, Algorithm::TwoShot] {
            let options = CallOptions { algorithm: Some(algorithm), ..CallOptions::default() };
            forced = forced.min(time_us(&mut comm, &memories, bytes, &options)?);
        }
        // Once more where the host had other things to do the first time.
        let chosen = chosen.min(time_us(&mut comm, &memories, bytes, &CallOptions::default())?);
        let most = MOST_TIMES * forced + MOST_MORE_US;
        ensure!(chosen <= most, "{bytes} bytes: {chosen:.2} µs, and {forced:.2} by a one-shot or a two-shot");
        bench.count(3);
    }
    Ok(Outcome::Holds)
}
