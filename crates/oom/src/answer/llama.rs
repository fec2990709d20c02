//! What llama.cpp, and Ollama with its own settings, fail to load, and why.

use highwater_units::size;

use super::flags::{shares, smaller_cache_type};
use super::{because, general};
use crate::diagnosis::{Cause, Diagnosis};
use crate::engine::EngineLog;
use crate::log::{Event, Found, FrontEnd};
use crate::program::Program;
use crate::steps::{Step, larger_page_file};

/// Tokens that llama.cpp computes at once unless it is told otherwise.
const DEFAULT_UBATCH: u64 = 512;

/// No GPU that is on sale has more for one buffer.
const LARGEST_GPU_BYTES: u64 = 192 << 30;

/// Free memory of a machine that is made for large models.
const LARGE_HOST_BYTES: u64 = 16 << 30;

/// Lines in which one failure is told.
const NEAR_LINES: u64 = 8;

/// The part of the memory that did not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Weights,
    Cache,
    Compute,
}

/// The answer to a failure of llama.cpp or Ollama.
pub(super) fn explain(event: &Event, mut log: EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    let is_ollama = found.surroundings.is_ollama
        || log.engine == Some("ollama")
        || found.events.iter().any(|event| event.origin.starts_with("Ollama"));
    log.engine = Some(if is_ollama { "ollama" } else { "llama.cpp" });
    let (mut diagnosis, mut steps) = match event.id {
        _ if has_recovered(found) => recovered(found),
        "ollama-system" => system_memory(event),
        "llama-host" if log.max_model_len.is_some() && part(&log, found) == Part::Cache => cache_of_host(event, &log),
        "llama-host" => of_host(event, found),
        "ollama-layout" => layout(event, &log),
        "ollama-exited" => exited(&log),
        "llama-pinned" => pinned(event, found),
        "llama-buffer" if event.requested().is_none() && was_pinned_before(event, found) => without_host_memory(),
        "llama-fit" => fit(&log),
        "llama-full" => full(&log),
        "llama-vulkan-limit" => vulkan_limit(&log),
        _ => buffer(event, &log, found),
    };
    diagnosis.notes.extend(shares(&log));
    if let Some(front_end) = found.surroundings.front_end.filter(|_| !is_ollama) {
        for step in &mut steps {
            if let Some(name) = of_front_end(front_end, step.id) {
                step.change = Some(name.to_owned());
            }
        }
    }
    (diagnosis, steps)
}

/// The name that a program around llama.cpp has for a setting.
fn of_front_end(front_end: FrontEnd, step: &str) -> Option<&'static str> {
    let names = match step {
        "smaller-batch" => [
            "Evaluation Batch Size: 256; Flash Attention: on",
            "--batchsize 256 --flashattention",
            "--batch-size 256 --flash-attn",
            "Llama(n_batch=256, flash_attn=True)",
        ],
        "shorter-context" => ["Context Length: 4096", "--contextsize 4096", "--ctx-size 4096", "Llama(n_ctx=4096)"],
        "fewer-layers" => ["GPU Offload: fewer layers", "--gpulayers N", "--gpu-layers N", "Llama(n_gpu_layers=N)"],
        "smaller-cache-type" => [
            "K Cache and V Cache Quantization Type: Q8_0; Flash Attention: on",
            "--quantkv 1 --flashattention",
            "--cache-type q8_0",
            "Llama(type_k=8, type_v=8, flash_attn=True)",
        ],
        _ => return None,
    };
    Some(match front_end {
        FrontEnd::LmStudio => names[0],
        FrontEnd::Kobold => names[1],
        FrontEnd::WebUi => names[2],
        FrontEnd::Python => names[3],
    })
}

/// Whether llama.cpp tried again, and nothing failed after that.
fn has_recovered(found: &Found) -> bool {
    let Some(retry) = found.events.iter().find(|event| event.id == "llama-retry") else { return false };
    let of_llama = |event: &&Event| event.id.starts_with("llama-") && event.id != retry.id;
    found.events.iter().filter(of_llama).all(|event| event.line < retry.line && event.count <= retry.count)
}

fn recovered(found: &Found) -> (Diagnosis, Vec<Step>) {
    let refused = found.events.iter().find(|event| event.id == "llama-buffer" && event.requested().is_some());
    let numbers = refused.map_or_else(String::new, |event| {
        let device = event.number("device").map_or_else(String::new, |device| format!(" on GPU {device}"));
        format!(", {}{device},", size(event.requested().unwrap_or(0)))
    });
    let text = format!(
        "the compute buffers for pipeline parallelism{numbers} did not fit, and llama.cpp continued without it; with it they are several \
         times as large, and the text has no failure after that; they hold neither weights nor the KV cache"
    );
    let step = Step::new(
        "smaller-batch",
        "nothing has to change if it runs; for pipeline parallelism, compute fewer tokens of a prompt at once, or build without it",
        "it keeps a copy of the buffers for each batch in flight",
    )
    .with("--ubatch-size 256, or cmake -DGGML_SCHED_MAX_COPIES=1");
    (because(Cause::Warning, text), vec![step])
}

fn system_memory(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = match (event.bytes("needed"), event.bytes("available")) {
        (Some(needed), Some(available)) => format!(": it needs {}, and {} is available", size(needed), size(available)),
        _ => String::new(),
    };
    let text = format!("the part of the model that is not on a GPU does not fit in the host's memory{numbers}");
    let is_far = event.bytes("available").zip(event.bytes("needed")).is_some_and(|(has, needs)| needs / 4 > has);
    if is_far {
        // No context and no other program makes up for that.
        let smaller = Step::new(
            "smaller-model",
            "use a much smaller model: this one cannot run on this machine",
            "all of its weights must be in memory, and nothing else is as large",
        );
        return (because(Cause::HostMemory, text), vec![smaller]);
    }
    let smaller = Step::new(
        "smaller-model",
        "use a smaller model or quantisation, or a shorter context",
        "the context's KV cache is part of it",
    )
    .with("OLLAMA_CONTEXT_LENGTH=4096");
    let unload = Step::new(
        "unload",
        "unload other models, and close programs that hold memory",
        "only memory that is free now counts, and a model that is still loaded keeps its part",
    )
    .with("ollama ps; ollama stop MODEL; free -h");
    // Of a machine with so much free, an idle one has more; a small one has no such part in use.
    let is_large = event.bytes("available").is_some_and(|available| available >= LARGE_HOST_BYTES);
    let is_near =
        event.bytes("available").zip(event.bytes("needed")).is_some_and(|(has, needs)| needs < has.saturating_mul(2));
    let steps = if is_large && is_near { vec![unload, smaller] } else { vec![smaller, unload] };
    (because(Cause::HostMemory, text), steps)
}

fn layout(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let layers =
        event.number("layers").map_or_else(String::new, |layers| format!(" with {layers} layers on them (`num_gpu`)"));
    let text = format!(
        "Ollama found no way to divide the model between the GPUs{layers}: it needs more memory than they have free"
    );
    let mut steps = vec![shorter(log), fewer_layers(log), fewer_requests()];
    if event.number("layers").is_some() {
        // Somebody has set the number, which Ollama otherwise chooses itself.
        steps.swap(0, 1);
    }
    (because(Cause::TooBig, text), steps)
}

/// Its own buffers in the host's memory: `CUDA_Host` is the host's, too.
fn of_host(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let (diagnosis, mut steps) = general::of_host(event, Some(Program::Llama));
    if found.surroundings.is_windows {
        // Nobody limits it there.
        steps.retain(|step| step.id != "more-host-memory");
        let detail = "Windows gives all programs together no more than RAM and paging file; programs that are closed return theirs";
        steps.insert(0, Step { detail: detail.to_owned(), ..larger_page_file() });
    }
    (diagnosis, steps)
}

/// The KV cache of a whole context in the host's memory.
fn cache_of_host(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let (mut diagnosis, _) = general::of_host(event, Some(Program::Llama));
    if let (Some(tokens), Some(bytes)) = (log.max_model_len, event.requested()) {
        diagnosis.text = format!(
            "the host had no memory for the KV cache, {}: it is allocated at the start for a context of {tokens} tokens, which is the model's \
             own where none is set",
            size(bytes)
        );
    }
    let smaller = smaller_cache_type(log, event.requested(), None);
    let steps = [Some(shorter(log)), smaller, Some(general::smaller_model(Some(Program::Llama)))];
    (diagnosis, steps.into_iter().flatten().collect())
}

/// A warning: the model is loaded all the same.
fn fit(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let text = "the model with its settings needs more than the GPUs have free, and llama.cpp could not change them, since they are given \
                (`--n-gpu-layers`, `--override-tensor`): it then loads with them, and runs out of memory";
    let fit = Step::new("fewer-layers", "let llama.cpp choose how many layers fit", "it measures the free memory")
        .with("no --n-gpu-layers, or --n-gpu-layers auto");
    (because(Cause::TooBig, text), vec![fit, fewer_layers(log), shorter(log)])
}

/// The cells of the cache are in use; no memory is short.
fn full(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let text = "the KV cache has no free cells for the tokens of this request: the context, which the parallel requests share, is full, and \
                the GPU is not";
    let larger = Step::new(
        "raise-limit",
        "use a longer context, or fewer parallel requests",
        "the context is divided between the requests, and its cache is allocated whole at start",
    )
    .with("--ctx-size 16384, --parallel 1");
    let smaller = smaller_cache_type(log, None, None);
    (because(Cause::KvCache, text), [larger].into_iter().chain(smaller).collect())
}

/// A warning: llama.cpp goes on with ordinary memory.
fn pinned(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let (by, settings) = if event.origin.contains("Vulkan") {
        ("Vulkan", "GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM=1, --no-mmap")
    } else {
        ("the GPU's runtime", "GGML_CUDA_NO_PINNED=1, --no-mmap")
    };
    let text = format!(
        "{by} could not pin host memory for what stays there: llama.cpp then continues with ordinary memory, and \
         copies to the GPU are slower"
    );
    if found.surroundings.has_started {
        let text = format!("{text}; the model is loaded, and nothing failed");
        let step = Step::new(
            "without-mmap",
            "nothing has to change; without pinned memory the line goes away",
            "a newer driver or kernel may pin more",
        )
        .with(settings);
        return (because(Cause::Warning, text), vec![step]);
    }
    let step = Step::new(
        "without-mmap",
        "load without pinned memory, or put more layers on the GPU",
        "the limit is the driver's",
    )
    .with(settings);
    (because(Cause::HostMemory, text), vec![step])
}

/// Whether the driver had refused to pin host memory before this error without a size.
fn was_pinned_before(event: &Event, found: &Found) -> bool {
    let refused = |other: &Event| other.id == "llama-pinned" && other.line < event.line && other.rank == event.rank;
    found.events.iter().any(refused)
}

/// Both fail where the driver may have little host memory.
fn without_host_memory() -> (Diagnosis, Vec<Step>) {
    let text = "the driver could not pin host memory, and then refused memory of the GPU, too: both need host \
        memory of the driver, which WSL, a container or `ulimit -l` may limit";
    let pageable = Step::new("without-mmap", "load without pinned memory", "copies to the GPU are then slower")
        .with("GGML_CUDA_NO_PINNED=1");
    let raise = Step::new(
        "raise-limit",
        "give WSL or the container more memory",
        "WSL lets programs pin a part of its memory, which is half of the host's by default",
    )
    .with("memory=24GB in .wslconfig, then wsl --shutdown; docker run --ulimit memlock=-1");
    (because(Cause::HostMemory, text), vec![pageable, raise, fewer_layers(&EngineLog::default())])
}

/// Ollama's own guess, in releases that did not pass on the reason.
fn exited(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let text = "Ollama's runner exited without a reason in this text, and Ollama supposes that memory ran out: its log \
                has the preceding lines";
    let smaller = Step::new(
        "smaller-model",
        "use a smaller model or quantisation",
        "the weights and the context's KV cache must fit in the memory of the GPUs and the host",
    );
    (because(Cause::Unknown, text), vec![smaller, shorter(log)])
}

fn vulkan_limit(log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let text = "one buffer is larger than the largest that the Vulkan driver allows, however much memory is free";
    let split = Step::new("smaller-buffers", "let llama.cpp divide its buffers", "2 GiB suits most drivers")
        .with("GGML_VK_FORCE_MAX_ALLOCATION_SIZE=2147483648");
    (because(Cause::Refused, text), vec![split, smaller_batch(), shorter(log)])
}

fn buffer(event: &Event, log: &EngineLog, found: &Found) -> (Diagnosis, Vec<Step>) {
    // Of the lines of one failure the allocator's has the size and the device.
    let of_allocator = |near: &&Event| {
        near.id == "llama-buffer" && near.requested().is_some() && near.line.abs_diff(event.line) <= NEAR_LINES
    };
    let event = match event.requested() {
        Some(_) => event,
        None => found.events.iter().find(of_allocator).unwrap_or(event),
    };
    let asked = event.requested().map_or_else(|| "a buffer".to_owned(), |bytes| format!("a buffer of {}", size(bytes)));
    let device = event.number("device").map(|device| format!(" on GPU {device}"));
    let device = device.or_else(|| event.text("buffer").map(|buffer| format!(" on {buffer}"))).unwrap_or_default();
    let by = if event.id == "llama-vulkan" { " by Vulkan" } else { "" };
    let part = part(log, found);
    let is_ollama = log.engine == Some("ollama");
    let which = match part {
        Part::Weights if !is_ollama && !is_loading(found) => "the model's weights, or its KV cache",
        Part::Weights => "the model's weights",
        Part::Cache => "the KV cache",
        Part::Compute => "the compute buffers",
    };
    // The driver maps it at first use, so that a cache for which there is no room fails when it is computed with.
    let too_large = too_large_cache(log).filter(|_| part == Part::Compute);
    let part = if too_large.is_some() { Part::Cache } else { part };
    let copies = copies(event, log, found);
    let of_copies = copies.map_or_else(String::new, |copies| {
        format!(", of which llama.cpp keeps {copies} copies for pipeline parallelism, one for each batch in flight")
    });
    let text = match too_large {
        Some((cache, budget)) => format!(
            "the KV cache, {}, does not fit in the memory that the GPU may use, {}, beside the weights: it is as long as the whole context, \
             which is the model's own where none is set",
            size(cache),
            size(budget)
        ),
        None => format!("the GPU had no memory for {asked}{device}{by}: probably {which}{of_copies}"),
    };
    let cache = log.printed().kv_cache_bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let mut steps = match part {
        Part::Weights if is_ollama => vec![fewer_layers(log), shorter(log), overhead()],
        // The same function allocates weights and caches, and what follows a load is no weight.
        Part::Weights if !is_loading(found) => vec![fewer_layers(log), shorter(log)],
        Part::Weights => vec![fewer_layers(log)],
        Part::Cache => {
            let smaller = smaller_cache_type(log, cache, None);
            [Some(shorter(log)), smaller, is_ollama.then(fewer_requests), Some(fewer_layers(log))]
                .into_iter()
                .flatten()
                .collect()
        }
        // It has chosen the layers itself, and its estimate of these buffers was too low.
        Part::Compute if is_ollama && log.printed().required_bytes.is_some() => {
            vec![overhead(), shorter(log), fewer_layers(log), fewer_requests()]
        }
        Part::Compute if is_ollama => vec![shorter(log), fewer_layers(log), fewer_requests(), overhead()],
        // Beyond any GPU, whose weights and cache cannot make room for it.
        Part::Compute if event.requested() >= Some(LARGEST_GPU_BYTES) => vec![smaller_batch(), shorter_graph()],
        Part::Compute => vec![smaller_batch(), shorter(log), fewer_layers(log)],
    };
    if copies.is_some() {
        steps.insert(0, single_copy());
    }
    if let Some(device) = event.number("device").filter(|&device| !is_ollama && (1..=MAX_SPLIT).contains(&device)) {
        // A small buffer that does not fit tells that this GPU, often the smallest, has more of the model than the others.
        let at = if event.requested() <= Some(SMALL_BUFFER_BYTES) && copies.is_some() { 0 } else { steps.len() };
        steps.insert(at, other_split(device));
    }
    (because(Cause::TooBig, text), steps)
}

/// The KV cache, where it alone or with the weights is more than the GPU may use, and that limit.
fn too_large_cache(log: &EngineLog) -> Option<(u64, u64)> {
    let printed = log.printed();
    let cache = printed.kv_cache_bytes.and_then(|bytes| u64::try_from(bytes).ok())?;
    let budget = printed.budget_bytes?;
    let weights = printed.weights_bytes.unwrap_or(0);
    (cache > weights && cache.saturating_add(weights) > budget).then_some((cache, budget))
}

/// How many copies of the compute buffers were to be made, where these did not fit.
pub(super) fn copies(event: &Event, log: &EngineLog, found: &Found) -> Option<u64> {
    let is_of_graph = event.id.starts_with("llama-") && part(log, found) == Part::Compute;
    log.printed().graph_copies.filter(|&copies| is_of_graph && copies > 1)
}

/// Releases since October 2025 try without the copies by themselves.
fn single_copy() -> Step {
    Step::new(
        "single-copy",
        "keep one copy of the compute buffers: build without pipeline parallelism, or use a newer release",
        "where `--override-tensor` keeps tensors on the CPU, the copies may be many times as large as without it",
    )
    .with("cmake -DGGML_SCHED_MAX_COPIES=1")
}

/// Which buffer it is, by the parts that are already loaded and by the settings.
fn part(log: &EngineLog, found: &Found) -> Part {
    let printed = log.printed();
    let has = |ids: &[&str]| found.events.iter().any(|event| ids.contains(&event.id));
    if is_loading(found) {
        Part::Weights
    } else if has(&["llama-kv"]) {
        Part::Cache
    } else if has(&["llama-compute", "llama-graph", "llama-output"]) || printed.kv_cache_bytes.is_some() {
        Part::Compute
    } else if printed.weights_bytes.is_some() {
        Part::Cache
    } else if log.max_num_batched_tokens.is_some_and(|tokens| tokens > DEFAULT_UBATCH) {
        Part::Compute
    } else {
        Part::Weights
    }
}

fn shorter_graph() -> Step {
    Step::new(
        "shorter-context",
        "use a shorter context",
        "without flash attention the compute buffers grow with context times batch; the weights and the KV cache are not too large",
    )
    .with("--ctx-size 4096")
}

fn fewer_layers(log: &EngineLog) -> Step {
    let printed = log.printed();
    let layers = match (printed.layers_on_gpu, printed.layers) {
        (Some(on_gpu), Some(all)) => format!("{on_gpu} of {all} layers are on the GPU"),
        _ => "each layer that stays on the CPU frees its weights and its part of the KV cache".to_owned(),
    };
    Step::new("fewer-layers", "put fewer layers on the GPU", layers).with(match log.engine {
        Some("ollama") => "/set parameter num_gpu N, or PARAMETER num_gpu N in the Modelfile",
        _ => "--n-gpu-layers N",
    })
}

fn shorter(log: &EngineLog) -> Step {
    let context = log.max_model_len.map_or_else(
        || "the KV cache is allocated whole at start".to_owned(),
        |tokens| format!("it is {tokens} tokens, and the KV cache for all of them is allocated at start"),
    );
    let step = Step::new("shorter-context", "use a shorter context", context).with(match log.engine {
        Some("ollama") => "/set parameter num_ctx 4096, or OLLAMA_CONTEXT_LENGTH=4096",
        _ => "--ctx-size 4096",
    });
    match log.printed().kv_cache_bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
        Some(cache) => step.brings(cache / 2, None),
        None => step,
    }
}

/// GPUs of one split, at most, for which it is written out.
const MAX_SPLIT: u64 = 15;

/// A buffer that any GPU has room for, unless weights and cache have filled it.
const SMALL_BUFFER_BYTES: u64 = 512 << 20;

/// A GPU with another number than 0 is one of several.
fn other_split(device: u64) -> Step {
    let parts: Vec<&str> = (0..=device).map(|gpu| if gpu == device { "2" } else { "3" }).collect();
    Step::new(
        "other-split",
        "give this GPU a smaller part of the model",
        "the parts need not be equal: each GPU also has its own compute buffers, and the first has the most",
    )
    .with(format!("--tensor-split {}, or --main-gpu with --split-mode none for one GPU", parts.join(",")))
}

/// Whether the text has the model's own error beside the buffer's.
fn is_loading(found: &Found) -> bool {
    found.events.iter().any(|event| event.id == "llama-load")
}

fn smaller_batch() -> Step {
    Step::new(
        "smaller-batch",
        "compute fewer tokens of a prompt at once",
        "the compute buffers grow with it; flash attention makes them smaller, too",
    )
    .with("--ubatch-size 256 --flash-attn on")
}

fn fewer_requests() -> Step {
    Step::new(
        "fewer-requests",
        "serve one request at a time, and one model",
        "each parallel request has its own context, and a second model its own weights",
    )
    .with("OLLAMA_NUM_PARALLEL=1 OLLAMA_MAX_LOADED_MODELS=1")
}

fn overhead() -> Step {
    Step::new(
        "leave-margin",
        "let Ollama leave memory of each GPU free",
        "it chooses the layers by an estimate, and other programs may take memory after that",
    )
    .with("OLLAMA_GPU_OVERHEAD=1073741824")
}
