//! Recordings as the tables of a database of runs.
//!
//! Each table is declared once, with its columns, in a file of [`rows`]: Parquet files, SQLite's tables, `docs/tables.md` and the types of
//! the Python package are made from these declarations.
//!
//! # Design constraints
//!
//! - Rows are sent one by one: no table is ever in memory here.
//! - No number of its own: what a report says comes from the report's document, the rest from the analysis.
//! - A snapshot is known by its `file`, a device of it by `file` and `device`: rows of two tables that share these are of the same device.

#![expect(
    clippy::struct_field_names,
    reason = "a column may begin with the name of its row: the stack of a frame of a stack"
)]

mod declaration;
pub mod rows;
mod run;

pub use declaration::{Column, Kind, Rows, Table, Value};
pub use run::{RunId, rank_in_name};

use std::io;

use highwater_analysis::Analysis;
use highwater_documents::{ReportView, report};

/// The version of the tables: raised when a column goes or changes its meaning, not when one is added.
pub const VERSION: u32 = 1;

/// Every table, in the order of the documentation.
pub const TABLES: &[Table] = &[
    rows::snapshots::Snapshot::TABLE,
    rows::devices::Device::TABLE,
    rows::lifetimes::Lifetime::TABLE,
    rows::call_sites::CallSite::TABLE,
    rows::stacks::Stack::TABLE,
    rows::stacks::Frame::TABLE,
    rows::iterations::Iteration::TABLE,
    rows::iterations::Phase::TABLE,
    rows::growth::Growth::TABLE,
    rows::card_owners::CardOwner::TABLE,
    rows::findings::Finding::TABLE,
    rows::out_of_memory::OutOfMemory::TABLE,
    rows::entries::Entry::TABLE,
];

/// The columns that every table begins with. In Parquet they are the names of directories.
pub static PARTITION: [Column; 2] = [
    Column { name: "run", kind: Kind::Text, is_optional: false, about: "The run that the file belongs to." },
    Column {
        name: "rank",
        kind: Kind::Integer,
        is_optional: false,
        about: "The rank of its process; -1 where nothing shows it.",
    },
];

/// A recording whose rows are wanted.
#[derive(Debug)]
pub struct Recording<'a> {
    /// Which run and rank it is of.
    pub id: &'a RunId,
    /// What was recorded.
    pub analysis: &'a Analysis<'a>,
    report: ReportView<'a>,
}

impl<'a> Recording<'a> {
    /// Makes the report, which several tables take their numbers from.
    pub fn new(id: &'a RunId, analysis: &'a Analysis<'a>) -> Self {
        Self { id, analysis, report: report(analysis) }
    }

    /// Sends the rows of a table.
    ///
    /// # Errors
    /// Those of `rows`.
    pub fn send(&self, table: &Table, rows: &mut Rows<'_>) -> io::Result<()> {
        (table.fill)(self, rows)
    }
}

/// The table of a name.
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}
