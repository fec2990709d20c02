//! The memory timeline: a list of events, or of times and of bytes by category.
//!
//! Neither has addresses, and of the latter only sums are left. A category's blocks lie on a [`Shelf`]; what is freed is the
//! newest block of that size there, so every sum is the file's, but which block was which is not known.
//!
//! # Source
//! PyTorch v2.11, `torch/profiler/_memory_profiler.py`: `export_memory_timeline_raw` writes `[time_ns, action, bytes, category]`
//! for each event, in order of time; `export_memory_timeline` writes `[times_us, sizes]`, each row of `sizes` one 0 and then
//! the bytes of each category.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json::{AnyScalar, Scalar};
use super::ledger::Moment;
use super::shelf::{Addresses, Block, Shelf};
use super::{Ledger, Profile, ProfileForm, warn_of_form};
use crate::decode::keys;
use crate::error::ErrorKind;
use crate::limits::MAX_ROWS;
use crate::snapshot::Snapshot;
use crate::warnings::{Place, Warnings};
use crate::{StackId, StringId};

/// The categories, in the order of their numbers in the file; the last is "none".
const CATEGORIES: [&str; 8] =
    ["parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail", "unknown"];

/// Numbers in a row of sizes: the 0 that the stacked plot begins with, then a number for each category.
const ROW_LEN: usize = CATEGORIES.len() + 1;

/// `Action.PREEXISTING` in the file.
const PREEXISTING: i64 = 1;

/// `Action.INCREMENT_VERSION`: two events, of the category that the memory had and the one that it has now.
const INCREMENT_VERSION: i64 = 3;

/// One event of the raw form.
#[derive(Clone, Copy, Debug)]
struct Event {
    time_ns: i64,
    action: i64,
    bytes: i64,
    category: usize,
}

/// The items of the root list, as they come.
#[derive(Default)]
pub(crate) struct Timeline {
    /// The first item: one event, or all times.
    first: Vec<i64>,
    items: usize,
    events: Vec<Event>,
    /// Rows of sizes, those of each time after each other.
    sizes: Vec<i64>,
    has_sizes: bool,
    /// Why this is no timeline after all.
    unfit: Option<String>,
}

impl Timeline {
    fn unfit(&mut self, why: impl Into<String>) {
        self.unfit.get_or_insert_with(|| why.into());
    }

    /// Takes in a number of an item.
    fn number(&mut self, numbers: &mut Vec<i64>, value: &Scalar) {
        match value.as_i64() {
            Some(number) => numbers.push(number),
            None => self.unfit("something other than whole numbers in a list of numbers"),
        }
    }

    fn event(&mut self, numbers: &[i64]) {
        let &[time_ns, action, bytes, category] = numbers else {
            return self
                .unfit(format!("an event of {} numbers, expected time, action, bytes and category", numbers.len()));
        };
        if !(PREEXISTING..=4).contains(&action) {
            return self.unfit(format!("an event with the action {action}, expected 1 to 4"));
        }
        let category = usize::try_from(category).unwrap_or(usize::MAX);
        self.events.push(Event { time_ns, action, bytes, category });
    }

    /// The end of an item of plain numbers.
    fn numbers(&mut self, numbers: Vec<i64>) {
        if self.items == 1 {
            self.first = numbers;
        } else {
            self.event(&numbers);
        }
    }

    /// The snapshot.
    pub(super) fn into_snapshot(mut self) -> Result<Snapshot, ErrorKind> {
        if self.unfit.is_none() {
            if self.has_sizes {
                let times = self.first.len();
                if self.items != 2 {
                    self.unfit("sizes by category that are not the second of two lists");
                } else if self.sizes.len() > times * ROW_LEN {
                    self.unfit(format!("{times} times, and sizes for more"));
                }
            } else {
                let first = std::mem::take(&mut self.first);
                let rest = std::mem::take(&mut self.events);
                self.event(&first);
                self.events.extend(rest);
            }
        }
        if let Some(why) = self.unfit {
            return Err(ErrorKind::OtherData(format!(
                "a list of lists that is not a memory timeline of the profiler: {why}"
            )));
        }
        let mut writer = Writer::new();
        let form = if self.has_sizes {
            writer.totals(&self.first, &self.sizes)?;
            ProfileForm::Totals
        } else {
            writer.events(&self.events)?;
            ProfileForm::Events
        };
        writer.finish(form)
    }
}

/// Reads one item of the root list into the timeline.
pub(crate) struct Item<'a>(pub(crate) &'a mut Timeline);

impl Item<'_> {
    /// Reads the rest of a list.
    pub(crate) fn read<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let timeline = self.0;
        timeline.items += 1;
        if timeline.unfit.is_some() {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        let mut numbers = Vec::new();
        let mut rows = 0;
        while let Some(cell) = items.next_element_seed(Cell { timeline: &mut *timeline })? {
            match cell {
                Some(value) => timeline.number(&mut numbers, &value),
                None => rows += 1,
            }
            if numbers.len().max(rows) > MAX_ROWS {
                timeline.unfit("more rows than any timeline has");
            }
        }
        if rows == 0 {
            timeline.numbers(numbers);
        } else if !numbers.is_empty() || timeline.items != 2 {
            timeline.unfit("numbers and lists mixed");
        }
        Ok(())
    }
}

/// One cell of an item: a number, or a row of sizes, which goes to the timeline.
struct Cell<'a> {
    timeline: &'a mut Timeline,
}

impl<'de> DeserializeSeed<'de> for Cell<'_> {
    type Value = Option<Scalar>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cell<'_> {
    type Value = Option<Scalar>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a list of numbers")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Other))
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Other))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Int(number)))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
        AnyScalar.visit_u64(number).map(Some)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Float(number)))
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Some(Scalar::Other))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        self.timeline.has_sizes = true;
        let before = self.timeline.sizes.len();
        while let Some(value) = items.next_element_seed(AnyScalar)? {
            match value.as_i64() {
                Some(number) if self.timeline.sizes.len() - before < ROW_LEN => self.timeline.sizes.push(number),
                Some(_) => self.timeline.unfit(format!("a row of more than {ROW_LEN} sizes")),
                None => self.timeline.unfit("something other than whole numbers among the sizes"),
            }
        }
        let len = self.timeline.sizes.len() - before;
        if len != ROW_LEN {
            self.timeline.unfit(format!("a row of {len} sizes, expected {ROW_LEN}"));
        }
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, pairs: A) -> Result<Self::Value, A::Error> {
        AnyScalar.visit_map(pairs).map(Some)
    }
}

/// Nanoseconds as the microseconds that torch's own timeline has for them: it divides as floats, then cuts.
fn torch_us(time_ns: i64) -> i64 {
    #[expect(clippy::cast_precision_loss, reason = "as torch does; below 2^53 for the next centuries")]
    let us = time_ns.div_euclid(1000) as f64 + time_ns.rem_euclid(1000) as f64 / 1000.0;
    #[expect(clippy::cast_possible_truncation, reason = "a quotient of a 64-bit number")]
    let us = us as i64;
    us
}

/// Makes entries of changes to categories.
struct Writer {
    snapshot: Snapshot,
    ledger: Ledger,
    names: [StringId; CATEGORIES.len()],
    shelves: [Shelf; CATEGORIES.len()],
    addresses: Addresses,
    preexisting: u32,
}

impl Writer {
    fn new() -> Self {
        let mut snapshot = Snapshot { strings: keys::vocabulary(), ..Snapshot::empty() };
        let names = CATEGORIES.map(|name| snapshot.strings.intern(name));
        Self {
            snapshot,
            names,
            ledger: Ledger::default(),
            shelves: std::array::from_fn(|_| Shelf::default()),
            addresses: Addresses::default(),
            preexisting: 0,
        }
    }

    fn warnings(&mut self) -> &mut Warnings {
        &mut self.snapshot.warnings
    }

    fn here(&self) -> Place {
        Place::entry(0, u32::try_from(self.ledger.table.len()).unwrap_or(u32::MAX))
    }

    fn moment(&self, time_us: i64, category: usize) -> Moment {
        Moment { time_us, stack: StackId::MISSING, category: self.names[category] }
    }

    fn address(&mut self, bytes: u64) -> Result<u64, ErrorKind> {
        self.addresses.next(bytes).ok_or(ErrorKind::Limit { what: "the sum of all sizes", limit: u64::MAX })
    }

    /// Puts a block on the shelf of a category, at this address or a new one.
    fn alloc(&mut self, category: usize, bytes: u64, address: Option<u64>, time_us: i64) -> Result<(), ErrorKind> {
        let address = match address {
            Some(address) => address,
            None => self.address(bytes)?,
        };
        self.ledger.alloc(address, bytes, self.moment(time_us, category))?;
        self.shelves[category].put(Block { address, bytes });
        Ok(())
    }

    /// Takes bytes from a category; the address, if it was one block of just that size.
    fn free(&mut self, category: usize, bytes: u64, time_us: i64) -> Result<Option<u64>, ErrorKind> {
        let at = self.moment(time_us, category);
        let Some(taken) = self.shelves[category].take(bytes) else {
            let message = format!(
                "more memory of the category `{}` is freed than the file allocates: it counts as allocated before \
                 the profile",
                CATEGORIES[category]
            );
            let here = self.here();
            self.warnings().add("profiler-before", message, here);
            let address = self.address(bytes)?;
            self.ledger.free(address, bytes, at)?;
            return Ok(None);
        };
        for block in &taken.blocks {
            self.ledger.free(block.address, block.bytes, at)?;
        }
        if taken.left_over_bytes > 0 {
            self.alloc(category, taken.left_over_bytes, None, time_us)?;
        }
        Ok(match taken.blocks[..] {
            [block] if taken.left_over_bytes == 0 => Some(block.address),
            _ => None,
        })
    }

    /// The raw form.
    fn events(&mut self, events: &[Event]) -> Result<(), ErrorKind> {
        let begin_ns = events.iter().map(|event| event.time_ns).filter(|&time| time >= 0).min().unwrap_or(0);
        let mut events = events.iter().copied().peekable();
        while let Some(event) = events.next() {
            let category = self.known(event.category);
            let time_us = torch_us(if event.time_ns < 0 { begin_ns } else { event.time_ns });
            let bytes = event.bytes.unsigned_abs();
            let second = events.peek().copied().filter(|next| {
                event.action == INCREMENT_VERSION
                    && next.action == INCREMENT_VERSION
                    && next.time_ns == event.time_ns
                    && event.bytes < 0
                    && event.bytes.checked_neg() == Some(next.bytes)
            });
            if let Some(second) = second {
                events.next();
                let next = self.known(second.category);
                if next != category {
                    let address = self.free(category, bytes, time_us)?;
                    self.alloc(next, bytes, address, time_us)?;
                }
            } else if event.bytes > 0 {
                let is_preexisting =
                    event.action == PREEXISTING && self.preexisting as usize == self.ledger.table.len();
                self.alloc(category, bytes, None, time_us)?;
                self.preexisting += u32::from(is_preexisting);
            } else if event.bytes < 0 {
                self.free(category, bytes, time_us)?;
            }
        }
        Ok(())
    }

    /// A category that has a name; any other is unknown.
    fn known(&mut self, category: usize) -> usize {
        if category < CATEGORIES.len() {
            return category;
        }
        let here = self.here();
        self.warnings().add("profiler-category", "a category has an unknown number; it counts as unknown", here);
        CATEGORIES.len() - 1
    }

    /// The form with sums only: what a category gains is a new block.
    fn totals(&mut self, times_us: &[i64], sizes: &[i64]) -> Result<(), ErrorKind> {
        for (row, (&time_us, sizes)) in times_us.iter().zip(sizes.chunks_exact(ROW_LEN)).enumerate() {
            let mut wanted = [0; CATEGORIES.len()];
            for (wanted, &bytes) in wanted.iter_mut().zip(&sizes[1..]) {
                *wanted = u64::try_from(bytes).unwrap_or_else(|_| {
                    let message = "a category has less than 0 bytes in the file; it counts as 0";
                    let here = Place::entry(0, u32::try_from(self.ledger.table.len()).unwrap_or(u32::MAX));
                    self.snapshot.warnings.add("profiler-negative", message, here);
                    0
                });
            }
            // What goes, goes first: no sum is higher in between than after it.
            for (category, &wanted) in wanted.iter().enumerate() {
                let surplus = self.shelves[category].total_bytes().saturating_sub(wanted);
                if surplus > 0 {
                    self.free(category, surplus, time_us)?;
                }
            }
            for (category, &wanted) in wanted.iter().enumerate() {
                let missing = wanted.saturating_sub(self.shelves[category].total_bytes());
                if missing > 0 {
                    self.alloc(category, missing, None, time_us)?;
                }
            }
            if row == 0 {
                self.preexisting = u32::try_from(self.ledger.table.len()).unwrap_or(u32::MAX);
            }
        }
        // A timeline begins with what was there before, under the time of its first event: that event comes second then.
        if times_us.get(1) != times_us.first() {
            self.preexisting = 0;
        }
        Ok(())
    }

    fn finish(self, form: ProfileForm) -> Result<Snapshot, ErrorKind> {
        let Self { mut snapshot, ledger, preexisting, .. } = self;
        if ledger.table.is_empty() {
            return Err(ErrorKind::ProfileWithoutMemory);
        }
        let mut more = ", and no stacks. Shown as device 0: the file does not name the device".to_owned();
        if form == ProfileForm::Totals {
            more.push_str(". It holds the sum of each category only: its allocations are the steps of these sums");
        }
        warn_of_form(&mut snapshot.warnings, form, &more);
        snapshot.traces = vec![ledger.table];
        snapshot.profile = Some(Profile { form, preexisting: vec![preexisting], knows_start: false });
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_become_the_microseconds_that_torch_writes() {
        // Python: int(1795306797980999 / 1000), int(1795306797980999999 / 1000), …
        for (ns, us) in [
            (1_795_306_797_980_552_524, 1_795_306_797_980_552),
            (1_795_306_797_980_999_999, 1_795_306_797_981_000),
            (1_795_306_797_980_800_000, 1_795_306_797_980_800),
            (0, 0),
            (999, 0),
        ] {
            assert_eq!(torch_us(ns), us, "{ns}");
        }
    }
}
