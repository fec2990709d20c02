//! gzip and zstd around the input, in two layers at most, and how much they may become.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Cursor, Read};
use std::rc::Rc;

use crate::error::{Error, ErrorKind};
use crate::limits::{MAX_LAYERS, MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO};
use crate::pickle::input::damage;

/// Bytes that are looked at to tell what the input is.
const PREFIX_BYTES: usize = 128;

/// How much a compressed input may become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unpacking {
    /// 64 MiB, or 200 times its size, whichever is more: [`ErrorKind::Overgrown`] otherwise.
    #[default]
    Bounded,
    /// Whatever it becomes: for inputs that are trusted.
    Unbounded,
}

type Bytes<'a> = Box<dyn Read + 'a>;

/// The bytes behind gzip and zstd; what is not compressed comes as it is.
///
/// # Errors
/// If the first bytes cannot be read, or there are too many layers. An error while the bytes are read becomes an [`Error`] by
/// [`Error::of_reading`].
pub fn decompressed<'a>(source: impl Read + 'a, unpacking: Unpacking) -> Result<impl Read + 'a, Error> {
    unpacked(Box::new(source), unpacking).map(|(_, whole)| whole)
}

/// The first bytes behind any compression, and all of them.
pub(crate) fn unpacked(source: Bytes<'_>, unpacking: Unpacking) -> Result<(Vec<u8>, impl Read + '_), Error> {
    let packed_bytes = Rc::new(Cell::new(0));
    let mut bytes: Bytes<'_> = Box::new(Packed { source, bytes: Rc::clone(&packed_bytes) });
    for _ in 0..=MAX_LAYERS {
        let (prefix, rest) = split_prefix(bytes)?;
        let whole = Cursor::new(prefix.clone()).chain(rest);
        let layer: Bytes<'_> = match prefix[..] {
            [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(whole))),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                Box::new(zstd::stream::read::Decoder::new(whole).map_err(|e| Error::at(0, damage(e)))?)
            }
            _ => return Ok((prefix, whole)),
        };
        // Each layer is held to the size of the whole input: one may also be large and hold nothing.
        bytes = match unpacking {
            Unpacking::Bounded => Box::new(Bounded { layer, bytes: 0, packed_bytes: Rc::clone(&packed_bytes) }),
            Unpacking::Unbounded => layer,
        };
    }
    Err(Error::new(ErrorKind::Limit { what: "the number of compressed layers", limit: MAX_LAYERS as u64 }))
}

/// The first bytes, and what comes after them.
fn split_prefix(mut bytes: Bytes<'_>) -> Result<(Vec<u8>, Bytes<'_>), Error> {
    let mut prefix = Vec::with_capacity(PREFIX_BYTES);
    let read = bytes.by_ref().take(PREFIX_BYTES as u64).read_to_end(&mut prefix);
    match read {
        // What came before the error may say enough; the error comes again with the rest.
        Err(error) if prefix.is_empty() => Err(Error::at(0, damage(error))),
        _ => Ok((prefix, bytes)),
    }
}

/// The input as it comes, counted.
struct Packed<'a> {
    source: Bytes<'a>,
    bytes: Rc<Cell<u64>>,
}

impl Read for Packed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}

/// What a layer unpacks to, as long as it is not out of all proportion to what was read for it.
struct Bounded<'a> {
    layer: Bytes<'a>,
    bytes: u64,
    packed_bytes: Rc<Cell<u64>>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.layer.read(buffer)?;
        self.bytes += count as u64;
        let packed_bytes = self.packed_bytes.get();
        if self.bytes > MAX_UNPACKED_BYTES.max(packed_bytes.saturating_mul(MAX_UNPACKED_RATIO)) {
            return Err(io::Error::other(Overgrown { packed_bytes }));
        }
        Ok(count)
    }
}

/// [`ErrorKind::Overgrown`] on its way through a reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overgrown {
    pub(crate) packed_bytes: u64,
}

impl fmt::Display for Overgrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ErrorKind::Overgrown { packed_bytes: self.packed_bytes }.fmt(f)
    }
}

impl std::error::Error for Overgrown {}
