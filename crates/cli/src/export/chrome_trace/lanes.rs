//! Slices of one lane must nest; threads that annotate at the same time do not.

/// The lanes so far: in each, the ends of the slices that are open, outermost first.
#[derive(Default)]
pub(super) struct Lanes {
    open_ends: Vec<Vec<i64>>,
}

/// Where a slice goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) number: u32,
    pub(super) is_new: bool,
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
        let number = fitting.unwrap_or_else(|| {
            self.open_ends.push(Vec::new());
            self.open_ends.len() - 1
        });
        self.open_ends[number].push(end);
        // As many lanes as slices overlap at once: a file of 2^32 of them is beyond the reader's limits.
        Lane { number: u32::try_from(number).unwrap_or(u32::MAX), is_new: fitting.is_none() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
