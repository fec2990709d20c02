//! Which line of the forward pass a node of autograd's graph belongs to.
//!
//! A backward pass runs the nodes in the reverse order of their operators. Where C++ frames were recorded, a forward stack names
//! the operator that autograd records (`VariableType::bmm`), and a backward stack names the node (`BmmBackward0`). Operators and
//! nodes of one name are paired from the middle outwards, within a run of forward allocations and the backward ones behind it.
//! Where their numbers do not fit, only a line that all of the operators share is told.

use highwater_snapshot::{Action, EntryTable, FrameId, Snapshot, StackId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::callsite::{Site, Sites};
use crate::native;

/// The forward line of the nodes that allocate, by entry.
pub(crate) type ForwardLines = FxHashMap<u32, FrameId>;

/// Words that an operator's name ends in beside its node's: the overload, mostly.
const OVERLOADS: [&str; 12] =
    ["dim", "self", "forward", "correction", "out", "int", "vec", "names", "start", "using", "default", "scalar"];

/// What a stack is in the order of operators and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Neither,
    /// An operator that autograd records, and the line that calls it.
    Forward(u32, FrameId),
    Node(u32),
}

/// Finds the lines, in time linear in the entries.
pub(crate) fn forward_lines(snapshot: &Snapshot, entries: &EntryTable, sites: &Sites) -> ForwardLines {
    let roles = roles(snapshot, sites);
    let mut found = ForwardLines::default();
    if !roles.iter().any(|role| matches!(role, Role::Node(_))) {
        return found;
    }
    let mut window = Window::default();
    for (row, (&action, &stack)) in entries.actions().iter().zip(entries.stacks()).enumerate() {
        if action != Action::ALLOC {
            continue;
        }
        match roles.get(stack.index()).copied().unwrap_or(Role::Neither) {
            Role::Neither => {}
            Role::Forward(operator, line) => {
                if !window.nodes.is_empty() {
                    window.close(&mut found);
                }
                window.forward(operator, line, stack);
            }
            Role::Node(operator) => window.nodes.entry(operator).or_default().push(crate::lifetime::number(row)),
        }
    }
    window.close(&mut found);
    found
}

/// A forward pass, or a part of one, and the backward pass behind it.
#[derive(Default)]
struct Window {
    /// The lines of each operator, one for each call, in order.
    forward: FxHashMap<u32, Vec<FrameId>>,
    /// The entries of each node's allocations, in order.
    nodes: FxHashMap<u32, Vec<u32>>,
    /// What the window before left without a node.
    left: FxHashMap<u32, Vec<FrameId>>,
    /// The call under way, and the stacks of its allocations.
    call: Option<(u32, FrameId)>,
    stacks: FxHashSet<StackId>,
}

impl Window {
    fn forward(&mut self, operator: u32, line: FrameId, stack: StackId) {
        // One call may allocate several times, each time from another place within it.
        if self.call != Some((operator, line)) || self.stacks.contains(&stack) {
            self.call = Some((operator, line));
            self.stacks.clear();
            self.forward.entry(operator).or_default().push(line);
        }
        self.stacks.insert(stack);
    }

    fn close(&mut self, found: &mut ForwardLines) {
        let nodes = std::mem::take(&mut self.nodes);
        let mut forward = std::mem::take(&mut self.forward);
        for (operator, entries) in nodes {
            let lines = forward.remove(&operator).unwrap_or_default();
            let left = self.left.remove(&operator).unwrap_or_default();
            let is_one = lines.iter().chain(&left).all(|line| Some(line) == lines.first());
            if is_one && let Some(&line) = lines.first() {
                found.extend(entries.iter().map(|&entry| (entry, line)));
            } else if left.is_empty() && !lines.is_empty() && entries.len().is_multiple_of(lines.len()) {
                let each = entries.len() / lines.len();
                let lines = lines.iter().rev().flat_map(|&line| std::iter::repeat_n(line, each));
                found.extend(entries.iter().copied().zip(lines));
            } else {
                forward.insert(operator, lines);
            }
        }
        self.left = forward;
        self.call = None;
        self.stacks.clear();
    }
}

fn roles(snapshot: &Snapshot, sites: &Sites) -> Vec<Role> {
    // Nodes first: an operator's name is read by them.
    let mut ids: FxHashMap<String, u32> = FxHashMap::default();
    let mut node_of = vec![None; snapshot.frames.len()];
    for (id, _) in snapshot.stacks.iter() {
        if let Site::Native { frame, .. } = sites.site(id)
            && let Some(node) = sites.site(id).node(snapshot)
        {
            let next = crate::lifetime::number(ids.len());
            node_of[frame.index()] = Some(*ids.entry(stem(node)).or_insert(next));
        }
    }
    if ids.is_empty() {
        return Vec::new();
    }
    let operator_of: Vec<Option<u32>> = snapshot
        .frames
        .iter()
        .map(|(_, frame)| native::recorded_operator(snapshot.text(frame.name)).and_then(|name| by_stem(name, &ids)))
        .collect();
    let is_engine: Vec<bool> =
        snapshot.frames.iter().map(|(_, frame)| snapshot.text(frame.name).contains("autograd::Engine::")).collect();
    let recomputes: Vec<bool> = snapshot
        .frames
        .iter()
        .map(|(_, frame)| snapshot.text(frame.filename).replace('\\', "/").contains("torch/utils/checkpoint.py"))
        .collect();
    let role = |(id, frames): (StackId, &[FrameId])| match sites.site(id) {
        Site::Native { frame, .. } => node_of[frame.index()].map_or(Role::Neither, Role::Node),
        Site::Frame(line) => {
            let operator = frames.iter().find_map(|frame| operator_of[frame.index()]);
            let has = |which: &[bool]| frames.iter().any(|frame| which[frame.index()]);
            match operator {
                // Python that a backward pass calls is a part of it, unless it makes a forward pass again.
                Some(operator) if !has(&is_engine) || has(&recomputes) => Role::Forward(operator, line),
                _ => Role::Neither,
            }
        }
        _ => Role::Neither,
    };
    snapshot.stacks.iter().map(role).collect()
}

/// `softmax` of `SoftmaxBackward0`.
fn stem(node: &str) -> String {
    let name = node.trim_end_matches(|c: char| c.is_ascii_digit());
    name.strip_suffix("Backward").unwrap_or(name).to_lowercase()
}

/// The node of an operator: that of the most words that the operator's name begins with, if an overload's are the rest.
fn by_stem(operator: &str, ids: &FxHashMap<String, u32>) -> Option<u32> {
    let words: Vec<&str> = operator.split('_').filter(|word| !word.is_empty()).take(16).collect();
    let is_overload = |word: &str| word.starts_with(|c: char| c.is_ascii_uppercase()) || OVERLOADS.contains(&word);
    (1..=words.len())
        .rev()
        .filter(|&n| words.get(n).is_none_or(|word| is_overload(word)))
        .find_map(|n| ids.get(&words[..n].concat().to_lowercase()).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_have_the_nodes_that_autograd_records_for_them() {
        let nodes = [
            "BmmBackward0",
            "SoftmaxBackward0",
            "MulBackward0",
            "MaxPool2DWithIndicesBackward0",
            "NllLossBackward0",
            "MaxBackward0",
            "SumBackward1",
        ];
        let ids: FxHashMap<String, u32> = nodes.iter().map(|node| stem(node)).zip(0..).collect();
        for (operator, want) in [
            ("bmm", Some(0)),
            ("_softmax", Some(1)),
            ("mul_Tensor", Some(2)),
            ("max_pool2d_with_indices", Some(3)),
            ("nll_loss_forward", Some(4)),
            ("max_dim", Some(5)),
            ("sum_dim_IntList", Some(6)),
            ("multinomial", None),
            ("max_unpool2d", None),
            ("_", None),
        ] {
            assert_eq!(by_stem(operator, &ids), want, "{operator}");
        }
    }

    fn line(number: usize) -> FrameId {
        FrameId::from_index(number)
    }

    #[test]
    fn nodes_run_in_the_reverse_order_of_their_operators() {
        let mut window = Window::default();
        for (at, stack) in [(10, 1), (20, 2), (10, 1), (20, 2)] {
            window.forward(0, line(at), StackId::from_index(stack));
        }
        // Two allocations each.
        window.nodes.insert(0, (100..108).collect());
        let mut found = ForwardLines::default();
        window.close(&mut found);
        let lines: Vec<usize> = (100..108).map(|entry| found[&entry].index()).collect();
        assert_eq!(lines, [20, 20, 10, 10, 20, 20, 10, 10]);
    }

    #[test]
    fn numbers_that_do_not_fit_tell_no_line() {
        let mut found = ForwardLines::default();
        let mut window = Window::default();
        window.forward(0, line(10), StackId::from_index(1));
        window.forward(0, line(20), StackId::from_index(2));
        window.nodes.insert(0, vec![100, 101, 102]);
        window.close(&mut found);
        assert!(found.is_empty());
        // What was left may be what the next nodes belong to.
        window.forward(0, line(10), StackId::from_index(1));
        window.nodes.insert(0, vec![200]);
        window.close(&mut found);
        assert!(found.is_empty());
    }
}
