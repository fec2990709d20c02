//! A file of Python's, read as it comes: a bucket's object need not be in memory as a whole.

use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

use highwater_snapshot::{Error, Snapshot, Unpacking, decompressed};
use highwater_units::size;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Bytes that Python is asked for at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What went wrong in Python, to be raised again.
type Raised = Arc<Mutex<Option<PyErr>>>;

/// An object with `read`.
struct PyFile {
    file: Py<PyAny>,
    raised: Raised,
}

impl Read for PyFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = Python::attach(|py| -> PyResult<usize> {
            let bytes = self.file.bind(py).call_method1("read", (buffer.len(),))?;
            let bytes = bytes.cast_into::<PyBytes>()?;
            let count = bytes.as_bytes().len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes.as_bytes()[..count]);
            Ok(count)
        });
        read.map_err(|error| {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            io::Error::other("reading it failed in Python")
        })
    }
}

/// Bytes up to a limit; more is an error.
struct AtMost<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for AtMost<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!("it is longer than {}, unpacked: give its task more memory", size(self.limit)))
        })?;
        Ok(count)
    }
}

/// Reads a snapshot from an object with `read`, as long as it has no more than `limit` bytes, unpacked.
///
/// # Errors
/// What `read` raises, else as `Snapshot::read`: then within the first result.
pub(crate) fn read(file: Py<PyAny>, unpacking: Unpacking, limit: u64) -> PyResult<Result<Snapshot, Error>> {
    let raised = Raised::default();
    let file = PyFile { file, raised: Arc::clone(&raised) };
    let plain = decompressed(BufReader::with_capacity(CHUNK_BYTES, file), unpacking);
    let read = plain.and_then(|plain| {
        let limited = AtMost { inner: plain, left: limit, limit };
        Snapshot::read_with(limited, Unpacking::Unbounded)
    });
    // A file of which only a part came is not a file that was cut.
    match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok(read),
    }
}
