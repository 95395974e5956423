//! Refusals: each is a typed error with the right numbers, comes before anything is launched, and leaves every byte alone.

use allfold::{Algorithm, CallOptions, Communicator, Dtype, Error, InputMode, MAX_RANKS, Options, Preset};
use anyhow::{Result, ensure};

use self::setup::{Setup, refused};
use crate::suite::{Bench, Outcome};

mod makings;
mod setup;

pub(super) use makings::{b35_refused_grids, b38_launches_that_block, b48_refused_memory, b59_b88_refused_makings};

const F32: Dtype = Dtype::F32;

/// Runs `property` with a communicator of each world size and memory for it.
fn each_world(bench: &Bench, property: impl Fn(&mut Setup, &mut Communicator, usize) -> Result<()>) -> Result<Outcome> {
    for world in bench.worlds() {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 4096))?;
        let mut setup = Setup::new(bench, world)?;
        property(&mut setup, &mut comm, world)?;
        // The communicator is as good as before.
        setup.accepted(bench, &mut comm, F32, |_| {}, CallOptions::default())?;
    }
    Ok(Outcome::Holds)
}

pub(super) fn b42_b58_refused_lengths(bench: &Bench) -> Result<Outcome> {
    each_world(bench, |setup, comm, world| {
        for got in (0..=MAX_RANKS + 4).filter(|&got| got != world) {
            let error = setup.refused(bench, comm, F32, |all| {
                let last = all[world - 1];
                all.resize(got, last);
            })?;
            refused!(error, Error::RankCount { local: w, got: g } if (w, g) == (world, got));
        }
        for got in (0..=2 * MAX_RANKS + 1).filter(|&got| got != world) {
            let error = setup.typed_refused(comm, got)?;
            refused!(error, Error::RankCount { local: w, got: g } if (w, g) == (world, got));
        }
        for rank in 0..world {
            for (input_elems, output_elems) in [(98, 100), (100, 98), (0, 100), (100, 0)] {
                let error = setup.refused(bench, comm, F32, |all| {
                    (all[rank].input_elems, all[rank].output_elems) = (input_elems, output_elems);
                })?;
                refused!(error, Error::OutputLength { rank: r, input_elems: i, output_elems: o }
                    if (r as usize, i, o) == (rank, input_elems, output_elems));
            }
            for elems in [0, 98, 99, 101].into_iter().filter(|_| world > 1) {
                let error = setup.refused(bench, comm, F32, |all| {
                    (all[rank].input_elems, all[rank].output_elems) = (elems, elems);
                })?;
                // Rank 0 is what the others are compared to.
                let (odd, got, expected) = if rank == 0 { (1, 100, elems) } else { (rank, elems, 100) };
                refused!(error, Error::LengthMismatch { rank: r, elems: e, expected: x }
                    if (r as usize, e, x) == (odd, got, expected));
            }
        }
        Ok(())
    })
}

pub(super) fn b55_refused_addresses(bench: &Bench) -> Result<Outcome> {
    each_world(bench, |setup, comm, world| {
        for rank in [0, world - 1] {
            for dtype in Options::DTYPES {
                for off in 1..dtype.bytes() as u64 {
                    for output in [false, true] {
                        let mut wrong = 0;
                        let error = setup.refused(bench, comm, dtype, |all| {
                            let address = if output { &mut all[rank].output } else { &mut all[rank].input };
                            *address += off;
                            wrong = *address;
                        })?;
                        refused!(error, Error::Misaligned { rank: r, address: a, align_bytes: b }
                            if (r as usize, a, b) == (rank, wrong, dtype.bytes()));
                    }
                }
            }
            for output in [false, true] {
                let error = setup.refused(bench, comm, F32, |all| {
                    *(if output { &mut all[rank].output } else { &mut all[rank].input }) = 0;
                })?;
                refused!(error, Error::NullPointer { rank: r, elems: 100 } if r as usize == rank);
            }
        }
        // The last length that does not fit after the first buffer, and lengths whose bytes pass 64 bits.
        for dtype in Options::DTYPES {
            let size = dtype.bytes() as u64;
            let first = setup.buffers(dtype)[0].input;
            for elems in [(u64::MAX - first) / size + 1, u64::MAX / size, u64::MAX / size + 1, u64::MAX] {
                let error = setup.refused(bench, comm, dtype, |all| {
                    all.iter_mut().for_each(|b| (b.input_elems, b.output_elems) = (elems, elems));
                })?;
                refused!(error, Error::TooLong { rank: 0, address: a, elems: e, elem_bytes: b }
                    if (a, e, b as u64) == (first, elems, size));
            }
        }
        Ok(())
    })
}

pub(super) fn refused_overlaps(bench: &Bench) -> Result<Outcome> {
    each_world(bench, |setup, comm, world| {
        for rank in [0, world - 1] {
            // By one element and by all but one, from either side.
            for elems in [-99, -1, 1, 99i64] {
                let error = setup.refused(bench, comm, F32, |all| {
                    all[rank].output = all[rank].input.wrapping_add_signed(4 * elems);
                })?;
                let common = 4 * (100 - elems.unsigned_abs());
                refused!(error, Error::Overlap { rank: r, other: "input", other_rank: o, overlap_bytes: b }
                    if (r as usize, o, b) == (rank, r, common));
            }
        }
        // Across ranks: a rank's output in another's input, and in another's output.
        if world > 1 {
            let last = world - 1;
            for elems in [-40, 0, 60i64] {
                let common = 4 * (100 - elems.unsigned_abs());
                let error = setup
                    .refused(bench, comm, F32, |all| all[0].output = all[last].input.wrapping_add_signed(4 * elems))?;
                refused!(error, Error::Overlap { rank: 0, other: "input", other_rank: o, overlap_bytes: b }
                    if (o as usize, b) == (last, common));
                let error = setup
                    .refused(bench, comm, F32, |all| all[last].output = all[0].output.wrapping_add_signed(4 * elems))?;
                refused!(error, Error::Overlap { rank: 0, other: "output", other_rank: o, overlap_bytes: b }
                    if (o as usize, b) == (last, common));
            }
        }
        // Buffers that touch do not overlap.
        setup.accepted(bench, comm, F32, |all| all[0].output = all[0].input + 400, CallOptions::default())
    })
}

pub(super) fn refused_forms(bench: &Bench) -> Result<Outcome> {
    each_world(bench, |setup, comm, world| {
        let one_shot = CallOptions { algorithm: Some(Algorithm::OneShot), ..CallOptions::default() };
        // In place on one rank is enough.
        for rank in [0, world - 1] {
            let in_place = |all: &mut Vec<allfold::RawBuffers<'_>>| all[rank].output = all[rank].input;
            if world == 1 {
                // Nobody reads what it overwrites.
                setup.accepted(bench, comm, F32, in_place, one_shot)?;
                continue;
            }
            let error = setup.refused_with(bench, comm, F32, in_place, one_shot)?;
            refused!(error, Error::InPlace { algorithm: Algorithm::OneShot });
            // Left to choose, it takes what is safe.
            setup.accepted(bench, comm, F32, in_place, CallOptions::default())?;
        }

        let only = Options {
            dtypes: vec![Dtype::F32],
            inputs: vec![InputMode::Registered],
            algorithms: vec![Algorithm::OneShot],
            ..bench.options(Preset::Allfold, 4096)
        };
        let mut only_comm = bench.communicator(world, only.clone())?;
        if world > 1 {
            let error = setup.refused(bench, &mut only_comm, F32, |all| all[0].output = all[0].input)?;
            refused!(error, Error::InPlace { algorithm: Algorithm::OneShot });
        }
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::I32] {
            let error = setup.refused(bench, &mut only_comm, dtype, |_| {})?;
            refused!(error, Error::NotDeclared { what, option: "dtypes" } if what == dtype.name());
        }
        for input in [InputMode::Memcpy, InputMode::Copied] {
            let call = CallOptions { input: Some(input), ..CallOptions::default() };
            let error = setup.refused_with(bench, &mut only_comm, F32, |_| {}, call)?;
            refused!(error, Error::NotDeclared { what, option: "inputs" } if what == input.name());
        }
        let call = CallOptions { algorithm: Some(Algorithm::TwoShot), ..CallOptions::default() };
        let error = setup.refused_with(bench, &mut only_comm, F32, |_| {}, call)?;
        refused!(error, Error::NotDeclared { what: "two_shot", option: "algorithms" });
        let error = setup.stamps_refused(&mut only_comm)?;
        refused!(error, Error::NotDeclared { what: "stamps", option: "stamps" });

        // Nothing declared is nothing that can be asked for.
        for (options, option) in [
            (Options { dtypes: vec![], ..only.clone() }, "dtypes"),
            (Options { inputs: vec![], ..only.clone() }, "inputs"),
            (Options { algorithms: vec![], ..only.clone() }, "algorithms"),
        ] {
            let error = match bench.machine.communicator(world, options) {
                Err(error) => error,
                Ok(mut none) => setup.refused(bench, &mut none, F32, |_| {})?,
            };
            refused!(error, Error::NotDeclared { option: o, .. } if o == option);
        }
        Ok(())
    })
}

pub(super) fn b61_b62_refused_capacities(bench: &Bench) -> Result<Outcome> {
    each_world(bench, |setup, _, world| {
        let capacity = 16 * world * 6;
        let options = Options { landing_bytes: Some(capacity as u64), ..bench.options(Preset::Allfold, capacity) };
        let mut comm = bench.communicator(world, options)?;
        for dtype in Options::DTYPES {
            let lanes = dtype.lanes();
            for input in InputMode::ALL {
                let has = |a: &Algorithm| a.takes(world as u32) && Preset::Allfold.protocol(*a, input).is_some();
                for algorithm in Algorithm::ALL.into_iter().filter(has) {
                    let call = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
                    let landing_packs = if algorithm.pushes() { dtype.landing_packs() as usize } else { 1 };
                    let fits = capacity / dtype.bytes() / landing_packs;
                    // One more than the packs of each part that fit.
                    let part = 6 / landing_packs + 1;
                    for elems in [fits - lanes, fits - 1, fits] {
                        setup.accepted(bench, &mut comm, dtype, of_length(elems), call)?;
                    }
                    for elems in [fits + 1, fits + lanes] {
                        let (what, needed, there) = match (input, algorithm) {
                            // No room is needed for this, nor for what a rank alone does.
                            _ if world == 1 => ("", 0, 0),
                            (_, Algorithm::OnePass)
                            | (InputMode::Registered, Algorithm::OneShot | Algorithm::Exchange) => ("", 0, 0),
                            (_, Algorithm::OneShotPush) => ("landing", capacity + 16 * landing_packs, capacity),
                            // Terms and sums, of which a slot has room for one pack more.
                            (_, Algorithm::TwoShotPush) => match 16 * (2 * part * landing_packs - 1) {
                                fits if fits <= capacity => ("", 0, 0),
                                needed => ("landing", needed, capacity),
                            },
                            (InputMode::Registered, Algorithm::TwoShot) => ("scratch", 16 * part, 16 * (part - 1)),
                            (
                                InputMode::Memcpy | InputMode::Copied,
                                Algorithm::OneShot | Algorithm::TwoShot | Algorithm::Exchange,
                            ) => ("staging", capacity + 16, capacity),
                        };
                        if needed == 0 {
                            setup.accepted(bench, &mut comm, dtype, of_length(elems), call)?;
                            continue;
                        }
                        let error = setup.refused_with(bench, &mut comm, dtype, of_length(elems), call)?;
                        refused!(error, Error::Capacity { what: w, needed_bytes: n, capacity_bytes: c }
                            if (w, n, c) == (what, needed as u64, there as u64));
                    }
                }
            }
        }
        Ok(())
    })
}

fn of_length(elems: usize) -> impl Fn(&mut Vec<allfold::RawBuffers<'_>>) {
    move |all| all.iter_mut().for_each(|b| (b.input_elems, b.output_elems) = (elems as u64, elems as u64))
}

pub(super) fn b58_empty_calls(bench: &Bench) -> Result<Outcome> {
    each_world(bench, |setup, comm, _| {
        for dtype in Options::DTYPES {
            for null in [false, true] {
                setup.empty(bench, comm, dtype, |all| {
                    of_length(0)(all);
                    if null {
                        all.iter_mut().for_each(|b| (b.input, b.output) = (0, 0));
                    }
                })?;
            }
        }
        ensure!(comm.check().is_ok(), "an empty call left something");
        Ok(())
    })
}
