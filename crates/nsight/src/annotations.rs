//! Named ranges as a snapshot has them.

use std::cmp::Reverse;

use highwater_outside::HOST;
use highwater_snapshot::{Annotation, Snapshot, Stage};

use crate::Read;

/// Calls in which the device of a range is looked for.
const LOOKED_AT: usize = 64;

/// Adds the ranges that have allocations in them, in the order of time, to those of PyTorch's own.
pub(crate) fn annotate(snapshot: &mut Snapshot, read: &Read, difference_ns: i64) {
    let events = &read.recording.events;
    let time_us = |ns: i64| {
        let ns = ns.cast_unsigned().wrapping_add(read.epoch_ns).wrapping_add_signed(difference_ns);
        i64::try_from(ns / 1000).ok()
    };
    let mut edges = Vec::new();
    for range in read.scopes.ranges() {
        let name = read.recording.about.scopes.get(range.name as usize).map_or("", String::as_str);
        let name = snapshot.strings.intern(name);
        // That which the program uses then: the first calls may be about memory of the host.
        let from = events.get(range.call as usize..).unwrap_or_default();
        let device =
            from.iter().take(LOOKED_AT).map(|event| event.device).find(|&device| device != HOST).unwrap_or(HOST);
        let at = |stage, ns| Annotation { stage, name, device, time_us: time_us(ns) };
        let end = range.end.unwrap_or(i64::MAX).max(range.start.saturating_add(1));
        // Where one begins when another ends, the end comes first; an outer range begins first and ends last.
        edges.push(((range.start, true, Reverse(end)), at(Stage::Start, range.start)));
        if range.end.is_some() {
            edges.push(((end, false, Reverse(range.start)), at(Stage::End, end)));
        }
    }
    if edges.is_empty() {
        return;
    }
    edges.sort_by_key(|(order, _)| *order);
    snapshot.annotations.extend(edges.into_iter().map(|(_, annotation)| annotation));
    snapshot.annotations.sort_by_key(|annotation| annotation.time_us);
}
