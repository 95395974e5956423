//! What a trace tells of calls is what happened in them.

use allfold::{BlockTrace, Dtype, Error, Options, Phase, PhaseTrace, Preset};
use anyhow::{Context, Result, ensure};

use crate::call::Call;
use crate::suite::{Bench, Outcome};

/// Parts of up to eight ranks are equal: then whatever a block waits for, it waits for something of each of its namesakes.
const ELEMS: usize = 8 * 840;
/// What ranks wait at least for one that is late: a part of what it is late by.
const LATE_NS: u64 = 500_000;

pub(super) fn traced(bench: &Bench) -> Result<Outcome> {
    let most = bench.machine.most_ranks();
    if most < 2 {
        return Ok(Outcome::Skipped(format!("2 ranks needed, {most} there")));
    }
    for world in bench.worlds().filter(|&world| world > 1) {
        let untraced = bench.communicator(world, bench.options(Preset::Allfold, 1 << 14))?;
        let error = untraced.trace().err().context("a trace that nobody has asked for")?;
        ensure!(matches!(error, Error::NotDeclared { option: "trace", .. }), "{error}");
        drop(untraced);
        for form in bench.forms(Preset::Allfold, world) {
            let options = bench.options(Preset::Allfold, 1 << 14);
            let options = Options { trace: true, dtypes: vec![Dtype::Bf16], ..options };
            let mut comm = bench.communicator(world, options)?;
            ensure!(comm.trace()?.is_empty(), "a trace of no calls");
            let call = Call::new(Dtype::Bf16, ELEMS).by(form);
            let late = |rank| Call { late: Some(rank), ..call };
            let calls = [call, late(0), late(world - 1), call];
            bench.run(&mut comm, &calls)?;
            let traces = comm.trace()?;
            for epoch in 1..=calls.len() as u64 {
                let rank_of = |rank: usize| -> Vec<&BlockTrace> {
                    traces.iter().filter(|block| block.epoch == epoch && block.rank as usize == rank).collect()
                };
                let ranks: Vec<_> = comm.local_ranks().map(|rank| (rank, rank_of(rank))).collect();
                for (rank, blocks) in &ranks {
                    in_order(blocks).with_context(|| format!("rank {rank} of {world} in call {epoch}, {call:?}"))?;
                }
                causal(bench, &ranks).with_context(|| format!("call {epoch} of {world} ranks, {call:?}"))?;
                if let Some(late) = calls[epoch as usize - 1].late.filter(|_| comes_late(bench)) {
                    for (rank, blocks) in ranks.iter().filter(|(rank, _)| *rank != late) {
                        let waited = blocks.iter().flat_map(|block| block.phases).filter_map(waited).max();
                        ensure!(
                            waited.is_some_and(|ns| ns >= LATE_NS),
                            "rank {rank} waited {waited:?} ns for rank {late} in call {epoch}, {call:?}"
                        );
                    }
                }
            }
            ensure!(traces.iter().all(|block| (1..=calls.len() as u64).contains(&block.epoch)), "{call:?}");
        }
    }
    Ok(Outcome::Holds)
}

/// Whether a rank that is made late comes late, and the others in time: on the CPU others may take the processor.
fn comes_late(bench: &Bench) -> bool {
    !bench.on_cpu()
}

fn waited(at: PhaseTrace) -> Option<u64> {
    Some(at.came_ns?.saturating_sub(at.told_ns?))
}

/// All blocks are there, and each has gone through its call from the beginning to the end.
fn in_order(blocks: &[&BlockTrace]) -> Result<()> {
    ensure!(!blocks.is_empty(), "no block");
    let mut met = false;
    for (number, block) in blocks.iter().enumerate() {
        ensure!(block.block as usize == number, "{block:?} is the one of number {number}");
        let ended = block.ended_ns.context("a block that did not end")?;
        ensure!(block.began_ns <= ended, "{block:?}");
        for at in block.phases {
            met |= at.came_ns.is_some();
            if let (Some(told), Some(came)) = (at.told_ns, at.came_ns) {
                ensure!(told <= came && came <= ended, "{block:?}");
            }
        }
    }
    ensure!(met, "no block waited for anything: {blocks:?}");
    Ok(())
}

/// Nothing came before it was told, on ranks that have one clock.
fn causal(bench: &Bench, ranks: &[(usize, Vec<&BlockTrace>)]) -> Result<()> {
    let one_clock = bench.machine.devices().is_none_or(|devices| devices.windows(2).all(|pair| pair[0] == pair[1]));
    for phase in Phase::ALL.into_iter().filter(|_| one_clock) {
        let first = |blocks: &[&BlockTrace], of: fn(&PhaseTrace) -> Option<u64>| {
            blocks.iter().filter_map(|block| of(&block.phases[phase as usize])).min()
        };
        for ((a, told), (b, came)) in ranks.iter().flat_map(|one| ranks.iter().map(move |other| (one, other))) {
            if let (true, Some(told), Some(came)) = (a != b, first(told, |at| at.told_ns), first(came, |at| at.came_ns))
            {
                ensure!(told <= came, "{phase:?}: rank {a} told at {told} what had come to rank {b} at {came}");
            }
        }
    }
    Ok(())
}
