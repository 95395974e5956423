//! What fuzzing asks of tuning tables. See `crate::fuzzing`.

use super::{Declared, Table, TableError};
use crate::{Dtype, MAX_RANKS};

/// A table that is read is the same when it is written and read again, and so are its rows for any call; what is wrong with one that
/// is not is on one of its lines.
pub(crate) fn table(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let table = match Table::read(&text) {
        Ok(table) => table,
        Err(error) => {
            let lines = text.lines().count();
            let line = match error {
                TableError::Fields { line, .. }
                | TableError::Number { line, .. }
                | TableError::Ranks { line, .. }
                | TableError::ElemBytes { line, .. }
                | TableError::Declared { line, .. }
                | TableError::Algorithm { line, .. }
                | TableError::NotFor { line, .. }
                | TableError::Grid { line, .. }
                | TableError::Order { line }
                | TableError::NoLast { line } => line,
                TableError::Head { .. }
                | TableError::Missing { .. }
                | TableError::Empty
                | TableError::Device { .. } => return,
            };
            return assert!((2..=lines).contains(&line), "line {line} of {lines}");
        }
    };
    let again = Table::read(&table.to_string()).expect("it was written so");
    assert_eq!((&again, again.fingerprint()), (&table, table.fingerprint()));
    assert_eq!(Table::new(table.origin(), table.entries()).expect("it is one").entries(), table.entries());
    for ranks in 0..=MAX_RANKS as u32 + 1 {
        for (dtype, declared) in Dtype::ALL.into_iter().zip(Declared::ALL.into_iter().cycle()) {
            for bytes in [0, 1 << 20, u64::MAX] {
                let row = table.row(ranks, dtype, declared, bytes, |_| true);
                assert!(row.is_none_or(|row| row.algorithm.takes(ranks) && row.blocks > 0 && row.threads > 0));
            }
        }
    }
}

pub(crate) fn tables() -> Vec<Vec<u8>> {
    let head = "# allfold tuning 1\n# device NVIDIA H200\n# date 2026-11-29T18:38:00Z\n# command allfold tune\n";
    let rows = "2 2 registered 262144 one_shot_push 132 128\n2 2 registered max exchange 132 1024\n\
                2 2 in_place max one_pass 132 512\n\n# a comment\n8 4 staged max two_shot 66 1024\n";
    [format!("{head}{rows}"), format!("{head}2 2 staged 7 two_shot 1 1\n"), head.to_owned()]
        .map(String::into_bytes)
        .to_vec()
}
