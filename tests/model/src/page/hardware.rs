//! What stress runs saw on GPUs, to be put beside the verdicts: the committed records, joined by cell.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use allfold_kernels::protocol::abi::{Algorithm, InputMode};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Order, Reuse, Scope};

use super::{Record, names, tables};
use crate::cell::Cell;
use crate::matrix;
use crate::program::Usage;

/// What `allfold stress --json` writes, as far as the page tells it.
#[derive(Debug, Deserialize)]
pub struct Runs {
    bytes: u64,
    dtype: String,
    blocks: u64,
    threads: u64,
    delay_ns: u64,
    delay_one_in: u64,
    rows: Vec<Row>,
}

/// One cell's calls.
#[derive(Debug, Deserialize)]
struct Row {
    protocol: String,
    algorithm: String,
    input: String,
    start: String,
    order: String,
    end: String,
    calls: u64,
    elements: u64,
    wrong: u64,
    first_wrong: Option<First>,
}

/// The first wrong element of a cell.
#[derive(Debug, Deserialize)]
struct First {
    call: u64,
}

impl Runs {
    /// The matrix's runs.
    ///
    /// # Errors
    /// When the record is not one.
    pub fn matrix() -> Result<Runs> {
        Runs::read(include_str!("../../../../host/benches/record/h200x2/2026-11-29/matrix.json"))
    }

    /// The presets' runs.
    ///
    /// # Errors
    /// When the record is not one.
    pub fn presets() -> Result<Runs> {
        Runs::read(include_str!("../../../../host/benches/record/h200x2/2026-11-29/presets.json"))
    }

    fn read(json: &str) -> Result<Runs> {
        let runs: Runs = serde_json::from_str(json).context("not a record of stress runs")?;
        ensure!(!runs.rows.is_empty(), "a record of stress runs has no rows");
        Ok(runs)
    }

    /// The run of a cell; nothing for a usage that no stress run has: there, a registered input is always rewritten at
    /// once after the call.
    fn row(&self, preset: Option<Preset>, cell: &Cell) -> Result<Option<&Row>> {
        if !cell.input.staged() && cell.usage != Usage::Rewritten {
            return Ok(None);
        }
        let protocol = preset.map_or("custom protocol", Preset::name);
        let form = [
            protocol,
            names::algorithm(cell.algorithm),
            names::input(cell.input),
            match cell.protocol.start.scope {
                Scope::MultiGpu => "multi-gpu",
                Scope::Block => "block",
            },
            order(cell.protocol.start.order),
            &match cell.protocol.reuse {
                Reuse::Nothing => "none".to_string(),
                Reuse::Parity => "parity".to_string(),
                Reuse::EndBarrier { order: of, .. } => format!("barrier-{}", order(of)),
            },
        ];
        let row = self.rows.iter().find(|row| row.form() == form);
        row.with_context(|| format!("no stress run of {form:?}")).map(Some)
    }

    /// How many elements of a cell were wrong, as `0` or `1,994`; nothing where no run has the cell's usage.
    ///
    /// # Errors
    /// When the record lacks the cell; when a cell that is proved, as `verdict` says, was wrong: one of the two errs.
    pub fn wrong(&self, preset: Option<Preset>, cell: &Cell, verdict: &str) -> Result<Option<String>> {
        let Some(row) = self.row(preset, cell)? else { return Ok(None) };
        ensure!(verdict != "proved" || row.wrong == 0, "proved, and wrong on hardware: {row:?}");
        Ok(Some(names::thousands(row.wrong)))
    }

    /// `16 KB of bf16, 8 blocks of 64 threads`.
    pub fn setting(&self) -> String {
        format!("{} KB of {}, {} blocks of {} threads", self.bytes >> 10, self.dtype, self.blocks, self.threads)
    }

    /// What was delayed, and how long.
    pub fn delays(&self) -> String {
        let block = self.delay_ns / 1_000;
        let (one_in, rank) = (self.delay_one_in, 4 * block);
        format!(
            "One place in {one_in} was delayed, of a block's start, its flags and its block syncs: a block by {block} µs, a whole rank by {rank} µs"
        )
    }

    /// Calls of a cell and elements checked in them: what a caption says.
    pub fn caption(&self) -> String {
        let least = |of: fn(&Row) -> u64| names::thousands(self.rows.iter().map(of).min().unwrap_or_default());
        format!("at least {} calls and {} elements a cell", least(|row| row.calls), least(|row| row.elements))
    }
}

/// The sorts of cells that the page compares with what the runs saw, in its order.
const SORTS: [&str; 7] = [
    "proved",
    "rests on assumptions",
    "unsound: one-shot, registered, rewritten at once, nothing at the end",
    "unsound: copied by the kernel, multi-GPU start, volatile",
    "unsound: copied by the kernel, multi-GPU start, release/acquire",
    "unsound: copied by the kernel, block start",
    "unsound: memcpy, one-shot, one staging buffer, nothing at the end",
];

/// Which of [`SORTS`] a cell is of.
fn sort(cell: &Cell, verdict: &str) -> Result<&'static str> {
    let start = cell.protocol.start;
    let index = match (cell.input, cell.algorithm, start.scope, start.order) {
        _ if verdict == "proved" => 0,
        _ if verdict.starts_with("rests on") => 1,
        (InputMode::Registered, Algorithm::OneShot, ..) => 2,
        (InputMode::Copied, _, Scope::MultiGpu, Order::Volatile) => 3,
        (InputMode::Copied, _, Scope::MultiGpu, Order::ReleaseAcquire) => 4,
        (InputMode::Copied, _, Scope::Block, _) => 5,
        (InputMode::Memcpy, Algorithm::OneShot, ..) => 6,
        (InputMode::Registered | InputMode::Memcpy, Algorithm::TwoShot, ..)
        | (_, Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::OnePass | Algorithm::Exchange, ..) => {
            anyhow::bail!("the page has no words for {cell:?}: {verdict}")
        }
    };
    Ok(SORTS[index])
}

/// The table of verdicts and runs side by side, and the numbers that the words around it need.
///
/// # Errors
/// When a cell has no verdict, no run, or no sort.
pub fn compared(record: &Record, runs: &Runs) -> Result<BTreeMap<String, String>> {
    let mut sorts: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for cell in matrix::cells() {
        if let Some(row) = runs.row(None, &cell)? {
            sorts.entry(sort(&cell, record.get(&names::cell(&cell))?)?).or_default().push(row);
        }
    }
    let rows_of = |name: &str| sorts.get(name).map_or(&[][..], Vec::as_slice);
    let line = |name: &&str| vec![name.to_string(), rows_of(name).len().to_string(), seen(rows_of(name))];
    let heads = ["cells of the matrix", "cells", "wrong elements"].map(String::from).to_vec();
    let firsts = |name| {
        let calls = rows_of(name).iter().filter_map(|row| Some(row.first_wrong.as_ref()?.call));
        format!(
            "{} to {}",
            names::thousands(calls.clone().min().unwrap_or(0)),
            names::thousands(calls.max().unwrap_or(0))
        )
    };
    Ok(BTreeMap::from([
        ("table hardware".to_string(), tables::markdown(heads, SORTS.iter().map(line).collect())),
        ("first wrong, volatile".to_string(), firsts(SORTS[3])),
        ("first wrong, release/acquire".to_string(), firsts(SORTS[4])),
        ("cells with a run".to_string(), sorts.values().map(Vec::len).sum::<usize>().to_string()),
    ]))
}

/// `none seen`, or `in all 8: 125,627 to 776,237`.
fn seen(rows: &[&Row]) -> String {
    let wrong: Vec<u64> = rows.iter().map(|row| row.wrong).filter(|&wrong| wrong > 0).collect();
    let (Some(least), Some(most)) = (wrong.iter().min(), wrong.iter().max()) else { return "none seen".to_string() };
    let cells = if wrong.len() == rows.len() {
        format!("all {}", rows.len())
    } else {
        format!("{} of {}", wrong.len(), rows.len())
    };
    format!("in {cells}: {} to {}", names::thousands(*least), names::thousands(*most))
}

impl Row {
    fn form(&self) -> [&str; 6] {
        [&self.protocol, &self.algorithm, &self.input, &self.start, &self.order, &self.end]
    }
}

fn order(order: Order) -> &'static str {
    match order {
        Order::Volatile => "volatile",
        Order::ReleaseAcquire => "release-acquire",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;

    fn proved() -> Record {
        let mut record = Record::default();
        for (name, _) in names::cells() {
            record.insert(&name, "proved".into());
        }
        record
    }

    #[test]
    fn every_cell_with_a_run_is_found() {
        let runs = Runs::matrix().unwrap();
        let found = matrix::cells().iter().filter_map(|cell| runs.row(None, cell).unwrap()).count();
        assert_eq!(
            found,
            matrix::cells().iter().filter(|cell| cell.input.staged() || cell.usage == Usage::Rewritten).count()
        );
        let runs = Runs::presets().unwrap();
        assert!(matrix::presets().iter().all(|(preset, cell)| runs.row(Some(*preset), cell).is_ok()));
    }

    /// Some cells are wrong on hardware; a record that calls them proved makes no page.
    #[test]
    fn a_proved_cell_that_was_wrong_is_refused() {
        let (of_matrix, of_presets) = (Runs::matrix().unwrap(), Runs::presets().unwrap());
        let said = tables::matrix(&proved(), &of_matrix).unwrap_err();
        assert!(said.to_string().starts_with("proved, and wrong on hardware"), "{said}");
        let said = tables::presets(&proved(), &of_presets).unwrap_err();
        assert!(said.to_string().starts_with("proved, and wrong on hardware"), "{said}");
    }

    #[test]
    fn what_is_no_record_is_refused() {
        assert!(Runs::read("{}").is_err());
        assert!(Runs::read("{\"rows\": []}").is_err());
    }
}
