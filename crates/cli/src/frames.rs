//! Frames and stacks as text and as JSON.

use std::fmt::Write as _;

use highwater_analysis::callsite::{Site, Sites};
use highwater_snapshot::{Frame, Snapshot, StackId};
use serde::{Serialize, Serializer};

use crate::printable::printable;

/// A frame as `train.py:12 step`: the file's name without its directories.
pub(crate) fn short(snapshot: &Snapshot, frame: Frame) -> String {
    short_of(snapshot.text(frame.filename), snapshot.text(frame.name), frame.line)
}

/// As [`short`], of a frame's parts.
pub(crate) fn short_of(path: &str, name: &str, line: u64) -> String {
    describe(path.rsplit(['/', '\\']).next().unwrap_or(path), name, line)
}

/// A frame as `/home/me/train.py:12 step`.
pub(crate) fn full(snapshot: &Snapshot, frame: Frame) -> String {
    describe(snapshot.text(frame.filename), snapshot.text(frame.name), frame.line)
}

/// Names what is known: native frames often lack the file, the line, or both.
fn describe(file: &str, name: &str, line: u64) -> String {
    let mut text = String::with_capacity(file.len() + name.len() + 8);
    if !matches!(file, "" | "??") {
        text.push_str(&printable(file));
        // Writing to a string does not fail.
        let _ = match line {
            0 | u64::MAX => Ok(()),
            _ if is_shared_object(file) => write!(text, "+{line:#x}"),
            _ => write!(text, ":{line}"),
        };
        text.push(' ');
    }
    text.push_str(&printable(name));
    text
}

/// Whether the frame of this file was found without symbols: its line is an offset into the file.
///
/// # Source
/// `spec/snapshot-format.md` section 7.2.
fn is_shared_object(file: &str) -> bool {
    file.strip_suffix(".so").is_some() || file.contains(".so.")
}

/// The call site of a stack in a few words: the innermost frame of the user's own code, or why there is none.
pub(crate) fn owner(snapshot: &Snapshot, sites: &Sites, stack: StackId) -> String {
    match sites.site(stack) {
        Site::Frame(frame) => short(snapshot, snapshot.frames.get(frame)),
        other => other.label().unwrap_or_default().to_owned(),
    }
}

/// The frames of a stack as JSON, innermost first.
pub(crate) struct Frames<'a> {
    /// Where the stack is from.
    pub(crate) snapshot: &'a Snapshot,
    /// Which stack.
    pub(crate) stack: StackId,
}

#[derive(Serialize)]
struct FrameJson<'a> {
    name: &'a str,
    filename: &'a str,
    line: u64,
}

impl Serialize for Frames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { snapshot, stack } = *self;
        serializer.collect_seq(snapshot.stack(stack).map(|frame| FrameJson {
            name: snapshot.text(frame.name),
            filename: snapshot.text(frame.filename),
            line: frame.line,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_is_known_of_it() {
        assert_eq!(describe("train.py", "step", 12), "train.py:12 step");
        assert_eq!(describe("??", "at::empty", 0), "at::empty");
        assert_eq!(describe("Functions.cpp", "apply", 0), "Functions.cpp apply");
        assert_eq!(describe("libc.so.6", "??", 0x29d90), "libc.so.6+0x29d90 ??");
        assert_eq!(describe("a.cpp", "f", u64::MAX), "a.cpp f");
        assert_eq!(describe("a\x1b[2J.py", "f\n", 1), r"a\u{1b}[2J.py:1 f\n");
    }
}
