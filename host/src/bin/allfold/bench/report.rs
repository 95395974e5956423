//! Results as a table, as JSON and as CSV.

use allfold::{Dtype, Plan, ReduceOp};
use comfy_table::{Cell, Color, Table};
use serde::Serialize;

use super::case::Measured;
use super::stats::{algorithm_bandwidth, bus_bandwidth, median, p99, slowest_rank};
use crate::args::algorithm_name;
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
}

impl Row {
    pub fn new(bytes: u64, dtype: Dtype, chain: Option<usize>, world: usize, measured: &Measured<Plan>) -> Row {
        let Plan { algorithm, blocks, threads, .. } = measured.plan;
        let median_us = slowest_rank(&measured.samples, median);
        let algbw = algorithm_bandwidth(bytes, median_us);
        Row {
            bytes,
            count: bytes / dtype.bytes() as u64,
            dtype: dtype.name(),
            op: ReduceOp::Sum.name(),
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
        }
    }
}

/// To three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
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
    pub rows: Vec<Row>,
}

impl Report {
    /// Elements that were wrong in any of the sizes.
    pub fn wrong(&self) -> u64 {
        self.rows.iter().map(|row| row.wrong).sum()
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
        format!("{head}\n\n{}\n\n{}\n", self.table().trim_fmt(), self.verdict())
    }

    fn verdict(&self) -> String {
        let sizes = |count: usize| format!("{count} size{}", if count == 1 { "" } else { "s" });
        let bad = self.rows.iter().filter(|row| row.wrong > 0).count();
        match self.wrong() {
            0 => format!("Every element right on every rank, in {}.", sizes(self.rows.len())),
            wrong => format!("WRONG: {wrong} elements, in {bad} of {}.", sizes(self.rows.len())),
        }
    }

    fn table(&self) -> Table {
        let units = ["median\nµs", "p99\nµs", "algbw\nGB/s", "busbw\nGB/s"];
        let mut table = table::new(&[&["bytes", "count", "type", "op", "algorithm"], &units[..], &["#wrong"]].concat());
        for row in &self.rows {
            let wrong = Cell::new(row.wrong);
            table.add_row([
                Cell::new(row.bytes),
                Cell::new(row.count),
                Cell::new(row.dtype),
                Cell::new(row.op),
                Cell::new(row.algorithm),
                Cell::new(format!("{:.2}", row.median_us)),
                Cell::new(format!("{:.2}", row.p99_us)),
                Cell::new(format!("{:.2}", row.algbw_gbps)),
                Cell::new(format!("{:.2}", row.busbw_gbps)),
                if row.wrong > 0 { wrong.fg(Color::Red) } else { wrong },
            ]);
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
             median_us,p99_us,algbw_gbps,busbw_gbps,wrong\n",
        );
        let Report { device, backend, ranks, protocol, input, in_place, graph, date, .. } = self;
        let device = device.replace('"', "'");
        for r in &self.rows {
            let chain = r.chain.map_or(String::new(), |chain| chain.to_string());
            text += &format!(
                "\"{device}\",{backend},{ranks},{protocol},{input},{in_place},{graph},{date},{},{},{},{},{},{},{},{chain},{},{},{},{},{},{}\n",
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
mod tests {
    use super::*;

    fn report(wrong: u64) -> Report {
        let row = Row {
            bytes: 268_435_456,
            count: 134_217_728,
            dtype: "bf16",
            op: "sum",
            algorithm: "two-shot",
            blocks: 128,
            threads: 512,
            chain: Some(5),
            samples: 20,
            median_us: 12_789.123,
            p99_us: 13_001.5,
            algbw_gbps: 340.232,
            busbw_gbps: 595.406,
            wrong,
        };
        Report {
            device: "8 x NVIDIA \"H200\"".into(),
            ranks: 8,
            devices: (0..8).collect(),
            backend: "cuda",
            dtype: "bf16".into(),
            protocol: "allfold",
            in_words: "protocol allfold".into(),
            input: "registered",
            in_place: false,
            graph: true,
            chain: None,
            seed: 7,
            version: "0.1.0",
            date: "2026-11-29T00:00:00Z".into(),
            rows: vec![row.clone(), Row { bytes: 0, count: 0, chain: None, wrong: 0, ..row }],
        }
    }

    #[test]
    fn json_has_what_was_run_and_the_rows() {
        let text = report(0).json().expect("serialises");
        let json: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
        for key in [
            "device", "ranks", "backend", "dtype", "protocol", "input", "graph", "chain", "seed", "version", "date",
            "rows",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
        let row = &json["rows"][0];
        for (key, value) in
            [("bytes", 268_435_456_u64), ("count", 134_217_728), ("wrong", 0), ("chain", 5), ("samples", 20)]
        {
            assert_eq!(row[key].as_u64(), Some(value), "{key}");
        }
        assert_eq!(row["type"], "bf16");
        assert_eq!(row["median_us"].as_f64(), Some(12_789.123));
        assert!(json["rows"][1]["chain"].is_null());
    }

    #[test]
    fn csv_has_a_field_for_each_column() {
        let text = report(3).csv();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let columns = |line: &str| line.split(',').count();
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{text}");
        assert!(lines[1].starts_with("\"8 x NVIDIA 'H200'\",cuda,8,"), "{text}");
        assert!(lines[0].ends_with(",wrong") && lines[1].ends_with(",3"), "{text}");
    }

    #[test]
    fn the_table_fits_100_columns_and_the_verdict_says_what_is_wrong() {
        let text = report(0).text();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.contains("Every element right on every rank, in 2 sizes."), "{text}");
        let text = report(3).text();
        assert!(text.contains("WRONG: 3 elements, in 1 of 2 sizes."), "{text}");
        assert_eq!(report(3).wrong(), 3);
    }
}
