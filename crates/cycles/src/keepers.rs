//! What keeps a node: the nearest cycle that leads to it, and the way.

use std::collections::{HashMap, VecDeque};

use crate::{Components, Graph};

/// Edges that the searches for the smallest cycles may follow together: a third of a second.
///
/// It is needed where thousands of nodes hang on one component of as many: each asks for the smallest cycle through another node.
pub const WORK_LIMIT: usize = 50_000_000;

const NONE: u32 = u32::MAX;

/// What [`keepers`] finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keepers {
    /// The cycles that are named by `kept`, each once.
    pub cycles: Vec<Cycle>,
    /// For each node that was asked for what keeps it, `None` if no cycle does.
    pub kept: Vec<Option<Kept>>,
}

/// A cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Its nodes, each referring to the next and the last to the first.
    pub nodes: Vec<u32>,
    /// A number that the cycles of one strongly connected component have in common.
    pub component: u32,
    /// How many nodes that component has.
    pub component_size: u32,
    /// Whether no cycle through the first node is smaller; where the search was cut short, that is not known.
    pub is_smallest: bool,
}

/// What keeps a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The index of the cycle.
    pub cycle: usize,
    /// The way from the cycle's first node to the one that was asked for, with both; only that node, if it is on the cycle itself.
    pub path: Vec<u32>,
    /// Whether no other cycle leads to the node, so that breaking this one frees it.
    pub is_only_cycle: bool,
}

/// Finds what keeps each of the `asked` nodes: of all nodes on cycles the nearest, and the smallest cycle through it.
pub fn keepers(graph: &Graph, asked: &[u32]) -> Keepers {
    keepers_within(graph, asked, WORK_LIMIT)
}

/// As [`keepers`], with another limit than [`WORK_LIMIT`].
pub fn keepers_within(graph: &Graph, asked: &[u32], work_limit: usize) -> Keepers {
    let components = Components::new(graph);
    let leading = leading_cycles(graph, &components);
    let parents = nearest(graph, &components);
    let mut search = Search::new(graph, &components, work_limit);
    let kept = asked.iter().map(|&node| {
        let [Some(first), second] = leading[components.of(node) as usize] else { return None };
        let outward = way_back(&parents, node);
        let (cycle, inward) = search.cycle_at(outward[0]);
        let path = inward.iter().chain(&outward[1..]).copied().collect();
        let is_only_cycle = second.is_none() && components.is_one_cycle(first);
        Some(Kept { cycle, path, is_only_cycle })
    });
    let kept = kept.collect();
    Keepers { cycles: search.cycles, kept }
}

/// For each component up to two components with cycles that lead to it, itself among them: two are as telling as many.
fn leading_cycles(graph: &Graph, components: &Components) -> Vec<[Option<u32>; 2]> {
    let mut leading = vec![[None; 2]; components.count() as usize];
    for component in (0..components.count()).rev() {
        if components.is_cyclic(component) {
            note(&mut leading[component as usize], component);
        }
        let known = leading[component as usize];
        for &node in components.members(component) {
            for &next in graph.references(node) {
                let other = components.of(next);
                if other != component {
                    known.iter().flatten().for_each(|&cycle| note(&mut leading[other as usize], cycle));
                }
            }
        }
    }
    leading
}

fn note(places: &mut [Option<u32>; 2], cycle: u32) {
    if places.contains(&Some(cycle)) {
        return;
    }
    if let Some(place) = places.iter_mut().find(|place| place.is_none()) {
        *place = Some(cycle);
    }
}

/// For each node the one before it on the shortest way from a node on a cycle; itself if it is on one, `NONE` if there is no way.
fn nearest(graph: &Graph, components: &Components) -> Vec<u32> {
    let on_cycles = (0..graph.count()).filter(|&node| components.is_cyclic(components.of(node)));
    let mut parents = vec![NONE; graph.count() as usize];
    spread(graph, on_cycles, &mut parents, |_| true);
    parents
}

/// Goes breadth first from some nodes over those that `may` be entered, and notes whence each was reached first.
fn spread(graph: &Graph, from: impl Iterator<Item = u32>, parents: &mut [u32], may: impl Fn(u32) -> bool) {
    let mut waiting: VecDeque<u32> = from.collect();
    for &node in &waiting {
        parents[node as usize] = node;
    }
    while let Some(node) = waiting.pop_front() {
        for &next in graph.references(node) {
            if parents[next as usize] == NONE && may(next) {
                parents[next as usize] = node;
                waiting.push_back(next);
            }
        }
    }
}

/// The way to a node from where it begins.
fn way_back(parents: &[u32], mut node: u32) -> Vec<u32> {
    let mut way = vec![node];
    while parents[node as usize] != node {
        node = parents[node as usize];
        way.push(node);
    }
    way.reverse();
    way
}

/// The search for the smallest cycles.
struct Search<'graph> {
    graph: &'graph Graph,
    components: &'graph Components,
    work_left: usize,
    cycles: Vec<Cycle>,
    /// The cycle that was found for a node, or for want of time for its component.
    by_anchor: HashMap<u32, usize>,
    /// The first cycle that was found in a component.
    by_component: HashMap<u32, usize>,
    /// Whence each node was reached, and in which search.
    parents: Vec<(u32, u32)>,
    searches: u32,
    /// The ways from the first cycle of a component to all of its nodes, where they were needed.
    inward: Vec<u32>,
}

impl<'graph> Search<'graph> {
    fn new(graph: &'graph Graph, components: &'graph Components, work_left: usize) -> Self {
        Self {
            graph,
            components,
            work_left,
            cycles: Vec::new(),
            by_anchor: HashMap::new(),
            by_component: HashMap::new(),
            parents: vec![(NONE, 0); graph.count() as usize],
            searches: 0,
            inward: Vec::new(),
        }
    }

    /// A cycle near a node that is on one, and the way from the cycle's first node to it.
    fn cycle_at(&mut self, anchor: u32) -> (usize, Vec<u32>) {
        if let Some(&cycle) = self.by_anchor.get(&anchor) {
            return (cycle, vec![anchor]);
        }
        let component = self.components.of(anchor);
        if self.work_left == 0
            && let Some(&known) = self.by_component.get(&component)
        {
            return self.known_cycle(known, anchor);
        }
        let nodes = self.smallest(anchor);
        let cycle = self.add(nodes, component, true);
        self.by_component.entry(component).or_insert(cycle);
        (cycle, vec![anchor])
    }

    fn add(&mut self, nodes: Vec<u32>, component: u32, is_smallest: bool) -> usize {
        let size = self.components.members(component).len();
        let component_size = u32::try_from(size).expect("nodes are counted in 32 bits");
        let cycle = self.cycles.len();
        self.by_anchor.insert(nodes[0], cycle);
        self.cycles.push(Cycle { nodes, component, component_size, is_smallest });
        cycle
    }

    /// The cycle that is known of a component, turned so that the way to `anchor` begins at its first node.
    fn known_cycle(&mut self, known: usize, anchor: u32) -> (usize, Vec<u32>) {
        let component = self.components.of(anchor);
        if self.inward.is_empty() {
            self.inward = vec![NONE; self.graph.count() as usize];
        }
        if self.inward[anchor as usize] == NONE {
            let from = self.cycles[known].nodes.clone();
            spread(self.graph, from.into_iter(), &mut self.inward, |node| self.components.of(node) == component);
        }
        let inward = way_back(&self.inward, anchor);
        if let Some(&cycle) = self.by_anchor.get(&inward[0]) {
            return (cycle, inward);
        }
        let mut nodes = self.cycles[known].nodes.clone();
        let turn = nodes.iter().position(|&node| node == inward[0]).expect("ways begin on the cycle");
        nodes.rotate_left(turn);
        (self.add(nodes, component, false), inward)
    }

    /// The smallest cycle through a node: breadth first within its component, until something refers to it.
    fn smallest(&mut self, anchor: u32) -> Vec<u32> {
        let component = self.components.of(anchor);
        self.searches += 1;
        let mut waiting = VecDeque::from([anchor]);
        self.parents[anchor as usize] = (anchor, self.searches);
        while let Some(node) = waiting.pop_front() {
            let references = self.graph.references(node);
            self.work_left = self.work_left.saturating_sub(references.len());
            if references.binary_search(&anchor).is_ok() {
                return self.way_to(node);
            }
            for &next in references {
                if self.parents[next as usize].1 != self.searches && self.components.of(next) == component {
                    self.parents[next as usize] = (node, self.searches);
                    waiting.push_back(next);
                }
            }
        }
        unreachable!("a node of a component with a cycle is on one")
    }

    fn way_to(&self, mut node: u32) -> Vec<u32> {
        let mut way = vec![node];
        while self.parents[node as usize].0 != node {
            node = self.parents[node as usize].0;
            way.push(node);
        }
        way.reverse();
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_cycle_is_named() {
        // A large ring leads to a small one, and that to node 6.
        let graph = Graph::new(7, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (4, 5), (5, 6)]).unwrap();
        let found = keepers(&graph, &[6, 0]);
        let kept = found.kept[0].as_ref().unwrap();
        assert_eq!(found.cycles[kept.cycle].nodes, [4, 3]);
        assert_eq!(kept.path, [4, 5, 6]);
        assert!(!kept.is_only_cycle, "the large ring leads there, too");
        let kept = found.kept[1].as_ref().unwrap();
        assert_eq!((kept.path.as_slice(), kept.is_only_cycle), ([0].as_slice(), true));
    }

    #[test]
    fn the_smallest_of_two_cycles_is_taken() {
        let graph = Graph::new(4, [(0, 1), (1, 2), (2, 0), (0, 3), (3, 0)]).unwrap();
        let found = keepers(&graph, &[0]);
        assert_eq!(found.cycles[0].nodes, [0, 3]);
        assert_eq!(found.cycles[0].component_size, 4);
        assert!(!found.kept[0].as_ref().unwrap().is_only_cycle);
    }

    #[test]
    fn what_no_cycle_keeps_has_none() {
        let graph = Graph::new(3, [(0, 1), (1, 2)]).unwrap();
        assert_eq!(keepers(&graph, &[2]).kept, [None]);
    }

    #[test]
    fn past_the_limit_there_is_still_a_cycle() {
        let graph = Graph::new(4, [(0, 1), (1, 0), (1, 2), (2, 3), (3, 2), (3, 1)]).unwrap();
        let found = keepers_within(&graph, &[0, 3], 1);
        let kept = found.kept[1].as_ref().unwrap();
        let cycle = &found.cycles[kept.cycle];
        assert!(!cycle.is_smallest);
        assert_eq!((cycle.nodes.as_slice(), kept.path.as_slice()), ([1, 0].as_slice(), [1, 2, 3].as_slice()));
    }
}
