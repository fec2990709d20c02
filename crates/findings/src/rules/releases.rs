//! Where memory goes back to the driver: by the program, or because a request found no room.

use std::ops::Range;

use highwater_snapshot::{Action, EntryTable};

/// A run of entries that give memory back.
pub(super) struct Release {
    /// The entries.
    pub(super) rows: Range<usize>,
    /// What they give back.
    pub(super) bytes: u64,
    /// A request made them: they have its stack, and what it reserves follows.
    pub(super) is_for_request: bool,
}

/// Every run of releases, in order: one pass.
pub(super) fn releases(entries: &EntryTable) -> Vec<Release> {
    let (actions, stacks, sizes) = (entries.actions(), entries.stacks(), entries.sizes_bytes());
    let gives_back = |row: usize| matches!(actions[row], Action::SEGMENT_FREE | Action::SEGMENT_UNMAP);
    let mut releases = Vec::new();
    let mut row = 0;
    while row < actions.len() {
        if !gives_back(row) {
            row += 1;
            continue;
        }
        let start = row;
        while row < actions.len() && gives_back(row) {
            row += 1;
        }
        let is_request =
            |action| matches!(action, Action::SEGMENT_ALLOC | Action::SEGMENT_MAP | Action::ALLOC | Action::OOM);
        releases.push(Release {
            rows: start..row,
            bytes: sizes[start..row].iter().copied().fold(0, u64::saturating_add),
            is_for_request: row < actions.len() && is_request(actions[row]) && stacks[row] == stacks[start],
        });
    }
    releases
}
