//! Programs that go on where memory is short: slower, or with less.

use highwater_units::size;

use super::{because, general};
use crate::diagnosis::{Cause, Diagnosis};
use crate::log::{Event, Found};
use crate::steps::Step;

/// The answer to it.
pub(super) fn explain(event: &Event, found: &Found) -> Option<(Diagnosis, Vec<Step>)> {
    Some(match event.id {
        "mlx-large" => large_for_metal(event),
        "spilled" => spilled(event),
        "on-cpu" => on_cpu(event, found),
        "halved-batch" => halved_batch(event),
        _ => return None,
    })
}

/// A warning of mlx-lm before it generates.
fn large_for_metal(event: &Event) -> (Diagnosis, Vec<Step>) {
    let numbers = event.bytes("needed").zip(event.bytes("limit"));
    let numbers = numbers.map_or_else(String::new, |(needed, limit)| {
        format!(": it needs {}, and Metal recommends at most {}", size(needed), size(limit))
    });
    let text = format!(
        "the model is nearly as large as the memory that macOS lets the GPU use{numbers}; it runs, and becomes slow once the system swaps"
    );
    let raise =
        Step::new("raise-limit", "let the GPU use more of the memory", "the system and other programs need the rest")
            .with("sudo sysctl iogpu.wired_limit_mb=N, with N in MiB");
    (because(Cause::Warning, text), vec![general::smaller_model(None), raise])
}

/// Memory of the host that Windows gives to the GPU.
fn spilled(event: &Event) -> (Diagnosis, Vec<Step>) {
    let used = event.bytes("used").zip(event.bytes("total"));
    let used = used.map_or_else(String::new, |(used, total)| format!(", {} of {},", size(used), size(total)));
    let text = format!(
        "a part of the program's memory{used} is in the host's memory, which Windows shares with the GPU: nothing fails, and each access to it \
         crosses the bus, which makes the program many times as slow"
    );
    let less = Step::new(
        "shrink",
        "keep the program within the GPU's own memory: a smaller or more quantised model, fewer pixels, a smaller batch, or the program's own \
         offload",
        "a program's offload moves whole layers, and Windows moves any part",
    );
    let refuse = Step::new(
        "without-spill",
        "let the driver refuse instead, to see when it is too much",
        "the program then ends with an out-of-memory error and its numbers",
    )
    .with("NVIDIA Control Panel, Manage 3D settings, CUDA - Sysmem Fallback Policy: Prefer No Sysmem Fallback");
    (because(Cause::Warning, text), vec![less, refuse])
}

/// A program begins its first epoch again with half of the batch.
fn halved_batch(event: &Event) -> (Diagnosis, Vec<Step>) {
    let batches = event.number("batch").zip(event.number("smaller"));
    let (of, to) = batches.map_or_else(
        || ("the batch".to_owned(), "a smaller one".to_owned()),
        |(batch, smaller)| (format!("a batch of {batch}"), smaller.to_string()),
    );
    let text = format!(
        "the GPU had no memory for {of}; the program begins again with {to}, up to three times in the first epoch, and the text has no failure \
         after that"
    );
    let to = batches.map_or(4, |(_, smaller)| smaller);
    let start = Step::new(
        "shrink",
        "start with the smaller batch, or smaller images",
        "the learning rate and other settings then fit it from the start",
    );
    (because(Cause::Warning, text), vec![start.with(format!("batch={to}"))])
}

/// A program goes on with the CPU.
fn on_cpu(event: &Event, found: &Found) -> (Diagnosis, Vec<Step>) {
    let of_yolo = event.origin.starts_with("YOLO");
    let (text, detail) = if event.origin == "Ultralytics" {
        (
            "the GPU had no memory for the label assignment of one batch; the program computes it on the CPU and goes on: its results stay the \
             same, and only that batch is slower; the run need not be stopped",
            "the costs are a number for each pair of a prediction and a labelled box, so one crowded image decides the peak",
        )
    } else if of_yolo {
        (
            "the GPU had no memory for the label assignment of a batch, or that failed in another way: old releases take every error there for \
             this one; the program computes this batch on the CPU and goes on",
            "the costs are a number for each pair of a prediction and a labelled box, so one crowded image decides the peak",
        )
    } else {
        (
            "the GPU had no memory for one function, even after the cache was emptied; the program computes it on the CPU and goes on, which is \
             slow",
            "the overlaps are a number for each pair of an anchor and a labelled box, so one crowded image decides the peak",
        )
    };
    let own = found.surroundings.own_steps(None);
    let less = Step::new("shrink", "use smaller images, or fewer for each GPU, and fewer boxes in an image", detail);
    let mut steps = if own.is_empty() { vec![less] } else { own };
    if of_yolo {
        let check = Step::new(
            "check-indices",
            "if it stops there with another error, compare the labels with the number of classes",
            "a label beyond the classes ends in an assertion of a kernel",
        );
        steps.push(check.with("num_classes of the experiment file; CUDA_LAUNCH_BLOCKING=1 python tools/train.py"));
    }
    (because(Cause::Warning, text), steps)
}
