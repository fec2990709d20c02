//! Questions in SQL about the tables of recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;

use highwater_documents::ranks::UnreadView;
use highwater_documents::sql::{SqlValue, SqlView};
use highwater_problem::Problem;
use highwater_sqlite::{Affinity, Database, Limits, Value};
use highwater_tables::{Column, Kind, PARTITION, Recording, TABLES, Table};

/// Bytes of an answer: more is for Parquet and an engine that does not hold all of it.
const ANSWER_BYTES: usize = 512 << 20;

/// A query that was looked at: which columns of which tables it reads.
#[derive(Debug)]
pub struct Query<'q> {
    sql: &'q str,
    database: Database,
    tables: Vec<(&'static Table, Vec<usize>)>,
}

impl<'q> Query<'q> {
    /// Looks at a query, before anything is read.
    ///
    /// # Errors
    /// If it is not a query of the tables.
    pub fn new(sql: &'q str) -> Result<Self, Problem> {
        let database = Database::in_memory(Limits::default())?;
        for table in TABLES {
            let columns: Vec<_> = columns(table).map(|column| (column.name, affinity(column.kind))).collect();
            database.create(table.name, &columns)?;
        }
        let reads = database.reads(sql).map_err(hinted)?;
        let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (table, column) in &reads {
            wanted.entry(table).or_default().insert(column);
        }
        let lower = sql.to_ascii_lowercase();
        let tells_all = tells_every_column(&lower);
        let tables = TABLES.iter().filter_map(|table| {
            if !tells_all {
                return lower.contains(table.name).then(|| (table, (0..columns(table).count()).collect()));
            }
            let names = wanted.get(table.name)?;
            let read = columns(table).enumerate().filter(|(_, column)| names.contains(column.name));
            let mut read: Vec<usize> = read.map(|(number, _)| number).collect();
            if read.is_empty() {
                // `count(*)` reads rows and no column: any will do.
                read.push(0);
            }
            Some((table, read))
        });
        let tables = tables.collect();
        Ok(Self { sql, database, tables })
    }

    /// Adds the rows of a recording.
    ///
    /// # Errors
    /// If they need more memory than a query may have.
    pub fn add(&self, recording: &Recording<'_>) -> Result<(), Problem> {
        let run = Value::Text(recording.id.run.as_bytes());
        let rank = Value::Integer(recording.id.rank_number());
        for (table, read) in &self.tables {
            let names: Vec<_> =
                read.iter().filter_map(|&number| columns(table).nth(number)).map(|one| one.name).collect();
            let mut rows = self.database.load(table.name, &names)?;
            let mut refused = None;
            let sent = recording.send(table, &mut |row| {
                let all = |number: usize| match number.checked_sub(PARTITION.len()) {
                    None => [run, rank][number],
                    Some(own) => row.get(own).map_or(Value::Null, |value| value_of(*value)),
                };
                rows.row(read.iter().map(|&number| all(number))).map_err(|problem| {
                    refused = Some(problem);
                    io::ErrorKind::Other.into()
                })
            });
            if let Err(error) = sent {
                let problem = refused.unwrap_or_else(|| Problem::new("the rows cannot be made").because(error));
                return Err(problem.hint(TOO_LARGE));
            }
            rows.finish()?;
        }
        Ok(())
    }

    /// The answer; `unread` are the files whose rows are missing.
    ///
    /// # Errors
    /// If it costs too much.
    pub fn answer(&self, unread: Vec<UnreadView>) -> Result<SqlView, Problem> {
        let mut names = Vec::new();
        let mut rows = Vec::new();
        let mut bytes = 0;
        let begin = |columns: &[&str]| -> Result<(), Problem> {
            names = columns.iter().map(|name| (*name).to_owned()).collect();
            Ok(())
        };
        self.database.ask(self.sql, begin, |values| {
            let row: Vec<SqlValue> = values.iter().map(|value| shown(*value)).collect();
            bytes += row.iter().map(size_of_value).sum::<usize>();
            if bytes > ANSWER_BYTES {
                let what = format!("the answer is longer than {} MiB", ANSWER_BYTES >> 20);
                return Err(Problem::new(what).hint(TOO_LARGE));
            }
            rows.push(row);
            Ok(())
        })?;
        Ok(SqlView::new(names, rows, unread))
    }
}

const TOO_LARGE: &str = "select less, or write the tables with `highwater export --to parquet … -o OUT` and ask DuckDB";

/// Whether SQLite tells of every column that a query reads, and so of every table: of those that `USING` and `NATURAL` compare, it does
/// not.
fn tells_every_column(lower_sql: &str) -> bool {
    !["using", "natural"].iter().any(|word| lower_sql.contains(word))
}

/// All columns of a table.
fn columns(table: &Table) -> impl Iterator<Item = &Column> {
    PARTITION.iter().chain(table.columns)
}

const fn affinity(kind: Kind) -> Affinity {
    match kind {
        Kind::Integer | Kind::Boolean => Affinity::Integer,
        Kind::Real => Affinity::Real,
        Kind::Text => Affinity::Text,
    }
}

fn value_of(value: highwater_tables::Value<'_>) -> Value<'_> {
    match value {
        highwater_tables::Value::Null => Value::Null,
        highwater_tables::Value::Integer(number) => Value::Integer(number),
        highwater_tables::Value::Boolean(is) => Value::Integer(is.into()),
        highwater_tables::Value::Real(number) => Value::Real(number),
        highwater_tables::Value::Text(text) => Value::Text(text.as_bytes()),
    }
}

fn shown(value: Value<'_>) -> SqlValue {
    match value {
        Value::Null => SqlValue::Null,
        Value::Integer(number) => SqlValue::Integer(number),
        Value::Real(number) => SqlValue::Real(number),
        Value::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        Value::Blob(bytes) => SqlValue::Text(bytes.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })),
    }
}

fn size_of_value(value: &SqlValue) -> usize {
    size_of::<SqlValue>() + if let SqlValue::Text(text) = value { text.len() } else { 0 }
}

/// Says which names there are, where one is not known.
fn hinted(problem: Problem) -> Problem {
    let unknown = |words: &str| problem.what().split_once(words).map(|(_, name)| name.to_owned());
    if let Some(name) = unknown("no such table: ") {
        let names: Vec<_> = TABLES.iter().map(|table| table.name).collect();
        let near = nearest(&name, names.iter().copied());
        let all = names.join(", ");
        return problem.hint(near.map_or_else(
            || format!("the tables are {all}"),
            |near| format!("did you mean `{near}`? The tables are {all}"),
        ));
    }
    if let Some(name) = unknown("no such column: ") {
        let column = name.rsplit('.').next().unwrap_or(&name);
        let homes: Vec<_> = TABLES.iter().filter(|table| columns(table).any(|own| own.name == column)).collect();
        if !homes.is_empty() {
            let homes: Vec<_> = homes.iter().map(|table| format!("`{}`", table.name)).collect();
            return problem.hint(format!("`{column}` is a column of {}", homes.join(", ")));
        }
        let near = nearest(column, TABLES.iter().flat_map(|table| columns(table).map(|own| own.name)));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        return problem.hint(hint.unwrap_or_else(|| "docs/tables.md lists the columns".to_owned()));
    }
    problem
}

/// The known word that is most like another, if one is.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this two words have little in common.
    const ALIKE: f64 = 0.8;
    let word = word.to_ascii_lowercase();
    let alike = known.map(|known| (strsim::jaro_winkler(&word, known), known)).filter(|(alike, _)| *alike > ALIKE);
    alike.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}
