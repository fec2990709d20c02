//! Frames and stacks as text.

use highwater_analysis::callsite::Sites;
use highwater_analysis::place;
use highwater_documents::PlaceView;
use highwater_output::printable::printable;
use highwater_snapshot::{Frame, Snapshot, StackId};

/// A frame as `train.py:12 step`: the file's name without its directories.
pub fn short(snapshot: &Snapshot, frame: Frame) -> String {
    short_of(snapshot.text(frame.filename), snapshot.text(frame.name), frame.line)
}

/// As [`short`], of a frame's parts.
pub fn short_of(path: &str, name: &str, line: u64) -> String {
    printable(&place::short(path, name, line)).into_owned()
}

/// A frame as `/home/me/train.py:12 step`.
pub fn full(snapshot: &Snapshot, frame: Frame) -> String {
    printable(&place::full(snapshot.text(frame.filename), snapshot.text(frame.name), frame.line)).into_owned()
}

/// The call site of a stack in a few words, or why there is none.
pub fn owner(snapshot: &Snapshot, sites: &Sites, stack: StackId) -> String {
    printable(&place::stack(snapshot, sites, stack)).into_owned()
}

/// The words of a document for a call site.
pub fn place_of(at: &PlaceView<'_>) -> String {
    if at.place.is_empty() { "(no stack)".to_owned() } else { printable(&at.place).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_file_do_not_reach_the_terminal_raw() {
        assert_eq!(short_of("a\x1b[2J.py", "f\n", 1), r"a\u{1b}[2J.py:1 f\n");
    }
}
