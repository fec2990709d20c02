//! Writing down a run, in the formats of the oracle to the byte.

use std::fmt::Write;

use super::run::{Event, Run};
use crate::block_map::BlockState;
use crate::stats::Stat;
use crate::trace::Action;

impl Run {
    /// The trace: `op,action,addr,bytes,stream,pool`.
    pub fn events_csv(&self) -> String {
        let mut text = String::from("op,action,addr,bytes,stream,pool\n");
        for &Event { op, action, address, bytes, stream, pool } in &self.events {
            let action = action.map_or("rejected", Action::name);
            line(&mut text, format_args!("{op},{action},{address},{bytes},{stream},{pool}"));
        }
        text
    }

    /// The block maps: `op,seg_addr,seg_bytes,stream,pool,large,expandable,addr,bytes,requested,state,gc_counter`.
    pub fn blocks_csv(&self) -> String {
        let mut text =
            String::from("op,seg_addr,seg_bytes,stream,pool,large,expandable,addr,bytes,requested,state,gc_counter\n");
        for (op, segments) in &self.block_maps {
            for segment in segments {
                for block in &segment.blocks {
                    let state = match block.state {
                        BlockState::Allocated => "allocated",
                        BlockState::AwaitingFree => "pending",
                        BlockState::Inactive => "inactive",
                    };
                    line(
                        &mut text,
                        format_args!(
                            "{op},{},{},{},{},{},{},{},{},{},{state},0",
                            segment.address,
                            segment.total_bytes,
                            segment.stream,
                            segment.pool,
                            u8::from(segment.is_large),
                            u8::from(segment.is_expandable),
                            block.address,
                            block.size_bytes,
                            block.requested_bytes,
                        ),
                    );
                }
            }
        }
        text
    }

    /// The statistics: `name,kind,current,peak,allocated,freed`.
    pub fn stats_csv(&self) -> String {
        let mut text = String::from("name,kind,current,peak,allocated,freed\n");
        let stats = &self.statistics;
        for (name, metric) in stats.metrics() {
            let kinds =
                [("all", metric.all()), ("small_pool", metric.small_pool()), ("large_pool", metric.large_pool())];
            for (kind, Stat { current, peak, allocated, freed }) in kinds {
                line(&mut text, format_args!("{name},{kind},{current},{peak},{allocated},{freed}"));
            }
        }
        let oversize =
            [("oversize_allocations", stats.oversize_allocations()), ("oversize_segments", stats.oversize_segments())];
        for (name, Stat { current, peak, allocated, freed }) in oversize {
            line(&mut text, format_args!("{name},all,{current},{peak},{allocated},{freed}"));
        }
        let counts = [
            ("num_alloc_retries", stats.num_alloc_retries.cast_signed()),
            ("num_ooms", stats.num_ooms.cast_signed()),
            ("num_sync_all_streams", stats.num_sync_all_streams.cast_signed()),
            ("num_device_alloc", stats.num_device_alloc.cast_signed()),
            ("num_device_free", stats.num_device_free.cast_signed()),
            ("max_split_size", self.max_split_size),
            ("errors", 0),
        ];
        for (name, count) in counts {
            line(&mut text, format_args!("{name},all,{count},,,"));
        }
        text
    }
}

fn line(text: &mut String, row: std::fmt::Arguments<'_>) {
    writeln!(text, "{row}").expect("a string takes all");
}
