//! Memory of the card outside PyTorch's allocator: what the driver's recording shows.

use std::collections::{BTreeMap, BTreeSet};

use highwater_outside::{Event, Line, Moment, NvmlSample, OwnerTotal, Role, Timeline};
use highwater_units::{counted, size};

use super::{Evidence, Finding, LEAST_WORTH_BYTES, Severity};

/// Less of another allocator is not worth a word: any program may have it for a while.
const WORTH_ALLOCATOR_BYTES: u64 = 256 << 20;
/// Pinned memory from which on a host may miss it.
const WORTH_PINNED_BYTES: u64 = 4 << 30;
/// Moments that growth has to show in.
const LOOKS: usize = 4;

/// Libraries of NVIDIA's that PyTorch itself calls.
const CALLED_BY_PYTORCH: [&str; 9] =
    ["cuBLAS", "cuDNN", "cuSOLVER", "cuSPARSE", "cuFFT", "cuRAND", "NCCL", "NVSHMEM", "PyTorch"];

/// The recording at its peak on this device.
fn at_peak<'e>(evidence: &'e Evidence<'_>) -> Option<(&'e Timeline<'e>, &'e Moment)> {
    evidence.driver_at_peak().map(|(timeline, moment)| (timeline, moment))
}

fn ordinal(evidence: &Evidence<'_>) -> Option<i32> {
    i32::try_from(evidence.device.device).ok()
}

fn bytes(total: &OwnerTotal) -> u64 {
    u64::try_from(total.bytes).unwrap_or(0)
}

/// Bytes and number of a library's live allocations by the program's line that made them, the most bytes first; of all, or of those
/// below a function whose name has one of some parts.
fn by_line(timeline: &Timeline<'_>, total: &OwnerTotal, functions: &[&str]) -> Vec<(String, u64, usize)> {
    let recording = timeline.recording();
    let mut lines: BTreeMap<String, (u64, usize)> = BTreeMap::new();
    for event in &total.live {
        let is_below = |wanted: &&str| recording.function(event).is_some_and(|name| name.contains(wanted));
        if !functions.is_empty() && !functions.iter().any(is_below) {
            continue;
        }
        let line = recording.python(event).and_then(|stack| stack.line());
        let sum = lines.entry(line.map_or_else(|| "without a Python line".to_owned(), place)).or_default();
        sum.0 = sum.0.saturating_add(event.bytes.unsigned_abs());
        sum.1 += 1;
    }
    let mut lines: Vec<_> = lines.into_iter().map(|(line, (bytes, calls))| (line, bytes, calls)).collect();
    lines.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    lines
}

fn place(Line(file, line, _): &Line) -> String {
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
    format!("at `{file}:{line}`")
}

fn told(lines: &[(String, u64, usize)]) -> String {
    let shown = lines.iter().take(4).map(|(line, bytes, _)| format!("{} {line}", size(*bytes)));
    shown.collect::<Vec<_>>().join(", ")
}

fn library<'m>(moment: &'m Moment, name: &str) -> Option<&'m OwnerTotal> {
    moment.owners.iter().find(|total| total.owner.role == Role::Library && total.owner.library == name)
}

/// Several groups, each with a communicator's buffers of its own.
pub(super) fn communicators(evidence: &Evidence<'_>) -> Option<Finding> {
    let (timeline, moment) = at_peak(evidence)?;
    let nccl = library(moment, "NCCL").filter(|total| bytes(total) >= LEAST_WORTH_BYTES)?;
    let made = by_line(timeline, nccl, &["ncclCommInit", "ncclCommSplit"]);
    if made.len() < 2 {
        return None;
    }
    let title =
        format!("NCCL holds {} in the communicators of {}", size(bytes(nccl)), counted(made.len(), "place", "places"));
    let detail = format!(
        "each process group makes a communicator at its first use, with buffers of its own for every channel and peer, outside \
         PyTorch's allocator: {}",
        told(&made)
    );
    Some(Finding::new("communicators", Severity::Warning, title, detail).change(
        "use one process group where the ranks are the same, and set `NCCL_BUFFSIZE` or `NCCL_MAX_NCHANNELS` lower for the others: \
         it costs bandwidth",
    ))
}

/// cuBLAS handles, of which each brings memory.
pub(super) fn workspaces(evidence: &Evidence<'_>) -> Option<Finding> {
    let (timeline, moment) = at_peak(evidence)?;
    let cublas = library(moment, "cuBLAS").filter(|total| bytes(total) >= LEAST_WORTH_BYTES)?;
    let recording = timeline.recording();
    let is_handle = |event: &&Event| {
        event.bytes.unsigned_abs() >= 8 << 20
            && recording.function(event).is_some_and(|name| name.starts_with("cublasCreate"))
    };
    let handles: Vec<_> = cublas.live.iter().filter(is_handle).collect();
    let threads: BTreeSet<u32> = handles.iter().map(|event| event.thread).collect();
    if handles.len() < 2 {
        return None;
    }
    let title = format!("cuBLAS holds {} in {}", size(bytes(cublas)), counted(handles.len(), "handle", "handles"));
    let detail = format!(
        "each handle takes {} from the driver, outside PyTorch's allocator; they were made in {}",
        size(handles[0].bytes.unsigned_abs()),
        counted(threads.len(), "thread", "threads")
    );
    Some(Finding::new("library-workspaces", Severity::Info, title, detail).change(
        "keep matrix products on few threads: PyTorch makes a handle for each thread that multiplies, one of them for the backward pass",
    ))
}

/// A context on a card that has nothing of PyTorch's.
pub(super) fn idle_context(evidence: &Evidence<'_>) -> Option<Finding> {
    let (timeline, _) = at_peak(evidence)?;
    let own = ordinal(evidence)?;
    let has = |moment: &Moment, role| moment.owners.iter().find(|total| total.owner.role == role).map_or(0, bytes);
    // Said once, at the device with the most of PyTorch's.
    let (busiest, _) = timeline
        .devices()
        .map(|device| (device, has(&timeline.peak(device), Role::Pytorch)))
        .max_by_key(|&(_, bytes)| bytes)?;
    if busiest != own {
        return None;
    }
    let idle: Vec<(i32, u64)> = timeline
        .devices()
        .filter(|&device| device != own)
        .map(|device| (device, timeline.peak(device)))
        .filter(|(_, moment)| has(moment, Role::Pytorch) == 0 && has(moment, Role::Context) > 0)
        .map(|(device, moment)| (device, u64::try_from(moment.bytes).unwrap_or(0)))
        .collect();
    let all = idle.iter().map(|&(_, bytes)| bytes).fold(0, u64::saturating_add);
    let named = idle.iter().map(|(device, _)| device.to_string()).collect::<Vec<_>>().join(", ");
    if idle.is_empty() {
        return None;
    }
    let title = format!("{} on GPUs that the process does not use: {named}", size(all));
    let detail = "the process created a context there but no tensor: a call without a device, such as `torch.cuda.empty_cache()`, \
                  `torch.load` without `map_location` or `.cuda()`, goes to device 0";
    Some(Finding::new("idle-context", Severity::Warning, title, detail).saves_about(all).change(
        "call `torch.cuda.set_device(local_rank)` before anything else, or set `CUDA_VISIBLE_DEVICES` for each rank",
    ))
}

/// Another library with an allocator of its own.
pub(super) fn second_allocator(evidence: &Evidence<'_>) -> Option<Finding> {
    let (timeline, moment) = at_peak(evidence)?;
    let other = moment
        .owners
        .iter()
        .filter(|total| total.owner.role == Role::Library && !CALLED_BY_PYTORCH.contains(&total.owner.library.as_str()))
        .max_by_key(|total| total.bytes)
        .filter(|total| bytes(total) >= WORTH_ALLOCATOR_BYTES)?;
    let name = &other.owner.library;
    let article = if name.starts_with("unknown") { "an " } else { "" };
    let title = format!("{article}{name} holds {} beside PyTorch", size(bytes(other)));
    let detail = format!(
        "at the GPU's peak; this memory comes from the driver, not from PyTorch's allocator, so neither can use what the other keeps: {}",
        told(&by_line(timeline, other, &[]))
    );
    let change = match name.as_str() {
        "CuPy" => {
            "have CuPy allocate from PyTorch: `cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(…).malloc)` over \
             `torch.cuda.caching_allocator_alloc`"
        }
        "JAX" => "limit JAX: `XLA_PYTHON_CLIENT_MEM_FRACTION=0.2`, or `XLA_PYTHON_CLIENT_PREALLOCATE=false`",
        "RMM" => "have PyTorch allocate from RMM: `torch.cuda.memory.change_current_allocator(rmm_torch_allocator)`",
        _ => {
            "share one allocator where the library can, and limit PyTorch's with `torch.cuda.set_per_process_memory_fraction`"
        }
    };
    Some(Finding::new("second-allocator", Severity::Warning, title, detail).change(change))
}

/// Much pinned memory of the host.
pub(super) fn pinned(evidence: &Evidence<'_>) -> Option<Finding> {
    let (timeline, moment) = at_peak(evidence)?;
    let pinned = moment.owners.iter().filter(|total| total.owner.role == Role::Pinned);
    let all = pinned.clone().map(bytes).fold(0, u64::saturating_add);
    let most = pinned.max_by_key(|total| total.bytes)?;
    if all < WORTH_PINNED_BYTES {
        return None;
    }
    let title = format!("{} of the host's memory is pinned", size(all));
    let detail = format!(
        "the host cannot swap it or give it to others, and PyTorch keeps it for later transfers: {}",
        told(&by_line(timeline, most, &[]))
    );
    Some(
        Finding::new("pinned-memory", Severity::Info, title, detail)
            .change("pin fewer batches: a smaller `prefetch_factor`, or `pin_memory=False` where the step does not wait for the copy"),
    )
}

/// A library that has more each time it is looked at.
pub(super) fn growing(evidence: &Evidence<'_>) -> Option<Finding> {
    let recording = evidence.analysis.driver.as_ref()?;
    let device = ordinal(evidence)?;
    let (timeline, _) = at_peak(evidence)?;
    let samples: Vec<&NvmlSample> = recording.about.nvml.iter().filter(|sample| sample.device == device).collect();
    // The first part of a run is set-up.
    let later = samples.get(samples.len() / 4..).filter(|later| later.len() >= LOOKS)?;
    let at = |look: usize| later[look * (later.len() - 1) / (LOOKS - 1)];
    let moments: Vec<Moment> =
        (0..LOOKS).map(|look| timeline.after(device, timeline.events_until(at(look).time_ns))).collect();
    let grown = moments.last()?.owners.iter().filter(|total| total.owner.role == Role::Library).find_map(|total| {
        let of = |moment: &Moment| moment.owners.iter().find(|other| other.owner == total.owner).map_or(0, bytes);
        let sums: Vec<u64> = moments.iter().map(of).collect();
        let grows = sums.windows(2).all(|pair| pair[0] < pair[1]) && sums[LOOKS - 1] - sums[0] >= LEAST_WORTH_BYTES;
        grows.then(|| (total, sums[0], sums[LOOKS - 1]))
    });
    let (total, first, last) = grown?;
    let title = format!("{} grows from {} to {}", total.owner.library, size(first), size(last));
    let detail = format!(
        "its allocations from the driver grow at each of {LOOKS} moments of the recording: {}",
        told(&by_line(timeline, total, &[]))
    );
    Some(
        Finding::new("library-growth", Severity::Warning, title, detail)
            .change("free the allocations of the named lines, or make them once and keep them"),
    )
}
