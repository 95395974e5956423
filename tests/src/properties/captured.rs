//! Calls that are captured before their buffers are registered, and finished afterwards.

use std::time::Duration;

use allfold::cuda::RawStream;
use allfold::{Algorithm, CallOptions, Captured, Communicator, Dtype, Error, Options, Preset, ReduceOp, Registered};
use anyhow::{Result, ensure};
use cust::stream::Stream;

use super::registered::held;
use crate::machine::{Memory, raw_buffers};
use crate::numbers::{decode, read, write};
use crate::suite::{Bench, Outcome};

/// Bytes from one buffer to the next.
const STEP_BYTES: usize = 4096;
/// Outputs, behind one input.
pub(super) const OUTPUTS: usize = 6;

/// Elements of each call: of odd lengths too.
const fn elems(number: usize) -> usize {
    1000 - 97 * number
}

/// What is captured: a call for each output, each by another algorithm.
pub(super) struct Bed {
    pub(super) comm: Communicator,
    pub(super) memories: Vec<Box<dyn Memory>>,
}

impl Bed {
    pub(super) fn new(bench: &Bench, world: usize, captured_calls: u32) -> Result<Bed> {
        let options = Options { captured_calls, ..bench.options(Preset::Allfold, STEP_BYTES) };
        let comm = bench.communicator(world, options)?;
        Ok(Bed { memories: memories(bench, &comm)?, comm })
    }

    /// Captures calls to the outputs of `numbers`.
    pub(super) fn capture(&mut self, numbers: &[usize]) -> allfold::Result<Captured> {
        let memories = &self.memories;
        self.comm
            .capture(&streams(memories), |comm| numbers.iter().try_for_each(|&number| call(comm, memories, number)))
    }

    /// Replays on inputs of `value` and more, and looks at the outputs of `numbers`.
    pub(super) fn replay(&mut self, captured: &Captured, numbers: &[usize], value: usize) -> Result<()> {
        self.replay_on(captured, numbers, value, None)
    }

    /// [`Bed::replay`] on other streams than those that were captured.
    fn replay_on(
        &mut self,
        captured: &Captured,
        numbers: &[usize],
        value: usize,
        others: Option<&[Stream]>,
    ) -> Result<()> {
        for (rank, memory) in self.comm.local_ranks().zip(&mut self.memories) {
            let mut bytes = vec![0; (1 + OUTPUTS) * STEP_BYTES];
            for elem in 0..STEP_BYTES / 4 {
                write(Dtype::F32, &mut bytes, elem, ((value + rank + elem) as f32).to_bits().into());
            }
            memory.upload(&bytes)?;
        }
        let own = streams(&self.memories);
        let here = others.map_or(own.clone(), |others| others.iter().map(Into::into).collect());
        if others.is_some() {
            self.comm.change_streams(&own, &here)?;
        }
        // SAFETY: the memories live as long as the communicator.
        unsafe { self.comm.replay(captured, &here) }?;
        if others.is_some() {
            self.comm.change_streams(&here, &own)?;
        }
        self.memories.iter().try_for_each(|memory| memory.synchronize())?;
        self.comm.check()?;
        for memory in &self.memories {
            let mut bytes = vec![0; (1 + OUTPUTS) * STEP_BYTES];
            memory.download(&mut bytes)?;
            for &number in numbers {
                for elem in 0..elems(number) {
                    let want: usize = (0..self.comm.world()).map(|rank| value + rank + elem).sum();
                    let got = decode(Dtype::F32, read(Dtype::F32, &bytes[(1 + number) * STEP_BYTES..], elem));
                    ensure!(got == want as f64, "output {number}, element {elem}: {got}, not {want}");
                }
            }
        }
        Ok(())
    }
}

/// Waits until graphs that are gone have given up what they held: on GPUs a thread of the driver's does it.
fn settle(bench: &Bench) {
    if !bench.on_cpu() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn memories(bench: &Bench, comm: &Communicator) -> Result<Vec<Box<dyn Memory>>> {
    comm.local_ranks().map(|rank| bench.machine.memory(rank, (1 + OUTPUTS) * STEP_BYTES)).collect()
}

pub(super) fn streams(memories: &[Box<dyn Memory>]) -> Vec<RawStream<'_>> {
    memories.iter().filter_map(|memory| memory.stream()).map(Into::into).collect()
}

pub(super) fn call(comm: &mut Communicator, memories: &[Box<dyn Memory>], number: usize) -> allfold::Result<()> {
    let algorithm = Algorithm::ALL.into_iter().cycle().skip(number).find(|it| it.takes(comm.world() as u32));
    let options = CallOptions { algorithm, registered: Registered::Later, ..CallOptions::default() };
    let output = (1 + number) * STEP_BYTES;
    let of = |memory| unsafe {
        // SAFETY: the memories live as long as the communicator, and each has one stream.
        raw_buffers(Dtype::F32, memory, 0, output, elems(number))
    };
    let buffers: Vec<_> = memories.iter().map(|memory| of(&**memory)).collect();
    // SAFETY: as above.
    unsafe { comm.all_reduce_raw(Dtype::F32, &buffers, ReduceOp::Sum, &options) }.map(drop)
}

pub(super) fn b76_b81_finished_later(bench: &Bench) -> Result<Outcome> {
    let mut again = 0;
    for world in bench.worlds() {
        let mut bed = Bed::new(bench, world, 5 * OUTPUTS as u32)?;
        let all: Vec<_> = (0..OUTPUTS).collect();
        let (first, second) = (bed.capture(&all)?, bed.capture(&[1, 1, 4])?);
        bed.comm.finish_capture()?;
        for turn in 0..if bench.quick { 3 } else { 30 } {
            bed.replay(&first, &all, turn)?;
            bed.replay(&second, &[1, 4], 7 + turn)?;
            bench.count(2);
        }
        drop(first);
        // Another graph on the same buffers, and one whose memory lies where other memory was.
        let third = bed.capture(&[5, 0])?;
        bed.comm.finish_capture()?;
        bed.replay(&third, &[5, 0], 3)?;
        bed.replay(&second, &[1, 4], 5)?;
        drop((second, third));
        let before: Vec<_> = bed.memories.iter().map(|memory| memory.address()).collect();
        // Where there are several kinds of memory they come in turn.
        for _ in 0..6 {
            bed.memories.clear();
            bed.memories = memories(bench, &bed.comm)?;
            let now = bed.memories.iter().map(|memory| memory.address());
            if before.iter().zip(now).any(|(before, now)| *before == now) {
                again += 1;
                break;
            }
        }
        let fourth = bed.capture(&[0, 2, 3])?;
        bed.comm.finish_capture()?;
        bed.replay(&fourth, &[0, 2, 3], 11)?;
        let others = bed.comm.local_ranks().map(|rank| bench.machine.streams(rank, 1)).collect::<Result<Vec<_>>>()?;
        let others: Vec<_> = others.into_iter().flatten().collect();
        bed.replay_on(&fourth, &[0, 2, 3], 17, Some(&others))?;
        // A graph that goes before it is finished, and its memory with it, keeps nobody from finishing another.
        let fifth = bed.capture(&all)?;
        drop(fifth);
        settle(bench);
        bed.memories.clear();
        bed.memories = memories(bench, &bed.comm)?;
        let mut attempts = 0;
        let sixth = loop {
            let sixth = bed.capture(&[1, 3, 4])?;
            // The driver may not have come to it yet. Then all ranks are told, and the next time it has.
            match bed.comm.finish_capture() {
                Ok(()) => break sixth,
                Err(error) if bench.on_cpu() || attempts == 50 => return Err(error.into()),
                Err(_) => attempts += 1,
            }
        };
        bed.replay(&sixth, &[1, 3, 4], 2)?;
        bench.count(4);
    }
    if !bench.on_cpu() {
        println!("    memory lay where other memory was in {again} of {} worlds", bench.worlds().count());
    }
    Ok(Outcome::Holds)
}

pub(super) fn b71_b83_rows_come_back(bench: &Bench) -> Result<Outcome> {
    if !bench.machine.in_processes() {
        return Ok(Outcome::Skipped("in one process no row is needed".into()));
    }
    let world = bench.machine.most_ranks();
    // Calls whose buffers peers use.
    let all: Vec<_> = (0..OUTPUTS).collect();
    let uses = |number: &&usize| {
        let algorithm = Algorithm::ALL.into_iter().cycle().skip(**number).find(|it| it.takes(world as u32));
        algorithm.is_some_and(|algorithm| !algorithm.pushes())
    };
    let rows = all.iter().filter(uses).count() as u32;
    let mut bed = Bed::new(bench, world, rows)?;
    let mut before = None;
    for turn in 0..if bench.quick { 9 } else { 100 } {
        // A graph that is gone gives its rows back on a thread of the driver's.
        let mut attempts = 0;
        let captured = loop {
            match bed.capture(&all) {
                Err(Error::TooManyCaptured { most }) if most == rows && attempts < 1000 => {
                    ensure!(!bench.on_cpu(), "turn {turn}: rows are missing");
                    attempts += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                captured => break captured?,
            }
        };
        bed.comm.finish_capture()?;
        bed.replay(&captured, &all, turn)?;
        // All of them are taken now.
        let error = bed.capture(&[0]);
        ensure!(matches!(error, Err(Error::TooManyCaptured { most }) if most == rows), "{error:?}");
        drop(captured);
        // The first turns are for what a process makes once; drivers close in their own time what graphs had open.
        let held = held()?;
        if bench.on_cpu() && turn >= 4 {
            let before = *before.get_or_insert(held);
            ensure!(held.0 <= before.0 && held.1 <= before.1 + 4, "turn {turn}: {held:?}, {before:?} before");
        }
        bench.count(1);
    }
    Ok(Outcome::Holds)
}
