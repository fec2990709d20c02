//! NCCL: a communicator knows its rank and how many there are; what it is asked to do is done at once, by nobody.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers::answers;
use crate::copies::{self, copy, known};
use crate::devices;
use crate::ffi::{Fixed, In, Out};
use crate::memory;
use crate::settings;
use crate::status::{INVALID_VALUE, SUCCESS, Status};

/// What makes communicators find each other, handed over by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId([u8; 128]);

#[derive(Clone, Copy)]
struct Communicator {
    ranks: i32,
    rank: i32,
    device: i32,
}

static COMMUNICATORS: Mutex<BTreeMap<usize, Communicator>> = Mutex::new(BTreeMap::new());

fn communicators() -> MutexGuard<'static, BTreeMap<usize, Communicator>> {
    COMMUNICATORS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(out: Out<usize>, communicator: Communicator) -> Status {
    let mut communicators = communicators();
    let handle = communicators.last_key_value().map_or(0x7000_0000, |(&last, _)| last + 0x100);
    communicators.insert(handle, communicator);
    out.put(handle);
    SUCCESS
}

fn join(out: Out<usize>, ranks: i32, rank: i32) -> Status {
    add(out, Communicator { ranks, rank, device: devices::current_ordinal() })
}

fn of(handle: usize) -> Communicator {
    communicators().get(&handle).copied().unwrap_or(Communicator { ranks: 1, rank: 0, device: 0 })
}

/// A broadcast since the last group of calls began.
struct Broadcast {
    to: usize,
    size: usize,
    /// This rank sent it.
    own: bool,
}

thread_local! {
    static BROADCASTS: RefCell<Vec<Broadcast>> = const { RefCell::new(Vec::new()) };
}

/// Broadcasts from several ranks in one group are an all-gather: every rank sent what this one sent.
fn gather(broadcasts: &[Broadcast]) {
    let mut of_this_rank = broadcasts.iter().filter(|broadcast| broadcast.own);
    let (Some(own), None) = (of_this_rank.next(), of_this_rank.next()) else { return };
    let sent = known(own.to, own.size);
    for broadcast in broadcasts.iter().filter(|broadcast| !broadcast.own && broadcast.size == own.size) {
        copies::note(broadcast.to, broadcast.size, sent.clone());
    }
}

/// Bytes of an element, by `ncclDataType_t`.
fn element_size(kind: i32) -> usize {
    match kind {
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        6 | 9 => 2,
        _ => 1,
    }
}

fn bytes(count: usize, kind: i32) -> usize {
    count.saturating_mul(element_size(kind))
}

answers! {
    fn ncclGetVersion(out: Out<i32>) -> Status {
        out.put(settings::get().nccl);
        SUCCESS
    }

    fn ncclGetUniqueId(out: Out<UniqueId>) -> Status {
        out.put(UniqueId([7; 128]));
        SUCCESS
    }

    fn ncclCommInitRank(out: Out<usize>, ranks: i32, _id: UniqueId, rank: i32) -> Status {
        join(out, ranks, rank)
    }

    fn ncclCommInitRankConfig(out: Out<usize>, ranks: i32, _id: UniqueId, rank: i32, _config: usize) -> Status {
        join(out, ranks, rank)
    }

    fn ncclCommInitRankScalable(out: Out<usize>, ranks: i32, rank: i32) -> Status {
        join(out, ranks, rank)
    }

    fn ncclCommInitAll(out: Out<usize>, count: i32, device_list: In) -> Status {
        for rank in 0..count {
            let place = usize::try_from(rank).unwrap_or(0);
            let device = device_list.read_at(place * 4).unwrap_or(rank);
            add(out.after(place), Communicator { ranks: count, rank, device });
        }
        SUCCESS
    }

    /// Nothing says how many have this colour, so it is as if all had: the group's own size is known to PyTorch.
    fn ncclCommSplit(communicator: usize, color: i32, _key: i32, out: Out<usize>) -> Status {
        // The number for those who do not take part.
        if color == -1 {
            out.put(0);
            return SUCCESS;
        }
        add(out, of(communicator))
    }

    fn ncclCommDestroy(communicator: usize) -> Status {
        communicators().remove(&communicator);
        SUCCESS
    }

    fn ncclCommAbort(communicator: usize) -> Status {
        communicators().remove(&communicator);
        SUCCESS
    }

    fn ncclCommCount(communicator: usize, out: Out<i32>) -> Status {
        out.put(of(communicator).ranks);
        SUCCESS
    }

    fn ncclCommUserRank(communicator: usize, out: Out<i32>) -> Status {
        out.put(of(communicator).rank);
        SUCCESS
    }

    fn ncclCommCuDevice(communicator: usize, out: Out<i32>) -> Status {
        out.put(of(communicator).device);
        SUCCESS
    }

    fn ncclCommGetAsyncError(_communicator: usize, out: Out<i32>) -> Status {
        out.put(0);
        SUCCESS
    }

    /// Every rank sent what this one sent.
    fn ncclAllGather(from: In, to: usize, count: usize, kind: i32, communicator: usize) -> Status {
        let size = bytes(count, kind);
        let sent = known(from.address(), size);
        for rank in 0..usize::try_from(of(communicator).ranks).unwrap_or(0) {
            copies::note(to + rank * size, size, sent.clone());
        }
        SUCCESS
    }

    fn ncclBroadcast(from: In, to: Out<u8>, count: usize, kind: i32, root: i32, communicator: usize) -> Status {
        let size = bytes(count, kind);
        copy(to, from, size);
        let own = root == of(communicator).rank;
        BROADCASTS.with_borrow_mut(|broadcasts| broadcasts.push(Broadcast { to: to.address(), size, own }));
        SUCCESS
    }

    fn ncclGroupStart() -> Status {
        BROADCASTS.with_borrow_mut(Vec::clear);
        SUCCESS
    }

    fn ncclGroupEnd() -> Status {
        BROADCASTS.with_borrow_mut(|broadcasts| gather(&std::mem::take(broadcasts)));
        SUCCESS
    }

    fn ncclAllReduce(from: In, to: Out<u8>, count: usize, kind: i32) -> Status {
        if from.address() != to.address() {
            copy(to, from, bytes(count, kind));
        }
        SUCCESS
    }

    /// What the others sent is not known.
    fn ncclReduceScatter(_from: In, to: usize, count: usize, kind: i32) -> Status {
        copies::note(to, bytes(count, kind), None);
        SUCCESS
    }

    fn ncclReduce(_from: In, to: usize, count: usize, kind: i32) -> Status {
        copies::note(to, bytes(count, kind), None);
        SUCCESS
    }

    fn ncclRecv(to: usize, count: usize, kind: i32) -> Status {
        copies::note(to, bytes(count, kind), None);
        SUCCESS
    }

    fn ncclMemAlloc(out: Out<u64>, size: u64) -> Status {
        // NCCL's own number for a failed CUDA call is 1 too.
        if memory::cudaMalloc(out, size) == SUCCESS { SUCCESS } else { INVALID_VALUE }
    }

    fn ncclMemFree(address: usize) -> Status {
        memory::cudaFree(address)
    }

    fn ncclGetErrorString(_status: Status) -> Fixed {
        Fixed::new(c"NCCL of the null GPU")
    }

    fn ncclGetLastError(_communicator: usize) -> Fixed {
        Fixed::new(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::out;

    #[test]
    fn a_communicator_knows_its_rank() {
        let (mut handle, mut number) = (0, 0);
        assert_eq!(ncclCommInitRank(out(&mut handle), 4, UniqueId([0; 128]), 2), SUCCESS);
        assert_eq!(ncclCommCount(handle, out(&mut number)), SUCCESS);
        assert_eq!(number, 4);
        assert_eq!(ncclCommUserRank(handle, out(&mut number)), SUCCESS);
        assert_eq!(number, 2);
    }

    #[test]
    fn broadcasts_from_each_rank_in_a_group_are_an_all_gather() {
        let (mut handle, base) = (0, 0x1000_0000_0000_usize);
        assert_eq!(ncclCommInitRank(out(&mut handle), 2, UniqueId([0; 128]), 1), SUCCESS);
        copies::note(base, 8, Some(vec![3; 8]));
        assert_eq!(ncclGroupStart(), SUCCESS);
        let (from, first, second) = (In::at(base), Out::of_argument(base + 512), Out::of_argument(base + 1024));
        assert_eq!(ncclBroadcast(In::at(base + 512), first, 1, 4, 0, handle), SUCCESS);
        assert_eq!(ncclBroadcast(from, second, 1, 4, 1, handle), SUCCESS);
        assert_eq!(ncclGroupEnd(), SUCCESS);
        assert_eq!(known(base + 512, 8), known(base, 8), "the other rank sent the same");
        assert_eq!(known(base + 1024, 8), Some(vec![3; 8]));
    }
}
