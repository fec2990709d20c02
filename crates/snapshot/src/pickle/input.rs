//! The bytes, read in pieces, with the offset of each known.

use std::io::{self, Read};

use crate::error::{Error, ErrorKind};
use crate::limits::{MAX_LINE_BYTES, MAX_PADDING_BYTES, MAX_TEXT_BYTES};
use crate::room;
use crate::unpack::Overgrown;

/// Enough for an opcode with its fixed argument: the machine asks for this much before each opcode.
const LOOKAHEAD: usize = 16;

/// Fits the second-level cache, so that the copy out of the page cache stays cheap.
const BUFFER_BYTES: usize = 256 << 10;

pub(crate) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    /// Next byte to read.
    next: usize,
    /// End of what is filled.
    filled: usize,
    /// Offset of `buffer[0]` in the input.
    base: u64,
    /// Why no more bytes will come.
    ended: Option<Ended>,
}

enum Ended {
    EndOfFile,
    Failed(io::Error),
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; BUFFER_BYTES], next: 0, filled: 0, base: 0, ended: None }
    }

    /// Offset of the next byte.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.next as u64
    }

    /// The next opcode.
    #[inline]
    pub(crate) fn opcode(&mut self) -> Result<u8, Error> {
        if self.filled - self.next < LOOKAHEAD {
            self.refill(LOOKAHEAD);
        }
        let [byte] = self.take("an opcode")?;
        Ok(byte)
    }

    /// The next `N` bytes.
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        match self.buffer[self.next..self.filled].first_chunk::<N>() {
            Some(&bytes) => {
                self.next += N;
                Ok(bytes)
            }
            None => self.take_after_refill(what),
        }
    }

    #[cold]
    fn take_after_refill<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        self.refill(N);
        match self.buffer[self.next..self.filled].first_chunk::<N>() {
            Some(&bytes) => {
                self.next += N;
                Ok(bytes)
            }
            None => Err(self.cut(what)),
        }
    }

    /// The bytes at hand, without consuming them.
    #[inline]
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.buffer[self.next..self.filled]
    }

    /// Passes over bytes that were peeked at.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        debug_assert!(self.next + count <= self.filled);
        self.next += count;
    }

    /// The next `len` bytes: lent from the buffer where they lie there, else gathered in `scratch` as they arrive.
    #[inline]
    pub(crate) fn text<'a>(
        &'a mut self,
        len: u64,
        scratch: &'a mut Vec<u8>,
        what: &'static str,
    ) -> Result<&'a [u8], Error> {
        if let Ok(len) = usize::try_from(len)
            && len <= self.filled - self.next
        {
            let start = self.next;
            self.next += len;
            return Ok(&self.buffer[start..start + len]);
        }
        self.gather(len, scratch, what)?;
        Ok(scratch)
    }

    #[cold]
    fn gather(&mut self, len: u64, scratch: &mut Vec<u8>, what: &'static str) -> Result<(), Error> {
        if len > MAX_TEXT_BYTES {
            return Err(Error::at(self.offset(), ErrorKind::Limit { what, limit: MAX_TEXT_BYTES }));
        }
        scratch.clear();
        let mut missing = usize::try_from(len).expect("below the limit");
        while missing > 0 {
            if self.next == self.filled {
                self.refill(1);
            }
            let piece = missing.min(self.filled - self.next);
            if piece == 0 {
                return Err(self.cut(what));
            }
            room::make(scratch, piece).map_err(|kind| Error::at(self.offset(), kind))?;
            scratch.extend_from_slice(&self.buffer[self.next..self.next + piece]);
            self.next += piece;
            missing -= piece;
        }
        Ok(())
    }

    /// Bytes up to the next newline, which is consumed and left out.
    pub(crate) fn line(&mut self, scratch: &mut Vec<u8>, what: &'static str) -> Result<(), Error> {
        scratch.clear();
        loop {
            if self.next == self.filled {
                self.refill(1);
            }
            let rest = &self.buffer[self.next..self.filled];
            if rest.is_empty() {
                return Err(self.cut(what));
            }
            let newline = memchr::memchr(b'\n', rest);
            let piece = newline.unwrap_or(rest.len());
            if scratch.len() + piece > MAX_LINE_BYTES {
                return Err(Error::at(self.offset(), ErrorKind::Limit { what, limit: MAX_LINE_BYTES as u64 }));
            }
            scratch.extend_from_slice(&rest[..piece]);
            self.next += piece;
            if newline.is_some() {
                self.next += 1;
                return Ok(());
            }
        }
    }

    /// Reads on and gives the first byte that is not NUL, if one comes soon.
    pub(crate) fn first_nonzero_after_end(&mut self) -> Option<u64> {
        let far = self.offset() + MAX_PADDING_BYTES;
        while self.offset() < far {
            let rest = &self.buffer[self.next..self.filled];
            if let Some(at) = rest.iter().position(|&b| b != 0) {
                return Some(self.offset() + at as u64);
            }
            self.next = self.filled;
            self.refill(1);
            if self.next == self.filled {
                break;
            }
        }
        None
    }

    /// Moves what is left to the front and reads until `want` bytes are there or the input ends.
    #[cold]
    fn refill(&mut self, want: usize) {
        self.buffer.copy_within(self.next..self.filled, 0);
        self.base += self.next as u64;
        self.filled -= self.next;
        self.next = 0;
        while self.filled < want && self.ended.is_none() {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.ended = Some(Ended::EndOfFile),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.ended = Some(Ended::Failed(error)),
            }
        }
    }

    /// The error for input that ends too early.
    #[cold]
    fn cut(&mut self, what: &'static str) -> Error {
        let end = self.base + self.filled as u64;
        match self.ended.take() {
            Some(Ended::Failed(error)) => Error::at(end, damage(error)),
            _ => Error::at(end, ErrorKind::Cut(what)),
        }
    }
}

/// A decompressor's complaint is about the data, other failures are the machine's.
pub(crate) fn damage(error: io::Error) -> ErrorKind {
    if let Some(&Overgrown { packed_bytes }) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return ErrorKind::Overgrown { packed_bytes };
    }
    match error.kind() {
        io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
        io::ErrorKind::UnexpectedEof => ErrorKind::Cut("the compressed data"),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other => {
            ErrorKind::Damaged(error.to_string())
        }
        _ => ErrorKind::Io(error),
    }
}
