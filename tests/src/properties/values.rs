//! Values: sums that depend on the order, bits that must not depend on anything, and numbers at the edges.

use allfold::{Algorithm, Dtype, Options, Preset};
use anyhow::{Context, Result, ensure};

use crate::call::Call;
use crate::data::{Data, EDGES};
use crate::numbers::{decode, encode, read};
use crate::suite::{Bench, Outcome};

/// One call of each form, which must give `want` in every element of every rank.
fn all_are(bench: &Bench, world: usize, dtype: Dtype, elems: usize, data: Data, want: f64) -> Result<()> {
    let mut comm = bench.communicator(world, bench.options(Preset::Allfold, elems * dtype.bytes()))?;
    let calls =
        bench.forms(Preset::Allfold, world).into_iter().map(|form| Call { data, ..Call::new(dtype, elems).by(form) });
    let calls: Vec<_> = calls.collect();
    for (call, outputs) in calls.iter().zip(bench.run_one(&mut comm, &calls)?) {
        for (rank, output) in outputs.iter().enumerate() {
            for elem in 0..elems {
                let got = read(dtype, output, elem);
                let value = decode(dtype, got);
                ensure!(got == encode(dtype, want), "rank {rank}, element {elem}: {value:e}, not {want:e}; {call:?}");
            }
        }
    }
    Ok(())
}

pub(super) fn b107_b110_rank_order(bench: &Bench) -> Result<Outcome> {
    let most = bench.machine.most_ranks();
    if most < 4 {
        return Ok(Outcome::Skipped(format!("4 ranks needed, {most} there")));
    }
    // A sum that starts at its owner's rank gives 0 in some elements.
    let cancels = Data::PerRank([1e8, 1.0, -1e8, 1.0, 0.0, 0.0, 0.0, 0.0]);
    for elems in [1, 4, 33, 1664 * 5, 2048 * 5] {
        all_are(bench, 4, Dtype::F32, elems, cancels, 1.0)?;
    }
    all_are(bench, 4, Dtype::F16, 777, Data::PerRank([2048.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]), 2052.0)?;
    if most >= 8 {
        let adds_up = Data::PerRank([256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        all_are(bench, 8, Dtype::Bf16, 1000, adds_up, 264.0)?;
        for elems in [1, 2, 3, 7] {
            all_are(bench, 8, Dtype::F32, elems, Data::PerRank([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), 36.0)?;
        }
    }
    Ok(Outcome::Holds)
}

pub(super) fn b08_b112_b113_same_bits(bench: &Bench) -> Result<Outcome> {
    // The same data at two shapes: what both have must be the same.
    let (small, large) = if bench.quick { (1664 * 3, 2048 * 3) } else { (1664 * 16, 2048 * 16) };
    for world in bench.worlds() {
        let options = allfold::Options { cpu_shape: (2, 1), ..bench.options(Preset::Allfold, large * 4) };
        let mut comm = bench.communicator(world, options)?;
        for dtype in Options::DTYPES {
            let mut calls = Vec::new();
            for elems in [small, large] {
                for form in bench.forms(Preset::Allfold, world) {
                    let call = Call { data: Data::Random(7), ..Call::new(dtype, elems).by(form) };
                    calls.extend([call, Call { skew: 1, ..call }, Call { options: blocks(call, 1), ..call }]);
                }
            }
            let outputs = bench.run_one(&mut comm, &calls)?;
            let first = &outputs[0][0];
            let pairs = calls.iter().zip(&outputs).flat_map(|(call, ranks)| ranks.iter().map(move |o| (call, o)));
            for (call, output) in pairs {
                let common = first.len().min(output.len());
                ensure!(first[..common] == output[..common], "{call:?} gave other bits than {:?}", calls[0]);
            }
        }
    }
    Ok(Outcome::Holds)
}

fn blocks(call: Call, blocks: u32) -> allfold::CallOptions {
    allfold::CallOptions { blocks: Some(blocks), ..call.options }
}

pub(super) fn b34_b106_edge_values(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let pairs = EDGES * EDGES;
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 1 << 18))?;
        for dtype in Options::DTYPES {
            let mut calls = Vec::new();
            for form in bench.forms(Preset::Allfold, world) {
                let call = Call::new(dtype, pairs).by(form);
                calls.push(Call { data: Data::Edges(1), ..call });
                calls.push(Call { data: Data::Edges(2), skew: 3, ..call });
                calls.push(Call { data: Data::Bits(3), elems: 5000, ..call });
            }
            bench.run(&mut comm, &calls)?;
        }
        // A signed zero and the smallest subnormal are not flushed.
        let smallest = 2f64.powi(-133);
        all_are(bench, world, Dtype::F32, 100, Data::PerRank([-0.0; 8]), -0.0)?;
        all_are(bench, world, Dtype::Bf16, 100, Data::PerRank([-0.0; 8]), -0.0)?;
        let mut tiny = [-0.0; 8];
        tiny[0] = -smallest;
        all_are(bench, world, Dtype::Bf16, 100, Data::PerRank(tiny), -smallest)?;
        tiny[0] = f32::from_bits(0x8000_0001).into();
        all_are(bench, world, Dtype::F32, 100, Data::PerRank(tiny), tiny[0])?;
    }
    if bench.machine.most_ranks() >= 2 {
        // Past the range of f16, which some take a bf16 through.
        let mut comm = bench.communicator(2, bench.options(Preset::Allfold, 4096))?;
        let call = Call { data: Data::First(1e30, 1.0), ..Call::new(Dtype::Bf16, 64) };
        let form = bench.forms(Preset::Allfold, 2).into_iter().find(|form| form.0 == Algorithm::OneShot);
        for output in &bench.run_one(&mut comm, &[call.by(form.context("a one-shot is everywhere")?)])?[0] {
            ensure!(read(Dtype::Bf16, output, 0) == encode(Dtype::Bf16, 1e30), "1e30 was lost");
            ensure!((1..64).all(|elem| decode(Dtype::Bf16, read(Dtype::Bf16, output, elem)) == 2.0), "1 + 1 is not 2");
        }
    }
    Ok(Outcome::Holds)
}
