//! Of all that a log tells, the event that tells most.

use highwater_units::size;

use super::because;
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::{Event, Found};
use crate::steps::Step;

/// More than this is no step of a large batch, but a wrong size.
const LARGEST_STEP_BYTES: u64 = 16 << 40;

/// Kills by the system, for want of the host's memory.
const KILLS: [&str; 2] = ["oom-kill", "limit-kill"];
/// The kernel prints its tables between the first and the last line of one kill.
pub(super) const KILL_LINES: u64 = 500;

/// The event that tells most; the earliest of these.
pub(super) fn strongest(found: &Found) -> Option<(usize, &Event)> {
    let events = found.events.iter().enumerate();
    // A size that nothing has tells more than whose memory it is.
    let pinned = found.events.iter().filter(|event| event.id == "llama-pinned").map(|event| event.line).max();
    let rank = |event: &Event| (is_absurd(event), if retells(event, pinned) { 0 } else { weight(event) });
    let (at, event) = events.min_by_key(|(_, event)| (std::cmp::Reverse(rank(event)), event.line))?;
    Some(KILLS.contains(&event.id).then(|| fullest_kill(event, found)).flatten().unwrap_or((at, event)))
}

/// Whether a sentence before llama.cpp's words on pinned memory tells, in a person's words, what they say.
fn retells(event: &Event, pinned: Option<u64>) -> bool {
    let is_of_host = event.id == "general" && event.text("place") == Some("host");
    is_of_host && pinned > Some(event.line)
}

/// Of the lines that tell of one kill, the one with the process and its memory.
fn fullest_kill<'f>(first: &Event, found: &'f Found) -> Option<(usize, &'f Event)> {
    let is_same = |event: &Event| {
        let pids = event.number("pid").zip(first.number("pid"));
        KILLS.contains(&event.id)
            && event.rank == first.rank
            && event.line.abs_diff(first.line) <= KILL_LINES
            && pids.is_none_or(|(one, other)| one == other)
    };
    let events = found.events.iter().enumerate().filter(|(_, event)| is_same(event));
    // Who was killed at a limit matters more than by which words.
    events.max_by_key(|(at, event)| {
        (event.id == "limit-kill", event.number("pid").is_some(), event.values.len(), std::cmp::Reverse(*at))
    })
}

/// How much an event tells: 3 for what explains PyTorch's message too, 2 for what explains an error without numbers, 1
/// for what often follows from something else.
pub(super) fn weight(event: &Event) -> u8 {
    match event.id {
        "vllm-load" | "tgi-load" => 2,
        // It may be a warning or one refused request, or its failure is told better by another.
        "vllm-request" | "sglang-request" | "tgi-request" | "sglang-unbalanced" | "sglang-leak" | "llama-fit"
        | "no-batch-size" | "evaluation" | "bare" => 1,
        id if id.starts_with("vllm-") || id.starts_with("sglang-") || id.starts_with("tgi-") => 3,
        // It says which of two limits a failed request met.
        "trtllm-create" | "trtllm-cache" | "llama-vulkan-limit" | "single-allocation" => 3,
        // A warning, totals beside an error, or what follows from something that ended before.
        "bfc-totals" | "driver-refusal" | "launcher-kill" | "tensorflow-warning" | "variable" | "loss-nan"
        | "on-cpu" | "halved-batch" | "spilled" | "mlx-large" => 0,
        // The only numbers of a message that PyTorch's own words do not cover.
        "npu" if event.bytes("free").is_some() => 3,
        "general" if event.text("place") == Some("unknown") => 0,
        "general" | "general-set-up" | "runtime" | "level-zero" | "pin-thread" | "bus-error" | "xla-device"
        | "tensorflow-pool" | "tensorrt-tactic" | "sigkill" | "worker-exited" | "worker-died" | "trtllm-request"
        | "capture" | "llama-pinned" | "assertion" | "illegal-access" | "kernel-image" | "old-driver" | "busy"
        | "launch" | "hardware" | "xid" | "cudnn-unsupported" | "all-reduce" => 1,
        _ => 2,
    }
}

/// No device has so much, or no machine.
fn absurd_bytes(event: &Event) -> u64 {
    match event.id {
        "host-allocator" | "pinned" | "shm" => 1 << 46,
        _ => 1 << 40,
    }
}

/// Whether a request is larger than any memory. A pool's request to the driver has an answer of its own.
pub(super) fn is_absurd(event: &Event) -> bool {
    event.id != "xla-device" && event.requested().is_some_and(|bytes| bytes >= absurd_bytes(event))
}

/// A request that no GPU or host could serve.
pub(super) fn absurd(event: &Event, bytes: u64) -> (Diagnosis, Vec<Step>) {
    if event.origin.contains("JAX") && bytes < LARGEST_STEP_BYTES {
        let text = format!(
            "{} requested {} at once, which can never fit: most likely the temporaries of one compiled step, for the whole batch and \
             sequence or all scores of an attention; or a size is wrong",
            event.origin,
            size(bytes)
        );
        let less = Step::new(
            "split-request",
            "compute less in one compiled step: micro-batches, shorter sequences, recomputed activations, attention that never holds all scores",
            "no setting of the allocator helps, nor does memory of other processes; where the shapes are small, check a dynamic axis",
        );
        let change = "jax.checkpoint (rematerialisation), gradients accumulated over micro-batches, a fused attention";
        return (because(Cause::NeverFits, text), vec![less.with(change)]);
    }
    let text = format!(
        "{} requested {} at once, which can never fit: a size is wrong (negative, overflowed or overwritten), or it grows with the square of the \
         input, as attention scores do",
        event.origin,
        size(bytes)
    );
    let step = Step::new(
        "split-request",
        "check the shapes of the operator's inputs, especially of a dynamic axis",
        "no setting of the allocator helps",
    );
    (because(Cause::NeverFits, text), vec![step])
}
