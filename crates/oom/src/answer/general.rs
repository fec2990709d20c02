//! Failures that only the grammar recognises: the steps follow from the place of the memory and the kind of program.

use highwater_units::size;

use super::added::state_on_host;
use super::host::{less_host_memory, more_host_memory};
use super::libraries::{asked, bare, metal};
use super::{because, host, llama, tensorrt};
use crate::diagnosis::{Cause, Diagnosis};
use crate::engine::EngineLog;
use crate::less::{WITHOUT_NUMBERS, less as less_of_work};
use crate::log::{Event, Found};
use crate::program::Program;
use crate::steps::Step;

/// The answer to a failure without a row of its own.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    if event.id != "general" {
        return None;
    }
    let program = found.surroundings.program;
    if let Some(limit) = event.bytes("limit").filter(|limit| event.requested() > Some(*limit)) {
        return Some(beyond(event, limit, program));
    }
    Some(match (event.text("place").unwrap_or_default(), program) {
        (_, Some(Program::Compiler)) => compiler(),
        ("pinned", _) => host::pinned_of(event.requested(), found),
        _ if event.asked.pins_memory() => host::pinned_of(event.requested(), found),
        ("device" | "unknown", _) if event.asked.joins_outputs() => bare(event, found),
        ("shared", _) => host::shared(event),
        ("device", Some(Program::TensorRt)) => tensorrt::of_builder(event, found),
        ("device", _) => device(event, found),
        ("host", _) | (_, Some(Program::Browser)) => of_host(event, program),
        // It catches PyTorch's error, and prints only that memory ran out.
        _ if !found.surroundings.own_steps(event.asked.purpose).is_empty() => {
            let text = "the GPU had no memory for a request: the models and their activations need more than it has free; the program's \
                        own line has no numbers";
            (because(Cause::TooBig, text), found.surroundings.own_steps(event.asked.purpose))
        }
        // Its own programs know no other.
        (_, Some(_)) => device(event, found),
        _ => unknown(event, program),
    })
}

/// More at once than a limit allows.
fn beyond(event: &Event, limit: u64, program: Option<Program>) -> (Diagnosis, Vec<Step>) {
    let text =
        format!("one request{} exceeds the largest allowed size, {}, however much is free", asked(event), size(limit));
    let split = Step::new(
        "split-request",
        "request less at once: a smaller batch, a shorter prompt or context, fewer pixels",
        "usually it holds all attention scores, or a whole prompt",
    );
    let split =
        if program == Some(Program::Mlx) { split.with("a smaller prefill step, such as 512 tokens") } else { split };
    (because(Cause::NeverFits, text), vec![split, smaller_model(program)])
}

/// The setting of a kind of program that saves memory.
pub(super) fn less(program: Option<Program>) -> Option<Step> {
    let step = |title: &str, detail: &str| Step::new("shrink", title, detail);
    Some(match program? {
        Program::Images => step(
            "lower the resolution, the size of tiles, the number of frames or the batch size",
            "memory grows with the pixels that are computed at once",
        ),
        Program::Renderer => step(
            "make the scene smaller: less hair and subdivision, fewer particles and instances, smaller textures, no motion blur or fewer \
             steps of it",
            "geometry, textures and the acceleration structure must all fit, and motion blur builds that for several moments; OptiX takes more \
             for it than CUDA",
        )
        .with("Render properties: Simplify, Persistent Data off; Preferences, System: CUDA instead of OptiX (Blender)"),
        Program::Molecules => step(
            "predict or simulate a smaller system: fewer residues or atoms, fewer samples at once",
            "memory grows with the atoms, and in the prediction of structures with the square of the residues",
        ),
        Program::OpenVino => step(
            "reduce the memory needed at once: a smaller batch, fewer streams, lower precision, a smaller model",
            "an integrated GPU shares the host's memory, up to a limit of the driver",
        ),
        Program::Whisper | Program::Browser => smaller_model(program),
        Program::Video => Step::new(
            "end-process",
            "end other encoders, decoders and programs on the GPU, or encode fewer streams at once",
            "each session takes its own surfaces, and drivers bound the number of sessions",
        )
        .with("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
        Program::Jetson => Step::new(
            "end-process",
            "end other programs, and restart the board if the same request succeeds after that",
            "CPU and GPU share one memory, whose free parts become scattered",
        )
        .with("sudo tegrastats"),
        Program::Llama | Program::Mlx | Program::Compiler | Program::OnnxRuntime | Program::TensorRt => return None,
    })
}

pub(super) fn device(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let program = found.surroundings.program;
    if found.surroundings.profiles && event.text("place") == Some("device") {
        let log = found.engine.clone().unwrap_or_default();
        return super::vllm::trial_without_numbers(&EngineLog { engine: Some("vllm"), ..log }, found);
    }
    match program {
        Some(Program::Llama) => {
            return llama::explain(event, found.engine.clone().unwrap_or_default(), found);
        }
        Some(Program::Mlx) => return metal(found),
        _ => {}
    }
    if is_of_checkpoint(event, found) {
        return gathered();
    }
    let free = event.bytes("free").map_or_else(String::new, |free| format!(", with {} available", size(free)));
    let by = match event.id {
        "general" => event.text("backend"),
        _ => Some(event.origin),
    };
    let by = by.map_or_else(String::new, |backend| format!(" ({backend})"));
    let text = format!(
        "the device had no memory for a request{}{by}{free}: either this program needs more than there is, or other \
         processes hold it; the text has no totals",
        asked(event)
    );
    let full = super::engines::end_others(None, found);
    let full =
        if event.id == "general" { Step { change: event.text("tool").map(str::to_owned), ..full } } else { full };
    let steps = match less(program) {
        Some(step) if step.id == "end-process" => vec![step, smaller()],
        Some(step) => vec![step, full],
        None => {
            let first =
                |purpose| less_of_work(Some(purpose), found.surroundings.is_training(), WITHOUT_NUMBERS.to_owned());
            vec![event.asked.purpose.map_or_else(smaller, first), full]
        }
    };
    // CPU and GPU of such a board share one memory.
    let cause = if program == Some(Program::Jetson) { Cause::HostMemory } else { Cause::TooBig };
    (because(cause, text), steps)
}

/// Whether a sentence tells what a traceback would: a sharded model is saved.
pub(super) fn is_of_checkpoint(event: &Event, found: &Found) -> bool {
    found.surroundings.is_fully_sharded && found.surroundings.saves && event.asked.innermost.is_none()
}

/// The answer to that.
pub(super) fn gathered() -> (Diagnosis, Vec<Step>) {
    let text = "the full checkpoint does not fit on the GPU beside the model: with FSDP, a state dict of full tensors gathers each of them \
                there, on every rank that builds it";
    (because(Cause::TooBig, text), vec![state_on_host(), smaller()])
}

pub(super) fn of_host(event: &Event, program: Option<Program>) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "the host had no memory for a request{}: this is the CPU's memory, not the GPU's, or the limit of a job, container or page",
        asked(event)
    );
    let steps = match program {
        Some(Program::Browser) => {
            vec![smaller_model(program).with("dtype: \"q4\", device: \"webgpu\" (transformers.js)")]
        }
        Some(Program::Whisper | Program::Llama | Program::Images) => {
            vec![smaller_model(program), more_host_memory()]
        }
        _ => vec![more_host_memory(), less_host_memory()],
    };
    (because(Cause::HostMemory, text), steps)
}

pub(super) fn smaller_model(program: Option<Program>) -> Step {
    let detail = match program {
        Some(Program::Browser) => "a page has 2 to 4 GiB for its buffers, whatever the machine has",
        _ => "all of its weights are in memory",
    };
    Step::new("smaller-model", "use a smaller model, or one with fewer bits", detail)
}

/// A compiler takes memory for each file that it works on.
pub(super) fn compiler() -> (Diagnosis, Vec<Step>) {
    let text = "the host ran out of memory while code was compiled: each job takes some GiB for GPU code";
    let fewer = Step::new("less-host-memory", "compile fewer files at once", "each job is a process of its own")
        .with("MAX_JOBS=2 NVCC_THREADS=1, make -j2, cargo build --jobs 2");
    (because(Cause::HostMemory, text), vec![fewer, more_host_memory()])
}

fn unknown(event: &Event, program: Option<Program>) -> (Diagnosis, Vec<Step>) {
    let text = format!(
        "memory ran out for a request{}; the text does not say whether it is the GPU's or the host's",
        asked(event)
    );
    let whole =
        Step::new("record", "include the lines around it", "names of libraries and devices show whose memory it is");
    (because(Cause::Unknown, text), vec![less(program).unwrap_or_else(smaller), whole])
}

/// The first step where nothing is known of the program.
pub(super) fn smaller() -> Step {
    Step::new(
        "shrink",
        "reduce the memory needed at once: a smaller batch, a smaller or shorter input, a smaller model",
        "the error has no totals, so it does not show by how much",
    )
}
