//! Failures of `TensorFlow`, whose pool takes the whole GPU at its start.

use highwater_units::size;

use super::because;
use super::engines::end_others;
use super::frameworks::tiny_pool;
use super::general::smaller;
use super::host::{less_host_memory, more_host_memory};
use super::libraries::asked;
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::{Event, Found};
use crate::steps::Step;

/// The answer to a failure of `TensorFlow`.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    Some(match event.id {
        "tensorflow" | "tensorflow-pool" => tensorflow(event, found),
        "tensorflow-full" => full(found),
        "tensorflow-warning" => warning(event),
        "tensorflow-library" => library(event, found),
        _ => return None,
    })
}

fn memory_growth() -> Step {
    Step::new(
        "memory-growth",
        "let TensorFlow allocate as it goes: by default it reserves the whole GPU at its start",
        "libraries, and other programs on the GPU, take their memory from the driver",
    )
    .with("TF_FORCE_GPU_ALLOW_GROWTH=true")
}

fn less_of_jax() -> Step {
    Step::new(
        "less-preallocation",
        "let JAX take less of the GPU at its start, set before it is imported: by default 75 %",
        "libraries, and other programs on the GPU, take their memory from the driver",
    )
    .with("XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_PYTHON_CLIENT_MEM_FRACTION=0.5")
}

/// So much is enough for the handle of a library.
const ENOUGH_FOR_HANDLE_BYTES: u64 = 1 << 30;

/// Libraries get what the pool leaves.
fn library(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let is_jax = found.surroundings.names_jax;
    let name = if is_jax { "JAX" } else { "TensorFlow" };
    let left = event.bytes("free_raw").zip(event.bytes("total_raw"));
    if let Some((free, total)) = left.filter(|(free, _)| *free >= ENOUGH_FOR_HANDLE_BYTES) {
        let text = format!(
            "{name} could not set up cuDNN although {} of the GPU's {} was free: memory did not run out; a cuDNN or a driver of another release \
             than the program was built for does that",
            size(free),
            size(total)
        );
        let fit = Step::new(
            "install-library",
            "install the releases of CUDA and cuDNN that the program was built for, without others in the loader's path",
            "the first lines of its log say which release it loaded and which it expects",
        );
        return (because(Cause::NotMemory, text), vec![fit]);
    }
    let left = left.map_or_else(String::new, |(free, total)| format!("; {} of {} was free", size(free), size(total)));
    let text = format!(
        "{name} could not set up cuBLAS, cuDNN or cuSOLVER: nearly always {name}'s own pool fills the GPU and leaves libraries too little, or \
         another process fills it{left}"
    );
    let look =
        Step::new("look-at-device", "see which processes use the GPU's memory", "an earlier run may still be alive")
            .with("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv");
    let growth = if is_jax { less_of_jax() } else { memory_growth() };
    (because(Cause::OutsidePyTorch, text), if is_jax { vec![look, growth] } else { vec![growth, look] })
}

/// A tensor for a copy to the GPU was never allocated.
fn full(found: &Found) -> (Diagnosis, Vec<Step>) {
    let text = "TensorFlow could not copy a tensor to the GPU, because there was no memory for it: this program or others have \
                filled the GPU; the error has no numbers";
    (because(Cause::TooBig, text), vec![end_others(None, found), smaller(), memory_growth()])
}

/// A faster algorithm needs more than there is, and a slower one is used.
fn warning(event: &Event) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "TensorFlow could not have {} for a faster algorithm and uses another: this is a warning, and nothing has failed",
        event.requested().map_or_else(|| "the memory".to_owned(), size)
    );
    let step = Step::new(
        "shrink",
        "nothing has to change; a smaller batch leaves room for the faster algorithm",
        "it may be a sign that the GPU is nearly full",
    );
    (because(Cause::Warning, text), vec![step])
}

pub(super) fn tensorflow(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let event = with_shape(event, found);
    let of = match tensor(event) {
        Some((shape, Some(bytes))) => format!(" of {} ({shape})", size(bytes)),
        Some((shape, None)) => format!("{} ({shape})", asked(event)),
        None => asked(event),
    };
    if event.number("cpu").is_some() {
        let text = format!("TensorFlow has no host memory for a tensor{of}: this is the CPU's memory, not the GPU's");
        return (because(Cause::HostMemory, text), vec![less_host_memory(), more_host_memory()]);
    }
    if let Some(limit) = tiny_pool(found) {
        let text = format!(
            "TensorFlow could not allocate a tensor{of}: its pool has only {} of the GPU, because something else \
             held nearly all of it when TensorFlow started, such as an earlier run that is still alive",
            size(limit)
        );
        return (because(Cause::OtherProcess, text), vec![end_others(None, found)]);
    }
    let totals = found.events.iter().find(|event| event.id == "bfc-totals");
    let pool = totals.and_then(|totals| totals.bytes("limit_raw"));
    let bytes = tensor(event).and_then(|(_, bytes)| bytes);
    if let (Some(bytes), Some(limit)) = (bytes, pool.filter(|&limit| bytes > Some(limit))) {
        let text = format!(
            "one tensor of {} is larger than TensorFlow's whole pool of {}, so it can never fit: a shape is wrong or much too large",
            size(bytes),
            size(limit)
        );
        let split = Step::new(
            "split-request",
            "check the shapes of the operation in the error, and compute on less at once",
            "no setting of the allocator helps",
        );
        return (because(Cause::NeverFits, text), vec![split, smaller()]);
    }
    let device = event.text("device");
    let used = totals.and_then(|totals| totals.bytes("used_raw")).zip(pool);
    // Enough is left in the pool, and no piece of it is large enough.
    let is_in_pieces =
        used.zip(bytes.or(event.requested())).is_some_and(|((used, pool), bytes)| used.saturating_add(bytes) <= pool);
    let text = match (device, used) {
        (None | Some("GPU"), Some((used, pool))) => {
            let why = if is_in_pieces {
                "enough is left, but in pieces that are too small"
            } else {
                "the model's other tensors fill it too far"
            };
            let (used, pool) = (size(used), size(pool));
            format!("TensorFlow could not allocate a tensor{of}: {used} of its pool of {pool} was in use, and {why}")
        }
        (Some("GPU"), None) => format!(
            "TensorFlow could not allocate a tensor{of}: its allocator already holds nearly all of the GPU, and the \
             model's other tensors \
             fill it"
        ),
        (Some(device), _) => {
            format!("TensorFlow could not allocate a tensor{of}: the {device} is full of the model's other tensors")
        }
        (None, None) => format!(
            "TensorFlow could not allocate a tensor{of}: the model's other tensors fill the device, usually a GPU; \
             the text does not name it"
        ),
    };
    let mut steps = vec![
        Step::new(
            "shrink",
            "reduce the memory needed at once: a smaller batch, smaller images or shorter sequences, or mixed precision",
            "the tensor's first side is usually the batch",
        )
        .with("tf.keras.mixed_precision.set_global_policy(\"mixed_float16\")"),
        Step::new("other-allocator", "use the driver's allocator, which fragments less", "it needs TensorFlow 2.8 or newer")
            .with("TF_GPU_ALLOCATOR=cuda_malloc_async"),
        memory_growth(),
    ];
    if found.surroundings.initializes && totals.is_none() {
        // A variable, or an optimizer's state of it, is as large with any batch.
        let tables = Step::new(
            "smaller-model",
            "make the variable smaller: a smaller vocabulary or embedding, or an optimizer with less state",
            "it is the initial value of a variable, and its size does not depend on the batch",
        );
        steps = vec![end_others(None, found), tables, memory_growth()];
    }
    // These settings are of CUDA's devices.
    if !matches!(device, None | Some("GPU")) || event.origin.ends_with("(DirectML)") {
        steps.truncate(1);
    } else if is_in_pieces {
        steps.swap(0, 1);
    } else if used.is_some() && bytes.or(event.requested()).is_some() {
        // Not even all that is left in the pool is enough, so pieces do not matter.
        steps.retain(|step| step.id != "other-allocator");
    }
    (because(if is_in_pieces { Cause::Fragmentation } else { Cause::TooBig }, text), steps)
}

/// `64 × 2016 × 9 × 9`, and the bytes of such a tensor.
fn tensor(event: &Event) -> Option<(String, Option<u64>)> {
    /// Bytes of an element of `TensorFlow`'s types.
    const TYPES: [(&str, u64); 9] = [
        ("float", 4),
        ("half", 2),
        ("bfloat16", 2),
        ("double", 8),
        ("int64", 8),
        ("int32", 4),
        ("uint8", 1),
        ("int8", 1),
        ("bool", 1),
    ];
    let shape = event.text("shape")?;
    let elements = shape.split(',').try_fold(1_u64, |all, side| all.checked_mul(side.parse().ok()?));
    let kind = event.text("type").unwrap_or_default();
    let element = TYPES.iter().find(|(name, _)| kind.starts_with(name)).map(|(_, bytes)| *bytes);
    let bytes = elements.zip(element).and_then(|(elements, element)| elements.checked_mul(element));
    Some((shape.replace(',', " × "), bytes))
}

/// The allocator prints the size of a request first, and the operation its shape.
fn with_shape<'f>(event: &'f Event, found: &'f Found) -> &'f Event {
    if event.text("shape").is_some() {
        return event;
    }
    let is_same = |other: &&Event| {
        let bytes = tensor(other).and_then(|(_, bytes)| bytes);
        let is_near = bytes.zip(event.requested()).is_some_and(|(shape, size)| shape.abs_diff(size) <= size / 100);
        other.id == event.id && other.rank == event.rank && is_near
    };
    found.events.iter().find(is_same).unwrap_or(event)
}
