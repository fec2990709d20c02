//! The strongly connected components: sets of nodes that all lead to each other.

use crate::Graph;

const UNSEEN: u32 = u32::MAX;

/// The components of a graph. One comes after all that it leads to: an edge between two leaves the one with the higher number.
#[derive(Clone, Debug)]
pub struct Components {
    /// The component of each node.
    of: Vec<u32>,
    /// The nodes, by component.
    members: Vec<u32>,
    /// Where the members of each component begin; one more at the end.
    starts: Vec<usize>,
    /// Edges within each component.
    inner_edges: Vec<usize>,
}

impl Components {
    /// Finds them: Tarjan's algorithm, with a stack of its own.
    pub fn new(graph: &Graph) -> Self {
        let count = graph.count();
        let mut found =
            Self { of: vec![UNSEEN; count as usize], members: Vec::new(), starts: vec![0], inner_edges: Vec::new() };
        // When a node was first seen, and the earliest that it leads back to.
        let mut seen = vec![UNSEEN; count as usize];
        let mut low = vec![0; count as usize];
        let mut time = 0;
        let mut open = Vec::new();
        // The nodes on the way, each with how many of its edges were followed.
        let mut way: Vec<(u32, usize)> = Vec::new();
        for root in 0..count {
            if seen[root as usize] != UNSEEN {
                continue;
            }
            way.push((root, 0));
            while let Some(&mut (node, ref mut followed)) = way.last_mut() {
                let at = node as usize;
                if *followed == 0 && seen[at] == UNSEEN {
                    seen[at] = time;
                    low[at] = time;
                    time += 1;
                    open.push(node);
                }
                if let Some(&next) = graph.references(node).get(*followed) {
                    *followed += 1;
                    if seen[next as usize] == UNSEEN {
                        way.push((next, 0));
                    } else if found.of[next as usize] == UNSEEN {
                        low[at] = low[at].min(seen[next as usize]);
                    }
                    continue;
                }
                way.pop();
                if let Some(&(parent, _)) = way.last() {
                    low[parent as usize] = low[parent as usize].min(low[at]);
                }
                if low[at] == seen[at] {
                    found.close(node, &mut open);
                }
            }
        }
        found.inner_edges = vec![0; found.count() as usize];
        for node in 0..count {
            let own = found.of(node);
            let inner = graph.references(node).iter().filter(|&&next| found.of(next) == own).count();
            found.inner_edges[own as usize] += inner;
        }
        found
    }

    /// Makes a component of what was opened since its first node.
    fn close(&mut self, first: u32, open: &mut Vec<u32>) {
        let number = self.count();
        while let Some(node) = open.pop() {
            self.of[node as usize] = number;
            self.members.push(node);
            if node == first {
                break;
            }
        }
        self.starts.push(self.members.len());
    }

    /// Their number.
    pub fn count(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).expect("there are no more components than nodes")
    }

    /// The component of a node.
    pub fn of(&self, node: u32) -> u32 {
        self.of[node as usize]
    }

    /// The nodes of a component.
    pub fn members(&self, component: u32) -> &[u32] {
        &self.members[self.starts[component as usize]..self.starts[component as usize + 1]]
    }

    /// Whether there is a cycle in a component: it has several nodes, or one that refers to itself.
    pub fn is_cyclic(&self, component: u32) -> bool {
        self.inner_edges[component as usize] > 0
    }

    /// Whether a component is one cycle and nothing more.
    pub fn is_one_cycle(&self, component: u32) -> bool {
        self.inner_edges[component as usize] == self.members(component).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_comes_after_what_it_leads_to() {
        let graph = Graph::new(5, [(0, 1), (1, 0), (1, 2), (2, 3), (3, 2), (3, 4)]).unwrap();
        let components = Components::new(&graph);
        assert_eq!(components.count(), 3);
        assert_eq!(components.of(0), components.of(1));
        assert!(components.of(0) > components.of(2) && components.of(2) > components.of(4));
        assert!(components.is_cyclic(components.of(0)) && !components.is_cyclic(components.of(4)));
    }

    #[test]
    fn one_node_is_a_cycle_if_it_refers_to_itself() {
        let components = Components::new(&Graph::new(2, [(1, 1)]).unwrap());
        assert!(!components.is_cyclic(components.of(0)));
        assert!(components.is_cyclic(components.of(1)) && components.is_one_cycle(components.of(1)));
    }

    #[test]
    fn a_million_nodes_in_a_ring_are_one_component() {
        let count = 1_000_000;
        let ring = (0..count).map(|node| (node, (node + 1) % count));
        let components = Components::new(&Graph::new(count, ring).unwrap());
        assert_eq!(components.count(), 1);
        assert!(components.is_one_cycle(0));
    }
}
