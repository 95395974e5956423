//! The push kernels, traced: rows of calls in which a generation comes round. Uses `tracer`, `cell`, `verdict`.
//!
//! What one question can depend on is a call that clears a place, one that begins a generation and announces that, the
//! next push, which waits for it, and the call that pushes to that place again. A row has these, and may leave out
//! others: they lie in between, in stream order, and would only order more. Cursors are what the kernels make them, by
//! all calls of the row. What is asked, for each landing place:
//!
//! - *lost*: a marker that is put back comes after the push that a later call makes there; then that call's poll never
//!   ends. So the poll is left out, and the marker looked for in memory.
//! - *wrong*: a poll ends with another call's pack, or anything there races.

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode, Phase, Rank};
use allfold_kernels::protocol::element::{F32, I32};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::stage::stage;

use super::cell::{Cell, Landing, RANKS, Shape, Usage, Weakened};
use super::tracer::{Before, Expected, Tracer};
use super::{Judgement, kernel, subsets};
use crate::assumption::Assumption;
use crate::enumerate::Model;
use crate::event::{Loc, Op, Order, Place, Scope};
use crate::program::{Program, Thread};
use crate::verdict::{Outcome, Term, Verdict, ask_model};

/// One call of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number: the epoch.
    pub number: u32,
    /// Its algorithm, by our own protocol.
    pub algorithm: Algorithm,
    /// How peers see its input.
    pub input: InputMode,
    /// Whether one staging bank is kept in place of two in turn.
    pub kept: bool,
    /// Packs of each part, or of the whole where there are no parts.
    pub each: u64,
    /// Its elements: f32, or i32, whose words land beside flags.
    pub dtype: Dtype,
    /// Its grid.
    pub blocks: u8,
    /// Threads of a block.
    pub threads: u8,
    /// Whether the program leaves it out. What comes after it is what it would be, but for what it orders.
    pub left_out: bool,
}

impl Call {
    pub(super) fn cell(&self) -> Option<Cell> {
        let &Call { algorithm, input, each, .. } = self;
        let ours = Preset::Allfold.protocol(algorithm, input)?;
        let protocol = if self.kept { ours.kept(algorithm) } else { ours };
        Some(Cell { algorithm, input, usage: Usage::Rewritten, protocol, each })
    }

    fn shape(&self) -> Shape {
        Shape { blocks: self.blocks, threads: self.threads, calls: 1 }
    }
}

/// A row of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// In words.
    pub name: String,
    /// Packs of a landing slot that small calls share.
    pub shared: u32,
    /// The calls.
    pub calls: Vec<Call>,
}

/// What a row does, traced.
struct Traced {
    program: Program,
    /// What was polled of landing places, and the place of the call in the row.
    landed: Vec<(usize, Expected)>,
    /// What was loaded of all else that is shared.
    loads: Vec<Expected>,
}

/// The number of a call's kernel in its stream; the one before is the caller's write of the input, or a copy of it.
const fn grid(place: usize) -> u8 {
    2 * place as u8 + 1
}

fn trace(row: &Row, weakened: Weakened) -> Traced {
    let (mut threads, mut landed, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = Before::first(row.shared);
    for (place, call) in row.calls.iter().enumerate() {
        let Some(cell) = call.cell() else { continue };
        let mut cursors = Vec::new();
        for gpu in 0..RANKS as u8 {
            if !(call.left_out || call.input.staged() && call.algorithm.has_any_protocol()) {
                let loc = |pack| cell.buffer(Rank(gpu.into()), pack, call.number);
                let write = |thread: Thread, pack| thread.st(Order::Weak, loc(pack), call.number);
                threads.push((0..cell.packs()).fold(Thread::in_kernel(gpu, grid(place) - 1, 0, 0), write));
            }
            let mut run = |at: Place, shape, kernel: fn(&Tracer<'_>, &Cell)| {
                let tracer = Tracer::new(&cell, weakened, shape, at, call.number).after(before);
                kernel(&tracer, &cell);
                cursors.extend(tracer.cursor());
                if !call.left_out {
                    landed.extend(tracer.landed().into_iter().map(|poll| (place, poll)));
                    let (thread, loaded) = tracer.finish();
                    threads.push(thread);
                    loads.extend(loaded);
                }
            };
            if call.input == InputMode::Memcpy && call.algorithm.has_any_protocol() {
                let one = Shape { blocks: 1, threads: 1, calls: 1 };
                let at = Place { gpu, grid: grid(place) - 1, block: 0, thread: 0 };
                run(at, one, |m, _| stage::<_, F32>(m));
            }
            let kernel = if call.dtype == Dtype::I32 { kernel::<I32> } else { kernel::<F32> };
            for block in 0..call.blocks {
                for thread in 0..call.threads {
                    run(Place { gpu, grid: grid(place), block, thread }, call.shape(), kernel);
                }
            }
        }
        if let Some(&cursor) = cursors.first() {
            assert!(cursors.iter().all(|other| *other == cursor), "{}: threads are not one in {cursors:?}", row.name);
            before.cursor = cursor;
        }
        if !call.left_out {
            before.call = call.number;
            before.push = if call.algorithm.pushes() { call.number } else { before.push };
        }
    }
    Traced { program: Program::new(threads), landed, loads }
}

/// What puts a marker before a later push, as it is and weakened, in words, each in all calls of a row.
pub fn orders() -> Vec<(&'static str, Weakened)> {
    vec![
        ("nothing: a release store, an acquire poll, four generations", Weakened::Nothing),
        ("the announcement: a volatile store", Weakened::Release),
        ("the wait: a volatile poll", Weakened::Acquire),
        ("both: device scope", Weakened::Scope),
        ("the wait: nobody waits", Weakened::Poll(Phase::Landing)),
        ("three generations", Weakened::Generations(3)),
        ("two generations", Weakened::Generations(2)),
        ("one generation", Weakened::Generations(1)),
    ]
}

/// What else of a push is weakened, in words, each in all calls of a row.
pub fn mutants() -> Vec<(&'static str, Weakened)> {
    let (gpu, weak) = (Order::Relaxed(Scope::Gpu), Order::Weak);
    vec![
        ("push: device scope", Weakened::Landing(Landing::Push, gpu)),
        ("push: an ordinary store", Weakened::Landing(Landing::Push, weak)),
        ("poll: device scope", Weakened::Landing(Landing::Poll, gpu)),
        ("poll: an ordinary load", Weakened::Landing(Landing::Poll, weak)),
        ("clear: device scope", Weakened::Landing(Landing::Clear, gpu)),
        ("clear: an ordinary store", Weakened::Landing(Landing::Clear, weak)),
        ("nobody puts the marker back", Weakened::Clear),
        ("a sum is pushed that is the marker", Weakened::Sum),
        ("no block sync before epochs and cursors move on", Weakened::Sync(0)),
    ]
}

/// How a row goes wrong, if the model allows any: the steps. With no assumption, a race of what is looked at counts
/// too.
pub fn wrong(row: &Row, weakened: Weakened, assumptions: &[Assumption]) -> Option<Vec<String>> {
    let Traced { program, landed, loads } = trace(row, weakened);
    let model = Model { only_coherent: true, ..Model::default() };
    let ask = |cut: &dyn Fn(&[Assumption]) -> Program, outcome: Outcome| {
        let with = |assumptions: &[Assumption]| {
            let answer = ask_model(&cut(assumptions), assumptions, &outcome, model);
            let racy = assumptions.is_empty() && answer.racy;
            (answer.verdict != Verdict::Forbidden || racy).then_some(answer.witness)
        };
        // What is forbidden with nothing assumed is so whatever is assumed, and sooner asked.
        let steps = with(&[])?;
        if assumptions.is_empty() { Some(steps) } else { with(assumptions) }
    };
    let lost = |(place, poll): &(usize, Expected)| {
        let cut = |assumed: &[_]| before_poll(&cut_down(&program, &poll.loc, None, assumed), &poll.loc, grid(*place));
        ask(&cut, Outcome(vec![Term::Final(poll.loc.clone(), 0)]))
    };
    let other = |(_, poll): &(usize, Expected)| {
        let cut = |assumed: &[_]| cut_down(&program, &poll.loc, None, assumed);
        ask(&cut, Outcome(vec![Term::IsNot(poll.reg.clone(), poll.stamp)]))
    };
    let never = |(_, poll): &(usize, Expected)| {
        let cut = cut_down(&program, &poll.loc, None, assumptions);
        let ends = ask_model(&cut, assumptions, &Outcome::default(), model).consistent > 0;
        (!ends).then(|| vec![format!("no execution in which the polls of [{}] end", poll.loc)])
    };
    let load = |load: &Expected| {
        let cut = |assumed: &[_]| cut_down(&program, &load.loc, Some(load), assumed);
        ask(&cut, Outcome(vec![Term::IsNot(load.reg.clone(), load.stamp)]))
    };
    // With assumptions all polls are in each program, and one is asked for all.
    let apart = if assumptions.is_empty() { landed.len() } else { 1 };
    landed
        .iter()
        .find_map(lost)
        .or_else(|| landed.iter().find_map(other))
        .or_else(|| landed.iter().take(apart).find_map(never))
        .or_else(|| loads.iter().find_map(load))
}

/// Judges `row`.
pub fn judge(row: &Row, weakened: Weakened) -> Judgement {
    if wrong(row, weakened, &[]).is_none() {
        return Judgement::Sound;
    }
    if let Some(steps) = wrong(row, weakened, &Assumption::ALL) {
        return Judgement::Unsound(steps);
    }
    let mut sets: Vec<Vec<Assumption>> = Vec::new();
    for set in (1..=Assumption::ALL.len()).flat_map(subsets) {
        let smaller = sets.iter().any(|known| known.iter().all(|assumption| set.contains(assumption)));
        if !smaller && wrong(row, weakened, &set).is_none() {
            sets.push(set);
        }
    }
    Judgement::RestsOn(sets)
}

/// Flags, block syncs, what is done to `loc`, of weak loads of it only `load`; and all pushes, polls and clears where
/// the question is what an assumption does for them.
fn cut_down(program: &Program, loc: &Loc, load: Option<&Expected>, assumptions: &[Assumption]) -> Program {
    let landing = |other: &Loc| other.to_string().starts_with("landing");
    let keep = |op: &Op| match op {
        Op::Load { into, loc: other, until: None, .. } => load.is_some_and(|load| *into == load.reg && other == loc),
        Op::Load { loc: other, .. } => !landing(other) || other == loc || !assumptions.is_empty(),
        Op::Store { loc: other, order, .. } => {
            other == loc || *order != Order::Weak && (!landing(other) || !assumptions.is_empty())
        }
        Op::Add { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => true,
    };
    super::retain(program, keep)
}

/// What has happened when the kernel `grid` has pushed to `loc`, and nobody has polled there yet.
fn before_poll(program: &Program, loc: &Loc, grid: u8) -> Program {
    let mut program = program.clone();
    program.threads.retain(|thread| thread.place.grid <= grid);
    for thread in &mut program.threads {
        let (last, place) = (thread.place.grid == grid, loc.to_string());
        let listens = place.ends_with(&format!(">{}", thread.place.gpu));
        thread.ops.retain(|op| !(last && listens && op.loc() == Some(loc)));
    }
    program
}
