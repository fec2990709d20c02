//! Failures of `WebGPU`, in a browser or by wgpu.

use highwater_units::size;

use super::{because, general};
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::Event;
use crate::program::Program;
use crate::steps::Step;

/// The answer to it.
pub(super) fn explain(event: &Event) -> Option<(Diagnosis, Vec<Step>)> {
    Some(match event.id {
        "buffer-limit" => buffer(event),
        "adapter-limit" => adapter(event),
        "web-device" => device(),
        _ => return None,
    })
}

/// A page may not have a buffer of any size, whatever the GPU has.
fn buffer(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.bytes("raw").zip(event.bytes("limit_raw"));
    let numbers =
        numbers.map_or_else(String::new, |(asked, limit)| format!(": {} of at most {}", size(asked), size(limit)));
    let text = format!(
        "one buffer is larger than WebGPU allows{numbers}; the limit is that of the device as the program requested it, and the GPU's memory is \
         not full"
    );
    let raise = Step::new(
        "raise-limit",
        "request the device with the adapter's own limits",
        "a device has the default limits (256 MiB for a buffer, 128 MiB for a binding) unless the program requests more",
    )
    .with("requiredLimits: {maxBufferSize, maxStorageBufferBindingSize} (JavaScript), adapter.limits() in DeviceDescriptor (wgpu)");
    let split = Step::new(
        "split-request",
        "request less at once: a smaller batch or input, or the tensor in parts",
        "the limit is for one buffer, not for their sum",
    );
    (because(Cause::NeverFits, text), vec![raise, split])
}

/// The page requests more than the adapter has.
fn adapter(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.bytes("raw").zip(event.bytes("limit_raw"));
    let numbers =
        numbers.map_or_else(String::new, |(asked, limit)| format!(": {} of at most {}", size(asked), size(limit)));
    let text = format!(
        "the page requests larger buffers than this browser allows on this GPU{numbers}; the GPU's memory is not full"
    );
    let other = Step::new(
        "other-device",
        "use a newer browser or driver, or choose the faster of two GPUs",
        "the limit is what the browser reports for the adapter, which depends on both",
    )
    .with("navigator.gpu.requestAdapter({powerPreference: \"high-performance\"})");
    let smaller =
        Step { detail: "its largest tensor must be below the limit".to_owned(), ..general::smaller_model(None) };
    (because(Cause::NeverFits, text), vec![smaller, other])
}

/// The browser has lost the GPU.
fn device() -> (Diagnosis, Vec<Step>) {
    let text = "the browser lost the GPU, most likely because the page's model and its cache need more memory than the GPU has for it";
    let close = Step::new(
        "end-process",
        "close other tabs and programs that use the GPU, and load the page again",
        "a device that is lost does not come back",
    );
    (because(Cause::TooBig, text), vec![general::smaller_model(Some(Program::Browser)), close])
}
