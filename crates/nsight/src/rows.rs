//! Tables of a file, of which it is not known beforehand which columns they have.

use highwater_problem::Problem;
use highwater_sqlite::{Database, Value};

/// The columns of a table; none where there is no such table, or where it is a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns(Vec<String>);

impl Columns {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, name: &&str) -> bool {
        self.0.iter().any(|column| column.eq_ignore_ascii_case(name))
    }
}

/// The columns of a table.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn columns_of(database: &Database, table: &str) -> Result<Columns, Problem> {
    let mut is_table = false;
    let sql = format!("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '{table}'");
    database.ask::<Problem>(
        &sql,
        |_| Ok(()),
        |_| {
            is_table = true;
            Ok(())
        },
    )?;
    let mut columns = Columns::default();
    if is_table {
        let all = format!("SELECT * FROM \"{table}\" LIMIT 0");
        database.ask::<Problem>(
            &all,
            |names| {
                columns.0 = names.iter().map(|&name| name.to_owned()).collect();
                Ok(())
            },
            |_| Ok(()),
        )?;
    }
    Ok(columns)
}

/// A table that is there.
pub(crate) struct Table<'d> {
    database: &'d Database,
    name: &'static str,
    columns: &'d Columns,
}

impl<'d> Table<'d> {
    pub(crate) fn new(database: &'d Database, name: &'static str, columns: &'d Columns) -> Self {
        Self { database, name, columns }
    }

    /// Reads the numbers of some columns, row by row; `None` where a column is missing or has none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(&self, names: &[&str], mut each: impl FnMut(&[Option<i64>])) -> Result<(), Problem> {
        let asked: Vec<String> = names
            .iter()
            .map(|name| if self.columns.contains(name) { format!("\"{name}\"") } else { "NULL".to_owned() })
            .collect();
        let sql = format!("SELECT {} FROM \"{}\"", asked.join(", "), self.name);
        let mut numbers = Vec::with_capacity(names.len());
        self.database.ask(
            &sql,
            |_| Ok(()),
            |row| {
                numbers.clear();
                numbers.extend(
                    row.iter().map(|value| if let Value::Integer(number) = value { Some(*number) } else { None }),
                );
                each(&numbers);
                Ok(())
            },
        )
    }
}
