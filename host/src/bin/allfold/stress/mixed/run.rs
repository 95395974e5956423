//! The calls of a mixed run, each on stamps and each checked, and the call of the first wrong element.
//!
//! The host does not compare anything: what the ranks have counted is looked at now and then, and at the end.

use std::time::{Duration, Instant};

use allfold::{Captured, Communicator, Element, ReduceOp, of_dtype};
use anyhow::{Context, Result};

use super::batch::{Batch, Call, Step, Way};
use super::draw::Draw;
use super::memory::{Memory, Part};
use super::report::{FirstCall, Report};
use super::settings::{STREAM_SETS, Settings};
use crate::gpus::Gpus;
use crate::progress::Progress;
use crate::stress::story::Story;
use crate::stress::traffic;
use crate::target::Target;

/// Makes calls until there are enough or one is wrong. `report` has those that were made also where that fails.
pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let sets = match &settings.target {
        Target::Cpu { .. } => Vec::new(),
        Target::Cuda { devices } => (0..STREAM_SETS).map(|_| Gpus::new(devices)).collect::<Result<_, _>>()?,
    };
    match sets.first().filter(|_| settings.traffic) {
        Some(gpus) => traffic::beside(&gpus.contexts, || calls(settings, &sets, report)),
        None => calls(settings, &sets, report),
    }
}

fn calls(settings: &Settings, sets: &[Gpus], report: &mut Report) -> Result<()> {
    let mut bed = Bed {
        comm: settings.communicator()?,
        graphs: Vec::new(),
        streams: 0,
        memory: Memory::new(settings.target.world(), sets, settings.most_bytes)?,
    };
    let mut draw = settings.draw(&bed.comm);
    let progress = Progress::new(settings.calls.or(settings.duration.map(|most| most.as_secs())).unwrap_or(0));
    let (start, mut looked_at) = (Instant::now(), 0);
    // Which calls it was, should one fail: on GPUs it may be any of those since the last look.
    let which =
        |looked_at, last| format!("in calls {} to {last}; the same calls: {}", looked_at + 1, settings.again(last));
    while report.wrong == 0 && !settings.is_over(report.counts.calls, start.elapsed()) {
        let batch = draw.batch()?;
        let (before, last) = (report.counts.calls, report.counts.calls + batch.made());
        let spoiled = settings.spoiled.and_then(|number| batch.place(number.checked_sub(before + 1)?));
        let changed = bed.make(&batch, spoiled).with_context(|| which(looked_at, last))?;
        report.counts.add(&batch, settings.target.world(), changed);
        report.drawn_again = draw.refused;
        if last - looked_at >= settings.calls_a_look {
            report.wrong = bed.look().with_context(|| which(looked_at, last))?;
            looked_at = last;
            progress.at(if settings.calls.is_some() { last } else { start.elapsed().as_secs() });
        }
        report.time(start.elapsed());
    }
    report.wrong = bed.look().with_context(|| which(looked_at, report.counts.calls))?;
    report.time(start.elapsed());
    if report.wrong > 0 {
        report.first_wrong = bed.first_wrong(settings)?;
    }
    Ok(())
}

/// A communicator and all that its calls need. In this order they end: the communicator waits for all calls.
struct Bed<'a> {
    comm: Communicator,
    /// Those that may not have run yet.
    graphs: Vec<Captured>,
    /// The set of streams on which calls came so far.
    streams: usize,
    memory: Memory<'a>,
}

impl Bed<'_> {
    /// Makes a batch; says whether the streams change before it. The result of the call at `spoiled`, a round and a place,
    /// is overwritten before it is checked.
    fn make(&mut self, batch: &Batch, spoiled: Option<(u64, usize)>) -> Result<bool> {
        let (comm, memory) = (&mut self.comm, &self.memory);
        let changes = batch.streams != self.streams;
        if changes {
            comm.change_streams(&memory.streams(self.streams), &memory.streams(batch.streams))?;
            self.streams = batch.streams;
        }
        if let Some(late) = batch.late {
            memory.delay(late, batch.streams)?;
        }
        let spoiled_in = |round: u64| spoiled.filter(|(at, _)| *at == round).map(|(_, place)| place);
        match batch.way {
            Way::Eager => {
                for (step, call) in batch.steps(spoiled_in(0)) {
                    if step == Step::Reduce && call.pause_micros > 0 {
                        std::thread::sleep(Duration::from_micros(call.pause_micros));
                    }
                    make(comm, memory, step, call, batch.streams)?;
                }
            }
            Way::Graph { captured_on, replays } => {
                let capture = |comm: &mut Communicator, spoiled| {
                    comm.capture(&memory.streams(captured_on), |comm| {
                        let mut steps = batch.steps(spoiled);
                        steps.try_for_each(|(step, call)| make(comm, memory, step, call, captured_on))
                    })
                };
                let graph = capture(comm, None)?;
                let to_spoil = spoiled.map(|(_, place)| capture(comm, Some(place))).transpose()?;
                let streams = memory.streams(batch.streams);
                for round in 0..replays {
                    let graph = to_spoil.as_ref().filter(|_| spoiled_in(round).is_some()).unwrap_or(&graph);
                    // SAFETY: of this communicator, on memory that outlives it; the communicator waits for all calls.
                    unsafe { comm.replay(graph, &streams) }?;
                }
                self.graphs.extend([Some(graph), to_spoil].into_iter().flatten());
            }
        }
        Ok(changes)
    }

    /// Waits for all calls. The wrong elements that all ranks have counted.
    fn look(&mut self) -> Result<u64> {
        self.memory.synchronize()?;
        self.comm.check()?;
        self.graphs.clear();
        Ok(self.comm.wrong()?.iter().sum())
    }

    /// What is to be told of the earliest call with a wrong element.
    fn first_wrong(&self, settings: &Settings) -> Result<Option<FirstCall>> {
        let world = settings.target.world() as u32;
        let firsts = (0..world).zip(self.comm.first_wrong()?);
        let first = firsts.filter_map(|(rank, first)| Some((rank, first?))).min_by_key(|(_, first)| first.epoch);
        let Some((rank, first)) = first else { return Ok(None) };
        // Every call was one epoch; and what it was is drawn again.
        let mut draw: Draw = settings.draw(&self.comm);
        let (batch, number) = draw.find(first.epoch)?;
        let Some((round, place)) = batch.place(number) else { return Ok(None) };
        let story = Story::new(world, rank, batch.calls[place].dtype, first);
        let again = settings.again(first.epoch);
        Ok(Some(FirstCall::new(world as usize, &batch, (round, place), story, settings.seed, again)))
    }
}

/// Does one step of a call, or has it recorded.
fn make(comm: &mut Communicator, memory: &Memory<'_>, step: Step, call: &Call, set: usize) -> allfold::Result<()> {
    of_dtype!(call.dtype, T => make_typed::<T>(comm, memory, step, call, set))
}

fn make_typed<T: Element>(
    comm: &mut Communicator,
    memory: &Memory<'_>,
    step: Step,
    call: &Call,
    set: usize,
) -> allfold::Result<()> {
    let buffers = |part| memory.buffers::<T>(call, part, set);
    match step {
        Step::Fill => comm.fill_stamps(&buffers(Part::Input)),
        Step::Reduce => comm.all_reduce_with(&buffers(Part::InputToOutput), ReduceOp::Sum, &call.options).map(drop),
        // By what would be the next call's input.
        Step::Spoil => comm.fill_stamps(&buffers(Part::End)),
        Step::Check => comm.check_stamps(&buffers(Part::Output)),
    }
}
