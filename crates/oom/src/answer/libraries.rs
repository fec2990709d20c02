//! Failures of libraries beside PyTorch's allocator.

use highwater_units::size;

use super::because;
use super::engines::end_others;
use super::flags::after_start;
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::{Event, Found};
use crate::steps::Step;

/// The answer to a failure of a library.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    let (diagnosis, mut steps) = match event.id {
        "async-bare" => asynchronous(found),
        "library-alloc" | "library-handle" | "library-workspace" => workspace(event),
        "nccl" => nccl(event),
        "cupy" => cupy(event),
        "rmm" => rmm(),
        "xla" | "tensorflow" => xla(event),
        "triton" => triton(event),
        "onnxruntime" | "gaudi" => other(event),
        "dispatched" => dispatched(),
        "runtime" => runtime(event, found),
        _ => return None,
    };
    // A server's own flags; a trainer is told to leave a margin.
    if let Some(engine) = found.engine.as_ref().filter(|_| event.id != "triton") {
        steps.extend(after_start(engine, None, None));
    }
    Some((diagnosis, steps))
}

fn asked(event: &Event) -> String {
    let bytes = event.bytes("raw").or_else(|| event.bytes("size"));
    bytes.map_or_else(String::new, |bytes| format!(" of {}", size(bytes)))
}

fn asynchronous(found: &Found) -> (Diagnosis, Vec<Step>) {
    let mut text = "the driver's own allocator (`backend:cudaMallocAsync`) refused a request: the model and its activations need more \
                    than the GPU has free; only the first line of the error is here, without its numbers"
        .to_owned();
    if found.surroundings.is_comfyui {
        text.push_str("; ComfyUI passes on no more");
    }
    let mut steps = Vec::new();
    if found.surroundings.is_comfyui {
        steps.push(
            Step::new(
                "offload",
                "keep less of the models on the GPU",
                "parts of a model then move to the GPU only while they compute; `--reserve-vram` leaves memory to other programs",
            )
            .with("python main.py --lowvram"),
        );
        steps.push(Step::new(
            "shrink",
            "lower the resolution, the number of frames or the batch size, or use a smaller model file (fp8, GGUF)",
            "activations grow with the number of pixels and frames",
        ));
        steps.push(
            Step::new(
                "record",
                "run once with PyTorch's own allocator: its message has the numbers",
                "the error then says who uses how much",
            )
            .with("python main.py --disable-cuda-malloc"),
        );
    } else {
        steps.push(Step::new(
            "shrink",
            "reduce the memory needed at once: a smaller batch, lower resolution or shorter sequences",
            "the text has no numbers, so it does not show by how much",
        ));
        steps.push(
            Step::new(
                "record",
                "give the lines behind it, or run once with PyTorch's own allocator",
                "its message has the numbers",
            )
            .with("remove `backend:cudaMallocAsync` from PYTORCH_CUDA_ALLOC_CONF"),
        );
    }
    (because(Cause::Unknown, text), steps)
}

/// To leave memory to libraries that take it from the driver themselves.
fn margin(why: &str) -> Step {
    Step::new("leave-margin", "keep PyTorch from filling the GPU: leave a margin for libraries", why)
        .with("torch.cuda.set_per_process_memory_fraction(0.95), or torch.cuda.empty_cache() before the first use")
}

fn shrink() -> Step {
    Step::new(
        "shrink",
        "reduce the memory that PyTorch needs: a smaller batch or shorter sequences",
        "the error has no numbers, so it does not show by how much",
    )
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
    let mut steps = vec![
        margin("PyTorch's cached memory counts as used for the library"),
        Step::new("look-at-device", "see which processes use the GPU's memory", "another process may have filled it")
            .with("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
        shrink(),
    ];
    if event.origin == "cuBLAS" {
        steps.insert(
            1,
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

fn nccl(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "NCCL could not allocate a buffer{}: it takes its memory from the driver, and PyTorch's allocator, whose cache counts as used, had \
         left too little",
        asked(event)
    );
    let steps = vec![
        margin("NCCL allocates at the first collective of each group, some hundreds of MiB for each"),
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
    (because(Cause::OutsidePyTorch, text), steps)
}

fn cupy(event: &Event) -> (Diagnosis, Vec<Step>) {
    let so_far =
        event.bytes("so_far_raw").map_or_else(String::new, |bytes| format!("; its pool had {} so far", size(bytes)));
    let limit = event.bytes("limit_raw").filter(|&bytes| bytes > 0);
    let (cause, limited) = match limit {
        Some(limit) => (Cause::Limit, format!(", with a limit of {}", size(limit))),
        None => (Cause::TooBig, String::new()),
    };
    let text = format!("CuPy could not allocate an array{}{so_far}{limited}", asked(event));
    let mut steps = vec![
        Step::new(
            "free-pool",
            "release CuPy's cached blocks, and PyTorch's if both are in the process",
            "each library's pool keeps freed memory to itself",
        )
        .with("cupy.get_default_memory_pool().free_all_blocks()"),
        Step::new("split-request", "work on the array in pieces", "one array and its copy have to fit at once"),
    ];
    if limit.is_some() {
        steps.insert(
            0,
            Step::new(
                "raise-limit",
                "raise or remove CuPy's limit",
                "it is set by the program or by `CUPY_GPU_MEMORY_LIMIT`",
            )
            .with("CUPY_GPU_MEMORY_LIMIT=100%"),
        );
    }
    (because(cause, text), steps)
}

fn rmm() -> (Diagnosis, Vec<Step>) {
    let text = "RMM, the allocator of RAPIDS, could not allocate: its pool is at its largest, or the GPU is full";
    let steps = vec![
        Step::new(
            "share-allocator",
            "let PyTorch and RAPIDS share one pool",
            "two pools in one process keep freed memory from each other",
        )
        .with("torch.cuda.memory.change_current_allocator(rmm.allocators.torch.rmm_torch_allocator)"),
        Step::new("managed-memory", "spill to the host's memory", "slower, but larger than the GPU")
            .with("rmm.reinitialize(managed_memory=True)"),
    ];
    (because(Cause::TooBig, text), steps)
}

fn xla(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} could not allocate a buffer{}: it reserves 75 % of the GPU at its start and takes the rest only with other settings",
        event.origin,
        asked(event)
    );
    let steps = vec![
        Step::new(
            "less-preallocation",
            "let JAX allocate as it goes where another library shares the GPU, or raise its share where it is alone",
            "0.75 is the default",
        )
        .with("XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_PYTHON_CLIENT_MEM_FRACTION=0.95"),
        Step::new(
            "shrink",
            "reduce the memory needed at once: a smaller batch, or rematerialisation",
            "the buffer is one of the compiled program's",
        )
        .with("jax.checkpoint"),
    ];
    (because(Cause::TooBig, text), steps)
}

fn triton(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = match (event.number("required"), event.number("limit")) {
        (Some(required), Some(limit)) => {
            format!(": it needs {required} bytes, and a multiprocessor of this GPU has {limit}")
        }
        _ => String::new(),
    };
    let text = format!(
        "a Triton kernel needs more shared memory of a multiprocessor than this GPU has{numbers}; this is on-chip memory: the GPU's main \
         memory is not full, and a smaller batch does not help"
    );
    let steps = vec![
        Step::new(
            "smaller-blocks",
            "use smaller blocks or fewer stages in the kernel's configuration",
            "the need is about their product",
        )
        .with("num_stages=2, BLOCK_M=64, BLOCK_N=64"),
        Step::new(
            "other-kernel",
            "update the library whose kernel it is, or choose another attention backend",
            "kernels tuned for data-centre GPUs (up to 227 KiB) do not fit others (99 KiB)",
        ),
    ];
    (because(Cause::KernelSharedMemory, text), steps)
}

fn other(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} could not allocate a buffer{} on the device: its arena is at its limit, or the device is full",
        event.origin,
        asked(event)
    );
    let step = match event.id {
        "gaudi" => Step::new(
            "shrink",
            "reduce the memory needed at once: a smaller batch, shorter sequences, or fewer cached graphs",
            "the device allocates one pool for graphs and tensors",
        )
        .with("PT_HPU_POOL_MEM_ACQUIRE_PERC=100"),
        _ => Step::new(
            "arena",
            "let the arena grow by the requested size, not by powers of two",
            "with powers of two it may request twice as much",
        )
        .with("arena_extend_strategy=kSameAsRequested, gpu_mem_limit"),
    };
    (because(Cause::TooBig, text), vec![step, shrink()])
}

fn dispatched() -> (Diagnosis, Vec<Step>) {
    let text = "the quantised model does not fit on the GPU: transformers would have to put some layers on the CPU or the disk, which this \
                quantisation does not allow";
    let steps = vec![
        Step::new(
            "free-gpu",
            "free the GPU of other processes and of earlier models, and load it on one GPU",
            "the map is made from the memory that is free at that moment",
        )
        .with("device_map={\"\": 0}"),
        Step::new("offload", "allow layers in 32 bits on the CPU", "they are slow there")
            .with("llm_int8_enable_fp32_cpu_offload=True"),
    ];
    (because(Cause::TooBig, text), steps)
}

fn runtime(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} reports that the GPU is out of memory, to a library other than PyTorch's allocator; the error has no numbers: the GPU was full, \
         or another process had filled it",
        event.origin
    );
    (
        because(Cause::OutsidePyTorch, text),
        vec![end_others(None, found), margin("PyTorch's cached memory counts as used for others"), shrink()],
    )
}
