//! Dicts with `total_size` or `state`: segments and blocks, in every layout since torch 1.4.

use super::keys;
use super::store::{Node, Store, next_row, pairs};
use crate::error::ErrorKind;
use crate::pickle::value::Value;
use crate::room;
use crate::warnings::Place;
use crate::{Block, BlockState, PoolId, Segment, SegmentType, StackId, StreamId};

/// A block whose file has no address (before torch 2.1): it follows the one before it.
const NO_ADDRESS: u64 = u64::MAX;

/// What a segment says of its blocks; nothing where it does not say.
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "the unit")]
struct OwnSums {
    allocated_bytes: Option<u64>,
    active_bytes: Option<u64>,
    requested_bytes: Option<u64>,
}

impl Store {
    pub(super) fn drain_block(&mut self, items: &[Value], at: u64) -> Result<Node, ErrorKind> {
        let row = next_row(self.blocks.len(), "the number of blocks")?;
        let mut block = Block {
            address: NO_ADDRESS,
            size_bytes: 0,
            requested_bytes: 0,
            state: BlockState::Inactive,
            stack: StackId::EMPTY,
        };
        let mut history = None;
        let mut has_state = false;
        for (key, value) in pairs(items) {
            match key.as_text() {
                Some(keys::ADDRESS) => block.address = self.u64_of(value).unwrap_or(NO_ADDRESS),
                Some(keys::SIZE) => block.size_bytes = self.bytes_of(value, "size", at),
                Some(keys::REQUESTED_SIZE) => block.requested_bytes = self.bytes_of(value, "requested_size", at),
                Some(keys::STATE) => {
                    has_state = true;
                    block.state = self.state_of(value, at);
                }
                Some(keys::FRAMES) => block.stack = self.stack_of(value, at)?,
                Some(keys::HISTORY) => history = Some(value),
                // Of a backward operation under anomaly mode; the `alloc` entry has it, too.
                Some(keys::FORWARD_FRAMES) => {}
                _ => self.unknown_key("a block", key, at),
            }
        }
        if block.state.is_active() {
            if let Some(history) = history {
                self.apply_history(&mut block, history, at)?;
            }
            if block.requested_bytes == 0 {
                // Before torch 1.13 nothing says what was asked for.
                block.requested_bytes = block.size_bytes;
            }
        }
        if !has_state {
            let message = "a block has no `state`; it counts as inactive";
            self.warnings.add("no-state", message, Place::byte(at));
        }
        room::push(&mut self.blocks, block)?;
        Ok(Node::Block(row))
    }

    fn state_of(&mut self, value: Value, at: u64) -> BlockState {
        match value.as_text() {
            Some(keys::ACTIVE_ALLOCATED) => BlockState::ActiveAllocated,
            Some(keys::ACTIVE_PENDING_FREE | keys::ACTIVE_AWAITING_FREE) => BlockState::ActiveAwaitingFree,
            Some(keys::INACTIVE) => BlockState::Inactive,
            other => {
                let name: String = other.map_or("", |id| self.strings.get(id)).chars().take(40).collect();
                let message = format!("a block has the unknown state `{name}`; it counts as inactive");
                self.warnings.add("unknown-state", message, Place::byte(at));
                BlockState::Inactive
            }
        }
    }

    /// torch 1.13 and 2.0: the newest item of `history` is the owner.
    fn apply_history(&mut self, block: &mut Block, history: Value, at: u64) -> Result<(), ErrorKind> {
        let newest = match self.node_of(history) {
            Some(Node::List(index)) => self.lists[index as usize].first().copied(),
            _ => None,
        };
        let Some(Node::Map(owner)) = newest.and_then(|value| self.node_of(value)) else { return Ok(()) };
        for pair in 0..self.maps[owner as usize].len() {
            let (key, value) = self.maps[owner as usize][pair];
            match key.as_text() {
                Some(keys::REAL_SIZE) if block.requested_bytes == 0 => {
                    block.requested_bytes = self.bytes_of(value, "real_size", at);
                }
                Some(keys::FRAMES) => block.stack = self.stack_of(value, at)?,
                Some(keys::CPP_FRAMES) if block.stack == StackId::EMPTY => block.stack = self.stack_of(value, at)?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn drain_segment(&mut self, items: &[Value], at: u64) -> Result<Node, ErrorKind> {
        let row = next_row(self.segments.len(), "the number of segments")?;
        let mut segment = Segment {
            device: 0,
            address: 0,
            total_bytes: 0,
            stream: StreamId::DEFAULT,
            segment_type: SegmentType::Unknown,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::EMPTY,
            blocks: 0..0,
        };
        let mut blocks = None;
        let mut own = OwnSums::default();
        for (key, value) in pairs(items) {
            match key.as_text() {
                Some(keys::DEVICE) => segment.device = self.device_of_segment(value, row, at)?,
                Some(keys::ADDRESS) => segment.address = self.u64_of(value).unwrap_or(0),
                Some(keys::TOTAL_SIZE) => segment.total_bytes = self.bytes_of(value, "total_size", at),
                Some(keys::STREAM) => segment.stream = self.stream_of(value)?,
                Some(keys::SEGMENT_TYPE) => {
                    segment.segment_type = match value.as_text() {
                        Some(keys::SMALL) => SegmentType::Small,
                        Some(keys::LARGE) => SegmentType::Large,
                        _ => SegmentType::Unknown,
                    };
                }
                Some(keys::SEGMENT_POOL_ID) => {
                    let pool = self.pool_of(value)?;
                    segment.pool = if pool == PoolId::MISSING { PoolId::DEFAULT } else { pool };
                }
                Some(keys::IS_EXPANDABLE) => segment.is_expandable = value == Value::bool(true),
                Some(keys::FRAMES) => segment.stack = self.stack_of(value, at)?,
                Some(keys::BLOCKS) => blocks = Some(value),
                Some(keys::ALLOCATED_SIZE) => own.allocated_bytes = self.u64_of(value),
                Some(keys::ACTIVE_SIZE) => own.active_bytes = self.u64_of(value),
                // Writers that do not know it give 0.
                Some(keys::REQUESTED_SIZE) => own.requested_bytes = self.u64_of(value).filter(|&bytes| bytes > 0),
                Some(keys::FORWARD_FRAMES) => {}
                _ => self.unknown_key("a segment", key, at),
            }
        }
        if let Some(blocks) = blocks {
            segment.blocks = self.take_blocks(blocks, at)?;
        }
        if segment.blocks.is_empty() && segment.total_bytes > 0 {
            let message = "a segment has no blocks; all of it counts as free";
            self.warnings.add("no-blocks", message, Place::byte(at));
        }
        self.compare_sums(&segment, &own, at);
        self.lay_out(&mut segment, at);
        room::push(&mut self.segments, segment)?;
        Ok(Node::Segment(row))
    }

    /// The rows of a segment's blocks; they belong to it from now on.
    fn take_blocks(&mut self, value: Value, at: u64) -> Result<std::ops::Range<u32>, ErrorKind> {
        let taken = match self.node_of(value) {
            Some(Node::Blocks(run)) => run.rows(),
            Some(Node::List(index)) => self.gather_blocks(index as usize, at)?,
            Some(Node::Taken) => {
                let message = "two segments share one list of blocks; the second gets none";
                self.warnings.add("shared-blocks", message, Place::byte(at));
                0..0
            }
            _ => 0..0,
        };
        if let Some(node) = value.as_node()
            && !taken.is_empty()
        {
            self.nodes[node] = Node::Taken;
        }
        Ok(taken)
    }

    /// Blocks that are not consecutive rows, copied to the end so that they are.
    fn gather_blocks(&mut self, list: usize, at: u64) -> Result<std::ops::Range<u32>, ErrorKind> {
        let items = std::mem::take(&mut self.lists[list]);
        let start = self.blocks.len();
        if self.may_copy(items.len() as u64, at) {
            for item in items {
                match self.node_of(item) {
                    Some(Node::Block(row)) => {
                        let block = self.blocks[row as usize];
                        room::push(&mut self.blocks, block)?;
                    }
                    _ => self.skip_item("blocks"),
                }
            }
        }
        let row = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Ok(row(start)..row(self.blocks.len()))
    }

    /// The device of a segment: its number, also of the text `cuda:1`. What else stands there is kept for a warning.
    fn device_of_segment(&mut self, value: Value, row: u32, at: u64) -> Result<i32, ErrorKind> {
        let number = match value.as_text() {
            Some(text) => match self.strings.get(text).strip_prefix("cuda") {
                Some("") => Some(0),
                Some(rest) => rest.strip_prefix(':').and_then(|number| number.parse().ok()),
                None => None,
            },
            None => self.integer_of(value).and_then(|number| i32::try_from(number).ok()),
        };
        match number {
            Some(number) => Ok(number),
            None => {
                let text = self.text_of(value, at)?;
                room::push(&mut self.odd_devices, (row, text))?;
                Ok(-1)
            }
        }
    }

    /// Notes a segment whose own sums are not those of its blocks.
    fn compare_sums(&mut self, segment: &Segment, own: &OwnSums, at: u64) {
        let mut sums = [
            ("allocated", own.allocated_bytes, 0_u64),
            ("active", own.active_bytes, 0),
            ("requested", own.requested_bytes, 0),
        ];
        for block in &self.blocks[segment.block_rows()] {
            let is_allocated = block.state == BlockState::ActiveAllocated;
            let of_block = [
                (is_allocated, block.size_bytes),
                (block.state.is_active(), block.size_bytes),
                (block.state.is_active(), block.requested_bytes),
            ];
            for (sum, (counts, bytes)) in sums.iter_mut().zip(of_block) {
                sum.2 = sum.2.saturating_add(if counts { bytes } else { 0 });
            }
        }
        let differs = sums.iter().find(|(_, own, of_blocks)| own.is_some_and(|own| own != *of_blocks));
        let Some(&(word, Some(own), of_blocks)) = differs else { return };
        let first = || {
            let message =
                format!("a segment reports {own} bytes as {word}, and its blocks {of_blocks}; the blocks count");
            (message, Place::byte(at), 0)
        };
        self.odd_sums.get_or_insert_with(first).2 += 1;
    }

    /// Gives every block its address, and checks that they tile the segment.
    fn lay_out(&mut self, segment: &mut Segment, at: u64) {
        let mut next = segment.address;
        let mut tiled = true;
        for block in &mut self.blocks[segment.block_rows()] {
            if block.address == NO_ADDRESS {
                block.address = next;
            }
            tiled &= block.address == next;
            next = block.address.saturating_add(block.size_bytes);
        }
        if !segment.blocks.is_empty() && (!tiled || next != segment.end()) {
            self.warnings.add(
                "untiled-segment",
                "the blocks of a segment do not cover it exactly; its totals are those of its blocks",
                Place::byte(at),
            );
            segment.total_bytes = segment
                .total_bytes
                .max(self.blocks[segment.block_rows()].iter().fold(0, |sum: u64, b| sum.saturating_add(b.size_bytes)));
        }
    }
}
