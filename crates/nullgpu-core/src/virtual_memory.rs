//! The driver's interface to virtual memory: addresses are reserved, memory is made, and the one mapped to the other. PyTorch's
//! expandable segments live on it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use highwater_driver::{GRANULARITY, RESERVATION_ALIGNMENT};

use crate::answers::answers;
use crate::ffi::{In, Out};
use crate::ledger::{self, Event, Kind};
use crate::memory;
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, Status};

/// Reserved addresses lie here.
const BASE: u64 = 0x3000_0000_0000;
const END: u64 = 0x5000_0000_0000;

/// Memory without an address.
struct Memory {
    device: usize,
    size: u64,
    /// How often the program holds it; without, it lives on as long as it is mapped.
    holders: usize,
    mapped: usize,
}

struct Mapping {
    size: u64,
    handle: u64,
}

struct State {
    next_address: u64,
    next_handle: u64,
    memories: BTreeMap<u64, Memory>,
    mappings: BTreeMap<u64, Mapping>,
}

static STATE: Mutex<State> =
    Mutex::new(State { next_address: BASE, next_handle: 1, memories: BTreeMap::new(), mappings: BTreeMap::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn drop_if_gone(&mut self, handle: u64) {
        if let Some(memory) = self.memories.get(&handle)
            && memory.holders == 0
            && memory.mapped == 0
        {
            memory::give(memory.device, memory.size);
            self.memories.remove(&handle);
        }
    }
}

/// The device whose memory is mapped at an address; device 0 where addresses are only reserved.
pub(crate) fn device_of(address: u64) -> Option<usize> {
    if !(BASE..END).contains(&address) {
        return None;
    }
    let state = state();
    let mapping = state.mappings.range(..=address).next_back().filter(|(base, mapping)| address - *base < mapping.size);
    let memory = mapping.and_then(|(_, mapping)| state.memories.get(&mapping.handle));
    Some(memory.map_or(0, |memory| memory.device))
}

answers! {
    fn cuMemAddressReserve(out: Out<u64>, size: u64, _alignment: u64, _wish: u64, _flags: u64) -> Status {
        let mut state = state();
        let next = size.checked_next_multiple_of(RESERVATION_ALIGNMENT).and_then(|size| state.next_address.checked_add(size));
        let Some(next) = next.filter(|&next| next <= END) else { return OUT_OF_MEMORY };
        out.put(state.next_address);
        state.next_address = next;
        SUCCESS
    }

    /// The device stands in the fourth word of `CUmemAllocationProp`: its kind, its handles' kind, where, which.
    fn cuMemCreate(out: Out<u64>, size: u64, properties: In, _flags: u64) -> Status {
        let device = properties.read_at::<i32>(12).and_then(|device| usize::try_from(device).ok()).unwrap_or(0);
        if !memory::take(device, size) {
            return OUT_OF_MEMORY;
        }
        let handle = {
            let mut state = state();
            let handle = state.next_handle;
            state.next_handle += 1;
            state.memories.insert(handle, Memory { device, size, holders: 1, mapped: 0 });
            handle
        };
        ledger::allocated(Event::new(Kind::Create, device, handle, size));
        out.put(handle);
        SUCCESS
    }

    fn cuMemRelease(handle: u64) -> Status {
        let mut state = state();
        let Some(memory) = state.memories.get_mut(&handle) else { return INVALID_VALUE };
        ledger::note(Event::new(Kind::Release, memory.device, handle, 0));
        memory.holders = memory.holders.saturating_sub(1);
        state.drop_if_gone(handle);
        SUCCESS
    }

    /// The memory that is mapped at an address; the program lets go of it once more.
    fn cuMemRetainAllocationHandle(out: Out<u64>, address: u64) -> Status {
        let mut state = state();
        let mapping = state.mappings.range(..=address).next_back().filter(|(base, mapping)| address - *base < mapping.size);
        let Some(handle) = mapping.map(|(_, mapping)| mapping.handle) else { return INVALID_VALUE };
        if let Some(memory) = state.memories.get_mut(&handle) {
            memory.holders += 1;
            ledger::note(Event::new(Kind::Retain, memory.device, handle, 0));
        }
        out.put(handle);
        SUCCESS
    }

    /// Pinned memory of a device, in the form that `cuMemCreate` takes.
    fn cuMemGetAllocationPropertiesFromHandle(out: Out<i32>, handle: u64) -> Status {
        let state = state();
        let Some(memory) = state.memories.get(&handle) else { return INVALID_VALUE };
        out.bytes().fill(0, 32);
        out.put(1);
        out.after(2).put(1);
        out.after(3).put(i32::try_from(memory.device).unwrap_or(0));
        SUCCESS
    }

    fn cuMemMap(address: u64, size: u64, _offset: u64, handle: u64, _flags: u64) -> Status {
        let mut state = state();
        let Some(memory) = state.memories.get_mut(&handle) else { return INVALID_VALUE };
        memory.mapped += 1;
        ledger::note(Event { extra: handle, ..Event::new(Kind::Map, memory.device, address, size) });
        state.mappings.insert(address, Mapping { size, handle });
        SUCCESS
    }

    fn cuMemUnmap(address: u64, size: u64) -> Status {
        let mut state = state();
        let end = address.saturating_add(size);
        ledger::note(Event::new(Kind::Unmap, 0, address, size));
        let within: Vec<u64> = state.mappings.range(address..end).map(|(&base, _)| base).collect();
        for base in within {
            if let Some(Mapping { handle, .. }) = state.mappings.remove(&base) {
                if let Some(memory) = state.memories.get_mut(&handle) {
                    memory.mapped -= 1;
                }
                state.drop_if_gone(handle);
            }
        }
        SUCCESS
    }

    fn cuMemGetAllocationGranularity(out: Out<u64>, _properties: In, _which: i32) -> Status {
        out.put(GRANULARITY);
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_memory_lives_as_long_as_it_is_mapped() {
        let (mut address, mut handle) = (0_u64, 0_u64);
        let before = memory::used(3);
        // Only the device's word is looked at.
        let properties: [i32; 4] = [1, 0, 1, 3];
        assert_eq!(cuMemAddressReserve(out(&mut address), 1 << 32, 0, 0, 0), SUCCESS);
        assert_eq!(cuMemCreate(out(&mut handle), 20 << 20, input(&properties), 0), SUCCESS);
        assert_eq!(cuMemMap(address, 20 << 20, 0, handle, 0), SUCCESS);
        assert_eq!(memory::device_of(usize::try_from(address).unwrap() + 1000), Some(3));
        assert_eq!(memory::used(3), before + (20 << 20));
        let (mut same, mut told) = (0_u64, [9_i32; 8]);
        assert_eq!(cuMemRetainAllocationHandle(out(&mut same), address + 5), SUCCESS);
        assert_eq!(cuMemGetAllocationPropertiesFromHandle(out(&mut told[0]), same), SUCCESS);
        assert_eq!((same, &told[..4]), (handle, &[1, 0, 1, 3][..]));
        assert_eq!(cuMemRetainAllocationHandle(out(&mut same), address + (20 << 20)), INVALID_VALUE);
        assert_eq!(cuMemRelease(handle), SUCCESS);
        assert_eq!(cuMemRelease(handle), SUCCESS, "held twice");
        assert_eq!(memory::used(3), before + (20 << 20), "still mapped");
        assert_eq!(cuMemUnmap(address, 20 << 20), SUCCESS);
        assert_eq!(memory::used(3), before);
        assert_eq!(cuMemRelease(handle), INVALID_VALUE);
        assert_eq!(cuMemCreate(out(&mut handle), u64::MAX, input(&properties), 0), OUT_OF_MEMORY);
    }

    use crate::ffi::tests::{input, out};
}
