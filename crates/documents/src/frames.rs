//! Stacks in documents.

use crate::FrameView;
use highwater_snapshot::{Snapshot, StackId};
use serde::{Serialize, Serializer};

/// The frames of a stack, innermost first; serialized as they are read, for stacks are long and there are many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackFrames<'a> {
    /// Where the stack is from.
    pub(crate) snapshot: &'a Snapshot,
    /// Which stack.
    pub(crate) stack: StackId,
}

impl<'a> StackFrames<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = FrameView<'a>> + use<'a> {
        let Self { snapshot, stack } = self;
        snapshot.stack(stack).map(|frame| FrameView {
            name: snapshot.text(frame.name),
            filename: snapshot.text(frame.filename),
            line: frame.line,
        })
    }
}

impl Serialize for StackFrames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}
