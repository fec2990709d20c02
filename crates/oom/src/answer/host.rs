//! Failures of the host's memory: the kernel's killer, workers, shared and pinned memory.

use highwater_units::size;

use super::strongest::KILL_LINES;
use super::{because, general};
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::{Event, Found};
use crate::program::Program;
use crate::steps::{Step, larger_page_file};

/// The answer to a failure of the host.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    let has = |id: &str| found.events.iter().any(|event| event.id == id);
    Some(match event.id {
        "worker-killed" => match event.text("signal").unwrap_or_default() {
            // A line may end behind the first word.
            signal if signal.starts_with("Bus") => shared_of_log(event, found),
            _ if has("shm") => shared_of_log(event, found),
            signal if signal.starts_with("Terminated") => terminated(event),
            "Segmentationfault" | "Segmentationfault." | "Aborted." | "Aborted" => crashed(event),
            _ => killed_worker(event),
        },
        "worker-exited" => exited_worker(event, found),
        "worker-died" => died_worker(event),
        "shm" | "shm-nccl" => shared_of_log(event, found),
        "bus-error" => bus_error(event),
        "pinned" if event.origin.starts_with("JAX") => pinned_by_jax(event.requested()),
        "pinned" if event.origin == "TensorFlow" => pinned_by_tensorflow(event.requested()),
        "pinned" | "pinned-nccl" => pinned_of(event.requested(), found),
        "pin-thread" => pin_thread(),
        "files" => open_files(event),
        "managed" if event.origin == "CUDA" => managed_by_cuda(),
        "managed" if event.origin.contains("XLA") => managed_by_xla(event.requested()),
        "managed" => managed(),
        "host-buffer" => host_buffer(),
        "memlock" => locked(event),
        "jit" => jit(found),
        "host-allocator" => match found.surroundings.program {
            program if event.origin == "Java" => general::of_host(event, program),
            _ if event.origin == "ggml" => general::of_host(event, Some(Program::Llama)),
            Some(Program::Llama | Program::Whisper) => general::of_host(event, found.surroundings.program),
            _ => allocator(event, found),
        },
        "page-file" => page_file(event, found),
        "oom-kill" | "limit-kill" | "sigkill" if found.surroundings.program == Some(Program::Compiler) => {
            general::compiler()
        }
        "oom-kill" => killed(event, found),
        "limit-kill" => killed_at_limit(event, found),
        "sigkill" => ended_by_signal(event, found),
        "launcher-kill" => launcher(found),
        _ => return None,
    })
}

/// A single tensor of a model is smaller.
const LARGEST_WEIGHT_BYTES: u64 = 16 << 30;

fn process(event: &Event) -> String {
    match (event.number("pid"), event.text("name")) {
        (Some(pid), Some(name)) => format!("process {pid} ({name})"),
        (Some(pid), None) => format!("process {pid}"),
        _ => "the process".to_owned(),
    }
}

pub(super) fn less_host_memory() -> Step {
    Step::new(
        "less-host-memory",
        "use less of the host's memory: fewer workers, smaller batches in flight, no whole data set in Python lists",
        "each worker is a process: Python objects of the data set are copied as their reference counts change",
    )
    .with("num_workers=2, prefetch_factor=2")
}

pub(super) fn more_host_memory() -> Step {
    Step::new(
        "more-host-memory",
        "request more host memory for the job or container",
        "loading a checkpoint takes its size once for each process, unless it is mapped or sharded",
    )
    .with("--mem=64G (Slurm), --memory 64g (Docker), resources.limits.memory (Kubernetes)")
}

/// The same, of a service with machines of its own.
fn more_of(origin: &str) -> Step {
    let step = more_host_memory();
    match origin {
        "Colab" => step.with("Runtime, Change runtime type: High-RAM, or another GPU, whose machine has more"),
        "Kaggle" => step.with("another accelerator in the notebook's settings, if its machine has more"),
        _ => step,
    }
}

fn look_at_kernel() -> Step {
    Step::new(
        "look-at-kernel",
        "see which process the kernel killed, and with how much memory",
        "it says so in its log, also for a container",
    )
    .with("dmesg -T | grep -i -E 'killed process|oom-kill'")
}

fn killed_worker(event: &Event) -> (Diagnosis, Vec<Step>) {
    let (text, steps) = if event.id == "worker-killed" {
        (
            format!(
                "the system killed a DataLoader worker, {}: the host ran out of memory, not the GPU",
                process(event)
            ),
            vec![less_host_memory(), more_host_memory(), look_at_kernel()],
        )
    } else {
        (
            format!(
                "a DataLoader worker, {}, ended without a message, usually because the host ran out of memory",
                process(event)
            ),
            vec![
                look_at_kernel(),
                Step::new(
                    "without-workers",
                    "run once without workers: the worker's own error then appears",
                    "an error in native code also ends a worker",
                )
                .with("num_workers=0"),
                less_host_memory(),
            ],
        )
    };
    (because(Cause::HostMemory, text), steps)
}

/// The same, where it may have been in a container, whose shared memory is small.
fn exited_worker(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let (mut diagnosis, mut steps) = killed_worker(event);
    if found.surroundings.is_contained && event.origin == "torch" {
        diagnosis
            .text
            .push_str(", or because the container's shared memory (/dev/shm, 64 MiB unless it is set) was full");
        let (_, shared) = shared(event);
        steps.splice(0..0, shared.into_iter().take(1));
    }
    (diagnosis, steps)
}

/// Its own text says why, where no error stands before.
fn died_worker(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "a background worker of {} is gone: if the text has no error of its own before this line, the system killed it because the host ran \
         out of memory",
        event.origin
    );
    (because(Cause::HostMemory, text), vec![less_host_memory(), more_host_memory(), look_at_kernel()])
}

fn terminated(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "a DataLoader worker, {}, was ended by SIGTERM: a launcher, a scheduler or a person sent it, which does not \
         suggest that memory ran out",
        process(event)
    );
    let step = Step::new(
        "look-before",
        "look for the first error of any rank before this line",
        "launchers end all processes after one has failed",
    );
    (because(Cause::Unknown, text), vec![step])
}

fn crashed(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "a DataLoader worker, {}, crashed in native code: this signal does not suggest that memory ran out",
        process(event)
    );
    let step = Step::new(
        "without-workers",
        "run once without workers, with Python's fault handler",
        "the stack then shows the library",
    )
    .with("num_workers=0, python -X faulthandler");
    (because(Cause::Unknown, text), vec![step])
}

fn shared_of_log(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let (mut diagnosis, mut steps) = shared(event);
    if found.surroundings.shows_free_shared_memory {
        diagnosis.notes.push(
            "the log's `df` shows room in /dev/shm: the files of workers are gone once these have ended, and a container has a /dev/shm of \
             its own, which `df` on the host does not show"
                .to_owned(),
        );
        let look = Step::new(
            "look-at-shared-memory",
            "look at /dev/shm while the program runs, in its own container: its bytes and its number of files",
            "each is full at a limit of its own",
        );
        steps.insert(1, look.with("watch -n 1 'df -h /dev/shm; df -i /dev/shm'"));
    }
    (diagnosis, steps)
}

pub(super) fn shared(event: &Event) -> (Diagnosis, Vec<Step>) {
    let asked = event.bytes("raw").map_or_else(String::new, |bytes| format!(", here {}", size(bytes)));
    let who = match event.origin {
        _ if event.id == "shm-nccl" => "NCCL's buffers between processes",
        "Python" => "locks and queues between processes",
        "Triton Inference Server" => "data between the server and each instance of a Python backend, 64 MiB each,",
        _ => "batches from workers",
    };
    let text = format!(
        "the host's shared memory (/dev/shm) is full: {who} go through it{asked}; in a container it has 64 MiB unless it is set"
    );
    let steps = vec![
        Step::new(
            "more-shared-memory",
            "give the container more shared memory",
            "the host's limit is half of its memory",
        )
        .with("docker run --shm-size=16g, or --ipc=host; in Kubernetes an emptyDir with medium: Memory at /dev/shm"),
        Step::new("other-sharing", "pass batches in files, or use fewer workers", "slower, but without this limit")
            .with("torch.multiprocessing.set_sharing_strategy('file_system')"),
    ];
    let steps = if event.id == "shm-nccl" {
        let without = Step::new(
            "other-sharing",
            "remove segments that killed runs left behind, or let NCCL copy through sockets",
            "slower, but without this limit",
        );
        steps.into_iter().take(1).chain([without.with("rm /dev/shm/nccl-*; NCCL_SHM_DISABLE=1")]).collect()
    } else {
        steps
    };
    (because(Cause::SharedMemory, text), steps)
}

/// Signal 7: a page of mapped memory could not be had.
fn bus_error(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} was ended by signal 7, a bus error: usually because the host's shared memory (/dev/shm) was full, \
         through which NCCL and DataLoader workers exchange data, or a mapped file was cut short on a full disk",
        process(event)
    );
    let (_, steps) = shared(event);
    (because(Cause::SharedMemory, text), steps)
}

pub(super) fn pinned(requested: Option<u64>) -> (Diagnosis, Vec<Step>) {
    let asked = requested.map_or_else(String::new, |bytes| format!(", here {},", size(bytes)));
    let text = format!(
        "page-locked (pinned) host memory{asked} could not be allocated: it cannot be swapped, and counts in full against the \
         host's and the container's limit"
    );
    let steps = vec![
        Step::new(
            "less-pinned-memory",
            "pin less: no pinned batches, or fewer of them in flight",
            "sizes are rounded up to powers of two",
        )
        .with("pin_memory=False, or PYTORCH_CUDA_ALLOC_CONF=pinned_use_cuda_host_register:True"),
        less_host_memory(),
    ];
    (because(Cause::HostMemory, text), steps)
}

/// The same, where the log says who pins, and on which system.
pub(super) fn pinned_of(requested: Option<u64>, found: &Found) -> (Diagnosis, Vec<Step>) {
    let (mut diagnosis, mut steps) = pinned(requested);
    let surroundings = &found.surroundings;
    if surroundings.is_wsl {
        diagnosis
            .notes
            .push("WSL lets processes lock only a part of its memory, however much of it is free".to_owned());
        // Free memory is not the limit.
        steps.truncate(1);
    }
    if surroundings.offloads_to_host
        && let Some(first) = steps.first_mut()
    {
        "offload to memory that is not pinned".clone_into(&mut first.title);
        "copies to and from the GPU are then slower".clone_into(&mut first.detail);
        first.change = Some("\"pin_memory\": false in offload_optimizer and offload_param (DeepSpeed)".to_owned());
    }
    if surroundings.is_wsl {
        let native = Step::new(
            "other-system",
            "give WSL more memory, or run on native Linux",
            "WSL can lock only a part of its memory",
        );
        steps.push(native.with("memory=48GB in .wslconfig, then wsl --shutdown"));
    }
    (diagnosis, steps)
}

/// The pool of `TensorFlow`, and of JAX up to 2023, for transfers.
fn pinned_by_tensorflow(requested: Option<u64>) -> (Diagnosis, Vec<Step>) {
    let (diagnosis, _) = pinned(requested);
    let less = Step::new(
        "less-pinned-memory",
        "keep less on its way to the GPU: a smaller batch, fewer prefetched batches, large arrays in parts",
        "the framework copies through a pool of pinned memory, which keeps its largest size",
    );
    let more =
        Step { title: "give the job, the container or WSL more of the host's memory".to_owned(), ..more_host_memory() };
    let more = Step { detail: "WSL has half of the machine's memory unless it is set".to_owned(), ..more };
    (diagnosis, vec![less, more.with("memory=48GB in .wslconfig, then wsl --shutdown; --memory 64g (Docker)")])
}

/// The pool of JAX for transfers and for arrays in the host's memory.
fn pinned_by_jax(requested: Option<u64>) -> (Diagnosis, Vec<Step>) {
    let asked = requested.map_or_else(String::new, |bytes| format!(" for a request of {}", size(bytes)));
    let text = format!(
        "JAX's pool of page-locked (pinned) host memory has no room{asked}: it is at its limit, 64 GiB unless it is set, or the host \
         or the container has no more memory to pin; it is not the GPU's memory"
    );
    let steps = vec![
        Step::new(
            "raise-limit",
            "raise the pool's limit, if the host has the memory",
            "it is in GiB, for each process",
        )
        .with("XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB=128"),
        Step::new(
            "less-pinned-memory",
            "offload less to the host, and keep fewer transfers in flight",
            "arrays in `pinned_host` memory, checkpoints and offloaded activations are all in this pool",
        ),
        more_host_memory(),
    ];
    (because(Cause::HostMemory, text), steps)
}

/// The thread that pins batches has ended: of what, stands before.
fn pin_thread() -> (Diagnosis, Vec<Step>) {
    let text = "the thread that copies batches to pinned memory ended with an error that is not in this text: a \
         worker that was killed, \
                shared memory that is full, or memory that could not be pinned";
    let steps = vec![
        Step::new("look-before", "look for the first error before this line", "this line only follows from it"),
        Step::new("without-workers", "run once without workers and pinned memory", "the error itself then appears")
            .with("num_workers=0, pin_memory=False"),
    ];
    (because(Cause::Unknown, text), steps)
}

/// Each tensor that a worker hands over keeps a file open.
fn open_files(event: &Event) -> (Diagnosis, Vec<Step>) {
    let or_full = if event.origin.contains("up to") { ", or /dev/shm is full" } else { "" };
    let text = format!(
        "the process has too many open files{or_full}: each tensor from a DataLoader worker keeps one open, and \
         batches that are \
         kept, such as in a list, never close theirs; no memory is full"
    );
    let steps = vec![
        Step::new("raise-limit", "raise the limit of open files", "1,024 is a usual default").with("ulimit -n 65536"),
        Step::new(
            "other-sharing",
            "pass batches by file name, and keep copies of tensors instead of the tensors",
            "then none stays open",
        )
        .with("torch.multiprocessing.set_sharing_strategy('file_system'), batch.clone()"),
    ];
    (because(Cause::Limit, text), steps)
}

/// Memory that the driver moves between the host and the GPU.
fn managed() -> (Diagnosis, Vec<Step>) {
    let text = "bitsandbytes could not allocate managed memory, where its paged optimizers keep their state: it is memory of the host that \
                the driver moves to the GPU, and WSL, containers and some drivers limit it";
    let steps = vec![
        Step::new(
            "other-optimizer",
            "use the 8-bit optimizer that is not paged",
            "its state then takes 2 bytes per parameter on the GPU",
        )
        .with("optim=\"adamw_bnb_8bit\", or bitsandbytes.optim.AdamW8bit"),
        more_host_memory().with("memory=48GB in .wslconfig, then wsl --shutdown; --memory 64g (Docker)"),
    ];
    (because(Cause::HostMemory, text), steps)
}

/// The pool of XLA where the host's memory is to extend the GPU's.
fn managed_by_xla(requested: Option<u64>) -> (Diagnosis, Vec<Step>) {
    let asked = requested.map_or_else(String::new, |bytes| format!(" of {}", size(bytes)));
    let text = format!(
        "XLA's allocator could not take a pool{asked} of unified memory, which `TF_FORCE_UNIFIED_MEMORY` requests: it is the GPU's share times \
         the memory fraction, and the host must be able to hold what exceeds the GPU"
    );
    let less = Step::new(
        "lower-share",
        "lower the memory fraction, or give the job more of the host's memory",
        "above 1 it counts on the host; WSL, containers and Colab have little of it",
    );
    (because(Cause::HostMemory, text), vec![less.with("XLA_PYTHON_CLIENT_MEM_FRACTION=2.0"), more_host_memory()])
}

fn managed_by_cuda() -> (Diagnosis, Vec<Step>) {
    let text = "CUDA could not allocate managed memory: it may be larger than the GPU's, but the host must be able to hold it beside \
                everything else, and WSL, containers and some drivers limit it";
    let split = Step::new(
        "split-request",
        "process the data in pieces",
        "copies and temporary buffers of an algorithm count, too",
    );
    (because(Cause::HostMemory, text), vec![split, more_host_memory()])
}

/// Weights that `ComfyUI` reads straight into pinned memory.
fn host_buffer() -> (Diagnosis, Vec<Step>) {
    let text = "ComfyUI could not read a model's weights into its pinned buffer of the host's memory: pinned memory cannot be swapped, and \
                the buffer, or the copy from it to the GPU, found no more memory";
    let without = Step::new(
        "less-pinned-memory",
        "run without pinned memory",
        "weights then go through memory that can be swapped, which is slower",
    );
    (because(Cause::HostMemory, text), vec![without.with("python main.py --disable-pinned-memory"), more_host_memory()])
}

/// Lines that may stand between the beginning of a model's load and the word of its end.
const LOADING_LINES: u64 = 6;
/// The same of a checkpoint that is saved: the launcher's traceback stands between them.
const SAVING_LINES: u64 = 40;

/// The limit on memory that may not be swapped.
fn locked(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "{} could not lock host memory for InfiniBand's queues and buffers: the limit on locked memory (`ulimit -l`) is too small, \
         as in containers and under Slurm by default; no memory is full",
        event.origin
    );
    let steps = vec![
        Step::new(
            "raise-limit",
            "remove the limit on locked memory",
            "every queue and every registered buffer \
             counts",
        )
        .with("ulimit -l unlimited; docker run --ulimit memlock=-1:-1; PropagateResourceLimitsExcept=MEMLOCK (Slurm)"),
        Step::new("without-rdma", "run once without InfiniBand, to see whether the rest works", "it is then slower")
            .with("NCCL_IB_DISABLE=1"),
    ];
    (because(Cause::Limit, text), steps)
}

fn page_file(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let asked = event.requested().map_or_else(String::new, |bytes| format!(" for a request of {}", size(bytes)));
    let text = format!(
        "Windows has no memory left to commit{asked}: its paging file is too small; a commit counts in full when it is made, so this comes \
                before the memory is in use, and each process that imports torch commits several GiB for its libraries"
    );
    let mut steps = vec![larger_page_file(), less_host_memory()];
    let mut frames = [&event.asked.innermost, &event.asked.own].into_iter().flatten();
    let is_spawned = frames.any(|frame| frame.file.ends_with("spawn.py"));
    if event.text("library").is_some() && (found.surroundings.trains || is_spawned) {
        // A process was importing it, and each worker imports it again.
        let fewer = Step::new(
            "less-host-memory",
            "use fewer data loader workers",
            "on Windows each worker is a new process that imports torch and commits memory for its libraries; with 0 workers, the main \
             process reads the data",
        );
        steps.truncate(1);
        steps.insert(0, fewer.with("num_workers=0, then 1 or 2"));
    }
    (because(Cause::HostMemory, text), steps)
}

fn allocator(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let is_windows = found.surroundings.is_windows;
    if event.origin == "ptxas" {
        let text = "the host had no memory for ptxas, the compiler of CUDA kernels, while the program ran: this is the CPU's memory, not the \
                    GPU's";
        let of_windows = is_windows.then(larger_page_file);
        let steps = of_windows.into_iter().chain([less_host_memory(), more_host_memory()]).collect();
        return (because(Cause::HostMemory, text), steps);
    }
    let asked = event.requested().map_or_else(String::new, |bytes| format!(" of {}", size(bytes)));
    let text = format!("the host has no memory for a tensor or array{asked}: this is the CPU's memory, not the GPU's");
    let in_parts = Step::new(
        "load-in-parts",
        "load checkpoints mapped and in parts, or on the GPU at once",
        "offloading of optimizer and parameters needs it on the host for every process",
    )
    .with("torch.load(path, mmap=True), low_cpu_mem_usage=True");
    // No weight is so large, and a traceback that does not load names what does.
    let is_computed = ["NumPy", "PaddlePaddle"].contains(&event.origin)
        || event.asked.innermost.is_some()
        || event.requested() >= Some(LARGEST_WEIGHT_BYTES);
    let first = if is_computed && !event.asked.loads() {
        Step::new(
            "shrink",
            "compute on less at once: a smaller batch, a smaller or shorter input, tiles or chunks",
            "each tensor must fit in memory as a whole",
        )
    } else {
        in_parts
    };
    let mut steps = vec![first, less_host_memory(), more_host_memory()];
    if is_windows {
        // It commits every request in full.
        steps.insert(usize::from(steps[0].id == "shrink"), larger_page_file());
    }
    (because(Cause::HostMemory, text), steps)
}

/// LLVM, in a build or in a program that compiles kernels while it runs.
fn jit(found: &Found) -> (Diagnosis, Vec<Step>) {
    if found.surroundings.program == Some(Program::Compiler) {
        return general::compiler();
    }
    if found.surroundings.compiles_opencl {
        let text = "the compiler of the OpenCL driver, which is LLVM, ended the program while it compiled a kernel: its message speaks of \
                    memory, but compiling needs little of the host's and none of the GPU's, so this is usually a bug of the library, \
                    the compiler or the driver";
        let other = Step::new(
            "other-kernel",
            "compile another kernel: turn double precision off, or use another device type of the library",
            "kernels in double precision and in single precision are different code",
        )
        .with("gpu_use_dp=False, device_type=\"cuda\" or \"cpu\" (LightGBM)");
        let newer = Step::new(
            "newer-release",
            "use another release of the library, or another driver or OpenCL platform",
            "a second LLVM in the process, such as that of another OpenCL platform, fails like this",
        );
        return (because(Cause::NotMemory, text), vec![other, newer.with("clinfo -l; OCL_ICD_VENDORS=nvidia.icd")]);
    }
    let text = "LLVM could not allocate host memory while the program compiled code: the host, a container or `ulimit -v` has too little, or \
                the compiler requested a size that is wrong; it is not the GPU's memory";
    let look = Step::new(
        "look-at-device",
        "see how much of the host's memory is free while it compiles, and which limits the process has",
        "where much is free, a bug of the compiler or of its caller is more likely: another release of either helps",
    )
    .with("free -h; ulimit -v; cat /sys/fs/cgroup/memory.max");
    (because(Cause::HostMemory, text), vec![look, more_host_memory()])
}

/// Memory that the killed process held; kernels up to 4 print it in another line than the limit.
fn resident_bytes(event: &Event, found: &Found) -> Option<u64> {
    let own = |event: &Event| {
        let of_kernel = event.number("raw_kb").map(|kib| kib.saturating_mul(1024));
        of_kernel.or_else(|| event.bytes("used"))
    };
    let of_same = || {
        let pid = event.number("pid")?;
        let near = |other: &&Event| other.number("pid") == Some(pid) && other.line.abs_diff(event.line) <= KILL_LINES;
        found.events.iter().filter(near).find_map(own)
    };
    own(event).or_else(of_same)
}

fn killed(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let held = resident_bytes(event, found).map_or_else(String::new, |bytes| format!(", which held {}", size(bytes)));
    let of_node = event
        .bytes("node_used")
        .zip(event.bytes("node"))
        .map_or_else(String::new, |(used, all)| format!(": {} of the node's {} was in use", size(used), size(all)));
    if event.origin == "Kubernetes" {
        let text = format!(
            "the node ran out of memory, and Kubernetes ended {}{held}: this is not GPU memory; pods that use more than they request go first",
            if event.number("pid").is_some() { process(event) } else { "pods on it".to_owned() }
        );
        let request = Step::new(
            "request-memory",
            "request as much memory for the pod as it uses, so that it gets a node with room and is not the first to go",
            "`kubectl top pod` shows the use; other pods of the node count, too",
        );
        return (because(Cause::HostMemory, text), vec![request.with("resources.requests.memory"), less_host_memory()]);
    }
    let by = if event.origin.starts_with("Ray") { "Ray" } else { "the system" };
    let text = format!(
        "the host ran out of memory, and {by} killed {}{held}{of_node}: this is not GPU memory",
        process(event)
    );
    let less = if by == "Ray" { fewer_tasks() } else { less_host_memory() };
    let mut steps = vec![less, more_of(event.origin)];
    if by != "Ray" && was_loading(event, found) {
        steps.insert(0, load_in_parts());
    } else if by != "Ray" && was_saving(event, found) {
        steps.insert(0, save_less());
    } else if by != "Ray" && found.surroundings.offloads_to_host {
        steps.insert(0, offload_less());
    }
    (because(Cause::HostMemory, text), steps)
}

/// The host's memory in use before a kill, where the log has it.
fn host_use(found: &Found) -> String {
    found.host_use.map_or_else(String::new, |(bytes, tenths)| {
        format!(", after the host had {} in use, {}.{} % of its memory", size(bytes), tenths / 10, tenths % 10)
    })
}

/// Whether a model was being loaded when a process was killed: its shards had not all come, or little was printed since it began.
fn was_loading(event: &Event, found: &Found) -> bool {
    let surroundings = &found.surroundings;
    let began = surroundings.loading_line;
    let is_near = began > 0 && (began..=began + LOADING_LINES).contains(&event.line);
    surroundings.is_loading_shards || is_near && !surroundings.loads_shards
}

/// Whether a checkpoint was being saved when a process was killed.
fn was_saving(event: &Event, found: &Found) -> bool {
    let began = found.saving_line;
    began > 0 && (began..=began + SAVING_LINES).contains(&event.line)
}

/// A checkpoint need not be whole in the host's memory.
fn save_less() -> Step {
    Step::new(
        "save-less",
        "save less at once: the trained weights or adapters alone, or each rank's part in a file of its own",
        "the log saves a checkpoint before it: weights and optimizer state are gathered in the host's memory, beside what is offloaded there, \
         and copied once more while they are written",
    )
    .with("model.save_pretrained(...) of the adapters instead of accelerator.save_state(...); save_only_model=True (transformers); \
           stage3_gather_16bit_weights_on_model_save=false, torch.distributed.checkpoint")
}

/// Ray ends a worker before the system does, at 95 % of the node's memory.
fn fewer_tasks() -> Step {
    Step::new(
        "less-host-memory",
        "run fewer tasks and actors at once on each node, or give them nodes with more memory",
        "Ray ends workers at 95 % of a node's memory; a task that requests more CPUs or memory shares its node with fewer",
    )
    .with("@ray.remote(num_cpus=4, memory=8 * 2**30); RAY_memory_usage_threshold=0.98 moves the limit")
}

/// The limit that a job or container has, by its killer or by its description.
fn limit_of(event: &Event, found: &Found) -> Option<u64> {
    let of_killer = event.bytes("limit");
    let in_kib = || {
        // The kernel prints it in a line before the one with the process.
        let before = |other: &&Event| (event.line.saturating_sub(KILL_LINES)..=event.line).contains(&other.line);
        let kills = found.events.iter().filter(|other| other.id == event.id && before(other));
        let nearest = kills.filter(|kill| kill.number("limit_kb").is_some()).max_by_key(|kill| kill.line)?;
        nearest.number("limit_kb")?.checked_mul(1024)
    };
    of_killer.or_else(in_kib).or(found.surroundings.memory_limit_bytes)
}

/// To raise a limit that is known.
fn raise_limit(limit: Option<u64>) -> Step {
    let step = more_host_memory();
    let Some(limit) = limit else { return step };
    let step = Step { detail: format!("its limit is {}; {}", size(limit), step.detail), ..step };
    // An example below the limit would lower it.
    let more = (limit.saturating_add(limit / 2) >> 30).max(1);
    step.with(format!(
        "--mem={more}G (Slurm), --memory {more}g (Docker), resources.limits.memory: {more}Gi (Kubernetes)"
    ))
}

/// A job or container reached its own limit, whatever the host has.
fn killed_at_limit(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let limit = limit_of(event, found);
    let of = limit.map_or_else(String::new, |limit| format!(", {},", size(limit)));
    let held = resident_bytes(event, found).map_or_else(String::new, |bytes| format!("; it held {}", size(bytes)));
    let text = format!(
        "the job or container reached its limit of host memory{of} and {} was killed{held}: this is not GPU memory, and the host \
         itself need not be full",
        process(event)
    );
    let saves = was_saving(event, found).then(save_less);
    let mut diagnosis = because(Cause::HostMemory, text);
    let is_small = resident_bytes(event, found).is_some_and(|held| held < SMALL_VICTIM_BYTES);
    if is_small {
        diagnosis.notes.push(
            "the process that was killed is not the one that fills the limit: the kernel takes the process with the highest score, which settings \
             move (`oom_score_adj`), and its end released hardly anything; its total-vm is address space, not memory"
                .to_owned(),
        );
    }
    let grows = is_small.then(find_growing);
    let steps = grows.into_iter().chain(saves).chain([raise_limit(limit), less_host_memory()]);
    (diagnosis, steps.collect())
}

/// A process that holds less fills no limit.
const SMALL_VICTIM_BYTES: u64 = 256 << 20;

/// Who fills a limit, where it is not the process that was killed.
fn find_growing() -> Step {
    Step::new(
        "find-growing",
        "find what really grows in this job or container: its processes by resident memory, and files in memory (/dev/shm, tmpfs), which count \
         towards the limit, too",
        "without that, the next kill comes soon",
    )
    .with("ps -eo pid,rss,comm --sort=-rss | head; grep -E '^(anon|file|shmem) ' /sys/fs/cgroup/memory.stat; df -h /dev/shm")
}

/// Adam's state on the host of a model of 16 billion parameters.
const LARGE_ROOM_BYTES: u64 = 256 << 30;

fn ended_by_signal(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let limit = found.surroundings.memory_limit_bytes;
    let of = limit.map_or_else(String::new, |limit| format!(" of {}", size(limit)));
    let used = host_use(found);
    // More was free than the state of a usual training on one machine.
    let has_room = limit.is_none()
        && found
            .host_use
            .is_some_and(|(bytes, tenths)| bytes / tenths.max(1) * 1000_u64.saturating_sub(tenths) > LARGE_ROOM_BYTES);
    let room = if has_room {
        "; so much of the machine was free that a limit of its container or job, or a large part that came at once, is more likely than a \
         full machine"
    } else {
        ""
    };
    let text = format!(
        "{} was killed by signal 9 (exit code 137, or -9 to a launcher){used}: usually because the host ran out of memory or the container reached its \
         limit{of}, not because the GPU was full; a scheduler's time limit or a person can also end a process this way{room}",
        process(event)
    );
    // A container's limit is its own; elsewhere the whole machine is full. What only looks comes last.
    let program = found.surroundings.program;
    // Programs that hold one model and little else; on a board the GPU's memory is the host's.
    let holds_one_model = matches!(program, Some(Program::Llama | Program::Whisper | Program::Mlx | Program::Jetson))
        || event.origin == "Ollama";
    let first = if holds_one_model { general::smaller_model(None) } else { less_host_memory() };
    let mut steps = vec![first, raise_limit(limit), look_at_kernel()];
    // A launcher tells only the signal: nothing else in the text speaks of the host's memory.
    let is_of_launcher = event.origin == "torchrun" && found.surroundings.engine.is_none() && limit.is_none();
    if found.surroundings.is_within_limit {
        // Docker itself does not say who ended it.
        steps.rotate_right(1);
    } else if was_loading(event, found) {
        steps.insert(0, load_in_parts());
    } else if was_saving(event, found) {
        steps.insert(0, save_less());
    } else if found.surroundings.offloads_to_host {
        steps.insert(0, offload_less());
    } else if limit.is_some()
        || found.events.iter().any(|event| event.id == "sigkill" && event.origin == "a container")
        || !holds_one_model && (found.surroundings.engine.is_some() || event.origin.starts_with("SGLang"))
    {
        steps.swap(0, 1);
    } else if is_of_launcher {
        steps.rotate_right(1);
        steps[0].detail.push_str(
            "; if it always ends at the same step, see what the program does there (a checkpoint, an evaluation), or whether its memory grows \
             until then",
        );
    }
    if has_room {
        // Whose limit it was decides what helps.
        steps.sort_by_key(|step| step.id != "look-at-kernel");
        steps[0].change = Some(
            "dmesg -T | grep -i -E 'killed process|oom-kill'; kubectl describe pod (OOMKilled); cat /sys/fs/cgroup/memory.max".to_owned(),
        );
    }
    (because(Cause::HostMemory, text), steps)
}

/// A launcher ends the others after one has ended without an error, while something fills the host.
fn launcher(found: &Found) -> (Diagnosis, Vec<Step>) {
    let when = if found.surroundings.is_loading_shards {
        "while it loaded a checkpoint, which each process holds in the host's memory"
    } else {
        "while a part of the training state was in the host's memory"
    };
    let text = format!(
        "DeepSpeed's launcher ended its processes because one had ended without an error of its own, {when}: most likely the host ran out \
         of memory and the system killed that process{}; the line with its exit code is missing (-9 is such a kill)",
        host_use(found)
    );
    let first = if found.surroundings.is_loading_shards { load_in_parts() } else { offload_less() };
    (because(Cause::HostMemory, text), vec![first, look_at_kernel(), more_host_memory()])
}

/// State of a trainer that need not be in the host's memory.
fn offload_less() -> Step {
    Step::new(
        "offload-less",
        "keep less of the training state in the host's memory: offload the optimizer alone, to NVMe, or not at all",
        "Adam on the CPU takes 12 to 16 bytes for each parameter that this machine trains, and pinned buffers beside them",
    )
    .with("zero_optimization.offload_optimizer.device: \"nvme\", or no offload_param; more GPUs or machines share the rest")
}

fn load_in_parts() -> Step {
    Step::new(
        "load-in-parts",
        "load checkpoints mapped and in parts, or on the GPU at once",
        "every process of the machine holds its own copy while it loads",
    )
    .with("torch.load(path, mmap=True), low_cpu_mem_usage=True; ZeRO-3 with HfDeepSpeedConfig before from_pretrained")
}
