//! What a log says beside its failures: a notebook, releases, settings, the table of nvidia-smi.

use memchr::memmem;

use super::table::Seen;
use super::{Compiled, Found, Mention, NOTEBOOK, Process, Surroundings, TableGpu, leading_number};
use crate::known::{Value, find};
use crate::message::Read;
use crate::{options, program};

/// Of a line of XLA's compiler so much is read.
const LINE_BYTES: usize = 1024;

/// How a GPU's bus begins in nvidia-smi's table.
const BUS: &str = "| 0000";
/// GPUs of nvidia-smi's table that are kept.
const MAX_GPUS: usize = 64;
/// Processes of nvidia-smi's table that are kept.
const MAX_PROCESSES: usize = 256;

/// Bytes that a line must hold to be looked at here, beside those of notebooks.
const AROUND: [&str; 53] = [
    super::refusal::ANCHOR,
    OF_ALL,
    COMPILES[0],
    COMPILES[1],
    "expandable_segments not supported",
    EXCLUSIVE[0],
    EXCLUSIVE[1],
    EXCLUSIVE[2],
    EXCLUSIVE[3],
    SLICES,
    VIRTUAL,
    super::trace::ANCHOR,
    "expandable_segments:True",
    "-- Process ",
    "rank  ",
    "MiB |",
    BUS,
    "cumem_allocator",
    "enable_sleep_mode",
    "Sleep mode freed",
    "memory_saver",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "ollama",
    "source=server.go",
    "source=sched.go",
    "source=ggml.go",
    REMATERIALIZATION,
    CAPTURES[0],
    CAPTURES[1],
    CAPTURED[0],
    CAPTURED[1],
    FAULTS[0],
    FAULTS[1],
    FAULTS[2],
    SHARDS,
    SHARED,
    OFFLOADS[0],
    OFFLOADS[1],
    OFFLOADS[2],
    OFFLOADS[3],
    OFFLOADS[4],
    NO_LIMIT[0],
    NO_LIMIT[1],
    NO_LIMIT[2],
    STARTED[0],
    STARTED[1],
    STARTED[2],
    STARTED[3],
    VRAM,
    PAUSE,
    CALLS[0],
    CALLS[1],
    CALLS[2],
];

/// A GPU for one process, in the tables of nvidia-smi and its queries.
const EXCLUSIVE: [&str; 4] = ["E. Process", "E. Thread", "Exclusive_Process", "EXCLUSIVE_PROCESS"];
/// How programs say that they compile kernels for `OpenCL`.
const COMPILES: [&str; 2] = ["Compiling OpenCL", "clBuildProgram"];
/// Between the memory in use and all of it, in nvidia-smi's tables.
const OF_ALL: &str = "MiB / ";
/// How nvidia-smi's table of the slices of GPUs begins.
const SLICES: &str = "MIG devices:";
/// How `DeepSpeed` tells the host's memory.
const VIRTUAL: &str = "CPU Virtual Memory:  used = ";

/// How the kernel's driver of AMD's GPUs gives their memory, in MiB, when it starts.
const VRAM: &str = "M of VRAM memory ready";
/// Calls of `CTranslate2` that compute.
const CALLS: [&str; 3] = ["forward_batch(", "translate_batch(", "generate_batch("];
/// How a batch file of Windows ends.
const PAUSE: &str = "Press any key to continue";

/// How a GPU, or a kernel on it, says that its context is of no more use.
const FAULTS: [&str; 3] = ["illegal memory access", "device-side assert triggered", ": block: ["];

/// vLLM's trial at the start: its processes name the method, its tracebacks the function.
const PROFILES: [&str; 4] =
    ["determine_num_available_blocks", "determine_available_memory", "in profile_run", "Starting profile run"];
/// That it is with the largest images or videos.
const MULTIMODAL: [&str; 2] = ["for multi-modal models", "multi-modal embeddings"];

/// And of how many tokens.
const WORST_CASE: &[u8] = b"in the worst case (";

/// How vLLM and `SGLang` say that they capture CUDA graphs.
const CAPTURES: [&str; 2] = ["Capturing ", "capture_model"];
/// And that they have.
const CAPTURED: [&str; 2] = ["raph capturing finished", "apture cuda graph end"];

/// How XLA's compiler says that a program does not fit.
const REMATERIALIZATION: &str = "by rematerialization";
/// The same with its numbers: its budget, and the least that it got the program down to.
const REDUCED: &str = "reduce memory use below {limit:b}{*}only reduced to {needed:b}";

/// How Docker says that a container did not reach its limit.
const NO_LIMIT: [&str; 3] = ["OOMKilled\": false", "OOMKilled=false", "OOMKilled: false"];
/// How llama.cpp and programs around it say that a model is loaded and serves.
const STARTED: [&str; 4] =
    ["Load Text Model OK: True", "server is listening on", "all slots are idle", "llama runner started in"];
/// How transformers names its bar of progress.
const SHARDS: &str = "Loading checkpoint shards";
/// Where a line of `df` ends that is of shared memory.
const SHARED: &str = "% /dev/shm";
/// What trainers say that keep the optimizer's state or parameters in the host's memory.
const OFFLOADS: [&str; 5] = ["CPU Virtual Memory", "cpu_adam", "offload_optimizer", "offload_param", "offload_config"];

/// The setting that a sentence may call set already.
const ALREADY: &str = "expandable_segments";

/// What only `TensorFlow` prints; JAX has its files below folders of its own.
const OF_TENSORFLOW: [&str; 9] = [
    "tensorflow/core/",
    "tensorflow/python/",
    "tensorflow.python",
    "tensorflow\\python",
    "tensorflow/tsl/",
    "tensorflow/compiler/",
    "external/local_",
    "[Op:__inference",
    "{{node ",
];
/// What only JAX prints.
const OF_JAX: [&str; 8] =
    ["jaxlib", "jax.errors", "/jax/", "\\jax\\", "import jax", "XLA_PYTHON_CLIENT", "org_tensorflow", "external/xla/"];

/// How a library says that it has no code for the GPU.
const WITHOUT_GPU: [&str; 2] = ["was compiled without GPU support", "not compiled with CUDA enabled"];
/// Diffusers' offload of whole parts.
const OFFLOADS_PARTS: &str = "enable_model_cpu_offload";
/// How a script moves a model to the GPU.
const TO_GPU: [&str; 4] = [".to(\"cuda", ".to('cuda", ".to(device", ".cuda()"];
/// How vLLM-Omni begins the lines of a stage.
const STAGE: &str = "[Stage-";
/// Where an engine's server wakes up.
const WAKES: &str = "/wake_up";
/// How `ComfyUI` tells that a part of a model waits in the host's memory.
const WAITS: &str = " MB offloaded";
/// And that it pins such memory, or releases files that were mapped for it.
const PINS: [&str; 2] = ["pinned memory", "release mmap"];
/// What a script makes pipelines of.
const MAKES: &[u8] = b"from_pretrained(";
/// So many lines the call that makes a pipeline may have.
const CALL_LINES: u64 = 24;
/// How programs say that they begin to load a model.
const LOADING: [&str; 5] =
    ["oading the model", "oading model", "oading checkpoint", "oading weights", ".from_pretrained("];
/// How programs say that they begin to save a checkpoint.
const SAVING: [&str; 8] = [
    "Saving current state to",
    "is about to be saved",
    "aving model checkpoint to",
    "Saving DeepSpeed Model",
    "Saving FSDP model",
    "aving checkpoint",
    "saving checkpoint",
    "aving model to ",
];
/// And that they have.
const SAVED: [&str; 4] = ["heckpoint saved", "saved checkpoint", "is ready now!", "Model weights saved in"];
/// How XLA lists a buffer, and the types with their bytes.
const BUFFERS: [&str; 6] = ["Shape: f32[", "Shape: bf16[", "Shape: f16[", "Shape: s32[", "Shape: u8[", "Shape: f64["];
const BUFFER_BYTES: [u64; 6] = [4, 2, 2, 4, 1, 8];
/// The name of a slice of a GPU: `MIG 2g.20gb`.
const SLICE: &str = "MIG ";
/// How Unsloth and PEFT tell what they train.
const TRAINED: [&str; 2] = ["rainable parameters = ", "rainable params: "];

/// What stands before the release of PyTorch.
const TORCH: [&str; 4] = ["PyTorch version: ", "pytorch version: ", "torch==", "torch-2."];

/// Words for the part of an image program that turns latents into pixels, outside of tracebacks.
const DECODES: [&str; 7] =
    ["VAEDecode", "VAE decode", "VAE Decode", "Vae Decode", "VAE decoding", "VideoDecode", "vae.decode("];
/// And for the part before it.
const SAMPLES: [&str; 2] = ["KSampler", "Node Type:** Sampler"];

/// Words of a line that may speak of memory that ran out, in a text that is not known.
pub(super) const NEAR: [&str; 8] = [
    "OutOfMemoryError",
    "MemoryError",
    "bad_alloc",
    "annot allocate memory",
    "Tried to allocate",
    "ailed to allocate",
    "nsufficient memory",
    "ut of memory",
];

/// Words of a line that speaks of memory without a failure.
pub(super) const TALK: [&str; 11] = [
    "reduce memory use below",
    "emory is at",
    "VRAM",
    "GPU memory",
    "GPU Memory",
    "emory usage",
    "fills up",
    "emory grows",
    "emory leak",
    "emory keeps",
    "emory is full",
];

/// A shell's word for an end by signal 9.
const KILLED: &str = "Killed";

/// All bytes that a line must hold to be looked at here, and in what reads dimensions and tables.
pub(super) fn around() -> impl Iterator<Item = &'static str> {
    let tables = super::summary::ANCHORS.iter().chain(&super::dimensions::ANCHORS);
    let words = AROUND
        .iter()
        .chain(&PROFILES)
        .chain(&MULTIMODAL)
        .chain(&TORCH)
        .chain(&OF_TENSORFLOW)
        .chain(&WITHOUT_GPU)
        .chain(&LOADING)
        .chain(&SAVING)
        .chain(&SAVED)
        .chain(&TRAINED)
        .chain(&BUFFERS)
        .chain(&TO_GPU)
        .chain(&PINS)
        .chain([&OFFLOADS_PARTS, &WAITS, &STAGE, &WAKES, &SLICE, &ALREADY])
        .chain(&OF_JAX)
        .chain(&DECODES)
        .chain(&SAMPLES)
        .chain(&NEAR)
        .chain(&TALK)
        .chain(&super::trace::OTHER_ANCHORS)
        .chain([&KILLED])
        .chain(&NOTEBOOK)
        .chain(tables)
        .copied();
    words.chain(program::words()).chain(options::words())
}

impl Found {
    /// Notes what a line says beside messages.
    pub(super) fn look_around(&mut self, line: &[u8], words: &Seen, is_amid: bool) {
        // Words that stand with others in lines that are looked at.
        let has = |needle: &[u8]| memmem::find(line, needle).is_some();
        let seen: &mut Surroundings = &mut self.surroundings;
        seen.is_notebook |= words.has_any(&NOTEBOOK);
        if !seen.has_expandable_segments && !is_amid && words.has("expandable_segments:True") {
            // Not where PyTorch or an engine advises it.
            let advice: [&[u8]; 4] = [b"try setting", b"by PyTorch", b"avoid fragmentation", b"ompatible"];
            // Nor where a shell sets it that ends at once.
            let is_lost = has(b"!export") || has(b"! export") || has(b"os.system(");
            seen.has_expandable_segments = !is_lost && !advice.iter().any(|words| has(words));
            seen.names_new_variable = seen.has_expandable_segments && has(b"PYTORCH_ALLOC_CONF");
        }
        seen.lacks_gpu_build |= words.has_any(&WITHOUT_GPU);
        seen.is_exclusive |= words.has_any(&EXCLUSIVE);
        seen.compiles_opencl |= words.has_any(&COMPILES);
        seen.lists_slices |= words.has(SLICES);
        if words.has(VIRTUAL) {
            self.host_use = host_use(line).or(self.host_use);
        }
        seen.offloads_parts |= words.has(OFFLOADS_PARTS);
        if words.has_any(&LOADING) {
            seen.loading_line = self.lines + 1;
        }
        seen.pins_weights |= words.has_any(&PINS);
        if words.has(STAGE)
            && let Some(at) = memmem::find(line, STAGE.as_bytes())
            && let Some(stage) = leading_number(&line[at + STAGE.len()..]).filter(|&stage| stage < u16::BITS)
        {
            seen.stages |= 1 << stage;
        }
        seen.wakes_server |= words.has(WAKES);
        seen.keeps_weights_on_host |= words.has(WAITS) && !has(b" 0.00 MB offloaded");
        if words.has_any(&TO_GPU) {
            let is_near = seen.loading_line > 0 && self.lines + 1 - seen.loading_line < CALL_LINES;
            seen.moves_whole |= moves_pipeline(line, is_near);
        }
        if words.has_any(&SAVING) {
            self.saving_line = self.lines + 1;
        } else if words.has_any(&SAVED) {
            self.saving_line = 0;
        }
        if words.has_any(&BUFFERS)
            && let Some(bytes) = buffer(line)
        {
            let (count, largest) = seen.largest_buffer.unwrap_or_default();
            seen.largest_buffer = Some((count.saturating_add(1), largest.max(bytes)));
        }
        if words.has(SLICE) {
            seen.slice_gb = seen.slice_gb.or_else(|| slice(line));
        }
        if words.has_any(&TRAINED) {
            seen.trained = seen.trained.or_else(|| trained(line));
        }
        seen.has_expandable_segments |= words.has(ALREADY) && is_already_on(line);
        seen.names_tensorflow |= words.has_any(&OF_TENSORFLOW);
        seen.names_jax |= words.has_any(&OF_JAX);
        seen.decodes |= words.has_any(&DECODES);
        seen.samples |= words.has_any(&SAMPLES);
        seen.is_windows |= words.has(super::trace::ANCHOR) && is_path_of_windows(line);
        seen.is_windows |= words.has(PAUSE);
        seen.is_posix |= words.has(super::trace::ANCHOR) && !is_path_of_windows(line) && has(b"\"/");
        seen.calls_ctranslate2 |= words.has_any(&CALLS);
        if words.has(VRAM)
            && let Some(at) = memmem::find(line, VRAM.as_bytes())
        {
            let digits = line[..at].iter().rev().take(9).take_while(|byte| byte.is_ascii_digit()).count();
            // The largest, where the log is of several GPUs.
            seen.vram_bytes =
                seen.vram_bytes.max(number(&line[at - digits..at]).map(|mebibytes| u64::from(mebibytes) << 20));
        }
        seen.lacks_expandable_segments |= words.has("expandable_segments not supported") || seen.is_windows;
        let program_of_line = options::named(|word| words.has(word));
        // The earliest row of all lines.
        seen.named = match (seen.named, program_of_line) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        seen.is_within_limit |= words.has_any(&NO_LIMIT);
        seen.has_started |= words.has_any(&STARTED);
        seen.offloads_to_host |= words.has_any(&OFFLOADS);
        if words.has(SHARDS) {
            seen.is_loading_shards = !has(b"100%");
            seen.loads_shards = true;
        }
        seen.shows_free_shared_memory |= words.has(SHARED) && !has(b" 100% /dev/shm");
        seen.is_ollama |= words.has_any(&["ollama", "source=server.go", "source=sched.go", "source=ggml.go"]);
        if words.has_any(&CAPTURED) {
            seen.captures_graphs = false;
        } else {
            seen.captures_graphs |= words.has_any(&CAPTURES);
        }
        seen.profiles |= words.has_any(&PROFILES);
        seen.has_multimodal_items |= words.has_any(&MULTIMODAL);
        if words.has(MULTIMODAL[1])
            && let Some(at) = memmem::find(line, WORST_CASE)
        {
            seen.multimodal_tokens = seen.multimodal_tokens.or_else(|| leading_number(&line[at + WORST_CASE.len()..]));
        }
        if words.has(REMATERIALIZATION) {
            seen.compiled = seen.compiled.max(compiled(line));
        }
        seen.has_faulted |= words.has_any(&FAULTS) && (!words.has(FAULTS[2]) || has(b"Assertion `"));
        let program = program::PROGRAMS.iter().position(|(_, names)| words.has_any(names));
        let program = program.and_then(|at| program::PROGRAMS.get(at)).map(|(program, _)| *program);
        seen.program = seen.program.or(program);
        seen.is_without_preallocation |=
            words.has("XLA_PYTHON_CLIENT_PREALLOCATE") && (has(b"false") || has(b"False") || has(b"=0"));
        seen.has_memory_pools |= words.has_any(&["cumem_allocator", "Sleep mode freed"])
            || words.has("enable_sleep_mode") && (has(b"enable_sleep_mode=True") || has(b"'enable_sleep_mode': True"));
        if seen.torch.is_none() && words.has_any(&TORCH) {
            let names: [&[u8]; 4] = [b"PyTorch version: ", b"pytorch version: ", b"torch==", b"torch-"];
            let after = names.iter().find_map(|name| memmem::find(line, name).map(|at| &line[at + name.len()..]));
            seen.torch = after.and_then(release);
        }
        if self.mention.is_none() && (words.has_any(&NEAR) || words.has(KILLED)) {
            self.note_mention(self.lines + 1, line);
        }
        if self.talk.is_none() && words.has_any(&TALK) {
            self.talk = Some(Mention::of(self.lines + 1, line));
        }
        if words.has_any(&super::dimensions::ANCHORS) {
            self.dimensions.read(line);
        }
        if words.has(BUS) {
            let mut words =
                line.split(|byte| byte.is_ascii_whitespace() || *byte == b'|').filter(|word| !word.is_empty());
            self.surroundings.index_of_table = words.next().and_then(number);
        }
        if words.has("MiB |") || words.has(OF_ALL) {
            self.processes_of_nvidia_smi(line);
            if let Some((used_bytes, total_bytes)) = memory_of_nvidia_smi(line)
                && self.surroundings.lists_slices
            {
                self.slice_bytes = self.slice_bytes.or(Some(total_bytes).filter(|_| used_bytes > 0));
                // The line below has the memory that is mapped for the host (BAR1), without the GPU's index.
                let mut words =
                    line.split(|byte| byte.is_ascii_whitespace() || *byte == b'|').filter(|word| !word.is_empty());
                if words.next().and_then(number).is_some() && self.slices.len() < MAX_GPUS {
                    self.slices.push((used_bytes, total_bytes));
                }
            } else if let Some((used_bytes, total_bytes)) = memory_of_nvidia_smi(line) {
                // Its index stands in the line above.
                let index = self.surroundings.index_of_table.take();
                let index = index.or_else(|| u32::try_from(self.gpus.len()).ok()).unwrap_or_default();
                let gpu = TableGpu { index, used_bytes, total_bytes };
                if let Some(known) = self.gpus.iter_mut().find(|known| known.index == index) {
                    // A later table of the same GPUs.
                    *known = gpu;
                } else if self.gpus.len() < MAX_GPUS {
                    self.gpus.push(gpu);
                }
            }
        }
    }

    /// `|    0   N/A  N/A      1234      C   python     12345MiB |`
    fn processes_of_nvidia_smi(&mut self, line: &[u8]) {
        let mut words = line.split(|byte| byte.is_ascii_whitespace() || *byte == b'|').filter(|word| !word.is_empty());
        let Some(_gpu) = words.next().and_then(number) else { return };
        let rest: Vec<&[u8]> = words.collect();
        let kind = rest.iter().position(|word| matches!(*word, b"C" | b"G" | b"C+G"));
        let pid = kind.and_then(|kind| number(rest.get(kind.checked_sub(1)?)?));
        let mib = rest.last().and_then(|word| number(word.strip_suffix(b"MiB")?));
        if let (Some(pid), Some(mib)) = (pid, mib)
            && self.processes.len() < MAX_PROCESSES
            && self.processes.iter().all(|process| process.pid != pid)
        {
            self.processes.push(Process { pid, bytes: u64::from(mib) << 20 });
        }
    }
}

/// Whether a line of a script moves a pipeline to the GPU: `pipe.to("cuda")`, `pipe = FluxPipeline.from_pretrained(name).to("cuda")`, or
/// the end of such a call where it has several lines.
fn moves_pipeline(line: &[u8], is_near: bool) -> bool {
    let line = &line[..line.len().min(LINE_BYTES)];
    let text = line.trim_ascii_start();
    let Some(at) = TO_GPU.iter().find_map(|call| memmem::find(text, call.as_bytes())) else { return false };
    let before = text[..at].to_ascii_lowercase();
    let begin = before.iter().rposition(|byte| !byte.is_ascii_alphanumeric() && !b"_.".contains(byte));
    let name = &before[begin.map_or(0, |begin| begin + 1)..];
    let is_of_pipeline = |words: &[u8]| memmem::find(words, b"pipe").is_some();
    !text.starts_with(b"#")
        && (is_of_pipeline(name)
            || memmem::find(&before, MAKES).is_some_and(|call| is_of_pipeline(&before[..call]))
            || is_near && before == b")")
}

/// `| 30%   45C    P8   20W / 350W |   23456MiB / 24576MiB |      0%      Default |`, in bytes.
fn memory_of_nvidia_smi(line: &[u8]) -> Option<(u64, u64)> {
    let part = line.split(|byte| *byte == b'|').find(|part| memmem::find(part, OF_ALL.as_bytes()).is_some())?;
    let mut numbers = part
        .split(|byte| byte.is_ascii_whitespace() || *byte == b'/')
        .filter_map(|word| number(word.strip_suffix(b"MiB")?))
        .map(|mebibytes| u64::from(mebibytes) << 20);
    let (used, total) = (numbers.next()?, numbers.next()?);
    (used <= total).then_some((used, total))
}

/// The bytes and tenths of a per cent of `CPU Virtual Memory:  used = 231.48 GB, percent = 91.9%`.
fn host_use(line: &[u8]) -> Option<(u64, u64)> {
    let text = &line[memmem::find(line, VIRTUAL.as_bytes())?..];
    let dense: Vec<u8> = text.iter().take(LINE_BYTES).copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let Read::Found((values, ..), _) = find("CPU Virtual Memory: used = {used:b}, percent = {percent:f}%", &dense)
    else {
        return None;
    };
    match values[..] {
        [(_, Value::Bytes(bytes)), (_, Value::Decimal(percent))] => {
            Some((u64::try_from(bytes).ok()?, percent.millionths / 100_000))
        }
        _ => None,
    }
}

/// What XLA's compiler says that a program needs, and what there is for it.
fn compiled(line: &[u8]) -> Option<Compiled> {
    let dense: Vec<u8> = line.iter().take(LINE_BYTES).copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let Read::Found((values, ..), _) = find(REDUCED, &dense) else { return None };
    let bytes = |wanted: &str| {
        values.iter().find_map(|(name, value)| match value {
            Value::Bytes(bytes) if *name == wanted => u64::try_from(*bytes).ok(),
            _ => None,
        })
    };
    let (needed_bytes, available_bytes) = (bytes("needed")?, bytes("limit")?);
    (needed_bytes > available_bytes).then_some(Compiled { needed_bytes, available_bytes })
}

/// The bytes of `Shape: f32[1,64,1080,1920]`.
fn buffer(line: &[u8]) -> Option<u64> {
    let mut shapes = BUFFERS.iter().zip(BUFFER_BYTES);
    let (at, bytes) =
        shapes.find_map(|(words, bytes)| Some((memmem::find(line, words.as_bytes())? + words.len(), bytes)))?;
    let sides = &line[at..at + memchr::memchr(b']', &line[at..])?];
    let sides =
        sides.split(|byte| *byte == b',').map(|side| std::str::from_utf8(side).ok()?.trim().parse::<u64>().ok());
    sides.chain([Some(bytes)]).try_fold(1_u64, |product, side| product.checked_mul(side?))
}

/// `20` of `MIG 2g.20gb`.
fn slice(line: &[u8]) -> Option<u32> {
    let name = &line[memmem::find(line, SLICE.as_bytes())? + SLICE.len()..];
    let digits = name.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
    let gigabytes = name[digits..].strip_prefix(b"g.")?;
    let length = gigabytes.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0 && gigabytes[length..].starts_with(b"gb")).then(|| leading_number(gigabytes)).flatten()
}

/// `Trainable parameters = 1,361,753,856 of 5,661,833,328`, `trainable params: 4,194,304 || all params: 6,742,609,920`.
fn trained(line: &[u8]) -> Option<(u64, u64)> {
    let at = TRAINED.iter().find_map(|words| Some(memmem::find(line, words.as_bytes())? + words.len()))?;
    let numbers = line[at..].split(|byte| !byte.is_ascii_digit() && *byte != b',').filter_map(|word| {
        let digits: Vec<u8> = word.iter().copied().filter(u8::is_ascii_digit).collect();
        std::str::from_utf8(&digits).ok()?.parse::<u64>().ok()
    });
    let mut numbers = numbers.filter(|&number| number > 0);
    let (some, all) = (numbers.next()?, numbers.next()?);
    (some <= all).then_some((some, all))
}

/// Whether a sentence says that expandable segments are on already: `expandable_segments was already True`.
fn is_already_on(line: &[u8]) -> bool {
    let line = line.to_ascii_lowercase();
    let Some(at) = memmem::find(&line, ALREADY.as_bytes()) else { return false };
    let after = &line[at + ALREADY.len()..];
    let has = |words: &[u8]| memmem::find(&after[..after.len().min(40)], words).is_some();
    has(b"already") && (has(b"true") || has(b"on") || has(b"set") || has(b"enabled"))
}

/// `File "C:\x.py"`: PyTorch has no expandable segments on Windows.
fn is_path_of_windows(line: &[u8]) -> bool {
    let path = memmem::find(line, super::trace::ANCHOR.as_bytes()).map(|at| &line[at + super::trace::ANCHOR.len()..]);
    matches!(path, Some([b'A'..=b'Z' | b'a'..=b'z', b':', b'\\', ..]))
}

fn number(word: &[u8]) -> Option<u32> {
    leading_number(word).filter(|_| word.iter().all(u8::is_ascii_digit))
}

/// `2.9` of `2.9.1+cu128`.
fn release(text: &[u8]) -> Option<(u16, u16)> {
    let major = leading_number(text)?;
    let dot = text.iter().position(|byte| *byte == b'.').filter(|&dot| dot <= 2)?;
    let minor = leading_number(&text[dot + 1..])?;
    Some((u16::try_from(major).ok().filter(|major| (1..=9).contains(major))?, u16::try_from(minor).ok()?))
}

#[cfg(test)]
mod tests {
    use crate::LogReader;

    #[test]
    fn a_later_table_of_the_same_gpu_counts() {
        let mut log = LogReader::new();
        let table = |gpu: u32, used: u32| {
            format!(
                "|   {gpu}  NVIDIA RTX A5000               Off | 00000000:3B:00.0 Off |                  N/A |\n\
                 |  30%   45C    P8   20W / 350W |   {used}MiB / 24576MiB |      0%      Default |\n"
            )
        };
        log.push(format!("{}{}{}", table(3, 2_345), table(1, 100), table(3, 23_456)).as_bytes());
        let gpus = log.finish().gpus;
        assert_eq!(
            gpus.iter().map(|gpu| (gpu.index, gpu.used_bytes)).collect::<Vec<_>>(),
            [(3, 23_456 << 20), (1, 100 << 20)]
        );
    }

    #[test]
    fn releases_settings_and_processes_are_noticed() {
        let mut log = LogReader::new();
        log.push(
            b"PyTorch version: 2.9.1+cu128\n|    0   N/A  N/A            4711      C   python3      20480MiB |\n\
              |  30%   45C    P8   20W / 350W |   23456MiB / 24576MiB |      0%      Default |\n\
              worker: Sleep mode freed 10.00 GiB memory, 1.00 GiB memory is still in use.\n",
        );
        let found = log.finish();
        assert_eq!(found.surroundings.torch, Some((2, 9)));
        assert_eq!(
            found.processes.iter().map(|process| (process.pid, process.bytes)).collect::<Vec<_>>(),
            [(4711, 20 << 30)]
        );
        assert_eq!(
            found.gpus.iter().map(|gpu| (gpu.used_bytes, gpu.total_bytes)).collect::<Vec<_>>(),
            [(23_456 << 20, 24 << 30)]
        );
        assert!(found.surroundings.has_memory_pools);
        assert_eq!(found.engine.unwrap().printed().sleep_in_use_bytes, [1 << 30]);
    }
}
