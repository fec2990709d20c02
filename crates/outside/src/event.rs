//! One call of the driver.

/// The device of memory that is on no GPU.
pub const HOST: i32 = -1;

/// The stack of a call without one.
pub const NO_STACK: u32 = u32::MAX;

/// One call of the driver that changed the memory of a process, or a change that was measured around one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it did.
    pub kind: Kind,
    /// When, in nanoseconds since the Unix epoch: the clock of PyTorch's history.
    pub time_ns: u64,
    /// CUDA ordinal, or [`HOST`].
    pub device: i32,
    /// The thread, as the system numbers it.
    pub thread: u32,
    /// The native stack, as a row of the recording's stacks, or [`NO_STACK`].
    pub stack: u32,
    /// The Python stack, as a row of the recording's lines, or [`NO_STACK`].
    pub python: u32,
    /// An address, or the handle of something that has none.
    pub address: u64,
    /// Bytes; of a change that was measured it may be negative.
    pub bytes: i64,
    /// The stream of a stream-ordered call, the handle that is mapped, or the bytes of a pool in use.
    pub extra: u64,
}

/// The recorder keeps events as they are here: `docs/driver.md` says how many bytes each takes.
const _: () = assert!(size_of::<Event>() == 56);

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal,)*) => {
        /// What an event did.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Its name in a recording.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// `cuMemAlloc`, `cuMemAllocPitch`: what `cudaMalloc` calls.
    Device "device",
    /// `cuMemAllocManaged`.
    Managed "managed",
    /// `cuMemFree`, of either.
    Free "free",
    /// `cuMemHostAlloc`, `cuMemAllocHost`: pinned memory of the host.
    Host "host",
    /// `cuMemFreeHost`.
    HostFree "host_free",
    /// `cuMemHostRegister`: memory of the program's own is pinned.
    Register "register",
    /// `cuMemHostUnregister`.
    Unregister "unregister",
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    StreamOrdered "stream_ordered",
    /// `cuMemFreeAsync`.
    StreamOrderedFree "stream_ordered_free",
    /// What a pool has of the card now: `bytes`, and of them in use: `extra`.
    Pool "pool",
    /// `cuMemPoolDestroy`.
    PoolDestroy "pool_destroy",
    /// `cuMemCreate`.
    Create "create",
    /// `cuMemRetainAllocationHandle`.
    Retain "retain",
    /// `cuMemRelease`.
    Release "release",
    /// `cuMemMap`.
    Map "map",
    /// `cuMemUnmap`.
    Unmap "unmap",
    /// `cuArrayCreate` and its kin.
    Array "array",
    /// `cuArrayDestroy` and its kin.
    ArrayDestroy "array_destroy",
    /// The context was made: bytes of the card that were free before.
    Context "context",
    /// Measured around a call that loads or unloads code.
    Module "module",
    /// Measured after launches that loaded code, or raised the memory of the threads.
    Launch "launch",
    /// Measured around a call that makes or destroys a stream.
    Stream "stream",
    /// Measured around a call that makes, uploads or destroys an executable graph.
    Graph "graph",
    /// Measured between two calls, with no cause that was seen.
    Unexplained "unexplained",
}

impl Kind {
    /// The kind of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Whether its bytes are a change of the card's free memory that was measured.
    pub const fn is_measured(self) -> bool {
        matches!(self, Self::Context | Self::Module | Self::Launch | Self::Stream | Self::Graph | Self::Unexplained)
    }
}
