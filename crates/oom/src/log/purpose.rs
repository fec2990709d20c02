//! The purpose of a traceback: the work of its lines, by the names of functions and files and by their text.

use super::trace::{ATTENTION, IN_32_BITS, JOINS, LAST_FRAMES, TRAINERS, TracebackFrame};

/// The work of a traceback's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// They make a state dict for a checkpoint.
    Gather,
    /// They load weights, or move a model to the GPU.
    Load,
    /// They turn latents into pixels or pixels into latents, with a VAE.
    Decode,
    /// They are an optimizer's step, not a forward or backward pass that it calls.
    Optimize,
    /// They generate text or images with a trained model.
    Generate,
    /// They evaluate a model between steps of its training.
    Evaluate,
    /// They run samples through a model to quantise it.
    Calibrate,
    /// They add elements that are trained: points, Gaussians.
    Grow,
    /// They put data of the whole set on the GPU, before a step.
    Data,
    /// They move parts of a pipeline to the GPU one after the other, and one part alone fills it.
    Parts,
    /// They move a pipeline to the GPU as a whole, although its parts were to take turns there.
    Whole,
    /// They predict with a model that was trained, by the program that trains it.
    Predict,
    /// They add a tensor to a list, or to a tensor that grows with each call.
    Collect,
}

/// The words by which each purpose is known, in names of functions and files and in lines. The earlier row counts.
const PURPOSES: [(Purpose, &[&str]); 7] = [
    (
        Purpose::Grow,
        &[
            "densify_",
            "densification_",
            "cat_tensors_to_optimizer",
            "_grow_gs",
            "grow_gs",
            "add_new_gs",
            "split_gaussians",
            "dup_in_optim",
            "gsplat/strategy",
        ],
    ),
    (
        Purpose::Data,
        &[
            "loadCam",
            "create_from_pcd",
            "cameraList_from_camInfos",
            "/datamanagers/",
            "scene/cameras.py",
            "scene\\cameras.py",
            "self.original_image",
        ],
    ),
    (
        Purpose::Decode,
        &[
            "vae.decode(",
            "vae_decode",
            "decode_tiled",
            "decode_first_stage",
            "first_stage_model.decode",
            "decode_latents",
            "VAEDecode",
            "vae.encode(",
            "vae_encode",
            "encode_first_stage",
            "first_stage_model.encode",
            "VAEEncode",
            "/autoencoders/autoencoder_kl",
            "\\autoencoders\\autoencoder_kl",
        ],
    ),
    (
        Purpose::Load,
        &[
            "load_state_dict",
            "from_pretrained",
            "torch.load(",
            "load_file(",
            "load_model",
            "load_diffusion_model",
            "_load_pretrained_model",
            "load_sub_model",
            "load_component",
            "load_weights(",
            "component_loader",
            "/model_loader/",
            "dispatch_model(",
            "load_checkpoint",
            "create_weights",
            "caching_allocator_warmup",
            "set_module_tensor_to_device",
            // Each rank gets its copy of the model, or its part: DDP, FSDP, Lightning, transformers, `DeepSpeed`.
            "_sync_module_states",
            "_sync_params_and_buffers",
            "_init_param_handle_from_",
            "_move_states_to_device",
            "_move_module_to_device",
            "_move_model_to_device",
            "model_to_device",
            "_configure_distributed_model",
            // Copies of a model: a reference, an average.
            "create_reference_model",
            "self.data.clone(memory_format=torch.preserve_format), self.requires_grad",
            // bitsandbytes, while weights move to the GPU.
            "self._quantize(device)",
            // A trainer is made: no batch is there yet.
            "Trainer(",
            // `Module.to` and `Module.cuda`, whose innermost line moves one parameter.
            "self._apply(",
            "return t.to(device, dtype if t.",
        ],
    ),
    (
        Purpose::Calibrate,
        &[
            "/awq/quantize/",
            "/auto_gptq/",
            "/gptqmodel/",
            "/llmcompressor/",
            "/auto_round/",
            "/modelopt/torch/quantization/",
        ],
    ),
    (Purpose::Gather, &["state_dict(", "_state_dict_utils", "full_state_dict", "save_pretrained"]),
    (
        Purpose::Generate,
        &["/generation/utils.py", "\\generation\\utils.py", "/diffusers/pipelines/", "\\diffusers\\pipelines\\"],
    ),
];
/// The words by which the innermost line of an optimizer's step is known.
const OPTIMIZERS: [&str; 10] = [
    "/torch/optim/",
    "\\torch\\optim\\",
    "/bitsandbytes/optim/",
    "\\bitsandbytes\\optim\\",
    "/apex/optimizers/",
    "/ops/adam/",
    "torch._foreach_",
    "exp_avg",
    "initialize_optimizer_states",
    "param_and_grad_buffer",
];

/// The purpose of a traceback, by its functions, and by what stands before a message in its own line.
pub(super) fn purpose(names: &str) -> Option<Purpose> {
    // `Trainer(gpus=1).fit(model)` makes a trainer and trains in one line.
    let trains = [").fit(", ").train(", ").evaluate(", ").predict("].iter().any(|call| names.contains(call));
    let has = |words: &str| names.contains(words) && !(trains && words == "Trainer(");
    PURPOSES.iter().find(|(_, words)| words.iter().any(|words| has(words))).map(|(purpose, _)| *purpose)
}

/// Whether a frame is of an optimizer's own code: a step may call a closure with a whole forward pass.
pub(super) fn optimizes(frame: &TracebackFrame) -> bool {
    OPTIMIZERS.iter().any(|words| [&frame.file, &frame.function, &frame.source].iter().any(|name| name.contains(words)))
}

/// Whether the last lines restore an optimizer's state, which is no weight.
pub(super) fn restores_optimizer(frames: &[TracebackFrame]) -> bool {
    let last = &frames[frames.len().saturating_sub(LAST_FRAMES)..];
    last.iter().any(|frame| {
        let is_of_torch = frame.file.contains("/torch/optim/") || frame.file.contains("\\torch\\optim\\");
        frame.function == "load_state_dict" && is_of_torch || frame.source.contains("optimizer.load_state_dict(")
    })
}

/// Whether one of the last lines copies to the host without waiting: that line or the one that calls it names the device.
pub(super) fn copies_to_host(frames: &[TracebackFrame]) -> bool {
    let names_host = |frame: &TracebackFrame| ["\"cpu\"", "'cpu'"].iter().any(|name| frame.source.contains(name));
    let last = &frames[frames.len().saturating_sub(LAST_FRAMES)..];
    last.iter().enumerate().any(|(at, frame)| {
        let caller = at.checked_sub(1).and_then(|at| last.get(at));
        frame.source.contains("non_blocking=True") && (names_host(frame) || caller.is_some_and(names_host))
    })
}

/// Whether a checkpoint's tensors go to a GPU one by one: where they were when it was saved, without `map_location`, or where the caller
/// wants them.
pub(super) fn restores_to_gpu(frames: &[TracebackFrame]) -> bool {
    let last = &frames[frames.len().saturating_sub(LAST_FRAMES)..];
    let is_of_torch = |frame: &TracebackFrame| frame.file.ends_with("serialization.py");
    let names_gpu = |source: &str| ["cuda", "device", "gpu"].iter().any(|word| source.contains(word));
    // Tensors of safetensors are copied to their device when they are read.
    let reads_tensor = last.last().is_some_and(|frame| frame.source.contains("get_tensor("));
    let opens = |frame: &&TracebackFrame| ["load_file(", "safe_open("].iter().any(|call| frame.source.contains(call));
    if reads_tensor && frames.iter().rev().find(opens).is_some_and(|frame| names_gpu(&frame.source)) {
        return true;
    }
    let restores = |frame: &TracebackFrame| {
        is_of_torch(frame)
            && (["restore_location(", ".cuda(", "_deserialize("].iter().any(|call| frame.source.contains(call))
                || ["restore_location", "_deserialize"].iter().any(|name| frame.function.ends_with(name)))
    };
    let caller = frames.iter().rev().find(|frame| !is_of_torch(frame) && frame.source.contains("load("));
    let to_host = |source: &str| {
        source.split_once("map_location").is_some_and(|(_, location)| location.contains("cpu") || !names_gpu(location))
    };
    // A traceback may be cut below the call; where `torch.load` itself runs out of the GPU's memory, it puts tensors there.
    let is_cut =
        last.last().is_some_and(|frame| is_of_torch(frame) && ["load", "_load"].contains(&frame.function.as_str()));
    (is_cut || last.iter().any(restores)) && caller.is_none_or(|caller| !to_host(&caller.source))
}

/// Calls that move a module, and how the names of modules and of what makes them end and begin.
const MOVES: [&str; 3] = [".to(", ".cuda(", ".to_empty("];
const MODULES: [&str; 9] = ["model", "net", "pipe", "encoder", "decoder", "transformer", "module", "vae", "backbone"];
const MAKERS: [&str; 5] = ["build_", "create_", "get_", "make_", "load_"];

/// Whether a line moves a module to a device: `self.model.to(device)`, `net = Net(4).cuda()`; not `model(x).to(device)`, which moves a
/// tensor.
pub(super) fn moves_module(source: &str) -> bool {
    MOVES.iter().any(|call| {
        let Some((before, _)) = source.split_once(call) else { return false };
        let (before, is_called) = match before.strip_suffix(')') {
            Some(inner) => (inner.find('(').map_or("", |open| &inner[..open]), true),
            None => (before, false),
        };
        let is_of_name = |letter: char| letter.is_alphanumeric() || "_.[]".contains(letter);
        let begin = before.rfind(|letter: char| !is_of_name(letter)).map_or(0, |at| at + 1);
        let path = &before[begin..];
        let name = path.rsplit('.').next().unwrap_or_default();
        let makes = name.starts_with(char::is_uppercase)
            || path.contains("models.")
            || MAKERS.iter().any(|maker| name.starts_with(maker));
        let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == ']' || letter == '[');
        // `netG` of GANs.
        let stem = stem.strip_suffix(char::is_uppercase).filter(|stem| !stem.is_empty()).unwrap_or(stem).to_lowercase();
        (!is_called || makes) && MODULES.iter().any(|module| stem.ends_with(module))
    })
}

/// The functions of `torch.nn.Module` that move its parameters one by one, or convert them.
const MOVERS: [&str; 10] =
    ["convert", "_apply", "<lambda>", "to", "cuda", "to_empty", "half", "float", "double", "bfloat16"];

/// Whether a frame is PyTorch's own that moves a module's parameters, whatever its text.
pub(super) fn moves_parameters(frame: &TracebackFrame) -> bool {
    ["nn/modules/module.py", "nn\\modules\\module.py"].iter().any(|file| frame.file.ends_with(file))
        && MOVERS.contains(&frame.function.as_str())
}

/// Names of functions that store an experience for later.
const STORES: [&str; 8] =
    ["cache", "remember", "memorize", "store", "push", "store_transition", "add_experience", "store_experience"];

/// Whether the line that failed adds to a list, or to a tensor that it replaces: `memory.append(x.to(device))`,
/// `seen = torch.cat((seen, new))`.
pub(super) fn collects(innermost: Option<&TracebackFrame>, own: Option<&TracebackFrame>, is_forward: bool) -> bool {
    // The call behind it may be torch's.
    let is_near = |frame: &&TracebackFrame| frame.is_own() || innermost == Some(*frame);
    [innermost, own].into_iter().flatten().filter(is_near).any(|frame| {
        let source = frame.source.as_str();
        // A forward pass lists and joins activations, which end with it.
        let adds = !is_forward && [".append(", ".extend(", ".appendleft("].iter().any(|call| source.contains(call));
        let grows = source.split_once('=').is_some_and(|(target, rest)| {
            let target = target.trim();
            let joined =
                rest.split_once("cat([").or_else(|| rest.split_once("cat((")).map(|(_, parts)| parts.trim_start());
            (!is_forward || target.starts_with("self."))
                && !target.is_empty()
                && joined.is_some_and(|parts| parts.starts_with(target) && parts[target.len()..].starts_with(','))
        });
        let moves = [".cuda(", ".to(", "device="].iter().any(|call| source.contains(call));
        let stores = moves && frame.is_own() && STORES.contains(&frame.function.as_str());
        adds || grows || stores
    })
}

/// Whether a training program was evaluating: by its own functions, or those of libraries that train.
pub(super) fn evaluates(frames: &[TracebackFrame]) -> bool {
    frames.iter().rev().any(|frame| {
        let name = frame.function.to_ascii_lowercase();
        // `validate`, `val_one_epoch`, `run_eval`.
        let is_word = |word: &str| ["val", "valid", "eval"].contains(&word);
        let is_named = ["validat", "evaluat"].iter().any(|word| name.starts_with(word)) || name.split('_').any(is_word);
        // `val_loss = loss_fn(…)` in a function that trains and validates.
        let target = frame.source.split_once(" = ").map_or("", |(target, _)| target.trim());
        if frame.is_own() && ["val_loss", "valid_loss", "validation_loss", "eval_loss"].contains(&target) {
            return true;
        }
        is_named
            && !name.contains("train")
            && (frame.is_own() || TRAINERS.iter().any(|words| frame.file.contains(words)))
    })
}

/// Whether compiled code allocates a tensor whose last side is as long as a vocabulary, or the part of one on each GPU:
/// `empty_strided_cuda((s0, 1, 76032), …`.
pub(super) fn has_vocabulary(source: &str) -> bool {
    let sides = source.split_once("empty_strided_cuda((").and_then(|(_, rest)| rest.split_once(')'));
    let last = sides.and_then(|(sides, _)| sides.rsplit(',').find(|side| !side.trim().is_empty()));
    last.and_then(|side| side.trim().parse().ok()).is_some_and(|side: u64| (30_000..=400_000).contains(&side))
}

/// Words of lines that hold a number for each token and entry of the vocabulary.
pub(super) const LOGITS: [&str; 5] = ["logits.float()", "cross_entropy", "log_softmax", "logsumexp", "lm_head"];

/// The same by either name.
const OUTPUTS_IN_32_BITS: &str = "Accelerate's float32 copy of the model's outputs, including the logits";

/// What a line of Python allocates, by its words. The earlier row counts.
const ALLOCATES: [(&str, &str); 31] = [
    (IN_32_BITS[0], OUTPUTS_IN_32_BITS),
    (IN_32_BITS[1], OUTPUTS_IN_32_BITS),
    ("binary_cross_entropy", "the loss of each element, as large as its input"),
    ("logits.float()", "a float32 copy of the logits: 4 bytes for each token and vocabulary entry"),
    ("cross_entropy", "the loss of all tokens at once: log-probabilities as large as the logits, in float32"),
    ("log_softmax", "log-probabilities as large as its input, often in float32"),
    ("logsumexp", "an intermediate as large as the logits"),
    ("softmax", "a result as large as its input"),
    ("one_hot", "a tensor with an entry of 8 bytes for each class of each element"),
    ("lm_head", "the logits: one number for each token and vocabulary entry"),
    (".float()", "a float32 copy: 4 bytes for each element, twice as many as in 16 bits"),
    (".to(torch.float32)", "a float32 copy, twice as large as its 16-bit tensor"),
    ("torch.cat", "a new tensor as large as all its parts, which stay alive until it is complete"),
    ("torch.stack", "a new tensor as large as all its parts, which stay alive until it is complete"),
    (".repeat(", "a copy for each repetition"),
    (".contiguous()", "a copy of the whole tensor"),
    (".backward(", "gradients, and the temporaries of the backward pass"),
    (".step(", "the optimizer's state at its first step, and its intermediates"),
    ("torch._foreach_", "temporary copies of all parameters that are updated at once"),
    ("exp_avg_sq.sqrt()", "a temporary of the optimizer's step, as large as the parameters that it updates at once"),
    ("exp_avg", "the optimizer's state: each of its averages is as large as the parameters"),
    ("matmul", "the product of two matrices; in attention without a fused kernel, all scores at once"),
    ("baddbmm", "all attention scores at once"),
    (ATTENTION, "the result of attention, and without a fused kernel all of its scores at once"),
    (JOINS, "the outputs of all batches of the evaluation so far, in one tensor"),
    ("empty_strided_cuda", "a tensor of compiled code, of the given shape"),
    ("einsum", "the product and its intermediates"),
    ("torch.zeros", "a new tensor of the given shape"),
    ("torch.empty(byte_count", "one block for all weights that go to this GPU, before they are loaded"),
    ("torch.empty", "a new tensor of the given shape"),
    (".to(", "a copy of a tensor or model on the GPU"),
];

pub(super) fn allocates(source: &str) -> Option<&'static str> {
    ALLOCATES.iter().find(|(words, _)| source.contains(words)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::{TracebackFrame, evaluates, moves_module};

    #[test]
    fn a_loss_of_a_validation_is_no_step_of_training() {
        let frame = |source: &str| TracebackFrame {
            file: "scripts/train.py".to_owned(),
            line: 90,
            function: "train".to_owned(),
            source: source.to_owned(),
        };
        assert!(evaluates(&[frame("val_loss = criterion(model(images), labels)")]));
        assert!(!evaluates(&[frame("loss = criterion(model(images), labels)")]));
        assert!(!evaluates(&[frame("val_loader = loader(val_loss_of)")]));
    }

    #[test]
    fn a_module_that_moves_is_told_from_a_tensor() {
        for line in [
            "self.model.to(device)",
            "net = Net(4).cuda()",
            "netG = netG.to(device)",
            "model = torchvision.models.resnet50(pretrained=True).cuda()",
            "pipe.to(\"cuda\")",
            "unet = UNet2DConditionModel(config).to(device, dtype=dtype)",
        ] {
            assert!(moves_module(line), "{line}");
        }
        for line in [
            "out = model(x.to(device))",
            "y = self.embedding_net(x).to(device)",
            "encoder_hidden_states = encoder_hidden_states.to(device)",
            "model_inputs = tokenizer(text).to(device)",
            "loss = loss.cuda()",
        ] {
            assert!(!moves_module(line), "{line}");
        }
    }
}
