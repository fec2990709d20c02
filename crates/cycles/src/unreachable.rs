//! What nothing from outside leads to.

use crate::Graph;

/// The nodes that no node with `outside[node]` leads to, in ascending order.
///
/// `outside` has an element for each node: whether something that is not in the graph refers to it.
///
/// # Panics
/// If there are more or fewer elements than nodes.
pub fn unreachable(graph: &Graph, outside: &[bool]) -> Vec<u32> {
    assert_eq!(outside.len(), graph.count() as usize, "an element for each node");
    let mut is_reached = outside.to_vec();
    let mut open: Vec<u32> = (0..graph.count()).filter(|&node| outside[node as usize]).collect();
    while let Some(node) = open.pop() {
        for &next in graph.references(node) {
            if !is_reached[next as usize] {
                is_reached[next as usize] = true;
                open.push(next);
            }
        }
    }
    (0..graph.count()).filter(|&node| !is_reached[node as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_outside_leads_to_is_reachable() {
        // A cycle that a node from outside leads to, one that leads there, and one by itself.
        let edges = [(0, 1), (1, 2), (2, 1), (3, 4), (4, 3), (4, 2), (5, 5)];
        let graph = Graph::new(6, edges).unwrap();
        let outside = [true, false, false, false, false, false];
        assert_eq!(unreachable(&graph, &outside), [3, 4, 5]);
        assert_eq!(unreachable(&graph, &[false; 6]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(unreachable(&graph, &[true; 6]), []);
    }
}
