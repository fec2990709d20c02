//! Failures of the host's memory.
//!
//! # Source
//! The kernel, Slurm, Kubernetes, Ray and torch: messages that users posted; `torch_npu` 2.9.

use super::{Row, row, words};

/// The rows.
pub(super) const ROWS: &[Row] = &[
    row(
        "worker-killed",
        "torch",
        "is killed by signal",
        "DataLoader worker (pid {pid:n}) is killed by signal: {signal:w}",
    ),
    row("worker-killed", "torch", "is killed by signal", "is killed by signal: {signal:w}"),
    row("worker-exited", "torch", "DataLoader worker (pid(s)", "DataLoader worker (pid(s) {pid:n}"),
    row("shm", "torch", "out of shared memory", "workers are out of shared memory"),
    words("shm", "torch", "unable to write to file </torch_"),
    row("shm", "torch", "unable to allocate shared memory", "unable to allocate shared memory(shm) for file"),
    row("shm", "torch", "from file </torch_", "unable to mmap {raw:n} bytes from file </torch_"),
    row("pinned", "torch", "Pin memory thread exited", "Pin memory thread exited unexpectedly"),
    row("pinned", "torch", "cudaHostAlloc", "cudaHostAlloc{*}out of memory"),
    row(
        "host-allocator",
        "torch",
        "DefaultCPUAllocator",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate {raw:n} bytes",
    ),
    row(
        "host-allocator",
        "torch",
        "DefaultCPUAllocator",
        "DefaultCPUAllocator: not enough memory: you tried to allocate {raw:n} bytes",
    ),
    row("host-allocator", "NumPy", "for an array with shape", "Unable to allocate {size:b} for an array with shape"),
    row(
        "oom-kill",
        "Linux",
        "Killed process",
        "Memory cgroup out of memory: Killed process {pid:n} ({name:w}) total-vm:{total_raw_kb:n}kB, anon-rss:{raw_kb:n}kB",
    ),
    row(
        "oom-kill",
        "Linux",
        "Killed process",
        "Out of memory: Killed process {pid:n} ({name:w}) total-vm:{total_raw_kb:n}kB, anon-rss:{raw_kb:n}kB",
    ),
    row("oom-kill", "Linux", "Killed process", "out of memory: Killed process {pid:n} ({name:w})"),
    row("oom-kill", "Linux", "Killed process", "Out of memory: Killed process {pid:n} ({name:w})"),
    row("oom-kill", "Linux", "oom-kill:constraint", "oom-kill:constraint={constraint:w}"),
    words("oom-kill", "Slurm", "oom_kill event"),
    words("oom-kill", "Slurm", "oom-kill event"),
    words("oom-kill", "Kubernetes", "OOMKilled"),
    words("oom-kill", "Ray", "killed due to memory pressure"),
    row("oom-kill", "Ray", "running low on memory", "node running low on memory"),
    row("sigkill", "torchrun", "Signal 9 (SIGKILL)", "Signal 9 (SIGKILL) received by PID {pid:n}"),
    words("sigkill", "torchrun", "exitcode: -9"),
    row("sigkill", "accelerate", "Signals.SIGKILL", "died with <Signals.SIGKILL: 9>"),
    words("sigkill", "a container", "exit code 137"),
    words("sigkill", "a container", "exit code: 137"),
    words("sigkill", "a container", "exited with code 137"),
    words("sigkill", "a container", "returned non-zero exit status 137"),
    words("sigkill", "a container", "exit status 137"),
    words("shm", "torch", "Unexpected bus error encountered in worker"),
    row(
        "pinned",
        "torch_npu",
        "Malloc pin memory failed",
        "Malloc pin memory failed, host out of memory, Rried to allocate size: {raw:n}",
    ),
    words("host-allocator", "torch", "C10 Out of Memory. Trying to allocate"),
    words("host-allocator", "Linux", "[Errno 12] Cannot allocate memory"),
    words("host-allocator", "C++", "instance of 'std::bad_alloc'"),
    words("oom-kill", "Ray", "Ray killed this worker"),
    words("sigkill", "DeepSpeed", "exits with return code = -9"),
    words("sigkill", "Ollama", "process has terminated: signal: killed"),
    words("sigkill", "YARN", "Exit code is 137"),
];
