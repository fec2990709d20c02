//! The edges of a graph, by the node that they leave.

use std::error::Error;
use std::fmt;

/// Who refers to whom: nodes are numbered from 0, and parallel edges are one.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Where the edges of each node begin in `targets`; one more at the end.
    starts: Vec<usize>,
    targets: Vec<u32>,
}

/// An edge from or to a node that the graph does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchNode {
    /// The node that is not there.
    pub node: u32,
    /// Their number.
    pub count: u32,
}

impl fmt::Display for NoSuchNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "there is no node {}; there are {}", self.node, self.count)
    }
}

impl Error for NoSuchNode {}

impl Graph {
    /// A graph of `count` nodes; each edge is who refers, then to whom.
    ///
    /// # Errors
    /// [`NoSuchNode`] with the first number that is too large.
    pub fn new(count: u32, edges: impl IntoIterator<Item = (u32, u32)>) -> Result<Self, NoSuchNode> {
        let mut edges: Vec<(u32, u32)> = edges.into_iter().collect();
        if let Some(&(from, to)) = edges.iter().find(|&&(from, to)| from.max(to) >= count) {
            return Err(NoSuchNode { node: if from >= count { from } else { to }, count });
        }
        edges.sort_unstable();
        edges.dedup();
        let mut starts = vec![0; count as usize + 1];
        for &(from, _) in &edges {
            starts[from as usize + 1] += 1;
        }
        for node in 0..count as usize {
            starts[node + 1] += starts[node];
        }
        Ok(Self { starts, targets: edges.into_iter().map(|(_, to)| to).collect() })
    }

    /// How many nodes there are.
    pub fn count(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).expect("nodes are counted in 32 bits")
    }

    /// Whom a node refers to, in ascending order.
    pub fn references(&self, node: u32) -> &[u32] {
        &self.targets[self.starts[node as usize]..self.starts[node as usize + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_sorted_and_once() {
        let graph = Graph::new(3, [(2, 1), (0, 2), (2, 0), (2, 1)]).unwrap();
        assert_eq!(graph.references(0), [2]);
        assert_eq!(graph.references(1), []);
        assert_eq!(graph.references(2), [0, 1]);
        assert_eq!(graph.count(), 3);
    }

    #[test]
    fn a_node_that_is_not_there_is_an_error() {
        let error = Graph::new(2, [(0, 1), (1, 2)]).unwrap_err();
        assert_eq!(error.to_string(), "there is no node 2; there are 2");
        assert_eq!(Graph::new(2, [(7, 1)]).unwrap_err().node, 7);
    }

    #[test]
    fn a_graph_may_be_empty() {
        assert_eq!(Graph::new(0, []).unwrap().count(), 0);
    }
}
