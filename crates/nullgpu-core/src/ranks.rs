//! What a communicator's ranks give each other: small values that are known. Of ranks that are not there it is as if all were alike.
//!
//! Nobody waits where it calls: what a call will give is noted, and worked out when the program waits for the call or reads the result.
//! So ranks that would not block each other on a GPU do not here.

use std::collections::VecDeque;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::alike;
use crate::clock;
use crate::copies::{self, BYTES_MAX, known};
use crate::ffi::{In, Out};
use crate::meeting::{self, Kind, Meeting, Post, Sort};
use crate::reduce::{element_size, reduce};
use crate::status::{SUCCESS, Status};

/// `ncclRemoteError`, which says that it is about the others.
const FAILED: Status = 6;
/// Results that nobody has waited for are forgotten after so many.
const PENDING_MAX: usize = 1024;

/// A communicator, as one of its ranks has it.
#[derive(Clone)]
pub(crate) struct Communicator {
    pub(crate) ranks: i32,
    pub(crate) rank: i32,
    pub(crate) device: i32,
    /// Where it finds the others, if they are there.
    pub(crate) meeting: Option<Arc<Meeting>>,
}

/// A call of one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Elements, as NCCL is told of them.
    pub(crate) count: usize,
    pub(crate) element: i32,
    pub(crate) operation: i32,
    /// The rank that sends to all, or gets from all.
    pub(crate) root: i32,
}

impl Call {
    fn unit(&self) -> usize {
        self.count.saturating_mul(element_size(self.element))
    }

    /// Bytes that a rank gives, and that it gets, of so many.
    fn sizes(&self, ranks: usize) -> (usize, usize) {
        let unit = self.unit();
        let all = unit.saturating_mul(ranks);
        match self.kind {
            Kind::AllGather => (unit, all),
            Kind::ReduceScatter => (all, unit),
            Kind::AllToAll => (all, all),
            _ => (unit, unit),
        }
    }

    /// What a rank gets, by what each gives.
    fn result(&self, given: &[Option<Vec<u8>>], rank: usize) -> Option<Vec<u8>> {
        let unit = self.unit();
        let part = |bytes: &Vec<u8>| bytes.get(rank * unit..(rank + 1) * unit).map(<[u8]>::to_vec);
        let all = || given.iter().map(Option::as_ref).collect::<Option<Vec<_>>>();
        match self.kind {
            Kind::AllGather => Some(all()?.into_iter().flatten().copied().collect()),
            Kind::AllToAll => Some(all()?.into_iter().map(part).collect::<Option<Vec<_>>>()?.concat()),
            Kind::Broadcast => given.get(usize::try_from(self.root).ok()?)?.clone(),
            Kind::AllReduce | Kind::Reduce => {
                reduce(self.element, self.operation, &all()?.into_iter().map(Vec::as_slice).collect::<Vec<_>>())
            }
            Kind::ReduceScatter => {
                let parts = all()?.into_iter().map(part).collect::<Option<Vec<_>>>()?;
                reduce(self.element, self.operation, &parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
            }
            Kind::Split | Kind::Send | Kind::Gather | Kind::Scatter | Kind::Barrier | Kind::MonitoredBarrier => None,
        }
    }

    /// Whether this rank gets anything.
    fn gets(&self, rank: i32) -> bool {
        match self.kind {
            Kind::Reduce => self.root == rank,
            Kind::AllReduce | Kind::AllGather | Kind::ReduceScatter | Kind::Broadcast | Kind::AllToAll => true,
            _ => false,
        }
    }
}

/// A result that the program has not waited for.
struct Pending {
    id: u64,
    meeting: Arc<Meeting>,
    what: What,
    to: usize,
    size: usize,
}

enum What {
    Collective { number: u64, call: Call, rank: usize },
    Message { from: usize, number: u64 },
}

static PENDING: Mutex<VecDeque<Pending>> = Mutex::new(VecDeque::new());
/// How many there are: mostly none, and every copy asks.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Why a call failed; a text that lasts for ever.
static FAILURE: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// The program's line that this thread is at, if somebody has said so.
    static PLACE: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

fn pending() -> MutexGuard<'static, VecDeque<Pending>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes why a call failed; its status.
pub(crate) fn fail(why: &str) -> Status {
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    FAILURE.store(text.into_raw(), Ordering::Release);
    FAILED
}

/// Why the last call failed that did.
pub(crate) fn failure() -> *const c_char {
    let failure = FAILURE.load(Ordering::Acquire);
    if failure.is_null() { c"".as_ptr() } else { failure }
}

fn small(bytes: usize) -> bool {
    bytes <= BYTES_MAX
}

/// Makes a call.
pub(crate) fn call(communicator: &Communicator, call: Call, stream: u64) -> Status {
    let ranks = usize::try_from(communicator.ranks).unwrap_or(0);
    let rank = usize::try_from(communicator.rank).unwrap_or(0);
    let (gives, gets) = call.sizes(ranks);
    clock::exchange(stream, gives.max(gets) as u64);
    let sends = call.kind != Kind::Broadcast || call.root == communicator.rank;
    let bytes = if small(gives) && sends { known(call.from, gives) } else { None };
    let (Some(meeting), Some(directory)) = (&communicator.meeting, meeting::directory()) else {
        if call.gets(communicator.rank) {
            // As if all were alike: the root of a broadcast has what this rank has there.
            let bytes = if sends { bytes } else { known(call.from, gives) };
            match call.kind {
                Kind::Broadcast if sends => alike::sends(communicator.rank, call.root, bytes.clone()),
                Kind::Broadcast => alike::receives(call.to, gets),
                _ => {}
            }
            copies::note(call.to, gets, call.result(&vec![bytes; ranks], rank));
        }
        return SUCCESS;
    };
    let has_own = bytes.is_some() || !sends;
    let peer = if call.kind == Kind::Broadcast || call.kind == Kind::Reduce { call.root } else { -1 };
    let post = Post { kind: call.kind, element: call.element, count: call.count as u64, peer, place: place(), bytes };
    let number = match meeting.post(directory, post) {
        Ok(number) => number,
        Err(why) => return fail(&why),
    };
    if call.gets(communicator.rank) && !(call.kind == Kind::Broadcast && sends && call.from == call.to) {
        copies::note(call.to, gets, None);
    }
    if small(gets.max(gives)) {
        let size = if has_own && call.gets(communicator.rank) { gets } else { 0 };
        wait_later(meeting, What::Collective { number, call, rank }, call.to, size);
    }
    SUCCESS
}

/// Sends to a rank.
pub(crate) fn send(communicator: &Communicator, from: usize, count: usize, element: i32, to: i32) -> Status {
    let size = count.saturating_mul(element_size(element));
    let bytes = if small(size) { known(from, size) } else { None };
    let (Some(meeting), Some(directory)) = (&communicator.meeting, meeting::directory()) else {
        alike::sends(communicator.rank, to, bytes);
        return SUCCESS;
    };
    let post = Post { kind: Kind::Send, element, count: count as u64, peer: to, place: place(), bytes };
    meeting.post(directory, post).map_or_else(|why| fail(&why), |_| SUCCESS)
}

/// Receives from a rank.
pub(crate) fn receive(communicator: &Communicator, to: usize, count: usize, element: i32, from: i32) -> Status {
    let size = count.saturating_mul(element_size(element));
    copies::note(to, size, None);
    if let (Some(meeting), Ok(from)) = (&communicator.meeting, usize::try_from(from)) {
        let number = meeting.next_from(from);
        wait_later(meeting, What::Message { from, number }, to, if small(size) { size } else { 0 });
    } else {
        alike::receives(to, size);
    }
    SUCCESS
}

fn wait_later(meeting: &Arc<Meeting>, what: What, to: usize, size: usize) {
    let mut pending = pending();
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    pending.push_back(Pending { id, meeting: Arc::clone(meeting), what, to, size });
    if pending.len() > PENDING_MAX {
        pending.pop_front();
    }
    COUNT.store(pending.len(), Ordering::Release);
}

impl Pending {
    /// Waits for the others, and notes what this rank gets.
    fn settle(&self) -> Result<(), String> {
        let Some(directory) = meeting::directory() else { return Ok(()) };
        let result = match &self.what {
            What::Message { from, number } => {
                self.meeting.wait_for(directory, *from, Sort::Send, *number)?.and_then(|post| post.bytes)
            }
            What::Collective { number, call, rank } => {
                let posts: Result<Vec<_>, _> = (0..self.meeting.size())
                    .map(|member| self.meeting.wait_for(directory, member, Sort::Collective, *number))
                    .collect();
                let given: Vec<_> = posts?.into_iter().map(|post| post.and_then(|post| post.bytes)).collect();
                if self.size == 0 { None } else { call.result(&given, *rank) }
            }
        };
        if let Some(bytes) = result.filter(|bytes| bytes.len() == self.size) {
            copies::note(self.to, self.size, Some(bytes));
        }
        Ok(())
    }
}

/// Waits for those results that are meant, the oldest first.
fn settle(meant: impl Fn(&Pending) -> bool) -> Result<(), String> {
    loop {
        let next = {
            let mut pending = pending();
            let Some(at) = pending.iter().position(&meant) else { return Ok(()) };
            let next = pending.remove(at);
            COUNT.store(pending.len(), Ordering::Release);
            next
        };
        if let Some(next) = next {
            next.settle()?;
        }
    }
}

/// Waits for what will lie at these addresses, if anything will.
pub(crate) fn settle_at(address: usize, size: usize) {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let overlaps = |pending: &Pending| pending.to < address + size && address < pending.to + pending.size;
    if let Err(why) = settle(overlaps) {
        fail(&why);
    }
}

/// What a rank calls is checked when it leaves a group, too.
pub(crate) fn split(communicator: &Communicator, color: i32, key: i32) -> Result<Option<Communicator>, String> {
    let (Some(meeting), Some(directory)) = (&communicator.meeting, meeting::directory()) else {
        return Ok((color != -1).then(|| communicator.clone()));
    };
    let bytes = [color.to_le_bytes(), key.to_le_bytes()].concat();
    let post = Post { kind: Kind::Split, element: 0, count: 0, peer: -1, place: place(), bytes: Some(bytes) };
    let number = meeting.post(directory, post)?;
    if color == -1 {
        return Ok(None);
    }
    let mut members = Vec::new();
    for member in 0..meeting.size() {
        let post = meeting.wait_for(directory, member, Sort::Collective, number)?;
        let bytes = post.and_then(|post| post.bytes).unwrap_or_default();
        if let Some((theirs, key)) = bytes.split_first_chunk()
            && let Some(key) = key.first_chunk()
            && i32::from_le_bytes(*theirs) == color
        {
            members.push((i32::from_le_bytes(*key), member));
        }
    }
    members.sort_unstable();
    let own = usize::try_from(communicator.rank).unwrap_or(0);
    let rank = members.iter().position(|&(_, member)| member == own).and_then(|rank| i32::try_from(rank).ok());
    let ranks = i32::try_from(members.len()).unwrap_or(0);
    join(&meeting.part(number, color), ranks, rank.unwrap_or(0), communicator.device).map(Some)
}

/// Joins a group of this name, if there are others.
pub(crate) fn join(name: &str, ranks: i32, rank: i32, device: i32) -> Result<Communicator, String> {
    let meeting = match meeting::directory() {
        Some(directory) if ranks > 1 => Some(Arc::new(Meeting::join(directory, name, ranks, rank)?)),
        _ => None,
    };
    Ok(Communicator { ranks, rank, device, meeting })
}

/// The program's line that this thread is at.
pub(crate) fn place() -> String {
    PLACE.try_with(|place| place.borrow().clone()).unwrap_or_default()
}

/// Says which line of the program this thread is at, until it says otherwise: `size` bytes.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_here(text: usize, size: usize) {
    let bytes = In::from(Out::of_argument(text)).read_bytes(size);
    // A thread that is ending is nowhere.
    let _ = PLACE.try_with(|place| *place.borrow_mut() = String::from_utf8_lossy(&bytes).into_owned());
}

/// Says which rank this process is, of how many.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_is_rank(rank: i32, ranks: i32) {
    meeting::tell(rank, ranks);
}

/// The number that the next result will have that the program may wait for.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_next_result() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// Waits for the results with these numbers: 0, or another number if that cannot be.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_wait_for_results(first: u64, end: u64) -> i32 {
    settle(|pending| (first..end).contains(&pending.id)).map_or_else(|why| fail(&why), |()| SUCCESS)
}

/// Waits for what will lie at these addresses: 0, or another number if that cannot be.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_wait_at(address: usize, size: usize) -> i32 {
    let overlaps = |pending: &Pending| pending.to < address + size && address < pending.to + pending.size.max(1);
    settle(overlaps).map_or_else(|why| fail(&why), |()| SUCCESS)
}

/// Why the last of these failed that did.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_failure() -> *const c_char {
    failure()
}

/// What this process waits for, if it waits for another rank: a text that lasts until the process ends, else null.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_waited_for() -> *const c_char {
    // It is asked once, when the process is about to end.
    meeting::waited_for().and_then(|text| CString::new(text).ok()).map_or(std::ptr::null(), |text| text.into_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_of(kind: Kind, count: usize) -> Call {
        Call { kind, from: 0, to: 0, count, element: 1, operation: 0, root: 1 }
    }

    fn given() -> [Option<Vec<u8>>; 2] {
        [Some(vec![1, 2]), Some(vec![3, 4])]
    }

    #[test]
    fn each_collective_gives_what_it_gives() {
        let result = |kind, count, rank| call_of(kind, count).result(&given(), rank);
        assert_eq!(result(Kind::AllGather, 2, 0), Some(vec![1, 2, 3, 4]));
        assert_eq!(result(Kind::AllReduce, 2, 0), Some(vec![4, 6]));
        assert_eq!(result(Kind::ReduceScatter, 1, 1), Some(vec![6]));
        assert_eq!(result(Kind::AllToAll, 1, 1), Some(vec![2, 4]));
        assert_eq!(result(Kind::Broadcast, 2, 0), Some(vec![3, 4]));
    }

    #[test]
    fn one_that_is_not_known_makes_the_result_unknown() {
        let mut given = given();
        given[0] = None;
        assert_eq!(call_of(Kind::AllReduce, 2).result(&given, 0), None);
        assert_eq!(call_of(Kind::Broadcast, 2).result(&given, 0), Some(vec![3, 4]), "but the root's is known");
    }
}
