//! `highwater-sql`: the answer to a query of the tables.

use serde::Serialize;

use crate::ranks::UnreadView;
use crate::{Document, Format, Version};

/// The rows that a query selects from the tables of recordings.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SqlView {
    format: Format<Self>,
    version: Version<Self>,
    /// The names of the columns, as the query has them; two may be equal.
    pub columns: Vec<String>,
    /// The rows: a value for each column.
    pub rows: Vec<Vec<SqlValue>>,
    /// Files that could not be read, and so have no rows.
    pub unread: Vec<UnreadView>,
}

impl Document for SqlView {
    const FORMAT: &'static str = "highwater-sql";
    const VERSION: u32 = 1;
}

impl SqlView {
    /// An answer.
    pub fn new(columns: Vec<String>, rows: Vec<Vec<SqlValue>>, unread: Vec<UnreadView>) -> Self {
        Self { format: Format::default(), version: Version::default(), columns, rows, unread }
    }
}

/// A value that SQL gives. Booleans are the numbers 1 and 0; bytes are text in hexadecimal.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SqlValue {
    /// None.
    Null,
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(String),
}
