//! Results made into text.

use std::path::Path;

use allfold::BlockTrace;

use super::clocks::Clocks;
use super::late::Call;
use super::settings::Settings;
use crate::args::algorithm_name;
use crate::target::Described;
use crate::{here, stats, table};

/// What was traced, by one clock.
pub struct Report {
    /// Of the GPUs, or of the CPU.
    pub device: String,
    /// Ordinal of each rank's GPU; empty on the CPU.
    pub devices: Vec<u32>,
    pub ranks: usize,
    pub bytes: usize,
    pub algorithm: Option<&'static str>,
    pub graph: bool,
    pub version: &'static str,
    pub date: String,
    /// Of all ranks and calls.
    pub blocks: Vec<BlockTrace>,
    pub calls: Vec<Call>,
    /// How wrong a time may be beside one of another rank.
    pub within_ns: u64,
}

impl Report {
    pub fn new(settings: &Settings, blocks: Vec<BlockTrace>, clocks: &Clocks) -> Report {
        let Described { device, devices, .. } = settings.target.described();
        Report {
            device,
            devices,
            ranks: settings.target.world(),
            bytes: settings.elems * allfold::Dtype::Bf16.bytes(),
            algorithm: settings.call().algorithm.map(algorithm_name),
            graph: settings.graph,
            version: env!("CARGO_PKG_VERSION"),
            date: here::date(),
            calls: Call::all(&blocks),
            blocks,
            within_ns: clocks.within_ns,
        }
    }

    /// A line for each call, and who was the latest most often.
    pub fn text(&self, output: &Path) -> String {
        let Report { device, ranks, bytes, version, within_ns, .. } = self;
        let algorithm = self.algorithm.unwrap_or("the planned algorithm");
        let how = if self.graph { "in a graph" } else { "one by one" };
        let mut text = format!(
            "allfold {version}: {ranks} ranks on {device}\n{bytes} bytes of bf16 a rank by {algorithm}, {how}\n"
        );
        text += &match within_ns {
            0 => "All ranks have one clock.\n".to_owned(),
            &u64::MAX => "Nothing came from one rank to another: their clocks are not set.\n".to_owned(),
            ns => format!("Clocks of GPUs are set to within {}.\n", micros(*ns)),
        };
        text += &format!("\n{}\n\n", self.table().trim_fmt());
        text += &self.summary();
        match output.to_str() {
            Some("-") => text,
            _ => text + &format!("{} opens in ui.perfetto.dev or chrome://tracing.\n", output.display()),
        }
    }

    fn table(&self) -> comfy_table::Table {
        let titles = ["call", "took, µs", "last", "at", "late by, µs", "waited longest", "µs"];
        let mut table = table::new(&titles);
        for call in &self.calls {
            let took = call.took_ns.map_or("did not end".to_owned(), bare);
            let Some(at) = call.latest() else { continue };
            let waited = at.waited_ns.map_or("nothing came".to_owned(), bare);
            let (last, waiting) = (format!("rank {}", at.last), format!("rank {}", at.waiting));
            table.add_row([
                call.epoch.to_string(),
                took,
                last,
                at.phase.name().to_owned(),
                bare(at.late_ns),
                waiting,
                waited,
            ]);
        }
        table
    }

    /// Who was the latest most often, and by how much.
    fn summary(&self) -> String {
        let latest: Vec<_> = self.calls.iter().filter_map(Call::latest).collect();
        let of = |rank: u32| latest.iter().filter(move |at| at.last == rank);
        let Some(rank) = (0..self.ranks as u32).rev().max_by_key(|&rank| of(rank).count()) else {
            return String::new();
        };
        let late: Vec<_> = of(rank).map(|at| at.late_ns as f64).collect();
        match late.len() {
            0 => "No block came to where ranks tell each other anything.\n".to_owned(),
            times => {
                let median = micros(stats::median(&late) as u64);
                format!("Rank {rank} came last in {times} of {} calls, by {median} in the median.\n", self.calls.len())
            }
        }
    }
}

/// Microseconds to the nanosecond, without their unit.
fn bare(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e3)
}

fn micros(ns: u64) -> String {
    format!("{} µs", bare(ns))
}
