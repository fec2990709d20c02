//! SQLite, for database files and questions that are not trusted.
//!
//! # Design constraints
//!
//! - A question reads and does nothing else: an authorizer refuses every statement and function that writes, attaches a file, changes a
//!   setting or loads code, before it runs.
//! - Every question ends: its steps, its memory and the length of its values have limits.
//! - A file is opened read-only, its schema is not trusted, and nothing in it is run: no trigger, no view, no function.
//! - An error of SQL says where it is.

mod error;
mod guard;
mod loader;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_problem::Problem;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::guard::Guard;
pub use crate::loader::Loader;

/// What a question may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of SQLite's machine. Ten million take about a tenth of a second.
    pub steps: u64,
    /// Bytes that SQLite may allocate, in the whole process.
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 20_000_000_000, memory_bytes: 4 << 30 }
    }
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'v> {
    /// None.
    Null,
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text; of a file that somebody else wrote, it may not be UTF-8.
    Text(&'v [u8]),
    /// Bytes.
    Blob(&'v [u8]),
}

/// The type of a column that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Whole numbers.
    Integer,
    /// Floating-point numbers.
    Real,
    /// Text.
    Text,
}

/// The columns that a question reads, by their tables.
pub type Reads = Vec<(String, String)>;

/// A database that can be asked.
pub struct Database {
    connection: Connection,
    guard: Arc<Guard>,
    /// Steps that the question may still take, in units of [`STEPS_AT_ONCE`].
    left: Arc<AtomicU64>,
    limits: Limits,
    /// How messages call the file, if somebody else wrote it.
    shown: Option<String>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Steps after which SQLite asks whether to go on.
const STEPS_AT_ONCE: i32 = 100_000;

/// The longest value, and the longest row.
const MAX_VALUE_BYTES: i32 = 256 << 20;

impl Database {
    /// A database in memory, without tables: nothing of it reaches a disk.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn in_memory(limits: Limits) -> Result<Self, Problem> {
        let made = Connection::open_in_memory().and_then(|connection| Self::new(connection, limits));
        made.map_err(|error| Problem::new("no database can be made in memory").because(error))
    }

    /// Opens a file that somebody else wrote, to be read; messages call it `shown`.
    ///
    /// # Errors
    /// If it is not a database, or cannot be read.
    pub fn open_untrusted(path: &Path, shown: &str, limits: Limits) -> Result<Self, Problem> {
        let cannot = |error: rusqlite::Error| error::unreadable(&error, shown, limits);
        // Not as a URI: what stands behind a `?` in a file's name would be options.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags)
            .and_then(|connection| Self::new(connection, limits))
            .map_err(cannot)?;
        // The file is read only now.
        database.connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(())).map_err(cannot)?;
        database.guard.shut();
        Ok(Self { shown: Some(shown.to_owned()), ..database })
    }

    fn new(mut connection: Connection, limits: Limits) -> rusqlite::Result<Self> {
        for (setting, value) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        ] {
            connection.set_db_config(setting, value)?;
        }
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 500),
            (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ] {
            connection.set_limit(limit, value)?;
        }
        // Sorting needs no file either, and a damaged page is found when it is read.
        connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0")?;
        let heap = i64::try_from(limits.memory_bytes).unwrap_or(i64::MAX);
        connection.query_row(&format!("PRAGMA hard_heap_limit = {heap}"), (), |_| Ok(()))?;
        let guard = Arc::new(Guard::default());
        let judge = Arc::clone(&guard);
        connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| judge.judge(&context)))?;
        // Filling tables costs no question anything.
        let left = Arc::new(AtomicU64::new(u64::MAX));
        let counted = Arc::clone(&left);
        let is_over =
            move || counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err();
        connection.progress_handler(STEPS_AT_ONCE, Some(is_over))?;
        Ok(Self { connection, guard, left, limits, shown: None })
    }

    /// Makes a table.
    ///
    /// # Errors
    /// If there is one of the name, or questions were asked already.
    pub fn create(&self, table: &str, columns: &[(&str, Affinity)]) -> Result<(), Problem> {
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, affinity)| {
                let affinity = match affinity {
                    Affinity::Integer => "INTEGER",
                    Affinity::Real => "REAL",
                    Affinity::Text => "TEXT",
                };
                format!("{} {affinity}", quoted(name))
            })
            .collect();
        let sql = format!("CREATE TABLE {} ({})", quoted(table), columns.join(", "));
        self.connection.execute_batch(&sql).map_err(|error| error::problem(&error, &sql, self.limits))
    }

    /// The columns that a question reads, before anything is in its tables.
    ///
    /// # Errors
    /// If it is not one question, with the place of what is wrong in it.
    pub fn reads(&self, sql: &str) -> Result<Reads, Problem> {
        self.guard.watch();
        let prepared = self.connection.prepare(sql).map(drop);
        let reads = self.guard.open();
        prepared.map_err(|error| error::problem(&error, sql, self.limits))?;
        Ok(reads)
    }

    /// Begins to fill columns of a table; the others have no values.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn load(&self, table: &str, columns: &[&str]) -> Result<Loader<'_>, Problem> {
        Loader::new(&self.connection, table, columns)
    }

    /// Asks: `begin` gets the names of the columns, `row` the values of each row. From now on nothing can be made or filled.
    ///
    /// # Errors
    /// If the question is wrong or costs too much, or what the functions return.
    pub fn ask<E: From<Problem>>(
        &self,
        sql: &str,
        begin: impl FnOnce(&[&str]) -> Result<(), E>,
        mut row: impl FnMut(&[Value<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let problem = |error: rusqlite::Error| {
            E::from(match &self.shown {
                Some(shown) => error::unreadable(&error, shown, self.limits),
                None => error::problem(&error, sql, self.limits),
            })
        };
        self.guard.shut();
        let steps = self.limits.steps.div_ceil(STEPS_AT_ONCE.unsigned_abs().into());
        self.left.store(steps, Ordering::Relaxed);
        let mut statement = self.connection.prepare(sql).map_err(problem)?;
        begin(&statement.column_names().collect::<Vec<_>>())?;
        let columns = statement.column_count();
        let mut rows = statement.query(()).map_err(problem)?;
        while let Some(found) = rows.next().map_err(problem)? {
            let mut values = Vec::with_capacity(columns);
            for column in 0..columns {
                values.push(match found.get_ref(column).map_err(problem)? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(number) => Value::Integer(number),
                    ValueRef::Real(number) => Value::Real(number),
                    ValueRef::Text(text) => Value::Text(text),
                    ValueRef::Blob(bytes) => Value::Blob(bytes),
                });
            }
            row(&values)?;
        }
        Ok(())
    }
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
