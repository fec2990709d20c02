//! Rows into tables.

use highwater_problem::Problem;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Statement, ToSql};

use crate::{Value, quoted};

/// Fills columns of a table. Dropped before [`finish`](Self::finish), it leaves none of its rows.
#[derive(Debug)]
pub struct Loader<'d> {
    connection: &'d Connection,
    insert: Statement<'d>,
    is_finished: bool,
}

impl<'d> Loader<'d> {
    pub(crate) fn new(connection: &'d Connection, table: &str, columns: &[&str]) -> Result<Self, Problem> {
        let names: Vec<_> = columns.iter().map(|column| quoted(column)).collect();
        let places = vec!["?"; columns.len()].join(", ");
        let sql = format!("INSERT INTO {} ({}) VALUES ({places})", quoted(table), names.join(", "));
        let insert = connection.prepare(&sql).map_err(|error| not_loaded(&error))?;
        connection.execute_batch("BEGIN").map_err(|error| not_loaded(&error))?;
        Ok(Self { connection, insert, is_finished: false })
    }

    /// Adds a row: a value for each column.
    ///
    /// # Errors
    /// If the memory limit is reached, or a value is too long.
    pub fn row<'v>(&mut self, values: impl IntoIterator<Item = Value<'v>>) -> Result<(), Problem> {
        let values = values.into_iter().map(Bound);
        self.insert.execute(rusqlite::params_from_iter(values)).map(drop).map_err(|error| not_loaded(&error))
    }

    /// Keeps the rows.
    ///
    /// # Errors
    /// If the memory limit is reached.
    pub fn finish(mut self) -> Result<(), Problem> {
        self.is_finished = true;
        self.connection.execute_batch("COMMIT").map_err(|error| not_loaded(&error))
    }
}

impl Drop for Loader<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // An error that SQLite has ended the transaction for leaves nothing to end.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

struct Bound<'v>(Value<'v>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        use rusqlite::types::ValueRef;
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(number),
            Value::Real(number) => ValueRef::Real(number),
            Value::Text(text) => ValueRef::Text(text),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn not_loaded(error: &rusqlite::Error) -> Problem {
    Problem::new("the rows do not fit into the database").because(crate::error::message(error))
}
