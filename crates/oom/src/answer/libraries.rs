//! Failures of libraries beside PyTorch's allocator.

use highwater_units::size;

use super::added::state_on_host;
use super::engines::{CAPTURE, end_others};
use super::flags::{after_start, while_loading};
use super::{because, frameworks, general, llama, not_memory, refusals, vllm};
use crate::diagnosis::{Cause, Diagnosis};
use crate::engine::EngineLog;
use crate::known::ASYNCHRONOUS;
use crate::less::{WITHOUT_NUMBERS, less, less_of_asynchronous};
use crate::log::{Event, Found, Purpose, Side};
use crate::program::Program;
use crate::steps::Step;

/// The answer to a failure of a library.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    let (mut diagnosis, mut steps) = match event.id {
        _ if frameworks::is_of(event) => frameworks::explain(event, found)?,
        ASYNCHRONOUS => asynchronous(event, found),
        "library-alloc" | "library-handle" | "library-workspace"
            if found.surroundings.program == Some(Program::OnnxRuntime) =>
        {
            beside_arena(event, found)
        }
        "library-alloc" | "library-handle" | "library-set-up" if found.surroundings.has_faulted => {
            not_memory::after_fault(event)
        }
        "library-alloc" | "library-handle" | "library-workspace" if calls_cupy(event) => beside_cupy(event),
        "library-alloc" | "library-handle" | "library-workspace" => workspace(event),
        "library-set-up" => library_set_up(event),
        "ggml-pool" => ggml_pool(event),
        "ggml-buffer" => ggml_buffer(event),
        "nccl" => nccl(event),
        "nccl-space" => window_space(event),
        "npu" | "npu-context" => ascend(event),
        "no-batch-size" => no_batch_size(event),
        "evaluation" => evaluation(),
        "kernel" => kernel(event),
        "kernel-tensor-memory" => tensor_memory(event),
        "level-zero" => level_zero(event, found),
        "single-allocation" => single_allocation(event),
        "bare" => bare(event, found),
        "metal" => metal(found),
        "metal-buffers" => metal_buffers(event),
        "mps-buffer" => metal_buffer(event),
        "device-totals" => device_totals(event, found),
        "dispatched" if found.surroundings.lacks_gpu_build => not_memory::without_gpu_build(),
        "dispatched" => dispatched(),
        "set-up" | "general-set-up" => set_up(event.origin),
        "nvml-assert" => nvml_assert(found),
        "memory-saver" => return Some(memory_saver(found)),
        "runtime" => runtime(event, found),
        _ => return None,
    };
    // A server's own flags; a trainer is told to leave a margin.
    if let Some(engine) = &engine_of(event, found).filter(|_| event.id != "triton") {
        let of_engine = after_start(engine, None, None);
        if event.id == "bare" {
            // A server has no batch of its own to make smaller.
            steps.retain(|step| step.id == "record");
            let of_engine = if event.asked.loads() { while_loading(engine, None) } else { of_engine };
            steps.splice(..0, of_engine);
            if found.surroundings.captures_graphs && !event.asked.loads() {
                diagnosis = because(Cause::EngineShare, CAPTURE);
            }
        } else if !of_engine.is_empty() && steps.iter().any(|step| step.id == "leave-margin") {
            // Its share of the GPU is the margin, and these settings of a trainer are not the server's.
            steps.retain(|step| !["leave-margin", "shrink"].contains(&step.id));
            steps.splice(..0, of_engine);
        } else {
            steps.extend(of_engine);
        }
        // What came first decides which of them help.
        steps.sort_by_key(|step| step.id != "look-before");
    }
    Some((diagnosis, steps))
}

/// The engine that failed, by its lines or by the traceback before the failure; not where that is a trainer's.
fn engine_of(event: &Event, found: &Found) -> Option<EngineLog> {
    let named = match event.asked.side {
        Some(Side::Trainer) => return None,
        Some(Side::Engine(engine)) => Some(engine),
        None => found.surroundings.engine.filter(|_| event.id == "bare"),
    };
    let log = found.engine.clone().or_else(|| named.map(|_| EngineLog::default()))?;
    Some(EngineLog { engine: named.or(log.engine), ..log })
}

pub(super) fn asked(event: &Event) -> String {
    event.requested().map_or_else(String::new, |bytes| format!(" of {}", size(bytes)))
}

fn asynchronous(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let need = if event.asked.loads() {
        "a model that is loaded needs more than the GPU has free"
    } else {
        "the model and its activations need more than the GPU has free"
    };
    let text = format!(
        "the driver's own allocator (`backend:cudaMallocAsync`) refused a request: {need}; only the first line of the error is here, without its \
         numbers"
    );
    let mut steps = found.surroundings.own_steps(event.asked.purpose);
    if let Some(named) = found.surroundings.named.filter(|_| !steps.is_empty()) {
        steps.extend(named.of("numbers"));
    } else {
        steps.push(less_of_asynchronous(
            "the text has no numbers, so it does not show by how much; memory of the host does not count".to_owned(),
        ));
        steps.push(
            Step::new(
                "record",
                "include the lines after it, or run once with PyTorch's own allocator",
                "its message has the numbers",
            )
            .with("python main.py --disable-cuda-malloc (ComfyUI), or remove `backend:cudaMallocAsync` from PYTORCH_CUDA_ALLOC_CONF"),
        );
    }
    (because(Cause::Unknown, text), steps)
}

/// To leave memory to libraries that take it from the driver themselves.
pub(super) fn margin(why: &str) -> Step {
    Step::new("leave-margin", "keep PyTorch from filling the GPU: leave a margin for libraries", why)
        .with("torch.cuda.set_per_process_memory_fraction(0.95), or torch.cuda.empty_cache() before the first use")
}

pub(super) fn shrink() -> Step {
    Step::new("shrink", "reduce the memory that PyTorch needs: a smaller batch or shorter sequences", WITHOUT_NUMBERS)
}

fn workspace(event: &Event) -> (Diagnosis, Vec<Step>) {
    let what = match event.id {
        "library-handle" => "could not be set up: nearly always the GPU is full already",
        "library-workspace" => {
            "found no way to compute this within the memory that is left: nearly always its workspace did not fit"
        }
        _ => "could not allocate its workspace",
    };
    let text = format!(
        "{} {what}; it takes memory from the driver or after PyTorch's allocator has filled the GPU, and the error has no numbers",
        event.origin
    );
    // The GPU is full, whoever asks last: what the program needs comes before what its allocator keeps.
    let of_convolution = || {
        Step::new(
            "shrink",
            "compute on less at once: smaller or fewer images, or tiles of them one after another",
            "a convolution's workspace grows with its images; the error has no numbers, so it does not show by how much",
        )
    };
    let usual = || if event.origin.starts_with("cuDNN") { of_convolution() } else { shrink() };
    let first = event.asked.purpose.map_or_else(usual, |purpose| less(Some(purpose), None, WITHOUT_NUMBERS.to_owned()));
    let mut steps = vec![
        first,
        margin("PyTorch's cached memory counts as used for the library"),
        Step::new("look-at-device", "see which processes use the GPU's memory", "another process may have filled it")
            .with("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
    ];
    let is_forward = event.asked.innermost.as_ref().is_some_and(|frame| frame.function == "forward");
    if event.id == "library-handle" && event.origin == "cuBLAS" && event.asked.purpose.is_none() && is_forward {
        // At the first product of matrices in a forward pass little but the weights is there: a batch is not what fills the GPU. A
        // backward pass has handles of its own.
        steps.retain(|step| step.id != "look-at-device");
        let look = Step::new(
            "look-at-device",
            "see how much of each GPU is free, and who uses the rest",
            "it is set up at the first use on a GPU, when hardly more than the weights is there: choose one with room, or leave some",
        );
        steps
            .insert(0, look.with("nvidia-smi; CUDA_VISIBLE_DEVICES=N, or max_memory={0: \"20GiB\"} beside device_map"));
        steps.push(Step::new(
            "find-kernel",
            "if much is free, look for an earlier error: run once on the CPU, or with CUDA_LAUNCH_BLOCKING=1",
            "after an index out of range every call fails, this one too",
        ));
    } else if event.origin == "cuBLAS" {
        steps.insert(
            2,
            Step::new(
                "smaller-workspace",
                "give cuBLAS a smaller workspace",
                "by default it takes 8 to 32 MiB for each stream that uses it",
            )
            .with("CUBLAS_WORKSPACE_CONFIG=:4096:2"),
        );
    }
    (because(Cause::OutsidePyTorch, text), steps)
}

/// A library that cannot be set up, and does not say for want of what.
fn library_set_up(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} could not be set up, and its error does not say why: the GPU had no memory left for its handle, or the library does not fit the \
         GPU, the driver or PyTorch; the text does not decide it",
        event.origin
    );
    let look = Step::new(
        "look-at-device",
        "see how much of the GPU is free: a handle takes some hundred MiB at its first use",
        "a GPU that is nearly full explains it; PyTorch's cached memory counts as used",
    )
    .with("nvidia-smi; torch.cuda.mem_get_info() before the call");
    let install = Step::new(
        "matching-build",
        "if much is free, install a PyTorch that is built for this GPU and driver, and keep other releases of CUDA's libraries out of the path",
        "wrong results elsewhere point to that, too",
    )
    .with("python -m torch.utils.collect_env; unset LD_LIBRARY_PATH");
    let on_cpu = Step::new(
        "run-on-cpu",
        "until then, compute this one call on the CPU, or set the library up while the GPU is empty",
        "a small inverse or decomposition is as fast there",
    )
    .with("torch.linalg.inv(x.cpu()).to(x.device); torch.backends.cuda.preferred_linalg_library(\"magma\")");
    (because(Cause::Unknown, text), vec![look, install, on_cpu])
}

/// Whether `CuPy` called the library.
fn calls_cupy(event: &Event) -> bool {
    let mut frames = [&event.asked.innermost, &event.asked.own].into_iter().flatten();
    frames.any(|frame| ["cupy/", "cupy\\"].iter().any(|folder| frame.file.contains(folder)))
}

/// A library beside the pool of `CuPy`.
fn beside_cupy(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} could not allocate its workspace: it takes memory from the driver, and CuPy's pool, which keeps the memory of deleted arrays, had \
         left too little; the error has no numbers",
        event.origin
    );
    let free = Step::new(
        "free-pool",
        "release what CuPy's pool keeps before the call, or bound the pool",
        "the memory of deleted arrays stays in the pool until then",
    )
    .with("cupy.get_default_memory_pool().free_all_blocks(), or .set_limit(fraction=0.5)");
    let smaller = Step::new(
        "shrink",
        "compute on less at once: smaller arrays, or parts of one after another",
        "a workspace grows with its arrays, and some lengths of an FFT need several times the data",
    );
    (because(Cause::OutsidePyTorch, text), vec![free, smaller])
}

/// A library beside ONNX Runtime's arena.
fn beside_arena(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} could not allocate its workspace: ONNX Runtime's arenas (one for each session) or other programs fill the GPU",
        event.origin
    );
    let limit = Step::new(
        "arena",
        "bound the arena of each session, and run fewer sessions or threads",
        "an arena never releases memory",
    )
    .with("gpu_mem_limit, arena_extend_strategy=kSameAsRequested");
    (because(Cause::OutsidePyTorch, text), vec![end_others(None, found), limit, shrink()])
}

/// The pool for the descriptions of a graph's tensors has a size that is set when the program is built.
fn ggml_pool(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.bytes("needed_raw").zip(event.bytes("available_raw"));
    let numbers = numbers.map_or_else(String::new, |(needed, available)| {
        format!(": it needs {}, and has {}", size(needed), size(available))
    });
    let text = format!(
        "ggml's pool for the description of a graph is too small{numbers}; it has a fixed size, and no memory is full"
    );
    let smaller = Step::new(
        "shrink",
        "compute less at once: a smaller image, a shorter prompt or text",
        "the graph has an entry for each part",
    );
    let newer =
        Step::new("record", "use a newer release of the program", "the size of the pool is fixed in its source");
    (because(Cause::Limit, text), vec![smaller, newer])
}

/// A graph needs more than the graph that its buffer was measured for.
fn ggml_buffer(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.requested().zip(event.bytes("available_raw"));
    let numbers = numbers.map_or_else(String::new, |(needed, available)| {
        format!(": it needs {}, and {} is left", size(needed), size(available))
    });
    let text = format!(
        "a buffer of ggml, whose size was measured before, is too small for a tensor{numbers}; the GPU's memory is not full"
    );
    let newer = Step::new(
        "record",
        "use a newer release of the program",
        "it measured the graph wrongly for this input or this model",
    );
    let smaller = Step::new(
        "shrink",
        "compute less at once: a smaller image, a shorter prompt or text",
        "the tensors grow with it",
    );
    (because(Cause::Limit, text), vec![smaller, newer])
}

/// Calls that take down a job's groups of processes.
const TAKES_DOWN: [&str; 5] = [
    "destroy_process_group",
    "_shutdown_backend",
    "destroy_model_parallel",
    "destroy_distributed_environment",
    "_abort_process_group",
];

/// Whether a job was being taken down, which something else had ended before.
fn takes_down(event: &Event) -> bool {
    let mut frames = [&event.asked.innermost, &event.asked.own].into_iter().flatten();
    frames.any(|frame| TAKES_DOWN.contains(&frame.function.as_str()))
}

fn nccl(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "NCCL could not allocate a buffer{}{}: it takes its memory from the driver, and PyTorch's allocator, whose cache counts as used, had \
         left too little",
        asked(event),
        event.number("gpu").map_or_else(String::new, |gpu| format!(" on GPU {gpu} of its host"))
    );
    let of_gpu = event.number("gpu").map_or_else(|| "the GPU".to_owned(), |gpu| format!("GPU {gpu}"));
    let steps = vec![
        margin("NCCL allocates at the first collective of each group, a few hundred MiB each"),
        Step::new(
            "look-at-device",
            format!("see what fills {of_gpu}, and whether each rank has a GPU of its own"),
            "the other ranks then lose their connection to this one, which is no failure of the network",
        )
        .with("nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv; torch.cuda.set_device(local_rank)"),
        Step::new(
            "warm-up-nccl",
            "create the groups before the model is loaded",
            "one small collective of each group takes the buffers while the GPU is empty",
        )
        .with("torch.distributed.init_process_group(..., device_id=device)"),
        Step::new(
            "smaller-buffers",
            "give NCCL smaller or fewer buffers",
            "the default is 4 MiB for each channel and peer",
        )
        .with("NCCL_BUFFSIZE=2097152, or NCCL_MAX_NCHANNELS=8"),
        shrink(),
    ];
    if takes_down(event) {
        let text = "NCCL met a full GPU while the job was taken down: something had ended it before, most likely the same lack of memory, \
                    and that first error stands higher in the log; NCCL itself is not to blame";
        let look = Step::new(
            "look-before",
            "look for the first error before these lines, on any rank",
            "its numbers tell the cause; this one only follows from it",
        )
        .with("grep -n -m1 -i 'out of memory' LOG");
        let steps = steps.into_iter().filter(|step| ["leave-margin", "look-at-device", "shrink"].contains(&step.id));
        return (because(Cause::OutsidePyTorch, text), [look].into_iter().chain(steps).collect());
    }
    if event.asked.distributes_model() {
        // No batch is there yet.
        let first = less(
            Some(Purpose::Load),
            None,
            "each rank had its copy of the model on the GPU, and no batch yet".to_owned(),
        );
        let steps = steps.into_iter().filter(|step| step.id != "shrink");
        return (because(Cause::OutsidePyTorch, text), [first].into_iter().chain(steps).collect());
    }
    (because(Cause::OutsidePyTorch, text), steps)
}

/// The range of addresses that all ranks share.
fn window_space(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.bytes("size").zip(event.bytes("limit"));
    let numbers =
        numbers.map_or_else(String::new, |(asked, limit)| format!(": {} within {}", size(asked), size(limit)));
    let text = format!(
        "NCCL's range of addresses for symmetric memory has no room for another window{numbers}; these are addresses, and the GPU's memory \
         may not be full"
    );
    let fewer = Step::new(
        "fewer-windows",
        "register each buffer once, and deregister windows that are no longer used",
        "each registration takes its own range, even of the same memory",
    );
    let without =
        Step::new("other-allocator", "run without symmetric memory", "NCCL then copies through its own buffers")
            .with("NCCL_WIN_ENABLE=0");
    (because(Cause::Limit, text), vec![fewer, without])
}

fn ascend(event: &Event) -> (Diagnosis, Vec<Step>) {
    if event.id == "npu-context" {
        let text = "the device had no memory for the process's context, before the program allocated anything: other \
             processes have filled it";
        let look = Step::new(
            "end-process",
            "end other processes on the device, or use another device",
            "an earlier run may still be alive",
        )
        .with("npu-smi info");
        return (because(Cause::OtherProcess, text), vec![look]);
    }
    let text = format!(
        "the device had no memory{} for a user other than PyTorch's allocator: {} reports it for an operator's workspace, a graph or HCCL",
        asked(event),
        event.origin
    );
    let steps = vec![
        margin(
            "PyTorch's cached memory counts as used for operators; HCCL takes 200 MiB for each direction of each group",
        )
        .with("torch_npu.npu.set_per_process_memory_fraction(0.9), or HCCL_BUFFSIZE=100"),
        Step::new(
            "look-at-device",
            "see which processes use the device's memory",
            "another process may have filled it",
        )
        .with("npu-smi info"),
        shrink(),
    ];
    (because(Cause::OutsidePyTorch, text), steps)
}

/// The GPU of a Mac shares the host's memory, up to a limit.
pub(super) fn metal(found: &Found) -> (Diagnosis, Vec<Step>) {
    let text = "the GPU's work did not fit in the memory that macOS lets it use (about two thirds to three quarters of the Mac's): the model, \
                its cache and the activations share it with every other program";
    let steps = vec![
        Step::new(
            "shrink",
            "reduce the memory needed at once: a shorter context or fewer requests, a smaller prefill, fewer pixels or frames",
            "the weights stay; the rest of the memory grows with these",
        )
        .with(match found.surroundings.engine {
            Some("llama.cpp") => "-c 8192 --parallel 1 -ub 256",
            Some("ollama") => "OLLAMA_CONTEXT_LENGTH=4096 OLLAMA_NUM_PARALLEL=1",
            _ => "mlx_lm: --max-kv-size 8192, --prefill-step-size 512",
        }),
        Step::new("smaller-model", "use a smaller or more quantised model, and keep only one loaded", "all of its \
             weights are in memory"),
        Step::new("raise-limit", "let the GPU use more of the memory", "the system and other programs need the rest")
            .with("sudo sysctl iogpu.wired_limit_mb=N, with N in MiB"),
    ];
    (because(Cause::TooBig, text), steps)
}

/// The number of buffers has a limit, too.
fn metal_buffers(event: &Event) -> (Diagnosis, Vec<Step>) {
    let number = event.number("buffers").map_or_else(String::new, |number| format!(", {number}"));
    let text = format!(
        "the program reached the number of buffers that Metal allows a process{number}: MLX keeps freed buffers for later, and these count; \
         the memory itself may not be full"
    );
    let steps = vec![
        Step::new(
            "free-pool",
            "release MLX's freed buffers, or bound their memory",
            "a server keeps those of every past request",
        )
        .with("mx.clear_cache(), mx.set_cache_limit(4 << 30)"),
        Step::new(
            "shrink",
            "compute less at once: shorter prompts, a smaller prefill, fewer requests",
            "each array of a lazy graph has a buffer of its own",
        )
        .with("mlx_lm: --prefill-step-size 512"),
    ];
    (because(Cause::Limit, text), steps)
}

/// PyTorch's error without its message.
pub(super) fn bare(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    if let (Some(held), Some(limit)) = (event.bytes("allocated"), event.bytes("limit")) {
        let others = event.bytes("others").map_or_else(String::new, |bytes| format!(" and Metal {} more", size(bytes)));
        let text = format!(
            "the limit of MPS, {} (`PYTORCH_MPS_HIGH_WATERMARK_RATIO`), refused a request: PyTorch held {}{others}; the text ends before \
             the request's size",
            size(limit),
            size(held)
        );
        let raise = Step::new(
            "raise-limit",
            "raise the limit",
            "the default limit is about the machine's memory, and beyond it the system swaps",
        )
        .with("PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0");
        let steps = if found.surroundings.lowers_watermark { vec![raise, shrink()] } else { vec![shrink(), raise] };
        return (because(Cause::Limit, text), steps);
    }
    if general::is_of_checkpoint(event, found) {
        return general::gathered();
    }
    let joins = event.asked.joins_outputs();
    let text = if joins {
        "the evaluation keeps the outputs of all its batches on the GPU, and had no memory left to join them: they grow with the number of \
         samples, whatever the batch size; the text ends before the numbers"
    } else {
        "PyTorch's allocator refused a request; the text ends before the numbers, so it does not show why"
    };
    let cause = if joins { Cause::TooBig } else { Cause::Unknown };
    let shrink = match event.asked.purpose {
        Some(purpose) => less(Some(purpose), found.surroundings.is_training(), WITHOUT_NUMBERS.to_owned()),
        None => shrink(),
    };
    let whole = Step::new(
        "record",
        "include the whole line: the numbers in it show the cause",
        "they are the requested, free and reserved memory",
    );
    let gathers = event.asked.gathers_state().then(state_on_host);
    (because(cause, text), gathers.into_iter().chain([shrink, whole]).collect())
}

/// Only training searches for a batch that fits.
fn evaluation() -> (Diagnosis, Vec<Step>) {
    let text = "an evaluation between training steps ran out of memory; `auto_find_batch_size` changes only the batch of training, \
                and hides PyTorch's message";
    let smaller = Step::new(
        "shrink",
        "evaluate smaller batches, and move predictions to the host as they come",
        "by default all logits of an evaluation are kept on the GPU until its end",
    )
    .with("per_device_eval_batch_size=1, eval_accumulation_steps=1, prediction_loss_only=True");
    (because(Cause::TooBig, text), vec![smaller])
}

/// A kernel compiled at run time.
fn kernel(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = match (event.number("required"), event.number("limit"), event.bytes("size")) {
        (Some(required), Some(limit), _) => {
            format!(": it requests {required} bytes, and a multiprocessor of this GPU has {limit}")
        }
        (_, Some(limit), _) => format!(": a multiprocessor of this GPU has {limit} bytes"),
        (.., Some(required)) => format!(": it requests {}", size(required)),
        _ => String::new(),
    };
    let text = format!(
        "a kernel needs more shared memory of a multiprocessor than this GPU has{numbers}; this is on-chip memory: the GPU's main memory \
         is not full"
    );
    let smaller = Step::new("smaller-blocks", "give the kernel smaller blocks", "each block has its own part of it");
    // The argument of torch's own launcher.
    let smaller = if event.origin.starts_with("torch") { smaller.with("shared_mem= at its launch") } else { smaller };
    (because(Cause::KernelSharedMemory, text), vec![smaller])
}

/// Memory of Blackwell's multiprocessors for the results of matrix products.
fn tensor_memory(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.number("required").zip(event.number("limit"));
    let numbers = numbers.map_or_else(String::new, |(required, limit)| format!(": {required} columns of {limit}"));
    let text = format!(
        "a kernel needs more tensor memory of a multiprocessor than there is{numbers}; this is on-chip memory: the GPU's main memory is not \
         full"
    );
    let smaller = Step::new("smaller-blocks", "give the kernel smaller blocks", "each accumulator has its own columns");
    (because(Cause::KernelSharedMemory, text), vec![smaller])
}

/// Intel's driver, which PyTorch's own allocator passes on, too.
fn level_zero(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    if found.surroundings.program == Some(Program::Llama) {
        return llama::explain(event, found.engine.clone().unwrap_or_default(), found);
    }
    let text = format!(
        "{} had no memory for a request: this program needs more than there is, or other processes hold it; the \
         error has no numbers",
        event.origin
    );
    let end = end_others(None, found).with("xpu-smi ps");
    let mut steps = found.surroundings.own_steps(event.asked.purpose);
    if steps.is_empty() {
        steps.push(general::less(found.surroundings.program).unwrap_or_else(general::smaller));
    }
    let relax = Step::new(
        "relax-limits",
        "if one allocation is of 4 GiB or more, allow that",
        "the driver's default limit is 4 GiB for one allocation on several of Intel's GPUs",
    );
    steps.extend([end, relax.with("UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1")]);
    (because(Cause::TooBig, text), steps)
}

/// Releases of Intel's extension refuse it themselves, before the driver does.
fn single_allocation(event: &Event) -> (Diagnosis, Vec<Step>) {
    let limit = event.bytes("limit").map_or_else(String::new, |limit| format!(", {}", size(limit)));
    let text = format!(
        "one allocation{} is larger than the largest that the platform allows{limit}, however much is free",
        asked(event)
    );
    let split = Step::new(
        "split-request",
        "request less at once: a smaller batch, or the tensor in parts",
        "the limit is for one allocation, not for their sum",
    );
    let relax = Step::new(
        "relax-limits",
        "allow larger allocations, with a PyTorch that has XPU built in",
        "Intel's extension refuses them without asking the driver",
    );
    (because(Cause::Refused, text), vec![split, relax.with("UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1")])
}

/// `accelerate.utils.find_executable_batch_size` has halved it until nothing was left.
fn no_batch_size(event: &Event) -> (Diagnosis, Vec<Step>) {
    let is_lightning = event.origin == "Lightning";
    let (program, search) = if is_lightning {
        ("Lightning's search for a batch size", "Trainer.fit without BatchSizeFinder or Tuner.scale_batch_size")
    } else {
        ("Accelerate", "auto_find_batch_size=False")
    };
    let text = format!(
        "even a batch of 1 ran out of memory: {program} has halved the batch until nothing was left, and hides each error behind it"
    );
    let step = Step::new(
        "shrink",
        "reduce what does not depend on the batch: shorter sequences or smaller images, LoRA, a quantised or smaller \
         model, an 8-bit optimizer",
        "the weights, gradients and the optimizer's state alone may fill the GPU",
    );
    let look = Step::new(
        "record",
        "run once with a batch of 1 and without the search",
        "PyTorch's message then shows the numbers",
    )
    .with(search);
    (because(Cause::TooBig, text), vec![step, look])
}

fn metal_buffer(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "one tensor{} is larger than the largest buffer that Metal allows on this GPU, however much memory is free",
        asked(event)
    );
    let steps = vec![
        Step::new(
            "split-request",
            "request less at once: a smaller batch, shorter sequences, or attention in slices",
            "usually it holds all attention scores",
        ),
        Step::new("other-device", "run this part on the CPU", "its tensors have no such limit")
            .with("PYTORCH_ENABLE_MPS_FALLBACK=1"),
    ];
    (because(Cause::NeverFits, text), steps)
}

/// Frameworks whose error has a few totals.
fn device_totals(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let free = event.bytes("free").or_else(|| event.bytes("free_raw"));
    let free = free.map_or_else(String::new, |free| format!("; {} of it is free", size(free)));
    let total = event.bytes("total_raw").map_or_else(String::new, |total| format!(" in a device of {}", size(total)));
    let used =
        event.bytes("used").map_or_else(String::new, |used| format!("; the program itself holds {}", size(used)));
    let text =
        format!("{} could not allocate a buffer{}{total}: the device is full{free}{used}", event.origin, asked(event));
    let smaller = general::smaller();
    let smaller = Step { detail: "its own buffers and those of other programs share the device".to_owned(), ..smaller };
    (because(Cause::TooBig, text), vec![smaller, end_others(None, found)])
}

fn dispatched() -> (Diagnosis, Vec<Step>) {
    let text = "the quantised model does not fit on the GPU: transformers would have to put some layers on the CPU or the disk, which this \
                quantisation does not allow";
    let steps = vec![
        Step::new(
            "free-gpu",
            "free the GPU of other processes and of earlier models, and load it on one GPU",
            "the map depends on the free memory at that moment",
        )
        .with("device_map={\"\": 0}"),
        Step::new("offload", "allow layers in 32 bits on the CPU", "they are slow there")
            .with("llm_int8_enable_fp32_cpu_offload=True"),
    ];
    (because(Cause::TooBig, text), steps)
}

/// The driver had no memory for a process that had requested nothing yet.
pub(super) fn set_up(by: &str) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{by} could not set up this process on the GPU, before it requested anything: other processes have filled the \
         GPU, or the driver has no more \
         host memory for it (a limit of WSL, of a container, `ulimit -v`)"
    );
    let look =
        Step::new("look-at-device", "see which processes use the GPU's memory", "an earlier run may still be alive")
            .with("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv");
    let restart = Step::new(
        "restart-device",
        "in WSL, shut it down and give it more host memory; on one machine with many GPUs, show the process only those it needs",
        "the driver maps host memory for each GPU that is visible",
    )
    .with("wsl --shutdown, memory=48GB in .wslconfig; CUDA_VISIBLE_DEVICES=0");
    (because(Cause::Refused, text), vec![look, restart])
}

/// The allocator was out of memory, and could not ask NVML for its message.
fn nvml_assert(found: &Found) -> (Diagnosis, Vec<Step>) {
    let slice = found.surroundings.slice_gb.map_or_else(String::new, |gigabytes| {
        format!("; the slice of the GPU that the log names has {gigabytes} GB, whatever the whole GPU has")
    });
    let text = format!(
        "PyTorch's allocator was out of memory and failed while it made its message, since NVML does not answer for this GPU (a MIG \
         slice, a Jetson, a container without NVML): the numbers are lost{}{slice}",
        refusals::last_of(found).map_or_else(String::new, |numbers| format!("; {numbers}"))
    );
    let newer = Step::new("record", "use a newer torch, whose message does not need NVML", "it then has the numbers");
    (because(Cause::TooBig, text), vec![shrink(), newer])
}

/// `SGLang`'s sleep mode, and that of trainers that use it.
fn memory_saver(found: &Found) -> (Diagnosis, Vec<Step>) {
    let mut log = found.engine.clone().unwrap_or_default();
    log.engine.get_or_insert("sglang");
    vllm::cumem(&log, found)
}

/// Its error is the same while it loads and while it computes: the lines around it tell.
fn ctranslate2(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let fewer = Step::new(
        "shrink",
        "pass less to each call: fewer or shorter inputs, a smaller beam",
        "without `max_batch_size` a call computes all of its inputs as one batch, padded to the longest",
    )
    .with("max_batch_size=1024, batch_type=\"tokens\", or slices of the list; beam_size=1");
    let smaller =
        Step::new("smaller-model", "use a smaller model, or one with fewer bits", "all of the weights are on the GPU")
            .with("compute_type=\"int8_float16\"");
    let others = end_others(None, found);
    let is_whisper = matches!(found.surroundings.program, Some(Program::Whisper));
    let (text, steps) = if found.surroundings.calls_ctranslate2 {
        ("the GPU had no memory for CTranslate2's computation; the error has no numbers", vec![fewer, others, smaller])
    } else if event.asked.innermost.is_some() || is_whisper {
        (
            "the GPU had no memory for CTranslate2's weights or its computation; the error has no numbers",
            vec![smaller, fewer, others],
        )
    } else {
        (
            "the GPU had no memory for CTranslate2; the error is the same for its weights and for its computation, and has no numbers",
            vec![others, fewer, smaller],
        )
    };
    (because(Cause::TooBig, text), steps)
}

fn runtime(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    if found.surroundings.program == Some(Program::Llama) {
        return llama::explain(event, found.engine.clone().unwrap_or_default(), found);
    }
    if event.origin == "CTranslate2" {
        return ctranslate2(event, found);
    }
    if event.origin == "cudarc" {
        let text = "the GPU had no memory for a Rust program that uses CUDA by way of cudarc, as candle and burn do; the error has no numbers: \
                    the program needs more, or another process had filled the GPU";
        let smaller = Step::new(
            "shrink",
            "give the program less: a smaller batch, or a model with fewer bits",
            "candle keeps the graph of tensors that are made from variables: detach what is only kept",
        )
        .with("tensor.detach()");
        return (because(Cause::Unknown, text), vec![smaller, end_others(None, found)]);
    }
    // Runtimes that PyTorch does not allocate by.
    if matches!(event.origin, "Vulkan" | "OpenCL" | "OpenVINO") {
        return general::device(event, found);
    }
    let text = format!(
        "{} reports that the GPU is out of memory, to a library other than PyTorch's allocator; the error has no numbers: the GPU was full, \
         or another process had filled it",
        event.origin
    );
    let tool = matches!(event.origin, "HIP" | "ROCm" | "Triton (HIP)").then_some("rocm-smi --showpids");
    let end = end_others(None, found);
    let end = Step { change: tool.map(str::to_owned).or(end.change), ..end };
    let of_program = general::less(found.surroundings.program);
    // Programs of their own kind, without PyTorch.
    if matches!(found.surroundings.program, Some(Program::Molecules | Program::Renderer | Program::Video)) {
        return (because(Cause::OutsidePyTorch, text), of_program.into_iter().chain([end]).collect());
    }
    let own = found.surroundings.own_steps(event.asked.purpose);
    if !own.is_empty() {
        return (because(Cause::OutsidePyTorch, text), own.into_iter().chain([end]).collect());
    }
    let margin = margin("PyTorch's cached memory counts as used for others");
    let margin = Step { title: format!("if PyTorch is in the process, {}", margin.title), ..margin };
    let others = if matches!(event.origin, "Numba" | "Thrust" | "MXNet") {
        vec![end, general::smaller(), margin]
    } else {
        vec![end, margin, shrink()]
    };
    (because(Cause::OutsidePyTorch, text), of_program.into_iter().chain(others).collect())
}
