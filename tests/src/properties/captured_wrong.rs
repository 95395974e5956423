//! Captures of which one rank's is not that of the others.

use std::time::{Duration, Instant};

use allfold::{Error, ReduceOp};
use anyhow::{Result, bail, ensure};

use super::captured::{Bed, OUTPUTS, call, streams};
use crate::suite::{Bench, Outcome};

/// Long before anybody gives up waiting for another.
const SOON: Duration = Duration::from_secs(5);

pub(super) fn b78_b79_captured_differently(bench: &Bench) -> Result<Outcome> {
    if !bench.machine.in_processes() {
        return Ok(Outcome::Skipped("in one process a call names the buffers of all ranks".into()));
    }
    let world = bench.machine.most_ranks();
    let mut bed = Bed::new(bench, world, 4 * OUTPUTS as u32)?;
    let last = bed.comm.local_ranks().start + 1 == world;
    for (most, one) in [(&[0, 1, 2][..], &[0, 2, 1][..]), (&[0], &[]), (&[3], &[3, 3])] {
        let captured = bed.capture(if last { one } else { most })?;
        let error = bed.comm.finish_capture();
        ensure!(matches!(error, Err(Error::Disagreement { .. })), "{error:?}");
        drop(captured);
        bench.count(1);
    }
    // The communicator is as good as before.
    let captured = bed.capture(&[0, 3])?;
    bed.comm.finish_capture()?;
    bed.replay(&captured, &[0, 3], 1)?;
    // All have replayed it: nobody's next mistake ends that.
    bed.comm.finish_capture()?;
    // Launched too soon, by this rank or, where that was faster, by another one.
    let error = match bed.capture(&[0]) {
        Ok(early) => bed.replay(&early, &[], 1).expect_err("its buffers are not known"),
        Err(error) => error.into(),
    };
    let error = error.downcast_ref::<Error>();
    ensure!(matches!(error, Some(Error::UnknownBuffers { .. })), "{error:?}");
    let error = bed.comm.finish_capture();
    ensure!(matches!(error, Err(Error::UnknownBuffers { .. })), "{error:?}");
    // Not captured at all.
    let mut bed = Bed::new(bench, world, 1)?;
    let error = call(&mut bed.comm, &bed.memories, 0);
    ensure!(matches!(error, Err(Error::NotCaptured { .. })), "{error:?}");
    bench.count(3);
    Ok(Outcome::Holds)
}

/// One rank cannot capture what the others do. Whether it says so itself or just leaves, all hear why, and at once.
pub(super) fn b53_one_rank_fails(bench: &Bench) -> Result<Outcome> {
    if !bench.machine.in_processes() {
        return Ok(Outcome::Skipped("in one process a capture is that of all ranks".into()));
    }
    let world = bench.machine.most_ranks();
    if world < 2 {
        return Ok(Outcome::Skipped(format!("2 ranks needed, {world} there")));
    }
    // What fails on all ranks costs none of what was captured before.
    let mut bed = Bed::new(bench, world, 4)?;
    let good = bed.capture(&[0, 3])?;
    let failed = bed.comm.capture(&streams(&bed.memories), |comm| comm.all_reduce::<f32>(&[], ReduceOp::Sum));
    ensure!(failed.is_err(), "{failed:?}");
    bed.comm.finish_capture()?;
    bed.replay(&good, &[0, 3], 1)?;
    bench.count(1);
    for (victim, leaves) in [(0, false), (world - 1, false), (world - 1, true)] {
        let mut bed = Bed::new(bench, world, 4)?;
        let own = bed.comm.local_ranks().start == victim;
        // What the others make is refused there, after the first call.
        let memories = &bed.memories;
        let captured = bed.comm.capture(&streams(memories), |comm| {
            call(comm, memories, 0)?;
            if own { comm.all_reduce::<f32>(&[], ReduceOp::Sum) } else { call(comm, memories, 1) }
        });
        ensure!(captured.is_err() == own, "{captured:?}");
        if own && leaves {
            drop(bed);
            bench.count(1);
            continue;
        }
        let refused = Error::RankCount { local: 1, got: 0 }.to_string();
        let begun = Instant::now();
        let error = bed.comm.finish_capture();
        let Err(Error::RankFailed { rank, why }) = &error else { bail!("{error:?}") };
        ensure!(*rank as usize == victim && why.contains("a capture: ") && why.contains(&refused), "{error:?}");
        ensure!(begun.elapsed() < SOON, "{error:?} after {:?}", begun.elapsed());
        bench.count(1);
        if !leaves {
            // The communicator is as good as before.
            let captured = bed.capture(&[0, 3])?;
            bed.comm.finish_capture()?;
            bed.replay(&captured, &[0, 3], 1)?;
        }
    }
    Ok(Outcome::Holds)
}
