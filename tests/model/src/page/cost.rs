//! What each form costs on GPUs: the committed record of `cost.sh`, and the differences that the words need.

use anyhow::{Context, Result};

/// The record.
const RECORD: &str = include_str!("../../../../host/benches/record/h200x2/2026-11-29/cost.md");

/// The table as it was written, and its fields by the names of its columns.
pub struct Costs {
    table: &'static str,
    heads: Vec<&'static str>,
    rows: Vec<Vec<&'static str>>,
}

fn fields(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

impl Costs {
    /// The committed record.
    pub fn read() -> Costs {
        let mut lines = RECORD.lines().filter(|line| line.starts_with('|'));
        let heads = lines.next().map(fields).unwrap_or_default();
        Costs { table: RECORD.trim_end(), heads, rows: lines.skip(1).map(fields).collect() }
    }

    /// The table.
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// µs a call of 1 KB.
    fn microseconds(&self, algorithm: &str, input: &str, [start, order, end]: [&str; 3]) -> Result<f64> {
        let column = |name: &str| self.heads.iter().position(|head| head.starts_with(name));
        let is = |row: &[&str], name: &str, value: &str| {
            column(name).and_then(|column| row.get(column)).is_some_and(|field| *field == value)
        };
        let row = self.rows.iter().find(|row| {
            is(row, "algorithm", algorithm)
                && is(row, "input", input)
                && is(row, "start", start)
                && is(row, "order", order)
                && is(row, "end", end)
        });
        let field = row.and_then(|row| row.get(column("1 KB")?));
        let field = field.with_context(|| format!("no cost of {algorithm}, {input}, {start}, {order}, {end}"))?;
        field.parse().with_context(|| format!("{field} is no number"))
    }

    /// The values that the page's words need, by name.
    ///
    /// # Errors
    /// When the record lacks a row.
    pub fn values(&self) -> Result<Vec<(&'static str, String)>> {
        let (volatile, release) = ("volatile", "release-acquire");
        let one_shot = |start, order, end| self.microseconds("one-shot", "registered", [start, order, end]);
        let base = one_shot("multi-gpu", volatile, "none")?;
        let volatile_end = one_shot("multi-gpu", volatile, "barrier-volatile")?;
        let release_end = one_shot("multi-gpu", volatile, "barrier-release-acquire")?;
        let release_start = one_shot("multi-gpu", release, "none")?;
        let strong = one_shot("multi-gpu", release, "barrier-release-acquire")?;
        let block = one_shot("block", release, "barrier-release-acquire")?;
        let two_shot = |start, order| self.microseconds("two-shot", "registered", [start, order, "none"]);
        let staged = |input, start| self.microseconds("one-shot", input, [start, release, "parity"]);
        let difference = |more: f64, less: f64| format!("{:.2}", more - less);
        Ok(vec![
            ("cost volatile end", difference(volatile_end, base)),
            ("cost release end", difference(release_end, volatile_end)),
            ("cost release start", difference(release_start, base)),
            (
                "cost release start two-shot",
                difference(two_shot("multi-gpu", release)?, two_shot("multi-gpu", volatile)?),
            ),
            ("cost block start", difference(block, strong)),
            ("cost block start two-shot", difference(two_shot("block", release)?, two_shot("multi-gpu", release)?)),
            ("cost end barrier", difference(strong, release_start)),
            ("cost weak", difference(strong, volatile_end)),
            ("cost strong", format!("{strong:.2}")),
            ("cost memcpy parity", format!("{:.2}", staged("memcpy", "multi-gpu")?)),
            ("cost copied parity", format!("{:.2}", staged("copied", "block")?)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_has_what_the_words_need() {
        let costs = Costs::read();
        assert_eq!(costs.values().unwrap().len(), 11);
        assert!(costs.rows.iter().all(|row| row.len() == costs.heads.len()));
        assert!(costs.microseconds("one-shot", "registered", ["nowhere", "volatile", "none"]).is_err());
    }
}
