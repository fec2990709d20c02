//! What a dry run found, for programs.

use highwater_findings::view::{ReportView, SimulateView};
use highwater_nullgpu::run::{Ending, Process};
use highwater_nullgpu::sandbox::Writes;
use serde::Serialize;

use super::Answer;

const FORMAT: &str = "highwater-dryrun";
const VERSION: u32 = 1;

/// The document.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: &'static str,
    version: u32,
    card: CardView<'a>,
    devices: u32,
    /// How the process ended that is explained.
    ended: Ending,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
    steps: u64,
    duration_secs: f64,
    /// PyTorch's own peaks, of the device that reserved most.
    peak: Option<Peak>,
    /// Every process that used the GPU; the first is explained.
    processes: &'a [Process],
    /// Functions of CUDA's libraries that asked for a size which is not known, and were told none.
    guessed_sizes: &'a [String],
    /// Those that were told success and nothing else.
    unanswered: &'a [String],
    /// What the script wrote, if that was kept in a sandbox; it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<&'a Writes>,
    report: &'a ReportView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulate: Option<&'a SimulateView<'a>>,
}

#[derive(Serialize)]
struct CardView<'a> {
    key: &'a str,
    name: &'a str,
    memory_bytes: u64,
    /// Whether dry runs on it were compared with the real card.
    proven: bool,
}

#[derive(Serialize)]
struct Peak {
    device: u32,
    requested_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    reserved_bytes: u64,
}

pub(super) fn document<'a>(answer: &'a Answer<'a>) -> Document<'a> {
    let main = answer.main;
    let most = main.devices.iter().max_by_key(|peaks| peaks.peak_reserved_bytes);
    Document {
        format: FORMAT,
        version: VERSION,
        card: CardView {
            key: answer.card.key,
            name: answer.card.name,
            memory_bytes: answer.memory_bytes(),
            proven: answer.card.proven,
        },
        devices: answer.machine.devices,
        ended: main.how,
        error: &main.error,
        steps: main.steps,
        duration_secs: answer.outcome.duration.as_secs_f64(),
        peak: most.map(|peaks| Peak {
            device: peaks.device,
            requested_bytes: peaks.peak_requested_bytes,
            allocated_bytes: peaks.peak_allocated_bytes,
            active_bytes: peaks.peak_active_bytes,
            reserved_bytes: peaks.peak_reserved_bytes,
        }),
        processes: &answer.outcome.processes,
        guessed_sizes: &answer.outcome.unanswered.guessed,
        unanswered: &answer.outcome.unanswered.unanswered,
        sandbox: answer.outcome.writes.as_ref(),
        report: answer.report,
        simulate: answer.simulated.as_ref().map(|(_, view)| view),
    }
}
