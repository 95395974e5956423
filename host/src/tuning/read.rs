//! A table's text made into rows, line by line, and all that can be wrong with it.

use std::str::FromStr;

use allfold_kernels::protocol::abi::{Algorithm, Dtype, MAX_BLOCKS, MAX_RANKS};

use super::table::{Declared, Entry, Origin};

/// The first line of every table, with the version of the format.
pub(super) const HEAD: &str = "# allfold tuning 1";
/// What a row consists of.
pub(super) const COLUMNS: [&str; 7] =
    ["ranks", "elem_bytes", "declared", "up_to_bytes", "algorithm", "blocks", "threads"];
/// In place of bytes, for a row without a limit.
pub(super) const NO_LIMIT: &str = "max";
/// Most threads of a block that any machine has.
const MAX_THREADS: u32 = 1024;

/// Why a text is not a tuning table, or a table not for these ranks. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The first line is another one: no table, or one of another version.
    #[error("line 1: {got:?}, where a tuning table that this version reads has {HEAD:?}")]
    Head {
        /// What is there.
        got: String,
    },
    /// A line of the header is missing.
    #[error("no line `# {what} …` above the rows")]
    Missing {
        /// Which one.
        what: &'static str,
    },
    /// A row with too few or too many fields.
    #[error("line {line}: {got} fields, where a row has {}: {}", COLUMNS.len(), COLUMNS.join(" "))]
    Fields {
        /// The line.
        line: usize,
        /// Its fields.
        got: usize,
    },
    /// A field that should be a number and is none.
    #[error("line {line}: {column} {got:?} is no number that fits")]
    Number {
        /// The line.
        line: usize,
        /// The field.
        column: &'static str,
        /// What is there.
        got: String,
    },
    /// Ranks that no communicator tunes for.
    #[error("line {line}: {ranks} ranks: a row is for 2 to {MAX_RANKS}")]
    Ranks {
        /// The line.
        line: usize,
        /// Its ranks.
        ranks: u32,
    },
    /// No dtype has elements of this size.
    #[error("line {line}: no dtype has elements of {elem_bytes} bytes")]
    ElemBytes {
        /// The line.
        line: usize,
        /// What is there.
        elem_bytes: u32,
    },
    /// An unknown declaration.
    #[error("line {line}: {got:?} is none of registered, in_place, staged")]
    Declared {
        /// The line.
        line: usize,
        /// What is there.
        got: String,
    },
    /// An unknown algorithm.
    #[error("line {line}: there is no algorithm {got:?}")]
    Algorithm {
        /// The line.
        line: usize,
        /// What is there.
        got: String,
    },
    /// An algorithm that calls of the row can never be done with.
    #[error("line {line}: {} is not for {} calls of {ranks} ranks", algorithm.name(), declared.name())]
    NotFor {
        /// The line.
        line: usize,
        /// The algorithm.
        algorithm: Algorithm,
        /// The row's declaration.
        declared: Declared,
        /// The row's ranks.
        ranks: u32,
    },
    /// A grid that no communicator can launch.
    #[error(
        "line {line}: {blocks} blocks of {threads} threads: a row has 1 to {MAX_BLOCKS} of 1 to {MAX_THREADS} threads"
    )]
    Grid {
        /// The line.
        line: usize,
        /// Its blocks.
        blocks: u32,
        /// Its threads.
        threads: u32,
    },
    /// A row that does not come after the one before it.
    #[error("line {line}: out of order: rows go by ranks, elem_bytes, declared, then by rising up_to_bytes")]
    Order {
        /// The line.
        line: usize,
    },
    /// Calls larger than the last row for them have none.
    #[error("line {line}: the last row for its calls has a limit: it needs one for `{NO_LIMIT}` bytes")]
    NoLast {
        /// The line of that last row.
        line: usize,
    },
    /// A header without rows.
    #[error("no rows")]
    Empty,
    /// A table that was measured elsewhere.
    #[error("the tuning table was measured on {measured:?}, and the ranks are on {here:?}")]
    Device {
        /// The table's device.
        measured: String,
        /// Where the ranks are.
        here: String,
    },
}

/// Reads a table.
pub(super) fn table(text: &str) -> Result<(Origin, Vec<Entry>), TableError> {
    let mut lines = (1..).zip(text.lines().map(str::trim));
    match lines.next() {
        Some((_, HEAD)) => {}
        head => return Err(TableError::Head { got: head.map_or(String::new(), |(_, got)| got.to_owned()) }),
    }
    let of_header = |what: &'static str| {
        let comments = text.lines().filter_map(|line| line.trim().strip_prefix('#'));
        let named = comments.filter_map(|comment| comment.trim_start().strip_prefix(what)?.strip_prefix(' '));
        named.map(str::trim).next().filter(|value| !value.is_empty()).ok_or(TableError::Missing { what })
    };
    let (device, date, command) = (of_header("device")?, of_header("date")?, of_header("command")?);
    let origin = Origin { device: device.to_owned(), date: date.to_owned(), command: command.to_owned() };

    let mut entries: Vec<(usize, Entry)> = Vec::new();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
        let entry = entry(line, text)?;
        if let Some(&(last_line, last)) = entries.last() {
            if entry.group() < last.group() || entry.group() == last.group() && entry.up_to_bytes <= last.up_to_bytes {
                return Err(TableError::Order { line });
            }
            if entry.group() != last.group() && last.up_to_bytes != u64::MAX {
                return Err(TableError::NoLast { line: last_line });
            }
        }
        entries.push((line, entry));
    }
    match entries.last() {
        None => Err(TableError::Empty),
        Some(&(line, last)) if last.up_to_bytes != u64::MAX => Err(TableError::NoLast { line }),
        Some(_) => Ok((origin, entries.into_iter().map(|(_, entry)| entry).collect())),
    }
}

fn entry(line: usize, text: &str) -> Result<Entry, TableError> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let &[ranks, elem_bytes, declared, up_to_bytes, algorithm, blocks, threads] = &fields[..] else {
        return Err(TableError::Fields { line, got: fields.len() });
    };
    let ranks: u32 = number(line, "ranks", ranks)?;
    if !(2..=MAX_RANKS as u32).contains(&ranks) {
        return Err(TableError::Ranks { line, ranks });
    }
    let elem_bytes: u32 = number(line, "elem_bytes", elem_bytes)?;
    if Dtype::ALL.iter().all(|dtype| dtype.bytes() != elem_bytes as usize) {
        return Err(TableError::ElemBytes { line, elem_bytes });
    }
    let known = Declared::ALL.into_iter().find(|known| known.name() == declared);
    let declared = known.ok_or_else(|| TableError::Declared { line, got: declared.to_owned() })?;
    let up_to_bytes = if up_to_bytes == NO_LIMIT { u64::MAX } else { number(line, "up_to_bytes", up_to_bytes)? };
    let known = Algorithm::ALL.into_iter().find(|known| known.name() == algorithm);
    let algorithm = known.ok_or_else(|| TableError::Algorithm { line, got: algorithm.to_owned() })?;
    if !algorithm.takes(ranks) || !possible(algorithm, declared) {
        return Err(TableError::NotFor { line, algorithm, declared, ranks });
    }
    let (blocks, threads) = (number(line, "blocks", blocks)?, number(line, "threads", threads)?);
    if !(1..=MAX_BLOCKS as u32).contains(&blocks) || !(1..=MAX_THREADS).contains(&threads) {
        return Err(TableError::Grid { line, blocks, threads });
    }
    Ok(Entry { ranks, elem_bytes, declared, up_to_bytes, algorithm, blocks, threads })
}

fn number<T: FromStr>(line: usize, column: &'static str, text: &str) -> Result<T, TableError> {
    text.parse().map_err(|_| TableError::Number { line, column, got: text.to_owned() })
}

/// Whether calls that declare this can be done so, in our own protocol.
const fn possible(algorithm: Algorithm, declared: Declared) -> bool {
    match algorithm {
        Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::TwoShot => true,
        // Peers read the input while the output is written.
        Algorithm::OneShot => !matches!(declared, Declared::InPlace),
        Algorithm::OnePass => !matches!(declared, Declared::Staged),
        // Registered in place, terms would land on the input.
        Algorithm::Exchange => !matches!(declared, Declared::InPlace),
    }
}
