//! What each thread of a rank does: the caller's work and the kernels, in the order of the rank's stream.

use std::cell::Cell;
use std::rc::Rc;

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode, Rank};
use allfold_kernels::protocol::element::{Element, F32, I32};
use allfold_kernels::protocol::exchange::exchange;
use allfold_kernels::protocol::machine::{Machine, Pack, Region};
use allfold_kernels::protocol::one_pass::one_pass;
use allfold_kernels::protocol::one_shot::one_shot;
use allfold_kernels::protocol::one_shot_push::one_shot_push;
use allfold_kernels::protocol::stage::stage;
use allfold_kernels::protocol::two_shot::two_shot;
use allfold_kernels::protocol::two_shot_push::two_shot_push;
use loom::sync::atomic::{Ordering, fence};

use crate::assumptions::Assumption;
use crate::machine::{LoomMachine, World};
use crate::mutants::Mutant;
use crate::program::{Access, Call, Launch, Usage};
use crate::trace::{Failure, What};

/// What `rank` gives as pack `pack` to call `number`: the call in lane 0 and the pack in lane 1, as the rank's digit of a
/// number to base 16.
fn stamp(dtype: Dtype, rank: Rank, number: u32, pack: u32) -> Pack {
    let digit = |value: u32| word(dtype, value << (4 * rank.0));
    Pack([digit(number), digit(pack + 1), 0, 0])
}

/// An element of the value `value`.
fn word(dtype: Dtype, value: u32) -> u32 {
    if dtype == Dtype::I32 { value } else { (value as f32).to_bits() }
}

/// The value of an element: no f32 from 1 on has the bits of an integer as small as those here.
fn value(word: u32) -> u32 {
    if word < 1 << 24 { word } else { f32::from_bits(word) as u32 }
}

/// What each rank gave to a sum, by rank: the number of the call.
pub fn digits(sum: Pack, ranks: u32) -> Vec<u32> {
    let value = value(sum.0[0]);
    (0..ranks).map(|rank| value >> (4 * rank) & 0xf).collect()
}

/// One rank, for one thread of the model.
struct Stream<'a> {
    world: &'a Rc<World>,
    rank: Rank,
}

/// Runs thread `thread` of `rank` through all calls.
pub fn run(world: &Rc<World>, rank: Rank, thread: u32) {
    let stream = Stream { world, rank };
    match world.program.launch {
        Launch::InOrder => stream.in_order(thread),
        Launch::Early(waits_before) => stream.early(thread, waits_before),
    }
}

impl Stream<'_> {
    fn in_order(&self, thread: u32) {
        let program = &self.world.program;
        let place = (thread / program.shape.threads, thread % program.shape.threads);
        let calls = program.calls.len() as u32;
        for number in 1..=calls {
            self.between_kernels(|| {
                if number > 1 {
                    self.check_output(number - 1);
                }
                self.write_input(number, number);
                match program.call(number).input {
                    InputMode::Memcpy => stage::<_, F32>(&self.machine(number, None)),
                    InputMode::Registered | InputMode::Copied => {}
                }
            });
            if place.0 < program.call(number).blocks {
                self.kernel(self.machine(number, Some(place)));
            }
        }
        self.between_kernels(|| {
            self.check_output(calls);
            match program.usage {
                Usage::Rewritten | Usage::InPlace => self.write_input(calls, calls + 1),
                Usage::InTurn | Usage::Chained => {}
            }
        });
    }

    /// The end of a kernel, what the rank does then, and the begin of the next: all of it in order for this rank, and
    /// of no meaning to any other.
    fn between_kernels(&self, work: impl FnOnce()) {
        self.world.streams[self.rank.0 as usize].meet(true, work);
        if self.world.assumptions.has(Assumption::KernelEndPublishes) {
            fence(Ordering::Release);
        }
    }

    /// Thread 0 is the kernel that writes the last call's input; thread 1 that call's, launched early.
    fn early(&self, thread: u32, waits_before: Access) {
        let last = self.world.program.calls.len() as u32;
        if thread == 0 {
            self.write_input(1, 1);
            match self.world.program.call(1).input {
                InputMode::Memcpy => stage::<_, F32>(&self.machine(1, None)),
                InputMode::Registered | InputMode::Copied => {}
            }
            if last > 1 {
                self.kernel(self.machine(1, Some((0, 0))));
            }
            self.world.streams[self.rank.0 as usize].meet(true, || ());
        } else {
            let machine = self.machine(last, Some((0, 0)));
            machine.waits_before.set(Some(waits_before));
            self.kernel(machine);
            self.check_output(last);
        }
    }

    fn machine(&self, call: u32, place: Option<(u32, u32)>) -> LoomMachine {
        let world = self.world.clone();
        LoomMachine {
            world,
            rank: self.rank,
            place,
            call,
            waits_before: Cell::new(None),
            looks: Cell::new(0),
            stale: Cell::new(false),
        }
    }

    fn kernel(&self, machine: LoomMachine) {
        machine.log(What::Begin);
        let call = *self.world.program.call(machine.call);
        launch(&Mutant::new(machine, self.world.mutation), call);
    }

    /// Writes the buffer of call `number` with the stamps of call `stamped`.
    fn write_input(&self, number: u32, stamped: u32) {
        let machine = self.machine(number, None);
        for pack in 0..self.world.program.packs_of(number) {
            machine.write(
                self.world.program.source(number),
                pack,
                stamp(self.world.program.call(number).dtype, self.rank, stamped, pack),
            );
        }
    }

    fn check_output(&self, number: u32) {
        let ranks = self.world.program.shape.ranks;
        // A sum of sums has the stamps of the first call, each as often as there are ranks.
        let (stamped, times) = match self.world.program.usage {
            Usage::Chained => (1, ranks.pow(number - 1)),
            Usage::InTurn | Usage::Rewritten | Usage::InPlace => (number, 1),
        };
        let dtype = self.world.program.call(number).dtype;
        let want = |lane: usize, pack| {
            let stamps = (0..ranks).map(|rank| value(stamp(dtype, Rank(rank), stamped, pack).0[lane]));
            word(dtype, stamps.sum::<u32>() * times)
        };
        for pack in 0..self.world.program.packs_of(number) {
            let got = self.machine(number, None).ld_pack(Region::Output, self.rank, pack.into());
            if got != Pack([want(0, pack), want(1, pack), 0, 0]) {
                self.world.log.fail(Failure::WrongSum { rank: self.rank, call: number, pack, got });
            }
        }
    }
}

fn launch<M: Machine>(m: &M, call: Call) {
    if call.dtype == Dtype::I32 { launch_typed::<M, I32>(m, call) } else { launch_typed::<M, F32>(m, call) }
}

fn launch_typed<M: Machine, T: Element>(m: &M, call: Call) {
    match (call.algorithm, m.world()) {
        (Algorithm::OneShot, 2) => one_shot::<M, T, 2>(m, call.protocol),
        (Algorithm::OneShot, 3) => one_shot::<M, T, 3>(m, call.protocol),
        (Algorithm::OneShot, 4) => one_shot::<M, T, 4>(m, call.protocol),
        (Algorithm::TwoShot, 2) => two_shot::<M, T, 2>(m, call.protocol),
        (Algorithm::TwoShot, 3) => two_shot::<M, T, 3>(m, call.protocol),
        (Algorithm::TwoShot, 4) => two_shot::<M, T, 4>(m, call.protocol),
        (Algorithm::OneShotPush, 2) => one_shot_push::<M, T, 2>(m),
        (Algorithm::OneShotPush, 3) => one_shot_push::<M, T, 3>(m),
        (Algorithm::TwoShotPush, 2) => two_shot_push::<M, T, 2>(m),
        (Algorithm::TwoShotPush, 3) => two_shot_push::<M, T, 3>(m),
        (Algorithm::OnePass, 2) => one_pass::<M, T, 2>(m, call.protocol),
        (Algorithm::OnePass, 3) => one_pass::<M, T, 3>(m, call.protocol),
        (Algorithm::Exchange, 2) => exchange::<M, T>(m, call.protocol),
        (
            Algorithm::OneShot
            | Algorithm::TwoShot
            | Algorithm::OneShotPush
            | Algorithm::TwoShotPush
            | Algorithm::OnePass
            | Algorithm::Exchange,
            ranks,
        ) => unreachable!("no shape has {ranks} ranks"),
    }
}
