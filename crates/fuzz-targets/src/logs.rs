//! Logs: of programs, for `highwater explain`, and of `highwater top`.

use highwater_documents::ExplainView;
use highwater_monitor::Sample;
use highwater_monitor::log::{Reader, Writer};
use highwater_oom::{Found, LogReader, Situation, diagnosis, steps};

/// Messages are found in any log, the same in any pieces, and each is explained. The first byte is the length of the pieces.
pub fn messages(bytes: &[u8]) {
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
}

fn found<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Found {
    let mut reader = LogReader::new();
    pieces.for_each(|piece| reader.push(piece));
    reader.finish()
}

/// A log of `highwater top` that was read is the same after it was written, and its samples are printed in every form.
pub fn hwlog(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let mut written = Vec::new();
    let mut writer = Writer::new(&mut written, reader.header().interval_us).expect("a vector takes all bytes");
    let mut samples = Vec::new();
    while let Ok(Some(sample)) = reader.next_sample() {
        writer.add(&sample).expect("a vector takes all bytes");
        check_printed(&sample);
        samples.push(sample);
    }
    let mut reader = Reader::new(written.as_slice()).expect("a written log is readable");
    let again: Vec<Sample> =
        std::iter::from_fn(|| reader.next_sample().expect("a written sample is readable")).collect();
    assert_eq!(again, samples);
}

/// A sample is printed in every form, and no control character reaches a terminal.
pub(crate) fn check_printed(sample: &Sample) {
    let (text, _metrics) = highwater_cli::fuzzing::printed(sample);
    let text = String::from_utf8(text).expect("a table is text");
    let unsafe_char = text.chars().find(|&c| c.is_control() && c != '\n');
    assert_eq!(unsafe_char, None, "{text:?}");
}
