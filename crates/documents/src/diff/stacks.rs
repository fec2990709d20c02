//! The stacks of two recordings in one tree, as the viewer draws it.

use highwater_analysis::place;
use highwater_findings::diff::SiteName;
use highwater_findings::diff_stacks::StackTree;
use serde::Serialize;

/// Both recordings' stacks, merged by their frames.
#[derive(Clone, Debug, Serialize)]
pub struct StackTreeView {
    /// Bytes of all stacks, in each recording.
    pub bytes: [u64; 2],
    /// Callers before callees.
    pub nodes: Vec<StackNodeView>,
}

/// A frame below its callers.
#[derive(Clone, Debug, Serialize)]
pub struct StackNodeView {
    /// The place of its caller; null of an outermost frame.
    pub parent: Option<usize>,
    /// The frame in words, such as `train.py:12 step`.
    pub text: String,
    /// Bytes that it and all below it hold, in each recording.
    pub bytes: [u64; 2],
}

impl StackTreeView {
    /// The view of a tree.
    pub fn new(tree: &StackTree<'_>) -> Self {
        let text = |name: &SiteName<'_>| match name.label {
            Some(label) => label.to_owned(),
            None => place::short(name.file, name.name, name.line),
        };
        let nodes = tree.nodes.iter();
        Self {
            bytes: tree.bytes,
            nodes: nodes
                .map(|node| StackNodeView { parent: node.parent, text: text(&node.name), bytes: node.bytes })
                .collect(),
        }
    }
}
