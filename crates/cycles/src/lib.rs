//! Which reference cycles keep an object, in a graph of who refers to whom, and what nothing from outside leads to.
//!
//! # Design constraints
//!
//! - It knows nodes and edges, and nothing of Python, of tensors or of bytes.
//! - Nothing recurses: a linked list of a million objects is one component.
//! - The time is linear in the graph, but for the search of the smallest cycles, which has a limit ([`WORK_LIMIT`]); past it an
//!   answer is still a cycle, and says that it may not be the smallest.
//! - Equal graphs give equal answers.
//!
//! # Example
//!
//! ```
//! use highwater_cycles::{Graph, keepers};
//!
//! // 0 and 1 refer to each other, 1 to 2, and 2 to 3.
//! let graph = Graph::new(4, [(0, 1), (1, 0), (1, 2), (2, 3)]).unwrap();
//! let found = keepers(&graph, &[3]);
//! let kept = found.kept[0].as_ref().unwrap();
//! assert_eq!(kept.path, [1, 2, 3]);
//! assert_eq!(found.cycles[kept.cycle].nodes, [1, 0]);
//! assert!(kept.is_only_cycle);
//! ```

mod components;
mod graph;
mod keepers;
mod unreachable;

pub use components::Components;
pub use graph::{Graph, NoSuchNode};
pub use keepers::{Cycle, Keepers, Kept, WORK_LIMIT, keepers, keepers_within};
pub use unreachable::unreachable;
