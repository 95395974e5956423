//! What the page calls things.

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Order, Reuse, Scope, Start};

use crate::assumptions::Assumption;
use crate::cell::Cell;
use crate::matrix;
use crate::program::Usage;
pub use crate::search::thousands;

pub fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::OneShot => "one-shot",
        Algorithm::TwoShot => "two-shot",
        Algorithm::OneShotPush => "one-shot-push",
        Algorithm::TwoShotPush => "two-shot-push",
        Algorithm::OnePass => "one-pass",
        Algorithm::Exchange => "exchange",
    }
}

pub fn input(input: InputMode) -> &'static str {
    match input {
        InputMode::Registered => "registered",
        InputMode::Memcpy => "memcpy",
        InputMode::Copied => "copied",
    }
}

/// What the caller does with a registered input; nothing for a staged one.
pub fn usage(cell_input: InputMode, usage: Usage) -> &'static str {
    match usage {
        Usage::InTurn if cell_input.staged() => "",
        Usage::InTurn => "two inputs in turn",
        Usage::Rewritten => "rewritten at once",
        Usage::InPlace => "in place",
        Usage::Chained => "chained",
    }
}

fn order(order: Order) -> &'static str {
    match order {
        Order::Volatile => "volatile",
        Order::ReleaseAcquire => "release/acquire",
    }
}

pub fn start(start: Start) -> String {
    let scope = match start.scope {
        Scope::MultiGpu => "multi-GPU",
        Scope::Block => "block",
    };
    format!("{scope}, {}", order(start.order))
}

pub fn reuse(reuse: Reuse) -> String {
    match reuse {
        Reuse::Nothing => "nothing".to_string(),
        Reuse::Parity => "parity".to_string(),
        Reuse::EndBarrier { order: of, .. } => format!("barrier, {}", order(of)),
    }
}

/// `one-shot registered, rewritten at once`.
pub fn form(cell: &Cell) -> String {
    let form = format!("{} {}", algorithm(cell.algorithm), input(cell.input));
    match usage(cell.input, cell.usage) {
        "" => form,
        usage => format!("{form}, {usage}"),
    }
}

/// `one-shot memcpy: start multi-GPU, volatile; end parity`.
pub fn cell(cell: &Cell) -> String {
    format!("{}: start {}; end {}", form(cell), start(cell.protocol.start), reuse(cell.protocol.reuse))
}

/// `vllm: two-shot memcpy`.
pub fn preset(preset: Preset, cell: &Cell) -> String {
    format!("{}: {}", preset.name(), form(cell))
}

/// `allfold: one-shot registered, in place`, `volatile middle: two-shot memcpy`.
pub fn special(cell: &Cell) -> String {
    let what = match cell.protocol.middle {
        Order::Volatile => "volatile middle",
        Order::ReleaseAcquire => Preset::Allfold.name(),
    };
    format!("{what}: {}", form(cell))
}

/// Every cell of the page, by its name.
pub fn cells() -> Vec<(String, Cell)> {
    let of_matrix = matrix::cells().into_iter().map(|of| (cell(&of), of));
    let of_presets = matrix::presets().into_iter().map(|(name, of)| (preset(name, &of), of));
    let others = matrix::in_place().into_iter().chain(matrix::volatile_middle());
    of_matrix.chain(of_presets).chain(others.map(|of| (special(&of), of))).collect()
}

/// One letter for an assumption.
pub fn letter(assumption: Assumption) -> &'static str {
    match assumption {
        Assumption::KernelEndPublishes => "**K**",
        Assumption::PollOrdersLoads => "**P**",
        Assumption::LoadsDoneBeforeBarrier => "**L**",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
