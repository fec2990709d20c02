//! Failures that are known by their words, as a log has them.

use super::Found;
use super::table::Hit;
use crate::known::Value;

/// Different events that are kept.
const MAX_EVENTS: usize = 1_000;

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

impl Found {
    /// Whether no failure was found.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.events.is_empty()
    }

    /// Counts a failure; those that say the same belong together.
    pub(super) fn add(&mut self, hit: Hit, rank: Option<u32>, line: u64) {
        self.event_count += 1;
        let alike = |event: &&mut Event| event.id == hit.row.id && event.rank == rank && event.values == hit.values;
        if let Some(event) = self.events.iter_mut().find(alike) {
            event.count += 1;
        } else if self.events.len() < MAX_EVENTS {
            let Hit { row, values } = hit;
            self.events.push(Event { id: row.id, origin: row.origin, rank, line, count: 1, values });
        }
    }
}
