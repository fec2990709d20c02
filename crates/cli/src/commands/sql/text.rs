//! The rows of an answer, and the list of tables, for people and spreadsheets.

use std::io::{self, Write};

use highwater_documents::sql::{SqlValue, SqlView};
use highwater_output::csv::Row;
use highwater_tables::{PARTITION, TABLES};

use crate::document::{Document, Section};
use crate::table::{Align, Cell, Table};
use crate::units::count;

/// The rows, at most so many, as a table.
pub(super) fn document(view: &SqlView, top: usize) -> Document {
    let is_number = |column: usize| {
        let mut values = view.rows.iter().map(|row| &row[column]).filter(|value| **value != SqlValue::Null).peekable();
        values.peek().is_some() && values.all(|value| !matches!(value, SqlValue::Text(_)))
    };
    let align = |column: usize| if is_number(column) { Align::Right } else { Align::Left };
    let mut table = Table::new(view.columns.iter().enumerate().map(|(column, name)| (name.as_str(), align(column))));
    let shown = if top == 0 { view.rows.len() } else { top.min(view.rows.len()) };
    for row in &view.rows[..shown] {
        table.row(row.iter().map(|value| Cell::from(word(value))));
    }
    let mut section = Section::without_heading();
    section.table(table);
    if shown < view.rows.len() {
        section.line(format!("… {} more rows; `--top 0` shows all", count(view.rows.len() - shown)));
    }
    Document { sections: vec![section], ..Document::default() }
}

/// A value as it can be typed into another query: numbers keep every digit.
fn word(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(number) => number.to_string(),
        SqlValue::Text(text) => text.clone(),
    }
}

/// The rows as CSV.
///
/// # Errors
/// Those of `out`.
pub(super) fn write_csv(out: &mut impl Write, view: &SqlView) -> io::Result<()> {
    let mut header = Row::new(out);
    view.columns.iter().try_for_each(|name| header.text(name))?;
    header.end()?;
    for row in &view.rows {
        let mut cells = Row::new(out);
        for value in row {
            match value {
                SqlValue::Null => cells.text("")?,
                SqlValue::Integer(number) => cells.number(Some(*number))?,
                SqlValue::Real(number) => cells.number(Some(*number))?,
                SqlValue::Text(text) => cells.text(text)?,
            }
        }
        cells.end()?;
    }
    Ok(())
}

/// Every table with its columns.
pub(super) fn tables() -> Document {
    let section = |table: &highwater_tables::Table| {
        let mut section = Section::new(table.name);
        section.line(table.about);
        let mut columns =
            Table::new([("column", Align::Left), ("type", Align::Left), ("meaning", Align::Left)]).wrapped();
        for column in PARTITION.iter().chain(table.columns) {
            columns.row([column.name, column.kind.word(), column.about]);
        }
        section.table(columns);
        section
    };
    Document { sections: TABLES.iter().map(section).collect(), ..Document::default() }
}
