//! Copies. Memory of a device has no content, so what leaves a device is zeros, and is counted as a value that nobody knows;
//! except that a few bytes which a program puts there can be had back as long as no kernel has run since. Programs that
//! compare notes between ranks (host to device, through NCCL, to the host) get their own bytes this way.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers::answers;
use crate::ffi::{In, Out};
use crate::launches;
use crate::memory::is_device;
use crate::reads;
use crate::status::{SUCCESS, Status};

/// Larger copies are not remembered.
const REMEMBERED_BYTES_MAX: usize = 1 << 16;
/// Nor are more than so many.
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

    fn recall(&self, address: usize, size: usize) -> Option<&[u8]> {
        self.known.iter().rev().find_map(|known| {
            let at = address.checked_sub(known.address)?;
            known.bytes.get(at..at.checked_add(size)?)
        })
    }
}

/// The bytes at an address of a device, if they are known.
pub(crate) fn known(address: usize, size: usize) -> Option<Vec<u8>> {
    if size > REMEMBERED_BYTES_MAX {
        return None;
    }
    mirror().recall(address, size).map(<[u8]>::to_vec)
}

/// Notes what now lies at an address of a device: bytes, or something that is not known.
pub(crate) fn note(address: usize, size: usize, bytes: Option<Vec<u8>>) {
    if size == 0 {
        return;
    }
    match bytes.filter(|_| size <= REMEMBERED_BYTES_MAX) {
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
            let bytes = (size <= REMEMBERED_BYTES_MAX && from.address() != 0).then(|| from.read_bytes(size));
            note(to.address(), size, bytes);
        }
        (true, true) => note(to.address(), size, known(from.address(), size)),
        (true, false) => match reads::answer(size).or_else(|| known(from.address(), size)) {
            Some(bytes) => to.put_bytes(&bytes),
            None => {
                to.fill(launches::unknown_byte(size), size);
                reads::note_unknown(size);
            }
        },
    }
}

/// Fills memory of a device, or of the host.
fn set(address: Out<u8>, value: i32, size: usize) {
    // As in C's `memset`, the lowest byte counts.
    let value = value.to_le_bytes()[0];
    if is_device(address.address()) {
        note(address.address(), size, (size <= REMEMBERED_BYTES_MAX).then(|| vec![value; size]));
    } else {
        address.fill(value, size);
    }
}

answers! {
    fn cudaMemcpy(to: Out<u8>, from: In, size: usize, _kind: i32) -> Status {
        copy(to, from, size);
        SUCCESS
    }

    fn cudaMemcpyAsync(to: Out<u8>, from: In, size: usize, _kind: i32, _stream: usize) -> Status {
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

    fn cudaMemsetAsync(address: Out<u8>, value: i32, size: usize, _stream: usize) -> Status {
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
        assert_eq!(mirror.recall(1001, 2), Some(&[2, 3][..]));
        assert_eq!(mirror.recall(1001, 4), None, "one byte too far");
        mirror.remember(1002, vec![9]);
        assert_eq!(mirror.recall(1000, 4), Some(&[1, 2, 9, 4][..]));
        mirror.remember(1003, vec![7, 7]);
        assert_eq!(mirror.recall(1000, 4), None, "known in part is not known");
        assert_eq!(mirror.recall(1004, 1), Some(&[7][..]));
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
        assert_eq!((mirror.known.len(), mirror.recall(10, 1)), (REMEMBERED_MAX, Some(&[1][..])));
    }
}
