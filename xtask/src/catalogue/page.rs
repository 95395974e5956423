//! The page: a table of the rows, each with its tests or the reason.

use std::fmt::Write as _;

use super::rows::{Row, is_pending};
use super::scan::Test;

const TOP: &str = "\
# Failures that others met, and what tests them here

Each row is a failure that users of another library met in public: a kind of failure, of which the tests try many inputs.
A test says by its name which rows it is for (`b17_b23_…`). Made by `cargo xtask catalogue` of [catalogue.txt](catalogue.txt)
and the names of all tests; `cargo xtask test` compares it.

A property of the suite runs on CPU threads, on processes and on GPUs alike, as far as it can there: the program `suite`
runs those whose name contains what `--filter` says.

";

/// The page, and a line of how many rows have what.
pub fn render(rows: &[Row], tests: &[Test]) -> (String, String) {
    let of = |row: &Row| tests.iter().filter(|test| test.ids.contains(&row.id)).collect::<Vec<_>>();
    let tested = rows.iter().filter(|row| !of(row).is_empty()).count();
    let pending = rows.iter().filter(|row| row.reason.as_deref().is_some_and(is_pending)).count();
    let reasons = rows.iter().filter(|row| row.reason.is_some()).count() - pending;
    let counts = format!(
        "{} rows: {tested} with {} tests, {reasons} that cannot arise, {pending} with something to come",
        rows.len(),
        tests.len()
    );
    let mut page =
        format!("{TOP}{counts}.\n\n| id | kind | failure | tests, or why it cannot arise here |\n|---|---|---|---|\n");
    for row in rows {
        let mut cells: Vec<_> = of(row).into_iter().map(link).collect();
        cells.extend(row.reason.clone());
        let _ = writeln!(page, "| {} | {} | {} | {} |", row.id, row.kind, row.failure, cells.join("<br>"));
    }
    (page, counts)
}

/// A test by name, with its file and what it runs on.
fn link(test: &Test) -> String {
    // The page lies in `tests/`.
    let from_here = test.path.strip_prefix("tests/").map_or(format!("../{}", test.path), str::to_string);
    format!("[`{}`]({from_here}): {}", test.name, test.runs)
}
