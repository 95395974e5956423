//! Lengths: all the small ones, the neighbours of powers of two, the ones that others failed at, and a huge one.

use allfold::{Algorithm, Dtype, Options, Preset};
use anyhow::Result;

use crate::call::Call;
use crate::data::{Data, mix};
use crate::machine::buffers;
use crate::suite::{Bench, Outcome, in_place};

/// Calls of one length in every form, out of place and where allowed in place.
fn all_forms(bench: &Bench, world: usize, call: Call) -> impl Iterator<Item = Call> {
    bench.forms(Preset::Allfold, world).into_iter().flat_map(move |form| {
        let call = call.by(form);
        [Some(call), in_place(form).then_some(Call { in_place: true, ..call })].into_iter().flatten()
    })
}

pub(super) fn b23_b85_b86_small_lengths(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 2048))?;
        for dtype in Options::DTYPES {
            // Quick: every length in each form, out of place and in place in turn.
            let kept =
                |call: &Call| !bench.quick || !in_place_allowed(call) || call.in_place == call.elems.is_multiple_of(2);
            let calls: Vec<_> =
                (0..=300).flat_map(|elems| all_forms(bench, world, Call::new(dtype, elems))).filter(kept).collect();
            bench.run(&mut comm, &calls)?;
        }
    }
    Ok(Outcome::Holds)
}

fn in_place_allowed(call: &Call) -> bool {
    call.options.algorithm.zip(call.options.input).is_some_and(in_place)
}

pub(super) fn b85_lengths_by_powers(bench: &Bench) -> Result<Outcome> {
    // Up to here every form at every length; beyond, the forms take turns.
    let every_form_to = if bench.quick { 11 } else { 14 };
    let last = match (bench.on_cpu(), bench.quick) {
        (true, true) => 16,
        (true, false) | (false, true) => 18,
        (false, false) => 22,
    };
    for world in bench.worlds() {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, (4 << last) + 64))?;
        let mut turn = world;
        for power in 8..=last {
            let base = 1usize << power;
            for dtype in Options::DTYPES {
                for elems in [base - 1, base, base + 1] {
                    let calls: Vec<_> = all_forms(bench, world, Call::new(dtype, elems)).collect();
                    if power <= every_form_to {
                        bench.run(&mut comm, &calls)?;
                    } else {
                        bench.run(&mut comm, &calls[turn % calls.len()..][..1])?;
                        turn += 1;
                    }
                }
            }
        }
    }
    Ok(Outcome::Holds)
}

pub(super) fn b16_b17_b19_b23_b56_b109_sizes_others_failed_at(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 128 << 10))?;
        // Not a multiple of 128 bytes; odd multiples of 24; fewer elements than ranks.
        let mut sizes_bytes = vec![2, 4, 6, 14, 16, 24, 48, 96, 112, 126, 128, 130, 144, 192, 384, 2064, 6144];
        sizes_bytes.extend([1, 7, 63, 500].map(|k| 128 * k + 2));
        // The data of whole packs a rank, and one element more.
        sizes_bytes.extend([1, 7, 100].map(|k| 16 * world * k + 4));
        // 4096 elements of 16 bits and of 32; and any.
        sizes_bytes.extend([4096, 8192]);
        sizes_bytes.extend((0..8).map(|n| ((mix(17, world as u64, n) as usize % (16 << 10)) >> (n % 7)) & !3));
        let mut calls = Vec::new();
        for (turn, &bytes) in sizes_bytes.iter().enumerate() {
            for dtype in Options::DTYPES {
                let elems = bytes / dtype.bytes();
                calls.extend(all_forms(
                    bench,
                    world,
                    Call { data: Data::Ramp(turn as u64), ..Call::new(dtype, elems) },
                ));
            }
        }
        bench.run(&mut comm, &calls)?;
    }
    Ok(Outcome::Holds)
}

pub(super) fn b59_b114_huge(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("needs 9 GB of GPU memory a rank".into()));
    }
    let elems = (1usize << 32) + 17;
    let bytes = elems * Dtype::Bf16.bytes();
    let world = bench.machine.most_ranks().min(2);
    let memories = (0..world).map(|rank| bench.machine.memory(rank, bytes)).collect::<Result<Vec<_>>>();
    let memories = match memories {
        Ok(memories) => memories,
        Err(error) => return Ok(Outcome::Skipped(format!("too little GPU memory: {error:#}"))),
    };
    let mut options = bench.options(Preset::Allfold, bytes);
    options.dtypes = vec![Dtype::Bf16];
    options.algorithms = vec![Algorithm::TwoShot];
    options.landing_bytes = None;
    options.inputs = vec![allfold::InputMode::Registered];
    options.stamps = true;
    let mut comm = bench.communicator(world, options)?;
    // SAFETY: in place, and everything below is put into each rank's one stream.
    let all: Vec<_> = memories.iter().map(|m| unsafe { buffers::<half::bf16>(&**m, 0, 0, elems) }).collect();
    comm.fill_stamps(&all)?;
    comm.all_reduce(&all, allfold::ReduceOp::Sum)?;
    comm.check_stamps(&all)?;
    memories.iter().try_for_each(|memory| memory.synchronize())?;
    comm.check()?;
    anyhow::ensure!(comm.wrong()?.iter().all(|&wrong| wrong == 0), "wrong elements by rank: {:?}", comm.wrong()?);
    bench.count(elems as u64);
    Ok(Outcome::Holds)
}
