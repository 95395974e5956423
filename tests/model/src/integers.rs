//! What is asked of pushes of integers, each word of which lands beside a flag: rows of calls, and planted faults.

use allfold_kernels::protocol::abi::{Dtype, GENERATIONS};
use allfold_kernels::protocol::push::Cursor;

use crate::mutants::Mutation;
use crate::program::{Call, Program};
use crate::pushes::{FULL, Fault, ONE, PUSHES, SERIAL, THREE_RANKS, TWO_THREADS, call, row, shared_by_two};

/// The same call of i32.
fn of_integers(call: Call) -> Call {
    Call { dtype: Dtype::I32, ..call }
}

/// Pushes of integers, each word of which lands beside a flag: alone, and among others in one generation.
pub fn beside_flags() -> Vec<Program> {
    let mut rows = Vec::new();
    for push in PUSHES {
        let (integers, floats) = (|packs| of_integers(call(push, 1, packs)), |packs| call(push, 1, packs));
        rows.push(row(ONE, FULL, [1, 2].map(integers)));
        let shared_packs = 2 * shared_by_two(push);
        for cursor in [FULL, Cursor { serial: SERIAL, used: shared_packs / 2, announced: true }] {
            rows.push(Program { shared_packs, ..row(ONE, cursor, [integers(1), floats(1), integers(1)]) });
            rows.push(Program { shared_packs, ..row(ONE, cursor, [floats(1), integers(1), floats(1)]) });
        }
        rows.push(row(THREE_RANKS, FULL, [integers(1)]));
        rows.push(row(TWO_THREADS, FULL, [of_integers(call(push, 1, 2))]));
    }
    rows
}

/// A generation comes round, and integers land where floating-point numbers did, and the other way about.
pub fn rounds() -> Vec<Program> {
    let of = |push, first: Dtype| {
        let other = if first == Dtype::I32 { Dtype::F32 } else { Dtype::I32 };
        let dtype = |number| if number % GENERATIONS == 0 && number > 0 { other } else { first };
        let calls = (0..=GENERATIONS).map(|number| Call { dtype: dtype(number), ..call(push, 1, 1) });
        Program { shared_packs: 1, ..row(ONE, FULL, calls) }
    };
    PUSHES.into_iter().flat_map(|push| [Dtype::F32, Dtype::I32].map(|first| of(push, first))).collect()
}

/// Faults of pushes of integers. Each is found.
pub fn faults() -> Vec<Fault> {
    let torn = |rows: Vec<Program>| rows.into_iter().map(|row| Program { torn: true, ..row }).collect();
    let faults: [(_, _, Vec<Program>); 5] = [
        ("a word lands apart from its flag", Mutation::Nothing, torn(beside_flags())),
        ("nobody puts the marker back", Mutation::NoClear, rounds()),
        ("one generation", Mutation::Generations(1), rounds()),
        ("a pack goes to its neighbour's place", Mutation::OtherPlace, beside_flags()),
        ("calls of one generation share places", Mutation::SamePlaces, beside_flags()),
    ];
    faults.map(|(name, mutation, programs)| Fault { name: name.into(), mutation, programs }).into()
}
