//! Row numbers as types, so that a stack cannot be taken for a frame.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id of row `row`.
            pub const fn new(row: u32) -> Self {
                Self(row)
            }

            /// The id of row `row`, counted as an index.
            ///
            /// # Panics
            /// If `row` does not fit 32 bits; the reader's limits keep every table far below that.
            pub fn from_index(row: usize) -> Self {
                Self(u32::try_from(row).expect("tables stay below 2^32 rows"))
            }

            /// The row as an index into its table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The row as a number.
            pub const fn get(self) -> u32 {
                self.0
            }
        }
    };
}

id!(
    /// A string of the [`StringTable`](crate::StringTable).
    StringId
);
id!(
    /// A frame of the [`FrameTable`](crate::FrameTable).
    FrameId
);
id!(
    /// A stack of the [`StackTable`](crate::StackTable), or one of its two constants.
    StackId
);
id!(
    /// A stream: an index into [`Snapshot::streams`](crate::Snapshot::streams), in order of first appearance.
    StreamId
);
id!(
    /// A memory pool: an index into [`Snapshot::pools`](crate::Snapshot::pools).
    PoolId
);
id!(
    /// An entry of one device's trace: its index there.
    EntryId
);

impl StringId {
    /// No string: the key was absent.
    pub const MISSING: Self = Self(u32::MAX);
}

impl StackId {
    /// A stack was recorded and holds no frame, as on autograd's own threads, which run no Python.
    pub const EMPTY: Self = Self(0);
    /// No stack was recorded.
    pub const MISSING: Self = Self(u32::MAX);

    /// Whether a stack was recorded at all, be it empty.
    pub const fn is_recorded(self) -> bool {
        self.0 != Self::MISSING.0
    }
}

impl PoolId {
    /// The default pool, `(0, 0)`: always row 0.
    pub const DEFAULT: Self = Self(0);
    /// No pool is named, as in trace entries before torch 2.12.
    pub const MISSING: Self = Self(u32::MAX);
}

impl StreamId {
    /// The default stream, handle 0: always row 0.
    pub const DEFAULT: Self = Self(0);
}
