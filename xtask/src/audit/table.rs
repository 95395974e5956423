//! host/ptx/AUDIT.md: one row a kernel. What depends on the version of `ptxas` is in the last columns.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::parse::{Kernel, Module};
use super::ptxas::{ARCHITECTURES, Usage};
use super::rules;

/// Columns at the end of a row that `ptxas` fills: barriers, and registers for each architecture.
const FROM_PTXAS: usize = 1 + ARCHITECTURES.len();

const INTRODUCTION: &str = "# Instructions of every kernel

Made by `cargo xtask audit-ptx` from the packs in this folder; `--check` compares it. Accesses have the names of
kernels-gpu/src/ptx/machine.rs, and were found to be the instructions that these names stand for: flags at system scope
with the order in their name, data in main loops 16 bytes at a time. No kernel has a stack frame, a spill, local memory or a
call, but for one whose registers are limited, which may keep 24 bytes a thread on its stack. The last columns are what ptxas gives a kernel on an architecture: hardware barriers, and registers a thread.
";

/// What `ptxas` said of a file's kernels, by architecture.
pub type Usages = BTreeMap<u32, BTreeMap<String, Usage>>;

/// The table of `files`: path, text and usages.
pub fn render(files: &[(String, String, Usages)], ptxas: Option<&str>) -> String {
    let mut table = format!("{INTRODUCTION}\n{PTXAS}{}\n\n", ptxas.unwrap_or("none"));
    let mut head = vec!["kernel".to_string(), "file".to_string()];
    head.extend(rules::names().map(|name| format!("`{name}`")));
    head.extend(["`bar`", "branches", "instructions", "barriers"].map(str::to_string));
    head.extend(ARCHITECTURES.map(|sm| format!("sm_{sm}")));
    let rule =
        vec!["---".to_string(); 2].into_iter().chain(vec!["--:".to_string(); head.len() - 2]).collect::<Vec<_>>();
    for line in [head, rule] {
        row(&mut table, &line);
    }
    for (file, text, usages) in files {
        for kernel in &Module::parse(text).kernels {
            row(&mut table, &cells(file, kernel, usages));
        }
    }
    table
}

const PTXAS: &str = "ptxas: ";

/// The version of `ptxas` in `table`.
pub fn ptxas_in(table: &str) -> Option<&str> {
    table.lines().find_map(|line| line.strip_prefix(PTXAS))
}

/// `table` without all that depends on the version of `ptxas`.
pub fn without_ptxas(table: &str) -> String {
    let mut lines = String::new();
    for line in table.lines() {
        let line = if line.starts_with(PTXAS) { "" } else { line };
        let cells: Vec<_> = line.split(" | ").collect();
        let kept = if cells.len() > FROM_PTXAS { cells.len() - FROM_PTXAS } else { cells.len() };
        lines += &format!("{}\n", cells[..kept].join(" | "));
    }
    lines
}

fn cells(file: &str, kernel: &Kernel, usages: &Usages) -> Vec<String> {
    let count = |test: &dyn Fn(&super::parse::Instruction) -> bool| {
        kernel.code.iter().filter(|it| test(it)).count().to_string()
    };
    let mut cells = vec![format!("`{}`", kernel.name), file.to_string()];
    cells.extend(rules::names().map(|name| count(&|it| it.note == name)));
    cells.push(count(&|it| it.verb() == "bar" || it.verb() == "barrier"));
    cells.push(count(&|it| it.verb() == "bra" || it.verb() == "brx"));
    cells.push(count(&|_| true));
    let of = |sm: &u32| usages.get(sm).and_then(|usage| usage.get(&kernel.name));
    let show = |number: Option<u32>| number.map_or_else(|| "-".to_string(), |number| number.to_string());
    cells.push(show(ARCHITECTURES.iter().filter_map(of).map(|usage| usage.barriers).max()));
    cells.extend(ARCHITECTURES.iter().map(|sm| show(of(sm).map(|usage| usage.registers))));
    cells
}

fn row(table: &mut String, cells: &[String]) {
    // Writing to a String cannot fail.
    let _ = writeln!(table, "| {} |", cells.join(" | "));
}
