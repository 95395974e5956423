//! A table that was measured on the machine at hand: text that `allfold tune` writes and a communicator takes its plans from.
//! Uses nothing but `std` and `hash.rs`; `read.rs` reads it.

use std::fmt;
use std::sync::Arc;

use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode};

use super::read::{self, TableError};
use super::{Row, Source, counted_bytes};
use crate::hash::fnv1a;

/// What the caller declares of a call's buffers, on all ranks alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Declared {
    /// Peers reach the input, and the output is another buffer.
    Registered,
    /// Peers reach the input, and it is the output.
    InPlace,
    /// Peers reach only what was copied to the staging area.
    Staged,
}

impl Declared {
    /// All there is.
    pub const ALL: [Declared; 3] = [Declared::Registered, Declared::InPlace, Declared::Staged];

    /// What a call with this input mode declares.
    pub const fn of(input: InputMode, in_place: bool) -> Declared {
        match (input, in_place) {
            (InputMode::Registered, false) => Declared::Registered,
            (InputMode::Registered, true) => Declared::InPlace,
            (InputMode::Memcpy | InputMode::Copied, _) => Declared::Staged,
        }
    }

    /// Its name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Declared::Registered => "registered",
            Declared::InPlace => "in_place",
            Declared::Staged => "staged",
        }
    }
}

/// One row of a table: how calls of up to so many bytes are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Ranks of the communicator, neither more nor less.
    pub ranks: u32,
    /// Bytes of an element.
    pub elem_bytes: u32,
    /// What the caller declares.
    pub declared: Declared,
    /// Largest call, in bytes a rank, of floating-point numbers; [`u64::MAX`] for no limit. A push of i32 ends sooner.
    pub up_to_bytes: u64,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Most blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

impl Entry {
    /// Entries that are alike in this are for the same calls, but for their bytes.
    pub(super) fn group(&self) -> (u32, u32, Declared) {
        (self.ranks, self.elem_bytes, self.declared)
    }
}

/// Where, when and how a table was measured. Each is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The GPUs' name, see [`Origin::gpus`]; or [`Origin::CPU`], and behind a colon which.
    pub device: String,
    /// When.
    pub date: String,
    /// By which command.
    pub command: String,
}

impl Origin {
    /// What the device of a table for CPU ranks begins with.
    pub const CPU: &'static str = "CPU";

    /// The device of a table for ranks on these GPUs, of each rank its GPU's ordinal and name: each name once, and whether
    /// ranks share a GPU.
    pub fn gpus<'a>(ranks: impl IntoIterator<Item = (u32, &'a str)>) -> String {
        let (mut ordinals, mut names): (Vec<u32>, Vec<&str>) = ranks.into_iter().unzip();
        let ranks = ordinals.len();
        ordinals.sort_unstable();
        ordinals.dedup();
        names.sort_unstable();
        names.dedup();
        names.join(", ") + if ordinals.len() < ranks { ", shared" } else { "" }
    }
}

/// Tuning rows that were measured, and where. Cheap to clone. A communicator that is given one in
/// [`Options::tuning`](crate::Options::tuning) takes its plans from it, and from the built-in rows where the table has none
/// for its ranks, its elements or the algorithms that it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table(Arc<Contents>);

#[derive(Debug, PartialEq, Eq)]
struct Contents {
    origin: Origin,
    entries: Vec<Entry>,
}

impl Table {
    /// A table of these entries, if they can be one: see [`Table::read`].
    ///
    /// # Errors
    /// Any [`TableError`]; its lines are those of the table as it would be written.
    pub fn new(origin: &Origin, entries: &[Entry]) -> Result<Table, TableError> {
        // A line break would be read as the end of a line.
        let line = |text: &str| text.replace(char::is_control, " ").trim().to_owned();
        let Origin { device, date, command } = origin;
        let origin = Origin { device: line(device), date: line(date), command: line(command) };
        Table::read(&Table(Arc::new(Contents { origin, entries: entries.to_vec() })).to_string())
    }

    /// Reads what `allfold tune` wrote. Rows are in order: by ranks, bytes of an element and what is declared as
    /// [`Declared::ALL`] has it, and then by rising bytes up to one that has no limit.
    ///
    /// # Errors
    /// A [`TableError`] that names the line.
    pub fn read(text: &str) -> Result<Table, TableError> {
        let (origin, entries) = read::table(text)?;
        Ok(Table(Arc::new(Contents { origin, entries })))
    }

    /// Where it was measured.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Its rows.
    pub fn entries(&self) -> &[Entry] {
        &self.0.entries
    }

    /// Whether it has rows for these ranks and elements.
    pub fn speaks_of(&self, ranks: u32, dtype: Dtype) -> bool {
        self.entries().iter().any(|entry| entry.ranks == ranks && entry.elem_bytes as usize == dtype.bytes())
    }

    /// The row for such a call, the first that is large enough and whose algorithm `usable` allows. None where nothing was
    /// measured for it: these ranks and no others, this size of elements, this declaration.
    pub fn row(
        &self,
        ranks: u32,
        dtype: Dtype,
        declared: Declared,
        bytes: u64,
        usable: impl Fn(Algorithm) -> bool,
    ) -> Option<Row> {
        let group = (ranks, dtype.bytes() as u32, declared);
        let mut large_enough = self.entries().iter().filter(|entry| {
            entry.group() == group && counted_bytes(entry.algorithm, dtype, bytes) <= entry.up_to_bytes
        });
        let &Entry { up_to_bytes, algorithm, blocks, threads, .. } =
            large_enough.find(|entry| usable(entry.algorithm))?;
        Some(Row { up_to_ranks: ranks, up_to_bytes, algorithm, blocks, threads, source: Source::Table })
    }

    /// A number that two tables share only if they are the same in every field. Ranks in several processes compare it when
    /// they meet: with unequal tables they would choose unequal plans, and hang. It is the same in every build.
    pub fn fingerprint(&self) -> u64 {
        // The text says everything.
        fnv1a(self.to_string().as_bytes())
    }

    /// Refuses a table of other GPUs than these, or of GPUs for CPU ranks.
    pub(crate) fn check_device(&self, here: &str) -> Result<(), TableError> {
        let measured = &self.origin().device;
        let rest = measured.strip_prefix(here);
        if rest.is_some_and(|rest| rest.is_empty() || here == Origin::CPU && rest.starts_with(':')) {
            return Ok(());
        }
        Err(TableError::Device { measured: measured.clone(), here: here.to_owned() })
    }
}

/// The text that [`Table::read`] reads.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { device, date, command } = self.origin();
        writeln!(f, "{}\n# device {device}\n# date {date}\n# command {command}", read::HEAD)?;
        writeln!(f, "# {}", read::COLUMNS.join(" "))?;
        for entry in self.entries() {
            let Entry { ranks, elem_bytes, up_to_bytes, blocks, threads, .. } = entry;
            let limit = if *up_to_bytes == u64::MAX { read::NO_LIMIT.to_owned() } else { up_to_bytes.to_string() };
            let (declared, algorithm) = (entry.declared.name(), entry.algorithm.name());
            writeln!(f, "{ranks} {elem_bytes} {declared:10} {limit:>10} {algorithm:13} {blocks:3} {threads:4}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
