//! The memory that a program runs in.

/// Memory to run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// More than is needed.
    Ample,
    /// A limit on what the allocator may hold, as `set_per_process_memory_fraction` sets it.
    Limit(u64),
    /// A physical card.
    Card {
        /// Its memory.
        total_bytes: u64,
        /// What the allocator does not get of it.
        outside_bytes: u64,
    },
}

impl Memory {
    /// What the allocator can have; `None` is without end.
    pub fn capacity_bytes(self) -> Option<u64> {
        match self {
            Self::Ample => None,
            Self::Limit(bytes) => Some(bytes),
            Self::Card { total_bytes, outside_bytes } => Some(total_bytes.saturating_sub(outside_bytes)),
        }
    }
}
