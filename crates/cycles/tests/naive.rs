//! What is found equals what a search from every node finds.

use highwater_cycles::{Components, Graph, Keepers, keepers, keepers_within};
use proptest::prelude::*;

const FAR: usize = usize::MAX / 4;

/// The length of the shortest way of at least one edge, from every node to every other.
fn ways(count: u32, edges: &[(u32, u32)]) -> Vec<Vec<usize>> {
    let count = count as usize;
    let mut ways = vec![vec![FAR; count]; count];
    for &(from, to) in edges {
        ways[from as usize][to as usize] = 1;
    }
    for over in 0..count {
        for from in 0..count {
            for to in 0..count {
                ways[from][to] = ways[from][to].min(ways[from][over] + ways[over][to]);
            }
        }
    }
    ways
}

fn graphs() -> impl Strategy<Value = (u32, Vec<(u32, u32)>)> {
    (1..14_u32).prop_flat_map(|count| (Just(count), prop::collection::vec((0..count, 0..count), 0..30)))
}

/// Every step of every cycle and way is an edge, and they fit together.
fn check_steps(graph: &Graph, asked: &[u32], found: &Keepers) {
    let is_edge = |from: u32, to: u32| graph.references(from).contains(&to);
    for cycle in &found.cycles {
        let nodes = &cycle.nodes;
        assert!((0..nodes.len()).all(|at| is_edge(nodes[at], nodes[(at + 1) % nodes.len()])));
    }
    for (&node, kept) in asked.iter().zip(&found.kept) {
        let Some(kept) = kept else { continue };
        assert!(kept.path.windows(2).all(|step| is_edge(step[0], step[1])));
        assert_eq!(kept.path[0], found.cycles[kept.cycle].nodes[0]);
        assert_eq!(kept.path.last(), Some(&node));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn components_are_those_of_mutual_reachability((count, edges) in graphs()) {
        let components = Components::new(&Graph::new(count, edges.iter().copied()).unwrap());
        let ways = ways(count, &edges);
        for a in 0..count {
            prop_assert_eq!(components.is_cyclic(components.of(a)), ways[a as usize][a as usize] < FAR);
            for b in 0..count {
                let there = ways[a as usize][b as usize] < FAR;
                let mutual = a == b || there && ways[b as usize][a as usize] < FAR;
                prop_assert_eq!(components.of(a) == components.of(b), mutual);
                prop_assert!(!there || components.of(a) >= components.of(b));
            }
        }
    }

    #[test]
    fn the_cycle_is_the_nearest_and_smallest((count, edges) in graphs()) {
        let graph = Graph::new(count, edges.iter().copied()).unwrap();
        let ways = ways(count, &edges);
        let asked: Vec<u32> = (0..count).collect();
        let found = keepers(&graph, &asked);
        check_steps(&graph, &asked, &found);
        for (node, kept) in found.kept.iter().enumerate() {
            let distance = |from: usize| if from == node { 0 } else { ways[from][node] };
            let on_cycles = || (0..count as usize).filter(|&other| ways[other][other] < FAR);
            let nearest = on_cycles().map(distance).min().filter(|&steps| steps < FAR);
            prop_assert_eq!(nearest, kept.as_ref().map(|kept| kept.path.len() - 1));
            let Some(kept) = kept else { continue };
            let cycle = &found.cycles[kept.cycle];
            prop_assert!(cycle.is_smallest);
            prop_assert_eq!(cycle.nodes.len(), ways[cycle.nodes[0] as usize][cycle.nodes[0] as usize]);
        }
    }

    #[test]
    fn an_only_cycle_is_one_without_which_nothing_keeps_the_node((count, edges) in graphs()) {
        let graph = Graph::new(count, edges.iter().copied()).unwrap();
        let asked: Vec<u32> = (0..count).collect();
        let found = keepers(&graph, &asked);
        for (node, kept) in found.kept.iter().enumerate() {
            let Some(kept) = kept else { continue };
            let nodes = &found.cycles[kept.cycle].nodes;
            // Any one edge of the cycle is taken away: then no cycle leads to the node if it was the only one, and else some does,
            // for one edge at least.
            let some_cycle_is_left = (0..nodes.len()).any(|at| {
                let cut = (nodes[at], nodes[(at + 1) % nodes.len()]);
                let left: Vec<_> = edges.iter().copied().filter(|&edge| edge != cut).collect();
                let ways = ways(count, &left);
                (0..count as usize).any(|other| ways[other][other] < FAR && (other == node || ways[other][node] < FAR))
            });
            prop_assert_eq!(kept.is_only_cycle, !some_cycle_is_left);
        }
    }

    #[test]
    fn without_time_the_answers_are_cycles_still((count, edges) in graphs(), limit in 0..20_usize) {
        let graph = Graph::new(count, edges.iter().copied()).unwrap();
        let asked: Vec<u32> = (0..count).collect();
        let found = keepers_within(&graph, &asked, limit);
        check_steps(&graph, &asked, &found);
        let full = keepers(&graph, &asked);
        prop_assert_eq!(
            found.kept.iter().map(Option::is_some).collect::<Vec<_>>(),
            full.kept.iter().map(Option::is_some).collect::<Vec<_>>()
        );
    }
}
