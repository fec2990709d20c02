//! One GPU's sample: all NVML queries, and the meaning of a missing answer.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use crate::sample::{Bar1, Ecc, GpuSample, Memory, Power, ProcessKind, ProcessSample, Utilization};
use crate::shared;

/// The values that change between samples: memory, processes and utilization.
pub(crate) fn quick(device: &Device<'_>, sample: &mut GpuSample) {
    let now = device.memory_info();
    sample.shares_memory = matches!(now, Err(NvmlError::NotSupported)) && sample.mig.is_none();
    sample.memory = told(sample, "memory", now.map(|now| memory(&now)));
    if sample.shares_memory {
        sample.memory = shared::memory();
    }
    let compute = told(sample, "processes", device.running_compute_processes()).unwrap_or_default();
    add_all(&mut sample.processes, &compute, ProcessKind::Compute);
    let utilization = device.utilization_rates();
    sample.utilization = told(
        sample,
        "utilisation",
        utilization.map(|now| Utilization { gpu_percent: now.gpu, memory_percent: now.memory }),
    );
}

/// What changes slowly, or hardly ever, or is of little weight: what draws holds little memory.
pub(crate) fn slow(device: &Device<'_>, sample: &mut GpuSample) {
    // Not all GPUs draw: what they do not tell of it, nobody misses.
    let graphics = device.running_graphics_processes().unwrap_or_default();
    add_all(&mut sample.processes, &graphics, ProcessKind::Graphics);
    sample.name = told(sample, "name", device.name()).unwrap_or_else(|| "GPU".to_owned());
    sample.uuid = told(sample, "UUID", device.uuid());
    sample.compute_capability = told(sample, "compute capability", device.cuda_compute_capability())
        .map(|version| format!("{}.{}", version.major, version.minor));
    let bar1 = device.bar1_memory_info();
    sample.bar1 = told(sample, "BAR1", bar1.map(|now| Bar1 { total_bytes: now.total, used_bytes: now.used }));
    sample.temperature_c = told(sample, "temperature", device.temperature(TemperatureSensor::Gpu));
    let limit_mw = device.enforced_power_limit().ok();
    sample.power = told(sample, "power", device.power_usage().map(|draw_mw| Power { draw_mw, limit_mw }));
    sample.ecc = told(sample, "ECC", device.is_ecc_enabled()).map(|mode| {
        let errors = |kind| device.total_ecc_errors(kind, EccCounter::Volatile).ok().filter(|_| mode.currently_enabled);
        Ecc {
            is_enabled: mode.currently_enabled,
            corrected: errors(MemoryError::Corrected),
            uncorrected: errors(MemoryError::Uncorrected),
        }
    });
}

fn memory(now: &nvml_wrapper::struct_wrappers::device::MemoryInfo) -> Memory {
    Memory { total_bytes: now.total, used_bytes: now.used, free_bytes: now.free, reserved_bytes: now.reserved }
}

/// The value, or `None` and a note that says why there is none.
fn told<T>(sample: &mut GpuSample, what: &str, answer: Result<T, NvmlError>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(error) => {
            note(sample, what, &error);
            None
        }
    }
}

/// Notes why there is no answer, once for each reason.
pub(crate) fn note(sample: &mut GpuSample, what: &str, error: &NvmlError) {
    sample.is_lost |= matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired);
    let sentence = sentence(what, error, sample.mig.is_some());
    if !sample.notes.contains(&sentence) {
        sample.notes.push(sentence);
    }
}

/// The meaning of an error for the user.
fn sentence(what: &str, error: &NvmlError, is_part: bool) -> String {
    match error {
        NvmlError::GpuLost => "the GPU has fallen off the bus: the kernel log (`dmesg`) has an Xid error with the \
                               cause, and only a reset or a restart of the machine restores it"
            .to_owned(),
        NvmlError::ResetRequired => "the GPU needs a reset before it can be used: `nvidia-smi --gpu-reset`".to_owned(),
        NvmlError::NotSupported if is_part => format!("{what}: the driver reports it only for the whole GPU"),
        NvmlError::NotSupported if what == "memory" => {
            "memory: this GPU has none of its own, it shares the processor's: total and use are the machine's, from \
             `/proc/meminfo`, and the processes below use part of it for the GPU"
                .to_owned()
        }
        NvmlError::NotSupported => format!("{what}: this GPU does not report it"),
        NvmlError::NoPermission => format!("{what}: only an administrator may read it"),
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => {
            format!("{what}: this driver is too old to report it; 510 is the first that reports everything")
        }
        other => format!("{what}: the driver does not report it ({other})"),
    }
}

/// Adds processes, the largest first; one that computes and draws is there once.
fn add_all(processes: &mut Vec<ProcessSample>, told: &[ProcessInfo], kind: ProcessKind) {
    for process in told {
        add(processes, process, kind);
    }
    processes.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.pid.cmp(&b.pid)));
}

/// Adds a process, or what more is told of one that is there.
///
/// One that computes and draws is in both lists with the same bytes; one in several parts of a GPU is in one list
/// several times, each with its own.
fn add(processes: &mut Vec<ProcessSample>, told: &ProcessInfo, kind: ProcessKind) {
    let bytes = match told.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    match processes.iter_mut().find(|process| process.pid == told.pid) {
        Some(known) if known.kind == kind => {
            known.bytes =
                known.bytes.zip(bytes).map(|(known, more)| known.saturating_add(more)).or(known.bytes).or(bytes);
        }
        Some(known) => {
            known.kind = ProcessKind::Both;
            // Both lists have all that it holds; this one is the newer.
            known.bytes = bytes.or(known.bytes);
        }
        None => processes.push(ProcessSample {
            pid: told.pid,
            kind,
            bytes,
            user: None,
            command: None,
            torch: None,
            torch_note: None,
            loaded: None,
        }),
    }
}
