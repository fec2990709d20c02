//! The runtime's memory: of the devices, which is addresses only, and of the host, which is real.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use highwater_driver::{Context, DriverAddressSpace, GRANULARITY};

use crate::answers::answers;
use crate::books::Books;
use crate::clock;
use crate::devices;
use crate::ffi::{In, Out};
use crate::ledger::{self, Event, Kind};
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
    /// Whether the program has used it.
    is_begun: bool,
    /// Bytes of stream-ordered allocations.
    ordered: u64,
}

static DEVICES: LazyLock<Mutex<Vec<Device>>> = LazyLock::new(|| {
    let device = |ordinal| {
        let mut books = Books::new(BASE + ordinal * SPAN, BASE + (ordinal + 1) * SPAN);
        let context = Context::new(&mut books.space);
        Device { books, context, is_begun: false, ordered: 0 }
    };
    Mutex::new((0..DEVICES_MAX as u64).map(device).collect())
});

fn all() -> MutexGuard<'static, Vec<Device>> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happens to the context of the current device. Gives the bytes that it then has more, too.
pub(crate) fn in_context<T>(change: impl FnOnce(&mut Context, &mut DriverAddressSpace) -> T) -> Option<(T, u64)> {
    begin(devices::current());
    let mut all = all();
    let device = all.get_mut(devices::current())?;
    let before = device.context_bytes();
    let result = change(&mut device.context, &mut device.books.space);
    Some((result, device.context_bytes().saturating_sub(before)))
}

/// Whether what the context takes is followed; else the parent process says how much it is.
pub(crate) fn follows_context() -> bool {
    settings::get().context_bytes.is_none()
}

/// Notes the context of a device before the first memory there.
fn begin(device: usize) {
    let bytes = {
        let mut all = all();
        let Some(device) = all.get_mut(device).filter(|device| !device.is_begun) else { return };
        device.is_begun = true;
        device.context_bytes()
    };
    ledger::note(Event::new(Kind::Context, device, 0, bytes));
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
    begin(device);
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
    all().iter().find_map(|device| device.books.range_of(address as u64))
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

/// An address of the current device, found in its books by one of [`Books`]' ways to allocate.
fn address_for(out: Out<u64>, size: u64, allocate: fn(&mut Books, u64, u64) -> Option<u64>) -> Option<u64> {
    begin(devices::current());
    let address = all().get_mut(devices::current()).and_then(|device| {
        let capacity = device.capacity();
        allocate(&mut device.books, size, capacity)
    });
    out.put(address.unwrap_or(0));
    address
}

fn allocate(kind: Kind, out: Out<u64>, size: u64, allocate: fn(&mut Books, u64, u64) -> Option<u64>) -> Status {
    let Some(address) = address_for(out, size, allocate) else { return OUT_OF_MEMORY };
    ledger::allocated(Event::new(kind, devices::current(), address, size));
    SUCCESS
}

/// The one pool of every device.
const POOL: u64 = 1;

/// Stream-ordered memory, which comes from the pool.
fn allocate_ordered(out: Out<u64>, size: u64, stream: u64) -> Status {
    let Some(address) = address_for(out, size, Books::allocate_pages) else { return OUT_OF_MEMORY };
    let device = devices::current();
    ledger::allocated(Event { extra: stream, ..Event::new(Kind::StreamOrdered, device, address, size) });
    change_pool(device, |ordered| ordered.saturating_add(size.next_multiple_of(GRANULARITY)));
    SUCCESS
}

fn change_pool(device: usize, change: impl FnOnce(u64) -> u64) {
    let Some(bytes) = all().get_mut(device).map(|device| {
        device.ordered = change(device.ordered);
        device.ordered
    }) else {
        return;
    };
    ledger::allocated(Event { extra: bytes, ..Event::new(Kind::Pool, device, POOL, bytes) });
}

fn free(kind: Kind, address: u64) -> bool {
    let Some(device) = device_of_memory(address) else { return false };
    // Before it is free: the address may be another's right after.
    ledger::note(Event::new(kind, device, address, 0));
    all().get_mut(device).is_some_and(|device| device.books.free(address))
}

/// The device with an allocation that begins at an address.
fn device_of_memory(address: u64) -> Option<usize> {
    all().iter().position(|device| device.books.range_of(address).is_some_and(|(base, _)| base == address))
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
    let seen_at = in_context(|context, space| context.pin(size as u64, space)).and_then(|(seen_at, _)| seen_at);
    ledger::allocated(Event::of_host(Kind::Host, address, size));
    host().insert(address, Pinned { size: layout.size(), layout: Some(layout), seen_at });
    out.put(address);
    SUCCESS
}

answers! {
    fn cudaMalloc(out: Out<u64>, size: u64) -> Status {
        allocate(Kind::Device, out, size, Books::allocate)
    }

    fn cudaMallocAsync(out: Out<u64>, size: u64, stream: u64) -> Status {
        allocate_ordered(out, size, stream)
    }

    fn cudaMallocFromPoolAsync(out: Out<u64>, size: u64, _pool: usize, stream: u64) -> Status {
        allocate_ordered(out, size, stream)
    }

    fn cudaMallocManaged(out: Out<u64>, size: u64, _flags: u32) -> Status {
        allocate(Kind::Managed, out, size, Books::allocate_pages)
    }

    fn cudaFree(address: usize) -> Status {
        // It waits for the device.
        clock::wait_for_all();
        let freed = address == 0 || free(Kind::Free, address as u64);
        if freed { SUCCESS } else { INVALID_VALUE }
    }

    fn cudaFreeAsync(address: usize, _stream: usize) -> Status {
        clock::wait_for_all();
        let known = all().iter().position(|device| device.books.range_of(address as u64).is_some());
        let size = range_of(address).map_or(0, |(_, size)| size);
        if address != 0 && !free(Kind::StreamOrderedFree, address as u64) {
            return INVALID_VALUE;
        }
        if let Some(device) = known {
            change_pool(device, |ordered| ordered.saturating_sub(size));
        }
        SUCCESS
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
        if address != 0 {
            ledger::note(Event::of_host(Kind::HostFree, address, 0));
        }
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
        ledger::allocated(Event::of_host(Kind::Register, address, size));
        host().entry(address).or_insert(Pinned { size, layout: None, seen_at: None });
        SUCCESS
    }

    fn cudaHostUnregister(address: usize) -> Status {
        ledger::note(Event::of_host(Kind::Unregister, address, 0));
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
