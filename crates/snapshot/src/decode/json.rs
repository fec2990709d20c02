//! JSON with the keys of the pickle, read as a stream.
//!
//! # Source
//! PyTorch's viewer reads it too: `spec/snapshot-format.md` section 2.3.

use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::store::Store;
use crate::error::{Error, ErrorKind};
use crate::pickle::value::Value;
use crate::warnings::NO_OFFSET;

/// Items of an array that are gathered before they are appended.
const BATCH: usize = 1000;

/// The JSON value as a value of the store, or what could be saved of it with the error that ended it.
pub(crate) fn read(source: impl Read, store: &mut Store) -> (Option<Value>, Option<Error>, u64) {
    let mut counted = Counted { source, bytes: 0 };
    let mut failure = None;
    let mut broken = None;
    let mut text = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(256 << 10, &mut counted));
    let result =
        Node { store, broken: &mut broken, failure: &mut failure, depth: 0 }.deserialize(&mut text).and_then(|value| {
            text.end()?;
            Ok(value)
        });
    drop(text);
    let bytes = counted.bytes;
    match result {
        Ok(value) => (Some(value), None, bytes),
        Err(error) => {
            let kind = match failure {
                Some(kind) => kind,
                None if error.is_eof() => ErrorKind::Cut("the JSON text"),
                None => ErrorKind::Json(format!("not readable as JSON: {error}")),
            };
            (broken, Some(Error::new(kind)), bytes)
        }
    }
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
    depth: usize,
}

impl Node<'_> {
    fn inner(&mut self) -> Node<'_> {
        Node { store: self.store, broken: self.broken, failure: self.failure, depth: self.depth + 1 }
    }

    /// Appends what was gathered to the list, which is made if there is none yet.
    fn flush<E: serde::de::Error>(&mut self, list: Option<Value>, batch: &mut Vec<Value>) -> Result<Value, E> {
        let list = match list {
            Some(list) => list,
            None => {
                let made = self.store.empty_list();
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

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(self.store.number(i128::from(number)))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(self.store.number(i128::from(number)))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        Ok(self.store.float(number))
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<Value, E> {
        let value = self.store.text(text.as_bytes(), NO_OFFSET);
        self.keep(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut batch = Vec::new();
        let mut list = None;
        let error = loop {
            match items.next_element_seed(self.inner()) {
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
        let made = self.store.empty_dict();
        let dict = self.keep(made)?;
        let node = dict.as_node().expect("a dict is a node");
        let mut items = Vec::new();
        let error = loop {
            let key = match pairs.next_key_seed(self.inner()) {
                Ok(Some(key)) => key,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            match pairs.next_value_seed(self.inner()) {
                Ok(value) => items.extend([key, value]),
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
