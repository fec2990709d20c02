//! What CUPTI calls before and after each call of the driver.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use highwater_outside::{Event, HOST, Kind, Line, NO_STACK, PythonStack};

use super::book::{self, Book};
use super::calls::{self, What};
use super::ffi::{CallbackData, DRIVER, MODULE_LOADED, RESOURCE};
use super::recorder::{self, Recorder, now_ns};

/// `CUPTI_API_ENTER`
const BEFORE: c_int = 0;
/// `CU_MEM_LOCATION_TYPE_DEVICE`
const ON_DEVICE: i32 = 1;

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
    /// Whether the launch that this thread is in is its function's first.
    static IS_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Calls that are on their way, until they are noted: while there is another, a look at the free memory would count that one's twice.
static ON_THEIR_WAY: AtomicUsize = AtomicUsize::new(0);
/// Calls that have begun.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// Forgets the calls that were on their way when an earlier recording ended: nobody is told of their ends.
pub(crate) fn forget_calls() {
    ON_THEIR_WAY.store(0, Ordering::Release);
}

/// A call that ends with this.
struct OnItsWay;

impl Drop for OnItsWay {
    fn drop(&mut self) {
        ON_THEIR_WAY.fetch_update(Ordering::AcqRel, Ordering::Acquire, |calls| calls.checked_sub(1)).ok();
    }
}

/// Looks at the free memory, and lets `note` have it, unless another call than `own` could have changed it meanwhile.
///
/// The book is not held while the driver is asked: a thread inside the driver may wait for it. So what began after the look is
/// found by its number, and what had begun before is on its way.
pub(crate) fn look<T>(recorder: &Recorder, own: usize, note: impl FnOnce(&mut Book, i32, u64) -> T) -> Option<T> {
    let begun = BEGUN.load(Ordering::Acquire);
    let is_quiet = || ON_THEIR_WAY.load(Ordering::Acquire) <= own && BEGUN.load(Ordering::Acquire) == begun;
    if !is_quiet() {
        return None;
    }
    let (device, used, _) = recorder.cupti.used()?;
    if recorder.cupti.shares_memory(device) {
        recorder.book().not_measured(device);
        return None;
    }
    let mut book = recorder.book();
    is_quiet().then(|| note(&mut book, device, used))
}

/// The system's number of this thread.
pub(crate) fn thread() -> u32 {
    THREAD.with(|known| {
        if known.get() == 0 {
            // SAFETY: it has no arguments.
            let number = unsafe { libc::syscall(libc::SYS_gettid) };
            known.set(u32::try_from(number).unwrap_or(u32::MAX));
        }
        known.get()
    })
}

/// CUPTI's callback.
pub(crate) extern "C" fn called(_: *mut c_void, domain: c_int, number: c_uint, data: *const CallbackData) {
    if data.is_null() {
        return;
    }
    let Some(recorder) = recorder::current() else { return };
    // A panic here would end the program.
    let _ = catch_unwind(AssertUnwindSafe(|| match domain {
        DRIVER => {
            let Some(what) = calls::of_number(number) else { return };
            // SAFETY: in this domain CUPTI hands over this structure.
            let mut call = Made { recorder: &recorder, what, data: unsafe { &*data } };
            if let What::Launches { function } = what {
                let function = call.argument(function);
                if !call.is_first(function) {
                    return;
                }
                call.what = What::FirstLaunch { function };
            }
            if call.data.site == BEFORE { call.begins() } else { call.ends() }
        }
        RESOURCE if number == MODULE_LOADED => {
            // SAFETY: in this domain, too, the structure begins with the context.
            let context = unsafe { *data.cast::<*mut c_void>() };
            if let Some(device) = recorder.cupti.device_of(context) {
                recorder.book().module_loaded(device, now_ns(), thread());
            }
        }
        _ => {}
    }));
}

/// A Python stack as a recording has it.
fn recorded(stack: highwater_callers::Stack) -> PythonStack {
    let frames = stack.frames.into_iter().map(|frame| Line(frame.file, frame.line, frame.function));
    PythonStack::new(stack.of_main, frames.collect())
}

/// Notes what a pool has now.
fn look_at_pool(recorder: &Recorder, pool: u64, like: &Event) {
    if let Some((reserved, used)) = recorder.cupti.pool(pool) {
        let event = Event { kind: Kind::Pool, address: pool, bytes: reserved.cast_signed(), extra: used, ..*like };
        recorder.book().pool(event);
    }
}

/// Looks at all pools again: they give memory back when streams have done what was asked.
pub(crate) fn look_at_pools(recorder: &Recorder) {
    let pools = recorder.book().pools();
    for pool in pools {
        look_at_pool(recorder, pool.address, &Event { time_ns: now_ns(), thread: thread(), ..pool });
    }
}

/// A call of the driver.
struct Made<'a> {
    recorder: &'a Recorder,
    what: What,
    data: &'a CallbackData,
}

impl Made<'_> {
    /// An argument.
    fn argument(&self, place: usize) -> u64 {
        // SAFETY: `calls` has the places of arguments that the call has, each of eight bytes.
        unsafe { self.data.arguments.add(place).read() }
    }

    /// The number at the place that an argument points to.
    fn written(&self, place: usize) -> u64 {
        let to = self.argument(place) as *const u64;
        // SAFETY: the driver has written there, and answered without an error.
        if to.is_null() { 0 } else { unsafe { to.read_unaligned() } }
    }

    /// Whether this launch is the first one of its function on its device.
    fn is_first(&self, function: u64) -> bool {
        if self.data.site == BEFORE {
            let is_first = self.device().is_some_and(|device| !self.recorder.book().has_launched(device, function));
            IS_FIRST.with(|of_thread| of_thread.set(is_first));
            return is_first;
        }
        IS_FIRST.with(|of_thread| of_thread.replace(false))
    }

    fn device(&self) -> Option<i32> {
        self.recorder.cupti.device_of(self.data.context)
    }

    /// Before the driver does it.
    fn begins(&self) {
        if matches!(self.what, What::Waits) {
            return;
        }
        let others = ON_THEIR_WAY.fetch_add(1, Ordering::AcqRel);
        BEGUN.fetch_add(1, Ordering::AcqRel);
        let now = now_ns();
        if let Some(device) = self.device().filter(|_| others == 0) {
            let is_due = matches!(self.what, What::Changes(_) | What::FirstLaunch { .. })
                || self.recorder.book().is_look_due(device, now, thread());
            if is_due {
                look_at_pools(self.recorder);
                look(self.recorder, 1, |book, device, used| book.look(device, used, now, thread()));
            }
        }
        if self.what.is_noted_before()
            && let What::Frees { kind, address, bytes } = self.what
        {
            let bytes = bytes.map_or(0, |place| self.argument(place).cast_signed());
            let address = self.argument(address);
            // The runtime frees nothing when it begins.
            if address != 0 {
                self.note(Event { address, bytes, ..self.event(kind) });
            }
        }
    }

    /// After it.
    fn ends(&self) {
        let _until_noted = (!matches!(self.what, What::Waits)).then_some(OnItsWay);
        // SAFETY: CUPTI points to the driver's answer, which is a number.
        let failed = self.data.returned.is_null() || unsafe { self.data.returned.read() } != 0;
        if failed {
            return;
        }
        match self.what {
            What::Allocates { kind, address_to, bytes } => {
                let address = if address_to == usize::MAX { self.argument(0) } else { self.written(address_to) };
                self.allocated(Event { address, bytes: self.argument(bytes).cast_signed(), ..self.event(kind) });
            }
            What::AllocatesPitch => {
                let bytes = self.written(1).saturating_mul(self.argument(3)).cast_signed();
                self.allocated(Event { address: self.written(0), bytes, ..self.event(Kind::Device) });
            }
            What::AllocatesOrdered { pool, stream } => {
                let event = self.event(Kind::StreamOrdered);
                let bytes = self.argument(1).cast_signed();
                let made =
                    self.allocated(Event { address: self.written(0), bytes, extra: self.argument(stream), ..event });
                let default = || self.recorder.cupti.default_pool(event.device);
                if let Some(pool) = pool.map(|place| self.argument(place)).or_else(default) {
                    look_at_pool(self.recorder, pool, &made);
                }
            }
            What::Creates => {
                let location = self.argument(2) as *const i32;
                // SAFETY: the program gave the driver this structure: two numbers, then the kind of place and its number.
                let (kind, device) = unsafe { (location.add(2).read(), location.add(3).read()) };
                let device = if kind == ON_DEVICE { device } else { HOST };
                let bytes = self.argument(1).cast_signed();
                self.allocated(Event { device, address: self.written(0), bytes, ..self.event(Kind::Create) });
            }
            What::AllocatesArray { has_depth } => {
                let bytes = self.array_bytes(has_depth).cast_signed();
                self.allocated(Event { address: self.written(0), bytes, ..self.event(Kind::Array) });
            }
            What::Maps => {
                let bytes = self.argument(1).cast_signed();
                self.note(Event { address: self.argument(0), bytes, extra: self.argument(3), ..self.event(Kind::Map) });
            }
            What::Retains => self.note(Event { address: self.written(0), ..self.event(Kind::Retain) }),
            What::Changes(kind) => {
                self.changed(kind);
            }
            What::FirstLaunch { function } => self.first_launched(function),
            What::Frees { .. } | What::Waits | What::Launches { .. } => {}
        }
        if matches!(self.what, What::Waits | What::Frees { kind: Kind::StreamOrderedFree, .. }) {
            look_at_pools(self.recorder);
        }
    }

    fn event(&self, kind: Kind) -> Event {
        book::measured(kind, self.device().unwrap_or(0), 0, now_ns(), thread())
    }

    fn note(&self, event: Event) {
        self.recorder.book().push(event);
    }

    /// Notes an allocation, with the stack that it comes from.
    fn allocated(&self, event: Event) -> Event {
        let event = self.with_stack(event);
        self.note(event);
        event
    }

    fn with_stack(&self, event: Event) -> Event {
        let addresses = highwater_callers::here();
        let known = self.recorder.book().stack(&addresses);
        // The loader is asked without the book: a thread that loads a library may wait for it.
        let stack = known.unwrap_or_else(|| {
            let resolved = addresses.resolve();
            self.recorder.book().add_stack(addresses, resolved)
        });
        let wants_python = self.recorder.book().wants_python(stack);
        let reader = self.recorder.python.as_ref().filter(|_| wants_python);
        let python = reader.map_or(NO_STACK, |reader| match reader.read() {
            Some(python) if python.frames.is_empty() => NO_STACK,
            Some(python) => self.recorder.book().add_python(recorded(python)),
            None => {
                self.recorder.book().about.without_python += 1;
                NO_STACK
            }
        });
        Event { stack, python, ..event }
    }

    /// Notes the change of free memory during this call; whether it could be measured.
    fn changed(&self, kind: Kind) -> bool {
        let now = now_ns();
        let change = |book: &mut Book, device, used| (device, book.change(device, used, now, thread()));
        let Some((device, bytes)) = look(self.recorder, 1, change) else { return false };
        if bytes != 0 {
            self.allocated(book::measured(kind, device, bytes, now, thread()));
        }
        true
    }

    /// Notes the memory that a function's first launch took.
    fn first_launched(&self, function: u64) {
        let is_measured = self.changed(Kind::Launch);
        let Some(device) = self.device() else { return };
        let mut book = self.recorder.book();
        book.launched(device, function);
        if !is_measured {
            // The next look finds it: it is a launch's, as after a module was loaded.
            book.module_loaded(device, now_ns(), thread());
        }
    }

    fn array_bytes(&self, has_depth: bool) -> u64 {
        let description = self.argument(1) as *const u64;
        // SAFETY: the program gave the driver this structure: two or three sizes, then the format and the channels.
        let (width, height, depth, format, channels) = unsafe {
            let sizes = if has_depth { 3 } else { 2 };
            let rest = description.add(sizes).cast::<u32>();
            let depth = if has_depth { description.add(2).read() } else { 1 };
            (description.read(), description.add(1).read(), depth, rest.read(), rest.add(1).read())
        };
        let element = calls::element_bytes(format).saturating_mul(channels.into());
        width.saturating_mul(height.max(1)).saturating_mul(depth.max(1)).saturating_mul(element)
    }
}
