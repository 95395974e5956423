//! What stress runs saw on GPUs, to be put beside the verdicts: the committed records, joined by cell.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Order, Reuse, Scope};

use super::names;
use crate::cell::Cell;
use crate::program::Usage;

/// What `allfold stress --json` writes, as far as the page tells it.
#[derive(Debug, Deserialize)]
pub struct Runs {
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

    /// How many elements of a cell were wrong, as `0` or `1,994`; nothing for a usage that no stress run has: there, a
    /// registered input is always rewritten at once after the call.
    ///
    /// # Errors
    /// When the record lacks the cell.
    pub fn wrong(&self, preset: Option<Preset>, cell: &Cell) -> Result<Option<String>> {
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
        let row = row.with_context(|| format!("no stress run of {form:?}"))?;
        Ok(Some(names::thousands(row.wrong)))
    }

    /// Calls of a cell, elements checked in them, and how many cells had any wrong: what a caption says.
    pub fn caption(&self) -> String {
        let least = |of: fn(&Row) -> u64| names::thousands(self.rows.iter().map(of).min().unwrap_or_default());
        format!("at least {} calls and {} elements a cell", least(|row| row.calls), least(|row| row.elements))
    }
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

    #[test]
    fn every_cell_that_a_stress_run_has_is_found_and_no_proved_preset_was_wrong() {
        let runs = Runs::matrix().unwrap();
        let found: Vec<_> = matrix::cells().iter().filter_map(|cell| runs.wrong(None, cell).unwrap()).collect();
        assert!(found.len() > 80, "{}", found.len());
        let runs = Runs::presets().unwrap();
        for (preset, cell) in matrix::presets() {
            let wrong = runs.wrong(Some(preset), &cell).unwrap();
            assert!(preset != Preset::Allfold || wrong.is_none_or(|wrong| wrong == "0"), "{cell:?}");
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        assert!(Runs::read("{}").is_err());
        assert!(Runs::read("{\"rows\": []}").is_err());
    }
}
