//! Call numbers: grids that change from call to call, and numbers near their wraps.

use allfold::{Options, Preset};
use anyhow::{Context, Result};

use crate::call::Call;
use crate::data::Data;
use crate::suite::{Bench, Outcome, in_place};

/// Blocks of the calls, in order: rows of flags that a small grid leaves out come back later.
const GRIDS: [u32; 14] = [4, 1, 4, 4, 1, 1, 4, 1, 1, 1, 3, 4, 3, 2];

/// Numbers of the call before the first: within the calls to come, 32 bits wrap; the largest that there can be.
const LAST_EPOCHS: [u64; 5] = [0, 1, u32::MAX as u64 - 3, u32::MAX as u64 - 2, u64::MAX >> 2];

pub(super) fn b13_b31_b50_epochs(bench: &Bench) -> Result<Outcome> {
    let threads = if bench.on_cpu() { 2 } else { 32 };
    for world in bench.worlds() {
        for (turn, last_epoch) in LAST_EPOCHS.into_iter().enumerate() {
            // Quick: the protocols take turns; ours is always there.
            let others = Preset::ALL.into_iter().skip(1);
            let others = others.filter(|&preset| !bench.quick || preset as usize % 4 == (turn + world) % 4);
            for preset in [Preset::Allfold].into_iter().chain(others) {
                let forms = bench.forms(preset, world);
                if forms.is_empty() {
                    continue;
                }
                let options = Options { last_epoch, cpu_shape: (4, threads), ..bench.options(preset, 1 << 14) };
                let mut comm = bench.communicator(world, options)?;
                let call = |(number, &blocks): (usize, &u32)| {
                    let form = forms[number % forms.len()];
                    let dtype = Options::DTYPES[number / 2 % Options::DTYPES.len()];
                    let data = Data::Ramp(number as u64);
                    let elems = 4 * threads as usize * dtype.lanes() * 3 + number;
                    Call { data, in_place: in_place(form), ..Call::new(dtype, elems).by(form).on(blocks, threads) }
                };
                let calls: Vec<_> = GRIDS.iter().chain(&GRIDS).enumerate().map(call).collect();
                let place = || format!("after call {last_epoch}, {preset:?}");
                bench.run(&mut comm, &calls).with_context(place)?;
                // One form alone, so that no barrier of another hides what this one lacks.
                for &form in &forms {
                    let options = Options { last_epoch, cpu_shape: (4, threads), ..bench.options(preset, 1 << 14) };
                    let mut comm = bench.communicator(world, options)?;
                    let calls: Vec<_> = calls.iter().map(|call| Call { in_place: false, ..call.by(form) }).collect();
                    bench.run(&mut comm, &calls[..GRIDS.len()]).with_context(place)?;
                }
            }
        }
    }
    Ok(Outcome::Holds)
}
