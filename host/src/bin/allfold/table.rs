//! How a table looks: rules above, below and under the titles on a terminal, bare columns elsewhere.

use std::io::IsTerminal;

use comfy_table::{CellAlignment, Table, TableComponent, presets};

/// A table with these titles; everything stands to the right.
pub fn new(titles: &[&str]) -> Table {
    let mut table = Table::new();
    if std::io::stdout().is_terminal() {
        table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
        // None between rows.
        table.remove_style(TableComponent::HorizontalLines).remove_style(TableComponent::MiddleIntersections);
        table.remove_style(TableComponent::LeftBorderIntersections);
        table.remove_style(TableComponent::RightBorderIntersections);
    } else {
        table.load_preset(presets::NOTHING);
    }
    table.set_header(titles);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
