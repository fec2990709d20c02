//! Any bytes as a log: finding and explaining messages does not panic, and the pieces that a log comes in change nothing.

#![no_main]

use highwater_analysis::explain::{Found, LogReader, Situation, diagnosis, steps};
use highwater_analysis::view::ExplainView;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&length, log)) = bytes.split_first() else { return };
    let whole = found(log.chunks(log.len().max(1)));
    assert_eq!(found(log.chunks(usize::from(length) + 1)), whole);
    assert!(whole.groups.iter().map(|group| group.count).sum::<u64>() + whole.left_out >= whole.count);
    for group in &whole.groups {
        let situation = Situation::of_message(&group.message, whole.surroundings);
        let diagnosis = diagnosis(&situation);
        let steps = steps(&situation, &diagnosis);
        // Never advice that is followed already.
        assert!(!situation.has_expandable_segments || steps.iter().all(|step| step.id != "expandable-segments"));
    }
    let _ = ExplainView::of_log(&whole);
});

fn found<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Found {
    let mut reader = LogReader::new();
    pieces.for_each(|piece| reader.push(piece));
    reader.finish()
}
