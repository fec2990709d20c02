//! Copies. Memory of a device has no content, so what leaves a device is zeros, and is counted as a value that nobody knows;
//! except that a few bytes which a program puts there can be had back as long as no kernel has run since. Programs that
//! compare notes between ranks (host to device, through NCCL, to the host) get their own bytes this way.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers::answers;
use crate::clock;
use crate::ffi::{In, Out};
use crate::launches;
use crate::memory::is_device;
use crate::ranks;
use crate::reads;
use crate::status::{SUCCESS, Status};

/// Larger copies are not remembered.
pub(crate) const BYTES_MAX: usize = 1 << 20;
/// Nor are more than so many, which would be half a GiB at most; a kernel ends them all.
const REMEMBERED_MAX: usize = 512;

/// Bytes of a device that are known.
struct Known {
    address: usize,
    bytes: Vec<u8>,
}

struct Mirror {
    /// Newest last.
    known: VecDeque<Known>,
    /// How many kernels had run when the first of them was put there.
    launches: u64,
}

static MIRROR: Mutex<Mirror> = Mutex::new(Mirror { known: VecDeque::new(), launches: 0 });
/// The mirror as the last kernel left it: empty.
fn mirror() -> MutexGuard<'static, Mirror> {
    let mut mirror = MIRROR.lock().unwrap_or_else(PoisonError::into_inner);
    let launches = launches::count();
    if mirror.launches != launches {
        mirror.known.clear();
        mirror.launches = launches;
    }
    mirror
}

impl Mirror {
    /// What is known of a range overlaps this one by an end, or lies in it, or around it.
    fn forget(&mut self, address: usize, size: usize) {
        self.known.retain(|known| known.address + known.bytes.len() <= address || address + size <= known.address);
    }

    fn remember(&mut self, address: usize, bytes: Vec<u8>) {
        // Bytes within what is known change it; else what they overlap is known in part, which is as good as not.
        let end = address + bytes.len();
        let around =
            self.known.iter_mut().find(|known| known.address <= address && end <= known.address + known.bytes.len());
        if let Some(known) = around {
            let at = address - known.address;
            known.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
            return;
        }
        self.forget(address, bytes.len());
        if self.known.len() == REMEMBERED_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Known { address, bytes });
    }

    /// The bytes of a range, which may have been put there in parts.
    fn recall(&self, address: usize, size: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            let at = address + bytes.len();
            let part = self.known.iter().rev().find_map(|known| {
                let part = known.bytes.get(at.checked_sub(known.address)?..)?;
                (!part.is_empty()).then_some(part)
            })?;
            bytes.extend_from_slice(&part[..part.len().min(size - bytes.len())]);
        }
        Some(bytes)
    }
}

/// The bytes at an address of a device, if they are known.
pub(crate) fn known(address: usize, size: usize) -> Option<Vec<u8>> {
    if size > BYTES_MAX {
        return None;
    }
    mirror().recall(address, size)
}

/// Notes what now lies at an address of a device: bytes, or something that is not known.
pub(crate) fn note(address: usize, size: usize, bytes: Option<Vec<u8>>) {
    if size == 0 {
        return;
    }
    match bytes.filter(|_| size <= BYTES_MAX) {
        Some(bytes) => mirror().remember(address, bytes),
        None => mirror().forget(address, size),
    }
}

/// Copies from anywhere to anywhere.
pub(crate) fn copy(to: Out<u8>, from: In, size: usize) {
    if size == 0 {
        return;
    }
    match (is_device(from.address()), is_device(to.address())) {
        (false, false) => from.copy_to(to, size),
        (false, true) => {
            let bytes = (size <= BYTES_MAX && from.address() != 0).then(|| from.read_bytes(size));
            note(to.address(), size, bytes);
        }
        (true, true) => {
            ranks::settle_at(from.address(), size);
            note(to.address(), size, known(from.address(), size));
        }
        (true, false) => {
            ranks::settle_at(from.address(), size);
            match reads::answer(size).or_else(|| known(from.address(), size)) {
                Some(bytes) => to.put_bytes(&bytes),
                None => {
                    to.fill(launches::unknown_byte(size), size);
                    reads::note_unknown(size);
                }
            }
        }
    }
}

/// Fills memory of a device, or of the host.
fn set(address: Out<u8>, value: i32, size: usize) {
    // As in C's `memset`, the lowest byte counts.
    let value = value.to_le_bytes()[0];
    if is_device(address.address()) {
        note(address.address(), size, (size <= BYTES_MAX).then(|| vec![value; size]));
    } else {
        address.fill(value, size);
    }
}

/// Says what lies at an address of a device: `size` bytes, or what nobody knows if `bytes` is 0.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_note(address: usize, bytes: usize, size: usize) {
    let bytes = (bytes != 0 && size <= BYTES_MAX).then(|| In::from(Out::of_argument(bytes)).read_bytes(size));
    note(address, size, bytes);
}

/// Writes what lies at an address of a device to `bytes`: 1, or 0 if that is not known.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_known(address: usize, bytes: usize, size: usize) -> i32 {
    let known = known(address, size);
    if let Some(known) = &known {
        Out::of_argument(bytes).put_bytes(known);
    }
    i32::from(known.is_some())
}

answers! {
    fn cudaMemcpy(to: Out<u8>, from: In, size: usize, _kind: i32) -> Status {
        clock::wait_for_all();
        copy(to, from, size);
        SUCCESS
    }

    fn cudaMemcpyAsync(to: Out<u8>, from: In, size: usize, _kind: i32, stream: u64) -> Status {
        clock::copy(stream, size as u64, is_device(to.address()) != is_device(from.address()));
        copy(to, from, size);
        SUCCESS
    }

    fn cudaMemcpyPeerAsync(to: Out<u8>, _to_device: i32, from: In, _from_device: i32, size: usize, _stream: usize) -> Status {
        copy(to, from, size);
        SUCCESS
    }

    fn cudaMemcpy2DAsync(to: Out<u8>, to_pitch: usize, from: Out<u8>, from_pitch: usize, width: usize, height: usize, _kind: i32, _stream: usize) -> Status {
        for row in 0..height {
            copy(to.after(row * to_pitch), In::from(from.after(row * from_pitch)), width);
        }
        SUCCESS
    }

    fn cudaMemcpyFromSymbol(to: Out<u8>, _symbol: usize, size: usize, _offset: usize, _kind: i32) -> Status {
        if !is_device(to.address()) {
            to.fill(0, size);
        }
        SUCCESS
    }

    fn cudaMemset(address: Out<u8>, value: i32, size: usize) -> Status {
        set(address, value, size);
        SUCCESS
    }

    fn cudaMemsetAsync(address: Out<u8>, value: i32, size: usize, stream: u64) -> Status {
        clock::copy(stream, size as u64, false);
        set(address, value, size);
        SUCCESS
    }

    fn cuMemcpyHtoD_v2(to: Out<u8>, from: In, size: usize) -> Status {
        copy(to, from, size);
        SUCCESS
    }

    fn cuMemcpyHtoDAsync_v2(to: Out<u8>, from: In, size: usize, _stream: usize) -> Status {
        copy(to, from, size);
        SUCCESS
    }

    fn cuMemcpyDtoH_v2(to: Out<u8>, from: In, size: usize) -> Status {
        copy(to, from, size);
        SUCCESS
    }

    fn cuMemcpyDtoHAsync_v2(to: Out<u8>, from: In, size: usize, _stream: usize) -> Status {
        copy(to, from, size);
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror() -> Mirror {
        Mirror { known: VecDeque::new(), launches: 0 }
    }

    #[test]
    fn what_was_put_there_comes_back_and_newer_bytes_win() {
        let mut mirror = mirror();
        mirror.remember(1000, vec![1, 2, 3, 4]);
        assert_eq!(mirror.recall(1001, 2), Some(vec![2, 3]));
        assert_eq!(mirror.recall(1001, 4), None, "one byte too far");
        mirror.remember(1002, vec![9]);
        assert_eq!(mirror.recall(1000, 4), Some(vec![1, 2, 9, 4]));
        mirror.remember(1003, vec![7, 7]);
        assert_eq!(mirror.recall(1000, 4), None, "known in part is not known");
        assert_eq!(mirror.recall(1004, 1), Some(vec![7]));
        mirror.remember(1005, vec![8, 8]);
        assert_eq!(mirror.recall(1004, 2), Some(vec![7, 8]), "in two parts");
        mirror.forget(900, 200);
        assert_eq!(mirror.recall(1004, 1), None);
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut mirror = mirror();
        for index in 0..=REMEMBERED_MAX {
            mirror.remember(index * 10, vec![1]);
        }
        assert_eq!(mirror.recall(0, 1), None);
        assert_eq!((mirror.known.len(), mirror.recall(10, 1)), (REMEMBERED_MAX, Some(vec![1])));
    }
}
