//! Takes the stubs in: gives their functions the answers, and keeps their counters.

use std::ffi::{CStr, c_char};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use crate::answers::{self, Found};
use crate::{launches, reads, settings};

/// What a stub hands over; its words are described in `highwater_nullgpu::elf::stub`.
#[repr(C)]
pub struct Record {
    layout: u64,
    soname: *const c_char,
    names: *const c_char,
    count: u64,
    counters: *const AtomicU64,
    slots: *const AtomicU64,
    last: *const AtomicPtr<AtomicUsize>,
}

/// The layout of [`Record`] that is understood.
const LAYOUT: u64 = 2;

/// The address of the counter of the function that was called last, by any thread.
static LAST: AtomicUsize = AtomicUsize::new(0);

struct Function {
    name: &'static str,
    answer: Option<Found>,
    calls: &'static AtomicU64,
}

struct Library {
    soname: &'static str,
    functions: Vec<Function>,
}

static AT_EXIT: Once = Once::new();
static LIBRARIES: Mutex<Vec<Library>> = Mutex::new(Vec::new());

/// Takes a stub in; called by the stub's initialiser.
///
/// # Safety
/// `record` must be what `highwater_nullgpu::elf::stub` writes, in a library that stays loaded.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "the one function that the stubs find by its name")]
pub unsafe extern "C" fn highwater_nullgpu_register(record: *const Record) {
    // SAFETY: the caller's promise: the record, its texts, counters and slots stay where they are.
    let record = unsafe { &*record };
    if record.layout != LAYOUT {
        return;
    }
    AT_EXIT.call_once(|| {
        if settings::get().trace.is_some() {
            // SAFETY: `at_exit` may be called at any time, and this library stays loaded.
            unsafe { atexit(at_exit) };
        }
    });
    // SAFETY: as above; the text ends with a zero byte.
    let soname = text(unsafe { CStr::from_ptr(record.soname) });
    let mut functions = Vec::new();
    let mut name_at = record.names;
    for index in 0..usize::try_from(record.count).unwrap_or(0) {
        // SAFETY: `count` texts lie there one after the other, and there are as many counters and slots; slots and
        // counters are words, aligned, and only used as atomics.
        let (name, calls, slot) = unsafe {
            let name = CStr::from_ptr(name_at);
            name_at = name_at.add(name.count_bytes() + 1);
            (text(name), &*record.counters.add(index), &*record.slots.add(index))
        };
        let answer = answers::find(name);
        if let Some(found) = answer {
            slot.store(found.address as u64, Ordering::Release);
        }
        functions.push(Function { name, answer, calls });
    }
    // SAFETY: as above; a word, aligned, of which calls only ever read the address.
    unsafe { &*record.last }.store((&raw const LAST).cast_mut(), Ordering::Release);
    LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner).push(Library { soname, functions });
}

/// The function that was called last; nothing if none was, or another thread is just being asked.
///
/// For a process that is crashing: it takes no lock that it would have to wait for.
pub(crate) fn last_called() -> Option<&'static str> {
    let last = LAST.load(Ordering::Relaxed);
    let libraries = LIBRARIES.try_lock().ok()?;
    let functions = libraries.iter().flat_map(|library| &library.functions);
    functions.into_iter().find(|function| std::ptr::from_ref(function.calls) as usize == last).map(|known| known.name)
}

fn text(text: &'static CStr) -> &'static str {
    text.to_str().unwrap_or("?")
}

#[expect(unsafe_code, reason = "the C library's own function, which the standard library does not offer")]
unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
}

/// Adds this process's line to the trace now: for a process that ends at once. There is no second one at its end.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_write_trace() {
    static ONCE: Once = Once::new();
    ONCE.call_once(write_trace);
}

extern "C" fn at_exit() {
    highwater_nullgpu_write_trace();
}

fn write_trace() {
    let Some(path) = &settings::get().trace else { return };
    let Some(line) = trace_line() else { return };
    // Several processes may write to one file: a line each, in one piece. A file that cannot be written is nobody's
    // reason to end a program otherwise than it ends.
    if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
        let _ = std::io::Write::write_all(&mut file, line.as_bytes());
    }
}

/// What this process did with the libraries, as one line of JSON.
///
/// `calls` has, for each library, how often each function was called; `guessed` those that asked for a size that
/// is not known, and `unanswered` those that had no answer but
/// success, where something may hang on it. Nothing if no function was called: many a program starts others that are none of our business.
fn trace_line() -> Option<String> {
    let mut line = format!(
        r#"{{"pid":{},"launches":{},"unknown_reads":{},"unknown_read_bytes":{},"calls":{{"#,
        std::process::id(),
        launches::count(),
        reads::unknown(),
        reads::unknown_bytes(),
    );
    let libraries = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut guessed, mut unanswered) = (String::new(), String::new());
    let mut first_library = true;
    for library in libraries.iter() {
        let mut calls = String::new();
        for function in &library.functions {
            let count = function.calls.load(Ordering::Relaxed);
            if count == 0 {
                continue;
            }
            append(&mut calls, &format!(r#""{}":{count}"#, function.name));
            let list = match function.answer {
                Some(Found { guessed: false, .. }) => continue,
                Some(Found { guessed: true, .. }) => &mut guessed,
                None if answers::is_harmless(function.name) => continue,
                None => &mut unanswered,
            };
            append(list, &format!(r#""{}""#, function.name));
        }
        if !calls.is_empty() {
            let comma = if first_library { "" } else { "," };
            first_library = false;
            let _ = write!(line, r#"{comma}"{}":{{{calls}}}"#, library.soname);
        }
    }
    let _ = writeln!(line, r#"}},"guessed":[{guessed}],"unanswered":[{unanswered}]}}"#);
    (!first_library).then_some(line)
}

/// Appends an item to a list between commas.
fn append(list: &mut String, item: &str) {
    if !list.is_empty() {
        list.push(',');
    }
    list.push_str(item);
}
