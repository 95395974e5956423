//! What is asked of the algorithms whose ranks store to one another's outputs. Uses `cell`.

use allfold_kernels::protocol::abi::{Algorithm, InputMode, Phase};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Order, Protocol, Reuse};

use super::cell::{Cell, EACH, Usage, Weakened};

/// Our one-pass and our exchange, with each usage that is not refused.
pub fn cells() -> Vec<Cell> {
    let forms = [Algorithm::OnePass, Algorithm::Exchange].into_iter().flat_map(|algorithm| {
        let usages =
            Usage::ALL.into_iter().filter(move |&usage| usage != Usage::InPlace || algorithm == Algorithm::OnePass);
        usages.map(move |usage| (algorithm, usage))
    });
    let cell = |(algorithm, usage)| {
        let input = InputMode::Registered;
        Some(Cell { algorithm, input, usage, protocol: Preset::Allfold.protocol(algorithm, input)?, each: EACH })
    };
    forms.filter_map(cell).collect()
}

/// `cell` with the flags of one barrier volatile.
pub fn volatile(cell: &Cell, phase: Phase) -> Cell {
    let mut protocol: Protocol = cell.protocol;
    match phase {
        Phase::Start => protocol.start.order = Order::Volatile,
        Phase::Middle => protocol.middle = Order::Volatile,
        Phase::End => protocol.reuse = Reuse::EndBarrier { order: Order::Volatile, sync_after: false },
        Phase::Landing => {}
    }
    Cell { protocol, ..*cell }
}

/// The barriers of `cell`.
pub fn barriers(cell: &Cell) -> Vec<Phase> {
    match cell.algorithm {
        Algorithm::Exchange | Algorithm::TwoShot => vec![Phase::Start, Phase::Middle, Phase::End],
        Algorithm::OnePass | Algorithm::OneShot => vec![Phase::Start, Phase::End],
        Algorithm::OneShotPush | Algorithm::TwoShotPush => Vec::new(),
    }
}

/// What of `cell` is weakened; some of it changes nothing, where there is no such block sync.
pub fn mutants(cell: &Cell) -> Vec<Weakened> {
    let whole = [Weakened::Release, Weakened::Acquire, Weakened::Scope].into_iter();
    whole.chain((0..8).map(Weakened::Sync)).chain(barriers(cell).into_iter().map(Weakened::Poll)).collect()
}
