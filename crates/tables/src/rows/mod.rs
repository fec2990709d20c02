//! The tables, a file each.

mod place;

pub(crate) mod call_sites;
pub(crate) mod card_owners;
pub(crate) mod devices;
pub(crate) mod entries;
pub(crate) mod findings;
pub(crate) mod growth;
pub(crate) mod iterations;
pub(crate) mod lifetimes;
pub(crate) mod out_of_memory;
pub(crate) mod snapshots;
pub(crate) mod stacks;
