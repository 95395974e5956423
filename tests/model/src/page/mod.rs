//! `docs/barriers.md`: hand-written parts from the `.md` files beside this one, with what the model says put in.
//!
//! A hand-written part says `{{name}}` where a verdict, a table or a number of the model or of the hardware belongs, so
//! that the page cannot say what they do not. The names are those of the [`Record`] of the last whole run, and of what
//! is read here from the records of `host/benches/`.

mod cost;
mod depths;
mod hardware;
pub(crate) mod names;
mod record;
mod tables;

use anyhow::{Context, Result, bail};

use cost::Costs;
use hardware::Runs;
pub use record::Record;

/// The hand-written parts, in order.
const PARTS: [&str; 8] = [
    include_str!("answers.md"),
    include_str!("cost.md"),
    include_str!("hardware.md"),
    include_str!("verdicts.md"),
    include_str!("mutants.md"),
    include_str!("limits.md"),
    include_str!("axioms.md"),
    include_str!("run.md"),
];

/// The page that says what `record` has.
///
/// # Errors
/// When a hand-written part names something that the record does not have.
pub fn render(record: &Record) -> Result<String> {
    let mut values = record.clone();
    let (of_matrix, of_presets) = (Runs::matrix()?, Runs::presets()?);
    values.insert("table matrix", tables::matrix(record, &of_matrix)?);
    values.insert("matrix runs", of_matrix.caption());
    values.insert("table presets", tables::presets(record, &of_presets)?);
    values.insert("presets runs", of_presets.caption());
    values.insert("runs setting", of_matrix.setting());
    values.insert("runs delays", of_matrix.delays());
    for (name, value) in hardware::compared(record, &of_matrix)? {
        values.insert(&name, value);
    }
    let costs = Costs::read();
    values.insert("table cost", costs.table().to_string());
    for (name, value) in costs.values()? {
        values.insert(name, value);
    }
    let parts: Result<Vec<_>> = PARTS.iter().map(|part| fill(part.trim_end(), &values)).collect();
    Ok(parts?.join("\n\n") + "\n")
}

/// `part` with each `{{name}}` replaced.
fn fill(part: &str, values: &Record) -> Result<String> {
    let mut pieces = part.split("{{");
    let mut page = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let Some((name, rest)) = piece.split_once("}}") else { bail!("`{{{{{piece}` has no end") };
        page += values.get(name).context("the page asks for it")?;
        page += rest;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_filled_or_refused() {
        let mut values = Record::default();
        values.insert("a b", "yes".into());
        assert_eq!(fill("1 {{a b}} 2 {{a b}}", &values).unwrap(), "1 yes 2 yes");
        assert!(format!("{:#}", fill("{{c}}", &values).unwrap_err()).contains("`c`"));
        assert!(fill("{{a b", &values).is_err());
    }
}
