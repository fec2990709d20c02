//! Slices of one lane must nest; threads that annotate at the same time do not.

/// Lanes at most: a file could make as many as it has annotations, and each is looked at for each. What overlaps with that
/// many others goes to the last one, where viewers draw it as well as they can.
const MAX_LANES: usize = 128;

/// The lanes so far: in each, the ends of the slices that are open, outermost first.
#[derive(Default)]
pub(super) struct Lanes {
    open_ends: Vec<Vec<i64>>,
}

/// Where a slice goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub number: u32,
    pub is_new: bool,
}

impl Lanes {
    /// The first lane where the slice begins in no other one, or lies in it wholly.
    ///
    /// Slices come in the order of their starts.
    pub(super) fn place(&mut self, start: i64, end: i64) -> Lane {
        let fitting = self.open_ends.iter_mut().position(|open| {
            while open.last().is_some_and(|&outer| outer <= start) {
                open.pop();
            }
            open.last().is_none_or(|&outer| end <= outer)
        });
        let is_new = fitting.is_none() && self.open_ends.len() < MAX_LANES;
        if is_new {
            self.open_ends.push(Vec::new());
        }
        let number = fitting.unwrap_or(self.open_ends.len() - 1);
        self.open_ends[number].push(end);
        Lane { number: u32::try_from(number).expect("a few lanes"), is_new }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_few_whatever_overlaps() {
        let mut lanes = Lanes::default();
        let placed: Vec<_> = (0..1000).map(|start| lanes.place(start, 10_000 + start)).collect();
        assert_eq!(placed.iter().filter(|lane| lane.is_new).count(), MAX_LANES);
        assert_eq!(placed.last(), Some(&Lane { number: 127, is_new: false }));
    }

    #[test]
    fn slices_that_do_not_nest_get_lanes_of_their_own() {
        let mut lanes = Lanes::default();
        let placed = [(0, 10), (2, 5), (5, 10), (6, 12), (12, 13), (12, 13)].map(|(start, end)| {
            let lane = lanes.place(start, end);
            (lane.number, lane.is_new)
        });
        assert_eq!(placed, [(0, true), (0, false), (0, false), (1, true), (0, false), (0, false)]);
    }
}
