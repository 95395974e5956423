//! Sequences: calls of all kinds back to back, communicators that take turns, inputs that change at once, late ranks.

use std::time::Duration;

use allfold::{Algorithm, Delays, Dtype, Error, InputMode, Limits, Options, Preset};
use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::batch;
use crate::call::Call;
use crate::data::{Data, mix};
use crate::suite::{Bench, Outcome, in_place};

/// Shape of the CPU's ranks in this file.
const SHAPE: (u32, u32) = (2, 2);

/// A call of any kind that `limits` allow, by its number.
fn any_call(bench: &Bench, preset: Preset, limits: &Limits, most_elems: usize, number: u64) -> Call {
    let (world, seed) = (limits.world as usize, u64::from(limits.world));
    let any = |what: u64, below: usize| mix(seed, what, number) as usize % below;
    let forms = bench.forms(preset, world);
    let form = forms[any(0, forms.len())];
    // As many small calls as large ones.
    let elems = any(1, most_elems) >> any(2, most_elems.ilog2() as usize);
    let call = Call {
        data: if any(3, 2) == 0 { Data::Ramp(number) } else { Data::Random(number) },
        in_place: in_place(form) && any(4, 2) == 0,
        skew: [0, 0, 1 + any(5, 7)][any(6, 3)],
        spoil: any(7, 2) == 0,
        ..Call::new(Options::DTYPES[any(8, Options::DTYPES.len())], elems).by(form)
    };
    let algorithm = call.options.algorithm.expect("a form has an algorithm");
    let (blocks, threads) = if bench.on_cpu() { SHAPE } else { (8, limits.threads_of(algorithm).min(512)) };
    let grid = (1 + any(9, blocks as usize) as u32, 1 + any(10, threads as usize) as u32);
    if any(11, 2) == 0 { call.on(grid.0, grid.1) } else { call }
}

pub(super) fn b09_b47_b129_mixed(bench: &Bench) -> Result<Outcome> {
    let calls = if bench.quick { 200 } else { 2000 };
    for world in bench.worlds() {
        for preset in [Preset::Allfold, Preset::Vllm, Preset::Trtllm] {
            let options = Options { cpu_shape: SHAPE, ..bench.options(preset, 4 * 20_000) };
            let mut comm = bench.communicator(world, options)?;
            let calls = if preset == Preset::Allfold { calls } else { calls / 4 };
            let limits = *comm.limits();
            let calls: Vec<_> = (0..calls).map(|number| any_call(bench, preset, &limits, 20_000, number)).collect();
            bench.run(&mut comm, &calls)?;
        }
    }
    Ok(Outcome::Holds)
}

pub(super) fn b24_b29_two_communicators(bench: &Bench) -> Result<Outcome> {
    let most = bench.machine.most_ranks();
    if most < 2 {
        return Ok(Outcome::Skipped(format!("2 ranks needed, {most} there")));
    }
    let all = bench.machine.most_ranks().min(4);
    let mut large = bench.communicator(all, bench.options(Preset::Allfold, 1 << 20))?;
    let mut small = bench.communicator(2, bench.options(Preset::Allfold, 1 << 20))?;
    let values = Data::PerRank([0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0]);
    for turn in 0..if bench.quick { 3 } else { 20 } {
        for form in bench.forms(Preset::Allfold, all) {
            let call = |elems| Call { data: values, ..Call::new(Dtype::Bf16, elems).by(form) };
            bench.run(&mut large, &[call(1 << 17)])?;
            bench.run(&mut small, &[call(1 << (16 - turn % 4))])?;
        }
    }
    Ok(Outcome::Holds)
}

pub(super) fn b11_rewritten_inputs(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        for preset in Preset::ALL {
            let mut comm = bench.communicator(world, bench.options(preset, 1 << 18))?;
            let mut calls = Vec::new();
            for form in bench.forms(preset, world) {
                for elems in [1, 512, 4096, 50_000] {
                    for number in 0..if bench.quick { 3 } else { 20 } {
                        let data = Data::Ramp(number);
                        calls.push(Call { spoil: true, data, ..Call::new(Dtype::Bf16, elems).by(form) });
                    }
                }
            }
            bench.run(&mut comm, &calls)?;
        }
    }
    Ok(Outcome::Holds)
}

pub(super) fn b11_b13_b37_late_rank(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() && !bench.machine.in_processes() {
        return Ok(Outcome::Skipped(
            "a call starts all CPU ranks at once: none of a process's can be made late".into(),
        ));
    }
    for world in bench.worlds().filter(|&world| world > 1) {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 1 << 18))?;
        let mut calls = Vec::new();
        for form in bench.forms(Preset::Allfold, world) {
            for late in [0, world - 1] {
                let call = Call { spoil: true, ..Call::new(Dtype::F32, 5000).by(form) };
                let late = Call { late: Some(late), data: Data::Ramp(1), ..call };
                calls.extend([late, Call { data: Data::Ramp(2), ..call }]);
            }
        }
        bench.run(&mut comm, &calls)?;
    }
    Ok(Outcome::Holds)
}

/// Asked for by any thread, also while a call is queued; what comes after is refused, and a new one is made of the same ranks.
pub(super) fn aborted(bench: &Bench) -> Result<Outcome> {
    if bench.machine.in_processes() {
        return Ok(Outcome::Skipped("who aborts first is not said: `fault_processes` has it".into()));
    }
    let call = Call::new(Dtype::F32, 1000);
    for world in bench.worlds() {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 4096))?;
        bench.run(&mut comm, &[call])?;
        let aborter = comm.aborter();
        std::thread::spawn(move || aborter.abort()).join().map_err(|_| anyhow!("an abort that panics"))?;
        let error = comm.check().err().context("nothing was said of an abort")?;
        ensure!(matches!(error, Error::Aborted { by: 0 }), "{error}");
        let later = batch::run(bench.machine, &mut comm, &[call]).err().context("a call after an abort")?;
        ensure!(matches!(later.downcast_ref(), Some(Error::Aborted { by: 0 })), "{later:#}");
        // The first of them, whose memory a bench has for the first ranks of any communicator.
        let survivors: Vec<_> = (0..=world / 2).filter(|&rank| rank < world).collect();
        let mut left = comm.rebuild(&survivors)?;
        ensure!(left.world() == survivors.len(), "{} ranks of {survivors:?}", left.world());
        bench.run(&mut left, &[call])?;
        let refused = [comm.rebuild(&[]).err(), comm.rebuild(&[0, 0]).err(), comm.rebuild(&[world]).err()];
        let [Some(Error::Survivors { .. }), Some(Error::Survivors { .. }), Some(Error::NoSuchRank { .. })] = refused
        else {
            bail!("{refused:?}");
        };
    }
    Ok(Outcome::Holds)
}

pub(super) fn b44_given_up(bench: &Bench) -> Result<Outcome> {
    let most = bench.machine.most_ranks();
    if most < 2 {
        return Ok(Outcome::Skipped(format!("2 ranks needed, {most} there")));
    }
    if bench.machine.in_processes() && !bench.on_cpu() {
        return Ok(Outcome::Skipped("processes with GPUs do not say which of them is late".into()));
    }
    // A rank of a process, or on a GPU, comes late by itself; threads of the CPU are held up on their way, now this one and now that.
    let by_itself = bench.machine.in_processes() || !bench.on_cpu();
    let delays = Some(Delays { nanoseconds: 10_000_000, one_in: 2 }).filter(|_| !by_itself);
    // Where others take the processor, both may be late.
    let (late, most_calls) = (Some(1).filter(|_| by_itself), if bench.on_cpu() { 100 } else { 1 });
    let dtype = Dtype::Bf16;
    // A rank that has given up registers nothing any more, and the others would wait for it.
    let alone = |(algorithm, input): &(Algorithm, InputMode)| input.staged() || algorithm.pushes();
    let forms = bench.forms(Preset::Allfold, 2).into_iter();
    for form in forms.filter(|form| !bench.machine.in_processes() || alone(form)) {
        let timeout = Some(Duration::from_millis(1));
        let dtypes = vec![dtype];
        let options = Options { timeout, delays, dtypes, ..bench.options(Preset::Allfold, 4096) };
        let mut comm = bench.communicator(2, options)?;
        // One pack: more would be held up one by one, and nobody would wait for the last of them.
        let call = Call { late, ..Call::new(dtype, 8).by(form) };
        let mut number = 0;
        let error = loop {
            number += 1;
            ensure!(number <= most_calls, "{most_calls} calls and no wait was given up; {call:?}");
            match batch::run(bench.machine, &mut comm, &[call]) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        let gave_up = error.downcast_ref::<Error>().with_context(|| format!("not an error of allfold: {error:#}"))?;
        let Error::Timeout { waiting_rank, missing, epoch, block, waited, .. } = gave_up else { bail!("{gave_up:?}") };
        ensure!(*missing == [1 - waiting_rank] && *epoch == number && *block < 256, "{gave_up:?} in call {number}");
        ensure!(late.is_none_or(|late| late != *waiting_rank as usize), "{gave_up:?}, but rank {late:?} was late");
        ensure!(*waited >= Duration::from_millis(1), "{gave_up:?}");
        // What is said once is said again, also of every later call, and others are not concerned.
        let again = comm.check().err().context("the second check said that all was well")?;
        ensure!(again.to_string() == gave_up.to_string(), "{again} after {gave_up}");
        let later =
            batch::run(bench.machine, &mut comm, &[Call { late: None, ..call }]).err().context("a later call")?;
        let later = later.downcast_ref::<Error>().with_context(|| format!("not an error of allfold: {later:#}"))?;
        ensure!(later.to_string() == gave_up.to_string(), "{later} after {gave_up}");
        drop(comm);
        let mut next = bench.communicator(2, bench.options(Preset::Allfold, 4096))?;
        bench.run(&mut next, &[Call { late: None, ..call }])?;
    }
    Ok(Outcome::Holds)
}
