//! A dict with `action`: one row of a trace.

use super::keys;
use super::store::{Node, Store, next_row, pairs};
use crate::entries::{Action, Entry};
use crate::error::ErrorKind;
use crate::pickle::value::Value;
use crate::room;
use crate::warnings::Place;
use crate::{PoolId, StackId, StreamId, StringId};

impl Store {
    pub(super) fn drain_entry(&mut self, items: &[Value], at: u64) -> Result<Node, ErrorKind> {
        let row = next_row(self.entries.len(), "the number of trace entries")?;
        let mut entry = Entry {
            action: Action::SNAPSHOT,
            address: 0,
            size_bytes: 0,
            stream: StreamId::DEFAULT,
            time_us: None,
            stack: StackId::MISSING,
            pool: PoolId::MISSING,
            compile_context: StringId::MISSING,
            user_metadata: StringId::MISSING,
            category: StringId::MISSING,
        };
        let mut has_size = false;
        for (key, value) in pairs(items) {
            match key.as_text() {
                Some(keys::ACTION) => entry.action = self.action_of(value, at)?,
                Some(keys::ADDR) => entry.address = self.u64_of(value).unwrap_or(0),
                Some(keys::SIZE) => {
                    has_size = true;
                    entry.size_bytes = self.bytes_of(value, "size", at);
                }
                Some(keys::STREAM) => entry.stream = self.stream_of(value)?,
                Some(keys::TIME_US) => entry.time_us = self.time_of(value, at),
                Some(keys::FRAMES | keys::CPP_FRAMES) => entry.stack = self.stack_of(value, at)?,
                Some(keys::COMPILE_CONTEXT) => entry.compile_context = self.string_of(value, at)?,
                Some(keys::USER_METADATA) => entry.user_metadata = self.string_of(value, at)?,
                Some(keys::CATEGORY) => entry.category = self.string_of(value, at)?,
                Some(keys::POOL_ID) => entry.pool = self.pool_of(value)?,
                Some(keys::DEVICE_FREE) => {
                    let free = self.bytes_of(value, "device_free", at);
                    room::push(&mut self.entries.device_free_bytes, (row, free))?;
                }
                Some(keys::FORWARD_FRAMES) => {
                    let stack = self.stack_of(value, at)?;
                    room::push(&mut self.entries.forward_stack, (row, stack))?;
                }
                Some(key) => {
                    let text = self.text_of(value, at)?;
                    // Since torch 2.15, on the few entries of its own doing.
                    if key != keys::INTERNAL_METADATA {
                        self.unknown_key("a trace entry", Value::text(key), at);
                    }
                    room::push(&mut self.entries.extras, (row, (key, text)))?;
                }
                None => self.unknown_key("a trace entry", key, at),
            }
        }
        if !has_size && entry.action.takes_memory() {
            let message = "an allocation has no `size`; it counts as 0 bytes";
            self.warnings.add("no-size", message, Place::byte(at));
        }
        self.entries.try_push(entry)?;
        Ok(Node::Entry(row))
    }

    /// The action; an unknown one is kept by its name.
    #[inline]
    fn action_of(&mut self, value: Value, at: u64) -> Result<Action, ErrorKind> {
        match value.as_text().and_then(keys::action) {
            Some(action) => Ok(action),
            None => self.unknown_action(value, at),
        }
    }

    #[cold]
    fn unknown_action(&mut self, value: Value, at: u64) -> Result<Action, ErrorKind> {
        let name = self.string_of(value, at)?;
        let action = Action::other(name, &mut self.unknown_actions, &mut self.strings);
        let shown: String = self.strings.get(name).chars().take(40).collect();
        let message = format!("entries have the unknown action `{shown}`; they are kept but not replayed");
        self.warnings.add("unknown-action", message, Place::byte(at));
        Ok(action)
    }

    /// Text; a value of another kind as JSON text, nothing for `None`.
    #[inline]
    fn string_of(&mut self, value: Value, at: u64) -> Result<StringId, ErrorKind> {
        if value == Value::NONE { Ok(StringId::MISSING) } else { self.text_of(value, at) }
    }

    /// Text as it is, any other value as JSON text.
    pub(super) fn text_of(&mut self, value: Value, at: u64) -> Result<StringId, ErrorKind> {
        value.as_text().map_or_else(|| self.render(value, at), Ok)
    }
}
