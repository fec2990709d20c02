//! Which addresses are taken at which moments, for placing blocks one after another in any order.

use super::moments::Span;

/// Addresses `low..high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    low: u64,
    high: u64,
}

/// Runs of addresses that neither touch nor overlap, ascending.
#[derive(Clone, Debug, Default)]
struct Runs(Vec<Run>);

impl Runs {
    /// Adds a run; how many others had to move for it.
    fn add(&mut self, new: Run) -> usize {
        let first = self.0.partition_point(|run| run.high < new.low);
        let Some(run) = self.0.get_mut(first).filter(|run| run.low <= new.high) else {
            self.0.insert(first, new);
            return self.0.len() - first;
        };
        run.low = run.low.min(new.low);
        if run.high >= new.high {
            return 0;
        }
        run.high = new.high;
        let joined = self.0[first + 1..].partition_point(|run| run.low <= new.high);
        if joined == 0 {
            return 0;
        }
        self.0[first].high = new.high.max(self.0[first + joined].high);
        self.0.drain(first + 1..=first + joined);
        self.0.len() - first
    }
}

/// Moments in a leaf of the tree: what is live in a part of one only is looked at block by block.
const LEAF: usize = 8;

/// Moving so many runs within a list costs as much as looking at one.
const MOVES_A_LOOK: usize = 64;

/// A tree over time.
///
/// A placed block is noted at the few nodes that make up its life (`whole`), and at all above them (`ever`). What
/// stands in the way of a new block is then a union of a few short lists, for blocks that are packed tightly are one
/// run: placing a block costs O(log moments) lists.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    /// A power of two. Node 1 is the root; the children of node `i` are `2i` and `2i + 1`.
    leaves: usize,
    /// For each node, addresses that are taken during all of its time, by the blocks noted here.
    whole: Vec<Runs>,
    /// For each node, addresses that are taken at some moment of its time, by the blocks noted here or below.
    ever: Vec<Runs>,
    /// For each leaf, the blocks that are live in a part of it.
    parts: Vec<Vec<(Span, Run)>>,
    /// Scratch: what `parts` put in the way of the block at hand.
    near: Runs,
    /// The work so far: runs looked at.
    pub(super) looks: u64,
}

impl Occupancy {
    /// Nothing placed yet.
    pub(super) fn new(moments: usize) -> Self {
        let leaves = moments.div_ceil(LEAF).max(1).next_power_of_two();
        Self {
            leaves,
            whole: vec![Runs::default(); 2 * leaves],
            ever: vec![Runs::default(); 2 * leaves],
            parts: vec![Vec::new(); leaves],
            near: Runs::default(),
            looks: 0,
        }
    }

    /// Forgets all blocks.
    pub(super) fn clear(&mut self) {
        self.whole.iter_mut().chain(&mut self.ever).for_each(|runs| runs.0.clear());
        self.parts.iter_mut().for_each(Vec::clear);
    }

    /// The lowest address at which the block overlaps no other.
    pub(super) fn lowest_fit(&mut self, span: Span) -> u64 {
        let mut near = std::mem::take(&mut self.near);
        near.0.clear();
        let mut lists = Vec::with_capacity(64);
        self.collect(self.root(), span, &mut lists, &mut near.0);
        near.0.sort_unstable();
        near.0.dedup_by(|next, last| {
            let joined = next.low <= last.high;
            if joined {
                last.high = last.high.max(next.high);
            }
            joined
        });
        lists.push(&near.0);
        let (address, looks) = lowest_gap(&mut lists, span.bytes);
        self.near = near;
        self.looks += looks;
        address
    }

    /// Notes a block.
    pub(super) fn insert(&mut self, span: Span, address: u64) {
        let run = Run { low: address, high: address + span.bytes };
        let moved = self.note(self.root(), span, run);
        self.looks += (moved / MOVES_A_LOOK) as u64;
    }

    fn root(&self) -> Node {
        Node { id: 1, first: 0, leaves: self.leaves }
    }

    /// The lists that stand in the way of a block, and what `parts` of leaves add to them.
    fn collect<'a>(&'a self, node: Node, span: Span, lists: &mut Vec<&'a [Run]>, near: &mut Vec<Run>) {
        if node.is_within(span) {
            lists.push(&self.ever[node.id].0);
            return;
        }
        lists.push(&self.whole[node.id].0);
        match node.children() {
            Some(children) => {
                for child in children.into_iter().filter(|child| child.meets(span)) {
                    self.collect(child, span, lists, near);
                }
            }
            None => {
                let parts = self.parts[node.first].iter();
                near.extend(parts.filter(|(other, _)| other.meets(span)).map(|&(_, run)| run));
            }
        }
    }

    fn note(&mut self, node: Node, span: Span, run: Run) -> usize {
        let mut moved = self.ever[node.id].add(run);
        if node.is_within(span) {
            return moved + self.whole[node.id].add(run);
        }
        match node.children() {
            Some(children) => {
                for child in children.into_iter().filter(|child| child.meets(span)) {
                    moved += self.note(child, span, run);
                }
            }
            None => self.parts[node.first].push((span, run)),
        }
        moved
    }
}

/// A node of the tree, and the leaves below it.
#[derive(Clone, Copy)]
struct Node {
    id: usize,
    first: usize,
    leaves: usize,
}

impl Node {
    fn children(self) -> Option<[Self; 2]> {
        let leaves = self.leaves / 2;
        let child = |side| Self { id: 2 * self.id + side, first: self.first + side * leaves, leaves };
        (leaves > 0).then(|| [child(0), child(1)])
    }

    /// Whether a block is live during all of its time.
    fn is_within(self, span: Span) -> bool {
        span.from as usize <= self.first * LEAF && (self.first + self.leaves) * LEAF <= span.to as usize
    }

    /// Whether a block is live during some of its time.
    fn meets(self, span: Span) -> bool {
        (span.from as usize) < (self.first + self.leaves) * LEAF && self.first * LEAF < span.to as usize
    }
}

/// The lowest address from which `bytes` are in no run of any list, and how many runs were looked at.
///
/// Each list in turn lifts the address past what is in its way, until none does.
fn lowest_gap(lists: &mut [&[Run]], bytes: u64) -> (u64, u64) {
    let (mut address, mut looks) = (0, 0);
    let (mut index, mut agreeing) = (0, 0);
    while agreeing < lists.len() {
        let before = address;
        let mut list = skip(lists[index], address);
        while let [run, rest @ ..] = list
            && run.low < address + bytes
        {
            address = run.high;
            list = rest;
            looks += 1;
        }
        lists[index] = list;
        looks += 1;
        agreeing = if address == before { agreeing + 1 } else { 1 };
        index = if index + 1 == lists.len() { 0 } else { index + 1 };
    }
    (address, looks)
}

/// The runs that end above `address`; the steps double, for mostly it is few that do not.
fn skip(list: &[Run], address: u64) -> &[Run] {
    let mut step = 1;
    while list.get(step - 1).is_some_and(|run| run.high <= address) {
        step *= 2;
    }
    let (known, end) = (step / 2, step.min(list.len()));
    &list[known + list[known..end].partition_point(|run| run.high <= address)..]
}
