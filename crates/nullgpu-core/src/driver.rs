//! The driver's interface, but for virtual memory and launches: devices, contexts, modules, and finding functions by name.

use crate::answers::{self, answers};
use crate::devices;
use crate::ffi::{Fixed, In, Out, Text};
use crate::launches;
use crate::memory;
use crate::settings;
use crate::status::{INVALID_VALUE, NOT_FOUND, NOT_INITIALIZED, OUT_OF_MEMORY, SUCCESS, Status};

/// The primary context of a device.
fn context(device: i32) -> usize {
    0x9000 + usize::try_from(device).unwrap_or(0)
}

/// A module and a function of one have no inside: all are these.
const MODULE: usize = 0x81;
const FUNCTION: usize = 0x82;

/// `CU_POINTER_ATTRIBUTE_…`: a device's memory, unless the address is the host's.
fn pointer_attribute(out: Out<u8>, which: i32, address: usize) {
    let device = memory::device_of(address);
    match which {
        1 => out.put_bytes(&context(devices::current_ordinal()).to_ne_bytes()),
        2 => out.put_bytes(&(if device.is_some() { 2_u32 } else { 1 }).to_ne_bytes()),
        3 | 4 => out.put_bytes(&address.to_ne_bytes()),
        7 => out.put_bytes(&(address as u64).to_ne_bytes()),
        9 => out.put_bytes(&i32::try_from(device.unwrap_or(0)).unwrap_or(0).to_ne_bytes()),
        11 => out.put_bytes(&memory::range_of(address).map_or(0, |(base, _)| base).to_ne_bytes()),
        12 => out.put_bytes(&memory::range_of(address).map_or(0, |(_, size)| size).to_ne_bytes()),
        _ => out.put_bytes(&0_i32.to_ne_bytes()),
    }
}

/// The function of a name: what answers it, or success.
fn entry_point(name: Text, out: Out<usize>, found: Out<i32>) -> Status {
    out.put(answers::newest_address_of(&name.read()));
    found.put(0);
    SUCCESS
}

answers! {
    fn cuDriverGetVersion(out: Out<i32>) -> Status {
        devices::cudaDriverGetVersion(out)
    }

    fn cuDeviceGet(out: Out<i32>, ordinal: i32) -> Status {
        out.put(ordinal);
        SUCCESS
    }

    fn cuInit(_flags: u32) -> Status {
        devices::begin();
        SUCCESS
    }

    fn cuDeviceGetCount(out: Out<i32>) -> Status {
        if !devices::have_begun() {
            return NOT_INITIALIZED;
        }
        out.put(devices::count());
        SUCCESS
    }

    fn cuDeviceGetName(out: Out<u8>, capacity: i32, _device: i32) -> Status {
        out.put_text(&settings::get().card.name, usize::try_from(capacity).unwrap_or(0));
        SUCCESS
    }

    fn cuDeviceGetUuid_v2(out: Out<u8>, device: i32) -> Status {
        out.fill(0x40 + device.to_le_bytes()[0], 16);
        SUCCESS
    }

    fn cuDeviceTotalMem_v2(out: Out<u64>, _device: i32) -> Status {
        out.put(settings::get().card.memory_bytes);
        SUCCESS
    }

    fn cuMemGetInfo_v2(free: Out<u64>, total: Out<u64>) -> Status {
        memory::cudaMemGetInfo(free, total)
    }

    fn cuDeviceGetAttribute(out: Out<i32>, which: i32, device: i32) -> Status {
        out.put(devices::attribute(which, device));
        SUCCESS
    }

    fn cuDevicePrimaryCtxGetState(_device: i32, flags: Out<u32>, active: Out<i32>) -> Status {
        flags.put(0);
        active.put(1);
        SUCCESS
    }

    fn cuDevicePrimaryCtxRetain(out: Out<usize>, device: i32) -> Status {
        out.put(context(device));
        SUCCESS
    }

    fn cuCtxGetCurrent(out: Out<usize>) -> Status {
        out.put(context(devices::current_ordinal()));
        SUCCESS
    }

    fn cuCtxCreate_v2(out: Out<usize>, _flags: u32, device: i32) -> Status {
        out.put(context(device));
        SUCCESS
    }

    fn cuCtxGetDevice(out: Out<i32>) -> Status {
        out.put(devices::current_ordinal());
        SUCCESS
    }

    fn cuMemAlloc_v2(out: Out<u64>, size: u64) -> Status {
        memory::cudaMalloc(out, size)
    }

    fn cuMemFree_v2(address: usize) -> Status {
        memory::cudaFree(address)
    }

    fn cuMemHostAlloc(out: Out<usize>, size: usize, flags: u32) -> Status {
        memory::cudaHostAlloc(out, size, flags)
    }

    fn cuMemFreeHost(address: usize) -> Status {
        memory::cudaFreeHost(address)
    }

    fn cuMemGetAddressRange_v2(base: Out<u64>, size: Out<u64>, address: usize) -> Status {
        let Some((start, length)) = memory::range_of(address) else { return INVALID_VALUE };
        base.put(start);
        size.put(length);
        SUCCESS
    }

    fn cuGetErrorString(status: Status, out: Out<Fixed>) -> Status {
        out.put(devices::cudaGetErrorString(status));
        SUCCESS
    }

    fn cuGetErrorName(status: Status, out: Out<Fixed>) -> Status {
        out.put(Fixed::new(match status {
            SUCCESS => c"CUDA_SUCCESS",
            INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
            OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
            _ => c"CUDA_ERROR_UNKNOWN",
        }));
        SUCCESS
    }

    fn cuModuleLoad(out: Out<usize>) -> Status {
        out.put(MODULE);
        SUCCESS
    }

    fn cuModuleLoadData(out: Out<usize>) -> Status {
        out.put(MODULE);
        SUCCESS
    }

    fn cuModuleLoadDataEx(out: Out<usize>) -> Status {
        out.put(MODULE);
        SUCCESS
    }

    fn cuLibraryLoadData(out: Out<usize>) -> Status {
        out.put(MODULE);
        SUCCESS
    }

    fn cuModuleGetFunction(out: Out<usize>) -> Status {
        out.put(FUNCTION);
        SUCCESS
    }

    fn cuLibraryGetKernel(out: Out<usize>) -> Status {
        out.put(FUNCTION);
        SUCCESS
    }

    fn cuKernelGetFunction(out: Out<usize>) -> Status {
        out.put(FUNCTION);
        SUCCESS
    }

    fn cudaGetFuncBySymbol(out: Out<usize>) -> Status {
        out.put(FUNCTION);
        SUCCESS
    }

    fn cuModuleGetGlobal_v2(out: Out<u64>, size: Out<usize>) -> Status {
        out.put(memory::SYMBOL);
        size.put(8);
        SUCCESS
    }

    fn cuPointerGetAttribute(out: Out<u8>, which: i32, address: usize) -> Status {
        pointer_attribute(out, which, address);
        SUCCESS
    }

    fn cuPointerGetAttributes(count: u32, which: In, out: In, address: usize) -> Status {
        for index in 0..count as usize {
            if let (Some(which), Some(out)) = (which.read_at::<i32>(index * 4), out.read_at::<Out<u8>>(index * 8)) {
                pointer_attribute(out, which, address);
            }
        }
        SUCCESS
    }

    fn cudaGetDriverEntryPoint(name: Text, out: Out<usize>, _flags: u64, found: Out<i32>) -> Status {
        entry_point(name, out, found)
    }

    fn cudaGetDriverEntryPointByVersion(name: Text, out: Out<usize>, _version: u32, _flags: u64, found: Out<i32>) -> Status {
        entry_point(name, out, found)
    }

    /// No tables that only CUDA's own libraries know the use of: cuDNN's runtime does without a GPU then.
    fn cuGetExportTable(out: Out<usize>, _table: usize) -> Status {
        out.put(0);
        NOT_FOUND
    }

    fn cuGetProcAddress_v2(name: Text, out: Out<usize>, _version: i32, _flags: u64, found: Out<i32>) -> Status {
        entry_point(name, out, found)
    }

    fn cuGetProcAddress(name: Text, out: Out<usize>, _version: i32, _flags: u64) -> Status {
        out.put(answers::newest_address_of(&name.read()));
        SUCCESS
    }

    fn cuDeviceGetUuid(out: Out<u8>, device: i32) -> Status {
        cuDeviceGetUuid_v2(out, device)
    }

    fn cuMemGetAddressRange(base: Out<u64>, size: Out<u64>, address: usize) -> Status {
        cuMemGetAddressRange_v2(base, size, address)
    }

    fn cuStreamGetCtx(_stream: u64, out: Out<usize>) -> Status {
        out.put(context(devices::current_ordinal()));
        SUCCESS
    }

    fn cuKernelGetAttribute(out: Out<i32>, which: i32, function: usize, _device: i32) -> Status {
        launches::cuFuncGetAttribute(out, which, function)
    }
}
