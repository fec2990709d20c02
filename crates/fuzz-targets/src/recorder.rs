//! What a process with highwater's recorder answers over its socket.

use highwater_monitor::recorder::Answer;
use highwater_monitor::{GpuSample, ProcessKind, ProcessSample, Sample, split};

use crate::logs::check_printed;

/// An answer is read or refused; what it says of memory is split, and printed in every form.
pub fn recorder(bytes: &[u8]) {
    let Ok(answer) = Answer::read(1, bytes) else { return };
    let processes = answer.devices.iter().map(|told| ProcessSample {
        pid: 1,
        kind: ProcessKind::Compute,
        bytes: Some(1 << 30),
        user: None,
        command: None,
        torch: Some(split::split(told, 1 << 30, &["cuBLAS"])),
        torch_note: None,
        loaded: None,
    });
    let gpu = GpuSample { processes: processes.collect(), ..GpuSample::default() };
    check_printed(&Sample { gpus: vec![gpu], ..Sample::default() });
}
