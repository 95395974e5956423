//! Forms: every preset, buffers off alignment, and grids.

use allfold::{Dtype, Options, Preset};
use anyhow::Result;

use crate::call::Call;
use crate::data::Data;
use crate::suite::{Bench, Outcome, in_place};

pub(super) fn presets(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        for preset in Preset::ALL {
            let options = allfold::Options { cpu_shape: (2, 1), ..bench.options(preset, 1 << 16) };
            let mut comm = bench.communicator(world, options)?;
            let mut calls = Vec::new();
            for form in bench.forms(preset, world) {
                for dtype in Options::DTYPES {
                    for elems in [1, 7, 64, 300, 1000, 4099, 9000] {
                        let data = Data::Random(calls.len() as u64);
                        let call = Call { data, ..Call::new(dtype, elems).by(form) };
                        let place = in_place(form) && elems % 2 == 1;
                        calls.extend([call, Call { in_place: place, skew: elems % 8, ..call }]);
                    }
                }
            }
            // Once form by form, once with each call in another form than the last.
            bench.run(&mut comm, &calls)?;
            let (half, stride) = (calls.len() / 2, calls.len() / 2 + 1);
            let shuffled: Vec<_> = (0..half).map(|turn| calls[turn * stride % calls.len()]).collect();
            bench.run(&mut comm, &shuffled)?;
        }
    }
    Ok(Outcome::Holds)
}

pub(super) fn b55_misaligned(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let options = allfold::Options { cpu_shape: (2, 2), ..bench.options(Preset::Allfold, 8192) };
        let mut comm = bench.communicator(world, options)?;
        let mut calls = Vec::new();
        for dtype in Options::DTYPES {
            for form in bench.forms(Preset::Allfold, world) {
                for skew in 1..=8 {
                    for elems in [1, 5, 8, 63, 300, 1025] {
                        let call = Call { skew, ..Call::new(dtype, elems).by(form) };
                        calls.push(call);
                        if in_place(form) {
                            calls.push(Call { in_place: true, ..call });
                        }
                    }
                }
            }
        }
        bench.run(&mut comm, &calls)?;
    }
    Ok(Outcome::Holds)
}

pub(super) fn b20_b35_grids(bench: &Bench) -> Result<Outcome> {
    // No power of two among them but the first; fewer threads than ranks; more blocks than ranks and not a multiple.
    let shapes: &[(u32, u32)] = match (bench.on_cpu(), bench.quick) {
        (true, true) => &[(1, 1), (2, 2), (4, 3), (3, 5)],
        (true, false) => &[(1, 1), (2, 2), (4, 3), (3, 5), (7, 1), (1, 9), (11, 2)],
        (false, _) => &[(1, 1), (2, 2), (4, 3), (3, 5), (7, 33), (5, 96), (1, 1000), (13, 509), (32, 512)],
    };
    for world in bench.worlds() {
        let largest = shapes.iter().fold((1, 1), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        if !bench.on_cpu() {
            let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 1 << 16))?;
            let (blocks, threads) = (comm.limits().max_blocks, comm.limits().threads_of_all());
            let within = |shape: &&(u32, u32)| shape.0 <= blocks && shape.1 <= threads;
            let shapes: Vec<_> = shapes.iter().filter(within).copied().chain([(blocks, threads)]).collect();
            shapes.iter().try_for_each(|&shape| bench.run(&mut comm, &on_shape(bench, world, shape)))?;
            bench.run(&mut comm, &block_counts(bench, world, blocks.min(36), 64))?;
            continue;
        }
        for &shape in shapes {
            let options = allfold::Options { cpu_shape: shape, ..bench.options(Preset::Allfold, 1 << 16) };
            bench.run(&mut bench.communicator(world, options)?, &on_shape(bench, world, shape))?;
        }
        // A launch may be smaller than what there is.
        let options = allfold::Options { cpu_shape: largest, ..bench.options(Preset::Allfold, 1 << 16) };
        let mut comm = bench.communicator(world, options)?;
        shapes.iter().try_for_each(|&shape| bench.run(&mut comm, &on_shape(bench, world, shape)[..6]))?;
        if world == 4 {
            let options = allfold::Options { cpu_shape: (36, 1), ..bench.options(Preset::Allfold, 1 << 16) };
            bench.run(&mut bench.communicator(world, options)?, &block_counts(bench, world, 36, 1))?;
        }
    }
    Ok(Outcome::Holds)
}

fn on_shape(bench: &Bench, world: usize, (blocks, threads): (u32, u32)) -> Vec<Call> {
    let mut calls = Vec::new();
    for elems in [1, 100, 1003, 8000] {
        for (form, dtype) in bench.forms(Preset::Allfold, world).into_iter().zip(Options::DTYPES.into_iter().cycle()) {
            let call = Call::new(dtype, elems).by(form).on(blocks, threads);
            calls.push(call);
            calls.push(Call { skew: 3, in_place: in_place(form), ..call });
        }
    }
    calls
}

/// A small call on every number of blocks, multiples of the ranks or not.
fn block_counts(bench: &Bench, world: usize, most: u32, threads: u32) -> Vec<Call> {
    let forms = bench.forms(Preset::Allfold, world);
    let call = |(blocks, form)| Call::new(Dtype::F16, 128).by(form).on(blocks, threads);
    (1..=most).flat_map(|blocks| forms.iter().map(move |&form| (blocks, form))).map(call).collect()
}
