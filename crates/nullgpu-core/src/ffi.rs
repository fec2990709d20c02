//! What C hands over, as types: the `unsafe` of reading and writing through pointers is here and nowhere else twice.
//!
//! The functions of this crate are called by programs that keep the contracts of the interfaces it stands in for: a pointer
//! for a result is null or valid for one value (or for as many as the call says), a text ends with a zero byte. That is
//! the premise of every `SAFETY` below; such a value is made by a C caller only.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;

/// A place for a result.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result, if the caller wants it. The place need not be aligned.
    pub(crate) fn put(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, hence valid for a write, by the premise of this module.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// The place after this many others.
    pub(crate) fn after(self, count: usize) -> Self {
        if self.0.is_null() { self } else { Out(self.0.wrapping_add(count)) }
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    /// The place that an argument of a call means, where which argument it is depends on the call.
    pub(crate) fn of_argument(argument: usize) -> Self {
        Out(argument as *mut T)
    }

    /// The same place as bytes.
    pub(crate) fn bytes(self) -> Out<u8> {
        Out(self.0.cast())
    }
}

impl Out<u8> {
    /// Fills this many bytes with one value.
    pub(crate) fn fill(self, value: u8, size: usize) {
        if !self.0.is_null() {
            // SAFETY: valid for `size` bytes, by the premise of this module.
            unsafe { self.0.write_bytes(value, size) }
        }
    }

    /// Writes bytes at the start.
    pub(crate) fn put_bytes(self, bytes: &[u8]) {
        if !self.0.is_null() {
            // SAFETY: valid for as many bytes, by the premise of this module, and no Rust value lies there.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len()) }
        }
    }

    /// Writes a text and its final zero byte into `capacity` bytes; what does not fit is cut off.
    pub(crate) fn put_text(self, text: &str, capacity: usize) {
        let Some(room) = capacity.checked_sub(1) else { return };
        let bytes = &text.as_bytes()[..text.len().min(room)];
        self.put_bytes(bytes);
        self.after(bytes.len()).put(0);
    }
}

/// A text that the caller has.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

// SAFETY: nobody writes to a text, so any thread may read it.
unsafe impl Send for Text {}
// SAFETY: as above.
unsafe impl Sync for Text {}

impl Text {
    /// Whether the text has another in it; null has nothing.
    pub(crate) fn contains(self, part: &str) -> bool {
        // SAFETY: not null, hence ends with a zero byte, by the premise of this module.
        !self.0.is_null()
            && unsafe { CStr::from_ptr(self.0) }.to_bytes().windows(part.len()).any(|at| at == part.as_bytes())
    }

    #[cfg(test)]
    pub(crate) fn of(text: &'static CStr) -> Self {
        Text(text.as_ptr())
    }

    /// The text; nothing for null.
    pub(crate) fn read(self) -> String {
        if self.0.is_null() {
            return String::new();
        }
        // SAFETY: not null, hence ends with a zero byte, by the premise of this module; read before the call returns.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned()
    }
}

/// A text that lasts for ever.
#[repr(transparent)]
pub(crate) struct Fixed(*const c_char, PhantomData<&'static CStr>);

impl Fixed {
    pub(crate) fn new(text: &'static CStr) -> Self {
        Fixed(text.as_ptr(), PhantomData)
    }
}

/// Memory that the caller has, of a size that another argument says.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct In(*const c_void);

impl In {
    #[cfg(test)]
    pub(crate) fn at(address: usize) -> Self {
        In(address as *const c_void)
    }

    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    /// A copy of the first bytes; nothing for null.
    pub(crate) fn read_bytes(self, size: usize) -> Vec<u8> {
        if self.0.is_null() || size == 0 {
            return Vec::new();
        }
        // SAFETY: valid for `size` bytes, by the premise of this module; bytes have no invalid values.
        unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), size) }.to_vec()
    }

    /// One value at a distance in bytes; nothing for null.
    pub(crate) fn read_at<T: Copy>(self, distance: usize) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the structure that the caller hands over has a `T` there, as the binary interface says.
        Some(unsafe { self.0.cast::<u8>().add(distance).cast::<T>().read_unaligned() })
    }

    /// Copies bytes from one place of the host to another; they may overlap.
    pub(crate) fn copy_to(self, to: Out<u8>, size: usize) {
        if !self.0.is_null() && !to.0.is_null() {
            // SAFETY: both are valid for `size` bytes, by the premise of this module.
            unsafe { std::ptr::copy(self.0.cast::<u8>(), to.0, size) }
        }
    }
}

impl From<Out<u8>> for In {
    fn from(out: Out<u8>) -> Self {
        In(out.0.cast())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A place for a result, as a C caller would hand it over.
    pub(crate) fn out<T>(value: &mut T) -> Out<T> {
        Out(value)
    }

    /// A structure, as a C caller would hand it over.
    pub(crate) fn input<T: ?Sized>(value: &T) -> In {
        In(std::ptr::from_ref(value).cast())
    }

    #[test]
    fn null_is_no_place() {
        let nowhere: Out<u64> = Out(std::ptr::null_mut());
        nowhere.put(1);
        nowhere.after(5).put(1);
        nowhere.bytes().fill(1, 100);
        nowhere.bytes().put_text("text", 10);
        assert!(In(std::ptr::null()).read_bytes(10).is_empty());
        assert_eq!(Text(std::ptr::null()).read(), "");
    }

    #[test]
    fn a_text_is_cut_to_its_room_and_ended() {
        let mut bytes = [1_u8; 8];
        out(&mut bytes).bytes().put_text("abcdefgh", 4);
        assert_eq!(&bytes, b"abc\0\x01\x01\x01\x01");
        out(&mut bytes).bytes().put_text("x", 0);
        assert_eq!(bytes[0], b'a', "no room, nothing written");
    }
}
