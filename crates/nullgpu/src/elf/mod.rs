//! What shared objects ask of each other, and shared objects that answer.

pub mod stub;
pub mod wanted;

use std::collections::{BTreeMap, BTreeSet};

/// The functions of one library: for each symbol version (none for names without one) the names.
pub type Functions = BTreeMap<Option<String>, BTreeSet<String>>;
