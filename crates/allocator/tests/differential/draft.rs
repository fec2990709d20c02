//! A request program in the making.

use std::collections::BTreeMap;

pub(crate) const HEADER: &str = "op,id,bytes,stream,pool,value";

/// The rows of a program, and how many requested bytes are live after them if no allocation fails.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) rows: Vec<String>,
    live: BTreeMap<u64, u64>,
    live_bytes: u64,
    pub(crate) peak_bytes: u64,
    ids: u64,
}

/// A number, or the empty field.
fn or_empty(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

impl Draft {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn alloc(&mut self, bytes: u64, stream: u64) -> u64 {
        self.ids += 1;
        self.live.insert(self.ids, bytes);
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        self.rows.push(format!("alloc,{},{bytes},{stream},,", self.ids));
        self.ids
    }

    pub(crate) fn free(&mut self, id: u64) {
        self.live_bytes = self.live_bytes.saturating_sub(self.live.remove(&id).unwrap_or_default());
        self.rows.push(format!("free,{id},,,,"));
    }

    pub(crate) fn record_stream(&mut self, id: u64, stream: u64) {
        self.rows.push(format!("record_stream,{id},,{stream},,"));
    }

    pub(crate) fn events_ready(&mut self, stream: Option<u64>, ready: bool) {
        self.rows.push(format!("events_ready,,,{},,{}", or_empty(stream), u8::from(ready)));
    }

    pub(crate) fn empty_cache(&mut self, pool: Option<u64>) {
        self.rows.push(format!("empty_cache,,,,{},", or_empty(pool)));
    }

    pub(crate) fn pool_create(&mut self, pool: u64, flags: &str) {
        self.rows.push(format!("pool_create,,,,{pool},{flags}"));
    }

    pub(crate) fn pool_begin(&mut self, pool: u64, stream: Option<u64>) {
        self.rows.push(format!("pool_begin,,,{},{pool},", or_empty(stream)));
    }

    pub(crate) fn pool_end(&mut self, pool: u64) {
        self.rows.push(format!("pool_end,,,,{pool},"));
    }

    pub(crate) fn pool_release(&mut self, pool: u64) {
        self.rows.push(format!("pool_release,,,,{pool},"));
    }

    pub(crate) fn memory_fraction(&mut self, fraction: &str) {
        self.rows.push(format!("memory_fraction,,,,,{fraction}"));
    }

    pub(crate) fn set_config(&mut self, conf: &str) {
        self.rows.push(format!("set_config,,,,,{conf}"));
    }

    pub(crate) fn reset_peak(&mut self) {
        self.rows.push("reset_peak,,,,,".to_owned());
    }

    pub(crate) fn snapshot(&mut self) {
        self.rows.push("snapshot,,,,,".to_owned());
    }
}

/// The rows as a file.
pub(crate) fn file(rows: &[String]) -> String {
    let mut text = HEADER.to_owned();
    for row in rows {
        text.push('\n');
        text.push_str(row);
    }
    text.push('\n');
    text
}
