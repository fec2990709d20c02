//! Tracebacks of Python: the lines that asked for the memory, in the program and in a library.

use std::borrow::Cow;

use memchr::memmem;
use rustc_hash::FxHashMap;

use super::purpose::{
    LOGITS, Purpose, allocates, collects, copies_to_host, evaluates, has_vocabulary, moves_module, moves_parameters,
    optimizes, purpose, restores_optimizer, restores_to_gpu,
};
use crate::known::text_of;

/// Frames of a traceback that are kept: its last ones.
const MAX_FRAMES: usize = 128;
/// Its last ones, which do the work itself: a module passes a copy on to its parts.
pub(super) const LAST_FRAMES: usize = 8;
/// No terminal is so narrow that a shorter line is cut.
const LEAST_WIDTH: usize = 60;
/// Processes whose tracebacks may be open at once.
const MAX_OPEN: usize = 256;
/// The longest part of a frame that is kept.
const TEXT_BYTES: usize = 300;
/// Bytes that a line of a frame holds.
pub(super) const ANCHOR: &str = "File \"";
/// Bytes that a line of a traceback in a box or of a notebook holds: a file, or the mark of its line.
pub(super) const OTHER_ANCHORS: [&str; 25] = [
    HEADING, "│ /", "│ in ", "│ C:\\", "│ D:\\", "❱ ", "--> ", "-> 1", "-> 2", "-> 3", "-> 4", "-> 5", "-> 6", "-> 7",
    "-> 8", "-> 9", "File ~", "File /", ".py in ", ALONE[0], ALONE[1], ALONE[2], ALONE[3], ALONE[4], REPORT,
];
/// How Python begins a traceback.
const HEADING: &str = "Traceback (most recent call last)";
/// And a report of `ComfyUI`.
const REPORT: &str = "## Stack Trace";
/// Words of lines that say enough without their frame, as where a text begins in the middle of a traceback.
const ALONE: [&str; 5] = [ATTENTION, "exp_avg", "_C.rasterize_gaussians", IN_32_BITS[0], IN_32_BITS[1]];
/// Functions by which Accelerate copies all that a model returns.
pub(super) const IN_32_BITS: [&str; 2] = ["_is_fp16_bf16_tensor", "_convert_to_fp32"];
pub(super) const ATTENTION: &str = "scaled_dot_product_attention(";
/// Words of lines and names of functions that compute attention with all of its scores, or a mask as large.
const ATTENDS: [&str; 8] = [
    ATTENTION,
    "attn_weights = torch.matmul(",
    "baddbmm",
    "get_full_mask",
    "unfused_attention",
    "eager_attention_forward",
    "attention_scores =",
    "get_attention_scores",
];
/// Names of a model's part for images; the last one is how Qwen2-VL's calls attention (`modeling_qwen2_vl.py`), unlike its part for text.
const IMAGES: [&str; 6] = [
    "ision",
    "visual",
    "modeling_siglip",
    "modeling_clip",
    "image_encoder",
    "scaled_dot_product_attention(q, k, v, attention_mask, dropout_p=0.0)",
];
/// Calls and functions that give each rank its copy of a model.
const DISTRIBUTES: [&str; 6] = [
    "deepspeed.initialize(",
    "DistributedDataParallel(",
    "_configure_distributed_model",
    "_broadcast_model",
    "_sync_module_states",
    "_sync_params_and_buffers",
];
/// The function by which transformers joins the outputs of an evaluation.
pub(super) const JOINS: &str = "nested_concat";
/// Lines of its writer that may stand between a traceback and the failure it is of.
const NEAR_LINES: u64 = 8;
/// Lines of other writers that may stand between a frame and its text.
const PATIENCE_LINES: u64 = 1_024;
/// Folders of what is installed rather than the user's.
const LIBRARIES: [&str; 9] =
    ["site-packages", "dist-packages", "<frozen", "/lib/python", "\\lib\\", "\\Lib\\", "/torch/", "importlib", "/bin/"];

/// Files of Python itself as an embedded one names them.
const STANDARD: [&str; 8] = [
    "threading.py",
    "runpy.py",
    "contextlib.py",
    "functools.py",
    "queue.py",
    "<string>",
    "concurrent\\futures\\thread.py",
    "asyncio\\runners.py",
];

/// Functions that only call another.
const PASSES_ON: [&str; 6] =
    ["__torch_function__", "_wrapped_call_impl", "_call_impl", "decorate_context", "_fn", "inner"];

/// Functions that request no memory of the GPU, and report what went wrong before.
const LOOKS: [&str; 9] = [
    "mem_get_info",
    "cudaMemGetInfo",
    "memory_stats",
    "memory_allocated",
    "memory_reserved",
    "synchronize",
    "_cuda_synchronize",
    "empty_cache",
    "ipc_collect",
];

/// Files that only call what a user has put together.
const DISPATCHERS: [&str; 2] = ["ComfyUI/execution.py", "ComfyUI\\execution.py"];

/// Files of clients that report the error of a server.
const CLIENTS: [&str; 8] = [
    "text_generation/client",
    "text_generation\\client",
    "openai/_base_client",
    "openai\\_base_client",
    "requests/models",
    "gradio_client/",
    "tritonclient/",
    "ollama/_client",
];

/// A frame of a traceback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracebackFrame {
    /// The file, as printed.
    pub file: String,
    /// Its line.
    pub line: u32,
    /// The function.
    pub function: String,
    /// The line's text; empty where the log does not have it.
    pub source: String,
}

impl TracebackFrame {
    /// Whether it only calls the nodes of a graph.
    fn dispatches(&self) -> bool {
        DISPATCHERS.iter().any(|file| self.file.ends_with(file))
    }

    /// Whether it is the user's own code, by where the file is.
    pub fn is_own(&self) -> bool {
        let is_of_python = STANDARD.iter().any(|file| self.file == *file);
        !self.file.is_empty()
            && !is_of_python
            && !self.dispatches()
            && !LIBRARIES.iter().any(|folder| self.file.contains(folder))
    }
}

/// The lines behind a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedAt {
    /// The innermost line of the program's own code.
    pub own: Option<TracebackFrame>,
    /// The innermost line of all.
    pub innermost: Option<TracebackFrame>,
    /// The part of a job that failed, where the traceback or the line's prefix tells: an engine in a training job is
    /// not its trainer.
    pub side: Option<Side>,
    /// The purpose of the lines, by the names of functions.
    pub purpose: Option<Purpose>,
    /// They load a checkpoint to the GPU that it was saved from, where the caller names no other device.
    pub restores_to_gpu: bool,
    /// They are of a client, to which a server has told its error.
    pub of_client: bool,
    /// They copy to the host without waiting, for which PyTorch pins memory (`_to_copy` in `TensorConversions.cpp`).
    pub copies_to_host: bool,
}

/// A part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A server, by its engine.
    Engine(&'static str),
    /// A trainer.
    Trainer,
}

/// What stands in the names of processes, loggers and files of engines, without blanks.
const ENGINES: [(&[u8], &str); 15] = [
    (b"VllmWorker", "vllm"),
    (b"EngineCore", "vllm"),
    (b"RayWorkerWrapper", "vllm"),
    (b"Worker_TP", "vllm"),
    (b"multiproc_executor.py", "vllm"),
    (b"worker_base.py", "vllm"),
    (b"/vllm/", "vllm"),
    (b"/vllm_ascend/", "vllm"),
    (b"/sglang/srt/", "sglang"),
    (b"/text_generation_server/", "tgi"),
    (b"text_generation_launcher", "tgi"),
    (b"text_generation_client", "tgi"),
    (b"text_generation_router", "tgi"),
    (b"text_generation.errors", "tgi"),
    (b"Unabletowarmupmodel", "tgi"),
];
/// What stands in files and lines of trainers.
pub(super) const TRAINERS: [&str; 14] = [
    ".backward(",
    "optimizer.step(",
    "/trl/",
    "/transformers/trainer",
    "/deepspeed/runtime/",
    "/megatron/",
    "/verl/",
    "/nemo_rl/",
    "/openrlhf/",
    "/slime/",
    "/unsloth/",
    "/lightning/",
    "/accelerate/optimizer",
    "training_step",
];

/// The engine that a text names.
pub(super) fn engine_in(text: &[u8]) -> Option<&'static str> {
    ENGINES.iter().find(|(words, _)| memmem::find(text, words).is_some()).map(|(_, engine)| *engine)
}

/// The part of a job whose traceback it is.
fn side(frames: &[TracebackFrame]) -> Option<Side> {
    // A trainer may call an engine in its own process: the innermost tells.
    frames.iter().rev().find_map(|frame| {
        let is_trainer = TRAINERS.iter().any(|words| frame.file.contains(words) || frame.source.contains(words));
        engine_in(frame.file.as_bytes()).map(Side::Engine).or_else(|| is_trainer.then_some(Side::Trainer))
    })
}

impl AskedAt {
    /// Whether the lines compute with all logits at once.
    pub(crate) fn holds_logits(&self) -> bool {
        let mut frames = [&self.innermost, &self.own].into_iter().flatten();
        frames.any(|frame| {
            // Of each class, not of each entry of a vocabulary.
            let is_copied = IN_32_BITS.iter().any(|name| frame.function == *name || frame.source.contains(name));
            !frame.source.contains("binary_cross_entropy")
                && (is_copied
                    || LOGITS.iter().any(|words| frame.source.contains(words))
                    || has_vocabulary(&frame.source))
        })
    }

    /// Whether the lines compute attention whose scores may all be held at once.
    pub(crate) fn attends(&self) -> bool {
        let mut frames = [&self.innermost, &self.own].into_iter().flatten();
        frames.any(|frame| ATTENDS.iter().any(|words| frame.source.contains(words) || frame.function == *words))
    }

    /// Whether they do so between the patches of images.
    pub(crate) fn attends_to_images(&self) -> bool {
        let mut frames = [&self.innermost, &self.own].into_iter().flatten();
        let is_of_images = |frame: &TracebackFrame| {
            let names = [&frame.file, &frame.function, &frame.source];
            IMAGES.iter().any(|words| names.iter().any(|name| name.contains(words)))
        };
        self.attends() && frames.any(is_of_images)
    }

    /// Whether the lines give each rank its copy of a model, when hardly anything else is on the GPU.
    pub(crate) fn distributes_model(&self) -> bool {
        let mut frames = [&self.innermost, &self.own].into_iter().flatten();
        frames.any(|frame| {
            DISTRIBUTES.iter().any(|words| frame.source.contains(words) || frame.function == *words)
                || frame.function == "initialize" && frame.file.contains("deepspeed")
        })
    }

    /// Whether the innermost line is of a layer of a model, rather than of what samples from its logits.
    pub(crate) fn is_of_layer(&self) -> bool {
        let is_of = |frame: &TracebackFrame| {
            let samples = [&frame.file, &frame.function, &frame.source].iter().any(|name| name.contains("sampl"));
            let is_layer = ["/layers/", "/models/", "/functional.py"].iter().any(|part| frame.file.contains(part));
            !samples && is_layer && frame.function != "compute_logits"
        };
        !self.holds_logits() && self.innermost.as_ref().is_some_and(is_of)
    }

    /// Whether the lines are a backward pass.
    pub(crate) fn is_backward(&self) -> bool {
        let mut frames = [&self.innermost, &self.own].into_iter().flatten();
        frames.any(|frame| frame.source.contains("backward("))
    }

    /// Whether the lines join the outputs of all batches.
    pub(crate) fn joins_outputs(&self) -> bool {
        let mut frames = [&self.innermost, &self.own].into_iter().flatten();
        frames.any(|frame| frame.source.contains(JOINS) || frame.function == JOINS)
    }

    /// Whether the innermost line only looks at the memory, releases some or waits for the GPU: an error that appears there was made
    /// elsewhere.
    pub(crate) fn only_looks(&self) -> bool {
        let looks = |frame: &TracebackFrame| {
            LOOKS.iter().any(|call| frame.function == *call || frame.source.contains(&format!("{call}(")))
        };
        self.innermost.as_ref().is_some_and(looks)
    }

    /// Whether the lines make a state dict.
    pub(crate) fn gathers_state(&self) -> bool {
        self.purpose == Some(Purpose::Gather)
    }

    /// The purpose, where the log's bar of progress for a checkpoint had not ended, or a loader failed, and no traceback tells more.
    pub(crate) fn purpose_in(&self, surroundings: &super::Surroundings) -> Option<Purpose> {
        let loads = self.innermost.is_none() && surroundings.is_loading_shards;
        self.purpose.or((loads || surroundings.loads_otherwise).then_some(Purpose::Load))
    }

    /// Whether the lines load weights.
    pub(crate) fn loads(&self) -> bool {
        self.purpose == Some(Purpose::Load)
    }

    /// Whether the lines pin memory of the host, which CUDA reports as if the GPU were full.
    pub(crate) fn pins_memory(&self) -> bool {
        let mut frames = [&self.innermost, &self.own].into_iter().flatten();
        self.copies_to_host
            || frames.any(|frame| frame.source.contains("pin_memory(") || frame.source.contains("pin_memory=True"))
    }

    /// Whether the lines set up a process on its device, before it requests anything.
    pub(crate) fn sets_up(&self) -> bool {
        let mut frames = [&self.innermost, &self.own].into_iter().flatten();
        frames.any(|frame| ["init_device", "set_device", "_lazy_init"].iter().any(|name| frame.function == *name))
    }

    /// What the innermost line allocates, by its text; `None` where that does not tell.
    pub fn allocates(&self) -> Option<&'static str> {
        [&self.innermost, &self.own].into_iter().flatten().find_map(|frame| {
            let by_name = IN_32_BITS.contains(&frame.function.as_str());
            allocates(if by_name { &frame.function } else { &frame.source })
        })
    }
}

/// Reads tracebacks line by line, of each writer its own.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceReader {
    open: FxHashMap<Vec<u8>, Trace>,
    /// The last line that a frame's text may stand in.
    until: u64,
    /// Any frame was read.
    has_seen_any: bool,
}

#[derive(Clone, Debug, Default)]
struct Trace {
    frames: Vec<TracebackFrame>,
    /// The line of the log that was last one of it.
    line: u64,
    /// The beginning of a file's name that a box breaks.
    broken: Vec<u8>,
    /// A frame's line that a terminal may have cut at its width.
    cut: Vec<u8>,
    /// An error that is not of memory ended it.
    is_of_another: bool,
    /// It has Python's own heading, so its last frame is the innermost.
    has_heading: bool,
    /// Bytes before the last frame, where the next line may be its text: those of a logger, and blanks.
    before_source: Option<usize>,
}

impl Trace {
    /// Takes a frame; of too many the outermost go.
    fn push(&mut self, frame: TracebackFrame) {
        if self.frames.len() >= MAX_FRAMES {
            self.frames.remove(0);
        }
        self.frames.push(frame);
    }
}

impl TraceReader {
    /// Whether this line may be a frame's text: of a writer who says no more the text never comes.
    pub(super) fn is_open(&self, line: u64) -> bool {
        let goes_on =
            |trace: &Trace| trace.before_source.is_some() || !trace.broken.is_empty() || !trace.cut.is_empty();
        line <= self.until && self.open.values().any(goes_on)
    }

    /// Whether the log has a traceback.
    pub(super) fn has_seen_any(&self) -> bool {
        self.has_seen_any
    }

    /// Takes a line of a writer.
    pub(super) fn read(&mut self, body: &[u8], key: &[u8], line: u64) {
        let cut = self.open.get_mut(key).map(|trace| std::mem::take(&mut trace.cut)).unwrap_or_default();
        if !cut.is_empty()
            && let Some((before, whole)) =
                frame(&[cut.as_slice(), body].concat()).filter(|(_, frame)| !frame.function.is_empty())
            && let Some(trace) = self.open.get_mut(key)
        {
            // The part before the cut may have been a frame without its function.
            let is_begun = trace.frames.last().is_some_and(|last| last.function.is_empty() && last.file == whole.file);
            if is_begun {
                trace.frames.pop();
            }
            trace.push(whole);
            (trace.before_source, trace.line) = (Some(before), line);
            self.until = line + PATIENCE_LINES;
            return;
        }
        if let Some((before, frame)) = frame(body) {
            self.has_seen_any = true;
            if self.open.len() >= MAX_OPEN && !self.open.contains_key(key) {
                self.open.clear();
            }
            let trace = self.open.entry(key.to_vec()).or_default();
            if frame.function.is_empty() && body.len() >= LEAST_WIDTH {
                trace.cut = body[..body.len().min(TEXT_BYTES)].to_vec();
            }
            trace.push(frame);
            trace.before_source = Some(before);
            trace.line = line;
            self.until = line + PATIENCE_LINES;
        } else if body.trim_ascii_start().starts_with(ANCHOR.as_bytes()) && body.len() >= LEAST_WIDTH {
            if self.open.len() < MAX_OPEN || self.open.contains_key(key) {
                self.open.entry(key.to_vec()).or_default().cut = body[..body.len().min(TEXT_BYTES)].to_vec();
                self.until = line + PATIENCE_LINES;
            }
        } else if let Some((number, text)) = marked(body) {
            if self.open.len() >= MAX_OPEN && !self.open.contains_key(key) {
                self.open.clear();
            }
            let trace = self.open.entry(key.to_vec()).or_default();
            trace.line = line;
            match trace.frames.last_mut() {
                Some(last) if last.source.is_empty() && (last.line == number || last.line == 0) => {
                    (last.line, last.source) = (number, text);
                }
                _ => trace.push(TracebackFrame { line: number, source: text, ..TracebackFrame::default() }),
            }
        } else if let Some(header) = header(body, self.open.get(key).map_or(&[], |trace| trace.broken.as_slice())) {
            if self.open.len() >= MAX_OPEN && !self.open.contains_key(key) {
                self.open.clear();
            }
            let trace = self.open.entry(key.to_vec()).or_default();
            trace.line = line;
            trace.broken.clear();
            match header {
                Header::Frame(frame) => trace.push(frame),
                Header::Broken(beginning) => {
                    trace.broken = beginning;
                    self.until = line + PATIENCE_LINES;
                }
            }
        } else if self.has_no_frame(key) && ALONE.iter().any(|words| memmem::find(body, words.as_bytes()).is_some()) {
            let text = body.trim_ascii();
            let source = text_of(&text[..text.len().min(TEXT_BYTES)]);
            let frames = vec![TracebackFrame { source, ..TracebackFrame::default() }];
            self.open.insert(key.to_vec(), Trace { frames, line, ..Trace::default() });
        } else if let Some(trace) = self.open.get_mut(key)
            && let Some(before) = trace.before_source.take()
            && let Some(source) = source(body, before)
            && let Some(last) = trace.frames.last_mut()
        {
            trace.line = line;
            last.source = text_of(&source[..source.len().min(TEXT_BYTES)]);
        } else if [HEADING, REPORT].iter().any(|heading| memmem::find(body, heading.as_bytes()).is_some()) {
            if self.open.len() < MAX_OPEN || self.open.contains_key(key) {
                let trace = self.open.entry(key.to_vec()).or_default();
                trace.has_heading |= trace.frames.is_empty();
            }
        } else if names_error(body)
            && let Some(trace) = self.open.get_mut(key)
        {
            trace.is_of_another = true;
        }
    }

    /// Whether a line of this writer may stand alone, and another process may be looked at.
    fn has_no_frame(&self, key: &[u8]) -> bool {
        self.open.len() < MAX_OPEN && self.open.get(key).is_none_or(|trace| trace.frames.is_empty())
    }

    /// The lines behind a failure that a writer prints now; its traceback is used up.
    pub(super) fn take(&mut self, key: &[u8]) -> AskedAt {
        let frames = self.open.remove(key).unwrap_or_default().frames;
        Self::asked(&frames)
    }

    /// The same for a failure that may be told further: of a traceback that ended just before.
    pub(super) fn near(&self, key: &[u8], line: u64) -> AskedAt {
        let trace = self.open.get(key).filter(|trace| trace.line + NEAR_LINES >= line);
        trace.map_or_else(AskedAt::default, |trace| Self::asked(&trace.frames))
    }

    /// The engine of a traceback that no failure has used up, where no other says that a trainer failed.
    pub(super) fn engine(&self) -> Option<&'static str> {
        let mut sides = self.open.values().filter_map(|trace| side(&trace.frames));
        match (sides.next(), sides.all(|side| matches!(side, Side::Engine(_)))) {
            (Some(Side::Engine(engine)), true) => Some(engine),
            _ => None,
        }
    }

    /// The traceback that no failure has used up, where there is one and no other error ends it: a person may put the error before it.
    pub(super) fn only(&self, from: u64) -> Option<AskedAt> {
        let fits = |trace: &&Trace| !trace.frames.is_empty() && !trace.is_of_another && trace.line >= from;
        let mut traces = self.open.values().filter(fits);
        let first = traces.next()?;
        if traces.next().is_some() {
            return None;
        }
        if first.has_heading || first.frames[0].function == "<module>" {
            return Some(Self::asked(&first.frames));
        }
        // An editor begins with the innermost.
        let frames: Vec<TracebackFrame> = first.frames.iter().rev().cloned().collect();
        Some(Self::asked(&frames))
    }

    /// The last traceback of a named writer that no failure has used up.
    pub(super) fn rest(&self) -> Option<AskedAt> {
        let named = self.open.iter().filter(|(key, trace)| !key.is_empty() && !trace.frames.is_empty());
        named.max_by_key(|(key, trace)| (trace.line, *key)).map(|(_, trace)| Self::asked(&trace.frames))
    }

    fn asked(frames: &[TracebackFrame]) -> AskedAt {
        let own = frames.iter().rev().find(|frame| frame.is_own()).cloned();
        // What only reports an error did not request anything.
        let works = |frame: &&TracebackFrame| !PASSES_ON.contains(&frame.function.as_str()) && !frame.dispatches();
        let reports =
            |frame: &TracebackFrame| frame.source.starts_with("raise ") || frame.source.contains("_check_error(");
        let mut inner = frames.iter().rev().filter(works);
        let innermost = inner.clone().find(|frame| !reports(frame)).or_else(|| inner.next()).cloned();
        let names = |frame: &TracebackFrame| {
            purpose(&frame.source).or_else(|| purpose(&frame.function)).or_else(|| purpose(&frame.file))
        };
        let grows = || frames.iter().rev().take(LAST_FRAMES).any(|frame| names(frame) == Some(Purpose::Grow));
        let purpose = match &innermost {
            Some(_) if grows() => Some(Purpose::Grow),
            Some(innermost) if optimizes(innermost) || restores_optimizer(frames) => Some(Purpose::Optimize),
            _ => {
                let mut purposes = frames.iter().rev().filter_map(names);
                let first = purposes.next();
                // Libraries that generate load their models, too.
                let first = if first == Some(Purpose::Generate) {
                    purposes.find(|purpose| *purpose == Purpose::Load).or(first)
                } else {
                    first
                };
                let moves = innermost
                    .as_ref()
                    .is_some_and(|innermost| moves_module(&innermost.source) || moves_parameters(innermost));
                let first = if moves { Some(Purpose::Load) } else { first };
                let is_forward = frames.iter().any(|frame| frame.function.contains("forward"));
                let collects = || collects(innermost.as_ref(), own.as_ref(), is_forward);
                let first = first.or_else(|| collects().then_some(Purpose::Collect));
                first.or_else(|| evaluates(frames).then_some(Purpose::Evaluate))
            }
        };
        AskedAt {
            own,
            innermost,
            side: side(frames),
            purpose,
            copies_to_host: copies_to_host(frames),
            of_client: frames.last().is_some_and(|frame| CLIENTS.iter().any(|file| frame.file.contains(file))),
            restores_to_gpu: restores_to_gpu(frames),
        }
    }
}

/// How `IPython` up to 7 names a cell.
const CELL: &[u8] = b"<ipython-input-";

/// A line before the text of a frame, in a box or a notebook.
enum Header {
    Frame(TracebackFrame),
    /// The file's name goes on in the next line.
    Broken(Vec<u8>),
}

/// `❱  462 │   │   self.buffer = pin(`, `---> 12     loss.backward()`: the line that a traceback marks.
fn marked(body: &[u8]) -> Option<(u32, String)> {
    let body = body.trim_ascii_start();
    let dashes = body.iter().take(12).take_while(|byte| **byte == b'-').count();
    let rest = match body.strip_prefix("❱".as_bytes()) {
        Some(rest) => rest,
        None => body[dashes..].strip_prefix(b">").filter(|_| dashes > 0)?,
    };
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take(7).take_while(|byte| byte.is_ascii_digit()).count();
    // The arrow is as long as the number leaves room for.
    if dashes == 1 && digits < 4 {
        return None;
    }
    let line = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let text = text_of(&rest[digits..rest.len().min(TEXT_BYTES)]);
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '│');
    Some((line, text.to_owned()))
}

/// `/opt/deepspeed/engine.py:462 in __init__`, `File ~/train.py:12, in main(args)`.
fn header(body: &[u8], broken: &[u8]) -> Option<Header> {
    let text = body.trim_ascii();
    let text = text.strip_suffix("│".as_bytes()).unwrap_or(text).trim_ascii();
    let text = text.strip_prefix(b"File ").unwrap_or(text);
    let text = unlinked(text);
    let text = &*text;
    let is_path = !broken.is_empty()
        || (matches!(text, [b'/' | b'~', ..] | [b'A'..=b'Z', b':', b'\\', ..]) || text.starts_with(CELL))
            && text.len() <= TEXT_BYTES;
    if !is_path {
        return None;
    }
    let gap: &[u8] = if broken.ends_with(b" in") { b" " } else { b"" };
    let whole = [broken, gap, text].concat();
    let whole = &whole[..whole.len().min(2 * TEXT_BYTES)];
    let Some(at) = memmem::find(whole, b" in ") else {
        let is_of_box = broken.is_empty() && body.trim_ascii_end().ends_with("│".as_bytes());
        return is_of_box.then(|| Header::Broken(whole.to_vec()));
    };
    let place = whole[..at].strip_suffix(b",").unwrap_or(&whole[..at]);
    let colon = memchr::memrchr(b':', place).filter(|&colon| place[colon + 1..].iter().all(u8::is_ascii_digit));
    let (file, line) = match colon {
        Some(colon) => (&place[..colon], std::str::from_utf8(&place[colon + 1..]).ok()?.parse().ok()?),
        None => (place, 0),
    };
    let function = &whole[at + 4..];
    let function = &function[..function.iter().position(|byte| *byte == b'(').unwrap_or(function.len())];
    let is_file = file.ends_with(b".py") || file.ends_with(b".pyx") || file.starts_with(CELL);
    is_file.then(|| {
        Header::Frame(TracebackFrame {
            file: text_of(file),
            line,
            function: text_of(function.trim_ascii()),
            source: String::new(),
        })
    })
}

/// A header whose file is a link, as it is copied from Colab: `[/usr/lib/x.py](https://localhost:8080/#) in f(x)`.
fn unlinked(text: &[u8]) -> Cow<'_, [u8]> {
    let link = text.strip_prefix(b"[").and_then(|text| {
        let end = memmem::find(text, b"](http")?;
        let close = end + memchr::memchr(b')', &text[end..])?;
        Some([&text[..end], &text[close + 1..]].concat())
    });
    link.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Whether a line is the end of a traceback: `KeyError: 'weight'`.
fn names_error(body: &[u8]) -> bool {
    let name = body.iter().take(80).take_while(|byte| byte.is_ascii_alphanumeric() || b"._".contains(byte)).count();
    let rest = body.get(name).copied();
    (body[..name].ends_with(b"Error") || body[..name].ends_with(b"Exception")) && matches!(rest, None | Some(b':'))
}

/// The text of a frame's line: it stands deeper than the frame, unlike the error that follows a frame without text.
fn source(body: &[u8], before: usize) -> Option<&[u8]> {
    let rest = body.get(before..)?;
    let is_deeper = rest.first().is_some_and(u8::is_ascii_whitespace);
    let is_error =
        before == 0 && (memmem::find(rest, b"Error:").is_some() || memmem::find(rest, b"Exception:").is_some());
    (is_deeper || before == 0 && !is_error).then(|| rest.trim_ascii())
}

/// `File "train.py", line 61, in main`, and how many bytes stand before it.
fn frame(body: &[u8]) -> Option<(usize, TracebackFrame)> {
    let before = memmem::find(body, ANCHOR.as_bytes())?;
    let rest = &body[before + ANCHOR.len()..];
    let end = memchr::memchr(b'"', rest)?;
    let (file, rest) = rest.split_at(end);
    let rest = rest.strip_prefix(b"\", line ")?;
    let digits = rest.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
    let line = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let function = rest[digits..].strip_prefix(b", in ").unwrap_or_default().trim_ascii();
    let short = |text: &[u8]| text_of(&text[..text.len().min(TEXT_BYTES)]);
    Some((before, TracebackFrame { file: short(file), line, function: short(function), source: String::new() }))
}

#[cfg(test)]
mod tests {
    use crate::{LogReader, Side};

    #[test]
    fn the_lines_that_asked_are_found_among_those_of_another_rank() {
        let mut log = LogReader::new();
        log.push(
            b"[rank0]: Traceback (most recent call last):\n\
              [rank0]:   File \"/home/u/train.py\", line 61, in main\n\
              [rank1]:   File \"/home/u/other.py\", line 9, in main\n\
              [rank0]:     loss = model(batch).loss\n\
              [rank0]:   File \"/usr/lib/python3/site-packages/transformers/x.py\", line 7, in forward\n\
              [rank1]:     other()\n\
              [rank0]:     logits = logits.float()\n\
              [rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB\n",
        );
        let asked = log.finish().groups[0].asked.clone();
        let own = asked.own.as_ref().unwrap();
        assert_eq!(
            (own.file.as_str(), own.line, own.source.as_str()),
            ("/home/u/train.py", 61, "loss = model(batch).loss")
        );
        assert_eq!(asked.innermost.as_ref().unwrap().source, "logits = logits.float()");
        assert!(asked.allocates().unwrap().starts_with("a float32 copy of the logits"));
    }

    #[test]
    fn boxes_and_notebooks_have_tracebacks_of_their_own() {
        let mut log = LogReader::new();
        log.push(
            "╭──────────── Traceback (most recent call last) ────────────╮\n\
             │ /home/u/train.py:12 in main                               │\n\
             │ ❱ 12 │   engine = deepspeed.initialize(model)             │\n\
             │ /opt/conda/lib/python3.8/site-packages/deepspeed/stage_1_ │\n\
             │ and_2.py:462 in __init__                                  │\n\
             │   461 │   │   │   print(x)                                │\n\
             │ ❱ 462 │   │   │   self.b = get_accelerator().pin_memory(  │\n\
             ╰───────────────────────────────────────────────────────────╯\n\
             RuntimeError: CUDA error: out of memory\n"
                .as_bytes(),
        );
        let found = log.finish();
        let asked = &found.groups[0].asked;
        assert!(asked.pins_memory());
        let innermost = asked.innermost.as_ref().unwrap();
        assert!(innermost.file.ends_with("stage_1_and_2.py"), "{}", innermost.file);
        assert_eq!(asked.own.as_ref().map(|own| (own.file.as_str(), own.line)), Some(("/home/u/train.py", 12)));

        let mut log = LogReader::new();
        log.push(
            b"File ~/miniconda3/lib/python3.11/site-packages/transformers/modeling.py:229, in Model.forward(self, x)\n\
              File ~/work/run.py:9, in main(args)\n\
              ----> 9     probs = torch.softmax(scores, -1)\n\
              RuntimeError: CUDA error: out of memory\n",
        );
        let asked = log.finish().groups[0].asked.clone();
        assert_eq!(asked.own.unwrap().source, "probs = torch.softmax(scores, -1)");
    }

    #[test]
    fn an_error_behind_a_frame_without_text_is_not_its_text() {
        let mut log = LogReader::new();
        log.push(b"  File \"<stdin>\", line 1, in <module>\nCUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB\n");
        assert_eq!(log.finish().groups[0].asked.innermost.as_ref().unwrap().source, "");
        let mut log = LogReader::new();
        log.push(
            b"ERROR 06-09 [core.py:7]   File \"/x/site-packages/vllm/a.py\", line 1, in run\n\
              ERROR 06-09 [core.py:7]     x = torch.cat(parts)\n\
              ERROR 06-09 [core.py:7] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of\n",
        );
        let asked = log.finish().groups[0].asked.clone();
        assert_eq!(asked.innermost.unwrap().source, "x = torch.cat(parts)");
        assert_eq!(asked.side, Some(Side::Engine("vllm")));
    }
}
