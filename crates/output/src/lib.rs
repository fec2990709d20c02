//! How text and data leave the program: tables for people, CSV and Markdown, files that appear whole or not at all.
//!
//! # Design constraints
//!
//! - No control character of a file, a log or another user gets to a terminal; no formula to a spreadsheet; no markup to Markdown.
//! - Knows nothing of GPU memory.

pub mod csv;
pub mod document;
pub mod markdown;
pub mod printable;
pub mod sink;
pub mod style;
pub mod table;
pub mod whole_file;
