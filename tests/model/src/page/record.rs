//! What the model said, by name, as text: what a whole run leaves behind, so that the words around it can change
//! without another one.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use anyhow::{Result, bail};

use super::{depths, names, tables};
use crate::report::Report;
use tables::Counterexamples;

/// Begins the name of a value in a record's text.
const MARK: &str = "%% ";

/// What the model said, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(BTreeMap<String, String>);

impl Record {
    /// Of a whole run.
    ///
    /// # Errors
    /// When something was not asked for, or a planted fault survived that has no explanation.
    pub fn new(report: &Report) -> Result<Record> {
        let mut counterexamples = Counterexamples::default();
        let mut record = Record::of_verdicts(report, &mut counterexamples)?;
        record.insert("coverage", depths::coverage(report)?);
        record.0.extend(depths::in_sum(report));
        record.0.extend(tables::extras(report, &mut counterexamples));
        record.0.extend(tables::planted(report)?);
        record.insert("counterexamples", counterexamples.render());
        Ok(record)
    }

    /// Of the verdicts alone.
    ///
    /// # Errors
    /// When one of them was not asked for.
    pub fn quick(report: &Report) -> Result<Record> {
        Record::of_verdicts(report, &mut Counterexamples::default())
    }

    fn of_verdicts(report: &Report, counterexamples: &mut Counterexamples) -> Result<Record> {
        let mut record = Record::default();
        for (name, cell) in names::cells() {
            record.insert(&name, tables::verdict(report.verdict(&cell)?, counterexamples));
        }
        Ok(record)
    }

    /// Adds a value.
    pub fn insert(&mut self, name: &str, value: String) {
        self.0.insert(name.to_string(), value);
    }

    /// The value of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&self, name: &str) -> Result<&str> {
        let Some(value) = self.0.get(name) else { bail!("the model says nothing of `{name}`") };
        Ok(value)
    }

    /// The first thing that this says otherwise than `other`, if any; what only `other` has does not count.
    pub fn differs(&self, other: &Record) -> Option<String> {
        let differs = |(name, value): &(&String, &String)| other.0.get(*name) != Some(*value);
        let (name, value) = self.0.iter().find(differs)?;
        let other = other.0.get(name).map_or("nothing", String::as_str);
        let lines = value.lines().zip(other.lines()).find(|(line, other)| line != other);
        let (line, other) = lines.unwrap_or((value, other));
        Some(format!("{name}: it is\n{line}\nand not\n{other}"))
    }

    /// The record whose [text](Display) this is.
    pub fn read(text: &str) -> Record {
        let mark = format!("\n{MARK}");
        let text = format!("\n{text}");
        let values = text.split(&mark).skip(1);
        let value = |value: &str| {
            let (name, value) = value.split_once('\n').unwrap_or((value, ""));
            (name.to_string(), value.trim_end().to_string())
        };
        Record(values.map(value).collect())
    }
}

impl Display for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "What the model said. Written by `cargo xtask model`; tests/model/src/page makes docs/barriers.md of it."
        )?;
        self.0.iter().try_for_each(|(name, value)| write!(f, "\n{MARK}{name}\n{}\n", value.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = Record::default();
        record.insert("a: b", "one".into());
        record.insert("c", "two\n\n| three |".into());
        assert_eq!(Record::read(&record.to_string()), record);
        assert_eq!(record.differs(&record), None);
        let mut other = record.clone();
        other.insert("c", "two\n\n| four |".into());
        other.insert("d", String::new());
        assert_eq!(record.differs(&other).unwrap(), "c: it is\n| three |\nand not\n| four |");
        assert!(other.differs(&record).is_some());
    }
}
