//! Why a file could not be read at all.

use std::{fmt, io};

use crate::limits::{MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO};
use crate::pickle::input::damage;
use highwater_problem::Problem;

/// An error of the reader: what is wrong ([`ErrorKind`]) and where.
///
/// Whatever can be read in part is no error but a [`Snapshot`](crate::Snapshot) with warnings.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    byte: Option<u64>,
}

/// What was wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No byte at all.
    #[error("the input is empty")]
    Empty,
    /// A directory where a file is wanted.
    #[error("this is a directory")]
    Directory,
    /// The first bytes are those of something else.
    #[error("expected a pickle header (0x80), found {found}")]
    NotAPickle {
        /// The first bytes and what they suggest.
        found: String,
        /// What kind of file it seems to be.
        looks_like: LooksLike,
    },
    /// An opcode that would run code.
    #[error("`{opcode}` {detail}; a snapshot holds plain data only, so this file is refused and nothing in it was run")]
    Refused {
        /// The opcode's name.
        opcode: &'static str,
        /// What it would do.
        detail: String,
    },
    /// A byte that is no opcode.
    #[error("0x{0:02x} is no pickle opcode")]
    UnknownOpcode(u8),
    /// An opcode without what it needs.
    #[error("`{opcode}` {detail}")]
    Malformed {
        /// The opcode's name.
        opcode: &'static str,
        /// What is missing or wrong.
        detail: String,
    },
    /// The input stops in the middle.
    #[error("the file ends in the middle of {0}")]
    Cut(&'static str),
    /// The compressed stream is damaged.
    #[error("the compressed data are damaged: {0}")]
    Damaged(String),
    /// A limit that no real snapshot reaches.
    #[error("{what} exceeds the limit of {limit}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A compressed input that becomes too much: see [`Unpacking`](crate::Unpacking).
    #[error(
        "its first {packed_bytes} bytes unpack to more than {} MiB, which is more than {MAX_UNPACKED_RATIO} times as much",
        (MAX_UNPACKED_BYTES.max(packed_bytes.saturating_mul(MAX_UNPACKED_RATIO))) >> 20
    )]
    Overgrown {
        /// Bytes that were read by then.
        packed_bytes: u64,
    },
    /// The system has no more memory, or gives no more.
    #[error("the system has no more memory")]
    OutOfMemory,
    /// Text that is no JSON.
    #[error("{0}")]
    Json(String),
    /// A page without an embedded snapshot.
    #[error("this HTML page has no embedded snapshot: no `\"base64\": \"…\"` in it")]
    HtmlWithoutSnapshot,
    /// A page that holds a picture of a memory timeline.
    #[error("this HTML page holds a picture of the profiler's memory timeline, not its numbers")]
    ProfilePicture,
    /// A profiler's file that tells nothing of memory.
    #[error("this is a file of `torch.profiler` without memory events")]
    ProfileWithoutMemory,
    /// A pickle or JSON of something else.
    #[error("{0}")]
    OtherData(String),
}

/// A guess at what a file is that is no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LooksLike {
    /// A zip archive, as `torch.save` writes.
    Zip,
    /// Text, such as a log.
    Text,
    /// A compression that is not supported.
    OtherCompression,
    /// No idea.
    Unknown,
}

impl ErrorKind {
    /// Whether the bytes before it may be shown: it says that the file is cut or damaged, not that it is too much or no snapshot.
    pub(crate) fn leaves_a_part(&self) -> bool {
        matches!(
            self,
            Self::Cut(_) | Self::Damaged(_) | Self::UnknownOpcode(_) | Self::Malformed { .. } | Self::Json(_)
        )
    }
}

impl Error {
    /// The error of a reader that [`decompressed`](crate::decompressed) gave.
    pub fn of_reading(error: io::Error) -> Self {
        Self::new(damage(error))
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind, byte: None }
    }

    pub(crate) fn at(byte: u64, kind: ErrorKind) -> Self {
        Self { kind, byte: Some(byte) }
    }

    /// What was wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Offset in the decompressed input, where there is one.
    pub fn byte(&self) -> Option<u64> {
        self.byte
    }

    /// How the sentence "`run.pickle` …" ends.
    pub fn headline(&self) -> &'static str {
        match self.kind {
            ErrorKind::Io(_) | ErrorKind::Directory => "cannot be read",
            ErrorKind::Refused { .. } => "is not safe to load",
            ErrorKind::Overgrown { .. } => "is too large when unpacked",
            ErrorKind::OutOfMemory => "needs more memory than there is",
            ErrorKind::UnknownOpcode(_)
            | ErrorKind::Malformed { .. }
            | ErrorKind::Cut(_)
            | ErrorKind::Damaged(_)
            | ErrorKind::Limit { .. } => "is damaged",
            _ => "is not a memory snapshot",
        }
    }

    /// The error of a file that the user knows by `name`.
    pub fn problem(&self, name: &str) -> Problem {
        Problem::new(format!("{name} {}", self.headline())).because(self).hinted(self.hint().map(str::to_owned))
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        const RECORD: &str = "write a snapshot with `torch.cuda.memory._record_memory_history()` at the start and \
                              `torch.cuda.memory._dump_snapshot(\"run.pickle\")` at the end";
        Some(match &self.kind {
            ErrorKind::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                "check the path; `_dump_snapshot` writes to the program's working directory"
            }
            ErrorKind::Io(_) => return None,
            ErrorKind::Directory => "give a snapshot file inside it",
            ErrorKind::Empty => {
                "the dump did not finish, or the disk was full: write it again with `torch.cuda.memory._dump_snapshot(\"run.pickle\")`"
            }
            ErrorKind::NotAPickle { looks_like: LooksLike::Zip, .. } => {
                "this looks like a `torch.save` file; write a snapshot with `torch.cuda.memory._dump_snapshot(\"run.pickle\")`"
            }
            ErrorKind::NotAPickle { looks_like: LooksLike::Text, .. } => {
                "this looks like text, not a snapshot; write one with `torch.cuda.memory._dump_snapshot(\"run.pickle\")`"
            }
            ErrorKind::NotAPickle { looks_like: LooksLike::OtherCompression, .. } => {
                "decompress it first; highwater reads gzip and zstd directly"
            }
            ErrorKind::Refused { .. } => "do not open this file with Python's `pickle` either: it would run that code",
            ErrorKind::Cut(_) | ErrorKind::Damaged(_) | ErrorKind::UnknownOpcode(_) | ErrorKind::Malformed { .. } => {
                "nothing could be recovered: copy or dump the file again; a dump that is still being written looks \
                 the same"
            }
            ErrorKind::Limit { .. } => {
                "no PyTorch snapshot comes near this limit; if this file is a real one, please report it"
            }
            ErrorKind::Overgrown { .. } => {
                "no PyTorch snapshot compresses this well; if you trust the file, lift the limit with \
                 `--allow-any-size` (`allow_any_size=True` in Python)"
            }
            ErrorKind::OutOfMemory => {
                "read it on a machine with more memory, or raise the memory limit here (`ulimit -v`, the container's)"
            }
            ErrorKind::HtmlWithoutSnapshot => {
                "only pages of `torch.cuda._memory_viz trace_plot` and `segment_plot` embed one; otherwise, dump \
                 the pickle itself"
            }
            ErrorKind::ProfilePicture => {
                "export the numbers: `prof.export_memory_timeline(\"timeline.raw.json.gz\")`, or a trace with \
                 `prof.export_chrome_trace(\"trace.json.gz\")`"
            }
            ErrorKind::ProfileWithoutMemory => {
                "profile with `torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True)`"
            }
            _ => RECORD,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(byte) = self.byte {
            write!(f, "byte {byte}: ")?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}
