//! Values that have no column, as JSON text.

use std::fmt::Write as _;

use super::store::{Node, Store};
use crate::StringId;
use crate::error::ErrorKind;
use crate::limits::{MAX_RENDER_BYTES, MAX_RENDER_DEPTH};
use crate::pickle::value::{Kind, Value};
use crate::warnings::Place;

impl Store {
    /// The value as compact JSON text, interned; cut where it is deep or long.
    ///
    /// All such texts together stay below the input's own size: values that share their parts cannot multiply.
    pub(crate) fn render(&mut self, value: Value, at: u64) -> Result<StringId, ErrorKind> {
        if self.rendered_bytes > at.saturating_add(MAX_RENDER_BYTES as u64) {
            self.warnings.add(
                "long-values",
                "unknown values take too much memory; the rest are left out",
                Place::byte(at),
            );
            return Ok(self.strings.intern("…"));
        }
        let mut text = String::new();
        self.write_json(value, 0, &mut text);
        self.rendered_bytes += text.len() as u64;
        self.strings.make_room(text.len())?;
        Ok(self.strings.intern(&text))
    }

    /// Recurses at most [`MAX_RENDER_DEPTH`] deep.
    fn write_json(&self, value: Value, depth: usize, out: &mut String) {
        if depth > MAX_RENDER_DEPTH || out.len() > MAX_RENDER_BYTES {
            out.push_str("\"…\"");
            return;
        }
        match value.kind() {
            Kind::Int(number) => _ = write!(out, "{number}"),
            Kind::Wide(_) => _ = write!(out, "{}", self.integer_of(value).unwrap_or_default()),
            Kind::Float(_) => match self.float_of(value).filter(|f| f.is_finite()) {
                Some(number) => _ = write!(out, "{number:?}"),
                None => out.push_str("null"),
            },
            Kind::Text(id) => push_json_string(self.strings.get(id), out),
            Kind::None | Kind::Opaque => out.push_str("null"),
            Kind::Bool(flag) => out.push_str(if flag { "true" } else { "false" }),
            Kind::Node(index) => self.write_node(self.nodes[index], depth, out),
        }
    }

    fn write_node(&self, node: Node, depth: usize, out: &mut String) {
        match node {
            Node::EmptyDict => out.push_str("{}"),
            Node::EmptyList => out.push_str("[]"),
            Node::Pool(pool) => {
                let (a, b) = self.pools.rows[pool.index()];
                _ = write!(out, "[{a},{b}]");
            }
            Node::Map(index) => {
                out.push('{');
                for (i, &(key, value)) in self.maps[index as usize].iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    if out.len() > MAX_RENDER_BYTES {
                        out.push_str("\"…\":null");
                        break;
                    }
                    match key.as_text() {
                        Some(id) => push_json_string(self.strings.get(id), out),
                        None => {
                            let mut text = String::new();
                            self.write_json(key, depth + 1, &mut text);
                            push_json_string(&text, out);
                        }
                    }
                    out.push(':');
                    self.write_json(value, depth + 1, out);
                }
                out.push('}');
            }
            Node::List(index) => {
                out.push('[');
                for (i, &item) in self.lists[index as usize].iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    self.write_json(item, depth + 1, out);
                    if out.len() > MAX_RENDER_BYTES {
                        break;
                    }
                }
                out.push(']');
            }
            // Rows of a table in an unexpected place.
            _ => out.push_str("\"…\""),
        }
    }
}

fn push_json_string(text: &str, out: &mut String) {
    let text = match text.char_indices().nth(MAX_RENDER_BYTES) {
        Some((cut, _)) => &text[..cut],
        None => text,
    };
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}
