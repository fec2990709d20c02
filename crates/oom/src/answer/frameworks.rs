//! Failures of frameworks with an allocator of their own: `CuPy`, RMM, XLA, `TensorFlow`, ONNX Runtime, Triton's
//! kernels.

use highwater_units::size;

use super::because;
use super::engines::end_others;
use super::general::smaller;
use super::host::more_host_memory;
use super::libraries::{asked, shrink};
use super::tensorflow;
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::{Event, Found};
use crate::steps::Step;

/// The failures that are explained here.
const IDS: [&str; 28] = [
    "cupy",
    "rmm",
    "rmm-pool",
    "xla",
    "xla-tpu",
    "xla-bare",
    "xla-core",
    "xla-library",
    "xla-graphs",
    "tensorflow",
    "tensorflow-pool",
    "tensorflow-full",
    "tensorflow-warning",
    "tensorflow-library",
    "bfc-totals",
    "flashinfer",
    "triton",
    "onnxruntime",
    "onnxruntime-limit",
    "onnxruntime-host",
    "xla-device",
    "directml",
    "gaudi",
    "neuron",
    "faiss",
    "cuda-jl",
    "xgboost",
    "paddle",
];

/// Whether it is one of these.
pub(super) fn is_of(event: &Event) -> bool {
    IDS.contains(&event.id)
}

/// The answer to it.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    Some(match event.id {
        "cupy" => cupy(event, found),
        "rmm" | "rmm-pool" => rmm(event, found),
        "xla" => xla(event, found),
        "xla-device" => device_pool(event, found),
        "xla-tpu" => tpu(event),
        "xla-bare" => xla_bare(found),
        "xla-core" => core(event),
        "xla-library" => xla_library(event, found),
        "xla-graphs" => xla_graphs(event),
        id if id.starts_with("tensorflow") => return tensorflow::explain(event, found),
        "bfc-totals" => totals(event),
        "flashinfer" => flashinfer(event),
        "triton" => triton(event),
        "onnxruntime" | "onnxruntime-limit" => onnxruntime(event, found),
        "onnxruntime-host" => onnxruntime_host(event),
        "paddle" => paddle(event, found),
        "directml" | "gaudi" | "neuron" | "faiss" | "cuda-jl" | "xgboost" => others(event, found),
        _ => return None,
    })
}

fn cupy(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let so_far = event
        .bytes("so_far_raw")
        .map_or_else(String::new, |bytes| format!("; its pool had {} so far, free blocks included", size(bytes)));
    let limit = event.bytes("limit_raw").filter(|&bytes| bytes > 0);
    let (cause, limited) = match limit {
        Some(limit) => (Cause::Limit, format!(", with a limit of {}", size(limit))),
        None => (Cause::TooBig, String::new()),
    };
    let text = format!("CuPy could not allocate an array{}{so_far}{limited}", asked(event));
    // CuPy itself releases its cached blocks and tries again before it gives up (`_try_malloc` in `memory.pyx`).
    let split = Step::new(
        "split-request",
        "process less at once: a smaller batch, or the array in pieces",
        "an array and its copy must both fit",
    );
    let others = end_others(None, found);
    let free = Step::new(
        "free-pool",
        "if PyTorch is in the process, release its cached blocks",
        "each library's pool keeps freed memory to itself; CuPy has released its own before it failed",
    )
    .with("torch.cuda.empty_cache()");
    // With so little in its pool, somebody else has most of any GPU but the smallest.
    let is_small = event.bytes("so_far_raw").is_some_and(|so_far| so_far < SMALL_POOL_BYTES)
        && event.requested().is_none_or(|bytes| bytes < SMALL_POOL_BYTES);
    if limit.is_some() {
        // The limit is checked before any block is released (`_try_malloc`, too), and counts the pool's free blocks.
        let empty = Step::new(
            "free-pool",
            "release the pool's free blocks before the allocation",
            "freed arrays stay in the pool and count towards its limit, and CuPy does not release them when a request meets the limit",
        )
        .with("cupy.get_default_memory_pool().free_all_blocks()");
        let raise = Step::new(
            "raise-limit",
            "raise or remove CuPy's limit",
            "it is set by the program or by `CUPY_GPU_MEMORY_LIMIT`; the GPU itself need not be full",
        )
        .with("mempool.set_limit(size=0), or CUPY_GPU_MEMORY_LIMIT=100%");
        return (because(cause, text), vec![empty, raise, split]);
    }
    let steps = if is_small { vec![others, split, free] } else { vec![split, others, free] };
    (because(cause, text), steps)
}

/// Calls of cuDF that read a whole file.
const READS: [&str; 4] = ["read_csv(", "read_parquet(", "read_json(", "read_orc("];

fn rmm(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let is_pool = event.id == "rmm-pool";
    let why = if is_pool {
        "its pool cannot grow: the maximum that the program set is reached, or the GPU is full"
    } else {
        "this process or another has filled the GPU"
    };
    let text = format!("RMM, the allocator of RAPIDS, could not allocate a buffer{}: {why}", asked(event));
    let spill = Step::new("managed-memory", "spill to the host's memory", "slower, but larger than the GPU")
        .with("rmm.reinitialize(managed_memory=True), or cudf.set_option(\"spill\", True)");
    let share = Step::new(
        "share-allocator",
        "let PyTorch and RAPIDS share one pool",
        "two pools in one process keep freed memory from each other",
    )
    .with("torch.cuda.memory.change_current_allocator(rmm.allocators.torch.rmm_torch_allocator)");
    let split = Step::new(
        "split-request",
        "process the data in pieces",
        "reading a file takes several times its \
         size",
    )
    .with("dask_cudf.read_csv(...), byte_range=(start, size)");
    let raise = Step::new(
        "raise-limit",
        "raise the pool's maximum, or leave it out: the pool then grows until the GPU is full",
        "a pool without a maximum fails with the same words when other processes hold the GPU's memory",
    )
    .with("rmm.mr.PoolMemoryResource(upstream, initial_pool_size=..., maximum_pool_size=...)");
    let first = if is_pool { raise } else { end_others(None, found) };
    let mut frames = [&event.asked.innermost, &event.asked.own].into_iter().flatten();
    let reads_file = frames.any(|frame| READS.iter().any(|call| frame.source.contains(call)));
    let steps =
        if reads_file && !is_pool { vec![split, spill, first, share] } else { vec![first, spill, split, share] };
    (because(Cause::TooBig, text), steps)
}

/// GPUs that compute have more than this.
const SMALL_POOL_BYTES: u64 = 2 << 30;
/// A request of less than this is the last straw.
const LAST_STRAW_BYTES: u64 = 64 << 20;
/// What one block has at most, on any GPU.
const LARGEST_SHARED_MEMORY_BYTES: u64 = 228 << 10;
/// A request of so much is a batch of the program's own.
const LARGE_BATCH_BYTES: u64 = 1 << 30;

/// Programs that need less than this did not fill the GPU themselves.
const SMALL_PROGRAM_BYTES: u64 = 1 << 30;
/// More than another share of a GPU brings.
const LARGE_REQUEST_BYTES: u64 = 32 << 30;

fn xla(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    if found.surroundings.is_of_tensorflow() {
        return tensorflow::tensorflow(event, found);
    }
    let total = event.bytes("total");
    let shrink = Step::new(
        "shrink",
        "reduce the memory needed at once: a smaller batch, a shorter or smaller input, rematerialisation in training",
        "the buffer belongs to the compiled program, whose inputs decide its size; otherwise a larger GPU",
    )
    .with("jax.checkpoint");
    if let Some(total) = total.filter(|&total| total < SMALL_PROGRAM_BYTES) {
        let text = format!(
            "{} could not allocate a buffer{}, although its whole program needs only {}: something else fills the GPU, such as an earlier \
             run that is still alive, or another library in this process",
            event.origin,
            asked(event),
            size(total)
        );
        return (because(Cause::OtherProcess, text), vec![end_others(None, found), less_preallocation()]);
    }
    let preallocates = !found.surroundings.is_without_preallocation;
    let rule = if preallocates {
        ": it reserves 75 % of the GPU at its start (old releases 90 %) and takes the rest only with other settings"
    } else {
        ", with preallocation off: the rest of the GPU was in use"
    };
    let compiled = found.surroundings.compiled;
    let whole = match (compiled, total) {
        (Some(compiled), _) => format!(
            "; the compiled program needs {} even with rematerialisation, and {} is there for it",
            size(compiled.needed_bytes),
            size(compiled.available_bytes)
        ),
        (None, Some(total)) => format!("; the compiled program needs {} in all", size(total)),
        (None, None) => String::new(),
    };
    let text = format!("{} could not allocate a buffer{}{rule}{whole}", event.origin, asked(event));
    // The share that is not preallocated is a quarter of the GPU.
    let is_beyond_share = compiled.is_some() || event.requested().is_some_and(|bytes| bytes >= LARGE_REQUEST_BYTES);
    let steps = match (total, preallocates) {
        (None, true) if is_beyond_share => vec![shrink, unified_memory(), less_preallocation()],
        (Some(_), true) => vec![shrink, less_preallocation(), unified_memory()],
        (None, true) => vec![less_preallocation(), shrink, unified_memory()],
        (_, false) => vec![shrink, unified_memory()],
    };
    (because(Cause::TooBig, text), steps)
}

/// XLA's error without its numbers; the list of its buffers may stand before.
fn xla_bare(found: &Found) -> (Diagnosis, Vec<Step>) {
    let largest = found.surroundings.largest_buffer.map_or_else(String::new, |(buffers, bytes)| {
        format!("; of its buffers the log lists {buffers}, the largest of {}", size(bytes))
    });
    let text = format!(
        "JAX's compiled program needs more memory than the device has for it{largest}: its buffers grow with the input, and many of them are \
         alive at once; the line of the error has no numbers"
    );
    let less = Step::new(
        "shrink",
        "compute on less at once: a smaller input, the input in tiles or parts, a smaller batch if there is one, or a larger GPU",
        "the inputs of the compiled program decide the size of its buffers",
    )
    .with("jax.checkpoint, or jax.lax.map (batch_size=...) over parts");
    (because(Cause::TooBig, text), vec![less, unified_memory()])
}

fn unified_memory() -> Step {
    Step::new("managed-memory", "let the program use host memory in addition to the GPU's", "slower, but larger")
        .with("TF_FORCE_UNIFIED_MEMORY=1 XLA_PYTHON_CLIENT_MEM_FRACTION=4.0")
}

fn less_preallocation() -> Step {
    Step::new(
        "less-preallocation",
        "let JAX allocate as it goes if another library shares the GPU, or raise its share if none does",
        "0.75 is the default",
    )
    .with("XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_PYTHON_CLIENT_MEM_FRACTION=0.95")
}

/// Libraries beside JAX's pool.
fn xla_library(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} could not allocate memory for a library: JAX's pool takes 75 % of the GPU at its start, and libraries get the rest, or a part of \
         the pool that was full",
        event.origin
    );
    let shrink = Step::new(
        "shrink",
        "reduce the memory needed at once: smaller matrices or a smaller batch",
        "the error has no numbers",
    );
    (because(Cause::OutsidePyTorch, text), vec![less_preallocation(), shrink, end_others(None, found)])
}

/// CUDA graphs live outside JAX's pool.
fn xla_graphs(event: &Event) -> (Diagnosis, Vec<Step>) {
    let graphs = event.number("graphs").map_or_else(String::new, |graphs| format!("; {graphs} graphs are alive"));
    let text = format!(
        "the driver had no memory for another CUDA graph (XLA's command buffer): graphs live outside JAX's pool, which takes 75 % of the GPU \
         at its start{graphs}"
    );
    let steps = vec![
        Step::new("lower-share", "leave more of the GPU outside JAX's pool", "0.75 is the default")
            .with("XLA_PYTHON_CLIENT_MEM_FRACTION=0.6"),
        Step::new(
            "without-graphs",
            "run without CUDA graphs",
            "each launch then costs a few microseconds of host \
             time",
        )
        .with("XLA_FLAGS=--xla_gpu_enable_command_buffer="),
    ];
    (because(Cause::OutsidePyTorch, text), steps)
}

/// The pool's own request to the driver, of `TensorFlow` or JAX.
fn device_pool(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    // The pool's first request: each retry is for less.
    let tries = found.events.iter().filter(|other| other.id == event.id && other.rank == event.rank);
    let bytes = tries.filter_map(Event::requested).max().unwrap_or_default();
    let is_amd = event.text("code").is_some_and(|code| code.to_lowercase().contains("hip"));
    let end = end_others(None, found);
    let end = if is_amd { end.with("rocm-smi --showpids") } else { end };
    let growth = Step::new(
        "memory-growth",
        "let the framework allocate as it goes: by default it reserves most of the GPU at its start",
        "other processes then matter only if this program needs their memory",
    )
    .with("TF_FORCE_GPU_ALLOW_GROWTH=true (TensorFlow), XLA_PYTHON_CLIENT_PREALLOCATE=false (JAX)");
    if bytes >= ABSURD_POOL_BYTES {
        let text = format!(
            "the driver reports more free memory than any GPU has, and the framework requested its share of that at its start, {}: this is \
             not a tensor's size",
            size(bytes)
        );
        let newer = Step::new(
            "record",
            "set the size of the pool yourself, and use matching releases of the framework and the driver",
            "a wrong total comes from a runtime that does not know the GPU or the driver; each rank must see one GPU",
        )
        .with(
            "tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=16384)]); \
             HIP_VISIBLE_DEVICES",
        );
        return (because(Cause::Contradiction, text), vec![growth, newer]);
    }
    // Each try is for a tenth less than the one before.
    let tries = found.events.iter().filter(|event| event.id == "xla-device");
    let sizes: Vec<u64> = tries.filter_map(Event::requested).collect();
    let is_start = sizes.windows(2).any(|pair| pair[1] < pair[0] && pair[1] / 89 > pair[0] / 100);
    let text = format!(
        "TensorFlow's or JAX's allocator could not take {} from the driver{}",
        size(bytes),
        if is_start {
            ": at its start it reserves most of the free memory, and other processes hold part of the GPU; each try requests a tenth less"
        } else {
            ": other processes, or this one, had filled the GPU"
        }
    );
    let cause = if is_start { Cause::OtherProcess } else { Cause::TooBig };
    (because(cause, text), vec![end, growth, smaller()])
}

/// No GPU has so much free.
const ABSURD_POOL_BYTES: u64 = 1 << 40;

fn tpu(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = match (event.bytes("used"), event.bytes("limit"), event.bytes("over")) {
        (Some(used), Some(limit), Some(over)) => {
            format!(": it needs {} of {}, {} too much", size(used), size(limit), size(over))
        }
        _ => match (event.bytes("raw_size").or_else(|| event.bytes("program")), event.bytes("free")) {
            (Some(asked), Some(free)) => format!(": it needs {} at once, and {} is free", size(asked), size(free)),
            _ => String::new(),
        },
    };
    let live = event.bytes("allocated").zip(event.bytes("capacity"));
    let of_live = live.map_or_else(String::new, |(allocated, capacity)| {
        format!("; of {} in all, {} holds arrays that are alive between the steps", size(capacity), size(allocated))
    });
    // A buffer that the program requests, not one of the compiler's.
    let what = if event.bytes("raw_size").is_some() { "an array" } else { "the compiled program" };
    let text = format!("{what} does not fit in the accelerator's memory{numbers}{of_live}");
    let mut steps = vec![
        Step::new(
            "shrink",
            "reduce the memory needed at once: a smaller batch for each device, or rematerialisation",
            "the compiler knows the whole program's need, so it fails before anything runs",
        )
        .with("jax.checkpoint, or torch_xla.utils.checkpoint"),
        Step::new("shard", "spread parameters and activations over more devices", "each then holds a part")
            .with("jax.sharding.NamedSharding, or FSDP of torch_xla"),
    ];
    if live.is_some_and(|(allocated, capacity)| allocated > capacity / 2) {
        let fewer = Step::new(
            "fewer-alive",
            "keep fewer arrays alive between the steps: end each step, and give buffers away that it replaces",
            "what an earlier program returned stays until nothing refers to it",
        );
        steps.insert(
            1,
            fewer.with("xm.mark_step(), loss.item() only now and then (torch_xla); jax.jit(step, donate_argnums=0)"),
        );
    }
    (because(Cause::TooBig, text), steps)
}

/// The memory of a TPU's core, as a kernel's blocks and stack use it.
fn core(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.bytes("used").zip(event.bytes("limit"));
    let numbers = numbers.map_or_else(String::new, |(used, limit)| format!(": {} of {}", size(used), size(limit)));
    let text = format!(
        "a kernel needs more on-chip memory of a TPU's core than there is{numbers}; the accelerator's main memory is not full, and a \
         smaller batch may not help"
    );
    let steps = vec![
        Step::new(
            "smaller-blocks",
            "use smaller blocks in the kernel, or another attention",
            "the memory grows with their product",
        )
        .with("pl.BlockSpec, block sizes of Splash or Flash attention"),
        Step::new(
            "raise-limit",
            "raise the compiler's limit on a kernel's on-chip memory",
            "by default it is a part of the core's memory",
        )
        .with("LIBTPU_INIT_ARGS=--xla_tpu_scoped_vmem_limit_kib=65536"),
    ];
    (because(Cause::KernelSharedMemory, text), steps)
}

/// Where the pool of a framework has less than this, somebody else has the GPU.
pub(super) fn tiny_pool(found: &Found) -> Option<u64> {
    let totals = found.events.iter().find(|event| event.id == "bfc-totals")?;
    totals.bytes("limit_raw").filter(|&limit| limit < SMALL_PROGRAM_BYTES)
}

/// The totals of an allocator, whose failure is not in the text.
fn totals(event: &Event) -> (Diagnosis, Vec<Step>) {
    let amount = |name| event.bytes(name).map_or_else(|| "an unknown amount".to_owned(), size);
    let text = format!(
        "TensorFlow's or JAX's allocator printed its totals, {} in use of {}, as it does when a request fails; the request itself is not in \
         the text",
        amount("used_raw"),
        amount("limit_raw")
    );
    let whole = Step::new("record", "include the lines after it", "the error names the tensor and its size");
    (because(Cause::Unknown, text), vec![shrink(), whole])
}

/// The workspace of `FlashInfer` has a fixed size.
fn flashinfer(event: &Event) -> (Diagnosis, Vec<Step>) {
    let left = event.bytes("left_raw").map_or_else(String::new, |left| format!(", with {} left in it", size(left)));
    let text = format!(
        "a kernel's plan needs a part{} of FlashInfer's workspace, more than it has{left}: it has a fixed size, and the GPU's memory is not full",
        asked(event)
    );
    let raise = Step::new("raise-limit", "give FlashInfer a larger workspace", "the engine allocates it at its start")
        .with("VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE (vLLM), SGLANG_FLASHINFER_WORKSPACE_SIZE (SGLang), in bytes");
    let fewer = Step::new("fewer-requests", "run fewer requests at once, or shorter ones", "the plan grows with them");
    (because(Cause::Limit, text), vec![raise, fewer])
}

fn onnxruntime(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let warm_up = Step::new(
        "warm-up",
        "where CUDA graphs are on, run each shape before its capture, and keep shapes and addresses the same",
        "during a capture nothing can be allocated, and the arena reports that as if memory had run out",
    )
    .with("enable_cuda_graph=0 to compare");
    if found.events.iter().any(|event| event.id == "capture") {
        let text = format!(
            "ONNX Runtime requested a buffer{} while a CUDA graph was captured, where CUDA refuses every allocation: the memory is not \
             full",
            asked(event)
        );
        return (because(Cause::NotMemory, text), vec![warm_up]);
    }
    let limit = event.bytes("available_raw").map(|bytes| format!("; {} was left of its limit", size(bytes)));
    let is_limited = event.id == "onnxruntime-limit";
    if !is_limited && event.requested().is_some_and(|bytes| bytes < LAST_STRAW_BYTES) {
        let text = format!(
            "ONNX Runtime could not allocate even a small buffer{}: the memory of its device was full already, of other sessions and threads of \
             the program, of this model, or of other programs (the host's memory, with the CPU provider)",
            asked(event)
        );
        let fewer = Step::new(
            "fewer-sessions",
            "run fewer sessions and threads at once",
            "each session has its own weights and arena, each run at the same time its own buffers, and an arena never releases memory",
        )
        .with("fewer execution threads or workers of the program; gpu_mem_limit for each session");
        return (because(Cause::TooBig, text), vec![fewer, end_others(None, found), smaller(), warm_up]);
    }
    let text = format!(
        "ONNX Runtime could not allocate a buffer{}: its arena is at its limit, or the memory of its device is full: the GPU's, or \
         the host's with the CPU provider{}",
        asked(event),
        limit.unwrap_or_default()
    );
    let arena = Step::new(
        "arena",
        "let the arena grow by the requested size, not by powers of two",
        "with powers of two it may request twice as much",
    )
    .with("arena_extend_strategy=kSameAsRequested, gpu_mem_limit");
    let workspace =
        Step::new("smaller-workspace", "give cuDNN a smaller workspace", "by default it may take all free memory")
            .with("cudnn_conv_use_max_workspace=0");
    let cause = if is_limited { Cause::Limit } else { Cause::TooBig };
    let raise = Step::new("raise-limit", "raise the arena's limit", "it is set by the program").with("gpu_mem_limit");
    let steps = is_limited.then_some(raise).into_iter().chain([arena, workspace, smaller(), warm_up]).collect();
    (because(cause, text), steps)
}

/// Its kernels run on the CPU.
fn onnxruntime_host(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "the host has no memory for a buffer of ONNX Runtime{}: the layout in the node's name is one of the CPU's kernels, so it is not the \
         GPU's memory",
        asked(event)
    );
    let arena = Step::new(
        "arena",
        "return memory to the system after each run",
        "the arena keeps the memory of its largest run",
    )
    .with("SessionOptions.enable_cpu_mem_arena = False, or enable_mem_pattern = False");
    (because(Cause::HostMemory, text), vec![smaller(), arena, more_host_memory()])
}

fn paddle(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let numbers = match (event.bytes("allocated"), event.bytes("free")) {
        (Some(allocated), Some(free)) => format!(": it has {}, and {} is free", size(allocated), size(free)),
        (None, Some(free)) => format!(": {} is free", size(free)),
        _ => ": the GPU is full".to_owned(),
    };
    let text = format!("PaddlePaddle could not allocate a buffer{}{numbers}", asked(event));
    let share =
        Step::new("smaller-share", "let Paddle allocate as it goes", "it may be set to take most of the GPU at once")
            .with("FLAGS_allocator_strategy=auto_growth");
    let smaller = Step::new(
        "shrink",
        "reduce the memory needed at once: a smaller batch, smaller images or shorter sequences",
        "the model's own tensors fill the GPU",
    );
    let steps = match event.bytes("allocated").zip(event.bytes("free")) {
        // Its own memory is most of the memory in use.
        Some((allocated, free)) if allocated > free => vec![smaller, end_others(None, found), share],
        _ if event.requested() >= Some(LARGE_BATCH_BYTES) => vec![smaller, end_others(None, found), share],
        _ => vec![end_others(None, found), smaller, share],
    };
    (because(Cause::TooBig, text), steps)
}

/// Requests of libraries whose error has no more than their size.
fn others(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let free = event.bytes("free").map_or_else(String::new, |free| format!(", {} of it is free", size(free)));
    let used = event.bytes("used").zip(event.bytes("total"));
    let free = used.map_or(free, |(used, total)| format!(", {} of {} is in use", size(used), size(total)));
    let text = format!("{} could not allocate a buffer{}: the device is full{free}", event.origin, asked(event));
    let step = match event.id {
        "xgboost" => Step::new(
            "split-request",
            "build a quantised matrix at once, from parts of the data, or train on fewer rows and columns",
            "a plain matrix is copied before it is quantised, so both exist at the same time",
        )
        .with("xgboost.QuantileDMatrix(iterator), max_bin=128, xgboost.ExtMemQuantileDMatrix"),
        "directml" if event.asked.loads() => Step::new(
            "less-weights",
            "run a smaller model, or one in 4 bits with a program that supports the GPU: its weights do not fit, and this buffer is one of many",
            "weights take 4 bytes for each parameter in float32, 2 in float16 and about half a byte in 4 bits; DirectML has no host memory to \
             fall back to",
        )
        .with("llama.cpp with Vulkan, or an int4 model of ONNX Runtime GenAI"),
        "directml" => Step::new(
            "shrink",
            "reduce the memory needed at once: 16 bits, a smaller model, fewer pixels, shorter sequences",
            "DirectML keeps freed memory to itself, and has no host memory to fall back to",
        )
        .with("torch_dtype=torch.float16, or --lowvram"),
        "cuda-jl" => Step::new(
            "free-pool",
            "release arrays that are no longer used, and the pool's cached memory",
            "Julia frees an array only when its garbage collector finds it",
        )
        .with("GC.gc(true); CUDA.reclaim(), or CUDA.unsafe_free!(array)"),
        "neuron" if event.asked.loads() => Step::new(
            "less-weights",
            "load less of the model on this NeuronCore: 16 or 8 bits for each weight, or its parts on several cores",
            "some releases of transformers reserve all of the weights in one block while they load, whatever the core has",
        )
        .with("a newer transformers; torch_dtype=torch.bfloat16, tensor parallelism over cores"),
        "neuron" => Step::new(
            "shrink",
            "reduce the memory needed at once: a smaller batch or shorter sequences, or parts of the model on more cores",
            "each NeuronCore has a memory of its own, which weights, graphs and tensors share",
        )
        .with("NEURON_RT_VISIBLE_CORES, tensor parallelism over cores"),
        "faiss" => Step::new(
            "smaller-workspace",
            "give Faiss less temporary memory, or store the vectors in 16 bits or quantised",
            "it reserves 1.5 GiB for itself, and an index lives on the GPU as a whole",
        )
        .with("StandardGpuResources.setTempMemory(256 << 20), GpuClonerOptions.useFloat16"),
        _ => Step::new(
            "shrink",
            "reduce the memory needed at once: a smaller batch, shorter sequences, or fewer cached graphs",
            "the device allocates one pool for graphs and tensors",
        )
        .with("--bf16, --limit_hpu_graphs (optimum-habana)"),
    };
    if event.id == "gaudi" && found.surroundings.loads_shards {
        let weights = Step::new(
            "less-weights",
            "spread the weights over several devices, or use a smaller model; in bfloat16 they take half of float32",
            "in float32 they take 4 bytes for each parameter, which is the default of many scripts; the first Gaudi has 32 GB, the second 96 GB",
        )
        .with("gaudi_spawn.py --use_deepspeed --world_size 8; --bf16");
        let text = format!("{text}; the log loads a checkpoint before it, so its weights are most of that");
        return (because(Cause::TooBig, text), vec![weights, step]);
    }
    let of_pytorch = !matches!(event.id, "cuda-jl" | "xgboost");
    let general = (!matches!(step.id, "shrink" | "less-weights")).then(if of_pytorch { shrink } else { smaller });
    (because(Cause::TooBig, text), [step].into_iter().chain(general).collect())
}

fn triton(event: &Event) -> (Diagnosis, Vec<Step>) {
    if let Some(resource) = event.text("resource").filter(|resource| *resource != "sharedmemory") {
        let text = format!(
            "a Triton kernel needs more {resource} than a multiprocessor of this GPU has: the GPU's main memory is not full, and a \
             smaller batch does not help"
        );
        return (because(Cause::KernelSharedMemory, text), vec![smaller_blocks()]);
    }
    let numbers = match (event.number("required"), event.number("limit")) {
        (Some(required), Some(limit)) => {
            format!(": it needs {required} bytes, and a multiprocessor of this GPU has {limit}")
        }
        _ => String::new(),
    };
    if event.number("required").is_some_and(|required| required > LARGEST_SHARED_MEMORY_BYTES) {
        let text = format!(
            "a Triton kernel needs more shared memory of a multiprocessor than any GPU has{numbers}; this is on-chip memory: the GPU's main \
             memory is not full"
        );
        let side = Step::new(
            "smaller-blocks",
            "use fewer stages and smaller blocks in the kernel's configurations, or make the dimension smaller that it keeps whole, such as the \
             size of a head or of a state",
            "no GPU has more than 227 KiB for one block, so another one does not help; a newer release of the library may have other configurations",
        );
        let side = side.with("num_stages=1, smaller BLOCK sizes in triton.Config; more and smaller heads");
        return (because(Cause::KernelSharedMemory, text), vec![side]);
    }
    let text = format!(
        "a Triton kernel needs more shared memory of a multiprocessor than this GPU has{numbers}; this is on-chip memory: the GPU's main \
         memory is not full, and a smaller batch does not help"
    );
    let steps = vec![
        smaller_blocks(),
        Step::new(
            "other-kernel",
            "update the library whose kernel it is, or choose another attention backend",
            "kernels tuned for data-centre GPUs (up to 227 KiB) do not fit others: 99 KiB of the RTX 30 series or newer, 64 KiB of the RTX 20 \
             series and the T4, which many kernels no longer support",
        ),
    ];
    (because(Cause::KernelSharedMemory, text), steps)
}

fn smaller_blocks() -> Step {
    Step::new(
        "smaller-blocks",
        "use smaller blocks or fewer stages in the kernel's configuration",
        "the memory grows with their product",
    )
    .with("num_stages=2, BLOCK_M=64, BLOCK_N=64")
}
