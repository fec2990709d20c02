//! New memory: the live blocks without which enough of the old goes back to the driver.

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};

use super::layout::{Layout, page_at_or_after, page_at_or_before};
use super::{Failure, Pinning, Way, succeeds_without};

/// The smallest set of blocks without which the driver grants new memory; `None` if it has more than `most` blocks, or
/// there is none. And whether that is certain.
pub(super) fn best(failure: &Failure, layouts: &[Layout], most: usize) -> (Option<Pinning>, bool) {
    let cells = cells(layouts);
    let released = layouts.iter().fold(0_u64, |sum, layout| sum.saturating_add(layout.released_bytes()));
    let growth = Growth::new(failure, layouts);
    let mut best: Option<Pinning> = None;
    // No set has fewer blocks than the first without exceptions.
    let mut fewest = None;
    let mut is_certain = true;
    for (device_bytes, beside) in growth.tries() {
        let missing = missing(failure, device_bytes, released);
        let allowed: Vec<Cell> =
            cells.iter().copied().filter(|cell| beside.is_none_or(|gap| !cell.touches(gap))).collect();
        let (chosen, is_exact) = choose(&allowed, missing, most);
        is_certain &= is_exact;
        let found = chosen.map(|chosen| answer(layouts, &allowed, &chosen));
        if beside.is_none() && fewest.is_none() {
            fewest = Some(found.as_ref().map_or(usize::MAX, |found| found.blocks.len()));
        }
        let Some(found) = found.filter(|found| {
            let names: HashSet<u32> = found.blocks.iter().copied().collect();
            succeeds_without(failure, &names)
        }) else {
            continue;
        };
        let size = |answer: &Pinning| (answer.blocks.len(), answer.bytes);
        if best.as_ref().is_none_or(|best| size(&found) < size(best)) {
            best = Some(found);
        }
        if beside.is_none() {
            break;
        }
    }
    let count = best.as_ref().map_or(usize::MAX, |best| best.blocks.len());
    is_certain &= Some(count) == fewest;
    (best.map(|best| Pinning { is_smallest: is_certain, ..best }), is_certain)
}

/// Bytes that must come back before `device_bytes` of new memory are granted.
fn missing(failure: &Failure, device_bytes: u64, released: u64) -> u64 {
    let Failure { request, headroom, .. } = failure;
    let of_limit = headroom.limit_bytes.map_or(0, |limit| request.segment_bytes.saturating_sub(limit));
    device_bytes.saturating_sub(headroom.device_bytes).max(of_limit).saturating_sub(released)
}

/// Where an expandable segment could grow: between two live blocks.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Index of the segment.
    layout: usize,
    start: u64,
    end: u64,
    page: u64,
}

/// How many bytes of the device the new memory takes.
struct Growth {
    /// Where it is fewest as things are, and how many those are.
    least: Option<(u64, Gap)>,
    /// How many suffice wherever it is.
    most: u64,
}

impl Growth {
    fn new(failure: &Failure, layouts: &[Layout]) -> Self {
        let request = failure.request;
        let Some(page) = request.page_bytes else {
            return Self { least: None, most: request.segment_bytes };
        };
        let most = page_at_or_after(request.size_bytes, page.max(1));
        let usable = layouts.iter().enumerate().filter(|(_, layout)| layout.is_usable);
        let least = usable.filter_map(|(index, layout)| least_growth(index, layout, request.size_bytes));
        Self { least: least.min_by_key(|&(bytes, _)| bytes).filter(|&(bytes, _)| bytes < most), most }
    }

    /// Bytes of the device to aim for, and the gap whose neighbours must stay.
    ///
    /// Without its neighbours a gap loses the pages that it shares with them to the release. These must be mapped again:
    /// a page more, or two.
    fn tries(&self) -> impl Iterator<Item = (u64, Option<Gap>)> + use<> {
        let most = self.most;
        let of_gap = self.least.into_iter().flat_map(move |(least, gap)| {
            let more = |pages: u64| (least.saturating_add(gap.page.saturating_mul(pages)), None);
            [(least, Some(gap)), more(0), more(1), more(2)].into_iter().filter(move |&(bytes, _)| bytes < most)
        });
        of_gap.chain([(most, None)])
    }
}

/// The fewest bytes to map for `size` bytes in a gap of an expandable segment, once what is free in it is unmapped.
fn least_growth(index: usize, layout: &Layout, size: u64) -> Option<(u64, Gap)> {
    let page = layout.page_bytes?;
    let starts = std::iter::once(0).chain(layout.live.iter().map(|live| live.end));
    let ends = layout.live.iter().map(|live| live.start).chain([layout.end]);
    let gaps = starts.zip(ends).filter_map(|(start, beyond)| {
        let end = start.checked_add(size).filter(|&end| end <= beyond)?;
        let last_page = page_at_or_after(end, page);
        let bytes = if layout.is_releasable {
            last_page.min(page_at_or_before(beyond, page)).saturating_sub(page_at_or_after(start, page))
        } else {
            layout.unmapped.bytes_within(start, last_page)
        };
        Some((bytes, Gap { layout: index, start, end: beyond, page }))
    });
    gaps.min_by_key(|&(bytes, _)| bytes)
}

/// Memory that goes back to the driver once all live blocks in it are gone: a segment, or neighbouring pages of one
/// that the same blocks lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// Its first byte in the segment.
    start: u64,
    bytes: u64,
    /// Index of the segment.
    layout: usize,
    /// Index of its first live block.
    first: usize,
    /// How many live blocks lie in it.
    count: usize,
    /// How many of them do not lie in the cell before it.
    entering: usize,
}

impl Cell {
    /// Whether the other begins where it ends.
    fn is_followed_by(self, other: Self) -> bool {
        self.layout == other.layout && self.start.saturating_add(self.bytes) == other.start
    }

    /// Whether a part of the gap is in one of its pages.
    fn touches(self, gap: Gap) -> bool {
        self.layout == gap.layout && self.start < gap.end && gap.start < self.start.saturating_add(self.bytes)
    }
}

/// The cells of all segments that can be released, in order.
fn cells(layouts: &[Layout]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (index, layout) in layouts.iter().enumerate().filter(|(_, layout)| layout.is_releasable) {
        match layout.page_bytes {
            Some(page) => page_cells(index, layout, page, &mut cells),
            None => {
                let count = layout.live.len();
                if count > 0 {
                    cells.push(Cell { start: 0, bytes: layout.end, layout: index, first: 0, count, entering: count });
                }
            }
        }
    }
    cells
}

fn page_cells(index: usize, layout: &Layout, page: u64, cells: &mut Vec<Cell>) {
    let whole_pages = layout.end / page;
    let cell = |low: u64, high: u64, first, count, entering| {
        let bytes = high.min(whole_pages).saturating_sub(low) * page;
        Cell { start: low.saturating_mul(page), bytes, layout: index, first, count, entering }
    };
    // The pages of the last cell: first, and one past the last.
    let (mut last_low, mut last_high) = (0, 0);
    for (row, live) in layout.live.iter().enumerate() {
        let (mut low, high) = (live.start / page, (live.end - 1) / page + 1);
        let mut entering = 1;
        if last_high > low
            && let Some(before) = cells.last_mut()
        {
            // They meet in one page. Only a single block has a cell of several.
            if last_low < low {
                *before = cell(last_low, low, before.first, before.count, before.entering);
                cells.push(cell(low, last_high, row - 1, 2, 1));
            } else {
                before.count += 1;
                before.entering += 1;
            }
            (last_low, low, entering) = (low, last_high, 0);
        }
        if low < high {
            cells.push(cell(low, high, row, 1, entering));
            (last_low, last_high) = (low, high);
        }
    }
}

/// An exact choice may take this many steps.
const STEPS_MAX: usize = 1 << 24;

/// The cells that together have `missing` bytes and the fewest blocks, ascending; `None` if those are more than `most`
/// blocks or there are not enough cells. And whether that is certain.
fn choose(cells: &[Cell], missing: u64, most: usize) -> (Option<Vec<usize>>, bool) {
    if missing == 0 {
        return (Some(Vec::new()), true);
    }
    let Some((some, count)) = choose_greedily(cells, missing) else {
        return (None, true);
    };
    let bound = count.min(most);
    let useful = useful_cells(cells, bound);
    if useful.len().saturating_mul(bound + 1) > STEPS_MAX {
        return ((count <= most).then_some(some), false);
    }
    (choose_exactly(cells, &useful, missing, bound), true)
}

/// Cells with many bytes for few blocks, and how many blocks lie in them.
fn choose_greedily(cells: &[Cell], missing: u64) -> Option<(Vec<usize>, usize)> {
    let mut rows: Vec<usize> = (0..cells.len()).collect();
    let share = |row: &usize| (u128::from(cells[*row].bytes) << 32) / cells[*row].count.max(1) as u128;
    rows.sort_by_key(|row| Reverse(share(row)));
    let mut sum = 0_u64;
    let enough = rows.iter().position(|&row| {
        sum = sum.saturating_add(cells[row].bytes);
        sum >= missing
    })?;
    rows.truncate(enough + 1);
    rows.reverse();
    rows.retain(|&row| {
        let is_needed = sum.saturating_sub(cells[row].bytes) < missing;
        if !is_needed {
            sum -= cells[row].bytes;
        }
        is_needed
    });
    rows.sort_unstable();
    let blocks: HashSet<(usize, usize)> = rows.iter().flat_map(|&row| blocks_of(cells[row])).collect();
    Some((rows, blocks.len()))
}

/// The rows of cells that may be part of an answer with up to `bound` blocks.
///
/// Of cells that share no blocks with others and have equally many, only the largest can be.
fn useful_cells(cells: &[Cell], bound: usize) -> Vec<usize> {
    let shares = |row: usize| {
        let cell = cells[row];
        let next = cells.get(row + 1).is_some_and(|next| next.entering < next.count && cell.is_followed_by(*next));
        cell.entering < cell.count || next
    };
    let mut alone: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut useful = Vec::new();
    for row in (0..cells.len()).filter(|&row| cells[row].count <= bound && cells[row].bytes > 0) {
        if shares(row) {
            useful.push(row);
        } else {
            alone.entry(cells[row].count).or_default().push(row);
        }
    }
    for (count, mut rows) in alone {
        rows.sort_unstable_by_key(|&row| (Reverse(cells[row].bytes), row));
        rows.truncate(bound / count.max(1));
        useful.extend(rows);
    }
    useful.sort_unstable();
    useful
}

/// The most bytes so far for each number of blocks; -1 if there is no such choice.
struct Most {
    /// With the last cell left.
    left: Vec<i64>,
    /// With the last cell taken.
    taken: Vec<i64>,
}

/// In a step: if this cell is left, the one before was taken.
const TAKEN_THEN_LEFT: u8 = 1;
/// In a step: if this cell is taken, the one before was taken too.
const TAKEN_THEN_TAKEN: u8 = 2;

/// A knapsack over cells in order: a cell taken after its neighbour costs only the blocks that are new in it.
fn choose_exactly(cells: &[Cell], useful: &[usize], missing: u64, bound: usize) -> Option<Vec<usize>> {
    let enough = i64::try_from(missing).unwrap_or(i64::MAX);
    let width = bound + 1;
    let mut most = Most { left: vec![0; width], taken: vec![-1; width] };
    let mut next = Most { left: vec![0; width], taken: vec![-1; width] };
    let mut steps = vec![0_u8; useful.len() * width];
    let mut costs = Vec::with_capacity(useful.len());
    for (index, (&row, steps)) in useful.iter().zip(steps.chunks_exact_mut(width)).enumerate() {
        let cell = cells[row];
        let bytes = i64::try_from(cell.bytes).unwrap_or(i64::MAX);
        let follows = index > 0 && useful[index - 1] + 1 == row && cells[row - 1].is_followed_by(cell);
        let after_taken = if follows { cell.entering } else { cell.count };
        costs.push((cell.count, after_taken));
        for (blocks, step) in steps.iter_mut().enumerate() {
            let (left, taken) = (most.left[blocks], most.taken[blocks]);
            next.left[blocks] = left.max(taken);
            if taken > left {
                *step |= TAKEN_THEN_LEFT;
            }
            let left = blocks.checked_sub(cell.count).map_or(-1, |rest| most.left[rest]);
            let taken = blocks.checked_sub(after_taken).map_or(-1, |rest| most.taken[rest]);
            let before = left.max(taken);
            next.taken[blocks] = if before < 0 { -1 } else { before.saturating_add(bytes).min(enough) };
            if taken > left {
                *step |= TAKEN_THEN_TAKEN;
            }
        }
        std::mem::swap(&mut most, &mut next);
    }

    let mut blocks = (0..width).find(|&blocks| most.left[blocks].max(most.taken[blocks]) >= enough)?;
    let mut is_taken = most.taken[blocks] > most.left[blocks];
    let mut chosen = Vec::new();
    for ((&row, steps), (alone, after_taken)) in useful.iter().zip(steps.chunks_exact(width)).zip(costs).rev() {
        let step = steps[blocks];
        if is_taken {
            chosen.push(row);
            is_taken = step & TAKEN_THEN_TAKEN != 0;
            blocks = blocks.saturating_sub(if is_taken { after_taken } else { alone });
        } else {
            is_taken = step & TAKEN_THEN_LEFT != 0;
        }
    }
    chosen.reverse();
    Some(chosen)
}

/// Names of the blocks in a cell: segment and index.
fn blocks_of(cell: Cell) -> impl Iterator<Item = (usize, usize)> {
    (cell.first..cell.first + cell.count).map(move |row| (cell.layout, row))
}

fn answer(layouts: &[Layout], cells: &[Cell], chosen: &[usize]) -> Pinning {
    let mut rows: Vec<(usize, usize)> = chosen.iter().flat_map(|&row| blocks_of(cells[row])).collect();
    rows.sort_unstable();
    rows.dedup();
    let live = || rows.iter().map(|&(layout, row)| layouts[layout].live[row]);
    let mut segments: Vec<usize> = chosen.iter().map(|&row| cells[row].layout).collect();
    segments.dedup();
    Pinning {
        way: Way::Release { segments },
        blocks: live().map(|live| live.name).collect(),
        bytes: live().map(|live| live.end - live.start).fold(0, u64::saturating_add),
        is_smallest: true,
    }
}
