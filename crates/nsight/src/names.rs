//! Texts that rows refer to by number.

use highwater_problem::Problem;
use highwater_sqlite::{Database, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::rows::columns_of;

/// Some of a file's texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(FxHashMap<i64, String>);

impl Names {
    /// Reads those that are wanted, cut to a length.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(
        database: &Database,
        table: &'static str,
        wanted: &FxHashSet<i64>,
        max_bytes: usize,
    ) -> Result<Self, Problem> {
        let columns = columns_of(database, table)?;
        let mut names = Self::default();
        if wanted.is_empty() || !columns.contains(&"id") || !columns.contains(&"value") {
            return Ok(names);
        }
        // SQLite cuts it, so that a huge text is never whole in memory here.
        let sql = format!("SELECT id, substr(value, 1, {max_bytes}) FROM \"{table}\"");
        database.ask::<Problem>(
            &sql,
            |_| Ok(()),
            |row| {
                if let [Value::Integer(id), Value::Text(text)] = row
                    && wanted.contains(id)
                {
                    names.0.insert(*id, String::from_utf8_lossy(text).into_owned());
                }
                Ok(())
            },
        )?;
        Ok(names)
    }

    /// The text of a number; empty where there is none.
    pub(crate) fn text(&self, number: i64) -> String {
        self.0.get(&number).cloned().unwrap_or_default()
    }
}
