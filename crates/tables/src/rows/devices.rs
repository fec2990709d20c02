use std::io;

use highwater_documents::CategoriesView;

use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// A device of a snapshot: its totals, as `highwater report` shows them. Devices are never summed.
    "devices" => Device<'a>, by fill {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// Number of trace entries.
        entries: usize,
        /// Whether a history was recorded; without one, only the state at the dump is known.
        has_history: bool,
        /// Whether nothing was allocated before the first entry.
        is_from_start: bool,
        /// Whether entries were lost.
        is_truncated: bool,
        /// Why the trace does not hold the whole run; null if it does.
        recorded_cause: Option<&'a str>,
        /// How exactly sizes of blocks are known: `exact`, `bounds` or `estimate`. Allocated and active bytes depend
        /// on them.
        block_sizes: &'a str,
        /// Requested bytes before the first entry.
        start_requested_bytes: u64,
        /// Allocated bytes before the first entry.
        start_allocated_bytes: u64,
        /// Reserved bytes before the first entry.
        start_reserved_bytes: u64,
        /// Requested bytes at the dump.
        end_requested_bytes: u64,
        /// Allocated bytes at the dump.
        end_allocated_bytes: u64,
        /// Active bytes at the dump.
        end_active_bytes: u64,
        /// Reserved bytes at the dump.
        end_reserved_bytes: u64,
        /// The highest requested bytes.
        peak_requested_bytes: u64,
        /// The highest allocated bytes; the lower bound if `block_sizes` is `bounds`.
        peak_allocated_bytes: u64,
        /// Their upper bound.
        peak_allocated_bytes_at_most: u64,
        /// The highest active bytes; the lower bound, likewise.
        peak_active_bytes: u64,
        /// Their upper bound.
        peak_active_bytes_at_most: u64,
        /// The highest reserved bytes.
        peak_reserved_bytes: u64,
        /// The entry after which requested bytes are highest; null if that is before the first.
        peak_requested_entry: Option<u32>,
        /// The entry after which allocated bytes are highest.
        peak_allocated_entry: Option<u32>,
        /// The entry after which active bytes are highest.
        peak_active_entry: Option<u32>,
        /// The entry after which reserved bytes are highest.
        peak_reserved_entry: Option<u32>,
        /// The total whose peak the columns `at_peak_…` describe: `allocated_bytes`, or `requested_bytes` where sizes are estimates.
        at_peak_by: &'a str,
        /// The entry of that peak.
        at_peak_entry: Option<u32>,
        /// The time of that peak.
        at_peak_time_us: Option<i64>,
        /// Requested bytes at that peak.
        at_peak_requested_bytes: u64,
        /// Allocated bytes at that peak.
        at_peak_allocated_bytes: u64,
        /// Active bytes at that peak.
        at_peak_active_bytes: u64,
        /// Reserved bytes at that peak.
        at_peak_reserved_bytes: u64,
        /// Weights and buffers of the model at that peak, of the total named by `at_peak_by`; so of the categories that follow.
        at_peak_parameter_bytes: u64,
        /// Gradients.
        at_peak_gradient_bytes: u64,
        /// State that the optimizer keeps.
        at_peak_optimizer_state_bytes: u64,
        /// Kept for the backward pass.
        at_peak_activation_bytes: u64,
        /// Kept from one call of the model to the next.
        at_peak_cache_bytes: u64,
        /// Data that the program feeds in.
        at_peak_input_bytes: u64,
        /// Short-lived memory.
        at_peak_temporary_bytes: u64,
        /// Memory that libraries keep.
        at_peak_workspace_bytes: u64,
        /// Unknown.
        at_peak_unknown_bytes: u64,
        /// Reserved and in no active block at the dump.
        free_bytes: u64,
        /// Of the reserved bytes at the dump, the share that is free; null if nothing is reserved.
        free_share: Option<f64>,
        /// Free bytes in segments with nothing active: `empty_cache()` releases them.
        releasable_bytes: u64,
        /// Free bytes in segments that are partly in use, expandable ones not counted: PyTorch's own measure.
        inactive_split_bytes: u64,
        /// The largest free block at the dump.
        largest_free_block_bytes: u64,
        /// Of the free bytes, the share outside the largest free block; null if nothing is free.
        scattered_share: Option<f64>,
        /// Active bytes beyond the requested ones at the dump.
        rounding_bytes: u64,
        /// Number of requests that failed.
        out_of_memory_events: usize,
        /// Number of iterations.
        iterations: usize,
        /// How iterations were found.
        iterations_by: &'a str,
        /// Number of findings.
        findings: usize,
    }
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    for view in &recording.report.devices {
        let CategoriesView {
            parameter,
            gradient,
            optimizer_state,
            activation,
            cache,
            input,
            temporary,
            workspace,
            unknown,
        } = view.at_peak.categories;
        let row = Device {
            file: &recording.id.file,
            device: view.device,
            entries: view.entries,
            has_history: view.has_history,
            is_from_start: view.recorded.from_start,
            is_truncated: view.recorded.truncated,
            recorded_cause: view.recorded.cause,
            block_sizes: view.block_sizes.known,
            start_requested_bytes: view.start.requested_bytes,
            start_allocated_bytes: view.start.allocated_bytes,
            start_reserved_bytes: view.start.reserved_bytes,
            end_requested_bytes: view.end.requested_bytes,
            end_allocated_bytes: view.end.allocated_bytes,
            end_active_bytes: view.end.active_bytes,
            end_reserved_bytes: view.end.reserved_bytes,
            peak_requested_bytes: view.peak.requested_bytes,
            peak_allocated_bytes: view.peak.allocated_bytes,
            peak_allocated_bytes_at_most: view.peak.allocated_bytes_at_most.unwrap_or(view.peak.allocated_bytes),
            peak_active_bytes: view.peak.active_bytes,
            peak_active_bytes_at_most: view.peak.active_bytes_at_most.unwrap_or(view.peak.active_bytes),
            peak_reserved_bytes: view.peak.reserved_bytes,
            peak_requested_entry: view.peak.requested_entry,
            peak_allocated_entry: view.peak.allocated_entry,
            peak_active_entry: view.peak.active_entry,
            peak_reserved_entry: view.peak.reserved_entry,
            at_peak_by: view.at_peak.by,
            at_peak_entry: view.at_peak.entry,
            at_peak_time_us: view.at_peak.time_us,
            at_peak_requested_bytes: view.at_peak.requested_bytes,
            at_peak_allocated_bytes: view.at_peak.allocated_bytes,
            at_peak_active_bytes: view.at_peak.active_bytes,
            at_peak_reserved_bytes: view.at_peak.reserved_bytes,
            at_peak_parameter_bytes: parameter,
            at_peak_gradient_bytes: gradient,
            at_peak_optimizer_state_bytes: optimizer_state,
            at_peak_activation_bytes: activation,
            at_peak_cache_bytes: cache,
            at_peak_input_bytes: input,
            at_peak_temporary_bytes: temporary,
            at_peak_workspace_bytes: workspace,
            at_peak_unknown_bytes: unknown,
            free_bytes: view.fragmentation.free_bytes,
            free_share: view.fragmentation.free_share,
            releasable_bytes: view.fragmentation.releasable_bytes,
            inactive_split_bytes: view.fragmentation.inactive_split_bytes,
            largest_free_block_bytes: view.fragmentation.largest_free_block_bytes,
            scattered_share: view.fragmentation.scattered_share,
            rounding_bytes: view.fragmentation.rounding_bytes,
            out_of_memory_events: view.oom.len(),
            iterations: view.iterations.len(),
            iterations_by: &view.iterations_by,
            findings: view.findings.len(),
        };
        row.send(rows)?;
    }
    Ok(())
}
