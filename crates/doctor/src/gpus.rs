//! The driver and the GPUs.

use highwater_documents::doctor::{Finding, Severity};
use highwater_monitor::{GpuSample, Sample};
use highwater_output::printable::printable;
use highwater_units::{counted, size};

/// Of the memory, in percent: more in use by others is worth a word.
const MUCH_PERCENT: u64 = 10;

/// The first driver that tells everything that is asked here.
const OLDEST_DRIVER: u32 = 510;

/// Reports problems of the GPUs, and the other processes on them.
pub(crate) fn examine(sample: &Sample, visible: Option<&str>, findings: &mut Vec<Finding>) {
    let version = sample.driver.version.as_deref();
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    if major.is_some_and(|major| major < OLDEST_DRIVER) {
        findings.push(
            Finding::new(
                Severity::Problem,
                "old-driver",
                format!("the driver is {}, too old for any current PyTorch", printable(version.unwrap_or("?"))),
            )
            .change("install driver 580 or newer, which CUDA 13 needs"),
        );
    }
    for gpu in &sample.gpus {
        health(gpu, findings);
        occupied(gpu, findings);
    }
    examine_visible(sample, visible, findings);
}

/// Whether a GPU is well.
fn health(gpu: &GpuSample, findings: &mut Vec<Finding>) {
    let label = gpu.label();
    if gpu.is_lost {
        let why = gpu.notes.first().map_or("", String::as_str);
        findings.push(
            Finding::new(Severity::Problem, "lost-gpu", format!("GPU {label}: {why}")).change("restart the machine"),
        );
    }
    if let Some(errors) = gpu.ecc.and_then(|ecc| ecc.uncorrected).filter(|&errors| errors > 0) {
        findings.push(
            Finding::new(
                Severity::Problem,
                "memory-errors",
                format!(
                    "GPU {label}: {} that could not be corrected",
                    counted(usize::try_from(errors).unwrap_or(usize::MAX), "memory error", "memory errors")
                ),
            )
            .change(
                "`nvidia-smi -q -d ECC,ROW_REMAPPER` shows more; reset or replace the GPU, and do not trust its \
             results",
            ),
        );
    }
    if gpu.memory.is_none() && !gpu.is_lost {
        let why = gpu.notes.iter().find(|note| note.starts_with("memory:")).cloned();
        findings.push(Finding::new(
            Severity::Note,
            "no-memory-told",
            format!("GPU {label}: {}", why.unwrap_or_else(|| "its memory is unknown".to_owned())),
        ));
    }
}

/// Who else is on a GPU.
fn occupied(gpu: &GpuSample, findings: &mut Vec<Finding>) {
    let Some(memory) = gpu.memory else { return };
    let is_much =
        |bytes: u64| bytes.saturating_mul(100) >= memory.total_bytes.saturating_mul(MUCH_PERCENT) && bytes > 0;
    let label = gpu.label();
    for process in gpu.processes.iter().filter(|process| process.bytes.is_some_and(is_much)) {
        let who = process
            .command
            .as_deref()
            .map_or_else(|| "a process of another container".to_owned(), |line| format!("`{}`", printable(line)));
        findings.push(
            Finding::new(
                Severity::Advice,
                "occupied",
                format!("GPU {label}: process {} uses {}: {who}", process.pid, size(process.bytes.unwrap_or(0))),
            )
            .change("wait for it to end, end it, or set `CUDA_VISIBLE_DEVICES` to another GPU"),
        );
    }
    if let Some(unseen) = gpu.unseen_bytes.filter(|&bytes| is_much(bytes) && gpu.mig.is_none()) {
        findings.push(
            Finding::new(
                Severity::Advice,
                "unseen",
                format!("GPU {label}: {} are used by processes that are not visible from here", size(unseen)),
            )
            .change("run `highwater top` on the host, or in the other containers"),
        );
    }
}

/// Whether `CUDA_VISIBLE_DEVICES` means GPUs that are there.
fn examine_visible(sample: &Sample, visible: Option<&str>, findings: &mut Vec<Finding>) {
    let Some(visible) = visible else { return };
    if visible.trim().is_empty() || visible.trim() == "-1" {
        findings.push(
            Finding::new(Severity::Problem, "nothing-visible", "`CUDA_VISIBLE_DEVICES` hides every GPU from programs")
                .change("unset it, or list GPUs"),
        );
        return;
    }
    let wholes = sample.gpus.iter().filter(|gpu| gpu.mig.is_none()).count();
    let is_there = |word: &str| match word.parse::<usize>() {
        Ok(number) => number < wholes,
        // By name: the beginning suffices.
        Err(_) => sample.gpus.iter().any(|gpu| gpu.uuid.as_deref().is_some_and(|uuid| uuid.starts_with(word))),
    };
    if let Some(unknown) = visible.split(',').map(str::trim).find(|word| !is_there(word)) {
        findings.push(
            Finding::new(
                Severity::Problem,
                "unknown-visible",
                format!(
                    "`CUDA_VISIBLE_DEVICES` lists `{}`, which does not exist: it and all GPUs after it are hidden",
                    printable(unknown)
                ),
            )
            .change(format!("the GPUs are 0 to {}", wholes.saturating_sub(1))),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_monitor::{Driver, Ecc, Memory, ProcessKind, ProcessSample};

    fn gpu() -> GpuSample {
        let memory = Memory { total_bytes: 100 << 30, used_bytes: 50 << 30, free_bytes: 50 << 30, reserved_bytes: 0 };
        GpuSample { memory: Some(memory), uuid: Some("GPU-abc".into()), unseen_bytes: Some(0), ..GpuSample::default() }
    }

    fn ids(gpu: GpuSample, visible: Option<&str>) -> Vec<&'static str> {
        let mut findings = Vec::new();
        let driver = Driver { version: Some("580.1".into()), cuda: None };
        examine(&Sample { time_us: 0, driver, gpus: vec![gpu] }, visible, &mut findings);
        findings.iter().map(|finding| finding.id).collect()
    }

    #[test]
    fn what_is_wrong_with_a_gpu_is_named() {
        assert_eq!(ids(gpu(), None), [""; 0]);
        let ecc = Some(Ecc { is_enabled: true, corrected: Some(9), uncorrected: Some(1) });
        assert_eq!(ids(GpuSample { ecc, ..gpu() }, None), ["memory-errors"]);
        assert_eq!(ids(GpuSample { is_lost: true, memory: None, ..gpu() }, None), ["lost-gpu"]);
        assert_eq!(ids(GpuSample { unseen_bytes: Some(30 << 30), ..gpu() }, None), ["unseen"]);
        let process = ProcessSample {
            pid: 5,
            kind: ProcessKind::Compute,
            bytes: Some(20 << 30),
            user: None,
            command: None,
            torch: None,
            torch_note: None,
            loaded: None,
        };
        let small = ProcessSample { bytes: Some(1 << 30), ..process.clone() };
        assert_eq!(ids(GpuSample { processes: vec![process, small], ..gpu() }, None), ["occupied"]);
    }

    #[test]
    fn visible_devices_must_be_there() {
        for (visible, id) in [
            ("", "nothing-visible"),
            ("-1", "nothing-visible"),
            ("0,7", "unknown-visible"),
            ("GPU-x", "unknown-visible"),
        ] {
            assert_eq!(ids(gpu(), Some(visible)), [id], "{visible}");
        }
        assert_eq!(ids(gpu(), Some("0")), [""; 0]);
        assert_eq!(ids(gpu(), Some("GPU-a")), [""; 0]);
    }
}
