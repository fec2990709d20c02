//! Whatever a file calls a model is read or refused without a panic, and what was read is estimated in no time.

#![no_main]

use highwater_estimate::read::{
    from_config, gguf_header, safetensors_header, safetensors_header_length, safetensors_index,
};
use highwater_estimate::{Architecture, Mode, Setup, estimate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file_bytes = bytes.len() as u64;
    let header = safetensors_header_length(bytes, file_bytes);
    let header = header.ok().and_then(|length| bytes.get(8..8 + usize::try_from(length).unwrap()));
    let _ = safetensors_index(bytes);
    let models = [
        from_config(bytes).ok(),
        gguf_header(bytes, file_bytes).ok(),
        header.and_then(|header| safetensors_header(header).ok()).map(|counted| counted.architecture("fuzz")),
    ];
    models.iter().flatten().for_each(check);
});

fn check(model: &Architecture) {
    let training = Setup::training(2, 64);
    for setup in [training, Setup { checkpointing: true, ..training }, Setup { mode: Mode::Forward, ..training }] {
        let estimate = estimate(model, &setup);
        assert!(estimate.peak_requested_bytes <= estimate.peak_allocated_bytes);
    }
}
