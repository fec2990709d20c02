//! Runs a pickle's opcodes into a [`Store`].

use std::borrow::Cow;
use std::io::Read;

use super::input::Input;
use super::memo::Memo;
use super::opcode as op;
use super::runs::Runs;
use super::value::Value;
use crate::decode::store::Store;
use crate::error::{Error, ErrorKind};
use crate::limits::{MAX_LOOSE_VALUES, MAX_MARKS};
use crate::room;
use crate::warnings::Place;

/// One run over one pickle.
pub(crate) struct Machine<'s, R> {
    input: Input<R>,
    store: &'s mut Store,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Memo,
    runs: Runs,
    scratch: Vec<u8>,
    protocol: u8,
}

/// How a run ended.
pub(crate) struct Outcome {
    /// The object, or what could be saved of it.
    pub(crate) root: Option<Value>,
    /// Why it is incomplete, if it is.
    pub(crate) error: Option<Error>,
    /// The protocol that the pickle announces; 0 if it announces none.
    pub(crate) protocol: u8,
    /// Bytes of pickle that were read.
    pub(crate) bytes: u64,
}

impl<'s, R: Read> Machine<'s, R> {
    pub(crate) fn new(source: R, store: &'s mut Store) -> Self {
        Self {
            input: Input::new(source),
            store,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            runs: Runs::new(),
            scratch: Vec::new(),
            protocol: 0,
        }
    }

    /// Runs to `STOP`, or to the first error; then what is open is closed as far as it goes.
    pub(crate) fn run(mut self) -> Outcome {
        let (root, error) = match self.steps() {
            Ok(root) => {
                self.look_past_the_end();
                (Some(root), None)
            }
            Err(error) => {
                let root = if error.kind().leaves_a_part() { self.close_all() } else { None };
                (root, Some(error))
            }
        };
        Outcome { root, error, protocol: self.protocol, bytes: self.input.offset() }
    }

    /// PyTorch's HTML pages pad with NUL after `STOP`; anything else there is worth a word.
    fn look_past_the_end(&mut self) {
        if let Some(byte) = self.input.first_nonzero_after_end() {
            self.store.warnings.add(
                "trailing-bytes",
                "there are more bytes after the end of the pickle; they are ignored",
                Place::byte(byte),
            );
        }
    }

    fn steps(&mut self) -> Result<Value, Error> {
        loop {
            let at = self.input.offset();
            // No opcode leaves more than one value more.
            if self.stack.len() == self.stack.capacity() {
                self.make_room(at)?;
            }
            let code = self.input.opcode()?;
            match code {
                // The opcodes of a real snapshot, the most frequent first.
                op::BINGET => {
                    let [index] = self.input.take("a memo index")?;
                    self.get(u32::from(index), at)?;
                }
                op::LONG_BINGET => {
                    let index = u32::from_le_bytes(self.input.take("a memo index")?);
                    self.get(index, at)?;
                }
                op::BININT => {
                    let number = i32::from_le_bytes(self.input.take("a number")?);
                    self.stack.push(Value::small(number));
                }
                op::BININT1 => {
                    let [number] = self.input.take("a number")?;
                    self.stack.push(Value::small(i32::from(number)));
                }
                op::BININT2 => {
                    let number = u16::from_le_bytes(self.input.take("a number")?);
                    self.stack.push(Value::small(i32::from(number)));
                }
                op::LONG1 => {
                    let [len] = self.input.take("a number")?;
                    self.long(u64::from(len))?;
                }
                op::MEMOIZE => {
                    let top = self.top(at, code)?;
                    self.memo.push(top).map_err(|kind| Error::at(at, kind))?;
                }
                op::MARK => self.open_mark(at)?,
                op::SETITEMS => {
                    let mark = self.mark(at, code)?;
                    self.set_items(mark, at, code)?;
                }
                op::APPENDS | op::ADDITEMS => {
                    let mark = self.mark(at, code)?;
                    self.append(mark, at, code)?;
                }
                op::EMPTY_DICT => {
                    let dict = self.store.empty_dict(at).map_err(|kind| Error::at(at, kind))?;
                    self.open(dict, at)?;
                }
                op::EMPTY_LIST | op::EMPTY_SET | op::EMPTY_TUPLE => {
                    let list = self.store.empty_list(at).map_err(|kind| Error::at(at, kind))?;
                    self.open(list, at)?;
                }
                op::SHORT_BINUNICODE | op::SHORT_BINSTRING => {
                    let [len] = self.input.take("a string")?;
                    self.text(u64::from(len))?;
                }
                op::BINUNICODE | op::BINSTRING => {
                    let len = u32::from_le_bytes(self.input.take("a string")?);
                    self.text(u64::from(len))?;
                }
                op::SETITEM => {
                    let above = self.above(2, at, code)?;
                    self.set_items(above, at, code)?;
                }
                op::APPEND => {
                    let above = self.above(1, at, code)?;
                    self.append(above, at, code)?;
                }
                op::TUPLE2 => self.tuple(2, at, code)?,
                op::BINPUT => {
                    let [index] = self.input.take("a memo index")?;
                    self.put(u32::from(index), at, code)?;
                }
                op::LONG_BINPUT => {
                    let index = u32::from_le_bytes(self.input.take("a memo index")?);
                    self.put(index, at, code)?;
                }
                op::NEWTRUE => self.stack.push(Value::bool(true)),
                op::NEWFALSE => self.stack.push(Value::bool(false)),
                op::NONE => self.stack.push(Value::NONE),
                op::BINFLOAT => {
                    let number = f64::from_be_bytes(self.input.take("a number")?);
                    let value = self.store.float(number).map_err(|kind| Error::at(at, kind))?;
                    self.stack.push(value);
                }
                op::FRAME => drop(self.input.take::<8>("a frame length")?),
                op::PROTO => {
                    let [protocol] = self.input.take("the protocol")?;
                    self.protocol = protocol;
                    if protocol > 5 {
                        let message = format!("the pickle has the unknown protocol {protocol}");
                        self.store.warnings.add("unknown-protocol", message, Place::byte(at));
                    }
                }
                op::STOP => return self.pop(at, code),

                // The rest of protocols 0 to 5: never seen in a snapshot, harmless, accepted.
                op::BINUNICODE8 => {
                    let len = u64::from_le_bytes(self.input.take("a string")?);
                    self.text(len)?;
                }
                op::LONG4 => {
                    let len = u32::from_le_bytes(self.input.take("a number")?);
                    self.long(u64::from(len))?;
                }
                op::SHORT_BINBYTES => {
                    let [len] = self.input.take("bytes")?;
                    self.opaque(u64::from(len))?;
                }
                op::BINBYTES => {
                    let len = u32::from_le_bytes(self.input.take("bytes")?);
                    self.opaque(u64::from(len))?;
                }
                op::BINBYTES8 | op::BYTEARRAY8 => {
                    let len = u64::from_le_bytes(self.input.take("bytes")?);
                    self.opaque(len)?;
                }
                op::TUPLE1 => self.tuple(1, at, code)?,
                op::TUPLE3 => self.tuple(3, at, code)?,
                op::TUPLE | op::LIST | op::FROZENSET => {
                    let mark = self.mark(at, code)?;
                    self.list_of(mark, at)?;
                }
                op::DICT => {
                    let mark = self.mark(at, code)?;
                    let node = self.store.empty_dict(at).map_err(|kind| Error::at(at, kind))?;
                    self.stack.insert(mark, node);
                    self.set_items(mark + 1, at, code)?;
                }
                op::POP => match self.marks.last() {
                    Some(&mark) if mark == self.stack.len() => drop(self.marks.pop()),
                    _ => drop(self.pop(at, code)?),
                },
                op::POP_MARK => {
                    let mark = self.mark(at, code)?;
                    self.stack.truncate(mark);
                }
                op::DUP => {
                    let top = self.top(at, code)?;
                    self.stack.push(top);
                }
                op::INT | op::LONG | op::FLOAT | op::STRING | op::UNICODE | op::GET | op::PUT => {
                    self.textual(at, code)?;
                }

                op::GLOBAL | op::INST => return Err(self.refuse_named(at, code)),
                op::STACK_GLOBAL => return Err(self.refuse_stack_global(at)),
                op::REDUCE
                | op::BUILD
                | op::OBJ
                | op::NEWOBJ
                | op::NEWOBJ_EX
                | op::EXT1
                | op::EXT2
                | op::EXT4
                | op::PERSID
                | op::BINPERSID
                | op::NEXT_BUFFER
                | op::READONLY_BUFFER => return Err(refuse(at, code, "would make or call a Python object".to_owned())),
                other => return Err(Error::at(at, ErrorKind::UnknownOpcode(other))),
            }
        }
    }

    /// A new container, with the `MEMOIZE` and `MARK` that follow nearly all of them.
    #[inline]
    fn open(&mut self, container: Value, at: u64) -> Result<(), Error> {
        self.stack.push(container);
        if self.input.ahead().starts_with(&[op::MEMOIZE, op::MARK]) {
            self.memo.push(container).map_err(|kind| Error::at(at + 1, kind))?;
            self.input.advance(2);
            self.open_mark(at + 2)?;
        }
        Ok(())
    }

    /// `MARK`, with the values that follow it.
    #[inline]
    fn open_mark(&mut self, at: u64) -> Result<(), Error> {
        if !self.stack_at_once(at)? {
            if self.marks.len() == MAX_MARKS {
                let limit = MAX_MARKS as u64;
                return Err(Error::at(at, ErrorKind::Limit { what: "the nesting of `MARK`", limit }));
            }
            self.marks.push(self.stack.len());
        }
        self.plain_values();
        Ok(())
    }

    /// The references and numbers that come next, as far as they lie in the buffer: two thirds of all opcodes.
    ///
    /// One that is odd in any way is left to [`steps`](Self::steps).
    #[inline]
    fn plain_values(&mut self) {
        let ahead = self.input.ahead();
        let mut rest = ahead;
        while let Some([code, arg @ ..]) = rest.first_chunk::<10>() {
            let (value, len) = match *code {
                op::BINGET => (self.memo.get(u32::from(arg[0])), 2),
                op::LONG_BINGET => (self.memo.get(u32::from_le_bytes(head(arg))), 5),
                op::BININT1 => (Some(Value::small(i32::from(arg[0]))), 2),
                op::BININT2 => (Some(Value::small(i32::from(u16::from_le_bytes(head(arg))))), 3),
                op::BININT => (Some(Value::small(i32::from_le_bytes(head(arg)))), 5),
                op::LONG1 if arg[0] <= 8 => {
                    let [len, word @ ..] = arg;
                    (Value::int(short_number(*word, *len)), 2 + usize::from(*len))
                }
                _ => break,
            };
            let Some(value) = value else { break };
            if self.stack.len() == self.stack.capacity() {
                break;
            }
            self.stack.push(value);
            rest = &rest[len..];
        }
        let count = ahead.len() - rest.len();
        self.input.advance(count);
    }

    /// After `MARK` above an empty list: the list as a whole, if it is a stack that is nothing but memo references.
    #[inline]
    fn stack_at_once(&mut self, at: u64) -> Result<bool, Error> {
        let Some(list) = self.stack.last().and_then(|top| top.as_node()) else { return Ok(false) };
        let ahead = self.input.ahead();
        if !matches!(ahead.first(), Some(&(op::BINGET | op::LONG_BINGET))) || !self.store.is_empty_list(list) {
            return Ok(false);
        }
        self.runs.check(self.memo.overwrites());
        if let Some((len, stack)) = self.runs.guess(ahead) {
            self.store.set_stack(list, stack);
            self.input.advance(len);
            return Ok(true);
        }
        self.stack_from_run(list, at)
    }

    /// The guess was wrong: the run is looked up, and executed if it is new.
    fn stack_from_run(&mut self, list: usize, at: u64) -> Result<bool, Error> {
        let ahead = self.input.ahead();
        let Some(run) = Runs::scan(ahead, |_| true) else { return Ok(false) };
        if let Some(stack) = self.runs.find(&run, ahead) {
            self.store.set_stack(list, stack);
            self.input.advance(run.len);
            return Ok(true);
        }
        let items_start = self.stack.len();
        // Each reference is two bytes or more of the buffer.
        room::make(&mut self.stack, run.len / 2).map_err(|kind| Error::at(at, kind))?;
        let (memo, stack) = (&self.memo, &mut self.stack);
        let known = Runs::scan(ahead, |index| memo.get(index).map(|value| stack.push(value)).is_some()).is_some();
        if known {
            self.store.append(list, &self.stack[items_start..], at).map_err(|kind| Error::at(at, kind))?;
            if let Some(stack) = self.store.as_stack(list) {
                self.runs.keep(&run, &ahead[..run.len], stack);
            }
            self.input.advance(run.len);
        }
        self.stack.truncate(items_start);
        Ok(known)
    }

    #[inline]
    fn get(&mut self, index: u32, at: u64) -> Result<(), Error> {
        match self.memo.get(index) {
            Some(value) => {
                self.stack.push(value);
                Ok(())
            }
            None => Err(missing_memo(at, index)),
        }
    }

    #[inline]
    fn put(&mut self, index: u32, at: u64, code: u8) -> Result<(), Error> {
        let top = self.top(at, code)?;
        self.memo.put(index, top).map_err(|kind| Error::at(at, kind))
    }

    /// The value on top, which must not lie below an open mark.
    #[inline]
    fn top(&self, at: u64, code: u8) -> Result<Value, Error> {
        self.stack.last().copied().ok_or_else(|| underflow(at, code))
    }

    fn pop(&mut self, at: u64, code: u8) -> Result<Value, Error> {
        self.stack.pop().ok_or_else(|| underflow(at, code))
    }

    /// Makes room for another value, if the stack is not higher already than it is of use.
    ///
    /// Asked only when the stack has to grow, which doubles it: so it may become twice as high as the limit says.
    #[cold]
    fn make_room(&mut self, at: u64) -> Result<(), Error> {
        let limit = MAX_LOOSE_VALUES + self.store.nodes.len();
        if self.stack.len() >= limit {
            return Err(Error::at(at, ErrorKind::Limit { what: "the height of the stack", limit: limit as u64 }));
        }
        room::make(&mut self.stack, 1).map_err(|kind| Error::at(at, kind))
    }

    /// Closes the innermost mark: what lies above it starts at this index.
    #[inline]
    fn mark(&mut self, at: u64, code: u8) -> Result<usize, Error> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(mark),
            _ => Err(malformed(at, code, "has no `MARK` before it".to_owned())),
        }
    }

    /// Where the `count` topmost values start.
    #[inline]
    fn above(&self, count: usize, at: u64, code: u8) -> Result<usize, Error> {
        self.stack.len().checked_sub(count).ok_or_else(|| underflow(at, code))
    }

    /// Puts the pairs from `start` on into the dict below them.
    #[inline]
    fn set_items(&mut self, start: usize, at: u64, code: u8) -> Result<(), Error> {
        let Some(dict) = start.checked_sub(1).and_then(|below| self.stack[below].as_node()) else {
            return Err(malformed(at, code, "has no dict below its items".to_owned()));
        };
        let items = &self.stack[start..];
        if !items.len().is_multiple_of(2) {
            return Err(malformed(at, code, "has a key without a value".to_owned()));
        }
        self.store.set_items(dict, items, at).map_err(|kind| Error::at(at, kind))?;
        self.stack.truncate(start);
        Ok(())
    }

    /// Appends the values from `start` on to the list below them.
    #[inline]
    fn append(&mut self, start: usize, at: u64, code: u8) -> Result<(), Error> {
        let Some(list) = start.checked_sub(1).and_then(|below| self.stack[below].as_node()) else {
            return Err(malformed(at, code, "has no list below its items".to_owned()));
        };
        self.store.append(list, &self.stack[start..], at).map_err(|kind| Error::at(at, kind))?;
        self.stack.truncate(start);
        Ok(())
    }

    fn tuple(&mut self, count: usize, at: u64, code: u8) -> Result<(), Error> {
        let start = self.above(count, at, code)?;
        self.list_of(start, at)
    }

    fn list_of(&mut self, start: usize, at: u64) -> Result<(), Error> {
        let node = self.store.list_of(&self.stack[start..], at).map_err(|kind| Error::at(at, kind))?;
        self.stack.truncate(start);
        self.stack.push(node);
        Ok(())
    }

    /// A little-endian two's complement number of `len` bytes.
    #[inline]
    fn long(&mut self, len: u64) -> Result<(), Error> {
        let at = self.input.offset();
        let bytes = self.input.text(len, &mut self.scratch, "a number")?;
        let value = match wide_number(bytes) {
            Some(number) => self.store.number(number).map_err(|kind| Error::at(at, kind))?,
            None => Value::OPAQUE,
        };
        self.stack.push(value);
        Ok(())
    }

    #[inline]
    fn text(&mut self, len: u64) -> Result<(), Error> {
        let at = self.input.offset();
        let bytes = self.input.text(len, &mut self.scratch, "a string")?;
        let value = self.store.text(bytes, at).map_err(|kind| Error::at(at, kind))?;
        self.stack.push(value);
        Ok(())
    }

    /// Passes over bytes that mean nothing in a snapshot.
    fn opaque(&mut self, len: u64) -> Result<(), Error> {
        self.input.text(len, &mut self.scratch, "bytes")?;
        self.stack.push(Value::OPAQUE);
        Ok(())
    }

    /// The opcodes of protocol 0, whose argument is a line of text.
    fn textual(&mut self, at: u64, code: u8) -> Result<(), Error> {
        self.input.line(&mut self.scratch, "a line of protocol 0")?;
        let line = String::from_utf8_lossy(&self.scratch).into_owned();
        let line = line.trim_end_matches('\r');
        let unreadable = || malformed(at, code, format!("has the unreadable argument `{}`", shown(line)));
        let value = match code {
            op::INT if line == "00" => Value::bool(false),
            op::INT if line == "01" => Value::bool(true),
            op::INT | op::LONG => {
                let number: i128 = line.trim_end_matches('L').parse().map_err(|_| unreadable())?;
                self.store.number(number).map_err(|kind| Error::at(at, kind))?
            }
            op::FLOAT => {
                let number: f64 = line.parse().map_err(|_| unreadable())?;
                self.store.float(number).map_err(|kind| Error::at(at, kind))?
            }
            op::UNICODE => {
                let text = raw_unicode(&self.scratch);
                self.store.text(text.as_bytes(), at).map_err(|kind| Error::at(at, kind))?
            }
            op::STRING => {
                let text = unescaped(unquoted(line).ok_or_else(unreadable)?);
                self.store.text(text.as_bytes(), at).map_err(|kind| Error::at(at, kind))?
            }
            _ => {
                let index: u32 = line.parse().map_err(|_| unreadable())?;
                return if code == op::GET { self.get(index, at) } else { self.put(index, at, code) };
            }
        };
        self.stack.push(value);
        Ok(())
    }

    fn refuse_named(&mut self, at: u64, code: u8) -> Error {
        let mut name = Vec::new();
        for _ in 0..2 {
            if self.input.line(&mut self.scratch, "a name").is_err() {
                break;
            }
            name.extend_from_slice(if name.is_empty() { b"" } else { b"." });
            name.extend_from_slice(&self.scratch);
        }
        refuse(at, code, format!("names the Python object `{}`", shown(&String::from_utf8_lossy(&name))))
    }

    fn refuse_stack_global(&self, at: u64) -> Error {
        let text = |from_top: usize| {
            let value = self.stack.len().checked_sub(from_top).and_then(|i| self.stack.get(i))?;
            value.as_text().map(|id| self.store.strings.get(id))
        };
        let name = format!("{}.{}", text(2).unwrap_or("?"), text(1).unwrap_or("?"));
        refuse(at, op::STACK_GLOBAL, format!("names the Python object `{}`", shown(&name)))
    }

    /// Closes what an early end left open, from the innermost mark outwards, and gives the root.
    ///
    /// Lists and the root dict are kept with what they have; an inner dict that was not finished is dropped.
    fn close_all(&mut self) -> Option<Value> {
        let at = self.input.offset();
        while let Some(mark) = self.marks.pop() {
            let below = mark.min(self.stack.len()).checked_sub(1)?;
            let node = self.stack[below].as_node()?;
            let items = room::collect(self.stack.drain(below + 1..)).ok()?;
            let closed = if self.store.is_list(node) {
                self.store.append(node, &items, at)
            } else if below == 0 {
                self.close_root(node, &items, at)
            } else {
                self.stack.pop();
                Ok(())
            };
            closed.ok()?;
        }
        // A list of one item is written without a mark: the item still lies above its list. So is every list and dict of
        // protocol 0, where a dict above a list may lack keys: it would have been appended at once.
        if self.stack.len() > MAX_MARKS {
            return None;
        }
        while self.stack.len() > 1 {
            let item = self.stack.pop()?;
            let unfinished = item.as_node().is_some_and(|node| self.store.is_plain_dict(node));
            let item = if unfinished { Value::NONE } else { item };
            let Some(below) = self.stack.last()?.as_node() else {
                if self.stack.len() == 2 {
                    let root = self.stack[0].as_node()?;
                    let key = self.stack.pop()?;
                    self.store.set_items(root, &[key, item], at).ok()?;
                }
                continue;
            };
            if self.store.is_list(below) && !unfinished {
                self.store.append(below, &[item], at).ok()?;
            }
        }
        self.stack.pop()
    }

    /// The root dict with the pairs so far; a value where a key is expected belongs to the list before it.
    fn close_root(&mut self, root: usize, items: &[Value], at: u64) -> Result<(), ErrorKind> {
        let mut pairs: Vec<Value> = Vec::new();
        for &item in items {
            let expects_key = pairs.len().is_multiple_of(2);
            if expects_key && item.as_text().is_none() {
                self.fold_into_last(&pairs, item, at)?;
            } else {
                pairs.push(item);
            }
        }
        // The last key stays even if its value is lost: it tells what came before it in full.
        if !pairs.len().is_multiple_of(2) {
            pairs.push(Value::NONE);
        }
        self.store.set_items(root, &pairs, at)
    }

    /// Without marks, open lists lie side by side: `device_traces`, then the list of the first device.
    fn fold_into_last(&mut self, pairs: &[Value], item: Value, at: u64) -> Result<(), ErrorKind> {
        match pairs.last().and_then(|last| last.as_node()) {
            Some(list) if self.store.is_list(list) => self.store.append(list, &[item], at),
            _ => Ok(()),
        }
    }
}

#[cold]
fn underflow(at: u64, code: u8) -> Error {
    malformed(at, code, "finds too few values on the stack".to_owned())
}

#[cold]
fn missing_memo(at: u64, index: u32) -> Error {
    malformed(at, op::BINGET, format!("refers to memo slot {index}, which was never filled"))
}

#[cold]
fn malformed(at: u64, code: u8, detail: String) -> Error {
    Error::at(at, ErrorKind::Malformed { opcode: op::name(code), detail })
}

#[cold]
fn refuse(at: u64, code: u8, detail: String) -> Error {
    Error::at(at, ErrorKind::Refused { opcode: op::name(code), detail })
}

/// The first bytes of an argument.
#[inline]
fn head<const N: usize>(arg: &[u8; 9]) -> [u8; N] {
    *arg.first_chunk().expect("no opcode asks for more")
}

/// Two's complement of the first `len` bytes, at most 8.
#[inline]
fn short_number(bytes: [u8; 8], len: u8) -> i64 {
    let unused = 64 - 8 * u32::from(len);
    // Shift left by up to 64 in two steps, then back with the sign.
    let word = u64::from_le_bytes(bytes) << (unused / 2) << (unused - unused / 2);
    word.cast_signed() >> (unused / 2) >> (unused - unused / 2)
}

/// Two's complement of any length, if it fits 128 bits.
fn wide_number(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.last().is_some_and(|&b| b >= 0x80);
    let fill = if negative { 0xff } else { 0 };
    if bytes.len() > 16 {
        let same_sign = (bytes[15] >= 0x80) == negative;
        if !same_sign || bytes[16..].iter().any(|&b| b != fill) {
            return None;
        }
    }
    let mut word = [fill; 16];
    let kept = bytes.len().min(16);
    word[..kept].copy_from_slice(&bytes[..kept]);
    Some(i128::from_le_bytes(word))
}

/// What stands between the quotes of a protocol 0 string.
fn unquoted(line: &str) -> Option<&str> {
    let line = line.trim();
    let quote = line.chars().next().filter(|&c| c == '\'' || c == '"')?;
    line.strip_prefix(quote)?.strip_suffix(quote)
}

/// Python's encoding `raw-unicode-escape`: Latin-1 with `\uXXXX` and `\UXXXXXXXX`, no other escape.
fn raw_unicode(line: &[u8]) -> String {
    let text: String = line.iter().copied().map(char::from).collect();
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits = match rest.as_bytes().get(1) {
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        let hex = rest.get(2..2 + digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        // Anything else than an escape is two characters as they are.
        let (decoded, len) = match hex.and_then(char::from_u32) {
            Some(decoded) => (Some(decoded), 2 + digits),
            None => (None, rest.chars().take(2).map(char::len_utf8).sum()),
        };
        match decoded {
            Some(decoded) => out.push(decoded),
            None => out.push_str(&rest[..len]),
        }
        rest = &rest[len..];
    }
    out + rest
}

/// Python's `\uXXXX`, `\xXX` and single-letter escapes.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let tail = rest.as_str();
        let (digits, plain) = match tail.chars().next() {
            Some('u') => (4, None),
            Some('U') => (8, None),
            Some('x') => (2, None),
            Some('n') => (0, Some('\n')),
            Some('t') => (0, Some('\t')),
            Some('r') => (0, Some('\r')),
            Some(c @ ('\\' | '\'' | '"')) => (0, Some(c)),
            _ => (0, Some('\\')),
        };
        if let Some(plain) = plain {
            out.push(plain);
            if !tail.is_empty() && (plain != '\\' || tail.starts_with('\\')) {
                rest.next();
            }
            continue;
        }
        let code = tail.get(1..=digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match code.and_then(char::from_u32) {
            Some(decoded) => {
                out.push(decoded);
                rest = tail[1 + digits..].chars();
            }
            None => out.push('\\'),
        }
    }
    Cow::Owned(out)
}

/// Untrusted text for a message: short, without control characters.
fn shown(text: &str) -> String {
    let clean: String = text.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > 80 { clean + "…" } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pickle::value::Kind;

    #[test]
    fn wide_numbers_keep_sign_and_value() {
        assert_eq!(wide_number(&[]), Some(0));
        assert_eq!(wide_number(&[0xff]), Some(-1));
        assert_eq!(wide_number(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]), Some(u64::MAX.into()));
        assert_eq!(wide_number(&[0; 40]), Some(0));
        assert_eq!(wide_number(&[0xff; 40]), Some(-1));
        let mut large = [0; 17];
        large[16] = 1;
        assert_eq!(wide_number(&large), None);
        for number in [0, 1, -1, 127, -128, 1 << 40, -(1 << 40), i64::MAX, i64::MIN] {
            let bytes = number.to_le_bytes();
            assert_eq!(short_number(bytes, 8), number);
            for len in 0..=8 {
                assert_eq!(Some(i128::from(short_number(bytes, len))), wide_number(&bytes[..usize::from(len)]));
            }
        }
    }

    #[test]
    fn escapes_of_protocol_0() {
        assert_eq!(unescaped("plain"), "plain");
        assert_eq!(unescaped(r"a\u00e9\x41\n\\ \q"), "aéA\n\\ \\q");
        assert_eq!(unescaped("tail\\"), "tail\\");
        assert_eq!(
            raw_unicode(b"C:\\u005cnew \xe9\\u6a21\\U0001f525 \\x41 \\\\u0041 \\u00"),
            "C:\\new é模🔥 \\x41 \\\\u0041 \\u00"
        );
        assert_eq!(unquoted("'a b'"), Some("a b"));
        assert_eq!(unquoted("a"), None);
    }

    #[test]
    fn every_kind_of_value_can_lie_on_the_stack() {
        let mut store = Store::new();
        // (N, True, 1.5, b'ab', 2**70) as protocol 4
        let mut pickle = b"\x80\x04(N\x88G\x3f\xf8\0\0\0\0\0\0C\x02ab\x8a\x09\0\0\0\0\0\0\0\0\x40t.".to_vec();
        let outcome = Machine::new(pickle.as_slice(), &mut store).run();
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!((outcome.protocol, outcome.bytes), (4, pickle.len() as u64));
        let Some(Kind::Node(_)) = outcome.root.map(Value::kind) else { panic!("a tuple") };
        pickle.truncate(20);
        assert!(Machine::new(pickle.as_slice(), &mut store).run().error.is_some());
    }
}
