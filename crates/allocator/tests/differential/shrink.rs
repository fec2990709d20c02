//! Fewer rows that show the same.

/// Takes rows away, in chunks that halve, as long as `shows` holds of what is left; asks at most `patience` times.
///
/// The rows given must show it.
pub(crate) fn shrink<T: Clone>(rows: &[T], mut patience: usize, mut shows: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut rows = rows.to_vec();
    let mut chunk = rows.len().div_ceil(2);
    while chunk > 0 {
        let before = rows.len();
        // From the end: what comes after the difference goes first.
        let mut end = rows.len();
        while end > 0 && patience > 0 {
            let start = end.saturating_sub(chunk);
            let fewer = [&rows[..start], &rows[end..]].concat();
            patience -= 1;
            if shows(&fewer) {
                rows = fewer;
            }
            end = start;
        }
        if patience == 0 {
            break;
        }
        // Single rows go on until none can.
        if chunk > 1 || rows.len() == before {
            chunk /= 2;
        }
    }
    rows
}

#[test]
fn rows_that_matter_not_are_taken_away() {
    let rows: Vec<u32> = (0..1000).collect();
    let needed = |rows: &[u32]| [3, 500, 501, 999].iter().all(|row| rows.contains(row));
    assert_eq!(shrink(&rows, 10_000, needed), [3, 500, 501, 999]);
}

#[test]
fn patience_ends() {
    let rows: Vec<u32> = (0..1000).collect();
    let mut asked = 0;
    let left = shrink(&rows, 7, |rows| {
        asked += 1;
        rows.contains(&3)
    });
    assert_eq!(asked, 7);
    assert!(left.contains(&3) && left.len() < 1000);
}
