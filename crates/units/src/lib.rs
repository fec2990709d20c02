//! Bytes, counts and times as people read them, and sizes as people write them. The page has the same in
//! `ui/src/model/units.ts`; `testdata/units.json` holds both to one rule.

mod format;
mod parse;

pub use format::{Count, bounds, count, counted, duration_us, percent, percent_of, size, size_with_requested};
pub use parse::{SizeError, parse_bytes, parse_size};
