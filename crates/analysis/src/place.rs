//! A call site in words: the one text that every table, finding and document shows for it.

use std::fmt::Write as _;

use highwater_snapshot::{FrameId, Snapshot, StackId};

use crate::Analysis;
use crate::callsite::{Lines, Site, Sites};
use crate::native::Native;

/// A frame as `train.py:12 step`: the file's name without its directories.
pub fn frame(snapshot: &Snapshot, id: FrameId) -> String {
    let frame = snapshot.frames.get(id);
    short(snapshot.text(frame.filename), snapshot.text(frame.name), frame.line)
}

/// As [`frame`], of a frame's parts.
pub fn short(path: &str, name: &str, line: u64) -> String {
    full(path.rsplit(['/', '\\']).next().unwrap_or(path), name, line)
}

/// A frame as `/home/me/train.py:12 step`, with what is known of it: native frames often lack the file, the line, or both.
pub fn full(file: &str, name: &str, line: u64) -> String {
    let mut text = String::with_capacity(file.len() + name.len() + 8);
    if !matches!(file, "" | "??") {
        text.push_str(file);
        // Writing to a string does not fail.
        let _ = match line {
            0 | u64::MAX => Ok(()),
            _ if is_shared_object(file) => write!(text, "+{line:#x}"),
            _ => write!(text, ":{line}"),
        };
        text.push(' ');
    }
    text.push_str(name);
    text
}

/// Whether the frame of this file was found without symbols: its line is an offset into the file.
///
/// # Source
/// `spec/snapshot-format.md` section 7.2.
fn is_shared_object(file: &str) -> bool {
    file.strip_suffix(".so").is_some() || file.contains(".so.")
}

/// A site in words, such as `attention_processor.py:1262 forward, from train.py:35 step`.
pub fn place(analysis: &Analysis<'_>, site: Site) -> String {
    place_in(analysis.snapshot, &analysis.sites, site, StackId::MISSING)
}

/// As [`place`], of a site with a stack of it, which says from where it was called; else some stack of it does.
pub fn place_in(snapshot: &Snapshot, sites: &Sites, site: Site, stack: StackId) -> String {
    match place_and_caller(snapshot, sites, site, stack) {
        (place, Some(caller)) => format!("{place}, from {caller}"),
        (place, None) => place,
    }
}

/// As [`place_in`], with the program's own line that it was called from, where that is another, for itself.
pub fn place_and_caller(snapshot: &Snapshot, sites: &Sites, site: Site, stack: StackId) -> (String, Option<String>) {
    match site {
        Site::Frame(id) => (frame(snapshot, id), caller(snapshot, sites, id, stack)),
        Site::Native { frame: id, forward: Some(forward) } => {
            let name = Native::of(snapshot.text(snapshot.frames.get(id).name)).map_or("autograd", Native::words);
            let place = format!("{name}, the backward of {}", frame(snapshot, forward));
            (place, caller(snapshot, sites, forward, StackId::MISSING))
        }
        Site::Native { frame: id, forward: None } => {
            let name = snapshot.text(snapshot.frames.get(id).name);
            let place = match Native::of(name) {
                Some(Native::Node(node)) => format!("{node} (autograd)"),
                Some(Native::Operator(operator)) => format!("{operator} (C++)"),
                Some(Native::Engine(words)) => words.to_owned(),
                None => name.to_owned(),
            };
            (place, None)
        }
        absent => (absent.absence().unwrap_or_default().to_owned(), None),
    }
}

/// The stack of an entry in words: as [`place_in`], of its own site.
pub fn stack(snapshot: &Snapshot, sites: &Sites, stack: StackId) -> String {
    place_in(snapshot, sites, sites.site(stack), stack)
}

/// The program's own line that a line was called from, where that is another.
fn caller(snapshot: &Snapshot, sites: &Sites, id: FrameId, stack: StackId) -> Option<String> {
    let stack = if stack == StackId::MISSING { sites.example(id) } else { stack };
    let own = sites.own(stack).filter(|&own| own != id && sites.lines() == Lines::Both)?;
    Some(frame(snapshot, own))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_frame_says_what_is_known_of_it() {
        let table: Value = serde_json::from_str(include_str!("../../../testdata/frames.json")).unwrap();
        for row in table["frames"].as_array().unwrap() {
            let text = |at: usize| row[at].as_str().unwrap();
            assert_eq!(short(text(0), text(2), row[1].as_u64().unwrap()), text(3));
        }
    }
}
