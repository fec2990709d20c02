//! Dicts with `total_size` or `state`: segments and blocks, in every layout since torch 1.4.

use super::keys;
use super::store::{Node, Store, next_row, pairs};
use crate::error::ErrorKind;
use crate::pickle::value::Value;
use crate::warnings::Place;
use crate::{Block, BlockState, PoolId, Segment, SegmentType, StackId, StreamId};

/// A block whose file has no address (before torch 2.1): it follows the one before it.
const NO_ADDRESS: u64 = u64::MAX;

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
        for (key, value) in pairs(items) {
            match key.as_text() {
                Some(keys::ADDRESS) => block.address = self.u64_of(value).unwrap_or(NO_ADDRESS),
                Some(keys::SIZE) => block.size_bytes = self.bytes_of(value, "size", at),
                Some(keys::REQUESTED_SIZE) => block.requested_bytes = self.bytes_of(value, "requested_size", at),
                Some(keys::STATE) => block.state = self.state_of(value, at),
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
        self.blocks.push(block);
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
        for (key, value) in pairs(items) {
            match key.as_text() {
                Some(keys::DEVICE) => segment.device = self.device_of(value),
                Some(keys::ADDRESS) => segment.address = self.u64_of(value).unwrap_or(0),
                Some(keys::TOTAL_SIZE) => segment.total_bytes = self.bytes_of(value, "total_size", at),
                Some(keys::STREAM) => segment.stream = self.stream_of(value),
                Some(keys::SEGMENT_TYPE) => {
                    segment.segment_type = match value.as_text() {
                        Some(keys::SMALL) => SegmentType::Small,
                        Some(keys::LARGE) => SegmentType::Large,
                        _ => SegmentType::Unknown,
                    };
                }
                Some(keys::SEGMENT_POOL_ID) => {
                    let pool = self.pool_of(value);
                    segment.pool = if pool == PoolId::MISSING { PoolId::DEFAULT } else { pool };
                }
                Some(keys::IS_EXPANDABLE) => segment.is_expandable = value == Value::bool(true),
                Some(keys::FRAMES) => segment.stack = self.stack_of(value, at)?,
                Some(keys::BLOCKS) => blocks = Some(value),
                // Sums over the blocks: they are summed anew.
                Some(keys::ALLOCATED_SIZE | keys::ACTIVE_SIZE | keys::REQUESTED_SIZE | keys::FORWARD_FRAMES) => {}
                _ => self.unknown_key("a segment", key, at),
            }
        }
        if let Some(blocks) = blocks {
            segment.blocks = self.take_blocks(blocks, at);
        }
        self.lay_out(&mut segment, at);
        self.segments.push(segment);
        Ok(Node::Segment(row))
    }

    /// The rows of a segment's blocks; they belong to it from now on.
    fn take_blocks(&mut self, value: Value, at: u64) -> std::ops::Range<u32> {
        let taken = match self.node_of(value) {
            Some(Node::Blocks(run)) => run.rows(),
            Some(Node::List(index)) => self.gather_blocks(index as usize, at),
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
        taken
    }

    /// Blocks that are not consecutive rows, copied to the end so that they are.
    fn gather_blocks(&mut self, list: usize, at: u64) -> std::ops::Range<u32> {
        let items = std::mem::take(&mut self.lists[list]);
        let start = self.blocks.len();
        if self.may_copy(items.len() as u64, at) {
            for item in items {
                if let Some(Node::Block(row)) = self.node_of(item) {
                    self.blocks.push(self.blocks[row as usize]);
                }
            }
        }
        let row = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        row(start)..row(self.blocks.len())
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
                "the blocks of a segment do not tile it; its totals are those of its blocks",
                Place::byte(at),
            );
            segment.total_bytes = segment
                .total_bytes
                .max(self.blocks[segment.block_rows()].iter().fold(0, |sum: u64, b| sum.saturating_add(b.size_bytes)));
        }
    }
}
