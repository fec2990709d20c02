//! Time, reduced to the moments at which memory is tightest.

use std::cmp::Reverse;

use super::Interval;

/// A block to place: when it is live, in moments, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first moment.
    pub(super) from: u32,
    /// One past the last moment; more than `from`.
    pub(super) to: u32,
    /// More than 0.
    pub(super) bytes: u64,
}

impl Span {
    /// How many moments it is live.
    pub(super) fn moments(self) -> u32 {
        self.to - self.from
    }

    /// Whether both are live at some moment.
    pub(super) fn meets(self, other: Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

/// The blocks of a run over its moments.
///
/// Two blocks are live together somewhere exactly if they are live together just before something is freed. So the
/// runs of starts with no end between them are one moment each: at most as many moments as blocks.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    /// Those with bytes and time, by first moment; of equals, those that live longer first.
    pub(super) spans: Vec<Span>,
    /// Which interval of the input each span is.
    pub(super) sources: Vec<u32>,
    /// Live bytes at each moment.
    pub(super) live: Vec<u64>,
    /// The highest of `live`; 0 if there is none.
    pub(super) peak_bytes: u64,
    /// The entry in which the highest is first reached; `None` if nothing is ever live.
    pub(super) peak_entry: Option<u32>,
}

/// All bytes together stay below this, so that no sum of addresses overflows.
const TOTAL_BYTES_MAX: u64 = 1 << 62;

/// In an event: it is a start. Below this bit stands the row of the interval.
const START: u64 = 1 << 31;

impl Moments {
    /// `None` if the intervals have more than 2^62 bytes together, or are 2^31 or more.
    pub(super) fn new(intervals: &[Interval]) -> Option<Self> {
        let count = u32::try_from(intervals.len()).ok().filter(|&count| u64::from(count) < START)?;
        let total = intervals.iter().try_fold(0_u64, |sum, interval| sum.checked_add(interval.bytes))?;
        if total > TOTAL_BYTES_MAX {
            return None;
        }

        let mut bounds = vec![(0, 0); intervals.len()];
        let mut live = Vec::new();
        let (mut now, mut grew) = (0_u64, false);
        let (mut peak_bytes, mut peak_entry) = (0, None);
        for event in events(count, intervals) {
            let row = (event & (START - 1)) as usize;
            let Interval { start, bytes, .. } = intervals[row];
            if event & START != 0 {
                bounds[row] = (live.len(), usize::MAX);
                now += bytes;
                grew = true;
                if now > peak_bytes {
                    peak_bytes = now;
                    peak_entry = Some(start);
                }
            } else {
                if grew {
                    live.push(now);
                    grew = false;
                }
                bounds[row].1 = live.len();
                now -= bytes;
            }
        }
        if grew {
            live.push(now);
        }

        let mut rows: Vec<(u32, Span)> = (0..count)
            .zip(intervals.iter().zip(&bounds))
            .filter(|(_, (interval, _))| interval.is_something())
            .map(|(row, (interval, &(from, to)))| {
                let (from, to) = (super::number(from), super::number(to.min(live.len())));
                (row, Span { from, to, bytes: interval.bytes })
            })
            .collect();
        rows.sort_unstable_by_key(|&(row, span)| (span.from, Reverse(span.to), row));
        let (sources, spans) = rows.into_iter().unzip();
        Some(Self { spans, sources, live, peak_bytes, peak_entry })
    }

    /// The highest live bytes during each span's life.
    pub(super) fn contention(&self) -> Vec<u64> {
        let width = self.live.len();
        let mut tree = vec![0; width];
        tree.extend_from_slice(&self.live);
        for node in (1..width).rev() {
            tree[node] = tree[2 * node].max(tree[2 * node + 1]);
        }
        let highest = |span: &Span| {
            let (mut left, mut right, mut highest) = (span.from as usize + width, span.to as usize + width, 0);
            while left < right {
                if left % 2 == 1 {
                    highest = highest.max(tree[left]);
                    left += 1;
                }
                if right % 2 == 1 {
                    right -= 1;
                    highest = highest.max(tree[right]);
                }
                left /= 2;
                right /= 2;
            }
            highest
        };
        self.spans.iter().map(highest).collect()
    }
}

/// Starts and ends in order of entries, each one number: its entry, then ends before starts, then its row.
fn events(count: u32, intervals: &[Interval]) -> Vec<u64> {
    let mut events = Vec::with_capacity(intervals.len() * 2);
    for (row, interval) in (0..count).zip(intervals) {
        if interval.is_something() {
            events.push(u64::from(interval.start) << 32 | START | u64::from(row));
            if interval.end != u32::MAX {
                events.push(u64::from(interval.end) << 32 | u64::from(row));
            }
        }
    }
    events.sort_unstable();
    events
}
