//! Buffers that ranks reach of each other by name, in one process and between several.

use std::fs;

use allfold::{
    Algorithm, CallOptions, Communicator, Dtype, Error, InputMode, Plan, Preset, ReduceOp, Registered, Registration,
    Span,
};
use anyhow::{Context, Result, bail, ensure};

use crate::machine::{Memory, raw_buffers};
use crate::numbers::{decode, read, write};
use crate::suite::{Bench, Outcome};

/// Elements of a call.
pub(super) const ELEMS: usize = 600;
/// Bytes from one buffer to the next, of which each rank's memory has some.
pub(super) const STEP_BYTES: usize = 4096;
pub(super) const STEPS: usize = 8;

/// A communicator and a memory of each local rank, all of it registered.
pub(super) struct Bed {
    pub(super) comm: Communicator,
    memories: Vec<Box<dyn Memory>>,
}

impl Bed {
    pub(super) fn new(bench: &Bench, world: usize) -> Result<Bed> {
        let comm = bench.communicator(world, bench.options(Preset::Allfold, STEP_BYTES))?;
        let memory = |rank| bench.machine.memory(rank, STEPS * STEP_BYTES);
        let memories = comm.local_ranks().map(memory).collect::<Result<Vec<_>>>()?;
        Ok(Bed { comm, memories })
    }

    /// The same part of each memory.
    fn spans(&self, offset: usize, bytes: usize) -> Vec<Span> {
        let part = |memory: &dyn Memory| Span { address: memory.address() + offset as u64, bytes: bytes as u64 };
        self.memories.iter().map(|memory| part(&**memory)).collect()
    }

    pub(super) fn register(&mut self, offset: usize, bytes: usize) -> allfold::Result<Registration> {
        let spans = self.spans(offset, bytes);
        // SAFETY: the memories live as long as the communicator.
        unsafe { self.comm.register(&spans) }
    }

    /// A call of an algorithm that uses peers' buffers.
    pub(super) fn call(&mut self, input: usize, output: usize, registered: Registered) -> allfold::Result<Plan> {
        let options = CallOptions { algorithm: Some(Algorithm::OnePass), registered, ..CallOptions::default() };
        let of = |memory| unsafe {
            // SAFETY: the memories live as long as the communicator, and each has one stream.
            raw_buffers(Dtype::F32, memory, input, output, ELEMS)
        };
        let buffers: Vec<_> = self.memories.iter().map(|memory| of(&**memory)).collect();
        // SAFETY: as above.
        unsafe { self.comm.all_reduce_raw(Dtype::F32, &buffers, ReduceOp::Sum, &options) }
    }

    /// Gives each part of each memory numbers of its own.
    pub(super) fn fill(&mut self) -> Result<()> {
        for (rank, memory) in self.comm.local_ranks().zip(&mut self.memories) {
            let mut bytes = vec![0; STEPS * STEP_BYTES];
            for elem in 0..bytes.len() / 4 {
                write(Dtype::F32, &mut bytes, elem, ((1 + rank + elem / (STEP_BYTES / 4)) as f32).to_bits().into());
            }
            memory.upload(&bytes)?;
        }
        Ok(())
    }

    /// Whether part `output` is the sum of all ranks' parts `input`.
    pub(super) fn holds(&self, input: usize, output: usize) -> Result<()> {
        self.comm.check()?;
        let want: usize = (0..self.comm.world()).map(|rank| 1 + rank + input).sum();
        for memory in &self.memories {
            let mut bytes = vec![0; STEPS * STEP_BYTES];
            memory.download(&mut bytes)?;
            for elem in 0..ELEMS {
                let got = decode(Dtype::F32, read(Dtype::F32, &bytes[output * STEP_BYTES..], elem));
                ensure!(got == want as f64, "part {input} to {output}, element {elem}: {got}, not {want}");
            }
        }
        Ok(())
    }
}

/// The library has refused, and why.
fn refused(done: allfold::Result<Plan>, right: impl FnOnce(&Error) -> bool, what: &str) -> Result<()> {
    match done {
        Err(error) if right(&error) => Ok(()),
        Err(error) => bail!("{what}: {error:?}"),
        Ok(plan) => bail!("{what}: it was done, as {plan:?}"),
    }
}

pub(super) fn b67_names(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds().filter(|&world| world > 1) {
        let mut bed = Bed::new(bench, world)?;
        bed.fill()?;
        let whole = bed.register(0, STEPS * STEP_BYTES)?;
        // Parts of one memory are buffers of their own, and lie in the whole too.
        let parts = (0..STEPS).map(|part| bed.register(part * STEP_BYTES, 4 * ELEMS)).collect::<Result<Vec<_>, _>>()?;
        for part in 0..STEPS - 1 {
            let (input, output) = (part * STEP_BYTES, (STEPS - 1) * STEP_BYTES);
            for registered in [
                Registered::By { input: parts[part], output: parts[STEPS - 1] },
                Registered::By { input: whole, output: whole },
                Registered::By { input: parts[part], output: whole },
            ] {
                let plan = bed.call(input, output, registered)?;
                ensure!((plan.algorithm, plan.input) == (Algorithm::OnePass, InputMode::Registered), "{plan:?}");
                bed.holds(part, STEPS - 1)?;
                bench.count(1);
            }
        }
        // What does not lie in what it is said to lie in.
        let outside = |error: &Error| matches!(error, Error::OutsideRegistration { .. });
        let by = |input, output| Registered::By { input, output };
        refused(bed.call(0, STEP_BYTES, by(parts[0], parts[0])), outside, "an output elsewhere")?;
        refused(bed.call(256, STEP_BYTES, by(parts[0], parts[1])), outside, "an input that is too long")?;
        // In place under two names, of which another rank could have other buffers.
        let alias = bed.register(0, 4 * ELEMS)?;
        let overlaps = |error: &Error| matches!(error, Error::Overlap { .. });
        refused(bed.call(0, 0, by(parts[0], alias)), overlaps, "one buffer by two names")?;
        // Names that are gone, and those of others.
        let gone = |error: &Error| matches!(error, Error::NotRegistered);
        bed.comm.release(alias)?;
        refused(bed.call(0, STEP_BYTES, by(alias, parts[1])), gone, "a name that was given back")?;
        let again = bed.register(0, 4 * ELEMS)?;
        refused(bed.call(0, STEP_BYTES, by(alias, parts[1])), gone, "a name whose place another has now")?;
        bed.call(0, STEP_BYTES, by(again, parts[1]))?;
        bed.holds(0, 1)?;
        let mut other = Bed::new(bench, world)?;
        refused(other.call(0, STEP_BYTES, by(whole, whole)), gone, "a name of another communicator")?;
        bed.comm.release(whole)?;
        // The parts do not hang on the whole.
        bed.fill()?;
        bed.call(2 * STEP_BYTES, 3 * STEP_BYTES, by(parts[2], parts[3]))?;
        bed.holds(2, 3)?;
        let wrong_length = bed.spans(0, 4 * ELEMS + 4 * bed.comm.local_ranks().start);
        if bench.machine.in_processes() {
            // SAFETY: as above.
            let error = unsafe { bed.comm.register(&wrong_length) };
            ensure!(matches!(error, Err(Error::Disagreement { .. })), "{error:?}");
        }
        parts.into_iter().try_for_each(|part| bed.comm.release(part))?;
        bench.count(6);
    }
    Ok(Outcome::Holds)
}

pub(super) fn b61_b71_come_and_go(bench: &Bench) -> Result<Outcome> {
    let world = bench.machine.most_ranks();
    let mut bed = Bed::new(bench, world)?;
    let mut before = None;
    let turns = if bench.quick { 60 } else { 1000 };
    for turn in 0..turns {
        bed.fill()?;
        let (input, output) = (turn % 4, 4 + turn % 3);
        let name = bed.register(input * STEP_BYTES, 3 * STEP_BYTES + 4 * ELEMS)?;
        let outputs = bed.register(output * STEP_BYTES, STEP_BYTES)?;
        let registered = Registered::By { input: name, output: outputs };
        bed.call(input * STEP_BYTES, output * STEP_BYTES, registered)?;
        bed.holds(input, output)?;
        bed.comm.release(outputs)?;
        bed.comm.release(name)?;
        // The first turns are for what a process makes once.
        let held = held()?;
        if turn >= turns / 2 {
            let before = *before.get_or_insert(held);
            ensure!(held.0 <= before.0 && held.1 <= before.1 + 4, "turn {turn}: {held:?}, {before:?} before");
        }
        bench.count(1);
    }
    Ok(Outcome::Holds)
}

/// File descriptors and mappings of this process.
pub(super) fn held() -> Result<(usize, usize)> {
    let descriptors = fs::read_dir("/proc/self/fd").context("counting descriptors")?.count();
    Ok((descriptors, fs::read_to_string("/proc/self/maps").context("counting mappings")?.lines().count()))
}

pub(super) fn b70_freed(bench: &Bench) -> Result<Outcome> {
    let mut bed = Bed::new(bench, bench.machine.most_ranks())?;
    if bench.on_cpu() && !bench.machine.in_processes() {
        return Ok(Outcome::Skipped("nobody knows when ordinary memory is freed".into()));
    }
    let kept = bed.register(0, STEP_BYTES)?;
    // Between processes memory that lives on where it is mapped.
    let memory = |rank| match bench.machine.devices() {
        _ if !bench.machine.in_processes() => Ok((None, Some(bench.machine.memory(rank, STEP_BYTES)?))),
        Some(devices) => anyhow::Ok((Some(allfold::Memory::gpu(devices[0], STEP_BYTES)?), None)),
        None => Ok((Some(allfold::Memory::host(STEP_BYTES)?), None)),
    };
    let mut others = bed.comm.local_ranks().map(memory).collect::<Result<Vec<_>>>()?;
    let span = |(shared, own): &(Option<allfold::Memory>, Option<Box<dyn Memory>>)| {
        shared.as_ref().map(|memory| memory.span()).or_else(|| own.as_ref().map(|memory| memory.span()))
    };
    let spans: Vec<_> = others.iter().filter_map(span).collect();
    // SAFETY: that the memory goes too soon is what is tried; no call uses it then.
    let name = unsafe { bed.comm.register(&spans) }?;
    bed.comm.check()?;
    // The last rank's first: each rank's is asked about.
    while others.pop().is_some() {
        let error = bed.comm.check();
        let address = spans[others.len()].address;
        ensure!(matches!(error, Err(Error::BufferFreed { address: at, .. }) if at == address), "{error:?}");
    }
    bed.comm.release(name)?;
    bed.comm.check()?;
    bed.comm.release(kept)?;
    bench.count(1);
    Ok(Outcome::Holds)
}
