//! What was measured, as a table: each size, what the new rows choose for it, and what the built-in ones do.

use comfy_table::Cell;

use super::choose::Piece;
use super::measure::{Found, Tuner};
use super::settings::Settings;
use crate::args::algorithm_name;
use crate::table;
use crate::target::Described;

/// All sizes, and a line above them.
pub fn text(settings: &Settings, tuner: &Tuner<'_>, found: &[Found], rows: &[Vec<Piece>]) -> String {
    let titles =
        ["declared", "bytes", "type", "algorithm", "blocks", "threads", "median\nµs", "built-in", "µs", "ratio"];
    let mut table = table::new(&titles);
    for (found, rows) in found.iter().zip(rows) {
        let sizes = rows.iter().flat_map(|row| (row.first..=row.last).map(move |size| (size, row.candidate)));
        for (size, candidate) in sizes {
            let bytes = settings.sizes[size];
            let micros = found.times.micros[size][candidate];
            let built_in = found.times.built_in[size];
            let plan = tuner.plan(found.dtype, found.declared, bytes, Some(&found.candidates[candidate]));
            let figure = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
            let number = |value: Option<u32>| value.map_or(String::new(), |value| value.to_string());
            table.add_row([
                Cell::new(found.declared.name()),
                Cell::new(bytes),
                Cell::new(found.dtype.name()),
                Cell::new(plan.map_or("", |plan| algorithm_name(plan.algorithm))),
                Cell::new(number(plan.map(|plan| plan.blocks))),
                Cell::new(number(plan.map(|plan| plan.threads))),
                Cell::new(figure(micros)),
                Cell::new(built_in.map_or("", |(plan, _)| algorithm_name(plan.algorithm))),
                Cell::new(figure(built_in.map(|(_, micros)| micros))),
                Cell::new(figure(micros.zip(built_in).map(|(micros, (_, built_in))| micros / built_in))),
            ]);
        }
    }
    let Described { device, .. } = settings.target.described();
    let (world, version, seed) = (settings.target.world(), env!("CARGO_PKG_VERSION"), settings.seed);
    let mode = if tuner.in_graphs() { "in a CUDA graph" } else { "one call at a time" };
    format!(
        "allfold {version}: {world} ranks on {device}, {mode}; seed {seed}\nEvery result verified; ratio: to what the built-in \
         rows choose\n\n{}\n\n",
        table.trim_fmt()
    )
}
