//! Room for what grows with the input: asked for, so that a machine without memory gives an error and does not abort.

use crate::error::ErrorKind;

/// Adds a row.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`] if there is no memory for it.
#[inline]
pub(crate) fn push<T>(rows: &mut Vec<T>, row: T) -> Result<(), ErrorKind> {
    if rows.len() == rows.capacity() {
        make(rows, 1)?;
    }
    rows.push(row);
    Ok(())
}

/// Makes room for so many more rows.
///
/// # Errors
/// As [`push`].
pub(crate) fn make<T>(rows: &mut Vec<T>, more: usize) -> Result<(), ErrorKind> {
    rows.try_reserve(more).map_err(|_| ErrorKind::OutOfMemory)
}

/// The rows of an iterator that knows how many they are.
///
/// # Errors
/// As [`push`].
pub(crate) fn collect<T>(rows: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, ErrorKind> {
    let mut all = Vec::new();
    make(&mut all, rows.len())?;
    all.extend(rows);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_an_error() {
        let mut rows = vec![1_u64];
        assert!(matches!(make(&mut rows, usize::MAX / 16), Err(ErrorKind::OutOfMemory)));
        push(&mut rows, 2).unwrap();
        assert_eq!(rows, [1, 2]);
    }
}
