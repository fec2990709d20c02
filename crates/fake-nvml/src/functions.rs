//! The functions of NVML that are asked for, as C calls them.

#![expect(unsafe_code, reason = "a C interface: callers hand over pointers, as nvml.h says for each function")]

use std::ffi::{c_char, c_void};

use crate::script::{Gpu, Process, Script};
use crate::state::{
    INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, SUCCESS, Status, begin, find, gpu_of, handle,
    part_handle,
};

/// `nvmlMemory_v2_t`
#[repr(C)]
pub struct Memory {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// `nvmlBAR1Memory_t`
#[repr(C)]
pub struct Bar1 {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlUtilization_t`
#[repr(C)]
pub struct Utilization {
    gpu: u32,
    memory: u32,
}

/// `nvmlProcessInfo_t`
#[repr(C)]
pub struct ProcessInfo {
    pid: u32,
    used: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// Writes to where a caller wants a value.
fn put<T>(out: *mut T, value: T) {
    // SAFETY: callers of NVML give a pointer to one value of that type, or none.
    if let Some(out) = unsafe { out.as_mut() } {
        *out = value;
    }
}

/// Writes a text and its end.
fn put_text(out: *mut c_char, capacity: u32, text: &str) -> Status {
    if text.len() >= capacity as usize {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: callers give room for `capacity` bytes, and the text with its end is not longer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), text.len());
        *out.add(text.len()) = 0;
    }
    SUCCESS
}

/// The script's answer, or the status of what failed.
fn answer(name: &str, gpu: Option<usize>, tell: impl FnOnce(&Script) -> Result<(), Status>) -> Status {
    match begin(name, gpu).and_then(|script| tell(&script)) {
        Ok(()) => SUCCESS,
        Err(status) => status,
    }
}

/// The same, about the GPU of a handle.
fn about(name: &str, handle: usize, tell: impl FnOnce(&Gpu) -> Result<(), Status>) -> Status {
    answer(name, Some(gpu_of(handle)), |script| tell(find(script, handle)?))
}

fn processes(gpu: &Gpu, is_graphics: bool, count: *mut u32, out: *mut ProcessInfo) -> Result<(), Status> {
    // A GPU in MIG mode tells the processes of its parts, too.
    let all = gpu.processes.iter().map(|process| (process, u32::MAX));
    let of_parts = (0..).zip(&gpu.parts).flat_map(|(part, gpu)| gpu.processes.iter().map(move |each| (each, part)));
    let asked: Vec<_> = all.chain(of_parts).filter(|(each, _)| each.is_graphics == is_graphics).collect();
    // SAFETY: callers give a pointer to how many fit.
    let room = unsafe { count.as_ref() }.copied().ok_or(INVALID_ARGUMENT)? as usize;
    put(count, u32::try_from(asked.len()).unwrap_or(u32::MAX));
    if asked.len() > room {
        return Err(INSUFFICIENT_SIZE);
    }
    for (place, (process, part)) in asked.iter().enumerate() {
        // SAFETY: callers give room for as many as they say.
        put(unsafe { out.add(place) }, info(process, *part));
    }
    Ok(())
}

fn info(process: &Process, part: u32) -> ProcessInfo {
    ProcessInfo {
        pid: process.pid,
        used: process.bytes.unwrap_or(u64::MAX),
        gpu_instance: part,
        compute_instance: part,
    }
}

/// The functions, exported by their names, and a list of these names.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $body:block)*) => {
        /// The names of all functions.
        pub const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];

        $(
            /// As `nvml.h` has it.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $kind),*) -> Status $body
        )*
    };
}

functions! {
    fn nvmlInit_v2() {
        answer("nvmlInit_v2", None, |_| Ok(()))
    }

    fn nvmlShutdown() {
        answer("nvmlShutdown", None, |_| Ok(()))
    }

    fn nvmlSystemGetDriverVersion(out: *mut c_char, capacity: u32) {
        answer("nvmlSystemGetDriverVersion", None, |script| status(put_text(out, capacity, &script.driver)))
    }

    fn nvmlSystemGetCudaDriverVersion_v2(out: *mut i32) {
        answer("nvmlSystemGetCudaDriverVersion_v2", None, |script| { put(out, script.cuda); Ok(()) })
    }

    fn nvmlDeviceGetCount_v2(out: *mut u32) {
        answer("nvmlDeviceGetCount_v2", None, |script| {
            put(out, u32::try_from(script.gpus.len()).unwrap_or(u32::MAX));
            Ok(())
        })
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: *mut usize) {
        answer("nvmlDeviceGetHandleByIndex_v2", Some(index as usize), |script| {
            script.gpus.get(index as usize).ok_or(INVALID_ARGUMENT)?;
            put(out, handle(index as usize));
            Ok(())
        })
    }

    fn nvmlDeviceGetName(device: usize, out: *mut c_char, capacity: u32) {
        about("nvmlDeviceGetName", device, |gpu| status(put_text(out, capacity, &gpu.name)))
    }

    fn nvmlDeviceGetUUID(device: usize, out: *mut c_char, capacity: u32) {
        about("nvmlDeviceGetUUID", device, |gpu| status(put_text(out, capacity, &gpu.uuid)))
    }

    fn nvmlDeviceGetMemoryInfo_v2(device: usize, out: *mut Memory) {
        about("nvmlDeviceGetMemoryInfo_v2", device, |gpu| {
            if gpu.total == 0 {
                return Err(NOT_SUPPORTED);
            }
            let free = gpu.total.saturating_sub(gpu.reserved + gpu.used);
            put(out, Memory { version: 2, total: gpu.total, reserved: gpu.reserved, free, used: gpu.used });
            Ok(())
        })
    }

    fn nvmlDeviceGetBAR1MemoryInfo(device: usize, out: *mut Bar1) {
        about("nvmlDeviceGetBAR1MemoryInfo", device, |gpu| {
            let free = gpu.bar1_total.saturating_sub(gpu.bar1_used);
            put(out, Bar1 { total: gpu.bar1_total, free, used: gpu.bar1_used });
            Ok(())
        })
    }

    fn nvmlDeviceGetUtilizationRates(device: usize, out: *mut Utilization) {
        about("nvmlDeviceGetUtilizationRates", device, |gpu| {
            put(out, Utilization { gpu: gpu.gpu_percent, memory: gpu.memory_percent });
            Ok(())
        })
    }

    fn nvmlDeviceGetTemperature(device: usize, _sensor: u32, out: *mut u32) {
        about("nvmlDeviceGetTemperature", device, |gpu| { put(out, gpu.temperature_c); Ok(()) })
    }

    fn nvmlDeviceGetPowerUsage(device: usize, out: *mut u32) {
        about("nvmlDeviceGetPowerUsage", device, |gpu| { put(out, gpu.power_mw); Ok(()) })
    }

    fn nvmlDeviceGetEnforcedPowerLimit(device: usize, out: *mut u32) {
        about("nvmlDeviceGetEnforcedPowerLimit", device, |gpu| { put(out, gpu.limit_mw); Ok(()) })
    }

    fn nvmlDeviceGetEccMode(device: usize, current: *mut u32, pending: *mut u32) {
        about("nvmlDeviceGetEccMode", device, |gpu| {
            put(current, gpu.ecc);
            put(pending, gpu.ecc);
            Ok(())
        })
    }

    fn nvmlDeviceGetTotalEccErrors(device: usize, kind: u32, _counter: u32, out: *mut u64) {
        about("nvmlDeviceGetTotalEccErrors", device, |gpu| {
            put(out, if kind == 0 { gpu.corrected } else { gpu.uncorrected });
            Ok(())
        })
    }

    fn nvmlDeviceGetCudaComputeCapability(device: usize, major: *mut i32, minor: *mut i32) {
        about("nvmlDeviceGetCudaComputeCapability", device, |_| {
            put(major, 9);
            put(minor, 0);
            Ok(())
        })
    }

    fn nvmlDeviceGetMigMode(device: usize, current: *mut u32, pending: *mut u32) {
        about("nvmlDeviceGetMigMode", device, |gpu| {
            let mode = u32::from(!gpu.parts.is_empty());
            put(current, mode);
            put(pending, mode);
            Ok(())
        })
    }

    fn nvmlDeviceGetMaxMigDeviceCount(device: usize, out: *mut u32) {
        about("nvmlDeviceGetMaxMigDeviceCount", device, |_| { put(out, 7); Ok(()) })
    }

    fn nvmlDeviceGetMigDeviceHandleByIndex(device: usize, index: u32, out: *mut usize) {
        about("nvmlDeviceGetMigDeviceHandleByIndex", device, |gpu| {
            gpu.parts.get(index as usize).ok_or(NOT_FOUND)?;
            put(out, part_handle(gpu_of(device), index as usize));
            Ok(())
        })
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(device: usize, count: *mut u32, out: *mut c_void) {
        about("nvmlDeviceGetComputeRunningProcesses_v3", device, |gpu| processes(gpu, false, count, out.cast()))
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: usize, count: *mut u32, out: *mut c_void) {
        about("nvmlDeviceGetGraphicsRunningProcesses_v3", device, |gpu| processes(gpu, true, count, out.cast()))
    }
}

fn status(status: Status) -> Result<(), Status> {
    if status == SUCCESS { Ok(()) } else { Err(status) }
}
