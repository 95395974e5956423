//! Which algorithm and how large a grid: limits as rows of data, each with where it comes from. `table.rs` and `read.rs` have
//! tables that a user measured.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod read;
mod table;

use allfold_kernels::protocol::abi::{Algorithm, Dtype, MAX_BLOCKS};

pub use read::TableError;
pub use table::{Declared, Entry, Origin, Table};

/// Where a row's limits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured.
    Measured {
        /// On which devices.
        device: &'static str,
        /// On which day.
        date: &'static str,
        /// By which command.
        command: &'static str,
    },
    /// Not measured here, and from what it was reasoned.
    Reasoned(&'static str),
    /// Measured by the user: the table's [`Origin`] says more.
    Table,
}

/// One row: what calls of up to so many bytes are done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Largest world size that the row is for.
    pub up_to_ranks: u32,
    /// Largest call, in bytes a rank, that the row is for.
    pub up_to_bytes: u64,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Most blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Where that comes from.
    pub source: Source,
}

impl Row {
    /// For what no row speaks of.
    pub(crate) const PLAIN: Row =
        row_of(8, u64::MAX, Algorithm::OneShot, (128, 512), Source::Reasoned("no row speaks of it"));

    /// The row with another algorithm.
    pub(crate) const fn by(self, algorithm: Algorithm) -> Row {
        Row { algorithm, ..self }
    }
}

const H200X2: Source = Source::Measured {
    device: "two H200, NVLink",
    date: "2026-11-30",
    command: "by hand: host/benches/record/h200x2/2026-11-30/{sweep.txt,tried.md}",
};
const H200X2_BEFORE: Source =
    Source::Measured { device: "two H200, NVLink", date: "2026-11-29", command: "host/benches/sweep.sh 0,1" };
const MODEL: Source = Source::Reasoned(
    "µs, S in bytes, N ranks, W = 335 KB/µs of a link: one_shot_push 1.7 + (N-1) S/W, two_shot_push 2.7 + 2(N-1)/N S/W, \
     one_pass 7 + 2(N-1)/N S/(1.03 W), fitted on two H200",
);

const WIRE: Source = Source::Reasoned(
    "without a push: a one-shot moves (N-1) S and a two-shot 2 (N-1)/N S bytes a link; a barrier more costs about 1.5 µs",
);

const fn row_of(up_to_ranks: u32, up_to_bytes: u64, algorithm: Algorithm, grid: (u32, u32), source: Source) -> Row {
    Row { up_to_ranks, up_to_bytes, algorithm, blocks: grid.0, threads: grid.1, source }
}

const CPU: Source = Source::Reasoned(
    "ranks share cores, so what counts is work: a one-shot adds every element on every rank, a two-shot once; and sleeps",
);

/// The rows for CPU ranks, whose grid is never larger than their shape.
pub const CPU_ROWS: &[Row] = &[
    row_of(8, 4 << 10, Algorithm::OneShot, (MAX_BLOCKS as u32, 1024), CPU),
    row_of(8, u64::MAX, Algorithm::TwoShot, (MAX_BLOCKS as u32, 1024), CPU),
];

/// The rows for GPUs, by world size and then by bytes, where the first that is large enough counts among those that may be used:
/// pushes have a limit, a registered exchange is out of place, a one-pass wants registered buffers. Behind the pushes' rows
/// stand those for who has none.
pub const ROWS: &[Row] = &[
    row_of(2, 128 << 10, Algorithm::OneShotPush, (132, 128), H200X2),
    row_of(2, 512 << 10, Algorithm::OneShotPush, (132, 256), H200X2),
    row_of(2, 1 << 20, Algorithm::OneShotPush, (132, 512), H200X2),
    row_of(2, 4608 << 10, Algorithm::OneShotPush, (132, 1024), H200X2),
    row_of(2, 16 << 20, Algorithm::TwoShotPush, (132, 512), H200X2),
    row_of(2, 4 << 20, Algorithm::OneShot, (132, 512), H200X2_BEFORE),
    row_of(2, u64::MAX, Algorithm::Exchange, (132, 1024), H200X2),
    row_of(2, u64::MAX, Algorithm::OnePass, (132, 1024), H200X2_BEFORE),
    row_of(2, u64::MAX, Algorithm::OneShot, (132, 1024), H200X2_BEFORE),
    row_of(2, u64::MAX, Algorithm::TwoShot, (132, 1024), H200X2_BEFORE),
    row_of(3, 500 << 10, Algorithm::OneShotPush, (132, 256), MODEL),
    row_of(3, 16 << 20, Algorithm::TwoShotPush, (132, 512), MODEL),
    row_of(3, 1 << 20, Algorithm::OneShot, (64, 512), WIRE),
    row_of(3, u64::MAX, Algorithm::OnePass, (132, 1024), MODEL),
    row_of(3, u64::MAX, Algorithm::TwoShot, (132, 1024), MODEL),
    row_of(4, 220 << 10, Algorithm::OneShotPush, (132, 256), MODEL),
    row_of(4, 16 << 20, Algorithm::TwoShotPush, (132, 512), MODEL),
    row_of(4, 512 << 10, Algorithm::OneShot, (64, 512), WIRE),
    row_of(4, u64::MAX, Algorithm::OnePass, (132, 1024), MODEL),
    row_of(4, u64::MAX, Algorithm::TwoShot, (132, 1024), MODEL),
    row_of(6, 100 << 10, Algorithm::OneShotPush, (132, 256), MODEL),
    row_of(6, 16 << 20, Algorithm::TwoShotPush, (132, 256), MODEL),
    row_of(6, 256 << 10, Algorithm::OneShot, (64, 512), WIRE),
    row_of(6, u64::MAX, Algorithm::OnePass, (132, 512), MODEL),
    row_of(6, u64::MAX, Algorithm::TwoShot, (132, 512), MODEL),
    row_of(8, 64 << 10, Algorithm::OneShotPush, (132, 256), MODEL),
    row_of(8, 16 << 20, Algorithm::TwoShotPush, (132, 256), MODEL),
    row_of(8, 256 << 10, Algorithm::OneShot, (64, 512), WIRE),
    row_of(8, u64::MAX, Algorithm::OnePass, (132, 512), MODEL),
    row_of(8, u64::MAX, Algorithm::TwoShot, (132, 512), MODEL),
];

/// By how many bytes a call counts where a row has a limit. Rows are measured on floating-point numbers. A push of integers moves
/// a flag beside each word, twice the bytes, and so loses sooner to what moves none: a one-shot push at 1.4 MB and not at 4.5, on two
/// H200 (`host/benches/record/h200x2/2026-11-30-second/`); a two-shot push at 1 MB and not at 16, by the cost model.
fn counted_bytes(algorithm: Algorithm, dtype: Dtype, bytes: u64) -> u64 {
    let times = match algorithm {
        Algorithm::OneShotPush => 3,
        Algorithm::TwoShotPush => 16,
        Algorithm::OneShot | Algorithm::TwoShot | Algorithm::OnePass | Algorithm::Exchange => 1,
    };
    if dtype.landing_packs() > 1 { bytes.saturating_mul(times) } else { bytes }
}

/// The row for a call of `bytes` over `world` ranks, among those whose algorithm `usable` allows.
pub fn row(rows: &[Row], world: u32, dtype: Dtype, bytes: u64, usable: impl Fn(Algorithm) -> bool) -> Option<Row> {
    let fits = |row: &&Row| world <= row.up_to_ranks && usable(row.algorithm);
    // Of the rows for the smallest world size that serves, the first that is large enough; else the largest.
    let ranks = rows.iter().find(fits)?.up_to_ranks;
    let mut of_world = rows.iter().filter(fits).filter(|row| row.up_to_ranks == ranks);
    of_world
        .clone()
        .find(|row| counted_bytes(row.algorithm, dtype, bytes) <= row.up_to_bytes)
        .or_else(|| of_world.next_back())
        .copied()
}
