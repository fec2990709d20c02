//! How the page calls the module: it writes bytes where [`highwater_input`] says, calls a function, and reads the text that
//! [`highwater_output`] and [`highwater_output_bytes`] tell of. Numbers are of the width of an address: 32 bits.
//!
//! No pointer is followed here: the page copies in and out of the memory of both buffers, which are plain vectors.

#![expect(
    unsafe_code,
    reason = "a function that keeps its name, so that the page finds it, counts as unsafe; nothing else is"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use highwater_estimate::read::wanted_bytes;

static INPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static OUTPUT: Mutex<String> = Mutex::new(String::new());

fn locked<T>(buffer: &Mutex<T>) -> MutexGuard<'_, T> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where an input of so many bytes is to be written: until the next call of any of these functions.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_input(bytes: usize) -> *mut u8 {
    let mut input = locked(&INPUT);
    input.clear();
    input.resize(bytes, 0);
    input.as_mut_ptr()
}

/// Where the answer is: until the next call of any of these functions.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_output() -> *const u8 {
    locked(&OUTPUT).as_ptr()
}

/// How many bytes of UTF-8 the answer has.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_output_bytes() -> usize {
    locked(&OUTPUT).len()
}

/// Answers the request that is the input: see [`crate::answered`].
#[unsafe(no_mangle)]
pub extern "C" fn highwater_answer() {
    let input = std::mem::take(&mut *locked(&INPUT));
    *locked(&OUTPUT) = crate::answered(&input);
}

/// Answers the question about serving that is the input: see [`crate::served`].
#[unsafe(no_mangle)]
pub extern "C" fn highwater_serve() {
    let input = std::mem::take(&mut *locked(&INPUT));
    *locked(&OUTPUT) = crate::served(&input);
}

/// How many bytes of a file [`highwater_describe`] wants. The input is the file's name, then its first eight bytes, or all if
/// it has less.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_wanted_bytes(name_bytes: usize, file_bytes: f64) -> f64 {
    let input = std::mem::take(&mut *locked(&INPUT));
    let (name, start) = name_and_start(&input, name_bytes);
    #[expect(clippy::cast_precision_loss, reason = "no header is longer than 2^53 bytes")]
    let wanted = wanted_bytes(&name, start, whole(file_bytes)) as f64;
    wanted
}

/// Answers what a file says of its model: see [`crate::described`]. The input is the file's name, then its first bytes.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_describe(name_bytes: usize, file_bytes: f64) {
    let input = std::mem::take(&mut *locked(&INPUT));
    let (name, start) = name_and_start(&input, name_bytes);
    *locked(&OUTPUT) = crate::described(&name, start, whole(file_bytes));
}

/// Answers what can be chosen: see [`crate::choices`].
#[unsafe(no_mangle)]
pub extern "C" fn highwater_choices() {
    *locked(&OUTPUT) = crate::choices();
}

fn name_and_start(input: &[u8], name_bytes: usize) -> (String, &[u8]) {
    let (name, start) = input.split_at(name_bytes.min(input.len()));
    (String::from_utf8_lossy(name).into_owned(), start)
}

/// Sizes of files come as JavaScript has numbers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; a file has no negative size")]
fn whole(number: f64) -> u64 {
    number as u64
}
