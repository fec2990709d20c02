//! The Python stack of a call of the driver.
//!
//! A thread that calls the driver has mostly let go of the interpreter's lock (the GIL), and must not take it: others may wait with it
//! for a lock of PyTorch's that this thread has. So another thread takes it and reads the frames, while the calling thread waits, with a
//! limit. Frames are read by the interpreter's C functions alone: no Python code runs, so nobody else gets the GIL.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{Frame, Patience, Stack};

/// Frames of a stack at most.
const MAX_FRAMES: usize = 24;
/// Parts of the paths of what records and of what runs a program on the null GPU.
const OWN: [&str; 2] = ["/highwater/autorecord.py", "/highwater_dryrun/"];

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The interpreter's functions; all are in its stable interface, or have been exported since 3.9.
#[derive(Clone, Copy, Debug)]
struct Api {
    is_there: unsafe extern "C" fn() -> c_int,
    holds_gil: unsafe extern "C" fn() -> c_int,
    this_thread: unsafe extern "C" fn() -> *mut c_void,
    ensure: unsafe extern "C-unwind" fn() -> c_int,
    release: unsafe extern "C" fn(c_int),
    frame_of: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    back: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    code: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    line: unsafe extern "C" fn(*mut c_void) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
    text: unsafe extern "C" fn(*mut c_void, *mut isize) -> *const c_char,
    let_go: unsafe extern "C" fn(*mut c_void),
    gc_enable: unsafe extern "C" fn() -> c_int,
    gc_disable: unsafe extern "C" fn() -> c_int,
}

impl Api {
    fn find() -> Option<Self> {
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the name ends; null stands for all libraries that are loaded.
                let found = unsafe { dlsym(std::ptr::null_mut(), $name.as_ptr()) };
                // SAFETY: the function has this type in every Python since 3.10; a null pointer is `None`.
                unsafe { transmute::<*mut c_void, Option<_>>(found) }?
            }};
        }
        Some(Self {
            is_there: function!(c"Py_IsInitialized"),
            holds_gil: function!(c"PyGILState_Check"),
            this_thread: function!(c"PyGILState_GetThisThreadState"),
            ensure: function!(c"PyGILState_Ensure"),
            release: function!(c"PyGILState_Release"),
            frame_of: function!(c"PyThreadState_GetFrame"),
            back: function!(c"PyFrame_GetBack"),
            code: function!(c"PyFrame_GetCode"),
            line: function!(c"PyFrame_GetLineNumber"),
            attribute: function!(c"PyObject_GetAttrString"),
            text: function!(c"PyUnicode_AsUTF8AndSize"),
            let_go: function!(c"Py_DecRef"),
            gc_enable: function!(c"PyGC_Enable"),
            gc_disable: function!(c"PyGC_Disable"),
        })
    }

    /// The frames of a thread.
    ///
    /// # Safety
    /// The calling thread holds the GIL, and the thread state is one of a thread that lives.
    unsafe fn frames(&self, state: *mut c_void) -> Vec<Frame> {
        // A frame's object is made here, and the interpreter may then collect garbage, which runs the program's code.
        // SAFETY: the GIL is held.
        let was_on = unsafe { (self.gc_disable)() };
        let mut lines = Vec::new();
        // SAFETY: the state is a thread's; what it gives is ours to let go.
        let mut frame = unsafe { (self.frame_of)(state) };
        while !frame.is_null() {
            if lines.len() < MAX_FRAMES {
                // SAFETY: the frame is ours.
                lines.extend(unsafe { self.frame(frame) });
            }
            // SAFETY: the frame is ours, and so is the next.
            let back = unsafe { (self.back)(frame) };
            // SAFETY: it is let go once.
            unsafe { (self.let_go)(frame) };
            frame = back;
        }
        if was_on != 0 {
            // SAFETY: the GIL is held.
            unsafe { (self.gc_enable)() };
        }
        lines
    }

    /// # Safety
    /// The GIL is held, and the frame is a reference.
    unsafe fn frame(&self, frame: *mut c_void) -> Option<Frame> {
        // SAFETY: the frame is a reference; its code is a new one.
        let (code, line) = unsafe { ((self.code)(frame), (self.line)(frame)) };
        if code.is_null() {
            return None;
        }
        // SAFETY: the code is a reference.
        let (file, name) = unsafe { (self.text_of(code, c"co_filename"), self.text_of(code, c"co_name")) };
        // SAFETY: it is let go once.
        unsafe { (self.let_go)(code) };
        let is_own = OWN.iter().any(|part| file.contains(part)) || file == "<frozen runpy>";
        (!is_own).then(|| Frame { file, line: u32::try_from(line).unwrap_or(0), function: name })
    }

    /// # Safety
    /// The GIL is held, and the code is a reference.
    unsafe fn text_of(&self, code: *mut c_void, name: &CStr) -> String {
        // SAFETY: the code is a reference, and the name ends; the value is a new reference.
        let value = unsafe { (self.attribute)(code, name.as_ptr()) };
        if value.is_null() {
            return String::new();
        }
        let mut length = 0;
        // SAFETY: the value is a string, or the function says that it is none.
        let text = unsafe { (self.text)(value, &raw mut length) };
        let read = match usize::try_from(length) {
            // SAFETY: the interpreter has so many bytes there as long as the value lives.
            Ok(length) if !text.is_null() => unsafe { std::slice::from_raw_parts(text.cast(), length) }.to_vec(),
            _ => Vec::new(),
        };
        // SAFETY: it is let go once.
        unsafe { (self.let_go)(value) };
        String::from_utf8_lossy(&read).into_owned()
    }
}

/// Reads Python stacks.
#[derive(Debug)]
pub struct Reader {
    api: Api,
    /// The main thread's state, where it is known.
    main: usize,
    desk: &'static Desk,
    helper: Mutex<Option<JoinHandle<()>>>,
    begun: Instant,
    patience: Patience,
}

#[derive(Debug)]
struct Desk {
    request: Mutex<Request>,
    changed: Condvar,
    waited: Mutex<Duration>,
}

#[derive(Debug)]
enum Request {
    Idle,
    /// The stack of a thread's state is wanted.
    Asked(usize),
    Done(Vec<Frame>),
    Quit,
}

impl Desk {
    fn request(&self) -> MutexGuard<'_, Request> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Begins, if this process has an interpreter. The calling thread holds the GIL.
    pub fn begin(is_main_thread: bool, patience: Patience) -> Option<Self> {
        let api = Api::find()?;
        // SAFETY: it may be called on any thread.
        let state = unsafe { (api.this_thread)() };
        let main = if is_main_thread { state as usize } else { 0 };
        // One for each recording: a thread that waits there must never see it go.
        let desk: &'static Desk = Box::leak(Box::new(Desk {
            request: Mutex::new(Request::Idle),
            changed: Condvar::new(),
            waited: Mutex::default(),
        }));
        let helper =
            std::thread::Builder::new().name("highwater-lines".to_owned()).spawn(move || serve(&api, desk)).ok()?;
        Some(Self { api, main, desk, helper: Mutex::new(Some(helper)), begun: Instant::now(), patience })
    }

    /// The Python stack of this thread, or else the main thread's; `None` if that would take too long.
    pub fn read(&self) -> Option<Stack> {
        // SAFETY: it may be called at any time. Libraries still release memory after the interpreter has ended.
        if unsafe { (self.api.is_there)() } == 0 {
            return None;
        }
        // SAFETY: both may be called on any thread.
        let (own, holds_gil) = unsafe { ((self.api.this_thread)() as usize, (self.api.holds_gil)() != 0) };
        if holds_gil && own != 0 {
            // SAFETY: this thread holds the GIL, and the states are its own and that of the main thread.
            return self.first(own, |state| Some(unsafe { self.api.frames(state as *mut c_void) }));
        }
        let waited = *self.desk.waited.lock().unwrap_or_else(PoisonError::into_inner);
        if waited > self.patience.in_all(self.begun.elapsed()) {
            return None;
        }
        let begun = Instant::now();
        let stack = self.first(own, |state| self.ask(state, Instant::now() + self.patience.of_a_call));
        *self.desk.waited.lock().unwrap_or_else(PoisonError::into_inner) += begun.elapsed();
        stack
    }

    /// The frames of a thread, or of the main thread where it runs no Python, as that of a backward pass.
    fn first(&self, own: usize, frames: impl Fn(usize) -> Option<Vec<Frame>>) -> Option<Stack> {
        if own != 0 {
            let frames = frames(own)?;
            if !frames.is_empty() || own == self.main {
                return Some(Stack { of_main: false, frames });
            }
        }
        if self.main == 0 {
            return Some(Stack::default());
        }
        Some(Stack { of_main: true, frames: frames(self.main)? })
    }

    fn ask(&self, state: usize, until: Instant) -> Option<Vec<Frame>> {
        let mut request = self.desk.request();
        let mut is_asked = false;
        loop {
            match &mut *request {
                Request::Idle if !is_asked => {
                    *request = Request::Asked(state);
                    is_asked = true;
                    self.desk.changed.notify_all();
                }
                Request::Done(lines) if is_asked => {
                    let lines = std::mem::take(lines);
                    *request = Request::Idle;
                    self.desk.changed.notify_all();
                    return Some(lines);
                }
                Request::Quit => return None,
                // Another thread's turn, or the helper's.
                _ => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if is_asked && !matches!(*request, Request::Quit) {
                    *request = Request::Idle;
                    self.desk.changed.notify_all();
                }
                return None;
            }
            let waited = self.desk.changed.wait_timeout(request, left);
            request = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the helper. The calling thread must not hold the GIL.
    pub fn end(&self) {
        *self.desk.request() = Request::Quit;
        self.desk.changed.notify_all();
        let helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(helper) = helper {
            // It ends by itself if it panicked.
            let _ = helper.join();
        }
    }
}

/// Takes the GIL for each request.
fn serve(api: &Api, desk: &Desk) {
    loop {
        {
            let mut request = desk.request();
            while !matches!(*request, Request::Asked(_)) {
                if matches!(*request, Request::Quit) {
                    return;
                }
                request = desk.changed.wait(request).unwrap_or_else(PoisonError::into_inner);
            }
        }
        // SAFETY: this thread does not hold the GIL, and nothing of the desk.
        let gil = unsafe { (api.ensure)() };
        {
            let mut request = desk.request();
            if let Request::Asked(state) = *request {
                // SAFETY: the GIL is held. The thread of the state waits for the answer, or is the main thread, which lives longer
                // than the recording.
                *request = Request::Done(unsafe { api.frames(state as *mut c_void) });
                desk.changed.notify_all();
            }
        }
        // SAFETY: it was taken above.
        unsafe { (api.release)(gil) };
    }
}
