//! Calls of different forms in a row, as a communicator has them; and kernels that are launched early.

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::preset::Preset;

use crate::assumptions::Assumptions;
use crate::cell::{Cell, Efforts, SHAPES};
use crate::explore::Subject;
use crate::mutants::Mutation;
use crate::program::{Access, Call, Launch, Program, Usage};
use crate::search::{Counterexample, Coverage, search};

/// The rows of three calls that are made of our own forms, with one block and with grids of two, one and two blocks.
pub fn mixed() -> Vec<Program> {
    let form = |algorithm, input| {
        let protocol = Preset::Allfold.protocol(algorithm, input)?;
        Some(Cell { algorithm, input, protocol, usage: Usage::Rewritten })
    };
    let forms: Vec<_> = Algorithm::OF_ANY_PROTOCOL
        .into_iter()
        .flat_map(|algorithm| InputMode::ALL.into_iter().filter_map(move |input| form(algorithm, input)))
        .collect();
    let [small, two_blocks, ..] = SHAPES;
    let mut programs = Vec::new();
    for first in &forms {
        for second in &forms {
            for third in &forms {
                for (shape, grids) in [(small, [1, 1, 1]), (two_blocks, [2, 1, 2])] {
                    let mut grids = grids.into_iter();
                    let calls = [first, second, third]
                        .map(|cell| Call { blocks: grids.next().unwrap_or(shape.blocks), ..cell.call(shape) });
                    let calls = calls.to_vec();
                    programs.push(Program { shape, calls, ..Program::EMPTY });
                }
            }
        }
    }
    programs
}

/// A kernel that is launched before the end of the one before it: one of our own forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Early {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// How peers see the input.
    pub input: InputMode,
    /// Whether the kernel before is an all-reduce too; else it only writes the input, to the staging area if there is one.
    pub after_all_reduce: bool,
    /// Before which of its accesses it waits for that one.
    pub waits_before: Access,
}

/// The early launches that are asked for. A memcpy comes between two all-reduces, so neither is the one before the other.
pub fn early() -> Vec<Early> {
    let waits = [
        (false, Access::Epoch),
        (false, Access::Flag),
        (false, Access::Data),
        (true, Access::Epoch),
        (true, Access::Flag),
        (true, Access::Data),
    ];
    let forms = [
        (Algorithm::OneShot, InputMode::Registered),
        (Algorithm::TwoShot, InputMode::Registered),
        (Algorithm::OneShot, InputMode::Memcpy),
    ];
    let of_form = |(algorithm, input)| {
        let early = move |(after_all_reduce, waits_before)| Early { algorithm, input, after_all_reduce, waits_before };
        waits.into_iter().map(early)
    };
    let possible = |early: &Early| !(early.after_all_reduce && early.input == InputMode::Memcpy);
    forms.into_iter().flat_map(of_form).filter(possible).collect()
}

impl Early {
    /// The two kernels.
    ///
    /// # Panics
    /// When there is no such form.
    pub fn program(self) -> Program {
        let Early { algorithm, input, .. } = self;
        let protocol = Preset::Allfold.protocol(algorithm, input).expect("our own has every form");
        let usage = Usage::Chained;
        let call = Cell { algorithm, input, protocol, usage }.call(SHAPES[0]);
        let calls = vec![call; 1 + self.after_all_reduce as usize];
        Program { shape: SHAPES[0], calls, usage, launch: Launch::Early(self.waits_before), ..Program::EMPTY }
    }
}

/// Looks for a failure with nothing assumed.
///
/// # Errors
/// The first failure.
pub fn check(program: Program, efforts: Efforts) -> Result<Coverage, Box<Counterexample>> {
    let effort = efforts(&program);
    search(&Subject { program, assumptions: Assumptions::NONE, mutation: Mutation::Nothing }, effort)
}
