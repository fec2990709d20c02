//! Limits of a multiprocessor, by compute capability.

/// Limits of a multiprocessor, signed like CUDA's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessor {
    /// How many threads it can hold at once.
    pub threads: i32,
    /// How many blocks of threads.
    pub blocks: i32,
    /// Bytes of shared memory.
    pub shared_bytes: i32,
    /// How many of these a block can have if it asks for more than the usual 48 KiB.
    pub shared_opt_in_bytes: i32,
    /// How many of these the driver takes from each block.
    pub shared_reserved_bytes: i32,
}

impl Multiprocessor {
    /// That of a compute capability: major, minor. One that is not known is taken to be as 9.0.
    ///
    /// # Source
    /// CUDA C++ Programming Guide, "Technical specifications per compute capability"; those of 9.0 as an H200 says.
    pub const fn of(compute_capability: (u32, u32)) -> Self {
        let (shared_kib, opt_in_kib, threads, blocks) = match compute_capability {
            (7, 0 | 2) => (96, 96, 2048, 32),
            (7, _) => (64, 64, 1024, 16),
            (8, 0) => (164, 163, 2048, 32),
            (8, 7) => (164, 163, 1536, 16),
            (8, 9) | (12, _) => (100, 99, 1536, 24),
            (8, _) => (100, 99, 1536, 16),
            _ => (228, 227, 2048, 32),
        };
        Multiprocessor {
            threads,
            blocks,
            shared_bytes: shared_kib << 10,
            shared_opt_in_bytes: opt_in_kib << 10,
            shared_reserved_bytes: if compute_capability.0 >= 8 { 1 << 10 } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hopper_has_what_an_h200_says_and_older_cards_have_less() {
        assert_eq!(Multiprocessor::of((9, 0)).shared_bytes, 233_472);
        assert_eq!(Multiprocessor::of((7, 5)).shared_opt_in_bytes, 65_536);
        let threads = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];
        let threads = threads.map(|capability| Multiprocessor::of(capability).threads);
        assert_eq!(threads, [1024, 2048, 1536, 1536, 2048, 2048, 1536]);
    }
}
