//! The tables of a database of runs.

use std::path::Path;

use highwater_export::parquet::Target;
use highwater_tables::{Column, PARTITION, RunId, TABLES};
use pyo3::prelude::*;
use serde_json::{Value, json};

/// The declarations of the tables, as JSON.
#[pyfunction]
pub(crate) fn tables_json() -> String {
    let column =
        |column: &Column| json!({"name": column.name, "type": column.kind.word(), "is_optional": column.is_optional});
    let tables: Vec<Value> = TABLES
        .iter()
        .map(|table| {
            let columns: Vec<Value> = PARTITION.iter().chain(table.columns).map(column).collect();
            json!({"name": table.name, "columns": columns})
        })
        .collect();
    highwater_answers::json(&tables)
}

/// The run and the rank that the name of a file speaks of.
#[pyfunction]
pub(crate) fn run_of_path(path: &str) -> (String, Option<u32>) {
    let RunId { run, rank, .. } = RunId::of_path(Path::new(path));
    (run, rank)
}

/// The files of a recording's tables, by their paths in the folder of all; that of `snapshots` first.
#[pyfunction]
pub(crate) fn table_paths(run: String, rank: Option<u32>, part: usize, entries: bool) -> Vec<String> {
    let target = Target { out: Path::new(""), part, force: false, with_entries: entries };
    let id = RunId { file: String::new(), run, rank };
    target.tables().map(|table| target.path(table, &id).display().to_string()).collect()
}
