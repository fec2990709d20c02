//! Where values with parts live while a file is read.

use hashbrown::HashMap;

use super::keys;
use crate::entries::EntryTable;
use crate::error::ErrorKind;
use crate::limits::{
    MAX_FIRST_CONTAINERS, MAX_RECORD_KEYS, MAX_ROWS, MAX_SIZES_SUM_BYTES, MAX_TEXT_BYTES, MIN_CONTAINER_BYTES,
};
use crate::pickle::value::{Kind, Value};
use crate::room;
use crate::stacks::{Frame, FrameTable, StackTable};
use crate::strings::StringTable;
use crate::warnings::{Place, Warnings};
use crate::{Annotation, Block, FrameId, PoolId, Segment, StackId, Stage, StreamId};

/// A container, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    EmptyDict,
    EmptyList,
    Entry(u32),
    Block(u32),
    Segment(u32),
    Annotation(u32),
    Frame(FrameId),
    Pool(PoolId),
    /// A list of frames.
    Stack(StackId),
    /// Lists whose items are consecutive rows: the usual case, at no cost per item.
    Entries(Run),
    Blocks(Run),
    Segments(Run),
    Annotations(Run),
    /// A list whose rows already belong to something: a second owner gets nothing.
    Taken,
    /// Any other dict: index into `maps`.
    Map(u32),
    /// Any other list: index into `lists`.
    List(u32),
}

/// Consecutive rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Run {
    fn one(row: u32) -> Self {
        Self { start: row, len: 1 }
    }

    /// The run with one more row, if that row follows it.
    fn with(self, row: u32) -> Option<Self> {
        (self.start + self.len == row).then_some(Self { len: self.len + 1, ..self })
    }

    pub(crate) fn rows(self) -> std::ops::Range<u32> {
        self.start..self.start + self.len
    }
}

/// The tables as they grow, and the containers that are still open.
pub(crate) struct Store {
    pub(crate) nodes: Vec<Node>,
    pub(crate) maps: Vec<Vec<(Value, Value)>>,
    pub(crate) lists: Vec<Vec<Value>>,
    floats: Vec<f64>,
    wide: Vec<i128>,

    pub(crate) strings: StringTable,
    pub(crate) frames: FrameTable,
    pub(crate) stacks: StackTable,
    pub(crate) streams: Interner<u64>,
    pub(crate) pools: Interner<(u64, u64)>,
    pub(crate) unknown_actions: Vec<crate::StringId>,
    pub(crate) entries: EntryTable,
    pub(crate) segments: Vec<Segment>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) warnings: Warnings,
    /// Bytes of JSON text kept so far, for the budget of `render`.
    pub(crate) rendered_bytes: u64,
    /// Rows that were copied because a list named them twice or out of order.
    pub(crate) copied_rows: u64,
    /// What stands for the device of segments that name none, by row.
    pub(crate) odd_devices: Vec<(u32, crate::StringId)>,
    /// Segments whose own sums are not those of their blocks: what is said of the first, where it is, how many there are.
    pub(crate) odd_sums: Option<(String, Place, u64)>,
    /// All sizes so far.
    sizes_sum_bytes: u64,
    frame_scratch: Vec<FrameId>,
}

impl Store {
    pub(crate) fn new() -> Self {
        let mut streams = Interner::default();
        let default_stream = streams.intern(0).expect("a table begins with room");
        let mut pools = Interner::default();
        let default_pool = pools.intern((0, 0)).expect("a table begins with room");
        debug_assert_eq!((default_stream, default_pool), (StreamId::DEFAULT.get(), PoolId::DEFAULT.get()));
        Self {
            nodes: Vec::new(),
            maps: Vec::new(),
            lists: Vec::new(),
            floats: Vec::new(),
            wide: Vec::new(),
            strings: keys::vocabulary(),
            frames: FrameTable::default(),
            stacks: StackTable::default(),
            streams,
            pools,
            unknown_actions: Vec::new(),
            entries: EntryTable::default(),
            segments: Vec::new(),
            blocks: Vec::new(),
            annotations: Vec::new(),
            warnings: Warnings::default(),
            rendered_bytes: 0,
            copied_rows: 0,
            odd_devices: Vec::new(),
            odd_sums: None,
            sizes_sum_bytes: 0,
            frame_scratch: Vec::new(),
        }
    }

    // ---- making values

    #[inline]
    pub(crate) fn empty_dict(&mut self, at: u64) -> Result<Value, ErrorKind> {
        self.node(Node::EmptyDict, at)
    }

    #[inline]
    pub(crate) fn empty_list(&mut self, at: u64) -> Result<Value, ErrorKind> {
        self.node(Node::EmptyList, at)
    }

    #[inline]
    fn node(&mut self, node: Node, at: u64) -> Result<Value, ErrorKind> {
        let index = self.nodes.len();
        let limit = (MAX_FIRST_CONTAINERS + at / MIN_CONTAINER_BYTES).min(MAX_ROWS as u64);
        if index as u64 >= limit {
            return Err(ErrorKind::Limit { what: "the number of containers so far", limit });
        }
        room::push(&mut self.nodes, node)?;
        Ok(Value::node(index))
    }

    #[inline]
    pub(crate) fn text(&mut self, bytes: &[u8], at: u64) -> Result<Value, ErrorKind> {
        if let Some(id) = self.strings.recall(bytes) {
            return Ok(Value::text(id));
        }
        if self.strings.len() >= MAX_ROWS {
            return Err(ErrorKind::Limit { what: "the number of strings", limit: MAX_ROWS as u64 });
        }
        self.strings.make_room(bytes.len())?;
        let id = match std::str::from_utf8(bytes) {
            Ok(text) => self.strings.intern(text),
            Err(_) => {
                self.warnings.add(
                    "invalid-utf8",
                    "a string is not UTF-8; its bad bytes are shown as `\u{fffd}`",
                    Place::byte(at),
                );
                self.strings.intern(&String::from_utf8_lossy(bytes))
            }
        };
        Ok(Value::text(id))
    }

    pub(crate) fn float(&mut self, number: f64) -> Result<Value, ErrorKind> {
        room::push(&mut self.floats, number)?;
        Ok(Value::float(self.floats.len() - 1))
    }

    #[cold]
    pub(crate) fn wide(&mut self, number: i128) -> Result<Value, ErrorKind> {
        room::push(&mut self.wide, number)?;
        Ok(Value::wide(self.wide.len() - 1))
    }

    pub(crate) fn number(&mut self, number: i128) -> Result<Value, ErrorKind> {
        i64::try_from(number).ok().and_then(Value::int).map_or_else(|| self.wide(number), Ok)
    }

    /// A list or tuple of these items: a pair of numbers is a pool's id.
    pub(crate) fn list_of(&mut self, items: &[Value], at: u64) -> Result<Value, ErrorKind> {
        if let &[a, b] = items
            && let (Some(a), Some(b)) = (a.as_int(), b.as_int())
            && let (Ok(a), Ok(b)) = (u64::try_from(a), u64::try_from(b))
        {
            let pool = PoolId::new(self.pools.intern((a, b))?);
            return self.node(Node::Pool(pool), at);
        }
        let list = self.empty_list(at)?;
        self.append(list.as_node().expect("just made"), items, at)?;
        Ok(list)
    }

    // ---- reading values

    /// A whole number of any width, also one that was written as a float.
    #[inline]
    pub(crate) fn integer_of(&self, value: Value) -> Option<i128> {
        match value.kind() {
            Kind::Int(number) => Some(i128::from(number)),
            Kind::Wide(index) => Some(self.wide[index]),
            Kind::Bool(flag) => Some(i128::from(flag)),
            #[expect(clippy::cast_possible_truncation, reason = "within 2^64 either way, so within i128")]
            Kind::Float(index) => {
                Some(self.floats[index]).filter(|f| f.is_finite() && f.abs() < 2e19).map(|f| f as i128)
            }
            _ => None,
        }
    }

    /// An unsigned number of 64 bits; PyTorch's C++ writer gives those from 2^63 on as negative ones.
    #[inline]
    pub(crate) fn u64_of(&self, value: Value) -> Option<u64> {
        if let Some(number) = value.as_int() {
            return Some(number.cast_unsigned());
        }
        let number = self.integer_of(value)?;
        u64::try_from(number).ok().or_else(|| i64::try_from(number).ok().map(i64::cast_unsigned))
    }

    pub(crate) fn float_of(&self, value: Value) -> Option<f64> {
        match value.kind() {
            Kind::Float(index) => Some(self.floats[index]),
            #[expect(clippy::cast_precision_loss, reason = "a setting or a time, not an address")]
            Kind::Int(number) => Some(number as f64),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn node_of(&self, value: Value) -> Option<Node> {
        value.as_node().map(|index| self.nodes[index])
    }

    // ---- filling containers

    #[inline]
    pub(crate) fn is_empty_list(&self, node: usize) -> bool {
        self.nodes[node] == Node::EmptyList
    }

    #[inline]
    pub(crate) fn set_stack(&mut self, list: usize, stack: StackId) {
        self.nodes[list] = Node::Stack(stack);
    }

    pub(crate) fn as_stack(&self, node: usize) -> Option<StackId> {
        match self.nodes[node] {
            Node::Stack(stack) => Some(stack),
            _ => None,
        }
    }

    /// Whether this is a dict that has not become a record.
    pub(crate) fn is_plain_dict(&self, node: usize) -> bool {
        matches!(self.nodes[node], Node::EmptyDict | Node::Map(_))
    }

    pub(crate) fn is_list(&self, node: usize) -> bool {
        matches!(
            self.nodes[node],
            Node::EmptyList
                | Node::Stack(_)
                | Node::Entries(_)
                | Node::Blocks(_)
                | Node::Segments(_)
                | Node::Annotations(_)
                | Node::List(_)
        )
    }

    /// Puts key-value pairs into a dict.
    #[inline]
    pub(crate) fn set_items(&mut self, dict: usize, items: &[Value], at: u64) -> Result<(), ErrorKind> {
        match self.nodes[dict] {
            // A single pair may be the first of several, as protocols 0 and 1 write them: wait.
            Node::EmptyDict if items.len() > 2 => {
                if let Some(row) = self.drain(items, at)? {
                    self.nodes[dict] = row;
                } else {
                    self.nodes[dict] = self.map(items, at)?;
                }
            }
            Node::EmptyDict if items.is_empty() => {}
            Node::EmptyDict => self.nodes[dict] = self.map(items, at)?,
            Node::Map(index) => {
                let map = &mut self.maps[index as usize];
                room::make(map, items.len() / 2)?;
                map.extend(pairs(items));
            }
            _ => self.warnings.add("late-key", "a key was added to a finished record; it is ignored", Place::byte(at)),
        }
        Ok(())
    }

    fn map(&mut self, items: &[Value], at: u64) -> Result<Node, ErrorKind> {
        self.check_small_containers(at)?;
        let index = u32::try_from(self.maps.len()).expect("fewer maps than nodes");
        room::push(&mut self.maps, room::collect(pairs(items))?)?;
        Ok(Node::Map(index))
    }

    /// A list or dict that is no record takes some eighty bytes, and could be written in one: real files hold few, of
    /// many bytes each.
    fn check_small_containers(&self, at: u64) -> Result<(), ErrorKind> {
        let limit = 1024 + at / 4;
        if (self.maps.len() + self.lists.len()) as u64 >= limit {
            return Err(ErrorKind::Limit { what: "the number of tiny lists and dicts so far", limit });
        }
        Ok(())
    }

    /// The dict as a row of its table, if its keys say which.
    #[inline]
    fn drain(&mut self, items: &[Value], at: u64) -> Result<Option<Node>, ErrorKind> {
        // The first key decides in every file that PyTorch wrote; other orders are looked through.
        match items[0].as_text() {
            Some(keys::ACTION) => return self.drain_entry(items, at).map(Some),
            Some(keys::NAME | keys::FILENAME | keys::LINE) if has(items, keys::FILENAME) => {
                return self.drain_frame(items, at).map(Some);
            }
            _ => {}
        }
        if has(items, keys::SEGMENTS) || has(items, keys::DEVICE_TRACES) {
            // The root, whatever other keys someone has put there.
            Ok(None)
        } else if has(items, keys::ACTION) {
            self.drain_entry(items, at).map(Some)
        } else if has(items, keys::FILENAME) {
            self.drain_frame(items, at).map(Some)
        } else if has(items, keys::TOTAL_SIZE) {
            self.drain_segment(items, at).map(Some)
        } else if has(items, keys::SIZE) && (has(items, keys::STATE) || has(items, keys::REQUESTED_SIZE)) {
            self.drain_block(items, at).map(Some)
        } else if has(items, keys::STAGE) {
            self.drain_annotation(items, at).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Drains a dict that was filled pair by pair, once it becomes an item of a list.
    fn settle(&mut self, node: usize, at: u64) -> Result<Node, ErrorKind> {
        if let Node::Map(index) = self.nodes[node]
            && (1..=MAX_RECORD_KEYS).contains(&self.maps[index as usize].len())
        {
            let items: Vec<Value> = self.maps[index as usize].iter().flat_map(|&(k, v)| [k, v]).collect();
            if let Some(row) = self.drain(&items, at)? {
                self.maps[index as usize] = Vec::new();
                self.nodes[node] = row;
            }
        }
        Ok(self.nodes[node])
    }

    /// Appends items to a list.
    pub(crate) fn append(&mut self, list: usize, items: &[Value], at: u64) -> Result<(), ErrorKind> {
        if self.nodes[list] == Node::EmptyList && self.append_frames(list, items)? {
            return Ok(());
        }
        if !self.is_list(list) {
            self.warnings.add("late-item", "an item was added to a finished record; it is ignored", Place::byte(at));
            return Ok(());
        }
        for &item in items {
            let row = match item.as_node() {
                Some(node) => Some(self.settle(node, at)?),
                None => None,
            };
            let longer = match (self.nodes[list], row) {
                (Node::EmptyList, Some(Node::Entry(row))) => Some(Node::Entries(Run::one(row))),
                (Node::EmptyList, Some(Node::Block(row))) => Some(Node::Blocks(Run::one(row))),
                (Node::EmptyList, Some(Node::Segment(row))) => Some(Node::Segments(Run::one(row))),
                (Node::EmptyList, Some(Node::Annotation(row))) => Some(Node::Annotations(Run::one(row))),
                (Node::Entries(run), Some(Node::Entry(row))) => run.with(row).map(Node::Entries),
                (Node::Blocks(run), Some(Node::Block(row))) => run.with(row).map(Node::Blocks),
                (Node::Segments(run), Some(Node::Segment(row))) => run.with(row).map(Node::Segments),
                (Node::Annotations(run), Some(Node::Annotation(row))) => run.with(row).map(Node::Annotations),
                _ => None,
            };
            match longer {
                Some(run) => self.nodes[list] = run,
                None => {
                    let index = self.as_plain_list(list, at)?;
                    room::push(&mut self.lists[index], item)?;
                }
            }
        }
        Ok(())
    }

    /// A whole stack at once: the items of an empty list, if all are frames.
    fn append_frames(&mut self, list: usize, items: &[Value]) -> Result<bool, ErrorKind> {
        self.frame_scratch.clear();
        for &item in items {
            match self.node_of(item) {
                Some(Node::Frame(frame)) => room::push(&mut self.frame_scratch, frame)?,
                _ => return Ok(false),
            }
        }
        if items.is_empty() {
            return Ok(false);
        }
        self.stacks.make_room(items.len())?;
        self.nodes[list] = Node::Stack(self.stacks.intern(&self.frame_scratch));
        Ok(true)
    }

    /// Turns a list of any form into one of plain values; its index.
    fn as_plain_list(&mut self, list: usize, at: u64) -> Result<usize, ErrorKind> {
        if let Node::List(index) = self.nodes[list] {
            return Ok(index as usize);
        }
        self.check_small_containers(at)?;
        let values = match self.nodes[list] {
            Node::Stack(stack) => room::collect(self.stacks.get(stack).iter().map(|&frame| Node::Frame(frame)))?,
            Node::Entries(run) => room::collect(run.rows().map(Node::Entry))?,
            Node::Blocks(run) => room::collect(run.rows().map(Node::Block))?,
            Node::Segments(run) => room::collect(run.rows().map(Node::Segment))?,
            Node::Annotations(run) => room::collect(run.rows().map(Node::Annotation))?,
            _ => Vec::new(),
        };
        let mut items = Vec::new();
        room::make(&mut items, values.len())?;
        for node in values {
            items.push(self.node(node, at)?);
        }
        let index = self.lists.len();
        room::push(&mut self.lists, items)?;
        self.nodes[list] = Node::List(u32::try_from(index).expect("fewer lists than nodes"));
        Ok(index)
    }

    // ---- stacks

    /// The stack that a value of `frames` means.
    #[inline]
    pub(crate) fn stack_of(&mut self, value: Value, at: u64) -> Result<StackId, ErrorKind> {
        match self.node_of(value) {
            Some(Node::Stack(stack)) => Ok(stack),
            Some(Node::EmptyList) => Ok(StackId::EMPTY),
            Some(Node::List(index)) => self.stack_of_list(value, index as usize, at),
            _ => {
                if value != Value::NONE {
                    self.warnings.add(
                        "bad-frames",
                        "`frames` is not a list of frames; it is left out",
                        Place::byte(at),
                    );
                }
                Ok(StackId::EMPTY)
            }
        }
    }

    /// A list that holds more than frames: strings (`forward_frames`, `cpp_frames`) become frames of that name.
    fn stack_of_list(&mut self, value: Value, index: usize, at: u64) -> Result<StackId, ErrorKind> {
        let items = std::mem::take(&mut self.lists[index]);
        let mut frames = Vec::new();
        room::make(&mut frames, items.len())?;
        let mut odd = false;
        for &item in &items {
            if let Some(name) = item.as_text() {
                let filename = self.strings.intern("");
                self.frames.make_room()?;
                frames.push(self.frames.intern(Frame { name, filename, line: 0 }));
            } else if let Some(node) = item.as_node()
                && let Node::Frame(frame) = self.settle(node, at)?
            {
                frames.push(frame);
            } else {
                odd = true;
            }
        }
        if odd {
            self.warnings.add("bad-frames", "`frames` holds more than frames; the rest is left out", Place::byte(at));
        }
        self.stacks.make_room(frames.len())?;
        let stack = self.stacks.intern(&frames);
        // A later reference to this list finds the stack at once.
        self.nodes[value.as_node().expect("a list is a node")] = Node::Stack(stack);
        Ok(stack)
    }

    fn drain_frame(&mut self, items: &[Value], at: u64) -> Result<Node, ErrorKind> {
        let new_row = next_row(self.frames.len(), "the number of frames")?;
        let empty = self.strings.intern("");
        let mut frame = Frame { name: empty, filename: empty, line: 0 };
        let mut others = Vec::new();
        for (key, value) in pairs(items) {
            match key.as_text() {
                Some(keys::NAME) => frame.name = value.as_text().unwrap_or(empty),
                Some(keys::FILENAME) => frame.filename = value.as_text().unwrap_or(empty),
                Some(keys::LINE) => frame.line = self.u64_of(value).unwrap_or(0),
                Some(name) => {
                    if !keys::FX.contains(&name) {
                        self.unknown_key("a frame", key, at);
                    }
                    room::push(&mut others, (name, value))?;
                }
                None => self.unknown_key("a frame", key, at),
            }
        }
        self.frames.make_room()?;
        let frame = self.frames.intern(frame);
        if frame.get() == new_row {
            for (key, value) in others {
                let text = self.text_of(value, at)?;
                room::push(&mut self.frames.extras, (new_row, (key, text)))?;
            }
        }
        Ok(Node::Frame(frame))
    }

    // ---- annotations

    fn drain_annotation(&mut self, items: &[Value], at: u64) -> Result<Node, ErrorKind> {
        let row = next_row(self.annotations.len(), "the number of annotations")?;
        let empty = self.strings.intern("");
        let mut annotation = Annotation { stage: Stage::Other(empty), name: empty, device: -1, time_us: None };
        for (key, value) in pairs(items) {
            match key.as_text() {
                Some(keys::STAGE) => {
                    annotation.stage = match value.as_text() {
                        Some(keys::START) => Stage::Start,
                        Some(keys::END) => Stage::End,
                        other => Stage::Other(other.unwrap_or(empty)),
                    };
                }
                Some(keys::NAME) => annotation.name = value.as_text().unwrap_or(empty),
                Some(keys::DEVICE) => annotation.device = self.device_of(value),
                Some(keys::TIME_US) => annotation.time_us = self.time_of(value, at),
                _ => self.unknown_key("an annotation", key, at),
            }
        }
        room::push(&mut self.annotations, annotation)?;
        Ok(Node::Annotation(row))
    }

    // ---- shared by the kinds of rows

    pub(crate) fn device_of(&self, value: Value) -> i32 {
        self.integer_of(value).and_then(|number| i32::try_from(number).ok()).unwrap_or(-1)
    }

    /// Microseconds; a float is cut to whole ones, NaN is none.
    #[inline]
    pub(crate) fn time_of(&mut self, value: Value, at: u64) -> Option<i64> {
        if let Some(time) = value.as_int() {
            return Some(time);
        }
        let time = self.integer_of(value).and_then(|time| i64::try_from(time).ok());
        if time.is_none() && value != Value::NONE {
            self.warnings.add("bad-time", "`time_us` is not a time; the entry is kept without one", Place::byte(at));
        }
        time
    }

    /// A number of bytes, 0 to 2^50.
    #[inline]
    pub(crate) fn bytes_of(&mut self, value: Value, key: &str, at: u64) -> u64 {
        /// A pebibyte: no device has that much.
        const MAX_SIZE_BYTES: i128 = 1 << 50;
        match value.as_int().map(i128::from).or_else(|| self.integer_of(value)) {
            #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "within 0 to 2^50")]
            Some(number) if (0..=MAX_SIZE_BYTES).contains(&number) => self.within_sum(number as u64, at),
            Some(number) => {
                let message = format!("`{key}` is {number}, expected 0 to 2^50; it counts as 0");
                self.warnings.add("bad-size", message, Place::byte(at));
                0
            }
            None => {
                let message = format!("`{key}` is not a number; it counts as 0");
                self.warnings.add("bad-size", message, Place::byte(at));
                0
            }
        }
    }

    /// The size, as long as all sizes together stay within what sums can hold.
    #[inline]
    fn within_sum(&mut self, bytes: u64, at: u64) -> u64 {
        let sum_bytes = self.sizes_sum_bytes + bytes;
        if sum_bytes > MAX_SIZES_SUM_BYTES {
            let message = "the sizes in this file add up to more than 2^60 bytes; those beyond count as 0";
            self.warnings.add("sum-of-sizes", message, Place::byte(at));
            return 0;
        }
        self.sizes_sum_bytes = sum_bytes;
        bytes
    }

    #[inline]
    pub(crate) fn stream_of(&mut self, value: Value) -> Result<StreamId, ErrorKind> {
        let handle = self.u64_of(value).unwrap_or(0);
        self.streams.intern(handle).map(StreamId::new)
    }

    #[inline]
    pub(crate) fn pool_of(&mut self, value: Value) -> Result<PoolId, ErrorKind> {
        Ok(match self.node_of(value) {
            Some(Node::Pool(pool)) => pool,
            Some(Node::List(index)) => match self.lists[index as usize][..] {
                [a, b] => match (self.u64_of(a), self.u64_of(b)) {
                    (Some(a), Some(b)) => PoolId::new(self.pools.intern((a, b))?),
                    _ => PoolId::MISSING,
                },
                _ => PoolId::MISSING,
            },
            _ => PoolId::MISSING,
        })
    }

    #[cold]
    pub(crate) fn unknown_key(&mut self, of: &str, key: Value, at: u64) {
        let message = format!("unknown key `{}` in {of}", self.key_name(key));
        self.warnings.add("unknown-key", message, Place::byte(at));
    }

    /// A key for a message: short, whatever it is.
    pub(crate) fn key_name(&self, key: Value) -> String {
        key.as_text().map_or("?", |id| self.strings.get(id)).chars().take(40).collect()
    }

    /// Whether `count` more rows may be copied, at this point of the input: each copy costs the input a reference of
    /// two bytes or more, so this bounds memory by a small multiple of it.
    pub(crate) fn may_copy(&mut self, count: u64, at: u64) -> bool {
        self.copied_rows = self.copied_rows.saturating_add(count);
        let allowed = self.copied_rows <= 1024 + at / 4;
        if !allowed {
            self.warnings.add(
                "repeated-rows",
                "the same rows are listed over and over; the repetitions are ignored",
                Place::byte(at),
            );
        }
        allowed
    }
}

const _: () = assert!(MAX_TEXT_BYTES < u32::MAX as u64);

/// The number of the next row of a table with `len` rows.
#[inline]
pub(crate) fn next_row(len: usize, what: &'static str) -> Result<u32, ErrorKind> {
    match u32::try_from(len) {
        Ok(row) if len < MAX_ROWS => Ok(row),
        _ => Err(ErrorKind::Limit { what, limit: MAX_ROWS as u64 }),
    }
}

/// Keys with their values.
#[inline]
pub(crate) fn pairs(items: &[Value]) -> impl ExactSizeIterator<Item = (Value, Value)> + '_ {
    items.chunks_exact(2).map(|pair| (pair[0], pair[1]))
}

fn has(items: &[Value], key: crate::StringId) -> bool {
    pairs(items).any(|(k, _)| k.as_text() == Some(key))
}

/// Distinct values, numbered in order of appearance; the last one is remembered, for it often comes again.
pub(crate) struct Interner<T> {
    pub(crate) rows: Vec<T>,
    index: HashMap<T, u32>,
    last: Option<(T, u32)>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: HashMap::default(), last: None }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Interner<T> {
    #[inline]
    pub(crate) fn intern(&mut self, value: T) -> Result<u32, ErrorKind> {
        match self.last {
            Some((last, row)) if last == value => Ok(row),
            _ => self.look_up(value),
        }
    }

    fn look_up(&mut self, value: T) -> Result<u32, ErrorKind> {
        room::make(&mut self.rows, 1)?;
        self.index.try_reserve(1).map_err(|_| ErrorKind::OutOfMemory)?;
        let rows = &mut self.rows;
        let row = *self.index.entry(value).or_insert_with(|| {
            rows.push(value);
            u32::try_from(rows.len() - 1).expect("each value took two bytes of input or more")
        });
        self.last = Some((value, row));
        Ok(row)
    }
}
