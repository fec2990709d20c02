//! Whether a file is a log or a recording, by its first bytes.

use std::io::{Cursor, Read};
use std::path::Path;

use crate::error::Problem;
use crate::input::SizeArgs;

/// Bytes that are looked at: the keys of a snapshot in JSON come within them.
const HEAD_BYTES: usize = 64 << 10;

/// What a file is; its bytes, decompressed.
pub(super) enum Input {
    /// Text.
    Log(Box<dyn Read>),
    /// A snapshot, a file of `torch.profiler`, or what is no text.
    Snapshot(Box<dyn Read>),
}

/// Opens a file, or standard input.
///
/// # Errors
/// If it cannot be read.
pub(super) fn open(file: &Path, size: SizeArgs) -> Result<Input, Problem> {
    let unreadable = |error: &highwater_snapshot::Error| crate::input::unreadable(file, error);
    let packed = crate::input::open(file).map_err(|error| unreadable(&error))?;
    let mut bytes = highwater_snapshot::decompressed(packed, size.unpacking()).map_err(|error| unreadable(&error))?;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let read = bytes.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head);
    // What came before an error may say enough; the error comes again with the rest.
    if let Err(error) = read
        && head.is_empty()
    {
        return Err(crate::error::unpacked(&crate::input::name(file), error));
    }
    let is_log = is_log(&head);
    let whole: Box<dyn Read> = Box::new(Cursor::new(head).chain(bytes));
    Ok(if is_log { Input::Log(whole) } else { Input::Snapshot(whole) })
}

/// Whether these bytes begin a text that is not a snapshot's.
fn is_log(head: &[u8]) -> bool {
    let has = |words: &[&[u8]]| words.iter().any(|word| head.windows(word.len()).any(|window| window == *word));
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    match text {
        // PowerShell writes UTF-16.
        [] | [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [b'{', ..] => !has(&[b"\"device_traces\"", b"\"segments\"", b"\"traceEvents\"", b"\"deviceProperties\""]),
        [b'[', ..] => !has(&[b"\"total_size\"", b"\"device_traces\""]) && !is_timeline(text),
        [b'<', ..] => !has(&[b"<html", b"<HTML", b"<!DOCTYPE", b"<!doctype", b"<script"]),
        // Pickles: of protocol 2 and newer, then of 0 and 1.
        [0x80, ..] | [b'(', b'd' | b'l', b'p', ..] | [b'}' | b']', b'q', ..] => false,
        _ => !is_binary(head),
    }
}

/// Whether these bytes begin a memory timeline of `torch.profiler`: lists of numbers in a list.
fn is_timeline(text: &[u8]) -> bool {
    let inner = text.strip_prefix(b"[").and_then(|rest| rest.trim_ascii_start().strip_prefix(b"["));
    let numbers = |byte: &u8| byte.is_ascii_digit() || b"[]-, \n".contains(byte);
    inner.is_some_and(|inner| inner.iter().all(numbers) && inner.iter().any(u8::is_ascii_digit))
}

/// More than a few bytes that no text has.
fn is_binary(head: &[u8]) -> bool {
    let is_odd = |byte: &&u8| {
        (**byte < 0x20 && !byte.is_ascii_whitespace() && **byte != 0x1b && **byte != 0x08) || **byte == 0x7f
    };
    head.iter().filter(is_odd).count() > head.len() / 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_told_from_snapshots() {
        for log in [
            &b"Traceback (most recent call last):\n"[..],
            b"{\"level\": \"error\", \"message\": \"CUDA out of memory\"}\n",
            b"[rank0]: Traceback",
            b"[[0]] CUDA out of memory",
            b"(RayTrainWorker pid=12) boom",
            b"<frozen importlib._bootstrap>:488: RuntimeWarning",
            b"\xff\xfeT\0r\0",
            b"\x1b[31mred",
            b"",
        ] {
            assert!(is_log(log), "{}", log.escape_ascii());
        }
        for snapshot in [
            &b"\x80\x04}q"[..],
            b"{\"segments\": [], \"device_traces\": []}",
            b"{\n  \"schemaVersion\": 1, \"traceEvents\": [",
            b"[[-1, 1, 8192, 0], [-1, 1, 256, 0]",
            b"[[1795307854644869, 1795307854644869",
            b"(dp0\nS'segments'",
            b"}q\x00",
            b"<!DOCTYPE html><html>",
            b"PK\x03\x04\x00\x00\x01\x02",
        ] {
            assert!(!is_log(snapshot), "{}", snapshot.escape_ascii());
        }
    }
}
