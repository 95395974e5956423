//! `allfold tune`: a table of tuning rows, measured on the machine at hand, every result verified.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | the command line made into what is measured |
//! | `candidates.rs` | the rows that there could be |
//! | `search.rs` | which of them are measured at which size |
//! | `measure.rs` | one of them measured, by the bench's machinery |
//! | `choose.rs` | times made into rows |
//! | `report.rs` | what is printed |

mod candidates;
mod choose;
mod measure;
mod report;
mod search;
mod settings;

use allfold::tuning::{Entry, Table};
use anyhow::{Context, Result, ensure};

use crate::Verdict;
use crate::args::TuneArgs;
use crate::output::{is_stdout, print, say, write};
use choose::{Piece, pieces};
use measure::{Found, Tuner, Wrong};
use settings::Settings;

/// Measures, prints what came out and writes the table; no table where a result was wrong.
pub fn run(args: &TuneArgs) -> Result<Verdict> {
    let settings = Settings::new(args)?;
    if let Some(note) = &settings.chosen {
        say(&format!("note: {note}\n"));
    }
    let mut tuner = Tuner::new(&settings)?;
    let found = match trusted(tuner.measure())? {
        Ok(found) => found,
        Err(wrong) => {
            drop(tuner);
            print(&format!("WRONG: {wrong}.\nNo table is written.\n"))?;
            return Ok(Verdict::Wrong);
        }
    };
    let rows: Vec<Vec<Piece>> = found.iter().map(|found| pieces(&settings.sizes, &found.times.micros)).collect();
    let mut entries = Vec::new();
    for (found, rows) in found.iter().zip(&rows) {
        let whole = rows.last().is_some_and(|row| row.last + 1 == settings.sizes.len());
        ensure!(whole, "no algorithm can do {} calls of {}", found.declared.name(), found.dtype.name());
        entries.extend(rows.iter().map(|row| entry(settings.target.world(), found, row)));
    }
    let table = Table::new(&settings.origin(), &entries).context("the table that was measured")?;
    let out = Some(settings.out.clone());
    let text = report::text(&settings, &tuner, &found, &rows);
    // Gone before anything is printed: with it goes the progress bar.
    drop(tuner);
    if is_stdout(&out) {
        say(&text);
    } else {
        print(&text)?;
    }
    write(&out, || Ok(table.to_string()))?;
    if !is_stdout(&out) {
        let count = table.entries().len();
        print(&format!(
            "{count} rows in {0}: allfold bench --tuning {0}, or Options::tuning.\n",
            settings.out.display()
        ))?;
    }
    Ok(Verdict::Right)
}

/// Times, or the wrong result for which none of them is trusted.
fn trusted<T>(measured: Result<T>) -> Result<std::result::Result<T, Wrong>> {
    match measured {
        Ok(times) => Ok(Ok(times)),
        Err(error) => error.downcast::<Wrong>().map(Err),
    }
}

/// A row as the table has it.
fn entry(world: usize, found: &Found, row: &Piece) -> Entry {
    let candidate = &found.candidates[row.candidate];
    Entry {
        ranks: world as u32,
        elem_bytes: found.dtype.bytes() as u32,
        declared: found.declared,
        up_to_bytes: row.up_to_bytes,
        algorithm: candidate.algorithm,
        blocks: candidate.blocks,
        threads: candidate.threads,
    }
}

#[cfg(test)]
mod tests {
    use allfold::tuning::Declared;
    use allfold::{Algorithm, Dtype, InputMode, Plan, Preset};

    use super::*;

    #[test]
    fn a_wrong_result_is_no_error_and_gives_no_times() {
        let (algorithm, input) = (Algorithm::OnePass, InputMode::Registered);
        let protocol = Preset::Allfold.protocol(algorithm, input).expect("a form");
        let plan = Plan { algorithm, input, protocol, blocks: 9, threads: 128 };
        let wrong = Wrong { wrong: 3, bytes: 4096, dtype: Dtype::Bf16, declared: Declared::InPlace, plan };
        let said = trusted(Err::<(), _>(wrong.into())).expect("no error").expect_err("wrong").to_string();
        let expected = "3 wrong elements of 4096 bytes a rank of bf16, in_place by one-pass, 9 blocks of 128 threads";
        assert_eq!(said, expected);
        assert!(trusted(Err::<(), _>(allfold::Error::LaunchBlocking.into())).is_err());
        assert!(matches!(trusted(Ok(7)), Ok(Ok(7))));
    }
}
