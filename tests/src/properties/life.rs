//! Life: communicators made and dropped, dropped at work, and at rest.

use std::fs;
use std::time::{Duration, Instant};

use allfold::{CallOptions, Dtype, Options, Preset, ReduceOp};
use anyhow::{Context, Result, ensure};
use cust::memory::mem_get_info;

use crate::call::Call;
use crate::data::{Data, mix};
use crate::machine::buffers;
use crate::numbers::{decode, read};
use crate::suite::{Bench, Outcome};

/// Bytes that the driver may keep after communicators have come and gone.
const KEPT_BYTES: usize = 8 << 20;

pub(super) fn b33_b40_b96_made_and_dropped(bench: &Bench) -> Result<Outcome> {
    let (times, small) = match (bench.on_cpu(), bench.quick) {
        (true, true) => (200, false),
        (true, false) => (1000, false),
        (false, true) => (20, true),
        (false, false) => (1000, true),
    };
    let worlds: Vec<_> = bench.worlds().collect();
    let (mut before, mut place) = (None, 0);
    for turn in 0..times {
        let world = worlds[turn % worlds.len()];
        let mut options = bench.options(Preset::Allfold, 4096);
        if small {
            options.dtypes = vec![Dtype::F32];
        }
        // Each process comes at another time, and goes on at another; of threads the one that drives them does.
        let pause = |what, rank| std::thread::sleep(Duration::from_micros(mix(what, rank, turn as u64) % 1500));
        pause(1, place);
        let mut comm = bench.communicator(world, options)?;
        place = comm.local_ranks().start as u64;
        pause(2, place);
        let forms = bench.forms(Preset::Allfold, world);
        let data = Data::Ramp(turn as u64);
        bench.run(&mut comm, &[Call { data, ..Call::new(Dtype::F32, 100).by(forms[turn % forms.len()]) }])?;
        // Two alive at once, now and then.
        if turn % 10 == 9 {
            let mut second = bench.communicator(world, bench.options(Preset::Allfold, 4096))?;
            bench.run(&mut second, &[Call::new(Dtype::F32, 33)])?;
            bench.run(&mut comm, &[Call::new(Dtype::F32, 34)])?;
        }
        let busy = threads(bench)?;
        let local = comm.local_ranks().len();
        ensure!(!bench.on_cpu() || busy >= local, "{local} CPU ranks have {busy} threads of the library's name");
        drop(comm);
        let free_bytes = if bench.on_cpu() { 0 } else { mem_get_info()?.0 };
        // What the driver makes for the process shows in the first turns.
        let (most_threads, least_bytes, most_descriptors) = match before {
            None if turn < times / 2 => continue,
            None => *before.insert((threads(bench)?, free_bytes.saturating_sub(KEPT_BYTES), descriptors()?)),
            Some(before) => before,
        };
        let open = descriptors()?;
        ensure!(open <= most_descriptors, "turn {turn}: {open} file descriptors, {most_descriptors} before");
        ensure!(free_bytes >= least_bytes, "turn {turn}: {free_bytes} bytes free, {least_bytes} and more before");
        // A thread that has been joined may be listed for a moment still.
        let end = Instant::now() + Duration::from_secs(2);
        while threads(bench)? > most_threads {
            ensure!(Instant::now() < end, "turn {turn}: {} threads, {most_threads} before", threads(bench)?);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(Outcome::Holds)
}

/// Open file descriptors of this process.
fn descriptors() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/fd").context("counting descriptors")?.count())
}

/// Threads of CPU ranks, by their name; on GPUs all threads of this process.
fn threads(bench: &Bench) -> Result<usize> {
    let mut count = 0;
    for task in fs::read_dir("/proc/self/task").context("counting threads")? {
        // One that ends meanwhile has no name.
        let name = fs::read_to_string(task?.path().join("comm")).unwrap_or_default();
        count += usize::from(!bench.on_cpu() || name.starts_with("allfold"));
    }
    Ok(count)
}

pub(super) fn b70_dropped_in_flight(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("a call on CPU ranks is done when it returns".into()));
    }
    const ELEMS: usize = 1 << 20;
    let world = bench.machine.most_ranks();
    for (algorithm, input) in bench.forms(Preset::Allfold, world) {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 4 * ELEMS))?;
        let mut memories = (0..world).map(|rank| bench.machine.memory(rank, 8 * ELEMS)).collect::<Result<Vec<_>>>()?;
        for memory in &mut memories {
            memory.upload(bytemuck::cast_slice(&vec![1f32; ELEMS]))?;
        }
        memories[world - 1].delay()?;
        // SAFETY: the streams are waited for before the memories go.
        let all: Vec<_> = memories.iter().map(|m| unsafe { buffers::<f32>(&**m, 0, 4 * ELEMS, ELEMS) }).collect();
        let options = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
        comm.all_reduce_with(&all, ReduceOp::Sum, &options)?;
        drop(comm);
        for (rank, memory) in memories.iter().enumerate() {
            let mut got = vec![0; 8 * ELEMS];
            memory.download(&mut got)?;
            for elem in 0..ELEMS {
                let sum = decode(Dtype::F32, read(Dtype::F32, &got[4 * ELEMS..], elem));
                ensure!(sum == world as f64, "{algorithm:?} {input:?}: rank {rank}, element {elem}: {sum}");
            }
        }
        bench.count(world as u64);
    }
    Ok(Outcome::Holds)
}

pub(super) fn b118_idle(bench: &Bench) -> Result<Outcome> {
    const REST: Duration = Duration::from_secs(2);
    let world = bench.machine.most_ranks();
    let options = Options { cpu_shape: (2, 1), ..bench.options(Preset::Allfold, 4096) };
    let mut comm = bench.communicator(world, options)?;
    bench.run(&mut comm, &[Call::new(Dtype::F32, 1000)])?;
    std::thread::sleep(Duration::from_millis(100));
    let Some(before) = processor_time() else {
        return Ok(Outcome::Skipped("this kernel does not say how long threads have run".into()));
    };
    std::thread::sleep(REST);
    let used = processor_time().context("the time was there before")?.saturating_sub(before);
    let percent = 100.0 * used.as_secs_f64() / REST.as_secs_f64();
    ensure!(percent < 1.0, "{world} idle ranks use {percent:.2} % of a core");
    bench.run(&mut comm, &[Call::new(Dtype::F32, 1001)])?;
    Ok(Outcome::Holds)
}

/// Processor time of all threads of this process.
fn processor_time() -> Option<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanoseconds))
}
