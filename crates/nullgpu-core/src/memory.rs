//! The runtime's memory: of the devices, which is addresses only, and of the host, which is real.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use highwater_driver::{Context, DriverAddressSpace};

use crate::answers::answers;
use crate::books::Books;
use crate::clock;
use crate::devices;
use crate::ffi::{In, Out};
use crate::settings::{self, DEVICES_MAX};
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, SUCCESS, Status};
use crate::virtual_memory;

/// Where the addresses of device 0 begin; a TiB later those of device 1. No operating system for x86-64 puts a program's own
/// memory here: it is below where position-independent programs and libraries go, and above the others.
const BASE: u64 = 0x1000_0000_0000;
const SPAN: u64 = 1 << 40;
const DEVICES_END: u64 = BASE + DEVICES_MAX as u64 * SPAN;

/// An address that stands for variables of kernels.
pub(crate) const SYMBOL: u64 = DEVICES_END;
const SYMBOLS_END: u64 = SYMBOL + (1 << 20);

struct Device {
    books: Books,
    context: Context,
}

static DEVICES: LazyLock<Mutex<Vec<Device>>> = LazyLock::new(|| {
    let device = |ordinal| {
        let mut books = Books::new(BASE + ordinal * SPAN, BASE + (ordinal + 1) * SPAN);
        let context = Context::new(&mut books.space);
        Device { books, context }
    };
    Mutex::new((0..DEVICES_MAX as u64).map(device).collect())
});

fn all() -> MutexGuard<'static, Vec<Device>> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happens to the context of the current device.
pub(crate) fn in_context<T>(change: impl FnOnce(&mut Context, &mut DriverAddressSpace) -> T) -> Option<T> {
    all().get_mut(devices::current()).map(|device| change(&mut device.context, &mut device.books.space))
}

impl Device {
    /// What programs do not get of it.
    fn context_bytes(&self) -> u64 {
        settings::get().context_bytes.unwrap_or(self.context.bytes())
    }

    /// What programs can have of it.
    fn capacity(&self) -> u64 {
        settings::get().card.memory_bytes.saturating_sub(self.context_bytes())
    }
}

/// Bytes of a device that are not free: what is taken, and the context's.
pub(crate) fn occupied(device: usize) -> u64 {
    all().get(device).map_or(0, |device| device.books.used() + device.context_bytes())
}

/// Takes memory of a device that lies elsewhere; false if there is not so much.
pub(crate) fn take(device: usize, size: u64) -> bool {
    all().get_mut(device).is_some_and(|device| {
        let capacity = device.capacity();
        device.books.take(size, capacity)
    })
}

/// Gives back what [`take`] took.
pub(crate) fn give(device: usize, size: u64) {
    if let Some(device) = all().get_mut(device) {
        device.books.give(size);
    }
}

/// Bytes of a device that are taken.
pub(crate) fn used(device: usize) -> u64 {
    all().get(device).map_or(0, |device| device.books.used())
}

/// Bytes of a device that can still be had.
pub(crate) fn available(device: usize) -> u64 {
    settings::get().card.memory_bytes.saturating_sub(occupied(device))
}

/// Whether an address is one of a device's.
pub(crate) fn is_device(address: usize) -> bool {
    device_of(address).is_some()
}

/// The device that an address belongs to.
pub(crate) fn device_of(address: usize) -> Option<usize> {
    let address = address as u64;
    if (BASE..DEVICES_END).contains(&address) {
        return usize::try_from((address - BASE) / SPAN).ok();
    }
    if (SYMBOL..SYMBOLS_END).contains(&address) {
        return Some(devices::current());
    }
    virtual_memory::device_of(address)
}

/// The base and the size of the allocation that an address lies in.
pub(crate) fn range_of(address: usize) -> Option<(u64, u64)> {
    all().iter().find_map(|device| device.books.space.range_of(address as u64))
}

/// Real memory that a program has as pinned.
struct Pinned {
    size: usize,
    /// How it was allocated; nothing for what was only registered.
    layout: Option<Layout>,
    /// Where a device sees it, if at addresses of its own.
    seen_at: Option<u64>,
}

static HOST: Mutex<BTreeMap<usize, Pinned>> = Mutex::new(BTreeMap::new());

fn host() -> MutexGuard<'static, BTreeMap<usize, Pinned>> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_pinned(address: usize) -> bool {
    host().range(..=address).next_back().is_some_and(|(&base, pinned)| address - base < pinned.size)
}

fn allocate(out: Out<u64>, size: u64) -> Status {
    let address = all().get_mut(devices::current()).and_then(|device| {
        let capacity = device.capacity();
        device.books.allocate(size, capacity)
    });
    out.put(address.unwrap_or(0));
    if address.is_some() { SUCCESS } else { OUT_OF_MEMORY }
}

#[expect(unsafe_code, reason = "pinned memory is real memory of the host, of any size")]
fn allocate_host(out: Out<usize>, size: usize) -> Status {
    out.put(0);
    let Ok(layout) = Layout::from_size_align(size.max(1), 4096) else { return INVALID_VALUE };
    // SAFETY: the size is not zero.
    let address = unsafe { alloc(layout) } as usize;
    if address == 0 {
        return OUT_OF_MEMORY;
    }
    let seen_at = in_context(|context, space| context.pin(size as u64, space)).flatten();
    host().insert(address, Pinned { size: layout.size(), layout: Some(layout), seen_at });
    out.put(address);
    SUCCESS
}

answers! {
    fn cudaMalloc(out: Out<u64>, size: u64) -> Status {
        allocate(out, size)
    }

    fn cudaMallocAsync(out: Out<u64>, size: u64, _stream: usize) -> Status {
        allocate(out, size)
    }

    fn cudaMallocFromPoolAsync(out: Out<u64>, size: u64, _pool: usize, _stream: usize) -> Status {
        allocate(out, size)
    }

    fn cudaMallocManaged(out: Out<u64>, size: u64, _flags: u32) -> Status {
        allocate(out, size)
    }

    fn cudaFree(address: usize) -> Status {
        // It waits for the device.
        clock::wait_for_all();
        let freed = address == 0 || all().iter_mut().any(|device| device.books.free(address as u64));
        if freed { SUCCESS } else { INVALID_VALUE }
    }

    fn cudaFreeAsync(address: usize, _stream: usize) -> Status {
        cudaFree(address)
    }

    fn cudaMemGetInfo(free: Out<u64>, total: Out<u64>) -> Status {
        free.put(available(devices::current()));
        total.put(settings::get().card.memory_bytes);
        SUCCESS
    }

    /// The default pool of every device is the same handle: nobody looks into it.
    fn cudaDeviceGetDefaultMemPool(pool: Out<usize>, _device: i32) -> Status {
        pool.put(1);
        SUCCESS
    }

    fn cudaDeviceGetMemPool(pool: Out<usize>, _device: i32) -> Status {
        pool.put(1);
        SUCCESS
    }

    fn cudaMemPoolCreate(pool: Out<usize>, _properties: In) -> Status {
        pool.put(2);
        SUCCESS
    }

    /// Reserved and used, now and at most: all of them what is taken now.
    fn cudaMemPoolGetAttribute(_pool: usize, _attribute: i32, value: Out<u64>) -> Status {
        value.put(used(devices::current()));
        SUCCESS
    }

    fn cudaHostAlloc(out: Out<usize>, size: usize, _flags: u32) -> Status {
        allocate_host(out, size)
    }

    fn cudaMallocHost(out: Out<usize>, size: usize) -> Status {
        allocate_host(out, size)
    }

    #[expect(unsafe_code, reason = "gives back what `allocate_host` took")]
    fn cudaFreeHost(address: usize) -> Status {
        let known = host().remove(&address);
        if let Some(seen_at) = known.as_ref().and_then(|pinned| pinned.seen_at) {
            all().iter_mut().any(|device| device.books.space.give_back(seen_at).is_some());
        }
        if let Some(Pinned { layout: Some(layout), .. }) = known {
            // SAFETY: allocated with this layout by `allocate_host`, and no longer in the map: freed once.
            unsafe { dealloc(address as *mut u8, layout) }
        }
        if address == 0 || known.is_some() { SUCCESS } else { INVALID_VALUE }
    }

    fn cudaHostRegister(address: usize, size: usize, _flags: u32) -> Status {
        host().entry(address).or_insert(Pinned { size, layout: None, seen_at: None });
        SUCCESS
    }

    fn cudaHostUnregister(address: usize) -> Status {
        let mut host = host();
        if host.get(&address).is_some_and(|pinned| pinned.layout.is_none()) {
            host.remove(&address);
        }
        SUCCESS
    }

    fn cudaHostGetDevicePointer(out: Out<usize>, address: usize, _flags: u32) -> Status {
        out.put(address);
        SUCCESS
    }

    fn cudaHostGetFlags(flags: Out<u32>, _address: usize) -> Status {
        flags.put(0);
        SUCCESS
    }

    /// `cudaPointerAttributes`: type, device, address on the device, address on the host.
    fn cudaPointerGetAttributes(out: Out<i32>, address: usize) -> Status {
        out.bytes().fill(0, 24);
        let (kind, device, on_device, on_host) = match device_of(address) {
            Some(device) => (2, i32::try_from(device).unwrap_or(0), address, 0),
            None if is_pinned(address) => (1, devices::current_ordinal(), address, address),
            None => (0, -1, 0, 0),
        };
        out.put(kind);
        out.after(1).put(device);
        for (place, address) in [(8, on_device), (16, on_host)] {
            out.bytes().after(place).put_bytes(&address.to_ne_bytes());
        }
        SUCCESS
    }

    fn cudaGetSymbolAddress(out: Out<u64>, _symbol: usize) -> Status {
        out.put(SYMBOL);
        SUCCESS
    }

    fn cudaGetSymbolSize(out: Out<u64>, _symbol: usize) -> Status {
        out.put(8);
        SUCCESS
    }

    /// What goes to another process is the address: it means nothing there, and nothing is read from it.
    fn cudaIpcGetMemHandle(handle: Out<u8>, address: usize) -> Status {
        handle.fill(0, 64);
        handle.put_bytes(&address.to_ne_bytes());
        SUCCESS
    }

    fn cudaIpcOpenMemHandle(out: Out<usize>, handle: In, _flags: u32) -> Status {
        out.put(handle.read_at(0).unwrap_or(0));
        SUCCESS
    }
}
