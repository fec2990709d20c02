//! Asks a process that runs highwater's Python recorder: how it uses its memory, and for a snapshot.
//!
//! Such a process listens on a local socket, `PID.sock` in a [`directory`] of the user's own. One line of JSON is asked and
//! one is answered; a snapshot follows its line as it is. Both sides look who the other is: only the same user is answered,
//! and only the same user is believed. What comes back is untrusted all the same.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::sample::TorchDevice;

/// The version of the questions and answers.
pub const VERSION: u32 = 1;

/// How long a process may take to say how it uses its memory. One that is busy within a call that keeps Python from running
/// answers late: it is asked again at the next look.
pub const PATIENCE: Duration = Duration::from_millis(250);

/// How long it may take from piece to piece of a snapshot, and to the first, for which it writes it down.
pub const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(120);

/// Why a process does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It has no socket.
    #[error("process {pid} does not answer: it does not run highwater's recorder, or is another user's")]
    NoSocket {
        /// The process.
        pid: u32,
    },
    /// The directory or the socket belongs to another user.
    #[error("`{path}` belongs to another user, or other users can open it")]
    NotOwn {
        /// Which.
        path: PathBuf,
    },
    /// It takes too long, or ended.
    #[error("process {pid} does not answer: {cause}")]
    Io {
        /// The process.
        pid: u32,
        /// The system's message.
        cause: io::Error,
    },
    /// It answers something else.
    #[error("process {pid} sent an invalid answer: {cause}")]
    Garbled {
        /// The process.
        pid: u32,
        /// What is wrong.
        cause: String,
    },
    /// It says that it cannot.
    #[error("process {pid} says: {reason}")]
    Refused {
        /// The process.
        pid: u32,
        /// Its words.
        reason: String,
    },
}

#[cfg(unix)]
pub use unix::{directory, has_socket, memory, snapshot};

/// The answer of a process to any request.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Answer {
    /// How it uses the memory of each device, if that was asked.
    #[serde(default)]
    pub devices: Vec<TorchDevice>,
    /// How long the snapshot is that follows, in bytes, if that was asked.
    #[serde(default)]
    pub bytes: Option<u64>,
    #[serde(default)]
    error: Option<String>,
}

impl Answer {
    /// Reads the line that process `pid` answered, its newline included.
    ///
    /// # Errors
    /// [`AskError::Garbled`] if the line has no end or is not an answer; [`AskError::Refused`] if the process says that it cannot.
    pub fn read(pid: u32, line: &[u8]) -> Result<Self, AskError> {
        if line.last() != Some(&b'\n') {
            return Err(garbled(pid, "its line does not end"));
        }
        let answer: Self = serde_json::from_slice(line).map_err(|error| garbled(pid, &error.to_string()))?;
        match answer.error {
            Some(reason) => Err(AskError::Refused { pid, reason }),
            None => Ok(answer),
        }
    }
}

fn garbled(pid: u32, cause: &str) -> AskError {
    AskError::Garbled { pid, cause: cause.to_owned() }
}

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::io::{self, BufRead as _, BufReader, Read as _, Write};
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

    use super::{Answer, AskError, PATIENCE, SNAPSHOT_PATIENCE, VERSION, garbled};
    use crate::sample::TorchDevice;

    /// Bytes of a line at most: a hundred devices are 40 KiB.
    const LINE_BYTES: usize = 256 << 10;

    /// From one attempt to be taken in to the next.
    const CONNECT_BREAK: Duration = Duration::from_millis(5);

    /// Where the sockets of this user's processes are: `$HIGHWATER_RUN_DIR`, `$XDG_RUNTIME_DIR/highwater`, else
    /// `/tmp/highwater-UID`.
    pub fn directory() -> PathBuf {
        let named = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        named("HIGHWATER_RUN_DIR")
            .or_else(|| named("XDG_RUNTIME_DIR").map(|root| root.join("highwater")))
            .unwrap_or_else(|| PathBuf::from(format!("/tmp/highwater-{}", rustix::process::getuid().as_raw())))
    }

    fn socket(directory: &Path, pid: u32) -> PathBuf {
        directory.join(format!("{pid}.sock"))
    }

    /// Whether a process may answer.
    pub fn has_socket(pid: u32) -> bool {
        fs::symlink_metadata(socket(&directory(), pid)).is_ok_and(|found| found.file_type().is_socket())
    }

    /// Asks a process how it uses its memory. Peaks are those since it was last asked.
    ///
    /// # Errors
    /// It does not answer, within [`PATIENCE`], or not so that it can be understood.
    pub fn memory(pid: u32) -> Result<Vec<TorchDevice>, AskError> {
        let mut stream = connect(pid, PATIENCE)?;
        Ok(ask(&mut stream, pid, "memory", PATIENCE)?.devices)
    }

    /// Asks a process for a snapshot, which goes to `out` as it comes; says how many bytes that were.
    ///
    /// # Errors
    /// It does not answer, or `out` cannot be written.
    pub fn snapshot(pid: u32, out: &mut impl Write) -> Result<u64, AskError> {
        let mut stream = connect(pid, SNAPSHOT_PATIENCE)?;
        let expected = ask(&mut stream, pid, "snapshot", SNAPSHOT_PATIENCE)?.bytes;
        let expected = expected.ok_or_else(|| garbled(pid, "it does not say how long the snapshot is"))?;
        let copied = io::copy(&mut stream.take(expected), out).map_err(|cause| AskError::Io { pid, cause })?;
        if copied < expected {
            return Err(garbled(pid, &format!("the snapshot ends after {copied} of {expected} bytes")));
        }
        Ok(copied)
    }

    /// Connects, if directory, socket and the process behind it are this user's.
    fn connect(pid: u32, patience: Duration) -> Result<BufReader<UnixStream>, AskError> {
        let directory = directory();
        let own = rustix::process::getuid().as_raw();
        let found = fs::symlink_metadata(&directory).map_err(|_| AskError::NoSocket { pid })?;
        if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
            return Err(AskError::NotOwn { path: directory });
        }
        let io = |cause| AskError::Io { pid, cause };
        let stream = connected(&socket(&directory, pid), patience).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::NoSocket { pid },
            _ => io(cause),
        })?;
        if !is_own(&stream, own) {
            return Err(AskError::NotOwn { path: socket(&directory, pid) });
        }
        stream.set_read_timeout(Some(patience)).map_err(io)?;
        stream.set_write_timeout(Some(patience)).map_err(io)?;
        Ok(BufReader::new(stream))
    }

    /// Connects within a time. A process that is stopped takes no one in: once those that wait fill its queue, a call that may
    /// wait for a place there would wait for as long as it is stopped.
    fn connected(path: &Path, patience: Duration) -> io::Result<UnixStream> {
        let until = Instant::now() + patience;
        let address = SocketAddrUnix::new(path)?;
        let stream = UnixStream::from(rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?);
        stream.set_nonblocking(true)?;
        loop {
            match rustix::net::connect(&stream, &address) {
                Ok(()) => break,
                Err(rustix::io::Errno::AGAIN) if Instant::now() < until => std::thread::sleep(CONNECT_BREAK),
                Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        }
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Reads a line within a time, however many pieces it comes in.
    fn line_within(stream: &mut BufReader<UnixStream>, patience: Duration) -> io::Result<Vec<u8>> {
        let until = Instant::now() + patience;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') && line.len() < LINE_BYTES {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.get_ref().set_read_timeout(Some(rest))?;
            let piece = stream.fill_buf()?;
            if piece.is_empty() {
                break;
            }
            let piece = &piece[..piece.len().min(LINE_BYTES - line.len())];
            let taken = piece.iter().position(|&byte| byte == b'\n').map_or(piece.len(), |end| end + 1);
            line.extend_from_slice(&piece[..taken]);
            stream.consume(taken);
        }
        stream.get_ref().set_read_timeout(Some(patience))?;
        Ok(line)
    }

    /// Whether this user's process listens there.
    #[cfg(target_os = "linux")]
    fn is_own(stream: &UnixStream, own: u32) -> bool {
        rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid.as_raw() == own)
    }

    /// Elsewhere the directory alone says it.
    #[cfg(not(target_os = "linux"))]
    fn is_own(_stream: &UnixStream, _own: u32) -> bool {
        true
    }

    fn ask(stream: &mut BufReader<UnixStream>, pid: u32, what: &str, patience: Duration) -> Result<Answer, AskError> {
        let io = |cause| AskError::Io { pid, cause };
        // Peaks are those since this program looked, whoever looks beside it.
        let watcher = std::process::id();
        let question = format!("{{\"version\":{VERSION},\"ask\":\"{what}\",\"watcher\":\"{watcher}\"}}\n");
        stream.get_mut().write_all(question.as_bytes()).map_err(io)?;
        let line = line_within(stream, patience).map_err(io)?;
        Answer::read(pid, &line)
    }
}

#[cfg(not(unix))]
pub use elsewhere::{directory, has_socket, memory, snapshot};

#[cfg(not(unix))]
mod elsewhere {
    use std::io::Write;
    use std::path::PathBuf;

    use super::AskError;
    use crate::sample::TorchDevice;

    /// There are no such sockets here.
    pub fn directory() -> PathBuf {
        PathBuf::new()
    }

    /// There are no such sockets here.
    pub fn has_socket(_pid: u32) -> bool {
        false
    }

    /// There are no such sockets here.
    ///
    /// # Errors
    /// Always.
    pub fn memory(pid: u32) -> Result<Vec<TorchDevice>, AskError> {
        Err(AskError::NoSocket { pid })
    }

    /// There are no such sockets here.
    ///
    /// # Errors
    /// Always.
    pub fn snapshot(pid: u32, _out: &mut impl Write) -> Result<u64, AskError> {
        Err(AskError::NoSocket { pid })
    }
}
