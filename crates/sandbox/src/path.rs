//! A path in a room of fixed size: nothing here allocates.

use crate::system::Errno;

/// The kernel takes no path that is longer, its final zero byte included.
pub(crate) const CAPACITY: usize = 4096;

/// A path, as C wants it.
///
/// Invariant: behind its bytes are zeros only, one at least.
#[derive(Clone)]
pub(crate) struct Path {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl Path {
    pub(crate) const fn new() -> Self {
        Path { bytes: [0; CAPACITY], length: 0 }
    }

    /// # Errors
    /// It is too long.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, Errno> {
        let mut path = Path::new();
        path.push(bytes)?;
        Ok(path)
    }

    /// The two, with a slash between.
    ///
    /// # Errors
    /// It is too long.
    pub(crate) fn joined(directory: &[u8], name: &[u8]) -> Result<Self, Errno> {
        let mut path = Path::of(directory)?;
        path.join(name)?;
        Ok(path)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The same with the zero byte that ends it.
    pub(crate) fn with_end(&self) -> &[u8] {
        &self.bytes[..=self.length]
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// There is no room for them; nothing is added.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let end = self.length + bytes.len();
        if end >= CAPACITY {
            return Err(Errno::TOO_LONG);
        }
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }

    /// Adds a slash, unless one is there, and a name.
    ///
    /// # Errors
    /// There is no room for them.
    pub(crate) fn join(&mut self, name: &[u8]) -> Result<(), Errno> {
        if !self.as_bytes().ends_with(b"/") {
            self.push(b"/")?;
        }
        self.push(name)
    }

    /// Adds a number in decimal digits.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn push_number(&mut self, number: u64) -> Result<(), Errno> {
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b"0123456789"[usize::try_from(rest % 10).unwrap_or(0)];
            rest /= 10;
            if rest == 0 {
                return self.push(&digits[at..]);
            }
        }
    }
}

/// What is before the last slash; the root is empty.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    &path[..slash]
}

/// The first name of a path, and what is behind it; nothing where there are only slashes.
pub(crate) fn first_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = path.iter().position(|&byte| byte != b'/')?;
    let path = &path[start..];
    let end = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
    Some(path.split_at(end))
}

/// What is left of a path below a directory; nothing if it is elsewhere.
pub(crate) fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(directory).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_and_taken_apart() {
        let mut path = Path::of(b"/a").unwrap();
        path.join(b"b").unwrap();
        path.push(b".").unwrap();
        path.push_number(120).unwrap();
        assert_eq!(path.with_end(), b"/a/b.120\0");
        assert_eq!((parent(b"/a/b"), parent(b"/a"), parent(b"")), (&b"/a"[..], &b""[..], &b""[..]));
        assert_eq!(first_name(b"//a/b//"), Some((&b"a"[..], &b"/b//"[..])));
        assert_eq!(first_name(b"//"), None);
    }

    #[test]
    fn a_directory_is_no_prefix_of_its_neighbours() {
        assert_eq!(below(b"/a/b", b"/a"), Some(&b"/b"[..]));
        assert_eq!(below(b"/a", b"/a"), Some(&b""[..]));
        assert_eq!(below(b"/ab", b"/a"), None);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let mut path = Path::of(&[b'x'; CAPACITY - 1]).unwrap();
        assert_eq!(path.push(b"y"), Err(Errno::TOO_LONG));
        assert_eq!(path.with_end().len(), CAPACITY);
    }
}
