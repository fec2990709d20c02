//! The stacks that hold memory in two recordings, in one tree: what grew, and under which frames.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use highwater_analysis::callsite::Site;
use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_snapshot::{EntryId, StackId};

use crate::diff::{SiteName, name_of};

/// A part of the larger total that is too small to be drawn.
const TOO_SMALL: u64 = 10_000;

/// A frame below its callers, in either recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackNode<'a> {
    /// Its caller's place in the list, which is before its own; `None` of an outermost frame.
    pub parent: Option<usize>,
    /// Names survive another directory, and a line that moved: it is that of the last recording that has the frame.
    pub name: SiteName<'a>,
    /// Bytes that it and all below it hold, in each recording.
    pub bytes: [u64; 2],
}

/// Both recordings' stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackTree<'a> {
    /// Callers before callees.
    pub nodes: Vec<StackNode<'a>>,
    /// Bytes in each recording, of all stacks.
    pub bytes: [u64; 2],
}

/// The stacks of what counts after an entry of each recording, merged by their frames.
///
/// Frames that hold less than a ten-thousandth of the larger total in both are left out, with all below them.
pub fn merged_stacks<'a>(sides: [(&'a Analysis<'a>, &'a DeviceAnalysis<'a>, Option<EntryId>); 2]) -> StackTree<'a> {
    let mut tree = StackTree::default();
    let mut known: HashMap<(Option<usize>, SiteName<'a>), usize> = HashMap::new();
    for (side, (analysis, device, after)) in sides.into_iter().enumerate() {
        let snapshot = analysis.snapshot;
        let mut by_stack: HashMap<(StackId, Option<&'static str>), u64> = HashMap::new();
        for (lifetime, bytes) in device.counted(after, snapshot) {
            let label = device.site(lifetime, &analysis.sites).absence();
            let sum = by_stack.entry((lifetime.stack, label)).or_default();
            *sum = sum.saturating_add(bytes);
        }
        // In an order of their own, so that the same files give the same tree.
        let mut stacks: Vec<_> = by_stack.into_iter().collect();
        stacks.sort_unstable();
        for ((stack, label), bytes) in stacks {
            tree.bytes[side] = tree.bytes[side].saturating_add(bytes);
            let frames = snapshot.stacks.get(stack).iter().rev();
            let names = frames.map(|&frame| name_of(snapshot, Site::Frame(frame)));
            let label = label.map(|label| SiteName { label: Some(label), ..SiteName::default() });
            let mut parent = None;
            for name in names.chain(label) {
                let at = match known.entry((parent, SiteName { line: 0, ..name })) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(place) => {
                        tree.nodes.push(StackNode { parent, name, bytes: [0; 2] });
                        *place.insert(tree.nodes.len() - 1)
                    }
                };
                let node = &mut tree.nodes[at];
                node.name.line = name.line;
                node.bytes[side] = node.bytes[side].saturating_add(bytes);
                parent = Some(at);
            }
        }
    }
    tree.without_small()
}

impl StackTree<'_> {
    fn without_small(mut self) -> Self {
        let least = self.bytes[0].max(self.bytes[1]) / TOO_SMALL;
        let mut places: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        let mut kept = 0;
        self.nodes.retain_mut(|node| {
            // What holds enough has callers that do.
            node.parent = node.parent.and_then(|parent| places[parent]);
            let is_kept = node.bytes[0].max(node.bytes[1]) > least;
            places.push(is_kept.then_some(kept));
            kept += usize::from(is_kept);
            is_kept
        });
        self
    }
}
