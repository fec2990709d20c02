//! A log of `highwater top` of any bytes is read without a panic, and what was read is the same after it was written.

#![no_main]

use highwater_monitor::Sample;
use highwater_monitor::log::{Reader, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let mut written = Vec::new();
    let mut writer = Writer::new(&mut written, reader.header().interval_us).unwrap();
    let mut samples = Vec::new();
    while let Ok(Some(sample)) = reader.next_sample() {
        writer.add(&sample).unwrap();
        samples.push(sample);
    }
    assert_eq!(read(&written), samples);
});

fn read(bytes: &[u8]) -> Vec<Sample> {
    let mut reader = Reader::new(bytes).unwrap();
    std::iter::from_fn(|| reader.next_sample().unwrap()).collect()
}
