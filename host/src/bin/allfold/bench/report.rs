//! Results as a table, as JSON and as CSV.

use std::path::PathBuf;

use allfold::{Dtype, Plan, ReduceOp};
use comfy_table::{Cell, Color, ColumnConstraint, Table};
use serde::Serialize;

use super::case::Measured;
use crate::args::algorithm_name;
use crate::nccl::NVLS;
use crate::stats::{algorithm_bandwidth, bus_bandwidth, median, p99, slowest_rank};
use crate::table;

/// One size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub bytes: u64,
    pub count: u64,
    #[serde(rename = "type")]
    pub dtype: &'static str,
    pub op: &'static str,
    pub algorithm: &'static str,
    pub blocks: u32,
    pub threads: u32,
    /// Calls in the graph; none without one.
    pub chain: Option<usize>,
    /// Timings that the statistics are made of, for each rank.
    pub samples: usize,
    pub median_us: f64,
    pub p99_us: f64,
    pub algbw_gbps: f64,
    pub busbw_gbps: f64,
    pub wrong: u64,
    /// The same statistic of NCCL, where it was timed as well.
    pub nccl_us: Option<f64>,
    /// Our time over NCCL's.
    pub ratio: Option<f64>,
    /// Wrong elements of NCCL.
    pub nccl_wrong: Option<u64>,
}

impl Row {
    pub fn new(
        bytes: u64,
        (dtype, op): (Dtype, ReduceOp),
        chain: Option<usize>,
        world: usize,
        measured: &Measured<Plan>,
    ) -> Row {
        let Plan { algorithm, blocks, threads, .. } = measured.plan;
        let median_us = slowest_rank(&measured.samples, median);
        let algbw = algorithm_bandwidth(bytes, median_us);
        Row {
            bytes,
            count: bytes / dtype.bytes() as u64,
            dtype: dtype.name(),
            op: op.name(),
            algorithm: algorithm_name(algorithm),
            blocks,
            threads,
            chain,
            samples: measured.samples.iter().map(Vec::len).min().unwrap_or(0),
            median_us: rounded(median_us),
            p99_us: rounded(slowest_rank(&measured.samples, p99)),
            algbw_gbps: rounded(algbw),
            busbw_gbps: rounded(bus_bandwidth(algbw, world)),
            wrong: measured.wrong,
            nccl_us: None,
            ratio: None,
            nccl_wrong: None,
        }
    }

    /// The same row with what NCCL's calls took.
    pub fn beside(self, nccl: &Measured<()>) -> Row {
        let nccl_us = slowest_rank(&nccl.samples, median);
        let ratio = self.median_us / nccl_us;
        Row {
            nccl_us: Some(rounded(nccl_us)),
            ratio: ratio.is_finite().then(|| rounded(ratio)),
            nccl_wrong: Some(nccl.wrong),
            ..self
        }
    }
}

/// A field that may be empty.
fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// To three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The NCCL that was timed as well.
#[derive(Debug, Serialize)]
pub struct Beside {
    pub version: String,
    pub library: PathBuf,
    /// `NCCL_NVLS_ENABLE`: 0 keeps it off NVLink multicast.
    pub nvls_enable: Option<String>,
}

/// What was run, and what came out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The GPUs' or the CPU's name.
    pub device: String,
    pub ranks: usize,
    /// Ordinal of each rank's GPU; empty on the CPU.
    pub devices: Vec<u32>,
    pub backend: &'static str,
    /// Element types, separated by commas.
    pub dtype: String,
    pub protocol: &'static str,
    /// The protocol with its parts, as the text says it.
    #[serde(rename = "form")]
    pub in_words: String,
    pub input: &'static str,
    pub in_place: bool,
    pub graph: bool,
    /// Calls in the graph where that was asked for; else each row says.
    pub chain: Option<u32>,
    pub seed: u64,
    pub version: &'static str,
    pub date: String,
    pub nccl: Option<Beside>,
    /// Command and day of the tuning table, where there was one.
    pub tuning: Option<String>,
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether no element was wrong in any of the sizes, of ours or of NCCL's.
    pub fn all_right(&self) -> bool {
        self.rows.iter().all(|row| row.wrong == 0 && row.nccl_wrong.unwrap_or(0) == 0)
    }

    /// What stands above and below the table, and the table between.
    pub fn text(&self) -> String {
        let Report { device, ranks, in_words, input, seed, version, .. } = self;
        let mode = if self.graph { "in a CUDA graph" } else { "one call at a time" };
        let place = if self.in_place { "in place" } else { "out of place" };
        let head = format!(
            "allfold {version}: {ranks} rank{} on {device}\n{in_words}, {input} input, {place}, {mode}; seed {seed}",
            if *ranks == 1 { "" } else { "s" }
        );
        let beside = self.nccl.as_ref().map_or(String::new(), |nccl| {
            let nvls = nccl.nvls_enable.as_deref().unwrap_or("not set");
            format!("\nbeside NCCL {}, {} {nvls}; ratio: our time over NCCL's", nccl.version, NVLS.0)
        });
        let tuning = self.tuning.as_ref().map_or(String::new(), |tuning| format!("\ntuned by {tuning}"));
        let mut text = format!("{head}{tuning}{beside}\n\n{}\n\n", self.table().trim_fmt());
        text += &self.verdict(|row| row.wrong);
        if self.nccl.is_some() {
            text += &format!("NCCL: {}", self.verdict(|row| row.nccl_wrong.unwrap_or(0)));
        }
        text
    }

    fn verdict(&self, of: impl Fn(&Row) -> u64) -> String {
        let sizes = |count: usize| format!("{count} size{}", if count == 1 { "" } else { "s" });
        let bad = self.rows.iter().filter(|row| of(row) > 0).count();
        match self.rows.iter().map(of).sum::<u64>() {
            0 => format!("Every element right on every rank, in {}.\n", sizes(self.rows.len())),
            wrong => format!("WRONG: {wrong} elements, in {bad} of {}.\n", sizes(self.rows.len())),
        }
    }

    fn table(&self) -> Table {
        let units = ["median\nµs", "p99\nµs", "algbw\nGB/s", "busbw\nGB/s"];
        let nccl: &[&str] = if self.nccl.is_some() { &["nccl\nµs", "ratio"] } else { &[] };
        let mut table =
            table::new(&[&["bytes", "count", "type", "op", "algorithm"], &units[..], &["#wrong"], nccl].concat());
        for row in &self.rows {
            let red_if = |bad: bool, cell: Cell| if bad { cell.fg(Color::Red) } else { cell };
            let figure = |value: Option<f64>| Cell::new(value.map_or(String::new(), |value| format!("{value:.2}")));
            let mut cells = vec![
                Cell::new(row.bytes),
                Cell::new(row.count),
                Cell::new(row.dtype),
                Cell::new(row.op),
                Cell::new(row.algorithm),
                Cell::new(format!("{:.2}", row.median_us)),
                Cell::new(format!("{:.2}", row.p99_us)),
                Cell::new(format!("{:.2}", row.algbw_gbps)),
                Cell::new(format!("{:.2}", row.busbw_gbps)),
                red_if(row.wrong > 0, Cell::new(row.wrong)),
            ];
            if self.nccl.is_some() {
                cells.push(red_if(row.nccl_wrong.is_some_and(|wrong| wrong > 0), figure(row.nccl_us)));
                cells.push(figure(row.ratio));
            }
            table.add_row(cells);
        }
        // The operation is always the sum, and 100 columns have no room for it beside NCCL's.
        if let (Some(_), Some(op)) = (&self.nccl, table.column_mut(3)) {
            op.set_constraint(ColumnConstraint::Hidden);
        }
        table
    }

    /// Pretty JSON with a line break at its end.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// A header line and a line for each row, each with what was run.
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "device,backend,ranks,protocol,input,in_place,graph,date,bytes,count,type,op,algorithm,blocks,threads,chain,samples,\
             median_us,p99_us,algbw_gbps,busbw_gbps,wrong,nccl,nccl_us,ratio,nccl_wrong\n",
        );
        let Report { device, backend, ranks, protocol, input, in_place, graph, date, .. } = self;
        let device = device.replace('"', "'");
        let nccl = self.nccl.as_ref().map_or("", |nccl| &nccl.version);
        for r in &self.rows {
            let chain = or_empty(r.chain);
            let (nccl_us, ratio, nccl_wrong) = (or_empty(r.nccl_us), or_empty(r.ratio), or_empty(r.nccl_wrong));
            text += &format!(
                "\"{device}\",{backend},{ranks},{protocol},{input},{in_place},{graph},{date},{},{},{},{},{},{},{},{chain},{},{},{},{},{},{},\
                 {nccl},{nccl_us},{ratio},{nccl_wrong}\n",
                r.bytes,
                r.count,
                r.dtype,
                r.op,
                r.algorithm,
                r.blocks,
                r.threads,
                r.samples,
                r.median_us,
                r.p99_us,
                r.algbw_gbps,
                r.busbw_gbps,
                r.wrong,
            );
        }
        text
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
