//! Cells whose ranks are threads, each with a communicator of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use allfold::cuda::Device;
use allfold::rendezvous;
use anyhow::{Context, Result, ensure};

use super::{Cell, Facts, Ground, Report, Watchdog, matrix};

/// Runs `cell` with a thread for each rank, on what `grounds` say in turn. What each rank that is left got.
///
/// # Errors
/// What any of them says.
pub fn run(cell: Cell, grounds: &[Ground]) -> Result<Vec<Facts>> {
    let seats = rendezvous::local(cell.world)?;
    std::thread::scope(|scope| {
        let on = grounds.iter().copied().cycle();
        let ranks: Vec<_> = seats
            .into_iter()
            .zip(on)
            .map(|(seat, ground)| {
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    (cell.run(&seat, ground, None, &mut kept), kept)
                })
            })
            .collect();
        // The memories go when all have ended.
        let (outcomes, _kept): (Vec<_>, Vec<_>) = ranks
            .into_iter()
            .map(|rank| rank.join().unwrap_or_else(|_| (Err(anyhow::anyhow!("it panicked")), Vec::new())))
            .unzip();
        let failed: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        let failed: Vec<_> = failed.iter().map(|error| format!("{error:#}")).collect();
        ensure!(failed.is_empty(), "{}", failed.join("; "));
        Ok(outcomes.into_iter().flatten().flatten().collect())
    })
}

/// Runs cells of ranks on CPUs, several at a time: ranks wait most of the time.
pub fn on_cpu(cells: &[Cell], report: &Report, watchdog: &Watchdog) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(&cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run_one(cell, &[Ground::Cpu], report, watchdog);
                }
            });
        }
    });
}

/// Runs cells of two ranks, each on a GPU of its own, one after the other: whoever leaves a communicator waits for all kernels of its
/// GPU, and those of another cell may wait for ranks that wait here.
///
/// # Errors
/// The GPUs cannot be had.
pub fn on_gpus(gpus: [u32; 2], cells: &[Cell], end: Instant, report: &Report, watchdog: &Watchdog) -> Result<()> {
    let grounds = gpus.map(Ground::Gpu);
    // Kept, so that no cell has to make them.
    let _contexts = gpus.iter().map(|&gpu| Ok(Device::get(gpu)?.context()?)).collect::<allfold::Result<Vec<_>>>()?;
    for (number, &cell) in cells.iter().enumerate() {
        if Instant::now() > end || report.gives_up() {
            report.not_run(cells.len() - number);
            break;
        }
        run_one(cell, &grounds, report, watchdog);
    }
    Ok(())
}

fn run_one(cell: Cell, grounds: &[Ground], report: &Report, watchdog: &Watchdog) {
    report.run(watchdog, cell.fault.name(), &format!("{cell:?}"), || run(cell, grounds));
}

/// What a driver has to compile is compiled before anything is timed.
///
/// # Errors
/// A communicator cannot be made.
pub fn warm(gpus: [u32; 2]) -> Result<Duration> {
    let begun = Instant::now();
    let cell = matrix::of_gpu_pairs()[0];
    for world in [1, 2] {
        let cell = Cell { world, ..cell };
        let seats = rendezvous::local(world)?;
        std::thread::scope(|scope| {
            let ranks: Vec<_> = seats
                .into_iter()
                .zip(gpus)
                .map(|(seat, gpu)| {
                    let ground = Ground::Gpu(gpu);
                    scope.spawn(move || ground.connect(&seat, cell.options(ground)).map(drop))
                })
                .collect();
            ranks.into_iter().try_for_each(|rank| match rank.join() {
                Ok(made) => made.context("making a first communicator"),
                Err(_) => Err(anyhow::anyhow!("making a first communicator panicked")),
            })
        })?;
    }
    Ok(begun.elapsed())
}
