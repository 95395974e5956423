//! What is asked of pushes, one-pass and exchange: rows of calls, and planted faults. No part of `docs/barriers.md`.

use allfold_kernels::protocol::abi::{Algorithm, CALLS_PER_ANNOUNCEMENT, GENERATIONS, InputMode, Phase};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Protocol, Reuse};

use crate::mutants::Mutation;
use crate::program::{Call, Program, Shape, Usage};
use crate::search::Effort;

/// The two algorithms.
pub const PUSHES: [Algorithm; 2] = [Algorithm::OneShotPush, Algorithm::TwoShotPush];
/// The two that store into peers' outputs.
pub const GIVES: [Algorithm; 2] = [Algorithm::OnePass, Algorithm::Exchange];

const ONE: Shape = Shape { ranks: 2, blocks: 1, threads: 1 };
const TWO_BLOCKS: Shape = Shape { ranks: 2, blocks: 2, threads: 1 };
const THREE_RANKS: Shape = Shape { ranks: 3, blocks: 1, threads: 1 };
/// The call after this one announces itself.
const BEFORE: u64 = 2 * CALLS_PER_ANNOUNCEMENT - 1;

/// What is spent on a program.
pub fn effort(program: &Program) -> Effort {
    let effort = Effort { preemptions: 1, lineups: 2, bounded: 2_500, exhaustive: 0 };
    match program.shape {
        ONE => Effort { preemptions: 2, lineups: 1, bounded: 8_000, ..effort },
        Shape { .. } => effort,
    }
}

/// A registered call in our own form.
///
/// # Panics
/// Where there is no such form.
fn call(algorithm: Algorithm, blocks: u32, packs: u32) -> Call {
    staged(algorithm, InputMode::Registered, blocks, packs)
}

/// A call in the form of a communicator that pushes: one staging bank.
fn staged(algorithm: Algorithm, input: InputMode, blocks: u32, packs: u32) -> Call {
    let ours = Preset::Allfold.protocol(algorithm, input).expect("a form of ours");
    let protocol = if input.staged() { ours.kept(algorithm) } else { ours };
    Call { algorithm, input, protocol, blocks, packs: Some(packs) }
}

fn row(shape: Shape, last: u64, calls: impl IntoIterator<Item = Call>) -> Program {
    Program { shape, last: Epoch(last), calls: calls.into_iter().collect(), ..Program::EMPTY }
}

/// Pushes that shrink and grow, in packs and in blocks, around an announcement and the wait for it; also where the epoch
/// wraps; and of packs that land word by word.
pub fn alone() -> Vec<Program> {
    let mut rows = Vec::new();
    for push in PUSHES {
        for last in [BEFORE - 1, BEFORE, u64::MAX - 1, u64::MAX] {
            rows.push(row(ONE, last, [2, 1, 3].map(|packs| call(push, 1, packs))));
        }
        for (last, grids) in [(BEFORE, [2, 1]), (BEFORE, [1, 2]), (BEFORE - 1, [2, 2])] {
            rows.push(row(TWO_BLOCKS, last, grids.map(|blocks| call(push, blocks, 3 - blocks))));
        }
        rows.push(row(THREE_RANKS, BEFORE, [3, 1].map(|packs| call(push, 1, packs))));
        rows.push(Program { torn: true, ..row(ONE, BEFORE, [1, 2].map(|packs| call(push, 1, packs))) });
    }
    let other = |push| PUSHES[usize::from(push == PUSHES[0])];
    rows.extend(PUSHES.map(|push| row(ONE, BEFORE, [call(push, 1, 2), call(other(push), 1, 2), call(push, 1, 1)])));
    rows
}

/// A generation comes round: where the announcement lies in between, each place of it.
pub fn rounds() -> Vec<Program> {
    let mut rows = Vec::new();
    for push in PUSHES {
        for last in BEFORE..BEFORE + CALLS_PER_ANNOUNCEMENT {
            let packs = |number| if number % GENERATIONS == 0 { 2 } else { 1 };
            rows.push(row(ONE, last, (0..=GENERATIONS).map(|number| call(push, 1, packs(number)))));
        }
    }
    // Block 0 fences and announces, block 1 pushes and clears.
    for push in PUSHES {
        rows.push(row(TWO_BLOCKS, BEFORE, (0..=GENERATIONS).map(|_| call(push, 2, 1))));
    }
    let blocks = |number| if number % GENERATIONS == 0 { 2 } else { 1 };
    rows.push(row(TWO_BLOCKS, BEFORE, (0..=GENERATIONS).map(|number| call(PUSHES[0], blocks(number), 1))));
    rows
}

/// Pushes of no packs at all, which no communicator launches: there no pack tells that a peer has come to the call, so a rank
/// may announce itself again before the peer has seen the last time.
pub fn empty() -> Program {
    row(ONE, BEFORE, (0..6).map(|_| call(PUSHES[0], 1, 0)))
}

/// A push among other calls, and others among pushes.
pub fn mixed() -> Vec<Program> {
    let mut rows = Vec::new();
    let registered = [Algorithm::OneShot, Algorithm::TwoShot].into_iter().chain(GIVES);
    for (push, other) in PUSHES.into_iter().flat_map(|push| registered.clone().map(move |other| (push, other))) {
        rows.push(row(ONE, BEFORE - 1, [call(push, 1, 1), call(other, 1, 2), call(push, 1, 2)]));
        rows.push(row(ONE, BEFORE, [call(other, 1, 2), call(push, 1, 1), call(other, 1, 2)]));
        rows.push(row(TWO_BLOCKS, BEFORE, [call(push, 2, 1), call(other, 2, 2)]));
    }
    for (algorithm, input) in Algorithm::OF_ANY_PROTOCOL
        .into_iter()
        .flat_map(|algorithm| [InputMode::Memcpy, InputMode::Copied].map(|input| (algorithm, input)))
    {
        let pull = staged(algorithm, input, 1, 2);
        rows.push(row(ONE, BEFORE, [pull, call(PUSHES[0], 1, 1), pull]));
        rows.push(row(ONE, BEFORE, [pull, pull, call(PUSHES[0], 1, 1)]));
    }
    rows
}

/// Two calls of `algorithm` in each shape that it is for, and of each usage.
pub fn given(algorithm: Algorithm) -> Vec<Program> {
    let mut usages = vec![Usage::Rewritten, Usage::InTurn];
    // An exchange in place would add its sums to terms that landed on its input.
    usages.extend((algorithm != Algorithm::Exchange).then_some(Usage::InPlace));
    let shapes = [ONE, TWO_BLOCKS, THREE_RANKS].into_iter().filter(|shape| algorithm.takes(shape.ranks));
    let of_shape = |shape: Shape| {
        let calls = [(); 2].map(|()| call(algorithm, shape.blocks, shape.ranks * shape.blocks));
        usages.clone().into_iter().map(move |usage| Program { usage, ..row(shape, 0, calls) })
    };
    shapes.flat_map(of_shape).collect()
}

/// Two staged one-shots with a push in between, and staging banks in turn: what a communicator that pushes may not have.
pub fn banks_in_turn() -> Program {
    let pull = staged(Algorithm::OneShot, InputMode::Memcpy, 1, 1);
    let pull = Call { protocol: Protocol { reuse: Reuse::Parity, ..pull.protocol }, ..pull };
    row(ONE, BEFORE + 1, [pull, call(PUSHES[0], 1, 1), pull])
}

/// A fault, and the rows that should notice.
pub struct Fault {
    /// In words.
    pub name: String,
    /// The fault.
    pub mutation: Mutation,
    /// The rows.
    pub programs: Vec<Program>,
}

/// Faults of pushes. Each is found.
pub fn of_pushes() -> Vec<Fault> {
    let faults = [
        ("nobody puts the marker back", Mutation::NoClear, rounds()),
        ("one generation", Mutation::OneGeneration, alone()),
        ("nobody announces", Mutation::NoArrive(Phase::Start), alone()),
        ("nobody waits for what was announced", Mutation::NoWait(Phase::Start), rounds()),
        ("a volatile announcement without a fence", Mutation::NoFence, rounds()),
        ("a volatile wait for what was announced", Mutation::WeakLoad(Phase::Start), rounds()),
        ("the epoch words stay", Mutation::StuckEpoch, alone()),
        ("a block moves its own epoch word only", Mutation::OwnEpochOnly, alone()),
        ("a pack goes to its neighbour's place", Mutation::OtherPlace, alone()),
        ("sums land where the terms do", Mutation::SumsOnTerms, alone()),
    ];
    let of_fault = |(name, mutation, rows): (&str, Mutation, Vec<Program>)| {
        // A one-shot pushes no sums.
        let sums = mutation == Mutation::SumsOnTerms;
        let pushes = PUSHES.into_iter().filter(move |&push| !sums || push == Algorithm::TwoShotPush);
        let of_push = |push| {
            let of_push = |program: &&Program| program.calls.iter().all(|call| call.algorithm == push);
            let programs = rows.iter().filter(of_push).cloned().collect();
            Fault { name: format!("{}: {name}", push.name()), mutation, programs }
        };
        pushes.map(of_push).collect::<Vec<_>>()
    };
    faults.into_iter().flat_map(of_fault).collect()
}

/// Faults of one-pass and exchange, in each barrier. Each is found.
pub fn of_gives() -> Vec<Fault> {
    let mut all = Vec::new();
    for algorithm in GIVES {
        for phase in Phase::BARRIERS {
            if phase == Phase::Middle && algorithm == Algorithm::OnePass {
                continue;
            }
            for (name, mutation) in [
                ("no barrier", Mutation::NoBarrier(phase)),
                ("nobody waits", Mutation::NoWait(phase)),
                ("nobody announces", Mutation::NoArrive(phase)),
                ("a volatile flag", Mutation::WeakStore(phase)),
                ("a volatile poll", Mutation::WeakLoad(phase)),
            ] {
                let name = format!("{}, {}: {name}", algorithm.name(), phase.name());
                all.push(Fault { name, mutation, programs: given(algorithm) });
            }
        }
    }
    all
}
