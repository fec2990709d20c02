//! What describes a model, and the questions that the calculator's page asks.

use highwater_estimate::read::{
    Model, describe, from_config, safetensors_header, safetensors_header_length, safetensors_index, wanted_bytes,
};
use highwater_estimate::{Architecture, Mode, Setup, estimate};

/// A configuration is read or refused, and estimated at once if it was read.
pub fn config(bytes: &[u8]) {
    if let Ok(model) = from_config(bytes) {
        check_estimates(&model);
    }
    check_description("config.json", bytes);
}

/// The header of a GGUF file likewise.
pub fn gguf(bytes: &[u8]) {
    check_description("model.gguf", bytes);
}

/// The header of a safetensors file, or an index of such files, likewise.
pub fn safetensors(bytes: &[u8]) {
    let _ = safetensors_index(bytes);
    let _ = safetensors_header(bytes);
    if let Ok(length) = safetensors_header_length(bytes, bytes.len() as u64) {
        assert!(length + 8 <= bytes.len() as u64, "a header longer than its file");
    }
    check_description("model.safetensors", bytes);
}

/// The calculator answers any request with one JSON object.
pub fn calculator(bytes: &[u8]) {
    let answer = highwater_estimate_web::answered(bytes);
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("an answer is JSON");
    assert!(answer.is_object(), "an answer is an object");
}

/// What a file says of its model comes back from JSON, as it does from the address of the calculator's page.
fn check_description(name: &str, bytes: &[u8]) {
    let file_bytes = bytes.len() as u64;
    let wanted = wanted_bytes(name, &bytes[..bytes.len().min(8)], file_bytes);
    let start = &bytes[..usize::try_from(wanted).expect("no more than there is")];
    let Ok(description) = describe(name, start, file_bytes) else { return };
    let model = Model::Described(Box::new(description));
    let text = serde_json::to_string(&model).expect("a description is JSON");
    let again: Model = serde_json::from_str(&text).expect("a written description is readable");
    let architecture = model.architecture();
    assert_eq!(again.architecture(), architecture);
    if let Ok(architecture) = architecture {
        check_estimates(&architecture);
    }
}

fn check_estimates(model: &Architecture) {
    let training = Setup::training(2, 64);
    for setup in [training, Setup { checkpointing: true, ..training }, Setup { mode: Mode::Forward, ..training }] {
        let estimate = estimate(model, &setup);
        assert!(estimate.peak_requested_bytes <= estimate.peak_allocated_bytes);
    }
}
