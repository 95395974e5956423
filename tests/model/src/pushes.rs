//! What is asked of pushes, one-pass and exchange: rows of calls, and planted faults. No part of `docs/barriers.md`.

use allfold_kernels::protocol::abi::{Algorithm, Dtype, GENERATIONS, InputMode, Phase};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::push::Cursor;
use allfold_kernels::protocol::spec::{Protocol, Reuse};

use crate::mutants::Mutation;
use crate::program::{Call, Program, Shape, Usage};
use crate::search::Effort;

/// The two algorithms.
pub const PUSHES: [Algorithm; 2] = [Algorithm::OneShotPush, Algorithm::TwoShotPush];
/// The two that store into peers' outputs.
pub const GIVES: [Algorithm; 2] = [Algorithm::OnePass, Algorithm::Exchange];

pub(crate) const ONE: Shape = Shape { ranks: 2, blocks: 1, threads: 1 };
const TWO_BLOCKS: Shape = Shape { ranks: 2, blocks: 2, threads: 1 };
pub(crate) const TWO_THREADS: Shape = Shape { ranks: 2, blocks: 1, threads: 2 };
pub(crate) const THREE_RANKS: Shape = Shape { ranks: 3, blocks: 1, threads: 1 };
/// A generation that was begun before the first call, and some that are begun after it.
pub(crate) const SERIAL: u64 = 5;
/// Where 32 bits of a serial number are full. It has 63, and the one above says that the rank has stopped.
const WRAP: u64 = u32::MAX as u64;
/// Packs of a slot that calls share in these rows: two one-shots of one pack, or one two-shot.
const SHARED: u32 = 2;
/// The push after this one begins a generation.
pub(crate) const FULL: Cursor = Cursor { serial: SERIAL, used: SHARED, announced: false };

/// What is spent on a program.
pub fn effort(program: &Program) -> Effort {
    let effort = Effort { preemptions: 1, lineups: 2, bounded: 2_500, exhaustive: 0 };
    match program.shape {
        // A pack of integers lands as four words.
        ONE if program.calls.iter().any(|call| call.dtype == Dtype::I32) => {
            Effort { preemptions: 2, lineups: 1, bounded: 300_000, ..effort }
        }
        ONE => Effort { preemptions: 2, lineups: 1, bounded: 8_000, ..effort },
        Shape { .. } => effort,
    }
}

/// A registered call in our own form.
///
/// # Panics
/// Where there is no such form.
pub(crate) fn call(algorithm: Algorithm, blocks: u32, packs: u32) -> Call {
    staged(algorithm, InputMode::Registered, blocks, packs)
}

/// A call in the form of a communicator that pushes: one staging bank.
fn staged(algorithm: Algorithm, input: InputMode, blocks: u32, packs: u32) -> Call {
    let ours = Preset::Allfold.protocol(algorithm, input).expect("a form of ours");
    let protocol = if input.staged() { ours.kept(algorithm) } else { ours };
    Call { algorithm, input, protocol, blocks, packs: Some(packs), dtype: Dtype::F32 }
}

pub(crate) fn row(shape: Shape, cursor: Cursor, calls: impl IntoIterator<Item = Call>) -> Program {
    Program { shape, cursor, shared_packs: SHARED, calls: calls.into_iter().collect(), ..Program::EMPTY }
}

/// Where calls of which two share a generation may begin: in a new one, in the middle of one that was announced in the
/// call before or earlier, at its end; also where 32 bits of the serial number wrap.
fn cursors(push: Algorithm) -> Vec<Cursor> {
    let full = shared_by_two(push);
    let cursor = |(serial, used, announced)| Cursor { serial, used, announced };
    [
        (SERIAL, 0, false),
        (SERIAL, full / 2, true),
        (SERIAL, full / 2, false),
        (SERIAL, full, false),
        (WRAP, full / 2, true),
        (WRAP - 1, full, false),
    ]
    .map(cursor)
    .to_vec()
}

/// Packs of a slot that two of the smallest calls fill.
pub(crate) fn shared_by_two(push: Algorithm) -> u32 {
    if push == Algorithm::TwoShotPush { 2 * SHARED } else { SHARED }
}

/// Pushes that shrink and grow, in packs and in blocks, around announcements and the waits for them; also where
/// 32 bits of the serial number wrap; and of packs that land word by word.
pub fn alone() -> Vec<Program> {
    let mut rows = Vec::new();
    for push in PUSHES {
        for cursor in cursors(push) {
            let shared_packs = shared_by_two(push);
            rows.push(Program { shared_packs, ..row(ONE, cursor, [2, 1, 3].map(|packs| call(push, 1, packs))) });
        }
        for grids in [[2, 1], [1, 2], [2, 2]] {
            rows.push(row(TWO_BLOCKS, FULL, grids.map(|blocks| call(push, blocks, 3 - blocks))));
        }
        rows.push(row(TWO_THREADS, FULL, [3, 4].map(|packs| call(push, 1, packs))));
        rows.push(row(THREE_RANKS, FULL, [3, 1].map(|packs| call(push, 1, packs))));
        rows.push(Program { torn: true, ..row(ONE, FULL, [1, 2].map(|packs| call(push, 1, packs))) });
    }
    let other = |push| PUSHES[usize::from(push == PUSHES[0])];
    rows.extend(PUSHES.map(|push| row(ONE, FULL, [call(push, 1, 2), call(other(push), 1, 2), call(push, 1, 1)])));
    rows
}

/// A generation comes round: each call has one of its own, or two calls share one, and then the announcements lie at
/// each place of the row; and with calls of several sizes.
pub fn rounds() -> Vec<Program> {
    let mut rows = Vec::new();
    let generations = GENERATIONS as u32;
    for push in PUSHES {
        let ends = |number| if number % generations == 0 { 2 } else { 1 };
        let each = row(ONE, FULL, (0..=generations).map(|number| call(push, 1, ends(number))));
        rows.push(Program { shared_packs: 1, ..each });
        for cursor in cursors(push) {
            let calls = (0..=2 * generations).map(|_| call(push, 1, 1));
            rows.push(Program { shared_packs: shared_by_two(push), ..row(ONE, cursor, calls) });
        }
        // No two of these two-shots share a generation.
        let sizes = if push == Algorithm::TwoShotPush { &[3, 1, 1, 2, 1][..] } else { &[3, 1, 1, 2, 1, 2] };
        rows.push(row(ONE, FULL, sizes.iter().map(|&packs| call(push, 1, packs))));
        // Block 0 announces and waits, block 1 pushes and clears.
        let each_of = |shape: Shape, packs| {
            let calls = (0..=generations).map(|_| call(push, shape.blocks, packs));
            Program { shared_packs: 1, ..row(shape, FULL, calls) }
        };
        rows.push(each_of(TWO_BLOCKS, 1));
        rows.push(if push == Algorithm::TwoShotPush { each_of(TWO_THREADS, 3) } else { each_of(THREE_RANKS, 1) });
    }
    let blocks = |number| if number % generations == 0 { 2 } else { 1 };
    let each = row(TWO_BLOCKS, FULL, (0..=generations).map(|number| call(PUSHES[0], blocks(number), 1)));
    rows.push(Program { shared_packs: 1, ..each });
    rows.extend(wraps());
    rows
}

/// A generation comes round where 32 bits of the serial number wrap.
pub fn wraps() -> Vec<Program> {
    let cursor = Cursor { serial: WRAP - 2, ..FULL };
    let row = |push| row(ONE, cursor, (0..=GENERATIONS).map(|_| call(push, 1, 1)));
    PUSHES.map(|push| Program { shared_packs: 1, ..row(push) }).to_vec()
}

/// Pushes of no packs at all, which no communicator launches, among such as have a generation to themselves.
pub fn empty() -> Program {
    let calls = [2, 2, 0, 0, 2, 2, 0, 2].map(|packs| call(PUSHES[0], 1, packs));
    Program { shared_packs: 1, ..row(ONE, FULL, calls) }
}

/// A push among other calls, and others among pushes, with an announcement that nobody has waited for; also where
/// 32 bits of epochs and serial numbers wrap, and where a generation comes round.
pub fn mixed() -> Vec<Program> {
    // The block that the push does not have must know of it all the same.
    let grows = PUSHES.map(|push| row(TWO_BLOCKS, FULL, [call(push, 1, 1), call(Algorithm::OneShot, 2, 2)]));
    let mut rows = grows.to_vec();
    let registered = [Algorithm::OneShot, Algorithm::TwoShot].into_iter().chain(GIVES);
    for (push, other) in PUSHES.into_iter().flat_map(|push| registered.clone().map(move |other| (push, other))) {
        rows.push(row(ONE, FULL, [call(push, 1, 1), call(other, 1, 2), call(push, 1, 2)]));
        let wrapped = Cursor { serial: WRAP, ..FULL };
        let wraps = row(ONE, wrapped, [call(push, 1, 1), call(other, 1, 2), call(push, 1, 2)]);
        rows.push(Program { last: Epoch(u64::from(u32::MAX) - 1), ..wraps });
        rows.push(row(ONE, FULL, [call(other, 1, 2), call(push, 1, 1), call(other, 1, 2)]));
        rows.push(row(TWO_BLOCKS, FULL, [call(push, 2, 1), call(other, 2, 2)]));
        let between = (0..=2 * GENERATIONS).map(|number| call(if number % 2 == 0 { push } else { other }, 1, 1));
        rows.push(Program { shared_packs: 1, ..row(ONE, FULL, between) });
    }
    for (algorithm, input) in Algorithm::OF_ANY_PROTOCOL
        .into_iter()
        .flat_map(|algorithm| [InputMode::Memcpy, InputMode::Copied].map(|input| (algorithm, input)))
    {
        let pull = staged(algorithm, input, 1, 2);
        rows.push(row(ONE, FULL, [pull, call(PUSHES[0], 1, 1), pull]));
        rows.push(row(ONE, FULL, [pull, pull, call(PUSHES[0], 1, 1)]));
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
        usages.clone().into_iter().map(move |usage| Program { usage, ..row(shape, FULL, calls) })
    };
    shapes.flat_map(of_shape).collect()
}

/// Two staged one-shots with a push in between, and staging banks in turn: what a communicator that pushes may not have.
pub fn banks_in_turn() -> Program {
    let pull = staged(Algorithm::OneShot, InputMode::Memcpy, 1, 1);
    let pull = Call { protocol: Protocol { reuse: Reuse::Parity, ..pull.protocol }, ..pull };
    row(ONE, FULL, [pull, call(PUSHES[0], 1, 1), pull])
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
    let of = |shape, mut rows: Vec<Program>| {
        rows.retain(|program| program.shape == shape);
        rows
    };
    let faults = [
        ("nobody puts the marker back", Mutation::NoClear, rounds()),
        ("one generation", Mutation::Generations(1), alone()),
        ("two generations", Mutation::Generations(2), rounds()),
        ("three generations where 32 bits of the serial number wrap", Mutation::Generations(3), wraps()),
        ("calls of one generation share places", Mutation::SamePlaces, rounds()),
        ("nobody announces", Mutation::NoArrive(Phase::Landing), alone()),
        ("nobody waits for what was announced", Mutation::NoWait(Phase::Landing), rounds()),
        ("nobody knows that there was an announcement", Mutation::Forgotten, rounds()),
        ("a volatile announcement", Mutation::WeakStore(Phase::Landing), rounds()),
        ("a volatile wait for what was announced", Mutation::WeakLoad(Phase::Landing), rounds()),
        ("what was announced twice since does not count", Mutation::TwoOn, rounds()),
        ("the cursors stay", Mutation::StuckCursor, alone()),
        ("a block moves its own cursor only", Mutation::OwnCursorOnly, of(TWO_BLOCKS, alone())),
        ("a block moves its own epoch word only", Mutation::OwnEpochOnly, of(TWO_BLOCKS, mixed())),
        ("no block sync before cursors and epoch words move", Mutation::NoSync(0), of(TWO_THREADS, alone())),
        ("a pack goes to its neighbour's place", Mutation::OtherPlace, alone()),
        ("sums land where the terms do", Mutation::SumsOnTerms, alone()),
    ];
    let of_fault = |(name, mutation, rows): (&str, Mutation, Vec<Program>)| {
        // A one-shot pushes no sums.
        let sums = mutation == Mutation::SumsOnTerms;
        let pushes = PUSHES.into_iter().filter(move |&push| !sums || push == Algorithm::TwoShotPush);
        let of_push = |push| {
            let of_push = |program: &&Program| {
                program.calls.iter().all(|call| call.algorithm == push || !call.algorithm.pushes())
            };
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
