//! The rows of calls in which pushes are looked at. Uses `pushes`.

use allfold_kernels::protocol::abi::{Algorithm, CALLS_PER_ANNOUNCEMENT, GENERATIONS, InputMode};

use super::pushes::{Call, Row};

const PUSHES: [Algorithm; 2] = [Algorithm::OneShotPush, Algorithm::TwoShotPush];
/// Blocks and threads; of two blocks one only announces.
const GRIDS: [(u8, u8); 3] = [(1, 1), (2, 1), (1, 2)];
const ROUND: u32 = GENERATIONS as u32;
const EACH: u32 = CALLS_PER_ANNOUNCEMENT as u32;

fn call(number: u32, algorithm: Algorithm, input: InputMode, (blocks, threads): (u8, u8)) -> Call {
    Call { number, algorithm, input, kept: false, blocks, threads }
}

fn push(number: u32, algorithm: Algorithm, grid: (u8, u8)) -> Call {
    call(number, algorithm, InputMode::Registered, grid)
}

/// The row of `calls`, and before each push that waits for an announcement the call that made it.
fn row(name: String, calls: impl IntoIterator<Item = Call>) -> Row {
    let mut row = Row { name, calls: Vec::new() };
    for call in calls {
        let announced = call.number - 1;
        let there = row.calls.iter().any(|other| other.number == announced);
        if call.algorithm.pushes() && announced.is_multiple_of(EACH) && !there {
            row.calls.push(Call { number: announced, ..call });
        }
        row.calls.push(call);
    }
    row
}

/// The numbers of a call, of a call that announces itself and of the next, and of the call to which the first one's
/// generation comes round: for each place of the first among the announcements, and each pair that serves it.
fn rounds() -> Vec<[u32; 4]> {
    let firsts = EACH..2 * EACH;
    let of_first = |first: u32| {
        let announcing = (first..first + ROUND).filter(|number| number.is_multiple_of(EACH));
        announcing
            .map(move |a| [first, a, a + 1, first + ROUND])
            .filter(|&[first, a, waits, round]| first < a && waits < round)
    };
    firsts.flat_map(of_first).collect()
}

/// Pushes of one algorithm, one grid: a generation comes round, with an announcement in between.
pub fn plain() -> Vec<Row> {
    let mut rows = Vec::new();
    for algorithm in PUSHES {
        for grid in GRIDS {
            for numbers in rounds() {
                let calls = numbers.map(|number| push(number, algorithm, grid));
                rows.push(row(format!("{}, calls {numbers:?}, grid {grid:?}", algorithm.name()), calls));
            }
        }
    }
    rows
}

/// The rows of [`plain`] with the call after the wait as well, where that is not the last.
pub fn with_the_next() -> Vec<Row> {
    let mut rows = plain();
    rows.retain(|row| row.calls[row.calls.len() - 2].number + 1 < row.calls[row.calls.len() - 1].number);
    for Row { name, calls } in &mut rows {
        let waits = calls[calls.len() - 2];
        calls.insert(calls.len() - 1, Call { number: waits.number + 1, ..waits });
        name.push_str(", and the next");
    }
    rows
}

/// Grids and algorithms that change from call to call, where the announcement has the least time.
pub fn mixed() -> Vec<Row> {
    let [one, two_blocks, two_threads] = GRIDS;
    let mut rows = Vec::new();
    for (first, last) in [(PUSHES[0], PUSHES[1]), (PUSHES[1], PUSHES[0]), (PUSHES[1], PUSHES[1])] {
        for [a, b, c, d] in rounds() {
            for grids in [[two_blocks, one, two_threads, one], [two_threads, two_blocks, one, two_blocks]] {
                let calls = vec![
                    push(a, first, grids[0]),
                    push(b, last, grids[1]),
                    push(c, first, grids[2]),
                    push(d, last, grids[3]),
                ];
                rows.push(row(format!("pushes {a} {b} {c} {d}, grids {grids:?}"), calls));
            }
        }
    }
    for other in [Algorithm::OneShot, Algorithm::TwoShot, Algorithm::OnePass, Algorithm::Exchange] {
        for [a, b, c, d] in rounds() {
            for other_at in [b, c] {
                let algorithm = |number| if number == other_at { other } else { Algorithm::OneShotPush };
                let calls = [a, b, c, d].map(|number| push(number, algorithm(number), two_blocks));
                rows.push(row(format!("pushes {a} {b} {c} {d}, but {} {other_at}", other.name()), calls));
            }
        }
    }
    rows
}

/// A push between two calls of `algorithm` that are staged, or have a scratch area: with two staging banks in turn, or with
/// one that is kept.
pub fn between(algorithm: Algorithm, inputs: &[InputMode], kept: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (push_by, &input) in PUSHES.into_iter().flat_map(|push_by| inputs.iter().map(move |input| (push_by, input))) {
        for first in EACH..2 * EACH {
            let pull = |number| Call { kept, ..call(number, algorithm, input, GRIDS[1]) };
            let calls = vec![pull(first), push(first + 1, push_by, GRIDS[1]), pull(first + 2)];
            let names = (algorithm.name(), input.name(), push_by.name());
            rows.push(row(format!("{} {}, {}, the first again; from {first}", names.0, names.1, names.2), calls));
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
            let calls = [
                pull(EACH + 1, first, first_input),
                pull(EACH + 2, second, second_input),
                push(EACH + 3, PUSHES[0], GRIDS[1]),
                pull(2 * EACH, first, first_input),
            ];
            rows.push(row(
                format!("{} {} and {} {}", first.name(), first_input.name(), second.name(), second_input.name()),
                calls,
            ));
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
        let calls = [pull(EACH), push(EACH + 1), pull(EACH + 3), push(2 * EACH), pull(2 * EACH + 2)];
        row(format!("one_shot {}, {} in between", input.name(), push_by.name()), calls)
    };
    forms.map(of_form).collect()
}

/// Three one-shot pushes none of which announces itself or waits for an announcement, the last into the generation of the
/// first: with one block; and with two, where what fences does not push.
pub fn silent() -> [Row; 2] {
    [GRIDS[0], GRIDS[1]].map(|grid| {
        let calls = [EACH + 2, EACH + 3, EACH + 2 + ROUND].map(|number| push(number, PUSHES[0], grid));
        row(format!("no announcement, grid {grid:?}"), calls)
    })
}
