//! What stands around the pickle under any compression: files, pipes, HTML pages; and which of them it is.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use crate::decode::json;
use crate::decode::store::Store;
use crate::error::{Error, ErrorKind, LooksLike};
use crate::pickle::input::damage;
use crate::pickle::machine::Machine;
use crate::snapshot::{Cut, Encoding, Snapshot};
use crate::unpack::{Unpacking, unpacked};
use crate::warnings::Place;

/// What the page of `export_memory_timeline("….html")` is called, which holds a picture only.
///
/// # Source
/// PyTorch v2.11, `torch/profiler/_memory_profiler.py`, `export_memory_timeline_html`.
const PICTURE_TITLE: &[u8] = b"<title>GPU Memory Timeline HTML";

impl Snapshot {
    /// Reads a file: a pickle, gzipped or not, an HTML page of `_memory_viz`, JSON, or what `torch.profiler` exports.
    ///
    /// # Errors
    /// If nothing of a snapshot can be read. A file that is cut or odd gives what can be read, with warnings.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::read(open_file(path.as_ref())?)
    }

    /// Reads bytes from anywhere, in one pass; buffering is done here.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn read(source: impl Read) -> Result<Self, Error> {
        Self::read_with(source, Unpacking::default())
    }

    /// As [`read`](Self::read), with another limit to what a compressed input may become.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn read_with(source: impl Read, unpacking: Unpacking) -> Result<Self, Error> {
        let (prefix, whole) = unpacked(Box::new(source), unpacking)?;
        read_plain(&prefix, whole)
    }
}

/// Opens a file for [`Snapshot::read`].
///
/// # Errors
/// [`ErrorKind::Directory`], or what the operating system says.
pub fn open_file(path: &Path) -> Result<File, Error> {
    let file = File::open(path).map_err(|e| Error::new(e.into()))?;
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(Error::new(ErrorKind::Directory)),
        _ => Ok(file),
    }
}

fn read_plain(prefix: &[u8], whole: impl Read) -> Result<Snapshot, Error> {
    let text = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    let without_mark = (prefix.len() - text.len()) as u64;
    match text.trim_ascii_start().first() {
        None if prefix.is_empty() => Err(Error::new(ErrorKind::Empty)),
        Some(b'{' | b'[') => read_json(skip(whole, without_mark)?),
        Some(b'<') if memmem::find(prefix, PICTURE_TITLE).is_some() => Err(Error::new(ErrorKind::ProfilePicture)),
        Some(b'<') => read_pickle(embedded_pickle(whole)?),
        _ if starts_pickle(prefix) => read_pickle(whole).map_err(|error| doubt(prefix, error)),
        _ => Err(not_a_pickle(prefix)),
    }
}

fn skip<R: Read>(mut source: R, count: u64) -> Result<R, Error> {
    io::copy(&mut source.by_ref().take(count), &mut io::sink()).map_err(|e| Error::new(e.into()))?;
    Ok(source)
}

/// Whether these bytes may begin a pickle that holds a container, or one that names a function.
fn starts_pickle(prefix: &[u8]) -> bool {
    match prefix {
        [0x80 | b'(' | b']' | b'}' | b')', ..] => true,
        // Protocol 0 begins a call with `cMODULE\nNAME\n`.
        [b'c', rest @ ..] => {
            let mut lines = rest.splitn(3, |&b| b == b'\n');
            let named = |line: Option<&[u8]>| {
                line.is_some_and(|l| {
                    !l.is_empty() && l.iter().all(|&b| b.is_ascii_alphanumeric() || b"._".contains(&b))
                })
            };
            named(lines.next()) && named(lines.next()) && lines.next().is_some()
        }
        _ => false,
    }
}

/// Bytes without a pickle header that do not even run are something else.
fn doubt(prefix: &[u8], error: Error) -> Error {
    let header = prefix.first() == Some(&0x80);
    match error.kind() {
        ErrorKind::UnknownOpcode(_) | ErrorKind::Malformed { .. } | ErrorKind::Cut(_) if !header => {
            not_a_pickle(prefix)
        }
        _ => error,
    }
}

fn not_a_pickle(prefix: &[u8]) -> Error {
    let is_text = std::str::from_utf8(prefix).map_or_else(|e| e.valid_up_to() + 4 > prefix.len(), |_| true)
        && prefix.iter().all(|&b| b >= 0x20 || b.is_ascii_whitespace());
    let (looks_like, kind) = match prefix {
        [b'P', b'K', 3 | 5, ..] => (LooksLike::Zip, "a zip archive"),
        [b'B', b'Z', b'h', ..] => (LooksLike::OtherCompression, "bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => (LooksLike::OtherCompression, "xz"),
        [0x04, 0x22, 0x4d, 0x18, ..] => (LooksLike::OtherCompression, "lz4"),
        _ if is_text => (LooksLike::Text, "text"),
        _ => (LooksLike::Unknown, "no known format"),
    };
    let first: Vec<_> = prefix.iter().take(2).map(|byte| format!("0x{byte:02x}")).collect();
    let found = format!("{} ({kind})", first.join(" "));
    Error::at(0, ErrorKind::NotAPickle { found, looks_like })
}

fn read_pickle(source: impl Read) -> Result<Snapshot, Error> {
    let mut store = Store::new();
    let outcome = Machine::new(source, &mut store).run();
    let encoding = Encoding::Pickle { protocol: outcome.protocol };
    finish(store, outcome.root, outcome.error, encoding, outcome.bytes)
}

fn read_json(source: impl Read) -> Result<Snapshot, Error> {
    let mut store = Store::new();
    let json::Outcome { root, error, bytes, found, base_time_ns, distributed } = json::read(source, &mut store);
    let error = match error {
        Some(error) if !error.kind().leaves_a_part() => return Err(error),
        other => other,
    };
    if let Some(made) = found.into_snapshot(base_time_ns, error.as_ref(), bytes) {
        let mut snapshot = made.map_err(|kind| error.unwrap_or(Error::new(kind)))?;
        if let Some(distributed) = distributed {
            let text = store.render(distributed, bytes).map_err(Error::new)?;
            snapshot.extras.push((Snapshot::DISTRIBUTED.to_owned(), store.strings.get(text).to_owned()));
        }
        return Ok(snapshot);
    }
    finish(store, root, error, Encoding::Json, bytes)
}

fn finish(
    store: Store,
    root: Option<crate::pickle::value::Value>,
    error: Option<Error>,
    encoding: Encoding,
    bytes: u64,
) -> Result<Snapshot, Error> {
    let (root, error) = match (root, error) {
        (Some(root), error) => (root, error),
        (None, Some(error)) => return Err(error),
        (None, None) => return Err(Error::new(ErrorKind::OtherData("the file holds no value".to_owned()))),
    };
    let assembled = store.into_snapshot(root);
    let (mut snapshot, last_key) = match (assembled, error) {
        (Ok((snapshot, _)), None) => (snapshot, None),
        (Err(kind), None) => return Err(Error::new(kind)),
        (Ok((snapshot, last_key)), Some(error)) => {
            let rows: usize = snapshot.traces.iter().map(crate::EntryTable::len).sum();
            if rows == 0 && snapshot.segments.is_empty() {
                return Err(error);
            }
            (snapshot, Some((last_key, error)))
        }
        (Err(_), Some(error)) => return Err(error),
    };
    if let Some((last_key, error)) = last_key {
        let message = format!("the file is incomplete: {error}; what could be read is shown");
        snapshot.warnings.add("cut", message, Place::byte(bytes));
        snapshot.cut = Some(Cut {
            reason: error.to_string(),
            segments_complete: !matches!(last_key.as_deref(), None | Some("segments")),
            traces_complete: !matches!(last_key.as_deref(), None | Some("segments" | "device_traces")),
        });
    }
    snapshot.encoding = encoding;
    snapshot.bytes = bytes;
    snapshot.check_overlaps();
    Ok(snapshot)
}

/// The pickle in a page that `trace_plot` or `segment_plot` wrote, decoded as it is read.
///
/// # Source
/// PyTorch v2.11, `torch/cuda/_memory_viz.py`, `_format_viz`: `[{"name": …, "base64": "…"}]` in a script.
fn embedded_pickle<'a>(page: impl Read + 'a) -> Result<impl Read + 'a, Error> {
    const KEY: &[u8] = b"\"base64\"";
    let mut page = BufReader::with_capacity(256 << 10, page);
    find(&mut page, KEY)?;
    find(&mut page, b"\"")?;
    let data = UntilQuote { page, ended: false };
    Ok(base64::read::DecoderReader::new(data, &STANDARD))
}

/// Reads past the next occurrence of `wanted`.
fn find(page: &mut impl io::BufRead, wanted: &[u8]) -> Result<(), Error> {
    let finder = memmem::Finder::new(wanted);
    // The end of one piece, in case the word lies across the border.
    let mut carried: Vec<u8> = Vec::new();
    loop {
        let piece = match page.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::new(damage(error))),
        };
        if piece.is_empty() {
            return Err(Error::new(ErrorKind::HtmlWithoutSnapshot));
        }
        let border = carried.len();
        carried.extend_from_slice(piece);
        let len = piece.len();
        if let Some(at) = finder.find(&carried) {
            page.consume(at + wanted.len() - border);
            return Ok(());
        }
        page.consume(len);
        let keep = carried.len().min(wanted.len() - 1);
        carried.drain(..carried.len() - keep);
    }
}

/// The bytes up to the next quote.
struct UntilQuote<R> {
    page: R,
    ended: bool,
}

impl<R: io::BufRead> Read for UntilQuote<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let piece = self.page.fill_buf()?;
        let quote = memchr::memchr(b'"', piece);
        let count = quote.unwrap_or(piece.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&piece[..count]);
        self.page.consume(count);
        self.ended = quote == Some(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_across_the_border_of_two_pieces_is_found() {
        for capacity in 1..20 {
            let mut page = BufReader::with_capacity(capacity, &b"<html> [{\"name\": 1, \"base64\": \"QUJD\"}]"[..]);
            find(&mut page, b"\"base64\"").unwrap();
            let mut rest = String::new();
            page.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, ": \"QUJD\"}]", "capacity {capacity}");
        }
    }
}
