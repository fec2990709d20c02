//! The time that a card would take. Each stream has a moment at which it will have done what it was told; the host has its own, and
//! is ahead until it waits. Events are done when a card would have come to them, so that memory which another stream still uses is
//! not free at once.
//!
//! Durations are rough: bytes and operations over the card's published rates. What matters is the order of a card that is busy, or
//! of a host that is.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers::answers;
use crate::devices;
use crate::settings::{self, Timing};
use crate::status::{NOT_READY, SUCCESS, Status};
use crate::{caller, streams, watchdog};

/// Nanoseconds.
type Time = u64;

/// What the host takes for a launch, PyTorch's own work among it.
const LAUNCH: Time = 6_000;
/// The shortest time of a kernel.
const SHORTEST: Time = 2_000;
/// What a stream holds that has not begun: after so many launches the host waits.
const QUEUE: usize = 1024;
/// Bytes that a thread of an elementwise kernel reads and writes, more or less.
const BYTES_OF_THREAD: u64 = 48;
/// Of what a card could do, programs reach so much.
const REACHED_PERCENT: u64 = 70;
/// Bytes in a nanosecond, between cards and between card and host.
const LINK: u64 = 300;
const HOST_LINK: u64 = 25;
/// One that asks so often without doing anything waits.
const PATIENCE: u32 = 32;

#[derive(Default)]
struct Clock {
    host: Time,
    streams: HashMap<u64, Stream>,
    /// By handle.
    events: HashMap<u64, Recorded>,
    /// How often something was begun.
    begun: u64,
    /// Questions that were answered with "not yet" since the host last did something.
    asked: u32,
}

#[derive(Default)]
struct Stream {
    done: Time,
    queue: VecDeque<Time>,
}

/// An event that was recorded: when what was before it will be done, and by which device.
struct Recorded {
    done: Time,
    device: usize,
}

impl Clock {
    fn launch(&mut self, stream: u64, duration: Time) {
        self.host += LAUNCH;
        self.asked = 0;
        self.begun += 1;
        let own = self.streams.entry(stream).or_default();
        while own.queue.front().is_some_and(|&done| done <= self.host) {
            own.queue.pop_front();
        }
        if own.queue.len() >= QUEUE
            && let Some(done) = own.queue.pop_front()
        {
            self.host = self.host.max(done);
        }
        own.done = own.done.max(self.host) + duration;
        own.queue.push_back(own.done);
    }

    fn record(&mut self, event: u64, stream: u64, device: usize) {
        let done = self.streams.get(&stream).map_or(0, |stream| stream.done);
        self.events.insert(event, Recorded { done, device });
    }

    fn wait(&mut self, stream: u64, event: u64) {
        let done = self.event_done(event);
        let stream = self.streams.entry(stream).or_default();
        stream.done = stream.done.max(done);
    }

    fn event_done(&self, event: u64) -> Time {
        self.events.get(&event).map_or(0, |event| event.done)
    }

    fn are_apart(&self, one: u64, other: u64) -> bool {
        match (self.events.get(&one), self.events.get(&other)) {
            (Some(one), Some(other)) => one.device != other.device,
            _ => false,
        }
    }

    /// Whether something is done that will be at this time.
    fn is_done(&mut self, time: Time) -> bool {
        if time <= self.host {
            return true;
        }
        self.asked += 1;
        if self.asked > PATIENCE {
            // Time passes while somebody does nothing but ask.
            let shift = (self.asked - PATIENCE).min(20);
            self.host += LAUNCH << shift;
        }
        false
    }

    /// Whether the watchdog, which looks once in a period, has looked since this time; or nothing happens any more but its looks.
    fn is_seen(&mut self, time: Time, timing: Timing) -> bool {
        self.asked += 1;
        timing == Timing::Card && Self::look_after(time) <= self.host || self.asked > PATIENCE
    }

    fn look_after(time: Time) -> Time {
        time.next_multiple_of(u64::try_from(watchdog::PERIOD.as_nanos()).unwrap_or(Time::MAX))
    }

    fn wait_for(&mut self, time: Time) {
        self.asked = 0;
        self.host = self.host.max(time);
    }
}

static CLOCK: Mutex<Option<Clock>> = Mutex::new(None);
/// Whether something was done at once which on a card may be done later, and the program can tell.
static TIMING_DECIDES: AtomicBool = AtomicBool::new(false);
/// Whether an optimizer has stepped.
static HAS_STEPPED: AtomicBool = AtomicBool::new(false);

fn clock() -> MutexGuard<'static, Option<Clock>> {
    CLOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(change: impl FnOnce(&mut Clock) -> T) -> T {
    change(clock().get_or_insert_default())
}

/// 1 if something was done at once which on a card may be done later, so that memory would be free later; else 0.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_timing_decides() -> i32 {
    i32::from(TIMING_DECIDES.load(Ordering::Relaxed))
}

/// An optimizer has stepped.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_has_stepped() {
    HAS_STEPPED.store(true, Ordering::Relaxed);
}

/// When work is done that begins now.
fn timing() -> Timing {
    match settings::get().timing {
        Timing::LateAfterFirstStep if HAS_STEPPED.load(Ordering::Relaxed) => Timing::Late,
        Timing::LateAfterFirstStep => Timing::AtOnce,
        timing => timing,
    }
}

/// The default stream is each device's own.
fn key(stream: u64) -> u64 {
    if stream == 0 { u64::try_from(devices::current_ordinal()).unwrap_or(0) } else { stream }
}

fn start(stream: u64, duration: Time) {
    let duration = match settings::get().timing {
        Timing::Card => duration.max(SHORTEST),
        Timing::LateAfterFirstStep if timing() == Timing::AtOnce => 0,
        // As late as possible: whoever does not wait finds nothing done. Where all is done at once, this tells who did not wait.
        _ => 1_000_000_000,
    };
    with(|clock| clock.launch(key(stream), duration));
}

/// Whether two events were recorded on different devices, between which no time can be told.
pub(crate) fn on_different_devices(one: u64, other: u64) -> bool {
    with(|clock| clock.are_apart(one, other))
}

/// How often a kernel, a copy or another work was begun.
pub(crate) fn begun() -> u64 {
    with(|clock| clock.begun)
}

/// A kernel of so many threads begins.
pub(crate) fn kernel(stream: u64, threads: u64) {
    start(stream, bytes_time(threads.saturating_mul(BYTES_OF_THREAD)));
}

/// A copy begins, or another work that reads or writes so many bytes.
pub(crate) fn copy(stream: u64, bytes: u64, from_or_to_host: bool) {
    start(stream, if from_or_to_host { bytes / HOST_LINK } else { bytes_time(bytes) });
}

/// Ranks exchange so many bytes.
pub(crate) fn exchange(stream: u64, bytes: u64) {
    watchdog::begins(key(stream), bytes);
    start(stream, 10_000 + bytes / LINK);
}

/// A product of matrices begins: multiplications, and whether their numbers have 32 bits or more.
pub(crate) fn product(stream: u64, multiplications: u64, wide: bool) {
    start(stream, multiplications.saturating_mul(2) / operations_per_nanosecond(wide).max(1));
}

/// The bandwidth grows with the bus; 6,144 bits of an H200 bring 4.8 TB in a second.
fn bytes_time(bytes: u64) -> Time {
    let bus = u64::from(settings::get().card.bus_bits.unsigned_abs().max(64));
    bytes * 100 / (bus * 4800 / 6144 * REACHED_PERCENT).max(1)
}

/// 132 multiprocessors of an H200 do 67 TFLOPS with 32 bits, and 15 times as many with 16.
fn operations_per_nanosecond(wide: bool) -> u64 {
    let multiprocessors = u64::from(settings::get().card.multiprocessors.unsigned_abs());
    let peak = multiprocessors * 67_000 / 132 * if wide { 1 } else { 14 };
    peak * REACHED_PERCENT / 100
}

/// Everything is done.
pub(crate) fn wait_for_all() {
    with(|clock| {
        let last = clock.streams.values().map(|stream| stream.done).max().unwrap_or(0);
        clock.wait_for(last);
    });
}

fn query(time: impl FnOnce(&Clock) -> Time) -> Status {
    let done = with(|clock| {
        let time = time(clock);
        clock.is_done(time)
    });
    if done {
        return SUCCESS;
    }
    if timing() != Timing::AtOnce {
        return NOT_READY;
    }
    if !TIMING_DECIDES.load(Ordering::Relaxed) && caller::is_allocator() {
        TIMING_DECIDES.store(true, Ordering::Relaxed);
    }
    SUCCESS
}

/// The host has waited for the card: meanwhile PyTorch's watchdog has looked.
fn has_waited() {
    match timing() {
        Timing::AtOnce if watchdog::has_time(|_| true) => TIMING_DECIDES.store(true, Ordering::Relaxed),
        Timing::Card => {
            watchdog::has_time(|event| with(|clock| Clock::look_after(clock.event_done(event)) <= clock.host));
        }
        Timing::AtOnce | Timing::Late | Timing::LateAfterFirstStep => {}
    }
}

fn stream_done(clock: &Clock, stream: u64) -> Time {
    clock.streams.get(&key(stream)).map_or(0, |stream| stream.done)
}

answers! {
    fn cudaEventRecord(event: u64, stream: u64) -> Status {
        streams::recorded(event, stream);
        watchdog::recorded(event, key(stream));
        with(|clock| clock.record(event, key(stream), devices::current()));
        SUCCESS
    }

    fn cudaEventRecordWithFlags(event: u64, stream: u64) -> Status {
        cudaEventRecord(event, stream)
    }

    fn cudaEventQuery(event: u64) -> Status {
        if watchdog::watches(event) {
            let timing = timing();
            if timing != Timing::AtOnce && !with(|clock| clock.is_seen(clock.event_done(event), timing)) {
                return NOT_READY;
            }
            watchdog::sees(event);
            return SUCCESS;
        }
        query(|clock| clock.event_done(event))
    }

    fn cudaEventSynchronize(event: u64) -> Status {
        with(|clock| clock.wait_for(clock.event_done(event)));
        has_waited();
        SUCCESS
    }

    fn cudaEventDestroy(event: u64) -> Status {
        watchdog::forget(event);
        with(|clock| clock.events.remove(&event));
        SUCCESS
    }

    fn cudaStreamWaitEvent(stream: u64, event: u64) -> Status {
        streams::waits(stream, event);
        with(|clock| clock.wait(key(stream), event));
        SUCCESS
    }

    fn cudaStreamQuery(stream: u64) -> Status {
        query(|clock| stream_done(clock, stream))
    }

    fn cudaStreamSynchronize(stream: u64) -> Status {
        with(|clock| clock.wait_for(stream_done(clock, stream)));
        has_waited();
        SUCCESS
    }

    fn cudaDeviceSynchronize() -> Status {
        wait_for_all();
        has_waited();
        SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_done_when_its_stream_has_come_to_it() {
        let mut clock = Clock::default();
        clock.launch(1, 1_000_000);
        clock.record(7, 1, 0);
        let done = clock.events[&7].done;
        assert!(!clock.is_done(done));
        clock.wait(2, 7);
        clock.launch(2, 5);
        clock.record(8, 2, 0);
        assert!(clock.events[&8].done > done, "a stream that waits for another comes after it");
        clock.wait_for(clock.events[&8].done);
        assert!(clock.is_done(done));
    }

    #[test]
    fn no_time_is_told_between_devices() {
        let mut clock = Clock::default();
        for (event, device) in [(7, 0), (8, 0), (9, 1)] {
            clock.record(event, 1, device);
        }
        assert_eq!([clock.are_apart(7, 8), clock.are_apart(7, 9), clock.are_apart(7, 10)], [false, true, false]);
    }

    #[test]
    fn the_host_waits_for_a_queue_that_is_full_and_time_passes_for_who_asks() {
        let mut clock = Clock::default();
        for _ in 0..=QUEUE {
            clock.launch(1, 1_000_000);
        }
        assert!(clock.host >= 1_000_000, "for the first of them");
        clock.record(7, 1, 0);
        let done = clock.events[&7].done;
        assert!((0..100).any(|_| clock.is_done(done)), "nobody waits for ever");
    }

    #[test]
    fn the_watchdog_sees_works_at_its_next_look() {
        let mut clock = Clock::default();
        clock.launch(1, 150_000_000);
        clock.record(7, 1, 0);
        let done = clock.events[&7].done;
        clock.wait_for(done);
        assert!(!clock.is_seen(done, Timing::Card));
        clock.wait_for(200_000_000);
        assert!(clock.is_seen(done, Timing::Card) && !clock.is_seen(done, Timing::Late));
        assert!((0..100).any(|_| clock.is_seen(done, Timing::Late)), "a program that has ended does not wait for ever");
    }
}
