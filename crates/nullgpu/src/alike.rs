//! Ranks that must be equal: in an imagined run of many ranks, one rank of each kind is enough.
//!
//! A rank's memory follows from its place in each of the program's groups: its pipeline stage, its shard of a tensor. Groups of one size
//! that contain every rank once form an axis, and each rank has a position on it. Tensors are sharded in order: the first shards are
//! whole, and the last may be smaller or empty. So if the first and the last position of an axis are equal, the positions between them
//! are equal, too; otherwise each half of the axis is searched.

use std::collections::{BTreeMap, BTreeSet};

/// Ranks that are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind<F> {
    /// The ranks, in order.
    pub ranks: Vec<u32>,
    /// The one that ran.
    pub ran: u32,
    /// The result of that run.
    pub found: F,
}

/// The kinds of `ranks` ranks: `run` runs a rank, and `groups` are the program's process groups. The kind of the lowest rank comes first.
///
/// # Panics
/// If `ranks` is 0.
pub fn kinds<F: Clone + PartialEq>(ranks: u32, groups: &[Vec<u32>], run: impl FnMut(u32) -> F) -> Vec<Kind<F>> {
    let places = places(ranks, groups);
    let lengths: Vec<usize> =
        (0..places[0].len()).map(|axis| places.iter().map(|place| place[axis] + 1).max().unwrap_or(1)).collect();
    let rank_at = places.iter().cloned().zip(0..).collect();
    let mut search = Search { run, found: BTreeMap::new(), rank_at, lengths };
    let first = vec![0; search.lengths.len()];
    let last: Vec<usize> = search.lengths.iter().map(|length| length - 1).collect();
    let mut classes = search.classes(&first);
    // The classes found from one corner are checked at the opposite corner.
    let like = represented(&classes, &last);
    if search.at(&last) != search.at(&like) {
        let others = search.classes(&last);
        for (classes, others) in classes.iter_mut().zip(&others) {
            refine(classes, others);
        }
    }
    let mut kinds: Vec<Kind<F>> = Vec::new();
    for (rank, place) in (0..).zip(&places) {
        let like = search.rank(&represented(&classes, place)).unwrap_or(rank);
        let found = search.of(like);
        match kinds.iter_mut().find(|kind| kind.found == found) {
            Some(kind) => kind.ranks.push(rank),
            None => kinds.push(Kind { ranks: vec![rank], ran: like, found }),
        }
    }
    kinds
}

/// Along an axis, for each position the first that is equal to it.
type Classes = Vec<usize>;

/// The place that stands for another.
fn represented(classes: &[Classes], place: &[usize]) -> Vec<usize> {
    classes.iter().zip(place).map(|(classes, &position)| classes[position]).collect()
}

/// Takes positions apart that differ in `others`.
fn refine(classes: &mut Classes, others: &Classes) {
    let mut first = BTreeMap::new();
    for position in 0..classes.len() {
        classes[position] = *first.entry((classes[position], others[position])).or_insert(position);
    }
}

struct Search<F, R> {
    run: R,
    found: BTreeMap<u32, F>,
    rank_at: BTreeMap<Vec<usize>, u32>,
    lengths: Vec<usize>,
}

impl<F: Clone + PartialEq, R: FnMut(u32) -> F> Search<F, R> {
    /// The classes of each axis, seen from a corner.
    fn classes(&mut self, corner: &[usize]) -> Vec<Classes> {
        (0..self.lengths.len())
            .map(|axis| {
                let mut classes: Classes = (0..self.lengths[axis]).collect();
                self.divide(corner, axis, 0, self.lengths[axis] - 1, &mut classes);
                classes
            })
            .collect()
    }

    /// Classes of the positions from `low` to `high`.
    fn divide(&mut self, corner: &[usize], axis: usize, low: usize, high: usize, classes: &mut Classes) {
        let place = |position: usize| {
            let mut place = corner.to_vec();
            place[axis] = position;
            place
        };
        if self.at(&place(low)) == self.at(&place(high)) {
            let class = classes[low];
            classes[low..=high].fill(class);
        } else if high - low > 1 {
            let middle = usize::midpoint(low, high);
            self.divide(corner, axis, low, middle, classes);
            self.divide(corner, axis, middle, high, classes);
        }
    }

    fn rank(&self, place: &[usize]) -> Option<u32> {
        self.rank_at.get(place).copied()
    }

    /// The result of the rank at a place; `None` where there is no rank.
    fn at(&mut self, place: &[usize]) -> Option<F> {
        self.rank(place).map(|rank| self.of(rank))
    }

    fn of(&mut self, rank: u32) -> F {
        self.found.entry(rank).or_insert_with(|| (self.run)(rank)).clone()
    }
}

/// The position of each rank along each axis; no two ranks have the same.
fn places(ranks: u32, groups: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let mut places: Vec<Vec<usize>> = (0..ranks).map(|_| Vec::new()).collect();
    let mut families = families(ranks, groups);
    families.sort_by_key(|family| family[0].len());
    let mut distinct = 1;
    for family in families {
        let mut further = places.clone();
        for (position, &rank) in family.iter().flat_map(|group| group.iter().enumerate()) {
            further[rank as usize].push(position);
        }
        let now = further.iter().collect::<BTreeSet<_>>().len();
        // Other families are combinations of those before.
        if now > distinct {
            (places, distinct) = (further, now);
        }
    }
    // Ranks that no group distinguishes are copies of a model, such as those of data parallelism.
    let mut seen: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    if distinct < places.len() {
        for place in &mut places {
            let copies = seen.entry(place.clone()).or_insert(0);
            place.push(*copies);
            *copies += 1;
        }
    }
    places
}

/// Groups of one size that hold every rank once.
fn families(ranks: u32, groups: &[Vec<u32>]) -> Vec<Vec<Vec<u32>>> {
    let mut families: Vec<Vec<Vec<u32>>> = Vec::new();
    for group in groups {
        let group: Vec<u32> = group.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let is_part = group.len() > 1 && group.len() < ranks as usize && group.iter().all(|&rank| rank < ranks);
        if !is_part {
            continue;
        }
        let fits = |family: &&mut Vec<Vec<u32>>| {
            family[0].len() == group.len() && family.iter().flatten().all(|rank| group.binary_search(rank).is_err())
        };
        match families.iter_mut().find(fits) {
            Some(family) => family.push(group),
            None => families.push(vec![group]),
        }
    }
    families.retain(|family| family.iter().map(Vec::len).sum::<usize>() == ranks as usize);
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of a mesh of stages, copies and parts.
    fn mesh(stages: u32, copies: u32, parts: u32) -> Vec<Vec<u32>> {
        let rank = |stage: u32, copy: u32, part: u32| (stage * copies + copy) * parts + part;
        let mut groups = Vec::new();
        for copy in 0..copies {
            for part in 0..parts {
                groups.push((0..stages).map(|stage| rank(stage, copy, part)).collect());
            }
        }
        for stage in 0..stages {
            for part in 0..parts {
                groups.push((0..copies).map(|copy| rank(stage, copy, part)).collect());
            }
            for copy in 0..copies {
                groups.push((0..parts).map(|part| rank(stage, copy, part)).collect());
            }
            // A flattened mesh adds no axis.
            groups.push((0..copies * parts).map(|at| stage * copies * parts + at).collect());
        }
        groups
    }

    fn run<F: Clone + PartialEq>(ranks: u32, groups: &[Vec<u32>], what: impl Fn(u32) -> F) -> (Vec<Kind<F>>, usize) {
        let mut runs = 0;
        let kinds = kinds(ranks, groups, |rank| {
            runs += 1;
            what(rank)
        });
        for kind in &kinds {
            assert!(kind.ranks.iter().all(|&rank| what(rank) == kind.found), "each is what it is said to be");
        }
        assert_eq!(kinds.iter().map(|kind| kind.ranks.len()).sum::<usize>(), ranks as usize);
        (kinds, runs)
    }

    #[test]
    fn the_stages_of_a_pipeline_differ_and_their_copies_do_not() {
        let (kinds, runs) = run(512, &mesh(4, 16, 8), |rank| rank / 128);
        assert_eq!(
            kinds.iter().map(|kind| (kind.ran, kind.ranks.len())).collect::<Vec<_>>(),
            [(0, 128), (128, 128), (256, 128), (384, 128)]
        );
        assert!(runs <= 7, "{runs} runs");
    }

    #[test]
    fn the_last_parts_of_what_is_divided_may_be_smaller() {
        // 100 rows over 64 ranks without any group: two rows each, then none.
        let (kinds, runs) = run(64, &[], |rank| 2_u32.min(100_u32.saturating_sub(rank * 2)));
        assert_eq!(kinds.iter().map(|kind| kind.ranks.len()).collect::<Vec<_>>(), [50, 14]);
        assert!(runs <= 10, "{runs} runs");
    }

    #[test]
    fn what_only_the_far_corner_shows_is_found() {
        // The last stage alone has a head, which its last part has less of.
        let what = |rank: u32| (rank / 8 == 3, rank / 8 == 3 && rank % 4 == 3);
        let (kinds, _) = run(32, &mesh(4, 2, 4), what);
        assert_eq!(kinds.iter().map(|kind| kind.ranks.len()).collect::<Vec<_>>(), [24, 6, 2]);
    }

    #[test]
    fn every_rank_may_be_of_its_own_kind() {
        let (kinds, runs) = run(6, &[vec![0, 1], vec![2, 3]], |rank| rank);
        assert_eq!((kinds.len(), runs), (6, 6), "groups that leave ranks out tell nothing");
    }

    #[test]
    fn foreign_groups_are_left_out() {
        let (kinds, runs) = run(1, &[vec![0], vec![], vec![7, 9, 9]], |rank| rank);
        assert_eq!((kinds.len(), runs), (1, 1));
    }
}
