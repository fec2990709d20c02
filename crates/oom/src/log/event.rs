//! Failures that are known by their words, as a log has them.

use super::Found;
use super::table::Hit;
use crate::known::Value;

/// Different events that are kept.
const MAX_EVENTS: usize = 1_000;
/// Lines in which one failure may say more.
const NEAR_LINES: u64 = 64;

/// A failure of an engine, a library or the host, by its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// A stable word for what it says, such as `vllm-no-blocks`.
    pub id: &'static str,
    /// Who prints it, and in which releases.
    pub origin: &'static str,
    /// The process in the job.
    pub rank: Option<u32>,
    /// The line of the first, from 1 on.
    pub line: u64,
    /// How many say the same.
    pub count: u64,
    /// Its numbers and names.
    pub values: Vec<(&'static str, Value)>,
}

impl Event {
    /// An amount of memory of it.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(found, _)| *found == name).and_then(|(_, value)| match value {
            Value::Bytes(bytes) => u64::try_from(*bytes).ok(),
            Value::Number(bytes) => Some(*bytes),
            _ => None,
        })
    }

    /// The request that failed, where the text has its size.
    pub(crate) fn requested(&self) -> Option<u64> {
        self.bytes("raw").or_else(|| self.bytes("size"))
    }

    /// A number of it.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.values.iter().find(|(found, _)| *found == name).and_then(|(_, value)| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        })
    }

    /// A decimal number of it.
    pub fn decimal(&self, name: &str) -> Option<crate::Decimal> {
        self.values.iter().find(|(found, _)| *found == name).and_then(|(_, value)| match value {
            Value::Decimal(decimal) => Some(*decimal),
            _ => None,
        })
    }

    /// A word of it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(found, _)| *found == name).and_then(|(_, value)| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

impl Event {
    /// Whether a failure that was found a few lines later says the same and more.
    fn is_begun_by(&self, hit: &Hit, line: u64) -> bool {
        let is_near = line.saturating_sub(self.line) <= NEAR_LINES;
        is_near && hit.values.len() > self.values.len() && self.values.iter().all(|value| hit.values.contains(value))
    }
}

impl Found {
    /// Whether no failure was found.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.events.is_empty()
    }

    /// Counts a failure; those that say the same belong together.
    pub(super) fn add(&mut self, hit: Hit, rank: Option<u32>, line: u64) {
        self.event_count += 1;
        let of_id = |event: &&mut Event| event.id == hit.row.id && event.rank == rank;
        if let Some(event) = self.events.iter_mut().filter(of_id).find(|event| event.values == hit.values) {
            event.count += 1;
        } else if let Some(event) = self.events.iter_mut().filter(of_id).find(|event| event.is_begun_by(&hit, line)) {
            // The same text, read further.
            event.values = hit.values;
            event.origin = hit.row.origin;
        } else if self.events.len() < MAX_EVENTS {
            let Hit { row, values } = hit;
            self.events.push(Event { id: row.id, origin: row.origin, rank, line, count: 1, values });
        }
    }
}
