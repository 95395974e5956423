//! The cells that are asked for: the whole matrix, the presets, and a few more.

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Check, Order, Protocol, Reuse, Scope, Start};

use crate::cell::Cell;
use crate::program::Usage;

/// What the caller does with its input in the matrix; a staged input is private, so it makes no difference there.
pub const fn usages(input: InputMode) -> &'static [Usage] {
    if input.staged() { &[Usage::InTurn] } else { &[Usage::InTurn, Usage::Rewritten] }
}

/// The start barriers of the matrix. A block barrier has a block sync before it.
pub fn starts() -> impl Iterator<Item = Start> {
    let orders = [Order::Volatile, Order::ReleaseAcquire];
    [Scope::MultiGpu, Scope::Block]
        .into_iter()
        .flat_map(move |scope| orders.map(|order| Start { scope, order, sync_before: scope == Scope::Block }))
}

/// What protects a buffer's reuse, in the matrix; a registered input has no banks.
pub fn reuses(input: InputMode) -> impl Iterator<Item = Reuse> {
    let end = |order| Reuse::EndBarrier { order, sync_after: false };
    let all = [Reuse::Nothing, Reuse::Parity, end(Order::Volatile), end(Order::ReleaseAcquire)];
    all.into_iter().filter(move |&reuse| input.staged() || reuse != Reuse::Parity)
}

/// A cell of the matrix.
pub fn cell(algorithm: Algorithm, input: InputMode, usage: Usage, start: Start, reuse: Reuse) -> Cell {
    let copy_in = input == InputMode::Copied;
    let protocol = Protocol { copy_in, start, middle: Order::ReleaseAcquire, reuse, check: Check::Reached };
    Cell { algorithm, input, protocol, usage }
}

/// The tables of the matrix: algorithm, input mode, usage.
pub fn tables() -> impl Iterator<Item = (Algorithm, InputMode, Usage)> {
    Algorithm::OF_ANY_PROTOCOL.into_iter().flat_map(|algorithm| {
        let of_input = move |input: InputMode| usages(input).iter().map(move |&usage| (algorithm, input, usage));
        InputMode::ALL.into_iter().flat_map(of_input)
    })
}

/// Every cell of the matrix.
pub fn cells() -> Vec<Cell> {
    let of_table = |(algorithm, input, usage)| {
        starts().flat_map(move |start| reuses(input).map(move |reuse| cell(algorithm, input, usage, start, reuse)))
    };
    tables().flat_map(of_table).collect()
}

/// Every form of every preset, under every usage of the matrix.
pub fn presets() -> Vec<(Preset, Cell)> {
    let of_preset = |preset: Preset| {
        tables().filter_map(move |(algorithm, input, usage)| {
            let protocol = preset.protocol(algorithm, input)?;
            Some((preset, Cell { algorithm, input, protocol, usage }))
        })
    };
    Preset::ALL.into_iter().flat_map(of_preset).collect()
}

/// Our own forms with the output on the input.
pub fn in_place() -> Vec<Cell> {
    let of_algorithm = |algorithm| {
        InputMode::ALL.into_iter().filter_map(move |input| {
            let protocol = Preset::Allfold.protocol(algorithm, input)?;
            Some(Cell { algorithm, input, protocol, usage: Usage::InPlace })
        })
    };
    Algorithm::OF_ANY_PROTOCOL.into_iter().flat_map(of_algorithm).collect()
}

/// Two-shots with a volatile middle barrier; all else as strong as it gets.
pub fn volatile_middle() -> Vec<Cell> {
    let start = Start { scope: Scope::Block, order: Order::ReleaseAcquire, sync_before: true };
    let weaken = |input| {
        let end = Reuse::EndBarrier { order: Order::ReleaseAcquire, sync_after: false };
        let strong = cell(Algorithm::TwoShot, input, Usage::InTurn, start, end);
        Cell { protocol: Protocol { middle: Order::Volatile, ..strong.protocol }, ..strong }
    };
    InputMode::ALL.map(weaken).to_vec()
}
