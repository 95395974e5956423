//! The rows of calls in which pushes are looked at. Uses `pushes`, `cell`.

use allfold_kernels::protocol::abi::{Algorithm, Dtype, GENERATIONS, InputMode};

use super::cell::EACH;
use super::pushes::{Call, Row};

const PUSHES: [Algorithm; 2] = [Algorithm::OneShotPush, Algorithm::TwoShotPush];
/// Blocks and threads; of two blocks one only announces and waits.
const GRIDS: [(u8, u8); 3] = [(1, 1), (2, 1), (1, 2)];
/// Generations there are.
pub const ROUND: u32 = GENERATIONS as u32;

fn call(number: u32, algorithm: Algorithm, input: InputMode, (blocks, threads): (u8, u8)) -> Call {
    Call { number, algorithm, input, kept: false, each: EACH, dtype: Dtype::F32, blocks, threads, left_out: false }
}

fn push(number: u32, algorithm: Algorithm, grid: (u8, u8)) -> Call {
    call(number, algorithm, InputMode::Registered, grid)
}

/// The packs that `together` calls like `call`, a push, land in a slot: of two ranks, as many as they have.
fn shared(together: u32, call: Call) -> u32 {
    together * call.cell().map_or(0, |cell| cell.packs() as u32 * call.dtype.landing_packs())
}

/// Calls like `call`, a push, of which `together` share one of `generations`, until those of the first one come round.
fn round(generations: u32, together: u32, call: Call) -> Row {
    let Call { algorithm, blocks, threads, .. } = call;
    Row {
        name: format!("{}, grid ({blocks}, {threads}), {together} a generation", algorithm.name()),
        shared: shared(together, call),
        calls: (1..=together * (generations + 1)).map(|number| Call { number, ..call }).collect(),
    }
}

fn pushes() -> impl Iterator<Item = Call> {
    PUSHES.into_iter().flat_map(|algorithm| GRIDS.map(|grid| push(1, algorithm, grid)))
}

/// One algorithm, one grid: a generation comes round.
pub fn plain(together: u32) -> Vec<Row> {
    pushes().map(|push| round(ROUND, together, push)).collect()
}

/// One algorithm, one grid, `generations`, and of the calls what a place needs: the one that clears it, one that begins
/// a generation, the next, and the one to which it comes round; and the one before that where it is waited for.
pub fn fewest(generations: u32, together: u32) -> Vec<Row> {
    let mut rows = Vec::new();
    for push in pushes() {
        for first in 1..=together {
            for begins in (1..generations).map(|serial| serial * together + 1) {
                let last = first + generations * together;
                let waited_for = (last - 2).is_multiple_of(together).then_some(last - 1);
                let mut needed = vec![first, begins, begins + 1, last];
                needed.extend(waited_for);
                let mut row = round(generations, together, push);
                row.name.push_str(&format!(", calls {needed:?}"));
                leave_out(&mut row, &needed);
                rows.push(row);
            }
        }
    }
    rows
}

/// Calls of i32, whose words land beside flags, alone; and such that land where f32 did, and the other way about. Each has a
/// generation to itself.
pub fn integers() -> Vec<Row> {
    let alone = pushes().map(|push| round(ROUND, 1, Call { dtype: Dtype::I32, ..push }));
    let by_turns = pushes().flat_map(|push| {
        [Dtype::F32, Dtype::I32].map(|first| {
            let mut row = round(ROUND, 1, Call { dtype: Dtype::I32, ..push });
            for call in &mut row.calls {
                let others = call.number > ROUND;
                call.dtype = if others == (first == Dtype::F32) { Dtype::I32 } else { Dtype::F32 };
            }
            row.name.push_str(&format!(", {} first", first.name()));
            row.shared = 1;
            row
        })
    });
    alone.chain(by_turns).collect()
}

/// Leaves out all calls but the `needed` ones.
fn leave_out(row: &mut Row, needed: &[u32]) {
    for call in &mut row.calls {
        call.left_out = !needed.contains(&call.number);
    }
}

/// Algorithms and grids that change from call to call: each call a generation of its own, or several that fit.
pub fn mixed() -> Vec<Row> {
    let [one, two_blocks, two_threads] = GRIDS;
    let [one_shot, two_shot] = PUSHES;
    let cycles = [
        vec![one_shot, two_shot],
        vec![two_shot, one_shot],
        vec![one_shot, one_shot, two_shot],
        vec![two_shot, two_shot, one_shot, one_shot],
    ];
    let mut rows = Vec::new();
    for cycle in cycles {
        for (shared, calls) in [(1, ROUND + 1), (4, 2 * ROUND), (6, 2 * ROUND + 2)] {
            for grids in [[two_blocks, one, two_threads, one], [two_threads, two_blocks, one, two_blocks]] {
                let at = |number: u32| number as usize - 1;
                let push = |number| push(number, cycle[at(number) % cycle.len()], grids[at(number) % grids.len()]);
                let names: Vec<&str> = cycle.iter().map(|algorithm| algorithm.name()).collect();
                let name = format!("{} by turns, grids {grids:?}, {shared} packs shared", names.join(", "));
                rows.push(Row { name, shared, calls: (1..=calls).map(push).collect() });
            }
        }
    }
    rows
}

/// Pushes with a call of another algorithm somewhere in between, be it between an announcement and the wait for it.
pub fn others() -> Vec<Row> {
    let mut rows = Vec::new();
    for other in [Algorithm::OneShot, Algorithm::TwoShot, Algorithm::OnePass, Algorithm::Exchange] {
        for (algorithm, place) in
            PUSHES.into_iter().flat_map(|algorithm| (2..=ROUND + 1).map(move |at| (algorithm, at)))
        {
            let of_number = |number| if number == place { other } else { algorithm };
            rows.push(Row {
                name: format!("{}, but {} in call {place}", algorithm.name(), other.name()),
                shared: shared(1, push(1, algorithm, GRIDS[1])),
                calls: (1..=ROUND + 2).map(|number| push(number, of_number(number), GRIDS[1])).collect(),
            });
        }
    }
    rows
}

/// A push between two calls of `algorithm` that are staged, or have a scratch area: with two staging banks in turn, or
/// with one that is kept.
///
/// The push announces itself, or waits for the push before the first call, or does both, or nothing.
pub fn between(algorithm: Algorithm, inputs: &[InputMode], kept: bool) -> Vec<Row> {
    // Pushes before, and how many share a generation.
    let states = [("quiet", 0, 2), ("announces", 1, 1), ("waits", 3, 2), ("announces and waits", 2, 1)];
    let mut rows = Vec::new();
    for (push_by, &input) in PUSHES.into_iter().flat_map(|push_by| inputs.iter().map(move |input| (push_by, input))) {
        for (state, before, together) in states {
            for start in [1, 2] {
                let pull = |number| Call { kept, ..call(number, algorithm, input, GRIDS[1]) };
                let first = start + before;
                // Of the pushes before, the program needs one that is waited for.
                let waits = before > 1;
                let earlier = (start..first)
                    .map(|number| Call { left_out: !waits || number + 1 < first, ..push(number, push_by, GRIDS[1]) });
                let calls = [pull(first), push(first + 1, push_by, GRIDS[1]), pull(first + 2)];
                let (pulls, pushes) = (format!("{} {}", algorithm.name(), input.name()), push_by.name());
                rows.push(Row {
                    name: format!("{pulls}, {pushes} that is {state}, the first again; from {first}"),
                    shared: shared(together, push(1, push_by, GRIDS[1])),
                    calls: earlier.chain(calls).collect(),
                });
            }
        }
    }
    rows
}

/// Staged calls that follow one another, and after a push, each with the one staging bank that is kept.
pub fn kept() -> Vec<Row> {
    let staged = [InputMode::Memcpy, InputMode::Copied].into_iter();
    let forms: Vec<_> = Algorithm::OF_ANY_PROTOCOL
        .into_iter()
        .flat_map(|algorithm| staged.clone().map(move |i| (algorithm, i)))
        .collect();
    let mut rows = Vec::new();
    for &(first, first_input) in &forms {
        for &(second, second_input) in &forms {
            let pull = |number, algorithm, input| Call { kept: true, ..call(number, algorithm, input, GRIDS[1]) };
            rows.push(Row {
                name: format!("{} {} and {} {}", first.name(), first_input.name(), second.name(), second_input.name()),
                shared: shared(1, push(1, PUSHES[0], GRIDS[1])),
                calls: vec![
                    pull(1, first, first_input),
                    pull(2, second, second_input),
                    push(3, PUSHES[0], GRIDS[1]),
                    pull(4, first, first_input),
                ],
            });
        }
    }
    rows
}

/// Staged one-shots of which each uses the other bank than the last, with pushes in between: what it would be if banks
/// were counted by staged calls.
pub fn banks_in_turn() -> Vec<Row> {
    let staged = [InputMode::Memcpy, InputMode::Copied].into_iter();
    let forms = staged.flat_map(|input| PUSHES.map(|push_by| (input, push_by)));
    let of_form = |(input, push_by): (InputMode, Algorithm)| {
        let pull = |number| call(number, Algorithm::OneShot, input, GRIDS[1]);
        let push = |number| push(number, push_by, GRIDS[1]);
        Row {
            name: format!("one_shot {}, {} in between", input.name(), push_by.name()),
            shared: shared(2, push(1)),
            calls: vec![pull(4), push(5), pull(7), push(8), pull(10)],
        }
    };
    forms.map(of_form).collect()
}

/// Three one-shot pushes none of which announces itself or waits for an announcement, the last into the places of the
/// first: the third of three that share a generation, with one block, and with two.
pub fn silent() -> [Row; 2] {
    [GRIDS[0], GRIDS[1]].map(|grid| {
        let mut row = round(ROUND, 3, push(1, PUSHES[0], grid));
        leave_out(&mut row, &[3, 6, 3 + 3 * ROUND]);
        row.name.push_str(", no announcement");
        row
    })
}

/// Pushes of `algorithm` each of which begins one of `generations`, with as few packs as they can have: small enough to
/// ask what assumptions do for them.
pub fn small(algorithm: Algorithm, generations: u32) -> Vec<Row> {
    GRIDS[..2].iter().map(|&grid| round(generations, 1, Call { each: 1, ..push(1, algorithm, grid) })).collect()
}
