//! A snapshot written again, with PyTorch's keys in PyTorch's order: as a pickle that PyTorch's own viewer opens, or
//! as JSON.
//!
//! What the reader normalised stays normalised: old layouts come out as current ones, sums of segments are summed anew,
//! and a value of an unknown key comes out as text.

mod json;
mod pickle;

use std::io::{self, Write};

use crate::entries::EntryTable;
use crate::settings::Setting;
use crate::snapshot::Snapshot;
use crate::{Action, BlockState, EntryId, FrameId, PoolId, Segment, StackId, Stage, StringId};

impl Snapshot {
    /// Writes the snapshot as a pickle of protocol 4.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_pickle(&self, out: impl Write) -> io::Result<()> {
        let mut emit = pickle::PickleEmitter::new(out);
        self.emit(&mut emit)?;
        emit.finish()
    }

    /// Writes the snapshot as JSON with the same keys. Shared stacks are written in full each time.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, out: impl Write) -> io::Result<()> {
        let mut emit = json::JsonEmitter::new(out);
        self.emit(&mut emit)?;
        emit.finish()
    }
}

/// What a format must be able to say.
trait Emitter {
    fn begin_dict(&mut self) -> io::Result<()>;
    fn end_dict(&mut self) -> io::Result<()>;
    fn begin_list(&mut self) -> io::Result<()>;
    fn end_list(&mut self) -> io::Result<()>;
    /// Comes before each value of a dict.
    fn key(&mut self, key: &str) -> io::Result<()>;
    /// Comes before each item of a list.
    fn item(&mut self) -> io::Result<()>;
    fn text(&mut self, text: &str) -> io::Result<()>;
    fn int(&mut self, number: i128) -> io::Result<()>;
    fn float(&mut self, number: f64) -> io::Result<()>;
    fn bool(&mut self, flag: bool) -> io::Result<()>;
    fn pair(&mut self, pair: (u64, u64)) -> io::Result<()>;
    /// Refers to a stack that was written before, if the format can; else the caller writes it.
    fn recall_stack(&mut self, stack: StackId) -> io::Result<bool>;
    /// The list that was just begun is this stack.
    fn remember_stack(&mut self, stack: StackId);
    /// As for stacks.
    fn recall_frame(&mut self, frame: FrameId) -> io::Result<bool>;
    fn remember_frame(&mut self, frame: FrameId);
}

impl Snapshot {
    fn emit(&self, out: &mut impl Emitter) -> io::Result<()> {
        out.begin_dict()?;
        out.key("segments")?;
        self.emit_segments(&self.segments, out)?;
        out.key("device_traces")?;
        out.begin_list()?;
        for trace in &self.traces {
            out.item()?;
            self.emit_trace(trace, out)?;
        }
        out.end_list()?;
        out.key("allocator_settings")?;
        emit_table(&self.settings.entries, out)?;
        out.key("external_annotations")?;
        self.emit_annotations(out)?;
        if let Some(host) = &self.host {
            out.key("host_segments")?;
            self.emit_segments(&host.segments, out)?;
            out.key("host_traces")?;
            self.emit_trace(&host.trace, out)?;
        }
        for (key, value) in &self.extras {
            out.key(key)?;
            out.text(value)?;
        }
        out.end_dict()
    }

    fn emit_segments(&self, segments: &[Segment], out: &mut impl Emitter) -> io::Result<()> {
        out.begin_list()?;
        for segment in segments {
            out.item()?;
            self.emit_segment(segment, out)?;
        }
        out.end_list()
    }

    fn emit_segment(&self, segment: &Segment, out: &mut impl Emitter) -> io::Result<()> {
        let blocks = self.blocks_of(segment);
        let sum = |bytes: &dyn Fn(&crate::Block) -> u64| -> i128 { blocks.iter().map(|b| i128::from(bytes(b))).sum() };
        let allocated = sum(&|b| if b.state == BlockState::ActiveAllocated { b.size_bytes } else { 0 });
        let active = sum(&|b| if b.state.is_active() { b.size_bytes } else { 0 });
        let requested = sum(&|b| if b.state.is_active() { b.requested_bytes } else { 0 });
        out.begin_dict()?;
        for (key, number) in [
            ("device", i128::from(segment.device)),
            ("address", i128::from(segment.address)),
            ("total_size", i128::from(segment.total_bytes)),
            ("allocated_size", allocated),
            ("active_size", active),
            ("requested_size", requested),
            ("stream", i128::from(self.stream_handle(segment.stream))),
        ] {
            out.key(key)?;
            out.int(number)?;
        }
        out.key("segment_type")?;
        out.text(segment.segment_type.name())?;
        out.key("segment_pool_id")?;
        out.pair(self.pool_id(segment.pool))?;
        out.key("is_expandable")?;
        out.bool(segment.is_expandable)?;
        out.key("frames")?;
        self.emit_stack(segment.stack, out)?;
        out.key("blocks")?;
        out.begin_list()?;
        for block in blocks {
            out.item()?;
            out.begin_dict()?;
            for (key, bytes) in
                [("address", block.address), ("size", block.size_bytes), ("requested_size", block.requested_bytes)]
            {
                out.key(key)?;
                out.int(i128::from(bytes))?;
            }
            out.key("state")?;
            out.text(block.state.name())?;
            out.key("frames")?;
            self.emit_stack(block.stack, out)?;
            out.end_dict()?;
        }
        out.end_list()?;
        out.end_dict()
    }

    fn emit_trace(&self, trace: &EntryTable, out: &mut impl Emitter) -> io::Result<()> {
        out.begin_list()?;
        for id in trace.ids() {
            out.item()?;
            self.emit_entry(trace, id, out)?;
        }
        out.end_list()
    }

    fn emit_entry(&self, trace: &EntryTable, id: EntryId, out: &mut impl Emitter) -> io::Result<()> {
        let entry = trace.get(id);
        out.begin_dict()?;
        out.key("action")?;
        out.text(self.action_name(entry.action))?;
        let free = trace.device_free_bytes(id);
        if let Some(free) = free {
            out.key("device_free")?;
            out.int(i128::from(free))?;
        }
        // PyTorch gives an `oom` entry no address.
        if entry.address != 0 || (free.is_none() && entry.action != Action::OOM) {
            out.key("addr")?;
            out.int(i128::from(entry.address))?;
        }
        out.key("size")?;
        out.int(i128::from(entry.size_bytes))?;
        out.key("stream")?;
        out.int(i128::from(self.stream_handle(entry.stream)))?;
        if let Some(time) = entry.time_us {
            out.key("time_us")?;
            out.int(i128::from(time))?;
        }
        for (key, text) in [
            ("compile_context", entry.compile_context),
            ("user_metadata", entry.user_metadata),
            ("category", entry.category),
        ] {
            self.emit_text(key, text, out)?;
        }
        if entry.pool != PoolId::MISSING {
            out.key("pool_id")?;
            out.pair(self.pool_id(entry.pool))?;
        }
        for (key, value) in trace.extras(id) {
            self.emit_text(self.text(key), value, out)?;
        }
        if entry.stack.is_recorded() {
            out.key("frames")?;
            self.emit_stack(entry.stack, out)?;
        }
        if let Some(stack) = trace.forward_stack(id) {
            out.key("forward_frames")?;
            out.begin_list()?;
            for frame in self.stack(stack) {
                out.item()?;
                out.text(self.text(frame.name))?;
            }
            out.end_list()?;
        }
        out.end_dict()
    }

    fn emit_text(&self, key: &str, text: StringId, out: &mut impl Emitter) -> io::Result<()> {
        if text != StringId::MISSING {
            out.key(key)?;
            out.text(self.text(text))?;
        }
        Ok(())
    }

    fn emit_stack(&self, stack: StackId, out: &mut impl Emitter) -> io::Result<()> {
        if out.recall_stack(stack)? {
            return Ok(());
        }
        out.begin_list()?;
        out.remember_stack(stack);
        for &id in self.stacks.get(stack) {
            out.item()?;
            if out.recall_frame(id)? {
                continue;
            }
            let frame = self.frames.get(id);
            out.begin_dict()?;
            out.remember_frame(id);
            out.key("name")?;
            out.text(self.text(frame.name))?;
            out.key("filename")?;
            out.text(self.text(frame.filename))?;
            out.key("line")?;
            out.int(i128::from(frame.line))?;
            for (key, value) in self.frames.extras(id) {
                self.emit_text(self.text(key), value, out)?;
            }
            out.end_dict()?;
        }
        out.end_list()
    }

    fn emit_annotations(&self, out: &mut impl Emitter) -> io::Result<()> {
        out.begin_list()?;
        for annotation in &self.annotations {
            out.item()?;
            out.begin_dict()?;
            out.key("stage")?;
            out.text(match annotation.stage {
                Stage::Start => "START",
                Stage::End => "END",
                Stage::Other(name) => self.text(name),
            })?;
            self.emit_text("name", annotation.name, out)?;
            out.key("device")?;
            out.int(i128::from(annotation.device))?;
            if let Some(time) = annotation.time_us {
                out.key("time_us")?;
                out.int(i128::from(time))?;
            }
            out.end_dict()?;
        }
        out.end_list()
    }
}

fn emit_table(table: &[(String, Setting)], out: &mut impl Emitter) -> io::Result<()> {
    out.begin_dict()?;
    for (key, value) in table {
        out.key(key)?;
        match value {
            Setting::Bool(flag) => out.bool(*flag)?,
            Setting::Int(number) => out.int(i128::from(*number))?,
            Setting::Float(number) => out.float(*number)?,
            Setting::Text(text) => out.text(text)?,
            Setting::Table(inner) => emit_table(inner, out)?,
        }
    }
    out.end_dict()
}
