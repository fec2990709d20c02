//! Without a backward pass, what was there before the recording is parameters, unless it lies behind all layers and is like none of their
//! matrices: pages of a cache, or another model.

use std::cmp::Reverse;

use highwater_allocator::sizes::MIN_LARGE_BYTES;
use highwater_snapshot::Block;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Known, LARGE, MIN_FROZEN, WORKSPACES};
use crate::category::ages::{ages_by_any_hole, chunks};
use crate::category::before::{self, Held, Region};
use crate::category::origin::Origin;

/// Sizes that show layers: each has several matrices, which repeat in turns.
const MIN_SIZES: usize = 2;

/// Least bytes of such a matrix: of some models, only some are large. Vectors lie in segments of their own, and show little.
const MIN_MATRIX: u64 = 1 << 16;

/// A model has fewer sizes of matrices that repeat. With more, nothing is compared.
const MOST_SIZES: usize = 64;

/// For each size, the places of its blocks in the order of age.
type Places = FxHashMap<u64, Vec<usize>>;

/// Blocks of one size: the size, and their places in the order of age.
type Group<'a> = (u64, &'a [usize]);

/// What lies behind the layers of a model that is not trained.
#[derive(Debug, Default)]
pub(super) struct Behind {
    pub(super) sizes: FxHashSet<u64>,
    /// There is one size, and one block or two for each layer: keys and values. Another model has matrices of several sizes.
    pub(super) are_pages: bool,
    /// Rows of two blocks for each layer that are as large as a matrix of it.
    pub(super) like_matrix: FxHashSet<usize>,
}

impl<T: Fn(usize) -> Origin> Known<'_, T> {
    /// Sizes of which most blocks are larger than each matrix of the layers. Either there are as many as layers, younger than all or in
    /// segments without any. Or they are younger and in such segments, or larger than everything else together and not the model's last
    /// matrix. `returned` are the rows of what calls return.
    pub(super) fn behind_layers(&self, held: &[Held], returned: &FxHashSet<usize>) -> Behind {
        let mut places = Places::default();
        let mut at_row: FxHashMap<usize, usize> = FxHashMap::default();
        let reusing = self.reusing(held);
        for (at, block) in before::by_age(held, &self.memory.regions, ages_by_any_hole).enumerate() {
            if block.size_bytes >= MIN_MATRIX {
                // What fills memory that was released is younger than its segment.
                let at = if reusing.contains(&block.row) { held.len() + at } else { at };
                at_row.insert(block.row, at);
                places.entry(block.size_bytes).or_default().push(at);
            }
        }
        for places in places.values_mut() {
            places.sort_unstable();
        }
        let repeated = repeated(&places);
        if repeated.len() > MOST_SIZES {
            return Behind::default();
        }
        let all = held.iter().map(|block| block.size_bytes).fold(0, u64::saturating_add);
        let groups = places.iter().map(|(&size, places)| (size, places.as_slice()));
        let may_be = groups.filter(|&group| {
            group.0 > LARGE
                && (group.1.len() >= MIN_FROZEN || (bytes(group) > all / 2 && !WORKSPACES.contains(&group.0)))
        });
        let mut may_be: Vec<Group<'_>> = may_be.collect();
        may_be.sort_unstable_by_key(|group| Reverse(group.0));
        let mut found: FxHashMap<u64, bool> = FxHashMap::default();
        for group in may_be {
            let others: Vec<Group<'_>> = repeated.iter().copied().filter(|other| other.0 != group.0).collect();
            let Some(layers) = layers(&others) else { continue };
            let is_larger = |layers: &[Group<'_>]| layers.iter().all(|layer| group.0 > layer.0);
            // Of a matrix of each layer, one or two are younger than all others. Large blocks may fill what the driver gave back.
            let are_half_behind = || layers.iter().all(|&layer| younger(group, layer) * 2 >= group.1.len());
            let are_behind = || layers.iter().all(|&layer| is_behind(group, layer));
            let fill = || fill_chunks(group, &layers, held, &self.memory.regions);
            let is_most = || bytes(group) > all / 2 && !self.is_head(group.0, held, returned);
            let is_apart = |own: &[Group<'_>]| {
                let is_large = |layer: &&Group<'_>| layer.0 > LARGE && !found.contains_key(&layer.0);
                let own: Vec<u64> = own.iter().filter(is_large).map(|layer| layer.0).collect();
                // Small layers have segments of their own: beside them, pages lie like those of another model that are known.
                let all = || layers.iter().filter(is_large).map(|layer| layer.0).collect();
                let of_layers = if own.is_empty() && !found.is_empty() { all() } else { own };
                lies_apart(group.0, &of_layers, held, &self.memory.regions)
            };
            let is_of_layers = one_for_each(group, &layers)
                .any(|own| is_larger(&own) && (are_half_behind() || fill() || is_apart(&own)));
            // Of two models whose pages are as large, no number tells.
            let is_sure = || is_most() || is_apart(&layers);
            if is_of_layers || (is_larger(&layers) && are_behind() && is_sure()) {
                // Of another model the smaller matrices are behind these layers, too.
                let is_layer = |other: &Group<'_>| layers.iter().any(|layer| layer.0 == other.0);
                let lies_so = |other: &&Group<'_>| layers.iter().all(|&layer| is_behind(**other, layer));
                let is_alone = !others.iter().filter(|other| !is_layer(other)).any(|other| lies_so(&other));
                found.insert(group.0, is_of_layers && is_alone);
            }
        }
        Behind {
            are_pages: found.len() == 1 && found.values().all(|&of_layers| of_layers),
            sizes: found.into_keys().collect(),
            like_matrix: like_matrix(&repeated, held, &self.memory.regions, &at_row),
        }
    }

    /// Rows of large blocks that fill memory which was reserved for something else, and released. A model that was moved to the device lies
    /// as it was made, and one that was converted there left a segment of twice the bytes for each such block: without them, the blocks of
    /// a size are younger than the model.
    fn reusing(&self, held: &[Held]) -> FxHashSet<usize> {
        /// One segment for so many blocks is left even if the cache was emptied after the conversion.
        const LEFT_PART: usize = 4;
        let is_workspace = |block: &&Block| WORKSPACES.contains(&block.size_bytes);
        let workspaces: FxHashSet<u64> =
            self.memory.blocks.iter().filter(is_workspace).map(|block| block.address).collect();
        let released = self.memory.regions.iter().filter(|region| !workspaces.contains(&region.address));
        let mut released_of: FxHashMap<u64, usize> = FxHashMap::default();
        for region in released {
            *released_of.entry(region.total_bytes).or_default() += 1;
        }
        let largest = released_of.keys().copied().max().unwrap_or(0);
        let fresh = before::lie_as_when_made(held, self.ground());
        let blocks = || held.iter().zip(&fresh).filter(|(block, is_fresh)| !**is_fresh && block.size_bytes > LARGE);
        let mut count_of: FxHashMap<u64, usize> = FxHashMap::default();
        for (block, _) in blocks() {
            *count_of.entry(block.size_bytes).or_default() += 1;
        }
        let is_younger = |block: &Held| {
            let twice = block.size_bytes.saturating_mul(2);
            let left = released_of.get(&self.ground().settings.segment_bytes(twice)).copied().unwrap_or(0);
            twice > largest || (twice >= MIN_LARGE_BYTES && left * LEFT_PART < count_of[&block.size_bytes])
        };
        blocks().filter(|(block, _)| is_younger(block)).map(|(block, _)| block.row).collect()
    }

    /// Whether a size is that of a model's last matrix: the commonest small parameter has the model's width, and at least half of the calls
    /// return rows of the other.
    fn is_head(&self, size_bytes: u64, held: &[Held], returned: &FxHashSet<usize>) -> bool {
        /// Counters of a module's calls are smaller.
        const MIN_VECTOR: u64 = 128;
        /// Bytes of a number that a model returns, at least.
        const NUMBER: u64 = 2;
        let mut small: FxHashMap<u64, usize> = FxHashMap::default();
        for block in held.iter().filter(|block| (MIN_VECTOR..MIN_MATRIX).contains(&block.size_bytes)) {
            *small.entry(block.size_bytes).or_default() += 1;
        }
        let width = small.into_iter().max_by_key(|&(size, count)| (count, size)).map(|row| row.0);
        let row = width.filter(|width| size_bytes.is_multiple_of(*width)).map(|width| size_bytes / width * NUMBER);
        let is_of_rows =
            |&&at: &&usize| row.is_some_and(|row| self.lifetimes.rows[at].requested_bytes.is_multiple_of(row));
        let of_rows = returned.iter().filter(is_of_rows).count();
        of_rows > 0 && of_rows * 2 >= returned.len()
    }
}

/// Sizes of which there are several blocks.
fn repeated(places: &Places) -> Vec<Group<'_>> {
    let repeated = places.iter().filter(|(_, places)| places.len() >= MIN_FROZEN);
    repeated.map(|(&size, places)| (size, places.as_slice())).collect()
}

/// Those of layers: at least another's blocks lie among its own. `None` if there are none, or no large ones: small blocks lie in segments
/// of their own, so large ones may seem to be behind them.
fn layers<'a>(repeated: &[Group<'a>]) -> Option<Vec<Group<'a>>> {
    let is_among = |&group: &Group<'_>| {
        let mut others = repeated.iter().filter(|other| other.0 != group.0);
        others.any(|&other| !is_behind(group, other) && !is_behind(other, group))
    };
    let layers: Vec<Group<'_>> = repeated.iter().copied().filter(is_among).collect();
    (layers.len() >= MIN_SIZES && layers.iter().any(|layer| layer.0 > LARGE)).then_some(layers)
}

/// Whether nearly all blocks of a size are younger than every one of another: a few may fill a gap among the segments.
fn is_behind(group: Group<'_>, other: Group<'_>) -> bool {
    younger(group, other) * 4 >= group.1.len() * 3
}

/// How many blocks of a size are younger than every one of another.
fn younger(group: Group<'_>, other: Group<'_>) -> usize {
    let last = other.1.last().copied().unwrap_or(0);
    group.1.len() - group.1.partition_point(|&at| at <= last)
}

/// The matrices of the layers of which there are as many as blocks of a size, or half as many. Of two models, each has its own.
fn one_for_each<'a>(group: Group<'_>, layers: &[Group<'a>]) -> impl Iterator<Item = Vec<Group<'a>>> {
    /// Matrices of one size in a layer.
    const MOST: usize = 4;
    /// The same, where an encoder and a decoder have a layer for each block: the decoder's have two attentions.
    const MOST_OF_BOTH: usize = 8;
    // A library's workspace may be as large.
    let workspaces = 0..=usize::from(WORKSPACES.contains(&group.0));
    let counts = workspaces.map(|workspaces| group.1.len() - workspaces).filter(|&count| count >= MIN_FROZEN);
    let numbers = counts.flat_map(|count| {
        let half = count.is_multiple_of(2).then_some((count / 2, MOST));
        [Some((count, MOST)), half, Some((count, MOST_OF_BOTH))].into_iter().flatten()
    });
    let own = numbers.map(move |(number, most)| -> Vec<Group<'a>> {
        let is_own = |layer: &&Group<'_>| (1..=most).any(|matrices| layer.1.len() == matrices * number);
        layers.iter().filter(is_own).copied().collect()
    });
    own.filter(|own| own.len() >= MIN_SIZES)
}

/// Whether nearly all blocks of a size lie in segments without layers, though both are small enough to share segments: a matrix of each
/// layer would lie beside the others of its layer.
fn lies_apart(size_bytes: u64, layers: &[u64], held: &[Held], regions: &[Region]) -> bool {
    let shares = |size: u64| (LARGE + 1..MIN_LARGE_BYTES).contains(&size);
    if !shares(size_bytes) || !layers.iter().any(|&layer| shares(layer)) {
        return false;
    }
    let (mut apart, mut beside) = (0, 0);
    for region in regions {
        let first = held.partition_point(|block| block.address < region.address);
        let end = held.partition_point(|block| block.address < region.address.saturating_add(region.total_bytes));
        let blocks = held[first..end].iter().filter(|block| block.size_bytes == size_bytes).count();
        let has_layers = held[first..end].iter().any(|block| layers.contains(&block.size_bytes));
        *(if has_layers { &mut beside } else { &mut apart }) += blocks;
    }
    apart >= MIN_FROZEN && apart >= beside * 3
}

/// Whether blocks of a size fill what layers left of the driver's chunks, never the reverse, and most have chunks without layers: a matrix
/// of each layer would precede some layers.
fn fill_chunks(group: Group<'_>, layers: &[Group<'_>], held: &[Held], regions: &[Region]) -> bool {
    let mut own = 0;
    let mut shared = 0;
    for chunk in chunks(regions) {
        let (mut blocks, mut has_layers) = (0, false);
        for region in &regions[chunk] {
            let first = held.partition_point(|block| block.address < region.address);
            let end = held.partition_point(|block| block.address < region.address.saturating_add(region.total_bytes));
            let held = &held[first..end];
            let is_of_layers = held
                .iter()
                .any(|block| block.size_bytes > LARGE && layers.iter().any(|layer| layer.0 == block.size_bytes));
            blocks += held.iter().filter(|block| block.size_bytes == group.0).count();
            if is_of_layers && blocks > 0 {
                return false;
            }
            has_layers |= is_of_layers;
        }
        *(if has_layers { &mut shared } else { &mut own }) += blocks;
    }
    shared >= MIN_FROZEN && own >= shared
}

/// Keys and values that are as large as one matrix or more of each layer: of this size there are two blocks more for each layer, and nearly
/// as many lie apart from every other matrix of the layers, and follow these in a segment or are younger. `at_row` are the places of rows in
/// the order of age.
fn like_matrix(
    repeated: &[Group<'_>],
    held: &[Held],
    regions: &[Region],
    at_row: &FxHashMap<usize, usize>,
) -> FxHashSet<usize> {
    /// Matrices of one size in a layer.
    const MOST: usize = 4;
    let mut found = FxHashSet::default();
    for &(size, places) in repeated.iter().filter(|group| (LARGE + 1..MIN_LARGE_BYTES).contains(&group.0)) {
        let numbers = (1..=MOST).filter(|matrices| places.len().is_multiple_of(matrices + 2));
        for layers in numbers.map(|matrices| places.len() / (matrices + 2)).filter(|&layers| layers >= MIN_FROZEN) {
            let is_own = |other: &&Group<'_>| other.0 != size && other.0 > LARGE && other.1.len() == layers;
            let others: Vec<Group<'_>> = repeated.iter().filter(is_own).copied().collect();
            if others.len() < MIN_SIZES {
                continue;
            }
            let Apart { rows, follow_layers } = apart(size, &others, held, regions, MOST);
            let mut own: Vec<usize> = rows.iter().map(|row| at_row[row]).collect();
            own.sort_unstable();
            let are_nearly_all = rows.len() <= 2 * layers && rows.len() * 4 >= 2 * layers * 3;
            let are_younger = || others.iter().all(|&other| is_behind((size, &own), other));
            if are_nearly_all && (follow_layers || are_younger()) {
                found.extend(rows);
            }
        }
    }
    found
}

/// Blocks of a size that lie apart from those of other sizes.
struct Apart {
    rows: Vec<usize>,
    /// Some fill what the last of the others left of its segment.
    follow_layers: bool,
}

/// Those in segments without any of `others`, and those that follow the last of these in a longer run than a layer has.
fn apart(size_bytes: u64, others: &[Group<'_>], held: &[Held], regions: &[Region], most_in_layer: usize) -> Apart {
    let mut apart = Apart { rows: Vec::new(), follow_layers: false };
    for region in regions {
        let first = held.partition_point(|block| block.address < region.address);
        let end = held.partition_point(|block| block.address < region.address.saturating_add(region.total_bytes));
        let blocks = &held[first..end];
        let last = blocks.iter().rposition(|block| others.iter().any(|other| other.0 == block.size_bytes));
        let behind = blocks[last.map_or(0, |last| last + 1)..].iter().filter(|block| block.size_bytes == size_bytes);
        let is_long = behind.clone().count() > most_in_layer;
        apart.follow_layers |= last.is_some() && is_long;
        if last.is_none() || is_long {
            apart.rows.extend(behind.map(|block| block.row));
        }
    }
    apart
}

fn bytes(group: Group<'_>) -> u64 {
    group.0.saturating_mul(group.1.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of blocks of so many MiB, the oldest first.
    fn places(sizes: &[u64]) -> Places {
        let mut places = Places::default();
        for (at, &mib) in sizes.iter().enumerate() {
            places.entry(mib << 20).or_default().push(at);
        }
        places
    }

    fn sizes_of_layers(sizes: &[u64]) -> Option<Vec<u64>> {
        layers(&repeated(&places(sizes))).map(|layers| {
            let mut sizes: Vec<u64> = layers.iter().map(|layer| layer.0 >> 20).collect();
            sizes.sort_unstable();
            sizes
        })
    }

    #[test]
    fn layers_are_sizes_that_take_turns() {
        let model = [&[40][..], &[12, 16].repeat(4)].concat();
        assert_eq!(sizes_of_layers(&model), Some(vec![12, 16]));
        assert_eq!(sizes_of_layers(&[&model[..], &[28; 4]].concat()), Some(vec![12, 16]), "with pages");
        assert_eq!(sizes_of_layers(&[[8; 4], [16; 4], [32; 4]].concat()), None, "stages of one size each");
        assert_eq!(sizes_of_layers(&[16; 24]), None, "a plain stack");
        assert_eq!(sizes_of_layers(&[&model[..], &[20, 24].repeat(6)].concat()), Some(vec![12, 16, 20, 24]));
    }

    #[test]
    fn pages_are_as_many_as_layers_and_behind_them() {
        let model = [12, 16, 12].repeat(6);
        let count = |count: usize| {
            let places = places(&[&model[..], &vec![99; count]].concat());
            let pages = (99 << 20, places[&(99 << 20)].as_slice());
            let layers = layers(&repeated(&places)).unwrap();
            assert!(layers.iter().all(|&layer| is_behind(pages, layer) && !is_behind(layer, pages)));
            one_for_each(pages, &layers).next().is_some()
        };
        assert_eq!([6, 12].map(count), [true; 2]);
        assert_eq!([1, 2, 4, 5, 7, 24].map(count), [false; 6]);
    }

    #[test]
    fn pages_share_no_segment_with_layers() {
        /// Segments of 20 MiB, each with blocks of so many MiB, and whether those of 6 MiB lie apart from the layers' of 1.5 and 4 MiB.
        fn lies(segments: &[&[u64]]) -> bool {
            const HALF: u64 = 1 << 19;
            let regions: Vec<Region> = (0..segments.len() as u64)
                .map(|at| Region { address: at << 25, total_bytes: 20 << 20, is_expandable: false })
                .collect();
            let mut held = Vec::new();
            for (region, sizes) in regions.iter().zip(segments) {
                let mut address = region.address;
                for size_bytes in sizes.iter().map(|size| size * HALF) {
                    held.push(Held { row: 0, address, size_bytes, block_bytes: size_bytes });
                    address += size_bytes;
                }
            }
            lies_apart(12 * HALF, &[3 * HALF, 8 * HALF], &held, &regions)
        }
        let layers: [&[u64]; 2] = [&[3, 3, 8, 3, 3, 8], &[8, 3, 3, 8, 3, 3]];
        assert!(lies(&[layers[0], layers[1], &[12; 3], &[12; 3]]));
        assert!(lies(&[layers[0], &[3, 8, 12], &[12; 3], &[12; 3]]), "one fills what the layers left");
        assert!(!lies(&[&[3, 8, 12], &[3, 8, 12], &[3, 8, 12], &[3, 8, 12]]), "one of each layer");
    }

    #[test]
    fn pages_fill_chunks_that_layers_left_and_a_matrix_of_each_layer_precedes_some() {
        /// Segments of so many MiB at so many MiB, each with one block, and whether those of 12 MiB fill chunks.
        fn fill(segments: &[(u64, u64)]) -> bool {
            let mut segments = segments.to_vec();
            segments.sort_unstable();
            let of = |&(at, mib): &(u64, u64)| Held {
                row: 0,
                address: at << 20,
                size_bytes: mib << 20,
                block_bytes: mib << 20,
            };
            let held: Vec<Held> = segments.iter().map(of).collect();
            let region =
                |block: &Held| Region { address: block.address, total_bytes: block.block_bytes, is_expandable: false };
            let regions: Vec<Region> = held.iter().map(region).collect();
            fill_chunks((12 << 20, &[]), &[(10 << 20, &[])], &held, &regions)
        }
        let layers: Vec<(u64, u64)> = (0..4).map(|at| (32 * at, 10)).collect();
        let left: Vec<(u64, u64)> = (0..4).map(|at| (32 * at + 10, 12)).collect();
        let own = [(256, 12), (268, 12), (288, 12), (300, 12)];
        let pages = [&layers[..], &left, &own].concat();
        assert!(fill(&pages));
        assert!(!fill(&[&layers[..], &left].concat()), "as many in each chunk: of the layers");
        assert!(!fill(&[&pages[..], &[(320, 12), (332, 10)]].concat()), "one precedes a layer");
        assert!(!fill(&[&layers[..], &own].concat()), "no chunk has both");
    }

    #[test]
    fn two_blocks_more_for_each_layer_are_keys_and_values() {
        /// Segments of 20 MiB, each with blocks of so many MiB, and how many of those of 2 MiB are said to be a cache.
        fn found(segments: &[&[u64]]) -> usize {
            let (mut held, mut regions, mut places) = (Vec::new(), Vec::new(), Places::default());
            for (at, sizes) in segments.iter().enumerate() {
                let start = (at as u64) << 25;
                regions.push(Region { address: start, total_bytes: 20 << 20, is_expandable: false });
                let mut address = start;
                for size_bytes in sizes.iter().map(|size| size << 20) {
                    places.entry(size_bytes).or_default().push(held.len());
                    held.push(Held { row: held.len(), address, size_bytes, block_bytes: size_bytes });
                    address += size_bytes;
                }
            }
            let at_row = (0..held.len()).map(|row| (row, row)).collect();
            like_matrix(&repeated(&places), &held, &regions, &at_row).len()
        }
        let layer: &[u64] = &[3, 2, 5, 6];
        assert_eq!(found(&[layer, layer, layer, layer, &[2; 8]]), 8);
        assert_eq!(
            found(&[layer, layer, layer, &[3, 2, 5, 6, 2, 2], &[2; 6]]),
            6,
            "what fills a gap is not told apart"
        );
        assert_eq!(found(&[layer, layer, layer, &[2, 3, 5, 2, 2, 2, 2], &[6, 2, 2, 2, 2]]), 0, "most are among them");
        assert_eq!(found(&[layer, layer, layer, layer, &[2; 4]]), 0, "one more for each layer may be a matrix");
        assert_eq!(found(&[&[2; 8], layer, layer, layer, layer]), 0, "older than the layers");
    }
}
