//! The JSON Schemas of highwater's documents, the page that lists their keys, and the page's colours of categories: all from
//! `highwater-documents`. The page of tables and their types for Python are from `highwater-tables`.
//!
//! `make schemas` writes them; a test says where they differ from what is in the repository.

mod colours;
mod page;
mod schema;
mod tables;

pub use page::page;
pub use schema::{file_name, schema};

/// Every file that is made, by its path in the repository, with its text.
pub fn files() -> Vec<(String, String)> {
    let schemas = highwater_documents::ALL.iter().map(|kind| {
        let mut text = format!("{:#}", schema(kind));
        text.push('\n');
        (format!("schemas/{}", file_name(kind.format)), text)
    });
    let others = [
        ("docs/formats.md", page()),
        ("docs/tables.md", tables::page()),
        ("python/highwater/rows.py", tables::python()),
        ("ui/src/data/generated/colours.ts", colours::table()),
    ];
    schemas.chain(others.map(|(path, text)| (path.to_owned(), text))).collect()
}
