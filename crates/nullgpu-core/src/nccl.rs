//! NCCL: communicators, and what their ranks are asked to do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use highwater_driver::communicator::{CODE_BYTES, Link, PINNED_BYTES, STREAMS_BYTES, TABLE_BYTES, tables};

use crate::alike;
use crate::answers::answers;
use crate::clock;
use crate::devices;
use crate::ffi::{Fixed, In, Out};
use crate::ledger::{self, Event, Maker};
use crate::meeting::Kind;
use crate::memory;
use crate::ranks::{self, Call, Communicator};
use crate::settings;
use crate::status::{INVALID_VALUE, SUCCESS, Status};

/// What makes communicators find each other, handed over by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId([u8; 128]);

/// Of its bytes so many tell one from the others.
const TELLING: usize = 16;

impl UniqueId {
    fn new() -> Self {
        let mut bytes = [7; 128];
        // Without it there are no others either.
        let _ = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes[..TELLING]));
        UniqueId(bytes)
    }

    fn name(&self) -> String {
        self.0.first_chunk().map_or_else(String::new, |bytes| format!("{:032x}", u128::from_be_bytes(*bytes)))
    }
}

/// A communicator, and its memory.
struct Held {
    communicator: Communicator,
    /// The device that its buffers are on.
    device: usize,
    /// How many there are: their handles follow one another.
    buffers: u64,
    bytes: u64,
    links: BTreeSet<Link>,
}

/// By handle.
static COMMUNICATORS: Mutex<BTreeMap<usize, Held>> = Mutex::new(BTreeMap::new());

fn communicators() -> MutexGuard<'static, BTreeMap<usize, Held>> {
    COMMUNICATORS.lock().unwrap_or_else(PoisonError::into_inner)
}

const LIBRARY: &str = "libnccl.so";

fn add(out: Out<usize>, communicator: Communicator, function: &'static str) -> Status {
    let device = usize::try_from(communicator.device).unwrap_or(0);
    let ranks = communicator.ranks;
    let handle = {
        let mut communicators = communicators();
        let handle = communicators.last_key_value().map_or(0x7000_0000, |(&last, _)| last + 0x100);
        communicators.insert(handle, Held { communicator, device, buffers: 0, bytes: 0, links: BTreeSet::new() });
        handle
    };
    let maker = (LIBRARY, function);
    if !take_buffers(handle, &[(tables(ranks), TABLE_BYTES)], maker) {
        communicators().remove(&handle);
        return ranks::fail("there is no memory for the buffers of another communicator");
    }
    note_beside(maker, handle, device);
    out.put(handle);
    SUCCESS
}

/// The handle of `cuMemCreate` of a buffer, which the program never sees: above those that it does.
fn handle_of_buffer(communicator: usize, buffer: u64) -> u64 {
    ((communicator as u64) << 32) + buffer
}

/// Takes buffers for a communicator, so many of such a size each; false if there is not so much memory.
fn take_buffers(handle: usize, wanted: &[(u64, u64)], maker: Maker) -> bool {
    let count: u64 = wanted.iter().map(|(count, _)| count).sum();
    let bytes: u64 = wanted.iter().map(|(count, each)| count * each).sum();
    let Some(device) = communicators().get(&handle).map(|held| held.device) else { return true };
    if !memory::take(device, bytes) {
        return false;
    }
    let first = {
        let mut communicators = communicators();
        let Some(held) = communicators.get_mut(&handle) else { return true };
        held.bytes += bytes;
        held.buffers += count;
        held.buffers - count
    };
    let sizes = wanted.iter().flat_map(|&(count, each)| (0..count).map(move |_| each));
    for (buffer, each) in (first..).zip(sizes) {
        let created = Event::new(ledger::Kind::Create, device, handle_of_buffer(handle, buffer), each);
        ledger::made_by(maker, created);
    }
    true
}

/// Notes the memory that comes with a communicator beside its buffers.
fn note_beside(maker: Maker, handle: usize, device: usize) {
    static HAS_CODE: AtomicBool = AtomicBool::new(false);
    if !HAS_CODE.swap(true, Ordering::Relaxed) && memory::take(device, CODE_BYTES) {
        ledger::made_by(maker, Event::new(ledger::Kind::Module, device, 0, CODE_BYTES));
    }
    let pinned = Event::new(ledger::Kind::Host, 0, handle as u64, PINNED_BYTES);
    ledger::made_by(maker, Event { device: ledger::HOST, ..pinned });
    if memory::take(device, STREAMS_BYTES) {
        ledger::made_by(maker, Event::new(ledger::Kind::Stream, device, 0, STREAMS_BYTES));
    }
}

/// Connects a communicator's rank with others, unless it is: as NCCL does, when a call needs it.
fn connect(handle: usize, wanted: impl IntoIterator<Item = Link>, function: &'static str) -> Result<(), Status> {
    static LOCAL_BYTES: AtomicU64 = AtomicU64::new(0);
    let (missing, device) = {
        let mut communicators = communicators();
        let Some(held) = communicators.get_mut(&handle) else { return Ok(()) };
        // A rank alone copies.
        let wanted = wanted.into_iter().filter(|_| held.communicator.ranks > 1);
        let missing: Vec<Link> = wanted.filter(|&link| held.links.insert(link)).collect();
        (missing, held.device)
    };
    for link in missing {
        if !take_buffers(handle, link.buffers(), (LIBRARY, function)) {
            return Err(ranks::fail("there is no memory for the buffers of a communicator's connections"));
        }
        // The kernel that needs most has enough for the others.
        let before = LOCAL_BYTES.fetch_max(link.local_bytes(), Ordering::Relaxed);
        let more = link.local_bytes().saturating_sub(before);
        if more > 0 && memory::take(device, more) {
            ledger::note(Event::new(ledger::Kind::Launch, device, 0, more));
        }
    }
    Ok(())
}

/// The links of an exchange with every other rank.
///
/// Ranks of other hosts share buffers for the network, which were not measured: a group that does not fit on one host takes none.
fn all_peers(handle: usize) -> Vec<Link> {
    let communicator = of(handle);
    let fits = usize::try_from(communicator.ranks).is_ok_and(|ranks| ranks <= settings::get().devices);
    let peers = (0..communicator.ranks).filter(|&peer| fits && peer != communicator.rank);
    peers.flat_map(|peer| [Link::To(peer), Link::From(peer)]).collect()
}

/// The link of a message, as that of [`all_peers`].
fn peer(handle: usize, link: Link) -> Option<Link> {
    all_peers(handle).into_iter().find(|&of| of == link)
}

/// A communicator and its buffers go.
fn remove(handle: usize) {
    let Some(held) = communicators().remove(&handle) else { return };
    memory::give(held.device, held.bytes);
    for buffer in 0..held.buffers {
        ledger::note(Event::new(ledger::Kind::Release, held.device, handle_of_buffer(handle, buffer), 0));
    }
}

fn join(out: Out<usize>, ranks: i32, id: &UniqueId, rank: i32, function: &'static str) -> Status {
    match ranks::join(&id.name(), ranks, rank, devices::current_ordinal()) {
        Ok(communicator) => add(out, communicator, function),
        Err(why) => ranks::fail(&why),
    }
}

fn of(handle: usize) -> Communicator {
    let alone = Communicator { ranks: 1, rank: 0, device: 0, meeting: None };
    communicators().get(&handle).map_or(alone, |held| held.communicator.clone())
}

/// A collective without a root.
#[expect(clippy::too_many_arguments, reason = "what NCCL is told")]
fn of_all(
    kind: Kind,
    from: In,
    to: usize,
    count: usize,
    element: i32,
    operation: i32,
    communicator: usize,
    stream: u64,
) -> Status {
    let connected = match kind {
        Kind::AllToAll => connect(communicator, all_peers(communicator), "ncclAlltoAll"),
        Kind::AllGather => connect(communicator, [Link::Ring], "ncclAllGather"),
        Kind::ReduceScatter => connect(communicator, [Link::Ring], "ncclReduceScatter"),
        _ => connect(communicator, [Link::Ring], "ncclAllReduce"),
    };
    let call = Call { kind, from: from.address(), to, count, element, operation, root: -1 };
    connected.map_or_else(|status| status, |()| ranks::call(&of(communicator), call, stream))
}

answers! {
    fn ncclGetVersion(out: Out<i32>) -> Status {
        out.put(settings::get().nccl);
        SUCCESS
    }

    fn ncclGetUniqueId(out: Out<UniqueId>) -> Status {
        out.put(UniqueId::new());
        SUCCESS
    }

    fn ncclCommInitRank(out: Out<usize>, ranks: i32, id: UniqueId, rank: i32) -> Status {
        join(out, ranks, &id, rank, "ncclCommInitRank")
    }

    fn ncclCommInitRankConfig(out: Out<usize>, ranks: i32, id: UniqueId, rank: i32, _config: usize) -> Status {
        join(out, ranks, &id, rank, "ncclCommInitRankConfig")
    }

    fn ncclCommInitRankScalable(out: Out<usize>, ranks: i32, rank: i32, _ids: i32, first_id: In) -> Status {
        join(out, ranks, &first_id.read_at(0).unwrap_or(UniqueId([7; 128])), rank, "ncclCommInitRankScalable")
    }

    /// The ranks of one process, which wait for nobody.
    fn ncclCommInitAll(out: Out<usize>, count: i32, device_list: In) -> Status {
        for rank in 0..count {
            let place = usize::try_from(rank).unwrap_or(0);
            let device = device_list.read_at(place * 4).unwrap_or(rank);
            add(out.after(place), Communicator { ranks: count, rank, device, meeting: None }, "ncclCommInitAll");
        }
        SUCCESS
    }

    fn ncclCommSplit(communicator: usize, color: i32, key: i32, out: Out<usize>) -> Status {
        match ranks::split(&of(communicator), color, key) {
            Ok(Some(part)) => add(out, part, "ncclCommSplit"),
            Ok(None) => {
                out.put(0);
                SUCCESS
            }
            Err(why) => ranks::fail(&why),
        }
    }

    fn ncclCommDestroy(communicator: usize) -> Status {
        remove(communicator);
        SUCCESS
    }

    fn ncclCommAbort(communicator: usize) -> Status {
        remove(communicator);
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

    fn ncclAllGather(from: In, to: usize, count: usize, kind: i32, communicator: usize, stream: u64) -> Status {
        of_all(Kind::AllGather, from, to, count, kind, 0, communicator, stream)
    }

    fn ncclAlltoAll(from: In, to: usize, count: usize, kind: i32, communicator: usize, stream: u64) -> Status {
        of_all(Kind::AllToAll, from, to, count, kind, 0, communicator, stream)
    }

    fn ncclAllReduce(from: In, to: usize, count: usize, kind: i32, operation: i32, communicator: usize, stream: u64) -> Status {
        of_all(Kind::AllReduce, from, to, count, kind, operation, communicator, stream)
    }

    fn ncclReduceScatter(from: In, to: usize, count: usize, kind: i32, operation: i32, communicator: usize, stream: u64) -> Status {
        of_all(Kind::ReduceScatter, from, to, count, kind, operation, communicator, stream)
    }

    fn ncclReduce(from: In, to: usize, count: usize, kind: i32, operation: i32, root: i32, communicator: usize, stream: u64) -> Status {
        let call = Call { kind: Kind::Reduce, from: from.address(), to, count, element: kind, operation, root };
        let connected = connect(communicator, [Link::Ring], "ncclReduce");
        connected.map_or_else(|status| status, |()| ranks::call(&of(communicator), call, stream))
    }

    fn ncclBroadcast(from: In, to: usize, count: usize, kind: i32, root: i32, communicator: usize, stream: u64) -> Status {
        let call = Call { kind: Kind::Broadcast, from: from.address(), to, count, element: kind, operation: 0, root };
        let connected = connect(communicator, [Link::Ring], "ncclBroadcast");
        connected.map_or_else(|status| status, |()| ranks::call(&of(communicator), call, stream))
    }

    fn ncclBcast(at: In, count: usize, kind: i32, root: i32, communicator: usize, stream: u64) -> Status {
        ncclBroadcast(at, at.address(), count, kind, root, communicator, stream)
    }

    fn ncclSend(from: In, count: usize, kind: i32, to: i32, communicator: usize, stream: u64) -> Status {
        clock::exchange(stream, count as u64 * 2);
        let connected = connect(communicator, peer(communicator, Link::To(to)), "ncclSend");
        connected.map_or_else(|status| status, |()| ranks::send(&of(communicator), from.address(), count, kind, to))
    }

    fn ncclRecv(to: usize, count: usize, kind: i32, from: i32, communicator: usize, stream: u64) -> Status {
        clock::exchange(stream, count as u64 * 2);
        let connected = connect(communicator, peer(communicator, Link::From(from)), "ncclRecv");
        connected.map_or_else(|status| status, |()| ranks::receive(&of(communicator), to, count, kind, from))
    }

    fn ncclGroupStart() -> Status {
        alike::begin();
        SUCCESS
    }

    fn ncclGroupEnd() -> Status {
        alike::end();
        SUCCESS
    }

    /// An operation of the program's own: 5 is the first number that is none of NCCL's.
    fn ncclRedOpCreatePreMulSum(out: Out<i32>) -> Status {
        out.put(5);
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
        Fixed::new(c"the ranks of a dry run do not go together")
    }

    fn ncclGetLastError(_communicator: usize) -> usize {
        ranks::failure() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::{self, known};
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

    /// Its buffers: how many, and their bytes.
    fn held(handle: usize) -> (u64, u64) {
        let communicators = communicators();
        (communicators[&handle].buffers, communicators[&handle].bytes >> 20)
    }

    #[test]
    fn a_rank_connects_when_a_call_needs_it() {
        let (mut alone, mut pair) = (0, 0);
        assert_eq!(ncclCommInitRank(out(&mut alone), 1, UniqueId([0; 128]), 0), SUCCESS);
        assert_eq!(ncclAllReduce(In::at(0), 0, 2, 2, 0, alone, 0), SUCCESS);
        assert_eq!(held(alone), (194, 388));
        assert_eq!(ncclCommInitRank(out(&mut pair), 2, UniqueId([0; 128]), 0), SUCCESS);
        assert_eq!(held(pair), (98, 196));
        for _ in 0..2 {
            assert_eq!(ncclBroadcast(In::at(0), 0, 2, 2, 0, pair, 0), SUCCESS);
            assert_eq!(held(pair), (146, 484));
        }
        // One device: the other rank is on another host, whose messages come by the network.
        assert_eq!(ncclSend(In::at(0), 2, 2, 1, pair, 0), SUCCESS);
        assert_eq!(held(pair), (146, 484));
        for handle in [alone, pair] {
            assert_eq!(ncclCommDestroy(handle), SUCCESS);
        }
    }

    #[test]
    fn ranks_that_are_not_there_are_like_this_one() {
        let (mut handle, base) = (0, 0x1000_0000_0000_usize);
        assert_eq!(ncclCommInitRank(out(&mut handle), 3, UniqueId([0; 128]), 1), SUCCESS);
        copies::note(base, 8, Some(vec![3, 0, 0, 0, 5, 0, 0, 0]));
        assert_eq!(ncclAllGather(In::at(base), base + 512, 2, 2, handle, 0), SUCCESS);
        assert_eq!(known(base + 512, 24), Some([3, 0, 0, 0, 5, 0, 0, 0].repeat(3)));
        assert_eq!(ncclAllReduce(In::at(base), base + 1024, 2, 2, 0, handle, 0), SUCCESS);
        assert_eq!(known(base + 1024, 8), Some(vec![9, 0, 0, 0, 15, 0, 0, 0]));
        assert_eq!(ncclBroadcast(In::at(base), base, 2, 2, 0, handle, 0), SUCCESS);
        assert_eq!(known(base, 8), Some(vec![3, 0, 0, 0, 5, 0, 0, 0]), "the root's are like this rank's");
    }
}
