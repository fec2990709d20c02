//! Graphs that no backward pass frees: of an evaluation without `no_grad`, or of losses that the program keeps.

use super::caches::GRAPH_PERCENT;
use super::{Known, Pairing, alloc};
use crate::category::origin::Origin;

impl Pairing {
    /// Where backward passes were recorded, too: blocks that outlive the call of the model that makes them, if many do, and that no pass frees.
    /// Without a graph, only its outputs and a cache outlive a call: few for each layer.
    pub(super) fn find_graphs<T: Fn(usize) -> Origin>(&mut self, known: &Known<'_, T>) {
        /// Of a call that makes fewer, the results of one layer are a large part.
        const MIN_MADE: usize = 24;
        let course = known.course;
        if course.passes.is_empty() || known.is_bare {
            return;
        }
        let rows = known.lifetimes.rows.iter().enumerate().skip(known.lifetimes.before_recording);
        let of_modules = rows.filter(|&(row, _)| matches!((known.told)(row), Origin::Module | Origin::Compiled));
        let of_calls: Vec<(u32, usize)> =
            of_modules.map(|(row, lifetime)| (course.returned(alloc(lifetime)), row)).collect();
        for call in of_calls.chunk_by(|a, b| a.0 == b.0).filter(|call| call.len() >= MIN_MADE) {
            // The program may free all of it before it goes on.
            let last = alloc(&known.lifetimes.rows[call[call.len() - 1].1]);
            let is_kept = |&&(_, row): &&(u32, usize)| {
                let freed = course.freed(&known.lifetimes.rows[row]);
                freed > last && course.pass_at(freed).is_none()
            };
            let kept = call.iter().filter(is_kept);
            if kept.clone().count() * 100 > call.len() * GRAPH_PERCENT {
                self.graphs.extend(kept.map(|row| row.1));
            }
        }
    }
}
