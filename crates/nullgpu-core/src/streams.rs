//! Streams and events, which are numbers (`clock` says when they are done). And the capture of graphs, of which
//! PyTorch's allocator wants to know.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers::answers;
use crate::clock;
use crate::devices;
use crate::ffi::Out;
use crate::launches;
use crate::ledger::{self, Event, Kind};
use crate::memory;
use crate::status::{INVALID_HANDLE, SUCCESS, Status};

static NEXT_STREAM: AtomicU64 = AtomicU64::new(0x0500_0100);
/// Streams with another priority than the usual one, and theirs.
static PRIORITIES: Mutex<Vec<(u64, i32)>> = Mutex::new(Vec::new());
static NEXT_EVENT: AtomicU64 = AtomicU64::new(0x0600_0010);

struct Captures {
    next_id: u64,
    /// Stream and number of each capture that goes on.
    active: Vec<(u64, u64)>,
    /// Events that were recorded in them.
    events: Vec<(u64, u64)>,
    /// Number of each, and how much work had been begun before it.
    before: Vec<(u64, u64)>,
}

impl Captures {
    /// The graph of a capture that ends when so much work has been begun.
    fn graph(&mut self, id: u64, work: u64) -> usize {
        let is_empty = self.before.contains(&(id, work));
        self.before.retain(|&(other, _)| other != id);
        if is_empty { EMPTY_GRAPH } else { GRAPH }
    }
}

static CAPTURES: Mutex<Captures> =
    Mutex::new(Captures { next_id: 1, active: Vec::new(), events: Vec::new(), before: Vec::new() });
/// How many go on: nearly always none, and every allocation asks.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

fn captures() -> MutexGuard<'static, Captures> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of the capture that a stream is in.
fn capture_of(stream: u64) -> Option<u64> {
    if ACTIVE.load(Ordering::Acquire) == 0 {
        return None;
    }
    captures().active.iter().find(|(captured, _)| *captured == stream).map(|&(_, id)| id)
}

/// An event is recorded: whoever waits for one of a capture takes part in it.
pub(crate) fn recorded(event: u64, stream: u64) {
    if ACTIVE.load(Ordering::Acquire) == 0 {
        return;
    }
    let mut captures = captures();
    captures.events.retain(|&(recorded, _)| recorded != event);
    if let Some(&(_, id)) = captures.active.iter().find(|(captured, _)| *captured == stream) {
        captures.events.push((event, id));
    }
}

/// A stream waits for an event.
pub(crate) fn waits(stream: u64, event: u64) {
    if ACTIVE.load(Ordering::Acquire) == 0 {
        return;
    }
    let mut captures = captures();
    let id = captures.events.iter().find(|&&(recorded, _)| recorded == event).map(|&(_, id)| id);
    if let Some(id) = id.filter(|_| captures.active.iter().all(|(captured, _)| *captured != stream)) {
        captures.active.push((stream, id));
    }
    ACTIVE.store(captures.active.len(), Ordering::Release);
}

/// A graph has no inside: all are this one, but those in which nothing was begun.
const GRAPH: usize = 0x77;
const EMPTY_GRAPH: usize = 0x79;
const EXECUTABLE_GRAPH: usize = 0x78;

/// How much work was begun so far, by any thread.
fn work() -> u64 {
    launches::count() + clock::begun()
}

fn new_stream(out: Out<u64>, priority: i32) -> Status {
    if let Some((_, bytes)) = memory::in_context(|context, _| context.make_stream())
        && bytes > 0
    {
        ledger::allocated(Event::new(Kind::Stream, devices::current(), 0, bytes));
    }
    let stream = NEXT_STREAM.fetch_add(0x100, Ordering::Relaxed);
    if priority != 0 {
        PRIORITIES.lock().unwrap_or_else(PoisonError::into_inner).push((stream, priority));
    }
    out.put(stream);
    SUCCESS
}

fn new_event(out: Out<u64>) -> Status {
    out.put(NEXT_EVENT.fetch_add(0x10, Ordering::Relaxed));
    SUCCESS
}

fn capture_info(stream: u64, status: Out<i32>, id: Out<u64>) -> Status {
    let capture = capture_of(stream);
    status.put(i32::from(capture.is_some()));
    if let Some(capture) = capture {
        id.put(capture);
    }
    SUCCESS
}

answers! {
    fn cudaStreamCreate(out: Out<u64>) -> Status {
        new_stream(out, 0)
    }

    fn cudaStreamCreateWithFlags(out: Out<u64>, _flags: u32) -> Status {
        new_stream(out, 0)
    }

    fn cudaStreamCreateWithPriority(out: Out<u64>, _flags: u32, priority: i32) -> Status {
        new_stream(out, priority)
    }

    fn cuStreamCreate(out: Out<u64>, _flags: u32) -> Status {
        new_stream(out, 0)
    }

    fn cuStreamCreateWithPriority(out: Out<u64>, _flags: u32, priority: i32) -> Status {
        new_stream(out, priority)
    }

    fn cudaStreamDestroy(_stream: u64) -> Status {
        memory::in_context(|context, _| context.destroy_stream());
        SUCCESS
    }

    fn cuStreamDestroy_v2(stream: u64) -> Status {
        cudaStreamDestroy(stream)
    }

    fn cudaStreamGetPriority(stream: u64, priority: Out<i32>) -> Status {
        let priorities = PRIORITIES.lock().unwrap_or_else(PoisonError::into_inner);
        priority.put(priorities.iter().find(|(other, _)| *other == stream).map_or(0, |&(_, priority)| priority));
        SUCCESS
    }

    fn cudaStreamIsCapturing(stream: u64, status: Out<i32>) -> Status {
        status.put(i32::from(capture_of(stream).is_some()));
        SUCCESS
    }

    fn cuStreamIsCapturing(stream: u64, status: Out<i32>) -> Status {
        cudaStreamIsCapturing(stream, status)
    }

    fn cudaStreamGetCaptureInfo(stream: u64, status: Out<i32>, id: Out<u64>) -> Status {
        capture_info(stream, status, id)
    }

    fn cudaStreamGetCaptureInfo_v2(stream: u64, status: Out<i32>, id: Out<u64>) -> Status {
        capture_info(stream, status, id)
    }

    fn cudaStreamGetCaptureInfo_v3(stream: u64, status: Out<i32>, id: Out<u64>) -> Status {
        capture_info(stream, status, id)
    }

    fn cudaStreamBeginCapture(stream: u64, _mode: i32) -> Status {
        let mut captures = captures();
        let id = captures.next_id;
        captures.next_id += 1;
        captures.active.push((stream, id));
        captures.before.push((id, work()));
        ACTIVE.store(captures.active.len(), Ordering::Release);
        SUCCESS
    }

    fn cudaStreamEndCapture(stream: u64, graph: Out<usize>) -> Status {
        let mut captures = captures();
        let mut ended = GRAPH;
        if let Some(&(_, id)) = captures.active.iter().find(|(captured, _)| *captured == stream) {
            captures.active.retain(|&(_, other)| other != id);
            captures.events.retain(|&(_, other)| other != id);
            ended = captures.graph(id, work());
        }
        ACTIVE.store(captures.active.len(), Ordering::Release);
        graph.put(ended);
        SUCCESS
    }

    fn cudaGraphCreate(graph: Out<usize>, _flags: u32) -> Status {
        graph.put(GRAPH);
        SUCCESS
    }

    fn cudaGraphInstantiate(out: Out<usize>, _graph: usize, _flags: u64) -> Status {
        out.put(EXECUTABLE_GRAPH);
        SUCCESS
    }

    fn cudaGraphInstantiateWithFlags(out: Out<usize>, _graph: usize, _flags: u64) -> Status {
        out.put(EXECUTABLE_GRAPH);
        SUCCESS
    }

    /// One node, or none: a graph without any is warned of as empty.
    fn cudaGraphGetNodes(graph: usize, _nodes: usize, count: Out<u64>) -> Status {
        count.put(u64::from(graph != EMPTY_GRAPH));
        SUCCESS
    }

    fn cudaGraphNodeGetDependencies(_node: usize, _from: usize, _edges: usize, count: Out<u64>) -> Status {
        count.put(0);
        SUCCESS
    }

    fn cudaEventCreate(out: Out<u64>) -> Status {
        new_event(out)
    }

    fn cudaEventCreateWithFlags(out: Out<u64>, _flags: u32) -> Status {
        new_event(out)
    }

    fn cuEventCreate(out: Out<u64>, _flags: u32) -> Status {
        new_event(out)
    }

    /// A millisecond, whatever lies between: no time passes here, and a rate wants something to divide by.
    fn cudaEventElapsedTime(out: Out<f32>, start: u64, end: u64) -> Status {
        if clock::on_different_devices(start, end) {
            return INVALID_HANDLE;
        }
        out.put(1.0);
        SUCCESS
    }

    fn cudaEventElapsedTime_v2(out: Out<f32>, start: u64, end: u64) -> Status {
        cudaEventElapsedTime(out, start, end)
    }

    fn cuEventElapsedTime(out: Out<f32>, start: u64, end: u64) -> Status {
        cudaEventElapsedTime(out, start, end)
    }

    fn cudaLaunchHostFunc(_stream: u64, function: Option<extern "C" fn(*mut c_void)>, argument: *mut c_void) -> Status {
        if let Some(function) = function {
            function(argument);
        }
        SUCCESS
    }

    fn cudaStreamAddCallback(stream: u64, function: Option<extern "C" fn(u64, Status, *mut c_void)>, argument: *mut c_void, _flags: u32) -> Status {
        if let Some(function) = function {
            function(stream, SUCCESS, argument);
        }
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::tests::out;

    #[test]
    fn a_stream_is_in_a_capture_from_its_beginning_to_its_end() {
        let (mut status, mut id, mut graph) = (9, 0, 0);
        assert_eq!(cudaStreamBeginCapture(7, 0), SUCCESS);
        assert_eq!(cudaStreamGetCaptureInfo_v2(7, out(&mut status), out(&mut id)), SUCCESS);
        assert_eq!(status, 1);
        assert_ne!(id, 0);
        assert_eq!(cudaStreamIsCapturing(8, out(&mut status)), SUCCESS);
        assert_eq!(status, 0, "another stream is not");
        recorded(70, 7);
        waits(8, 70);
        assert_eq!(cudaStreamIsCapturing(8, out(&mut status)), SUCCESS);
        assert_eq!(status, 1, "unless it waits for one that is");
        assert_eq!(cudaStreamEndCapture(7, out(&mut graph)), SUCCESS);
        assert_eq!(cudaStreamIsCapturing(7, out(&mut status)), SUCCESS);
        assert_eq!(status, 0);
    }

    #[test]
    fn a_stream_keeps_its_priority() {
        let (mut plain, mut urgent, mut priority) = (0, 0, 9);
        assert_eq!(cudaStreamCreateWithPriority(out(&mut plain), 0, 0), SUCCESS);
        assert_eq!(cudaStreamCreateWithPriority(out(&mut urgent), 0, -3), SUCCESS);
        assert_eq!(cudaStreamGetPriority(urgent, out(&mut priority)), SUCCESS);
        assert_eq!(priority, -3);
        assert_eq!(cudaStreamGetPriority(plain, out(&mut priority)), SUCCESS);
        assert_eq!(priority, 0);
    }

    #[test]
    fn a_graph_in_which_nothing_was_begun_has_no_nodes() {
        let before = vec![(1, 5), (2, 5)];
        let mut captures = Captures { next_id: 3, active: Vec::new(), events: Vec::new(), before };
        let nodes = |graph| {
            let mut nodes = 9;
            assert_eq!(cudaGraphGetNodes(graph, 0, out(&mut nodes)), SUCCESS);
            nodes
        };
        assert_eq!(nodes(captures.graph(1, 5)), 0);
        assert_eq!(nodes(captures.graph(2, 6)), 1);
        assert_eq!(captures.before, []);
    }
}
