//! The formats of other programs, a file each.

pub(crate) mod chrome_trace;
pub(crate) mod csv;
pub(crate) mod folded;
pub(crate) mod speedscope;
