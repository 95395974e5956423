//! The kernels of `allfold-kernels` themselves, traced to litmus programs. Uses `tracer`, `cell`, `verdict`.
//!
//! Two ranks run a few calls in a row; before each, the caller writes the input, in stream order. Each load of data that
//! others write is one question: may it return anything but its own call's data? A weak load orders nothing, so the
//! questions are apart: for each, the program is cut down to the flags, the block syncs, the writes of that one location
//! and that one load.

mod cell;
pub mod gives;
pub mod matrix;
pub mod pushes;
pub mod rows;
mod tracer;

pub use cell::{Cell, Landing, RANKS, SHAPES, Shape, Usage, Weakened};
use tracer::{Expected, SUM, Tracer};

use allfold_kernels::protocol::abi::{Algorithm, InputMode, Rank};
use allfold_kernels::protocol::element::{Element, F32};
use allfold_kernels::protocol::exchange::exchange;
use allfold_kernels::protocol::one_pass::one_pass;
use allfold_kernels::protocol::one_shot::one_shot;
use allfold_kernels::protocol::one_shot_push::one_shot_push;
use allfold_kernels::protocol::stage::stage;
use allfold_kernels::protocol::two_shot::two_shot;
use allfold_kernels::protocol::two_shot_push::two_shot_push;

use crate::assumption::Assumption;
use crate::enumerate::Model;
use crate::event::{Op, Order, Place, Reg};
use crate::program::{Program, Thread};
use crate::verdict::{Outcome, Term, Verdict, ask_model};

/// What the model says of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// No load returns anything but its call's data, and none races.
    Sound,
    /// So it is under any of these smallest sets of assumptions.
    RestsOn(Vec<Vec<Assumption>>),
    /// Some load goes wrong whatever is assumed: the steps.
    Unsound(Vec<String>),
}

/// Judges `cell`.
pub fn judge(cell: &Cell) -> Judgement {
    if wrong(cell, Weakened::Nothing, &[]).is_none() {
        return Judgement::Sound;
    }
    if let Some(steps) = wrong(cell, Weakened::Nothing, &Assumption::ALL) {
        return Judgement::Unsound(steps);
    }
    let mut sets: Vec<Vec<Assumption>> = Vec::new();
    for size in 1..=Assumption::ALL.len() {
        for set in subsets(size) {
            let smaller = sets.iter().any(|known| known.iter().all(|assumption| set.contains(assumption)));
            if !smaller && wrong(cell, Weakened::Nothing, &set).is_none() {
                sets.push(set);
            }
        }
    }
    Judgement::RestsOn(sets)
}

/// The steps to a load that returns another call's data, if the model allows any; with no assumption, also to a race.
pub fn wrong(cell: &Cell, weakened: Weakened, assumptions: &[Assumption]) -> Option<Vec<String>> {
    SHAPES.iter().find_map(|&shape| {
        let (program, loads) = trace(cell, weakened, shape);
        loads.iter().find_map(|load| {
            let outcome = Outcome(vec![Term::IsNot(load.reg.clone(), load.stamp)]);
            let model = Model { only_coherent: true, ..Model::default() };
            let answer = ask_model(&cut_down(&program, load), assumptions, &outcome, model);
            let racy = assumptions.is_empty() && answer.racy;
            (answer.verdict != Verdict::Forbidden || racy).then_some(answer.witness)
        })
    })
}

/// The kernel of `cell`, for one thread.
fn kernel<T: Element>(m: &Tracer<'_>, cell: &Cell) {
    const W: usize = RANKS as usize;
    match cell.algorithm {
        Algorithm::OneShot => one_shot::<_, T, W>(m, cell.protocol),
        Algorithm::TwoShot => two_shot::<_, T, W>(m, cell.protocol),
        Algorithm::OneShotPush => one_shot_push::<_, T, W>(m),
        Algorithm::TwoShotPush => two_shot_push::<_, T, W>(m),
        Algorithm::OnePass => one_pass::<_, T, W>(m, cell.protocol),
        Algorithm::Exchange => exchange::<_, T>(m, cell.protocol),
    }
}

fn subsets(size: usize) -> impl Iterator<Item = Vec<Assumption>> {
    let all = Assumption::ALL;
    (0..1_u32 << all.len()).filter(move |bits| bits.count_ones() as usize == size).map(move |bits| {
        all.into_iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).map(|(_, assumption)| assumption).collect()
    })
}

/// The program of all calls, and its loads of data that others write.
pub fn trace(cell: &Cell, weakened: Weakened, shape: Shape) -> (Program, Vec<Expected>) {
    let (mut threads, mut expected) = (Vec::new(), Vec::new());
    for rank in 0..RANKS as u8 {
        for call in 1..=shape.calls {
            // In the stream: the caller's write, perhaps the copy, the kernel.
            let grid = 3 * call;
            let (before, read) = caller(cell, rank, grid, call.into());
            threads.push(before);
            expected.extend(read);
            let mut run = |grid, shape: Shape, block, thread, kernel: fn(&Tracer<'_>, &Cell)| {
                let place = Place { gpu: rank, grid, block, thread };
                let tracer = Tracer::new(cell, weakened, shape, place, call.into());
                kernel(&tracer, cell);
                let (thread, loads) = tracer.finish();
                threads.push(thread);
                expected.extend(loads);
            };
            if cell.input == InputMode::Memcpy {
                let one = Shape { blocks: 1, threads: 1, ..shape };
                run(grid + 1, one, 0, 0, |m, _| stage::<_, F32>(m));
            }
            for block in 0..shape.blocks {
                for thread in 0..shape.threads {
                    run(grid + 2, shape, block, thread, kernel::<F32>);
                }
            }
        }
        // After the last call the input changes once more.
        let last = shape.calls + 1;
        let (after, read) = caller(cell, rank, 3 * last, last.into());
        threads.push(after);
        expected.extend(read);
    }
    (Program::new(threads), expected)
}

/// The caller before call `call`: where peers store its output, it reads that of the call before; then it writes its input.
fn caller(cell: &Cell, rank: u8, grid: u8, call: u32) -> (Thread, Vec<Expected>) {
    let (mut thread, mut expected) = (Thread::in_kernel(rank, grid, 0, 0), Vec::new());
    let owner = Rank(rank.into());
    if cell.gives() && call > 1 {
        for pack in 0..cell.packs() {
            let (loc, reg) = (cell.output(owner, pack, call - 1), Reg::from(format!("sum {pack} of {}", thread.place)));
            thread = thread.ld(Order::Weak, reg.clone(), loc.clone());
            expected.push(Expected { reg, loc, stamp: SUM + call - 1 });
        }
    }
    if !cell.input.staged() {
        let write = |thread: Thread, pack| thread.st(Order::Weak, cell.buffer(owner, pack, call), call);
        thread = (0..cell.packs()).fold(thread, write);
    }
    (thread, expected)
}

/// Flags, block syncs, what is written to the place that `load` loads from, and `load`.
fn cut_down(program: &Program, load: &Expected) -> Program {
    let keep = |op: &Op| match op {
        Op::Store { loc, order, .. } => *order != Order::Weak || *loc == load.loc,
        Op::Load { into, until, .. } => until.is_some() || *into == load.reg,
        Op::Add { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => true,
    };
    retain(program, keep)
}

/// The operations of `program` that `keep` keeps, and the threads that have any.
fn retain(program: &Program, keep: impl Fn(&Op) -> bool) -> Program {
    let mut program = program.clone();
    for thread in &mut program.threads {
        thread.ops.retain(&keep);
    }
    program.threads.retain(|thread| !thread.ops.is_empty());
    program
}
