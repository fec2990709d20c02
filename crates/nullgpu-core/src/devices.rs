//! The devices: how many, which is current, and what they say of themselves.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::answers::answers;
use crate::ffi::{Fixed, Out};
use crate::settings;
use crate::status::{INVALID_DEVICE, NOT_READY, OUT_OF_MEMORY, SUCCESS, Status};

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Whether this process has asked the runtime or the driver to begin.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// The runtime or the driver begins.
pub(crate) fn begin() {
    BEGUN.store(true, Ordering::Relaxed);
}

/// Whether they have begun: before that, the driver does not answer, by which programs tell that nothing has used it.
pub(crate) fn have_begun() -> bool {
    BEGUN.load(Ordering::Relaxed)
}

/// The device that this thread's calls mean.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

pub(crate) fn current_ordinal() -> i32 {
    ordinal(current())
}

fn ordinal(device: usize) -> i32 {
    i32::try_from(device).unwrap_or(0)
}

/// How many devices there are.
pub(crate) fn count() -> i32 {
    ordinal(settings::get().devices)
}

/// The largest number that launches, strides and sizes may have.
const MAX: i32 = i32::MAX;
const CLOCK_KHZ: i32 = 1_980_000;
const MEMORY_CLOCK_KHZ: i32 = 2_619_000;

/// `cudaDeviceProp`, whose fields are where the CUDA version has them: put there one by one.
struct Properties(Vec<u8>);

impl Properties {
    fn int(&mut self, at: usize, value: i32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn long(&mut self, at: usize, value: i64) {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
}

/// What is the same in every version's structure, up to the constant memory, and the compute capability behind it.
fn properties(size: usize, device: i32) -> Properties {
    let card = &settings::get().card;
    let mut properties = Properties(vec![0; size]);
    let name = &card.name.as_bytes()[..card.name.len().min(255)];
    properties.0[..name.len()].copy_from_slice(name);
    // The identifier: sixteen bytes that differ from device to device.
    properties.0[256..272].fill(0x40 + device.to_le_bytes()[0]);
    properties.long(288, i64::try_from(card.memory_bytes).unwrap_or(i64::MAX));
    properties.long(296, 48 << 10);
    properties.int(304, 65536);
    properties.int(308, 32);
    properties.long(312, MAX.into());
    for (at, value) in [(320, 1024), (324, 1024), (328, 1024), (332, 64), (336, MAX), (340, 65535), (344, 65535)] {
        properties.int(at, value);
    }
    properties.long(352, 65536);
    properties.int(360, card.major);
    properties.int(364, card.minor);
    properties.long(368, 512);
    properties.long(376, 32);
    properties
}

/// The structure as CUDA 13 has it: 1008 bytes.
fn properties_13(device: i32) -> Properties {
    let card = &settings::get().card;
    let limits = card.limits();
    let mut properties = properties(1008, device);
    let ints = [
        (384, card.multiprocessors),
        (392, 1),
        (560, 1),
        (564, 1),
        (568, 1 + device),
        (584, 3),
        (588, 1),
        (592, card.bus_bits),
        (596, card.l2_bytes),
        (600, card.l2_bytes / 8 * 5),
        (604, limits.threads),
        (608, 1),
        (612, 1),
        (616, 1),
        (632, 65536),
        (636, 1),
        (652, 1),
        (656, 1),
        (660, 1),
        (668, 1),
        (688, limits.blocks),
        (704, 1),
        (720, 1),
        (748, 1),
        (752, 1),
    ];
    for (at, value) in ints {
        properties.int(at, value);
    }
    properties.long(624, limits.shared_bytes.into());
    properties.long(672, limits.shared_opt_in_bytes.into());
    properties.long(696, limits.shared_reserved_bytes.into());
    properties
}

/// The structure as CUDA 12 has it: 1032 bytes, clocks and modes among the rest.
fn properties_12(device: i32) -> Properties {
    let card = &settings::get().card;
    let limits = card.limits();
    let mut properties = properties(1032, device);
    let ints = [
        (348, CLOCK_KHZ),
        (384, 1),
        (388, card.multiprocessors),
        (400, 1),
        (576, 1),
        (580, 1),
        (584, 1 + device),
        (600, 3),
        (604, 1),
        (608, MEMORY_CLOCK_KHZ),
        (612, card.bus_bits),
        (616, card.l2_bytes),
        (620, card.l2_bytes / 8 * 5),
        (624, limits.threads),
        (628, 1),
        (632, 1),
        (636, 1),
        (648, 65536),
        (652, 1),
        (668, 1),
        (672, 1),
        (676, 1),
        (684, 1),
        (712, limits.blocks),
        (728, 1),
        (744, 1),
    ];
    for (at, value) in ints {
        properties.int(at, value);
    }
    properties.long(640, limits.shared_bytes.into());
    properties.long(696, limits.shared_opt_in_bytes.into());
    properties.long(720, limits.shared_reserved_bytes.into());
    properties
}

/// `cudaDevAttr…` and `CU_DEVICE_ATTRIBUTE_…` have the same numbers. What is not listed is 1: most are abilities.
pub(crate) fn attribute(attribute: i32, device: i32) -> i32 {
    let card = &settings::get().card;
    let limits = card.limits();
    match attribute {
        1..=3 => 1024,
        4 => 64,
        5 | 11 => MAX,
        6 | 7 => 65535,
        8 => 48 << 10,
        9 | 12 | 82 => 65536,
        10 => 32,
        13 => CLOCK_KHZ,
        14 => 512,
        16 => card.multiprocessors,
        // A limit on run time, being integrated, a compute mode other than the default, several contexts at once, a place in
        // the PCI domain, a driver for clusters, several GPUs on one board; handles for pools, multicast and fabrics.
        17 | 18 | 20 | 34 | 35 | 50 | 84 | 85 | 121 | 128 | 132 => 0,
        33 => 1 + device,
        36 => MEMORY_CLOCK_KHZ,
        37 => card.bus_bits,
        38 => card.l2_bytes,
        39 => limits.threads,
        40 => 3,
        75 => card.major,
        76 => card.minor,
        81 => limits.shared_bytes,
        97 => limits.shared_opt_in_bytes,
        106 => limits.blocks,
        108 => card.l2_bytes / 8 * 5,
        111 => limits.shared_reserved_bytes,
        _ => 1,
    }
}

/// Where a device sits, in the form of the PCI's addresses.
pub(crate) fn pci_address(device: i32) -> String {
    format!("00000000:{:02X}:00.0", device + 1)
}

answers! {
    fn cudaGetDeviceCount(out: Out<i32>) -> Status {
        begin();
        out.put(count());
        SUCCESS
    }

    fn cudaGetDevice(out: Out<i32>) -> Status {
        begin();
        out.put(current_ordinal());
        SUCCESS
    }

    fn cudaSetDevice(device: i32) -> Status {
        begin();
        match usize::try_from(device) {
            Ok(index) if device < count() => {
                CURRENT.set(index);
                SUCCESS
            }
            _ => INVALID_DEVICE,
        }
    }

    fn cudaGetDeviceProperties(out: Out<u8>, device: i32) -> Status {
        let properties = if settings::get().cuda >= 13_000 { properties_13(device) } else { properties_12(device) };
        out.put_bytes(&properties.0);
        SUCCESS
    }

    fn cudaGetDeviceProperties_v2(out: Out<u8>, device: i32) -> Status {
        out.put_bytes(&properties_12(device).0);
        SUCCESS
    }

    fn cudaDeviceGetAttribute(out: Out<i32>, which: i32, device: i32) -> Status {
        out.put(attribute(which, device));
        SUCCESS
    }

    fn cudaDeviceCanAccessPeer(out: Out<i32>, _device: i32, _peer: i32) -> Status {
        out.put(1);
        SUCCESS
    }

    fn cudaDeviceGetPCIBusId(out: Out<u8>, capacity: i32, device: i32) -> Status {
        out.put_text(&pci_address(device), usize::try_from(capacity).unwrap_or(0));
        SUCCESS
    }

    fn cudaDeviceGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> Status {
        least.put(0);
        greatest.put(-5);
        SUCCESS
    }

    fn cudaDeviceGetLimit(out: Out<u64>, _limit: i32) -> Status {
        out.put(1 << 10);
        SUCCESS
    }

    fn cudaDriverGetVersion(out: Out<i32>) -> Status {
        out.put(settings::get().cuda);
        SUCCESS
    }

    fn cudaRuntimeGetVersion(out: Out<i32>) -> Status {
        out.put(settings::get().cuda);
        SUCCESS
    }

    fn cudaGetErrorString(status: Status) -> Fixed {
        Fixed::new(match status {
            SUCCESS => c"no error",
            OUT_OF_MEMORY => c"out of memory",
            INVALID_DEVICE => c"invalid device ordinal",
            NOT_READY => c"device not ready",
            _ => c"an error of the null GPU",
        })
    }

    fn cudaGetErrorName(status: Status) -> Fixed {
        Fixed::new(match status {
            SUCCESS => c"cudaSuccess",
            OUT_OF_MEMORY => c"cudaErrorMemoryAllocation",
            INVALID_DEVICE => c"cudaErrorInvalidDevice",
            NOT_READY => c"cudaErrorNotReady",
            _ => c"cudaErrorUnknown",
        })
    }

    fn cudaGetDeviceFlags(out: Out<u32>) -> Status {
        out.put(0);
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::out;

    #[test]
    fn a_device_that_is_not_there_cannot_be_current() {
        assert_eq!(cudaSetDevice(count()), INVALID_DEVICE);
        assert_eq!(cudaSetDevice(-1), INVALID_DEVICE);
        assert_eq!(cudaSetDevice(0), SUCCESS);
    }

    #[test]
    fn attributes_and_properties_tell_the_same() {
        let properties = properties_13(0);
        let int = |at: usize| i32::from_ne_bytes(properties.0[at..at + 4].try_into().unwrap());
        for (which, at) in [(16, 384), (75, 360), (76, 364), (38, 596), (39, 604), (106, 688), (37, 592)] {
            assert_eq!(attribute(which, 0), int(at), "attribute {which}");
        }
        let mut name = [0xff_u8; 1008];
        assert_eq!(cudaGetDeviceProperties_v2(out(&mut [0_u8; 1032]).bytes(), 0), SUCCESS);
        assert_eq!(cudaGetDeviceProperties(out(&mut name).bytes(), 0), SUCCESS);
        assert!(name.starts_with(b"NVIDIA H200\0"));
    }
}
