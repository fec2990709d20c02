//! What a call finds: the script as it is now, and how many calls there were.

use std::sync::Mutex;

use crate::SCRIPT;
use crate::script::{Gpu, Script};

/// `nvmlReturn_t`
pub(crate) type Status = u32;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const INVALID_ARGUMENT: Status = 2;
pub(crate) const NOT_SUPPORTED: Status = 3;
pub(crate) const NOT_FOUND: Status = 6;
pub(crate) const INSUFFICIENT_SIZE: Status = 7;
/// `NVML_ERROR_GPU_IS_LOST`
pub(crate) const LOST: Status = 15;

/// The script as it was at the last call, and how many calls there were since it was changed.
static LAST: Mutex<(String, u32)> = Mutex::new((String::new(), 0));

/// The handles of parts begin here; below, a handle is the GPU's number and one.
const PARTS: usize = 1000;

/// Parts of one GPU at most.
const PARTS_EACH: usize = 8;

/// The handle of a GPU.
pub(crate) fn handle(gpu: usize) -> usize {
    gpu + 1
}

/// The handle of a part of a GPU.
pub(crate) fn part_handle(gpu: usize, part: usize) -> usize {
    PARTS + gpu * PARTS_EACH + part
}

/// The number of the GPU that a handle is of.
pub(crate) fn gpu_of(handle: usize) -> usize {
    if handle >= PARTS { (handle - PARTS) / PARTS_EACH } else { handle.saturating_sub(1) }
}

/// Counts a call, and gives the script, or the status with which this call fails.
///
/// # Errors
/// As the script says.
pub(crate) fn begin(name: &str, gpu: Option<usize>) -> Result<Script, Status> {
    let text = std::env::var(SCRIPT).ok().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let script = Script::parse(&text);
    let call = count(text);
    if let Some(&(_, status)) = script.failing_calls.iter().find(|&&(number, _)| number == call) {
        return Err(status);
    }
    if let Some(gpu) = gpu
        && script.lost.iter().any(|&(lost, after)| lost == gpu && call > after)
    {
        return Err(LOST);
    }
    let failing =
        |(function, on, _): &&(String, Option<usize>, u32)| function == name && on.is_none_or(|on| gpu == Some(on));
    match script.errors.iter().find(failing) {
        Some(&(_, _, status)) => Err(status),
        None => Ok(script),
    }
}

/// The number of this call, from 1, since the script was changed.
fn count(text: String) -> u32 {
    // A panic elsewhere leaves the count as it is.
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if last.0 != text {
        *last = (text, 0);
    }
    last.1 += 1;
    last.1
}

/// The GPU or part of a handle.
///
/// # Errors
/// `NVML_ERROR_INVALID_ARGUMENT` if there is none.
pub(crate) fn find(script: &Script, handle: usize) -> Result<&Gpu, Status> {
    let gpu = script.gpus.get(gpu_of(handle)).ok_or(INVALID_ARGUMENT)?;
    if handle < PARTS {
        return Ok(gpu);
    }
    gpu.parts.get((handle - PARTS) % PARTS_EACH).ok_or(INVALID_ARGUMENT)
}
