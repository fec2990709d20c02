//! Compact JSON, one trace entry a line so that other tools can work on it by lines.

use std::io::{self, Write};

use super::Emitter;
use crate::{FrameId, StackId};

pub(super) struct JsonEmitter<W: Write> {
    out: io::BufWriter<W>,
    /// Whether the next key or item is the first of its container, for each open one.
    first: Vec<bool>,
}

impl<W: Write> JsonEmitter<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out: io::BufWriter::with_capacity(256 << 10, out), first: Vec::new() }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn begin(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.first.push(true);
        self.out.write_all(bracket)
    }

    fn end(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.first.pop();
        self.out.write_all(bracket)
    }

    fn separate(&mut self) -> io::Result<()> {
        let depth = self.first.len();
        let first = self.first.last_mut().expect("a container is open");
        if !std::mem::replace(first, false) {
            self.out.write_all(b",")?;
        }
        // The root's keys, the segments, the entries.
        if depth <= 3 { self.out.write_all(b"\n") } else { Ok(()) }
    }
}

impl<W: Write> Emitter for JsonEmitter<W> {
    fn begin_dict(&mut self) -> io::Result<()> {
        self.begin(b"{")
    }

    fn end_dict(&mut self) -> io::Result<()> {
        self.end(b"}")
    }

    fn begin_list(&mut self) -> io::Result<()> {
        self.begin(b"[")
    }

    fn end_list(&mut self) -> io::Result<()> {
        self.end(b"]")
    }

    fn key(&mut self, key: &str) -> io::Result<()> {
        self.separate()?;
        self.text(key)?;
        self.out.write_all(b":")
    }

    fn item(&mut self) -> io::Result<()> {
        self.separate()
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, text).map_err(io::Error::from)
    }

    fn int(&mut self, number: i128) -> io::Result<()> {
        write!(self.out, "{number}")
    }

    fn float(&mut self, number: f64) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, &number).map_err(io::Error::from)
    }

    fn bool(&mut self, flag: bool) -> io::Result<()> {
        self.out.write_all(if flag { b"true" } else { b"false" })
    }

    fn pair(&mut self, (a, b): (u64, u64)) -> io::Result<()> {
        write!(self.out, "[{a},{b}]")
    }

    fn recall_stack(&mut self, _: StackId) -> io::Result<bool> {
        Ok(false)
    }

    fn remember_stack(&mut self, _: StackId) {}

    fn recall_frame(&mut self, _: FrameId) -> io::Result<bool> {
        Ok(false)
    }

    fn remember_frame(&mut self, _: FrameId) {}
}
