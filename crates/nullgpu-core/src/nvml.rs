//! NVML: the devices as the management library lists them. A handle is the device's number and one.

use crate::answers::answers;
use crate::devices;
use crate::ffi::{Fixed, In, Out, Text};
use crate::memory;
use crate::settings;
use crate::status::{SUCCESS, Status};

/// `NVML_ERROR_INVALID_ARGUMENT`
const INVALID_ARGUMENT: Status = 2;
/// `NVML_ERROR_INSUFFICIENT_SIZE`
const INSUFFICIENT_SIZE: Status = 7;
/// `NVML_ERROR_NOT_SUPPORTED`
const NOT_SUPPORTED: Status = 3;

fn handle(out: Out<usize>, device: u32) -> Status {
    if i32::try_from(device).is_ok_and(|device| device < devices::count()) {
        out.put(device as usize + 1);
        SUCCESS
    } else {
        INVALID_ARGUMENT
    }
}

fn device(handle: usize) -> usize {
    handle.saturating_sub(1)
}

/// The processes on a device: this one, if it has room for one, which is how PyTorch says what a process has in use.
///
/// `nvmlProcessInfo_t`: the process's number, its bytes, and in the later form two numbers of what it has a part of only.
fn running(handle: usize, count: Out<u32>, processes: Out<u8>, size: usize) -> Status {
    let room = In::from(count.bytes()).read_at::<u32>(0).unwrap_or(0);
    let device = device(handle);
    if memory::used(device) == 0 {
        count.put(0);
        return SUCCESS;
    }
    count.put(1);
    if room == 0 || processes.address() == 0 {
        return INSUFFICIENT_SIZE;
    }
    processes.fill(0xff, size);
    processes.put_bytes(&u64::from(std::process::id()).to_ne_bytes());
    processes.after(8).put_bytes(&memory::occupied(device).to_ne_bytes());
    SUCCESS
}

answers! {
    fn nvmlDeviceGetCount_v2(out: Out<i32>) -> Status {
        out.put(devices::count());
        SUCCESS
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: Out<usize>) -> Status {
        handle(out, index)
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(address: Text, out: Out<usize>) -> Status {
        let address = address.read();
        // Programs write the domain with four digits or eight.
        let place = |address: &str| address.split_once(':').map(|(_, place)| place.to_ascii_uppercase());
        let found = (0..devices::count()).find(|&device| place(&devices::pci_address(device)) == place(&address));
        handle(out, found.and_then(|device| u32::try_from(device).ok()).unwrap_or(u32::MAX))
    }

    fn nvmlDeviceGetIndex(handle: usize, out: Out<u32>) -> Status {
        out.put(u32::try_from(device(handle)).unwrap_or(0));
        SUCCESS
    }

    fn nvmlDeviceGetName(_handle: usize, out: Out<u8>, capacity: u32) -> Status {
        out.put_text(&settings::get().card.name, capacity as usize);
        SUCCESS
    }

    /// The sixteen bytes that the runtime's properties have, in the usual spelling.
    fn nvmlDeviceGetUUID(handle: usize, out: Out<u8>, capacity: u32) -> Status {
        let pair = format!("{:02x}", 0x40 + device(handle) % 64);
        let group = |count: usize| pair.repeat(count);
        let text = format!("GPU-{}-{}-{}-{}-{}", group(4), group(2), group(2), group(2), group(6));
        out.put_text(&text, capacity as usize);
        SUCCESS
    }

    /// `nvmlMemory_t`: total, free, used.
    fn nvmlDeviceGetMemoryInfo(handle: usize, out: Out<u64>) -> Status {
        let total = settings::get().card.memory_bytes;
        let free = memory::available(device(handle));
        for (place, value) in [total, free, total - free.min(total)].into_iter().enumerate() {
            out.after(place).put(value);
        }
        SUCCESS
    }

    fn nvmlDeviceGetCudaComputeCapability(_handle: usize, major: Out<i32>, minor: Out<i32>) -> Status {
        let card = &settings::get().card;
        major.put(card.major);
        minor.put(card.minor);
        SUCCESS
    }

    fn nvmlDeviceGetComputeRunningProcesses(handle: usize, count: Out<u32>, processes: Out<u8>) -> Status {
        running(handle, count, processes, 16)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(handle: usize, count: Out<u32>, processes: Out<u8>) -> Status {
        running(handle, count, processes, 24)
    }

    fn nvmlSystemGetCudaDriverVersion_v2(out: Out<i32>) -> Status {
        out.put(settings::get().cuda);
        SUCCESS
    }

    fn nvmlSystemGetDriverVersion(out: Out<u8>, capacity: u32) -> Status {
        out.put_text("580.82.07", capacity as usize);
        SUCCESS
    }

    fn nvmlDeviceGetNvLinkRemoteDeviceType() -> Status {
        NOT_SUPPORTED
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo_v2() -> Status {
        NOT_SUPPORTED
    }

    /// `nvmlGpuFabricInfoV_t`, whose byte 28 is the state: there is no fabric, which is no error. PyTorch 2.13 asks before it makes an
    /// expandable segment.
    fn nvmlDeviceGetGpuFabricInfoV(_handle: usize, information: Out<u8>) -> Status {
        information.after(28).put(0);
        SUCCESS
    }

    fn nvmlErrorString(status: Status) -> Fixed {
        Fixed::new(if status == SUCCESS { c"Success" } else { c"not available on the null GPU" })
    }
}
