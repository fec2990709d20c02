//! JSON with the keys of the pickle, read as a stream.
//!
//! # Source
//! PyTorch's viewer reads it too: `spec/snapshot-format.md` section 2.3.

use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::store::Store;
use crate::error::{Error, ErrorKind};
use crate::pickle::input::damage;
use crate::pickle::value::Value;
use crate::profiler::{Events, Found, Item};
use crate::room;
use crate::snapshot::Snapshot;
use crate::warnings::NO_OFFSET;

/// The key of a Chrome trace's events.
const EVENTS: &str = "traceEvents";

/// The key of what the times of a Chrome trace count from.
const BASE_TIME: &str = "baseTimeNanoseconds";

/// Items of an array that are gathered before they are appended.
const BATCH: usize = 1000;

/// What was read.
pub(crate) struct Outcome {
    /// The JSON value as a value of the store, or what could be saved of it.
    pub(crate) root: Option<Value>,
    /// What ended it.
    pub(crate) error: Option<Error>,
    /// How much was read.
    pub(crate) bytes: u64,
    /// What there was of a profiler's file: it is not in the store.
    pub(crate) found: Found,
    /// What the times of a Chrome trace count from.
    pub(crate) base_time_ns: Option<i64>,
    /// What a Chrome trace says of its rank.
    pub(crate) distributed: Option<Value>,
}

/// Reads a JSON text into the store.
pub(crate) fn read(source: impl Read, store: &mut Store) -> Outcome {
    let mut counted = Counted { source, bytes: 0 };
    let mut failure = None;
    let mut broken = None;
    let mut found = Found::default();
    let mut base_time_ns = None;
    let mut distributed = None;
    let mut text = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(256 << 10, &mut counted));
    let root = Node {
        store,
        broken: &mut broken,
        failure: &mut failure,
        found: &mut found,
        base_time_ns: &mut base_time_ns,
        distributed: &mut distributed,
        depth: 0,
        is_list_item: false,
    };
    let result = root.deserialize(&mut text).and_then(|value| {
        text.end()?;
        Ok(value)
    });
    drop(text);
    let bytes = counted.bytes;
    let (root, error) = match result {
        Ok(value) => (Some(value), None),
        Err(error) => {
            let kind = match failure {
                Some(kind) => kind,
                None if error.is_eof() => ErrorKind::Cut("the JSON text"),
                None if error.is_io() => damage(error.into()),
                None => ErrorKind::Json(format!("not readable as JSON: {error}")),
            };
            (broken, Some(Error::new(kind)))
        }
    };
    Outcome { root, error, bytes, found, base_time_ns, distributed }
}

struct Counted<R> {
    source: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

/// One JSON value, to be put into the store. The parser ends its recursion at 128 levels.
struct Node<'a> {
    store: &'a mut Store,
    /// After an error: the container that it left open, closed as far as it goes.
    broken: &'a mut Option<Value>,
    failure: &'a mut Option<ErrorKind>,
    found: &'a mut Found,
    base_time_ns: &'a mut Option<i64>,
    distributed: &'a mut Option<Value>,
    depth: usize,
    /// Whether it is an item of a list that is the root.
    is_list_item: bool,
}

impl Node<'_> {
    fn inner(&mut self) -> Node<'_> {
        Node {
            store: self.store,
            broken: self.broken,
            failure: self.failure,
            found: self.found,
            base_time_ns: self.base_time_ns,
            distributed: self.distributed,
            depth: self.depth + 1,
            is_list_item: false,
        }
    }

    /// An item of a list.
    fn item(&mut self) -> Node<'_> {
        let is_list_item = self.depth == 0;
        Node { is_list_item, ..self.inner() }
    }

    /// The value of a key of a dict; the events of a Chrome trace go elsewhere.
    fn value_of<'de, A: MapAccess<'de>>(&mut self, key: Value, pairs: &mut A) -> Result<Value, A::Error> {
        let id = key.as_text().filter(|_| self.depth == 0);
        let name = id.map_or("", |id| self.store.strings.get(id));
        if name == EVENTS {
            return pairs.next_value_seed(Events(self.found.chrome())).map(|()| Value::NONE);
        }
        let (is_base_time, is_distributed) = (name == BASE_TIME, name == Snapshot::DISTRIBUTED);
        let value = pairs.next_value_seed(self.inner())?;
        if is_distributed {
            *self.distributed = Some(value);
        }
        if is_base_time {
            *self.base_time_ns = self.store.integer_of(value).and_then(|time| i64::try_from(time).ok());
        }
        Ok(value)
    }

    /// Appends what was gathered to the list, which is made if there is none yet.
    fn flush<E: serde::de::Error>(&mut self, list: Option<Value>, batch: &mut Vec<Value>) -> Result<Value, E> {
        let list = match list {
            Some(list) => list,
            None => {
                let made = self.store.empty_list(NO_OFFSET);
                self.keep(made)?
            }
        };
        let node = list.as_node().expect("a list is a node");
        let appended = self.store.append(node, batch, NO_OFFSET);
        batch.clear();
        self.keep(appended)?;
        Ok(list)
    }

    /// serde's error type cannot carry ours: it is kept aside.
    fn keep<T, E: serde::de::Error>(&mut self, result: Result<T, ErrorKind>) -> Result<T, E> {
        result.map_err(|kind| {
            let error = E::custom("the reader's limit");
            *self.failure = Some(kind);
            error
        })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::NONE)
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::bool(flag))
    }

    fn visit_i64<E: serde::de::Error>(mut self, number: i64) -> Result<Value, E> {
        let value = self.store.number(i128::from(number));
        self.keep(value)
    }

    fn visit_u64<E: serde::de::Error>(mut self, number: u64) -> Result<Value, E> {
        let value = self.store.number(i128::from(number));
        self.keep(value)
    }

    fn visit_f64<E: serde::de::Error>(mut self, number: f64) -> Result<Value, E> {
        let value = self.store.float(number);
        self.keep(value)
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<Value, E> {
        let value = self.store.text(text.as_bytes(), NO_OFFSET);
        self.keep(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        if self.is_list_item {
            // The root of a snapshot is a dict, or a list of dicts.
            Item(self.found.timeline()).read(items)?;
            return Ok(Value::NONE);
        }
        let mut batch = Vec::new();
        let mut list = None;
        let error = loop {
            match items.next_element_seed(self.item()) {
                Ok(Some(item)) => batch.push(item),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
            if batch.len() == BATCH {
                list = Some(self.flush(list, &mut batch)?);
            }
        };
        match error {
            None if list.is_none() => {
                let made = self.store.list_of(&batch, NO_OFFSET);
                self.keep(made)
            }
            None => self.flush(list, &mut batch),
            Some(error) => {
                batch.extend(self.broken.take());
                *self.broken = Some(self.flush(list, &mut batch)?);
                Err(error)
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut pairs: A) -> Result<Value, A::Error> {
        let made = self.store.empty_dict(NO_OFFSET);
        let dict = self.keep(made)?;
        let node = dict.as_node().expect("a dict is a node");
        let mut items = Vec::new();
        let error = loop {
            let key = match pairs.next_key_seed(self.inner()) {
                Ok(Some(key)) => key,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            match self.value_of(key, &mut pairs) {
                Ok(value) => {
                    let made = room::make(&mut items, 2);
                    self.keep(made)?;
                    items.extend([key, value]);
                }
                Err(error) => {
                    // The key stays even if its value is lost: it tells what came before it in full.
                    items.extend([key, self.broken.take().unwrap_or(Value::NONE)]);
                    break Some(error);
                }
            }
        };
        // Of what an early end left open, the outermost dict is kept; a record that was not finished is not.
        let kept = error.is_none() || self.depth == 0;
        *self.broken = (error.is_some() && kept).then_some(dict);
        if kept {
            let set = self.store.set_items(node, &items, NO_OFFSET);
            self.keep(set)?;
        }
        error.map_or(Ok(dict), Err)
    }
}
