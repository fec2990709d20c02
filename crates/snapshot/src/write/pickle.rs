//! Protocol 4, as CPython 3.8 to 3.13 writes it, without frames: strings, frames and stacks once, then by memo.

use std::io::{self, Write};

use hashbrown::HashMap;
use rustc_hash::FxHashMap;

use super::Emitter;
use crate::pickle::opcode as op;
use crate::{FrameId, StackId};

/// Items between a `MARK` and its `APPENDS` or `SETITEMS`, as CPython batches them.
const BATCH: usize = 1000;

pub(super) struct PickleEmitter<W: Write> {
    out: io::BufWriter<W>,
    /// Number of `MEMOIZE` so far: the index of the next one.
    memoized: u32,
    /// Memo index of the container begun last.
    last: u32,
    texts: HashMap<Box<str>, u32>,
    stacks: FxHashMap<StackId, u32>,
    frames: FxHashMap<FrameId, u32>,
    /// Items or pairs since the last `MARK`, for each open container.
    open: Vec<usize>,
}

impl<W: Write> PickleEmitter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out: io::BufWriter::with_capacity(256 << 10, out),
            memoized: 0,
            last: 0,
            texts: HashMap::default(),
            stacks: FxHashMap::default(),
            frames: FxHashMap::default(),
            open: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&[op::STOP])?;
        self.out.flush()
    }

    fn memoize(&mut self) -> io::Result<u32> {
        let index = self.memoized;
        self.memoized = index.checked_add(1).ok_or_else(|| io::Error::other("more than 2^32 memo slots"))?;
        self.out.write_all(&[op::MEMOIZE])?;
        Ok(index)
    }

    fn get(&mut self, index: u32) -> io::Result<bool> {
        match u8::try_from(index) {
            Ok(byte) => self.out.write_all(&[op::BINGET, byte])?,
            Err(_) => {
                self.out.write_all(&[op::LONG_BINGET])?;
                self.out.write_all(&index.to_le_bytes())?;
            }
        }
        Ok(true)
    }

    fn begin(&mut self, empty: u8) -> io::Result<()> {
        if self.open.is_empty() && self.memoized == 0 {
            self.out.write_all(&[op::PROTO, 4])?;
        }
        self.out.write_all(&[empty])?;
        self.last = self.memoize()?;
        self.out.write_all(&[op::MARK])?;
        self.open.push(0);
        Ok(())
    }

    /// Counts an item; every thousandth begins a new batch.
    fn next(&mut self, flush: u8) -> io::Result<()> {
        let count = self.open.last_mut().expect("a container is open");
        if *count == BATCH {
            *count = 0;
            self.out.write_all(&[flush, op::MARK])?;
        }
        *self.open.last_mut().expect("a container is open") += 1;
        Ok(())
    }
}

impl<W: Write> Emitter for PickleEmitter<W> {
    fn begin_dict(&mut self) -> io::Result<()> {
        self.begin(op::EMPTY_DICT)
    }

    fn end_dict(&mut self) -> io::Result<()> {
        self.open.pop();
        self.out.write_all(&[op::SETITEMS])
    }

    fn begin_list(&mut self) -> io::Result<()> {
        self.begin(op::EMPTY_LIST)
    }

    fn end_list(&mut self) -> io::Result<()> {
        self.open.pop();
        self.out.write_all(&[op::APPENDS])
    }

    fn key(&mut self, key: &str) -> io::Result<()> {
        self.next(op::SETITEMS)?;
        self.text(key)
    }

    fn item(&mut self) -> io::Result<()> {
        self.next(op::APPENDS)
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(&index) = self.texts.get(text) {
            return self.get(index).map(drop);
        }
        if let Ok(len) = u8::try_from(text.len()) {
            self.out.write_all(&[op::SHORT_BINUNICODE, len])?;
        } else {
            let len = u32::try_from(text.len()).map_err(|_| io::Error::other("a string of 4 GiB"))?;
            self.out.write_all(&[op::BINUNICODE])?;
            self.out.write_all(&len.to_le_bytes())?;
        }
        self.out.write_all(text.as_bytes())?;
        let index = self.memoize()?;
        self.texts.insert(text.into(), index);
        Ok(())
    }

    fn int(&mut self, number: i128) -> io::Result<()> {
        if let Ok(byte) = u8::try_from(number) {
            self.out.write_all(&[op::BININT1, byte])
        } else if let Ok(short) = u16::try_from(number) {
            self.out.write_all(&[op::BININT2])?;
            self.out.write_all(&short.to_le_bytes())
        } else if let Ok(int) = i32::try_from(number) {
            self.out.write_all(&[op::BININT])?;
            self.out.write_all(&int.to_le_bytes())
        } else {
            // The shortest two's complement that keeps the sign.
            let bytes = number.to_le_bytes();
            let fill = if number < 0 { 0xff } else { 0 };
            let mut len: u8 = 16;
            while len > 1 {
                let (top, below) = (bytes[usize::from(len) - 1], bytes[usize::from(len) - 2]);
                if top != fill || (below >= 0x80) != (number < 0) {
                    break;
                }
                len -= 1;
            }
            self.out.write_all(&[op::LONG1, len])?;
            self.out.write_all(&bytes[..usize::from(len)])
        }
    }

    fn float(&mut self, number: f64) -> io::Result<()> {
        self.out.write_all(&[op::BINFLOAT])?;
        self.out.write_all(&number.to_be_bytes())
    }

    fn bool(&mut self, flag: bool) -> io::Result<()> {
        self.out.write_all(&[if flag { op::NEWTRUE } else { op::NEWFALSE }])
    }

    fn pair(&mut self, (a, b): (u64, u64)) -> io::Result<()> {
        self.int(i128::from(a))?;
        self.int(i128::from(b))?;
        self.out.write_all(&[op::TUPLE2])
    }

    fn recall_stack(&mut self, stack: StackId) -> io::Result<bool> {
        // Empty lists are written out, as torch does: some readers fill the lists they are given.
        match self.stacks.get(&stack) {
            Some(&index) if stack != StackId::EMPTY => self.get(index),
            _ => Ok(false),
        }
    }

    fn remember_stack(&mut self, stack: StackId) {
        self.stacks.insert(stack, self.last);
    }

    fn recall_frame(&mut self, frame: FrameId) -> io::Result<bool> {
        match self.frames.get(&frame) {
            Some(&index) => self.get(index),
            None => Ok(false),
        }
    }

    fn remember_frame(&mut self, frame: FrameId) {
        self.frames.insert(frame, self.last);
    }
}
