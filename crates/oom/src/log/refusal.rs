//! Refusals of the driver as torch 2.13 and 2.14 warn of each: a message of the same request may follow, or nothing, where PyTorch
//! released its cache and the next try went well.
//!
//! # Source
//! `spec/caching-allocator.md`, section 8.

use super::event::Event;
use super::{AskedAt, Found};
use crate::known::{Row, Value, find, row};
use crate::message::{Read, without_blanks};

/// Bytes that the line holds.
pub(super) const ANCHOR: &str = "failed with OOM on device";
/// The line.
static LINE: Row = row(
    "driver-refusal",
    "torch 2.13 or newer",
    "failed with OOM on device {device:n} while trying to allocate {raw:n} bytes (free: {free_raw:n}, total: {total_raw:n})",
);
/// Refusals that are kept: the first ones, and the last in place of the one before.
const MAX_KEPT: usize = 1024;
/// Of a longer line only this much is read.
const LINE_BYTES: usize = 4096;
/// A program that prints so many lines after a refusal has gone on.
const GONE_ON_LINES: u64 = 20;

/// A refusal of the driver; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line of the log, from 1 on.
    pub line: u64,
    /// The process in the job.
    pub rank: Option<u32>,
    /// The device's ordinal.
    pub device: Option<u32>,
    /// What was requested.
    pub tried_bytes: u64,
    /// What was free then.
    pub free_bytes: u64,
    /// The device's memory.
    pub total_bytes: u64,
}

impl Found {
    /// Reads a line that has the words of a refusal.
    pub(super) fn read_refusal(&mut self, body: &[u8], rank: Option<u32>) {
        let dense = without_blanks(&body[..body.len().min(LINE_BYTES)]);
        let Read::Found((values, ..), _) = find(LINE.pattern, &dense) else { return };
        let number = |wanted: &str| {
            values.iter().find_map(|(name, value)| match value {
                Value::Number(number) if *name == wanted => Some(*number),
                _ => None,
            })
        };
        let (Some(tried_bytes), Some(free_bytes), Some(total_bytes)) =
            (number("raw"), number("free_raw"), number("total_raw"))
        else {
            return;
        };
        let device = number("device").and_then(|device| u32::try_from(device).ok());
        if self.refusals.len() >= MAX_KEPT {
            self.refusals.pop();
        }
        self.refusals.push(Refusal { line: self.lines + 1, rank, device, tried_bytes, free_bytes, total_bytes });
    }

    /// Where nothing else has failed, the last refusal is what the log is about.
    pub(super) fn tell_refusal(&mut self) {
        let Some(last) = self.refusals.last().copied().filter(|_| self.is_empty() && self.summaries.is_empty()) else {
            return;
        };
        let bytes = |bytes: u64| Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
        let mut values = vec![
            ("size", bytes(last.tried_bytes)),
            ("free", bytes(last.free_bytes)),
            ("total", bytes(last.total_bytes)),
            ("after", Value::Number(self.lines.saturating_sub(last.line))),
        ];
        values.extend(last.device.map(|device| ("gpu", Value::Number(u64::from(device)))));
        self.event_count += 1;
        self.events.push(Event {
            id: LINE.id,
            origin: LINE.origin,
            rank: last.rank,
            line: last.line,
            count: u64::try_from(self.refusals.len()).unwrap_or(u64::MAX),
            values,
            asked: AskedAt::default(),
        });
    }

    /// The refusals of one request, in the order of the log: a device and the amount that a message prints.
    pub(crate) fn refusals_of(&self, device: Option<u32>, tried_bytes: u64, digit_bytes: u64) -> Vec<Refusal> {
        let is_of = |refusal: &&Refusal| {
            (device.is_none() || refusal.device.is_none() || refusal.device == device)
                && refusal.tried_bytes.abs_diff(tried_bytes) <= digit_bytes
        };
        self.refusals.iter().filter(is_of).copied().collect()
    }
}

/// Whether a program printed so much after a refusal that it has gone on.
pub(crate) fn has_gone_on(event: &Event) -> bool {
    event.number("after") >= Some(GONE_ON_LINES)
}
