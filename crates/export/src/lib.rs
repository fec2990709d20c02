//! The formats of other programs, a file each: a spreadsheet, Chrome's and Perfetto's traces, speedscope, folded stacks, Parquet.

pub mod chrome_trace;
pub mod csv;
pub mod folded;
pub mod parquet;
pub mod speedscope;
