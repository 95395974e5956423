//! Which algorithm and how large a grid: limits as rows of data, each with where it comes from.

use allfold_kernels::protocol::abi::{Algorithm, MAX_BLOCKS};

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
        row_of(8, u64::MAX, Algorithm::OneShot, (64, 512), Source::Reasoned("no row speaks of it"));

    /// The row with another algorithm.
    pub(crate) const fn by(self, algorithm: Algorithm) -> Row {
        Row { algorithm, ..self }
    }
}

const H200X2: Source =
    Source::Measured { device: "two H200, NVLink", date: "2026-11-29", command: "host/benches/sweep.sh 0,1" };
const WIRE: Source = Source::Reasoned(
    "a one-shot moves (N-1) S and a two-shot 2 (N-1)/N S bytes a link; a barrier more costs about 1.5 µs",
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

/// The rows for GPUs, by world size and then by bytes. The last one of a world size has no limit.
pub const ROWS: &[Row] = &[
    row_of(2, 2 << 20, Algorithm::OneShot, (64, 512), H200X2),
    row_of(2, u64::MAX, Algorithm::OneShot, (64, 1024), H200X2),
    row_of(3, 1 << 20, Algorithm::OneShot, (64, 512), WIRE),
    row_of(3, u64::MAX, Algorithm::TwoShot, (64, 1024), WIRE),
    row_of(4, 512 << 10, Algorithm::OneShot, (64, 512), WIRE),
    row_of(4, u64::MAX, Algorithm::TwoShot, (64, 1024), WIRE),
    row_of(8, 256 << 10, Algorithm::OneShot, (64, 512), WIRE),
    row_of(8, u64::MAX, Algorithm::TwoShot, (64, 1024), WIRE),
];

/// The row for a call of `bytes` over `world` ranks, among those whose algorithm `usable` allows.
pub fn row(rows: &[Row], world: u32, bytes: u64, usable: impl Fn(Algorithm) -> bool) -> Option<Row> {
    let fits = |row: &&Row| world <= row.up_to_ranks && usable(row.algorithm);
    // Of the rows for the smallest world size that serves, the first that is large enough; else the largest.
    let ranks = rows.iter().find(fits)?.up_to_ranks;
    let mut of_world = rows.iter().filter(fits).filter(|row| row.up_to_ranks == ranks);
    of_world.clone().find(|row| bytes <= row.up_to_bytes).or_else(|| of_world.next_back()).copied()
}
