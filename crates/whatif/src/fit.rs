//! How little memory is enough: for each of a set of settings, the smallest safe capacity.

use highwater_allocator::{AddressPolicy, Memory, Settings};
use highwater_analysis::parallel;
use highwater_driver::Card;
use highwater_driver::context::TRAINING_BYTES;

use super::conf::Conf;
use super::run::{AMPLE_BYTES, Run};
use super::study::Study;

/// Capacities are looked at in steps of this: the driver gives memory in such units.
const STEP_BYTES: u64 = 2 << 20;
/// Sizes looked at above a capacity that fits, for survival is not monotone: more memory can mean another layout.
const SCANNED: u64 = 12;
/// Failures above a capacity that fits, before the search gives up and takes the largest it knows.
const RESTARTS: usize = 6;

/// The settings of the fit table, besides those of the recording.
///
/// Each is a well-known remedy, and one of them usually the best; `garbage_collection_threshold` works only under a
/// limit.
pub const CANDIDATES: [&str; 7] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.8",
];

/// Whether a GPU is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardFit {
    /// The smallest card of its size.
    pub card: &'static Card,
    /// Whether no request fails on it.
    pub fits: bool,
    /// Second attempts on the way.
    pub num_alloc_retries: u64,
}

/// A row of the fit table.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The settings.
    pub conf: String,
    /// The smallest capacity from which on no request fails, as a limit on what the allocator may hold; above 2 TiB an upper bound.
    /// Under the addresses of the study's first order.
    pub min_capacity_bytes: u64,
    /// The same under the least favourable of the other orders.
    pub min_capacity_any_order_bytes: u64,
    /// Second attempts there.
    pub num_alloc_retries: u64,
    /// What is held at most if there is memory without end.
    pub ample_reserved_bytes: u64,
    /// Second attempts do not occur then; this many calls take memory from the driver.
    pub ample_device_allocs: u64,
    /// Each size of card.
    pub cards: Vec<CardFit>,
}

impl Study {
    /// The fit table: a row for each of the settings, side by side on all cores.
    ///
    /// Once the program's watch is stopped, no further row is begun, and those are left out.
    pub fn fit_table(&self, rows: &[Conf]) -> Vec<Fit> {
        let watch = &self.program.watch;
        let fits = parallel::map(rows, |(conf, settings)| {
            let fit = (!watch.is_stopped()).then(|| self.fit(conf, settings));
            watch.step();
            fit
        });
        fits.into_iter().flatten().collect()
    }

    /// The settings of the fit table, with the recording's own first.
    pub fn candidates(&self) -> Vec<Conf> {
        let mut confs = vec![self.recorded_conf.clone()];
        confs.extend(CANDIDATES.iter().map(|&conf| conf.to_owned()));
        let mut seen: Vec<Settings> = Vec::new();
        let mut rows = Vec::new();
        for (row, conf) in confs.into_iter().enumerate() {
            let settings = if row == 0 { Ok(self.recorded.clone()) } else { self.settings(&conf) };
            // A candidate that this version does not know is not one.
            if let Ok(settings) = settings
                && !seen.iter().any(|other| other.decides_like(&settings))
            {
                seen.push(settings.clone());
                rows.push((conf, settings));
            }
        }
        rows
    }

    /// One row of the fit table.
    pub fn fit(&self, conf: &str, settings: &Settings) -> Fit {
        let ample = self.run(settings, Memory::Ample, AddressPolicy::Driver);
        if self.live.bytes > AMPLE_BYTES {
            return self.fit_of_none(conf, settings, &ample);
        }
        let top = ample.peak_reserved_bytes();
        let least = (self.live.bytes / STEP_BYTES * STEP_BYTES).saturating_sub(STEP_BYTES);
        let first = self.smallest_safe(settings, &AddressPolicy::Driver, least, top);
        // Expandable segments grow where they are: the order of addresses decides nothing.
        let other = if settings.expandable_segments {
            first
        } else {
            self.smallest_safe(settings, &AddressPolicy::FirstFit, first - STEP_BYTES, top)
        };
        let there = self.run(settings, Memory::Limit(first), AddressPolicy::Driver);
        Fit {
            conf: conf.to_owned(),
            min_capacity_bytes: first,
            min_capacity_any_order_bytes: other.max(first),
            num_alloc_retries: there.statistics.num_alloc_retries,
            ample_reserved_bytes: ample.peak_reserved_bytes(),
            ample_device_allocs: ample.statistics.num_device_alloc,
            cards: Card::smallest_of_each_size().map(|card| self.card_fit(settings, card, &ample)).collect(),
        }
    }

    /// One row for a program that no device has room for, such as one that requests a petabyte by mistake. Nobody needs the least that
    /// would do to the megabyte: two runs with twice the live memory give bounds, in two orders of addresses, where the search takes forty.
    fn fit_of_none(&self, conf: &str, settings: &Settings, ample: &Run) -> Fit {
        let limit = Memory::Limit(self.live.bytes.saturating_mul(2));
        let runs = [AddressPolicy::Driver, AddressPolicy::FirstFit].map(|order| self.run(settings, limit, order));
        let [first, other] = runs.each_ref().map(|run| {
            let bytes = if run.outcome.fits() { run.peak_reserved_bytes() } else { u64::MAX };
            bytes.max(self.live.bytes).checked_next_multiple_of(STEP_BYTES).unwrap_or(u64::MAX)
        });
        Fit {
            conf: conf.to_owned(),
            min_capacity_bytes: first,
            min_capacity_any_order_bytes: other.max(first),
            num_alloc_retries: runs[0].statistics.num_alloc_retries,
            ample_reserved_bytes: ample.peak_reserved_bytes(),
            ample_device_allocs: ample.statistics.num_device_alloc,
            cards: Card::smallest_of_each_size().map(|card| self.card_fit(settings, card, ample)).collect(),
        }
    }

    fn card_fit(&self, settings: &Settings, card: &'static Card, ample: &Run) -> CardFit {
        let memory = Memory::Card { total_bytes: card.memory_bytes, outside_bytes: TRAINING_BYTES };
        let capacity = memory.capacity_bytes().unwrap_or(u64::MAX);
        if capacity < self.live.bytes {
            return CardFit { card, fits: false, num_alloc_retries: 0 };
        }
        if capacity >= ample.peak_reserved_bytes() {
            return CardFit { card, fits: true, num_alloc_retries: ample.statistics.num_alloc_retries };
        }
        let run = self.run(settings, memory, AddressPolicy::Driver);
        CardFit { card, fits: run.outcome.fits(), num_alloc_retries: run.statistics.num_alloc_retries }
    }

    /// The smallest capacity above `fails` that fits, such that no larger one that was looked at fails.
    fn smallest_safe(&self, settings: &Settings, order: &AddressPolicy, mut fails: u64, ample_bytes: u64) -> u64 {
        let fits = |capacity: u64| self.run(settings, Memory::Limit(capacity), order.clone()).outcome.fits();
        let mut top = ample_bytes.max(fails + STEP_BYTES).next_multiple_of(STEP_BYTES);
        // The limit is compared with a whole segment more, even where only part of it would be mapped.
        while !fits(top) && top < u64::MAX / 2 {
            top += (top / 64).next_multiple_of(STEP_BYTES).max(16 * STEP_BYTES);
        }
        let mut smallest = if fits(fails + STEP_BYTES) { fails + STEP_BYTES } else { bisect(fails, top, &fits) };
        for _ in 0..RESTARTS {
            let Some(failure) = largest_failure(smallest, top, &fits) else {
                return smallest;
            };
            fails = failure;
            smallest = bisect(fails, top, &fits);
        }
        top
    }
}

/// The end of the search between a capacity that fails and one that fits.
fn bisect(mut fails: u64, mut fits_at: u64, fits: &impl Fn(u64) -> bool) -> u64 {
    while fits_at > fails + STEP_BYTES {
        let middle = (fails + (fits_at - fails) / 2) / STEP_BYTES * STEP_BYTES;
        if fits(middle) { fits_at = middle } else { fails = middle }
    }
    fits_at
}

/// The largest capacity that fails among some between two that fit.
fn largest_failure(from: u64, to: u64, fits: &impl Fn(u64) -> bool) -> Option<u64> {
    let mut last = to;
    (1..SCANNED).rev().find_map(|part| {
        let capacity = (from + (to - from) / SCANNED * part) / STEP_BYTES * STEP_BYTES;
        let is_new = capacity > from && capacity < last;
        last = capacity;
        (is_new && !fits(capacity)).then_some(capacity)
    })
}
