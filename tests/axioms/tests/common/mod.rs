//! Small random programs, and what their interleavings show.

use std::collections::{BTreeMap, BTreeSet};

use allfold_axioms::event::{FenceKind, Loc, Op, Order, Reg, Scope, Value};
use allfold_axioms::program::{Program, Thread};

/// A generator of the same numbers each time (xorshift).
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const SCOPES: [Scope; 3] = [Scope::Cta, Scope::Gpu, Scope::Sys];

/// Two or three threads of up to three accesses to two locations, with fences; in one block, one device or several. In a
/// block there may be a `bar.sync`.
pub fn program(random: &mut Random) -> Program {
    let count = 2 + random.below(2) as u8;
    let places: [fn(u8) -> Thread; 3] =
        [|n| Thread::new(0, 0, n), |n| Thread::new(0, n, 0), |n| Thread::new(n % 2, n / 2, 0)];
    let placed = random.below(places.len());
    let (place, synced) = (places[placed], placed == 0 && random.below(2) == 0);
    let mut next = 0;
    let threads: Vec<Thread> = (0..count)
        .map(|n| {
            let mut thread = place(n);
            let mut loaded: Option<Reg> = None;
            for _ in 0..2 + random.below(if count == 2 { 2 } else { 1 }) {
                next += 1;
                let (scope, loc) = (random.of(&SCOPES), Loc::from(random.of(&["x", "y"])));
                let reg = Reg::from(format!("r{next:02}"));
                let relaxed = random.of(&[Order::Weak, Order::Volatile, Order::Relaxed(scope)]);
                let op = match random.below(10) {
                    0..4 => {
                        loaded = Some(reg.clone());
                        Op::Load { order: random.of(&[relaxed, Order::Acquire(scope)]), loc, into: reg, until: None }
                    }
                    4..8 => {
                        let value = match &loaded {
                            Some(reg) if random.below(4) == 0 => Value::Of(reg.clone()),
                            Some(_) | None => Value::Const(next),
                        };
                        Op::Store { order: random.of(&[relaxed, Order::Release(scope)]), loc, value }
                    }
                    8 => {
                        let order = random.of(&[Order::Relaxed(scope), Order::AcqRel(scope)]);
                        Op::Add { order, loc, value: 10, into: Some(reg) }
                    }
                    _ => Op::Fence(random.of(&[FenceKind::AcqRel, FenceKind::Sc]), scope),
                };
                thread = thread.op(op);
            }
            if synced {
                thread.ops.insert(random.below(thread.ops.len() + 1), Op::BarSync);
            }
            thread
        })
        .collect();
    Program::new(threads)
}

/// What the registers, in the order of their names, hold after each interleaving.
pub fn interleavings(program: &Program) -> BTreeSet<Vec<u32>> {
    let mut shown = BTreeSet::new();
    let start = State { next: vec![0; program.threads.len()], ..State::default() };
    step(program, start, &mut shown);
    shown
}

#[derive(Clone, Default)]
struct State {
    next: Vec<usize>,
    memory: BTreeMap<Loc, u32>,
    registers: BTreeMap<Reg, u32>,
}

fn step(program: &Program, state: State, shown: &mut BTreeSet<Vec<u32>>) {
    let mut ended = true;
    for (t, thread) in program.threads.iter().enumerate() {
        let Some(op) = thread.ops.get(state.next[t]) else { continue };
        ended = false;
        if *op == Op::BarSync && !all_at_barrier(program, &state) {
            continue;
        }
        let mut state = state.clone();
        state.next[t] += 1;
        let held = |loc: &Loc, state: &State| state.memory.get(loc).copied().unwrap_or(0);
        match op {
            Op::Load { loc, into, .. } => {
                state.registers.insert(into.clone(), held(loc, &state));
            }
            Op::Store { loc, value, .. } => {
                let value = match value {
                    Value::Const(value) => *value,
                    Value::Of(reg) => state.registers[reg],
                };
                state.memory.insert(loc.clone(), value);
            }
            Op::Add { loc, value, into, .. } => {
                let old = held(loc, &state);
                state.memory.insert(loc.clone(), old + value);
                state.registers.extend(into.clone().map(|into| (into, old)));
            }
            Op::Fence(..) | Op::BarSync | Op::GridWait => {}
        }
        step(program, state, shown);
    }
    if ended {
        shown.insert(state.registers.into_values().collect());
    }
}

/// Whether each thread has come to its `bar.sync`: all are of one block, and each has one.
fn all_at_barrier(program: &Program, state: &State) -> bool {
    program
        .threads
        .iter()
        .zip(&state.next)
        .all(|(thread, &next)| !thread.ops[next..].contains(&Op::BarSync) || thread.ops[next] == Op::BarSync)
}
