//! Adapts an answer to the text around a log: the command, the model's size, and the GPUs and kernels that the text mentions.

use highwater_units::size;

use super::{Answer, Step};
use crate::diagnosis::{Cause, LARGE_PART};
use crate::log::{Command, Found, Purpose, Side};
use crate::options;
use crate::situation::Situation;

/// Bytes of training for each parameter: weights and gradients, and the two averages of Adam, all in 32 bits.
const TRAINED_BYTES: u64 = 16;
/// A model's name rounds its size: it is off by this part at most.
const COPY_ERROR: u64 = 16;
/// The memory of an A100 or H100, for a text without the GPU's.
const USUAL_GPU_BYTES: u64 = 80 << 30;

/// Flags of the length of a sequence and of the size of an image or a video.
const LENGTHS: [&str; 16] = [
    "resolution",
    "max_seq_length",
    "max_length",
    "max_seq_len",
    "cutoff_len",
    "block_size",
    "model_max_length",
    "seq_length",
    "max_prompt_length",
    "max_completion_length",
    "prompt_max_len",
    "generate_max_len",
    "max_len",
    "image_size",
    "imgsz",
    "num_frames",
];

/// Words in the names of other batches: those of an evaluation, of a whole job, and of data that stays on the host.
const OTHER_BATCHES: [&str; 11] = [
    "eval",
    "val_",
    "test",
    "global",
    "map_",
    "preproc",
    "token",
    "write",
    "rollout_batch",
    "generation_batch",
    "total_batch",
];

/// Adapts an answer to the text beside the log.
pub(super) fn adjust(answer: &mut Answer, found: &Found) {
    let is_of_gpu = matches!(
        answer.diagnosis.cause,
        Cause::TooBig | Cause::Unknown | Cause::Fragmentation | Cause::OutsidePyTorch | Cause::Leftover
    );
    let is_server = answer.situation.as_ref().is_some_and(|situation| situation.engine.is_some());
    if is_of_gpu && !is_server {
        of_command(&mut answer.steps, found);
        all_parameters(answer, found);
        if found.surroundings.fails_at_same_step && answer.diagnosis.cause != Cause::Leftover {
            // Without numbers nothing tells more.
            let at = usize::from(answer.situation.is_some()).min(answer.steps.len());
            answer.steps.insert(at, same_step());
        }
        placed(&mut answer.steps, found);
        if let Some(situation) = &answer.situation
            && answer.diagnosis.cause == Cause::Fragmentation
            && found.surroundings.is_training() == Some(false)
            && situation.tried_bytes > situation.capacity_bytes.map(|capacity| capacity / LARGE_PART)
        {
            // An input that is computed in parts needs no piece of that size.
            answer.steps.sort_by_key(|step| step.id != "shrink");
        }
        if found.surroundings.has_other_kernel {
            // Each has memory of its own until it ends.
            answer.steps.sort_by_key(|step| !["end-process", "restart-kernel"].contains(&step.id));
        }
    }
    of_device(&mut answer.steps, found);
    fit(&mut answer.steps, &found.command);
}

/// What fails at the same place each time is in the data or the schedule.
fn same_step() -> Step {
    Step::new(
        "find-batch",
        "find what is special about that step: print the shapes of its batch, and look for the largest sample, one with far more boxes, \
         tokens or pixels than the others",
        "it fails at the same place each time, so neither another program nor chance is to blame; a stage of the schedule or of the \
         augmentation may begin there, and memory that grows from step to step also ends at the same place",
    )
    .with("print(step, [x.shape for x in batch], torch.cuda.memory_allocated()) before the call; drop, crop or cap such samples")
}

/// NVIDIA's tool lists no processes of other devices.
fn of_device(steps: &mut [Step], found: &Found) {
    let Some(tool) = found.surroundings.tool() else { return };
    for change in steps.iter_mut().filter_map(|step| step.change.as_mut()) {
        if change.starts_with("nvidia-smi --query-compute-apps") && !change.contains(';') {
            tool.clone_into(change);
        }
    }
}

/// The general step, in the flags of the command: only what it does not have yet.
fn of_command(steps: &mut [Step], found: &Found) {
    let command = &found.command;
    let is_training = found.surroundings.is_training() != Some(false);
    let Some(step) = steps.iter_mut().find(|step| step.id == "shrink" && step.change.is_none()) else { return };
    if !command.is_shown || !is_training {
        return;
    }
    let of_transformers = command.set("per_device_train_batch_size").is_some();
    let of_diffusers =
        command.set("pretrained_model_name_or_path").is_some() && command.set("train_batch_size").is_some();
    let recomputes = ["gradient_checkpointing", "use_gradient_checkpointing", "activation_checkpointing"];
    let mut parts: Vec<String> = Vec::new();
    let mut title: Vec<&str> = Vec::new();
    let recomputes_now = (of_transformers || of_diffusers) && !recomputes.iter().any(|name| command.is_on(name));
    if recomputes_now {
        parts.push(format!("--gradient_checkpointing{}", if of_transformers { " True" } else { "" }));
        title.push("recompute activations, which the command does not do yet");
    }
    let batches = batches(command);
    if !batches.is_empty() {
        parts.extend(batches);
        title.push("use a smaller batch");
    }
    let mut change = parts.join(" ");
    let is_length = |name: &str| LENGTHS.iter().any(|length| crate::log::is_same_flag(length, name));
    let lengths = command.flags.iter().filter(|flag| flag.is_set && flag.value.is_some() && is_length(&flag.name));
    let lengths: Vec<String> = lengths.map(|flag| format!("--{}", flag.name)).collect();
    if !lengths.is_empty() {
        change = format!("{change}{}lower {}", if change.is_empty() { "" } else { ", " }, lengths.join(", "));
        title.push("use smaller or shorter inputs");
    }
    if change.is_empty() {
        return;
    }
    step.title = title.join("; ");
    let cost = if recomputes_now { ", and recomputing them costs about 33 % more compute" } else { "" };
    step.detail = format!("{}; activations grow with the batch and its inputs{cost}", step.detail);
    step.change = Some(change);
}

/// Flags of batches that are larger than one, set to one.
fn batches(command: &Command) -> Vec<String> {
    let normal = |name: &str| name.replace('-', "_").to_lowercase();
    let is_batch = |name: &str| {
        let name = normal(name);
        name.contains("batch_size") && !OTHER_BATCHES.iter().any(|other| name.contains(other))
    };
    let is_large = |value: &str| value.parse().is_ok_and(|size: u64| size > 1);
    let flags = command.flags.iter().filter(|flag| flag.is_set && is_batch(&flag.name));
    // Beside the batch of a device, the other is that of the whole job.
    let of_device = |name: &str| {
        normal(name).contains("micro") || normal(name).contains("per_device") || normal(name).contains("per_gpu")
    };
    let has_device = flags.clone().any(|flag| of_device(&flag.name));
    flags
        .filter(|flag| (!has_device || of_device(&flag.name)) && flag.value.as_deref().is_some_and(is_large))
        .map(|flag| format!("--{}{}1", flag.name, if flag.has_equals { '=' } else { ' ' }))
        .collect()
}

/// A model that is trained as a whole, and whose state alone exceeds the GPU.
fn all_parameters(answer: &mut Answer, found: &Found) {
    let surroundings = found.surroundings;
    let Some(situation) = &answer.situation else { return };
    let asked = found.groups.first().map(|group| &group.asked);
    let is_trainer = asked.is_some_and(|asked| asked.side == Some(Side::Trainer) || asked.is_backward());
    let is_training = is_trainer || surroundings.is_training() == Some(true);
    let is_of_step = matches!(situation.purpose, None | Some(Purpose::Optimize));
    let Some(parameters) = surroundings.parameters.filter(|_| is_of_step && !surroundings.trains_part) else { return };
    if !is_training && !is_of_all(situation, parameters) {
        return;
    }
    let needed = parameters.saturating_mul(TRAINED_BYTES);
    if needed <= situation.capacity_bytes.unwrap_or(USUAL_GPU_BYTES)
        || answer.steps.iter().any(|step| step.id == "shard-state")
    {
        return;
    }
    let than = situation.capacity_bytes.map_or_else(
        || format!("the {} of an A100 or H100", size(USUAL_GPU_BYTES)),
        |capacity| format!("the {} of this GPU", size(capacity)),
    );
    let billions = size_of_model(parameters);
    let why = format!(
        "training all {billions} parameters with Adam takes about {} ({TRAINED_BYTES} bytes each: weights, gradients and two averages in \
         float32), more than {than}, at any batch size",
        size(needed)
    );
    if answer.diagnosis.cause == Cause::Unknown {
        answer.diagnosis.cause = Cause::TooBig;
        answer.diagnosis.text = format!("{why}; a request of {} was refused", tried(situation));
    } else {
        answer.diagnosis.notes.push(why);
    }
    let step = Step::new(
        "shard-state",
        "train adapters (LoRA, QLoRA), or shard weights, gradients and optimizer state over several GPUs",
        "in 16 bits, training all parameters still takes about half of that",
    );
    answer.steps.insert(
        0,
        step.with("peft, ZeRO-3 or FSDP with FULL_SHARD, optimizer and parameters on the CPU; optim=\"adamw_8bit\""),
    );
}

/// Whether the request has 2 or 4 bytes for each parameter: one more copy of all of them.
fn is_of_all(situation: &Situation, parameters: u64) -> bool {
    let is_near = |bytes: u64| {
        let all = parameters.saturating_mul(bytes);
        situation.tried_bytes.is_some_and(|tried| tried.abs_diff(all) <= all / COPY_ERROR)
    };
    is_near(2) || is_near(4)
}

/// `7.0 billion`.
fn size_of_model(parameters: u64) -> String {
    let tenths = parameters / 100_000_000;
    format!("{}.{} billion", tenths / 10, tenths % 10)
}

fn tried(situation: &Situation) -> String {
    situation.tried().unwrap_or_else(|| "an unknown amount".to_owned())
}

/// Parts of a model on several GPUs, of which one is full.
fn placed(steps: &mut Vec<Step>, found: &Found) {
    let split = found.command.flags.iter().find(|flag| {
        crate::log::is_same_flag(&flag.name, "gpu-split")
            && flag.value.as_deref().is_some_and(|value| value.contains(','))
    });
    if let Some(split) = split
        && let Some(parts) = smaller_first(split.value.as_deref().unwrap_or_default())
    {
        let step = Step::new(
            "balance-gpus",
            "lower the first GPU's share: each number limits only the weights, and the cache and the activations need more",
            format!(
                "it is {}; the first GPU also has the cache of its layers and the buffers of a pass",
                split.value.as_deref().unwrap_or_default()
            ),
        );
        steps.insert(0, step.with(format!("--{} {parts}", split.name)));
    } else if found.surroundings.fills_one_gpu {
        let step = Step::new(
            "balance-gpus",
            "spread the model over the GPUs: the text says that only one of them is full",
            "encoders, decoders and the last layers may all be put on one GPU; place them by hand, or use the program's own number of GPUs",
        );
        steps.insert(
            0,
            step.with("device_map=\"balanced\", max_memory={0: \"20GiB\", 1: \"20GiB\"} (transformers, Diffusers)"),
        );
    }
}

/// The part of the first GPU's number that remains: the cache and the buffers of a pass need the rest. A start, which users refine.
const FIRST_GPU_PART: f64 = 0.7;

/// `17,24` of `24,24`.
fn smaller_first(value: &str) -> Option<String> {
    let mut parts: Vec<String> = value.split(',').map(|part| part.trim().to_owned()).collect();
    let first: f64 = parts.first()?.parse().ok()?;
    if !(2.0..1000.0).contains(&first) || parts.len() < 2 {
        return None;
    }
    parts[0] = format!("{:.0}", first * FIRST_GPU_PART);
    Some(parts.join(","))
}

/// Settings in the spelling of the text, without those that are on already.
fn fit(steps: &mut Vec<Step>, command: &Command) {
    for step in steps.iter_mut() {
        let Some(change) = &step.change else { continue };
        if let Some((title, older)) = options::older(change)
            && names_any(command, older)
            && !names_any(command, change)
        {
            title.clone_into(&mut step.title);
            step.change = Some(older.to_owned());
        }
    }
    if !command.is_shown {
        return;
    }
    let mut is_done = Vec::new();
    for step in steps.iter_mut() {
        let rest = step.change.as_deref().map(|change| without_set(change, command));
        let has_rest = rest.as_ref().is_none_or(|rest| rest.chars().any(char::is_alphanumeric));
        if has_rest {
            step.change = rest;
        }
        is_done.push(!has_rest);
    }
    // What the command has in full is no advice.
    if !is_done.iter().all(|done| *done) {
        let mut done = is_done.into_iter();
        steps.retain(|_| !done.next().unwrap_or(false));
    }
}

/// Whether the text names a flag of a setting.
fn names_any(command: &Command, setting: &str) -> bool {
    flags_of(setting).any(|name| command.names(name))
}

/// The flags of a setting.
fn flags_of(setting: &str) -> impl Iterator<Item = &str> {
    let words = setting.split([' ', ',', '(', ')', ';', ':']).filter(|word| word.starts_with("--"));
    words.map(|word| word.split('=').next().unwrap_or(word))
}

/// A setting without the flags that the command has with the same value.
fn without_set(setting: &str, command: &Command) -> String {
    if !setting.starts_with("--") {
        return setting.to_owned();
    }
    let words: Vec<&str> = setting.split(' ').collect();
    let mut kept: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let ends = word.ends_with([',', ';']);
        let bare = word.trim_end_matches([',', ';']);
        let value = words.get(at + 1).filter(|next| !ends && !next.starts_with("--") && !next.starts_with('('));
        // A flag to be lowered stays, whatever its value is.
        let is_set = bare.starts_with("--")
            && kept.last() != Some(&"lower")
            && match (bare.split_once('='), value) {
                (Some((name, value)), _) => command.set(name).and_then(|flag| flag.value.as_deref()) == Some(value),
                (None, Some(value)) => {
                    let value = value.trim_end_matches([',', ';']);
                    command.set(bare).and_then(|flag| flag.value.as_deref()) == Some(value)
                }
                (None, None) => command.is_on(bare),
            };
        let length = if value.is_some() && bare.starts_with("--") && !bare.contains('=') { 2 } else { 1 };
        if !is_set {
            kept.extend(&words[at..(at + length).min(words.len())]);
        }
        at += length;
        if is_set && words.get(at).is_some_and(|next| next.starts_with('(')) {
            // What is said of this flag.
            at += words[at..].iter().position(|word| word.contains(')')).map_or(0, |end| end + 1);
        }
    }
    // An alternative may be all that is left.
    let is_conjunction = |word: &str| ["or", "and"].contains(&word);
    let mut rest: Vec<&str> = Vec::new();
    for word in kept {
        if !is_conjunction(word) || rest.last().is_some_and(|last| !is_conjunction(last)) {
            rest.push(word);
        }
    }
    while rest.last().is_some_and(|last| is_conjunction(last)) {
        rest.pop();
    }
    if rest.first() == Some(&"in") {
        return String::new();
    }
    rest.join(" ").trim_end_matches([',', ';']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_stays_on_the_host_is_no_batch_of_the_gpu() {
        let of = |name: &str| {
            let flag = crate::log::Flag {
                name: name.to_owned(),
                value: Some("1000".to_owned()),
                is_set: true,
                has_equals: false,
            };
            batches(&Command { is_shown: true, flags: vec![flag] })
        };
        for name in [
            "dataset_map_batch_size",
            "preprocessing_batch_size",
            "tokenizer_batch_size",
            "rollout_batch_size",
            "generation_batch_size",
        ] {
            assert!(of(name).is_empty(), "{name}");
        }
        assert_eq!(of("train-batch-size"), ["--train-batch-size 1"]);
    }

    #[test]
    fn flags_that_are_set_go() {
        let mut command = Command { is_shown: true, ..Command::default() };
        for (name, value) in
            [("gradient_checkpointing", None), ("blocks_to_swap", Some("18")), ("vae_batch_size", Some("4"))]
        {
            command.flags.push(crate::log::Flag {
                name: name.to_owned(),
                value: value.map(str::to_owned),
                is_set: true,
                has_equals: false,
            });
        }
        let rest = |setting| without_set(setting, &command);
        assert_eq!(rest("--gradient-checkpointing --blocks_to_swap 18, --cache_latents"), "--cache_latents");
        assert_eq!(rest("--vae_batch_size 1 --cache_latents"), "--vae_batch_size 1 --cache_latents");
        for (setting, left) in [
            ("--gradient_checkpointing, or --other", "--other"),
            ("--other, or --gradient_checkpointing", "--other"),
            ("--gradient_checkpointing (SDXL: --x y), or --other, in ARGS", "--other, in ARGS"),
            ("--gradient_checkpointing, in ARGS", ""),
            ("--a, or --gradient_checkpointing, or --b", "--a, or --b"),
        ] {
            assert_eq!(rest(setting), left);
        }
        assert_eq!(rest("lower --blocks_to_swap 18"), "lower --blocks_to_swap 18");
        assert_eq!(rest("--other, lower --vae_batch_size"), "--other, lower --vae_batch_size");
        assert_eq!(smaller_first("24,24").as_deref(), Some("17,24"));
        assert_eq!(smaller_first("auto"), None);
    }
}
