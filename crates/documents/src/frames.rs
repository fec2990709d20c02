//! Stacks in documents.

use highwater_analysis::view::FrameView;
use highwater_snapshot::{Snapshot, StackId};
use serde::{Serialize, Serializer};

/// The frames of a stack, innermost first; serialized as they are read, for stacks are long and there are many.
#[derive(Clone, Copy, Debug)]
pub struct StackFrames<'a> {
    /// Where the stack is from.
    pub snapshot: &'a Snapshot,
    /// Which stack.
    pub stack: StackId,
}

impl Serialize for StackFrames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { snapshot, stack } = *self;
        serializer.collect_seq(snapshot.stack(stack).map(|frame| FrameView {
            name: snapshot.text(frame.name),
            filename: snapshot.text(frame.filename),
            line: frame.line,
        }))
    }
}
