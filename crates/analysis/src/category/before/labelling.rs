//! Chooses the segments that hold parameters, by their contents and their neighbours.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Held, Segment};

/// Which segments of a pool hold parameters: those of a labelling of all segments, by address, that has as many blocks of each size
/// as wanted and the least cost. Blocks that do not look like parameters cost, and so does every change between neighbours:
/// parameters lie in runs of segments.
///
/// How much a wanted block is worth is found by trial, for each size (subgradient steps on the Lagrangian of the counts); for given
/// worths the best labelling is found in one pass forth and one back (Viterbi).
pub(super) struct Labelling<'a> {
    /// Those of usual sizes, by address: others lie in what is left between them, and say nothing of their neighbours.
    segments: Vec<&'a Segment>,
    /// For each segment, (number of a size, blocks of it) that may be parameters.
    sizes: Vec<Vec<(usize, usize)>>,
    /// What it costs to call a segment one of parameters; infinite if it cannot be.
    costs: Vec<f64>,
    /// By number of a size: bytes of a block, and how many are wanted and there.
    wanted: Vec<(f64, f64)>,
}

impl<'a> Labelling<'a> {
    /// `known` are the begins of segments of the other pool, with whether they are of parameters.
    pub(super) fn new(
        held: &[Held],
        wanted: &FxHashMap<u64, usize>,
        of_pool: &[&'a Segment],
        known: &FxHashMap<u64, bool>,
    ) -> Self {
        let segments: Vec<&Segment> = of_pool.iter().copied().filter(|segment| segment.is_usual).collect();
        let mut ages: Vec<usize> = segments.iter().map(|segment| segment.age).collect();
        ages.sort_unstable();
        let mut numbers: FxHashMap<u64, usize> = FxHashMap::default();
        let mut there: Vec<(u64, usize)> = Vec::new();
        let sizes = segments.iter().map(|segment| {
            let mut own: Vec<(usize, usize)> = Vec::new();
            for at in segment.blocks.clone().take(segment.fresh) {
                let size = held[at].size_bytes;
                if wanted.contains_key(&size) {
                    let number = *numbers.entry(size).or_insert_with(|| {
                        there.push((size, 0));
                        there.len() - 1
                    });
                    there[number].1 += 1;
                    match own.iter_mut().find(|own| own.0 == number) {
                        Some(own) => own.1 += 1,
                        None => own.push((number, 1)),
                    }
                }
            }
            own.sort_unstable();
            own
        });
        let sizes: Vec<Vec<(usize, usize)>> = sizes.collect();
        let costs = segments.iter().map(|segment| {
            let beside = known.get(&segment.end_address).map_or(0.0, |&is_sure| if is_sure { -BESIDE } else { BESIDE });
            let older = ages.partition_point(|&age| age < segment.age);
            cost(segment) + beside + AGE * count(older) / count(segments.len())
        });
        let costs = costs.collect();
        let wanted = there.iter().map(|&(size, there)| (bytes(size), count(wanted[&size].min(there)))).collect();
        Self { segments, sizes, costs, wanted }
    }

    /// The segments, by address, each with whether it is of parameters, and its margin.
    pub(super) fn answers(&self) -> Vec<Answer<'a>> {
        /// Steps of the search: more change nothing on recordings with hundreds of segments.
        const STEPS: u32 = 300;
        /// Segments beyond this are taken as they come.
        const MAX: usize = 20_000;
        if self.segments.len() > MAX {
            let taken =
                |&segment: &&'a Segment| Answer { segment, is_parameter: true, margin: f64::INFINITY, is_tied: false };
            return self.segments.iter().map(taken).collect();
        }
        let mut worths = vec![0.0; self.wanted.len()];
        let mut best = (f64::INFINITY, vec![false; self.segments.len()], worths.clone());
        for step in 1..=STEPS {
            let labels = self.labels(&worths);
            let mut missing: Vec<f64> = self.wanted.iter().map(|wanted| wanted.1).collect();
            for (sizes, _) in self.sizes.iter().zip(&labels).filter(|(_, is_parameter)| **is_parameter) {
                for &(number, blocks) in sizes {
                    missing[number] -= count(blocks);
                }
            }
            let off = missing.iter().zip(&self.wanted).map(|(missing, wanted)| missing.abs() * wanted.0).sum::<f64>();
            if off < best.0 {
                best = (off, labels, worths.clone());
            }
            if off == 0.0 {
                break;
            }
            let length = 2.0 / f64::from(step).sqrt();
            for ((worth, missing), wanted) in worths.iter_mut().zip(&missing).zip(&self.wanted) {
                *worth += length * missing / wanted.1.max(1.0);
            }
        }
        let (_, mut labels, worths) = best;
        let preferences = self.preferences(&worths);
        let tied = self.drop_excess(&mut labels, &preferences);
        let margins = self.margins(&labels, &preferences);
        let answers = self.segments.iter().zip(labels).zip(margins).zip(&self.sizes);
        let answers = answers.map(|(((&segment, is_parameter), margin), sizes)| Answer {
            segment,
            is_parameter,
            margin,
            is_tied: tied.contains(sizes.as_slice()),
        });
        answers.collect()
    }

    /// Segments with the same blocks are worth the same, so the labels may have more of these than wanted: those that suit parameters least
    /// lose their label. Returns the blocks of the segments that lost it.
    fn drop_excess(&self, labels: &mut [bool], preferences: &[f64]) -> FxHashSet<&[(usize, usize)]> {
        let mut excess: Vec<f64> = self.wanted.iter().map(|wanted| -wanted.1).collect();
        for (sizes, _) in self.sizes.iter().zip(labels.iter()).filter(|(_, is_parameter)| **is_parameter) {
            for &(number, blocks) in sizes {
                excess[number] += count(blocks);
            }
        }
        let mut order: Vec<usize> = (0..labels.len()).filter(|&at| labels[at]).collect();
        order.sort_by(|&a, &b| preferences[b].total_cmp(&preferences[a]));
        let mut tied = FxHashSet::default();
        for at in order {
            let sizes = &self.sizes[at];
            if !sizes.is_empty() && sizes.iter().all(|&(number, blocks)| excess[number] >= count(blocks)) {
                labels[at] = false;
                tied.insert(sizes.as_slice());
                for &(number, blocks) in sizes {
                    excess[number] -= count(blocks);
                }
            }
        }
        tied
    }

    /// What a segment costs as none of parameters, and as one, where blocks of each size are worth so much.
    fn own(&self, at: usize, worths: &[f64]) -> [f64; 2] {
        let worth: f64 = self.sizes[at].iter().map(|&(number, blocks)| worths[number] * count(blocks)).sum();
        [0.0, self.costs[at] - worth]
    }

    /// What it costs if a segment is not as the one before it.
    fn change(&self, at: usize) -> f64 {
        let segment = self.segments[at];
        let before = at.checked_sub(1).map(|before| self.segments[before]);
        match before.map(|before| (before, segment.address.saturating_sub(before.end_address))) {
            Some((before, distance)) if distance <= APART && segment.is_filled_beside(before) => CHANGE_FILLED,
            Some((_, distance)) if distance <= APART => CHANGE,
            Some(_) => CHANGE_APART,
            None => 0.0,
        }
    }

    /// The least cost of all segments before each one if it is none of parameters, and if it is one; with the answer of the one before.
    fn least(&self, worths: &[f64]) -> Vec<[(f64, bool); 2]> {
        let mut least = Vec::with_capacity(self.segments.len());
        let mut to_here = [0.0, 0.0];
        for at in 0..self.segments.len() {
            let from = cheaper(to_here, self.change(at));
            let own = self.own(at, worths);
            to_here = [from[0].0 + own[0], from[1].0 + own[1]];
            least.push(from);
        }
        least
    }

    /// The labelling of least cost, where blocks of each size are worth so much.
    fn labels(&self, worths: &[f64]) -> Vec<bool> {
        let least = self.least(worths);
        let mut labels = vec![false; self.segments.len()];
        let Some(end) = least.last() else { return labels };
        let own = self.own(least.len() - 1, worths);
        let mut is_parameter = end[1].0 + own[1] < end[0].0 + own[0];
        for (label, from) in labels.iter_mut().zip(&least).rev() {
            *label = is_parameter;
            is_parameter = from[usize::from(is_parameter)].1;
        }
        labels
    }

    /// For each segment, how much more it costs as one of parameters than as none, with whatever changes beside it.
    fn preferences(&self, worths: &[f64]) -> Vec<f64> {
        let mut behind = [0.0, 0.0];
        let mut behinds = vec![behind; self.segments.len()];
        for at in (0..self.segments.len()).rev() {
            behinds[at] = behind;
            let own = self.own(at, worths);
            behind = cheaper([behind[0] + own[0], behind[1] + own[1]], self.change(at)).map(|row| row.0);
        }
        let preferences = self.least(worths).into_iter().zip(behinds).enumerate().map(|(at, (before, behind))| {
            let own = self.own(at, worths);
            (before[1].0 + own[1] + behind[1]) - (before[0].0 + own[0] + behind[0])
        });
        preferences.collect()
    }

    /// For each segment, how much more it would cost if it changed places with one that has the same blocks and the other answer; infinite
    /// where none has.
    fn margins(&self, labels: &[bool], preferences: &[f64]) -> Vec<f64> {
        let away = |is_parameter: bool, preference: f64| if is_parameter { -preference } else { preference };
        // By what a segment has: the least of those with either answer.
        let mut least: FxHashMap<&[(usize, usize)], [f64; 2]> = FxHashMap::default();
        for ((sizes, &label), &preference) in self.sizes.iter().zip(labels).zip(preferences) {
            let of = &mut least.entry(sizes).or_insert([f64::INFINITY; 2])[usize::from(label)];
            *of = of.min(away(label, preference));
        }
        let rows = self.sizes.iter().zip(labels).zip(preferences);
        let margins =
            rows.map(|((sizes, &label), &own)| away(label, own) + least[sizes.as_slice()][usize::from(!label)]);
        margins.collect()
    }
}

/// The cheaper of staying and changing, for both answers of a segment, with the answer that it comes from.
fn cheaper(from: [f64; 2], change: f64) -> [(f64, bool); 2] {
    let other = if from[1] + change < from[0] { (from[1] + change, true) } else { (from[0], false) };
    let parameters = if from[1] <= from[0] + change { (from[1], true) } else { (from[0] + change, false) };
    [other, parameters]
}

/// What a labelling says of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer<'a> {
    pub(super) segment: &'a Segment,
    pub(super) is_parameter: bool,
    /// How much more the labelling would cost with another answer.
    pub(super) margin: f64,
    /// Whether more segments with the same blocks suit parameters than are wanted.
    pub(super) is_tied: bool,
}

/// Segments further apart than this are no neighbours.
const APART: u64 = 64 << 20;

/// The cost of a change between neighbours; of one beside a segment that was filled later; of one between segments far apart.
const CHANGE: f64 = 1.0;
const CHANGE_FILLED: f64 = 0.3;
const CHANGE_APART: f64 = 0.1;

/// What the youngest segment costs more than the oldest, for parameters are there first: half as much as a change between neighbours.
/// On recordings with truth, anything from a third of a change to a whole one decides alike.
const AGE: f64 = CHANGE / 2.0;

/// What a segment costs less if a small one follows it at once that is one of parameters for sure, and more if that cannot be one:
/// what lies together was made at one time.
const BESIDE: f64 = 0.7;

/// Where no order of the modules explains a segment, and another answer costs less more than this, the answer is in doubt: one
/// neighbour that was made at another time would turn it.
pub(super) const IN_DOUBT: f64 = BESIDE;

/// What a segment costs that is one of parameters for sure.
const SURE: f64 = -4.0;

/// What a segment costs as one of parameters, by how well its blocks suit them.
fn cost(segment: &Segment) -> f64 {
    let blocks = segment.blocks.len();
    match segment {
        Segment { fresh: 0, .. } => f64::INFINITY,
        Segment { is_sure: true, .. } => SURE,
        Segment { in_runs: true, .. } => 2.5,
        Segment { exactly, .. } if *exactly == blocks => 0.0,
        Segment { nearly, .. } if *nearly == blocks => 0.2,
        Segment { exactly, nearly, .. } if *exactly > 0 || *nearly > 0 => 1.4,
        _ => 2.0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
fn count(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "a weight")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network and its target on an H100 with three segments that suit, of which an intermediate had left one to the optimizer's state.
    #[test]
    fn of_more_segments_that_suit_than_are_wanted_the_least_likely_is_none() {
        let block = vec![(0, 1)];
        let sizes = vec![block.clone(), block.clone(), vec![(1, 1)], block.clone()];
        let labelling =
            Labelling { segments: Vec::new(), sizes, costs: Vec::new(), wanted: vec![(19.0, 2.0), (9.0, 1.0)] };
        let mut labels = [true; 4];
        let tied = labelling.drop_excess(&mut labels, &[-1.0, -3.0, -0.5, -2.0]);
        assert_eq!((labels, tied.into_iter().collect::<Vec<_>>()), ([false, true, true, true], vec![block.as_slice()]));
        assert!(labelling.drop_excess(&mut labels, &[-1.0, -3.0, -0.5, -2.0]).is_empty(), "as many as wanted");
    }
}
