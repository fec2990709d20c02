//! Partial results of convolutions on GPUs of compute capability 9.0. Their blocks work in clusters, one wave after the other; tiles that do
//! not fill a wave are split along their depth, and the parts are added up through the workspace. How many parts there are depends on how
//! many clusters the GPU holds. cuDNN can tell that of a GPU that is there; without one it takes a single cluster of processors for all.
//!
//! # Source
//! Asked of cuDNN 9.19 on three H200s, which hold equally many clusters: 142,006 passes of convolutions, with the GPU and without. The
//! engines were the same in all of them. The workspaces differed in 18,658, which are all of the engines that are described here. The size
//! follows from the number of parts to the byte; the rule for that number is right for 99 % of the tiles of a first wave and 90 % of those
//! behind one.

use super::convolution::Convolution;
use crate::settings;

/// The knobs of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// The number of the tile.
    pub(super) tile: u64,
    /// 0 if tiles may be split.
    pub(super) workspace: u64,
    /// Rows and columns of a cluster.
    pub(super) cluster: [u64; 2],
}

/// A tile, and the cost of adding its parts in pairs once, in steps along the depth: for `float32`, `float16` and `bfloat16`, alone and
/// behind other waves.
struct Tile {
    number: u64,
    extent: (u64, u64),
    alone: [f64; 3],
    behind: [f64; 3],
}

const fn tile(number: u64, extent: (u64, u64), alone: [f64; 3], behind: [f64; 3]) -> Tile {
    Tile { number, extent, alone, behind }
}

const TILES: [Tile; 8] = [
    tile(0, (128, 128), [13.6, 6.8, 51.0], [3.4, 1.0, 22.8]),
    tile(1, (128, 64), [16.0, 8.2, 70.0], [2.4, 2.0, 25.4]),
    tile(3, (256, 128), [11.2, 5.6, 45.0], [0.4, 0.2, 18.4]),
    tile(4, (256, 64), [13.2, 6.6, 51.0], [0.4, 1.0, 21.0]),
    tile(5, (64, 64), [24.8, 13.0, 98.8], [9.4, 8.4, 49.4]),
    tile(6, (128, 256), [11.2, 5.6, 45.0], [0.4, 0.2, 22.8]),
    tile(7, (64, 128), [16.8, 8.2, 69.0], [0.4, 3.0, 28.8]),
    tile(9, (64, 256), [13.6, 6.8, 51.0], [2.4, 1.0, 24.0]),
];

/// How many clusters of 1, 2, … processors an H100 or H200 with 132 of them holds; no larger one was seen.
const CLUSTERS: [u64; 16] = [132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7];
const PROCESSORS: i32 = 132;
/// The processors of the one cluster that is taken for a GPU that is not there.
const ONE_CLUSTER: u64 = 18;

/// What stands before the parts, to have them begin at a multiple of 128.
const ALIGNMENT: u64 = 127;
/// What an engine has that counts the waves but splits no tile.
const COUNTER: u64 = ALIGNMENT + 4;
/// The tensors' own copies end at a multiple of 16, once or twice.
const COPIES_END: [u64; 3] = [0, 16, 32];
/// Along the depth a part has more than this many elements if there are at least so many parts.
const DEPTH: u64 = 1024;
const MANY_PARTS: u64 = 9;
/// Behind other waves a part has at least so many steps, of `float32`, `float16` and `bfloat16`.
const STEPS_MIN: [u64; 3] = [6, 3, 1];
const BFLOAT16: usize = 2;
/// A tile of 64 by 64.
const SMALLEST_BYTES: u64 = 64 * 64 * 4;

/// The workspace on the GPU, where cuDNN has said another for one that is not there.
pub(super) fn workspace_bytes(convolution: &Convolution, tiling: Tiling, said: u64) -> u64 {
    let card = &settings::get().card;
    if (card.major, card.minor, card.multiprocessors) != (9, 0, PROCESSORS) {
        return said;
    }
    resized(convolution, tiling, said).unwrap_or(said)
}

fn resized(convolution: &Convolution, tiling: Tiling, said: u64) -> Option<u64> {
    let size = tiling.cluster[0].checked_mul(tiling.cluster[1]).filter(|&size| size > 0)?;
    let clusters = *CLUSTERS.get(usize::try_from(size).ok()? - 1)?;
    let here = Waves::new(convolution, tiling, clusters * size)?;
    let imagined = Waves::new(convolution, tiling, ONE_CLUSTER / size * size)?;
    // What is left without the parts are copies of tensors.
    let copies = imagined.likely_parts().find_map(|parts| {
        let copies = said.checked_sub(imagined.bytes(parts))?;
        are_copies(convolution, copies).then_some(copies)
    });
    Some(copies? + here.bytes(here.parts()))
}

/// Whether bytes are copies of some of the tensors, or of none.
fn are_copies(convolution: &Convolution, bytes: u64) -> bool {
    [1, 4, 8].into_iter().any(|fill| {
        let sizes = convolution.sizes(fill);
        (0..8_u32).any(|chosen| {
            let all: u64 =
                sizes.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1).map(|(_, size)| size).sum();
            COPIES_END.iter().any(|end| all + end == bytes)
        })
    })
}

/// The tiles of a convolution on as many processors as work at once.
#[derive(Debug)]
struct Waves {
    splits: bool,
    tile_bytes: u64,
    /// The place of the type in the tables.
    kind: usize,
    /// What adding up costs.
    cost: f64,
    /// Steps along the depth, and how many elements one has.
    steps: u64,
    step: u64,
    /// Full waves, and tiles that are left.
    full: u64,
    left: u64,
    parts_max: u64,
}

impl Waves {
    fn new(convolution: &Convolution, tiling: Tiling, processors: u64) -> Option<Self> {
        let splits = tiling.workspace == 0;
        // Tiles of which no part was seen are not split.
        let found = TILES.iter().find(|tile| tile.number == tiling.tile);
        let tile = found.or_else(|| TILES.first().filter(|_| !splits))?;
        let kind = match convolution.element_size() {
            4 => 0,
            _ if convolution.is_bfloat16() => BFLOAT16,
            _ => 1,
        };
        let ([rows, columns], depth) = convolution.tiling(tile.extent);
        let [rows, columns] =
            [(rows, 0), (columns, 1)].map(|(tiles, side)| tiles.next_multiple_of(tiling.cluster[side]));
        let tiles = rows * columns * convolution.groups();
        let (full, left) = (tiles.checked_div(processors)?, tiles.checked_rem(processors)?);
        let step = if kind == 0 { 32 } else { 64 };
        let costs = if full == 0 { tile.alone } else { tile.behind };
        Some(Waves {
            splits,
            tile_bytes: tile.extent.0 * tile.extent.1 * 4,
            kind,
            cost: costs[kind],
            steps: depth.div_ceil(step),
            step,
            full,
            left,
            parts_max: processors.checked_div(left).unwrap_or(1),
        })
    }

    /// How many parts a tile has.
    fn parts(&self) -> u64 {
        if !self.splits || self.parts_max <= 1 {
            return 1;
        }
        let deep = self.steps / (DEPTH / self.step + 1);
        let alone = self.full == 0;
        // As deep as this, all parts do.
        let is_deep = if alone {
            self.parts_max >= MANY_PARTS
        } else {
            self.kind == BFLOAT16 && self.tile_bytes > SMALLEST_BYTES
        };
        if is_deep && deep >= MANY_PARTS {
            return self.parts_max.min(deep);
        }
        // The least time: a part's steps, and to add up two and two.
        let steps_min = if alone { 1 } else { STEPS_MIN[self.kind] };
        #[expect(clippy::cast_precision_loss, reason = "far below the precision of numbers")]
        let time = |parts: u64| {
            let steps =
                if self.full == 0 { self.steps as f64 / parts as f64 } else { self.steps.div_ceil(parts) as f64 };
            steps + self.cost * f64::from(u64::BITS - (parts - 1).leading_zeros())
        };
        let candidates = (1..=self.parts_max).filter(|&parts| parts == 1 || self.steps >= parts * steps_min);
        candidates.min_by(|&a, &b| time(a).total_cmp(&time(b))).unwrap_or(1)
    }

    /// The number of parts that the rule says, then all others.
    fn likely_parts(&self) -> impl Iterator<Item = u64> {
        let most = if self.splits { self.parts_max.max(1) } else { 1 };
        std::iter::once(self.parts()).chain(1..=most)
    }

    /// The bytes for so many parts of each tile: the parts, and a counter for each sum of two.
    fn bytes(&self, parts: u64) -> u64 {
        let counts_waves = self.full + self.left.min(1) >= 3;
        if parts <= 1 {
            return if counts_waves { COUNTER } else { 0 };
        }
        let sums: u64 =
            std::iter::successors(Some(parts), |&parts| (parts > 1).then(|| parts.div_ceil(2))).skip(1).sum();
        let counters = self.left * sums + if counts_waves { 9 } else { 8 };
        ALIGNMENT + self.left * parts * self.tile_bytes + 4 * counters
    }
}

#[cfg(test)]
mod tests {
    use super::super::convolution::tests::{convolution, output};
    use super::*;

    const FORWARD: u8 = 0;
    const DATA: u8 = 1;
    const FILTER: u8 = 2;
    const FLOAT: i32 = 0;
    const HALF: i32 = 2;
    const BFLOAT16: i32 = 9;

    /// Pass, type, input, filter, stride and padding, channels last; tile and cluster; what cuDNN says without the GPU, and with an H200.
    #[expect(clippy::type_complexity, reason = "a row")]
    const ASKED: [(u8, i32, [u64; 4], [u64; 4], [u64; 2], bool, [u64; 3], u64, u64); 15] = [
        (FORWARD, BFLOAT16, [2, 1024, 10, 10], [1024, 1024, 3, 3], [1, 1], true, [7, 4, 1], 0, 2_097_439),
        (FORWARD, BFLOAT16, [20, 640, 14, 14], [512, 640, 3, 3], [1, 1], false, [0, 4, 2], 14_930_067, 15_978_703),
        (FILTER, BFLOAT16, [128, 128, 16, 16], [32, 128, 3, 3], [1, 1], true, [7, 1, 3], 590_019, 3_834_519),
        (FILTER, BFLOAT16, [24, 256, 48, 48], [512, 256, 3, 3], [2, 1], true, [1, 1, 8], 131, 3_932_799),
        (FILTER, HALF, [32, 1024, 7, 7], [1024, 1024, 3, 3], [1, 1], false, [7, 4, 4], 25_297_043, 28_443_187),
        (FILTER, HALF, [32, 2048, 7, 7], [1024, 2048, 1, 1], [1, 0], false, [0, 4, 2], 9_633_939, 13_304_207),
        (DATA, BFLOAT16, [96, 256, 4, 4], [1024, 256, 3, 3], [1, 1], true, [7, 1, 1], 131, 3_146_079),
        (DATA, BFLOAT16, [48, 768, 48, 48], [1000, 768, 2, 2], [1, 1], false, [0, 4, 2], 406_509_459, 409_655_315),
        (FORWARD, FLOAT, [192, 1024, 6, 6], [1024, 1024, 3, 3], [2, 1], false, [3, 1, 2], 75_497_739, 87_818_639),
        (FORWARD, FLOAT, [192, 1792, 16, 16], [896, 1792, 1, 1], [1, 0], false, [0, 8, 1], 528_482_451, 534_774_131),
        (FILTER, FLOAT, [6, 144, 40, 40], [1, 144, 3, 3], [1, 0], false, [5, 1, 1], 5_984_083, 7_458_931),
        (FILTER, FLOAT, [16, 512, 24, 24], [256, 512, 3, 3], [1, 1], true, [1, 1, 2], 131, 4_326_111),
        (DATA, FLOAT, [12, 160, 8, 8], [320, 160, 3, 3], [1, 1], false, [0, 4, 1], 3_317_776, 7_512_431),
        (DATA, FLOAT, [20, 512, 48, 48], [256, 512, 3, 3], [1, 1], false, [3, 1, 2], 146_276_499, 162_005_411),
        // The tiles of a ResNet fill the waves: there is nothing to split.
        (FORWARD, FLOAT, [32, 256, 14, 14], [256, 256, 3, 3], [1, 1], false, [0, 1, 2], 16_253_139, 15_204_368),
    ];

    #[test]
    fn parts_are_as_many_as_on_an_h200() {
        for (pass, kind, input, filter, [stride, padding], last, [tile, rows, columns], said, measured) in ASKED {
            let shapes = [input.to_vec(), filter.to_vec(), output(&input, &filter, stride, padding)];
            let layer = convolution(pass, kind, shapes, vec![stride; 2], last);
            let tiling = Tiling { tile, workspace: 0, cluster: [rows, columns] };
            assert_eq!(workspace_bytes(&layer, tiling, said), measured, "{pass} {kind} {input:?} {filter:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_as_it_was_said() {
        let layer = convolution(
            FORWARD,
            FLOAT,
            [vec![8, 64, 32, 32], vec![64, 64, 3, 3], vec![8, 64, 32, 32]],
            vec![1, 1],
            false,
        );
        let tiling = Tiling { tile: 0, workspace: 0, cluster: [1, 2] };
        let odd = [
            Tiling { tile: 99, ..tiling },
            Tiling { cluster: [0, 2], ..tiling },
            Tiling { cluster: [u64::MAX, 2], ..tiling },
            Tiling { cluster: [17, 1], ..tiling },
        ];
        for tiling in odd {
            assert_eq!(workspace_bytes(&layer, tiling, 12_345), 12_345, "{tiling:?}");
        }
        assert_eq!(workspace_bytes(&layer, tiling, 777), 777, "that is no copy of a tensor");
    }
}
