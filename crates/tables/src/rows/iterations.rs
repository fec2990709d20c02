use std::io;

use highwater_analysis::DeviceAnalysis;
use highwater_documents::CategoriesView;
use highwater_snapshot::EntryId;

use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// An iteration of the training loop, or a token, or a sampling step.
    "iterations" => Iteration<'a>, by fill_iterations {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// Its number in the recording, from 0.
        iteration: usize,
        /// First entry.
        start_entry: usize,
        /// Last entry.
        end_entry: usize,
        /// The time of the first entry.
        start_time_us: Option<i64>,
        /// The time of the last entry.
        end_time_us: Option<i64>,
        /// Whether it was recorded from beginning to end.
        is_complete: bool,
        /// The highest requested bytes.
        peak_requested_bytes: u64,
        /// The highest allocated bytes.
        peak_allocated_bytes: u64,
        /// The highest reserved bytes.
        peak_reserved_bytes: u64,
        /// The entry of the highest bytes of the total that `devices.at_peak_by` names.
        peak_entry: Option<u32>,
        /// Requested bytes at its end.
        end_requested_bytes: u64,
        /// Allocated bytes at its end.
        end_allocated_bytes: u64,
        /// Weights and buffers of the model after `peak_entry`, of that total; so of the categories that follow.
        at_peak_parameter_bytes: Option<u64>,
        /// Gradients.
        at_peak_gradient_bytes: Option<u64>,
        /// State that the optimizer keeps.
        at_peak_optimizer_state_bytes: Option<u64>,
        /// Kept for the backward pass.
        at_peak_activation_bytes: Option<u64>,
        /// Kept from one call of the model to the next.
        at_peak_cache_bytes: Option<u64>,
        /// Data that the program feeds in.
        at_peak_input_bytes: Option<u64>,
        /// Short-lived memory.
        at_peak_temporary_bytes: Option<u64>,
        /// Memory that libraries keep.
        at_peak_workspace_bytes: Option<u64>,
        /// Unknown.
        at_peak_unknown_bytes: Option<u64>,
    }
}

table! {
    /// A run of one phase of an iteration.
    "phases" => Phase<'a>, by fill_phases {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// The iteration.
        iteration: usize,
        /// Its place in the iteration, from 0.
        position: usize,
        /// `forward`, `backward` or `optimizer`.
        phase: &'a str,
        /// First entry.
        start_entry: usize,
        /// Last entry.
        end_entry: usize,
        /// The highest requested bytes.
        peak_requested_bytes: u64,
        /// The highest allocated bytes.
        peak_allocated_bytes: u64,
    }
}

fn fill_iterations(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    for view in &recording.report.devices {
        let device = recording.analysis.device(view.device);
        for (number, iteration) in view.iterations.iter().enumerate() {
            let categories = iteration.peak_categories;
            let bytes = |of: fn(&CategoriesView) -> u64| categories.as_ref().map(of);
            let row = Iteration {
                file: &recording.id.file,
                device: view.device,
                iteration: number,
                start_entry: iteration.start_entry,
                end_entry: iteration.end_entry,
                start_time_us: time(device, iteration.start_entry),
                end_time_us: time(device, iteration.end_entry),
                is_complete: iteration.complete,
                peak_requested_bytes: iteration.peak_requested_bytes,
                peak_allocated_bytes: iteration.peak_allocated_bytes,
                peak_reserved_bytes: iteration.peak_reserved_bytes,
                peak_entry: iteration.peak_entry,
                end_requested_bytes: iteration.end_requested_bytes,
                end_allocated_bytes: iteration.end_allocated_bytes,
                at_peak_parameter_bytes: bytes(|of| of.parameter),
                at_peak_gradient_bytes: bytes(|of| of.gradient),
                at_peak_optimizer_state_bytes: bytes(|of| of.optimizer_state),
                at_peak_activation_bytes: bytes(|of| of.activation),
                at_peak_cache_bytes: bytes(|of| of.cache),
                at_peak_input_bytes: bytes(|of| of.input),
                at_peak_temporary_bytes: bytes(|of| of.temporary),
                at_peak_workspace_bytes: bytes(|of| of.workspace),
                at_peak_unknown_bytes: bytes(|of| of.unknown),
            };
            row.send(rows)?;
        }
    }
    Ok(())
}

/// The time of an entry, which may lie behind the last one.
fn time(device: Option<&DeviceAnalysis<'_>>, entry: usize) -> Option<i64> {
    let device = device.filter(|device| entry < device.entries.len())?;
    device.entries.time_us(EntryId::from_index(entry))
}

fn fill_phases(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    for view in &recording.report.devices {
        for (iteration, phases) in view.iterations.iter().map(|iteration| &iteration.phases).enumerate() {
            for (position, phase) in phases.iter().enumerate() {
                let row = Phase {
                    file: &recording.id.file,
                    device: view.device,
                    iteration,
                    position,
                    phase: phase.name,
                    start_entry: phase.start_entry,
                    end_entry: phase.end_entry,
                    peak_requested_bytes: phase.peak_requested_bytes,
                    peak_allocated_bytes: phase.peak_allocated_bytes,
                };
                row.send(rows)?;
            }
        }
    }
    Ok(())
}
