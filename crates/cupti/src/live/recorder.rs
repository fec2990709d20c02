//! The one recording of this process.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use highwater_callers::{Patience, Reader};
use highwater_outside::{Gap, Mark, NvmlSample, Recording};
use highwater_problem::Problem;

use super::book::Book;
use super::callback;
use super::calls::CALLS;
use super::ffi::{Cupti, Subscription};
use crate::{CAPACITY, Options};

/// What callbacks share.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) cupti: Cupti,
    pub(crate) python: Option<Reader>,
    book: Mutex<Book>,
    subscription: Mutex<Option<Subscription>>,
}

static RECORDER: RwLock<Option<Arc<Recorder>>> = RwLock::new(None);
/// Whether callbacks note anything, so that they need no lock when they do not.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// The process that records: a forked child does not.
static PROCESS: AtomicU32 = AtomicU32::new(0);

impl Recorder {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_subscription(&self) -> Option<Subscription> {
        self.subscription.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The recorder, for a callback.
pub(crate) fn current() -> Option<Arc<Recorder>> {
    if !is_on() {
        return None;
    }
    RECORDER.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The recorder, also while it pauses.
fn any() -> Option<Arc<Recorder>> {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return None;
    }
    RECORDER.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether this process records its driver.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed) && PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// Starts to record.
///
/// # Errors
/// If there is no CUPTI or no driver, another profiler has CUPTI, or a recording runs already.
pub fn start(options: &Options) -> Result<(), Problem> {
    if any().is_some() {
        return Err(Problem::new("the driver is recorded already").hint("stop the other recording first"));
    }
    let (cupti, path) = Cupti::load(&options.libraries)?;
    let capacity = if options.capacity == 0 { CAPACITY } else { options.capacity };
    let mut book = Book::new(capacity, &options.used_before);
    book.about.cupti = path.display().to_string();
    book.about.cupti_version = cupti.version();
    book.about.started_ns = now_ns();
    callback::forget_calls();
    let subscription = cupti.subscribe(callback::called, CALLS.iter().map(|call| call.number))?;
    let python = if options.has_gil { Reader::begin(options.is_main_thread, Patience::OF_A_RECORDING) } else { None };
    let recorder = Recorder { cupti, python, book: Mutex::new(book), subscription: Mutex::new(Some(subscription)) };
    *RECORDER.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(recorder));
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    IS_ON.store(true, Ordering::Relaxed);
    Ok(())
}

/// Lets go of CUPTI, for another profiler that wants it, and says why in the recording.
pub fn pause(why: &str) {
    let Some(recorder) = current() else { return };
    IS_ON.store(false, Ordering::Relaxed);
    if let Some(subscription) = recorder.take_subscription() {
        recorder.cupti.unsubscribe(subscription);
    }
    recorder.book().about.gaps.push(Gap { from_ns: now_ns(), to_ns: 0, why: why.to_owned() });
}

/// Notes a moment, and what NVML says the process uses of each device.
pub fn mark(name: &str, nvml: Vec<(i32, u64)>) {
    let Some(recorder) = current() else { return };
    callback::look_at_pools(&recorder);
    let used = recorder.cupti.used();
    let time_ns = now_ns();
    callback::look(&recorder, 0, |book, device, used| book.look(device, used, time_ns, callback::thread()));
    let mut book = recorder.book();
    if let Some((device, _, total)) = used
        && !book.about.capacities.iter().any(|&(known, _)| known == device)
    {
        book.about.capacities.push((device, total));
    }
    book.about.marks.push(Mark { name: name.to_owned(), time_ns });
    let samples = nvml.into_iter().map(|(device, bytes)| NvmlSample { time_ns, device, bytes });
    book.about.nvml.extend(samples);
}

/// The recording so far.
pub fn recording() -> Option<Recording> {
    any().map(|recorder| recorder.book().recording(now_ns()))
}

/// Ends the recording. The calling thread must not hold Python's lock.
pub fn stop() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    IS_ON.store(false, Ordering::Relaxed);
    let recorder = RECORDER.write().unwrap_or_else(PoisonError::into_inner).take();
    let Some(recorder) = recorder else { return };
    if let Some(subscription) = recorder.take_subscription() {
        recorder.cupti.unsubscribe(subscription);
    }
    if let Some(python) = &recorder.python {
        python.end();
    }
}
