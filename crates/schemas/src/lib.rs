//! The JSON Schemas of highwater's documents, and the page that lists their keys: both from the structures of `highwater-documents` and
//! the comments on their fields.
//!
//! `make schemas` writes them; a test says where they differ from what is in the repository.

mod page;
mod schema;

pub use page::page;
pub use schema::{file_name, schema};

/// Every file that is made, by its path in the repository, with its text.
pub fn files() -> Vec<(String, String)> {
    let schemas = highwater_documents::ALL.iter().map(|kind| {
        let mut text = format!("{:#}", schema(kind));
        text.push('\n');
        (format!("schemas/{}", file_name(kind.format)), text)
    });
    schemas.chain([("docs/formats.md".to_owned(), page())]).collect()
}
