//! Every protocol that the kernels can run: algorithm x input x start barrier x end. Uses `allfold-kernels`.

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Check, Order, Protocol, Reuse, Scope, Start};

use super::cell::{Cell, EACH, Usage};

/// What protects the input in the end, a row of the matrix for each.
pub const ENDS: [(&str, Reuse); 4] = [
    ("end barrier, volatile", Reuse::EndBarrier { order: Order::Volatile, sync_after: false }),
    ("end barrier, release / acquire", Reuse::EndBarrier { order: Order::ReleaseAcquire, sync_after: false }),
    ("banks by parity", Reuse::Parity),
    ("nothing", Reuse::Nothing),
];

/// Start barriers, a column of the matrix for each.
pub const STARTS: [(&str, Scope, Order); 4] = [
    ("multi-GPU, volatile", Scope::MultiGpu, Order::Volatile),
    ("multi-GPU, release / acquire", Scope::MultiGpu, Order::ReleaseAcquire),
    ("block, volatile", Scope::Block, Order::Volatile),
    ("block, release / acquire", Scope::Block, Order::ReleaseAcquire),
];

/// A row: its algorithm, input mode and end, and a cell for each of [`STARTS`].
pub struct Row {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The input mode.
    pub input: InputMode,
    /// What protects the input in the end.
    pub end: &'static str,
    /// The cells.
    pub cells: [Cell; 4],
}

/// All rows; the caller writes its input again at once after each call, and the middle barrier is release / acquire.
///
/// Banks alternate only where the input is staged.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for algorithm in Algorithm::OF_ANY_PROTOCOL {
        for input in InputMode::ALL {
            for (end, reuse) in ENDS {
                if reuse == Reuse::Parity && !input.staged() {
                    continue;
                }
                let cells = STARTS.map(|(_, scope, order)| {
                    let start = Start { scope, order, sync_before: scope == Scope::Block };
                    let copy_in = input == InputMode::Copied;
                    let middle = Order::ReleaseAcquire;
                    let protocol = Protocol { copy_in, start, middle, reuse, check: Check::Reached };
                    Cell { algorithm, input, usage: Usage::Rewritten, protocol, each: EACH }
                });
                rows.push(Row { algorithm, input, end, cells });
            }
        }
    }
    rows
}

/// The presets' cells, by preset; in place only where it is not refused.
pub fn presets() -> Vec<(Preset, Cell)> {
    let mut cells = Vec::new();
    for preset in Preset::ALL {
        for algorithm in Algorithm::OF_ANY_PROTOCOL {
            for input in InputMode::ALL {
                for usage in Usage::ALL {
                    // Staged, the usage of the caller's own buffer is nobody else's matter.
                    let same = input.staged() && usage != Usage::Rewritten;
                    let refused = algorithm == Algorithm::OneShot && !input.staged() && usage == Usage::InPlace;
                    if let (Some(protocol), false) = (preset.protocol(algorithm, input), same || refused) {
                        cells.push((preset, Cell { algorithm, input, usage, protocol, each: EACH }));
                    }
                }
            }
        }
    }
    cells
}
