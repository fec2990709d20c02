//! Failures that are known by their words, as a log has them.

use rustc_hash::FxHashMap;

use super::summary::MemorySummary;
use super::table::Hit;
use super::trace::AskedAt;
use super::{Figure, Found, GROWTH, Mention};
use crate::known::{Value, Values, text_of};

/// Different events that are kept.
const MAX_EVENTS: usize = 1_000;
/// The longest part of a line that is kept.
const MENTION_BYTES: usize = 160;
/// Lines in which one failure may say more.
const NEAR_LINES: u64 = 64;
/// Failures that are compared for that.
const MAX_NEAR: usize = 16;

/// The place of a failure among [`Found::events`], by what it says and who wrote it.
pub(super) type EventIndex = FxHashMap<(&'static str, Option<u32>, Values), usize>;

/// A failure of an engine, a library or the host, by its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// A stable word for its meaning, such as `vllm-no-blocks`.
    pub id: &'static str,
    /// Who prints it, and in which releases.
    pub origin: &'static str,
    /// The process in the job.
    pub rank: Option<u32>,
    /// The line of the first, from 1 on.
    pub line: u64,
    /// The number of equal ones.
    pub count: u64,
    /// Its numbers and names.
    pub values: Vec<(&'static str, Value)>,
    /// The lines that asked for the memory, by a traceback just before the first.
    pub asked: AskedAt,
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
    fn is_begun_by(&self, values: &Values) -> bool {
        let unknown = ("place", Value::Text("unknown".to_owned()));
        let is_told_since = self.values.contains(&unknown) && !values.contains(&unknown);
        let has_same = |value: &(&'static str, Value)| *value == unknown || values.contains(value);
        (values.len() > self.values.len() || is_told_since && values.len() == self.values.len())
            && self.values.iter().all(has_same)
    }
}

impl Mention {
    /// The beginning of a line.
    pub(super) fn of(line: u64, text: &[u8]) -> Self {
        let text = text.trim_ascii();
        Self { line, text: text_of(&text[..text.len().min(MENTION_BYTES)]) }
    }
}

impl Found {
    /// Whether no failure was found.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.events.is_empty() && self.failed_summary().is_none()
    }

    /// The first table of totals after a request had failed.
    pub fn failed_summary(&self) -> Option<&MemorySummary> {
        self.summaries.iter().find(|summary| summary.ooms > 0)
    }

    /// The engine that reports a failure of its own beside PyTorch's.
    pub(super) fn failed_engine(&self) -> Option<&'static str> {
        const ENGINES: [(&str, &str); 4] =
            [("vllm-", "vllm"), ("sglang-", "sglang"), ("tgi-", "tgi"), ("trtllm-", "tensorrt-llm")];
        let named = |event: &Event| ENGINES.iter().find(|(begin, _)| event.id.starts_with(begin));
        self.events.iter().find_map(named).map(|(_, engine)| *engine)
    }

    /// Where nothing has failed, memory that grows is what the log is about.
    pub(super) fn tell_growth(&mut self) {
        let is_starting = self.engine.as_ref().is_some_and(|engine| !engine.ranks.is_empty());
        let Some(growth) = self.growths.iter().find(|growth| growth.is_of_memory()).filter(|_| self.is_empty()) else {
            return;
        };
        if is_starting || !self.summaries.is_empty() {
            return;
        }
        let value = |number: u64| match growth.of {
            Figure::WithoutUnit => Value::Number(number / 1000),
            _ => Value::Bytes(i64::try_from(number).unwrap_or(i64::MAX)),
        };
        let values = vec![
            ("first", value(growth.first)),
            ("last", value(growth.last)),
            ("each", value(growth.each())),
            ("readings", Value::Number(growth.readings)),
        ];
        self.event_count += 1;
        self.events.push(Event {
            id: GROWTH.id,
            origin: GROWTH.origin,
            rank: None,
            line: growth.lines.1,
            count: 1,
            values,
            asked: AskedAt::default(),
        });
    }

    /// Notes a line that speaks of memory, if it is the first.
    pub(super) fn note_mention(&mut self, line: u64, text: &[u8]) {
        self.mention.get_or_insert_with(|| Mention::of(line, text));
    }

    /// Counts a failure; those that say the same belong together.
    pub(super) fn add(
        &mut self,
        hit: Hit,
        rank: Option<u32>,
        line: u64,
        index: &mut EventIndex,
        asked: impl FnOnce() -> AskedAt,
    ) {
        self.event_count += 1;
        let Hit { row, values } = hit;
        let key = (row.id, rank, values);
        if let Some(event) = index.get(&key).and_then(|&at| self.events.get_mut(at)) {
            event.count += 1;
            // Beside a shell's word for the same end, it says more.
            if row.origin == "a container" {
                event.origin = row.origin;
            }
            return;
        }
        let begun = self.events.iter().rposition(|event| event.line + NEAR_LINES < line).map_or(0, |at| at + 1);
        let same = |event: &&mut Event| event.id == row.id && event.rank == rank && event.is_begun_by(&key.2);
        if let Some(event) = self.events.iter_mut().skip(begun).take(MAX_NEAR).find(same) {
            // The same text, read further.
            event.values.clone_from(&key.2);
            event.origin = row.origin;
        } else if self.events.len() < MAX_EVENTS {
            let values = key.2.clone();
            index.insert(key, self.events.len());
            self.events.push(Event { id: row.id, origin: row.origin, rank, line, count: 1, values, asked: asked() });
        }
    }
}
