//! What was found in a log.

use super::command::Command;
use super::dimensions::Dimensions;
use super::event::Event;
use super::growth::{Growth, Settled};
use super::prose::FrontEnd;
use super::purpose::Purpose;
use super::refusal::Refusal;
use super::summary::MemorySummary;
use super::trace::AskedAt;
use crate::engine::EngineLog;
use crate::known::Decimal;
use crate::message::{Message, Process};
use crate::options::Named;
use crate::program::Program;
use crate::steps::Step;

/// Messages that say the same, of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they say.
    pub message: Message,
    /// Their number.
    pub count: u64,
    /// The line of the first, from 1 on.
    pub line: u64,
    /// The lines that asked for the memory, by the traceback before the first.
    pub asked: AskedAt,
}

/// A program that XLA compiled, and that does not fit; sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Compiled {
    /// What it needs even with rematerialisation.
    pub needed_bytes: u64,
    /// What the compiler was told to stay below.
    pub available_bytes: u64,
}

/// What a log says of itself, beside its messages.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The index of a GPU whose memory nvidia-smi's table has in the next line.
    pub index_of_table: Option<u32>,
    /// Somebody writes that the weights were still being loaded.
    pub fails_while_loading: bool,
    /// It has frames of a notebook.
    pub is_notebook: bool,
    /// It says, outside of PyTorch's advice, that expandable segments are on.
    pub has_expandable_segments: bool,
    /// It is of a platform where PyTorch has no expandable segments: Windows, or it says so.
    pub lacks_expandable_segments: bool,
    /// The engine that serves a model, by its lines: `vllm`, `sglang`, `llama.cpp`.
    pub engine: Option<&'static str>,
    /// It has sleep mode or another allocator of pools, which excludes expandable segments.
    pub has_memory_pools: bool,
    /// The release of PyTorch that it names.
    pub torch: Option<(u16, u16)>,
    /// It sets `PYTORCH_ALLOC_CONF`, which the CUDA allocator of releases before 2.10 does not read.
    pub names_new_variable: bool,
    /// It has words of `TensorFlow`.
    pub names_tensorflow: bool,
    /// It has words of JAX.
    pub names_jax: bool,
    /// A library in it was built without code for the GPU.
    pub lacks_gpu_build: bool,
    /// It moves the parts of a pipeline to the GPU one after the other.
    pub offloads_parts: bool,
    /// It moves a pipeline to the GPU as a whole.
    pub moves_whole: bool,
    /// The stages of one program whose lines it has, a bit for each: `[Stage-1]`.
    pub stages: u16,
    /// A server of an engine is asked to wake up by HTTP.
    pub wakes_server: bool,
    /// It has paths of Linux or macOS in tracebacks.
    pub is_posix: bool,
    /// Somebody writes that it fails at the same step or epoch each time.
    pub fails_at_same_step: bool,
    /// Somebody writes that the system is Windows.
    pub names_windows: bool,
    /// A part of a model's weights waits in the host's memory, as `ComfyUI` prints it.
    pub keeps_weights_on_host: bool,
    /// It speaks of pinned memory, or of files that weights are mapped from.
    pub pins_weights: bool,
    /// It computes answers with the program that trains the model.
    pub predicts: bool,
    /// The line in which it last began to load a model, from 1 on.
    pub loading_line: u64,
    /// How many buffers of a compiled program it lists, and the largest.
    pub largest_buffer: Option<(u32, u64)>,
    /// A GPU in it serves one process at a time.
    pub is_exclusive: bool,
    /// It compiles kernels for `OpenCL`.
    pub compiles_opencl: bool,
    /// nvidia-smi's table of the slices of GPUs has begun.
    pub lists_slices: bool,
    /// The slice of a GPU that it names, in GB.
    pub slice_gb: Option<u32>,
    /// Parameters that are trained, and all of them, where adapters are meant.
    pub trained: Option<(u64, u64)>,
    /// It turns JAX's preallocation off.
    pub is_without_preallocation: bool,
    /// It is of Ollama, which runs llama.cpp with settings of its own.
    pub is_ollama: bool,
    /// The program, if it is one with options of its own that are known.
    pub named: Option<Named>,
    /// It speaks of the decoder that makes pixels of latents.
    pub decodes: bool,
    /// It speaks of the sampler that makes latents.
    pub samples: bool,
    /// It has paths of Windows.
    pub is_windows: bool,
    /// The GPU has reported an access to memory that is not there, or a kernel a failed assertion: every later call fails.
    pub has_faulted: bool,
    /// An engine captures CUDA graphs, and does not say that it has ended.
    pub captures_graphs: bool,
    /// vLLM runs its trial at the start, before it has a KV cache.
    pub profiles: bool,
    /// It speaks of items of images, video or sound for the trial.
    pub has_multimodal_items: bool,
    /// The tokens of those items, where vLLM prints them.
    pub multimodal_tokens: Option<u32>,
    /// What XLA's compiler says of the largest program that does not fit.
    pub compiled: Option<Compiled>,
    /// The limit on the host's memory of its job or container.
    pub memory_limit_bytes: Option<u64>,
    /// The part of `SGLang`'s KV cache that was in use at the last reading.
    pub pool_use: Option<Decimal>,
    /// The kind of program, by the first name of one.
    pub program: Option<Program>,
    /// Docker says that the container did not reach its limit.
    pub is_within_limit: bool,
    /// llama.cpp has loaded a model and serves it.
    pub has_started: bool,
    /// A trainer keeps a part of its state in the host's memory.
    pub offloads_to_host: bool,
    /// A checkpoint's shards were still being loaded when the log last spoke of them.
    pub is_loading_shards: bool,
    /// It calls functions of `CTranslate2` that compute.
    pub calls_ctranslate2: bool,
    /// It has a bar of progress for a checkpoint's shards.
    pub loads_shards: bool,
    /// The largest GPU's memory by the kernel's log.
    pub vram_bytes: Option<u64>,
    /// It lists `/dev/shm` with room left.
    pub shows_free_shared_memory: bool,
    /// It speaks of training.
    pub trains: bool,
    /// It speaks of inference.
    pub infers: bool,
    /// It speaks of adapters, or of a state that is sharded, quantised or offloaded.
    pub trains_part: bool,
    /// It speaks of another notebook's kernel.
    pub has_other_kernel: bool,
    /// It says that one of several GPUs is full, and the others are not.
    pub fills_one_gpu: bool,
    /// It speaks of WSL.
    pub is_wsl: bool,
    /// It speaks of a collective of NCCL that has timed out.
    pub has_timed_out: bool,
    /// It speaks of a container.
    pub is_contained: bool,
    /// It has the name of `TensorFlow`'s operation that makes a variable.
    pub initializes: bool,
    /// The parameters of the model, by its name.
    pub parameters: Option<u64>,
    /// It sets the limit of MPS below the platform's own.
    pub lowers_watermark: bool,
    /// The kinds of devices beside NVIDIA's that it names, in the order of `Device`.
    pub names_devices: [bool; 4],
    /// It names NVIDIA's GPUs.
    pub names_nvidia: bool,
    /// The program around llama.cpp that it names first.
    pub front_end: Option<FrontEnd>,
    /// It speaks of FSDP.
    pub is_fully_sharded: bool,
    /// It speaks of saving a checkpoint.
    pub saves: bool,
    /// It names tests, as pytest prints them.
    pub is_test: bool,
    /// It names a machine whose CPU and AMD GPU share the memory.
    pub shares_memory: bool,
    /// It says that training fails after an evaluation, and not without one.
    pub follows_evaluation: bool,
    /// It names the last part of vLLM's start, after the KV cache.
    pub warms_up: bool,
    /// A loader tried to load a model, failed, and tries another way.
    pub loads_otherwise: bool,
    /// It exports a variable in a shell that ends at once, as `!export` in a notebook does.
    pub loses_variable: bool,
}

impl Surroundings {
    /// The program that lists who uses the device, where it is none of NVIDIA's.
    pub(crate) fn tool(&self) -> Option<&'static str> {
        const TOOLS: [&str; 4] = ["rocm-smi --showpids", "xpu-smi ps", "npu-smi info", "hl-smi"];
        let mut named = self.names_devices.iter().zip(TOOLS).filter(|(is_named, _)| **is_named).map(|(_, tool)| tool);
        // Of several kinds none is known to be the one that is full.
        let (only, other) = (named.next()?, named.next());
        (other.is_none() && !self.names_nvidia).then_some(only)
    }

    /// Whether XLA's errors are of `TensorFlow`, and not of JAX.
    pub(crate) fn is_of_tensorflow(&self) -> bool {
        self.names_tensorflow && !self.names_jax
    }

    /// The work that failed: as the traceback tells, or else what the log speaks of alone.
    pub(crate) fn work(&self, asked: Option<Purpose>) -> Option<Purpose> {
        match asked {
            None | Some(Purpose::Generate | Purpose::Load) if self.offloads_parts && self.moves_whole => {
                Some(Purpose::Whole)
            }
            None | Some(Purpose::Generate | Purpose::Evaluate) if self.predicts => Some(Purpose::Predict),
            None | Some(Purpose::Generate | Purpose::Load) if self.offloads_parts && !self.decodes => {
                Some(Purpose::Parts)
            }
            None | Some(Purpose::Generate) if self.decodes && !self.samples => Some(Purpose::Decode),
            asked => asked,
        }
    }

    /// Whether the program trains; `None` where nothing tells.
    pub(crate) fn is_training(&self) -> Option<bool> {
        if self.trains { Some(true) } else { self.infers.then_some(false) }
    }

    /// The program's own options for that work.
    pub(crate) fn own_steps(&self, asked: Option<Purpose>) -> Vec<Step> {
        self.named.map(|named| named.options(self.work(asked))).unwrap_or_default()
    }
}

/// A line that speaks of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Which, from 1 on.
    pub line: u64,
    /// Its text, made printable; its beginning if it is long.
    pub text: String,
}

/// The memory of a GPU, as nvidia-smi's table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableGpu {
    /// Its index.
    pub index: u32,
    /// The bytes in use.
    pub used_bytes: u64,
    /// All of its bytes.
    pub total_bytes: u64,
}

/// What was found in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The messages, by their first appearance.
    pub groups: Vec<Group>,
    /// How many there are in all, those of no group included.
    pub count: u64,
    /// Different messages that are not kept, for there are too many.
    pub left_out: u64,
    /// Lines read.
    pub lines: u64,
    /// The first line that speaks of memory that ran out, without being a message that is known.
    pub mention: Option<Mention>,
    /// The first line that speaks of memory without any failure.
    pub talk: Option<Mention>,
    /// The tables of `torch.cuda.memory_summary`.
    pub summaries: Vec<MemorySummary>,
    /// The sizes of batches, sequences and vocabularies that it names.
    pub dimensions: Dimensions,
    /// Failures of engines, libraries and the host, by their words, by their first appearance.
    pub events: Vec<Event>,
    /// The number of all messages.
    pub event_count: u64,
    /// What an engine printed while it started.
    pub engine: Option<EngineLog>,
    /// The processes of nvidia-smi's table in the log.
    pub processes: Vec<Process>,
    /// The GPUs of that table, each as the last table has it.
    pub gpus: Vec<TableGpu>,
    /// Figures of memory, and counts, that grew over the log.
    pub growths: Vec<Growth>,
    /// The memory of the first slice in use, by nvidia-smi's table of slices.
    pub slice_bytes: Option<u64>,
    /// The bytes in use and all bytes of each slice of that table.
    pub slices: Vec<(u64, u64)>,
    /// The host's memory in use as `DeepSpeed` last printed it, and its part of all in tenths of a per cent.
    pub host_use: Option<(u64, u64)>,
    /// The line in which it last began to save a checkpoint, from 1 on; 0 once it has.
    pub saving_line: u64,
    /// A figure of memory that rose at first and has stayed since then.
    pub settled: Option<Settled>,
    /// Refusals of the driver that PyTorch warned of.
    pub refusals: Vec<Refusal>,
    /// The command that was run, as far as the text shows it.
    pub command: Command,
    /// What else the log says.
    pub surroundings: Surroundings,
}

impl Found {
    /// Drops a message without amounts that only heads a whole one: people copy the line of a dialogue, and the text of the log below it.
    pub(super) fn drop_headline(&mut self) {
        let [first, rest @ ..] = &self.groups[..] else { return };
        let is_empty = first.message.tried_bytes.is_none() && first.message.is_cut;
        let is_same = |group: &Group| {
            let (one, other) = (&first.message, &group.message);
            (one.kind, one.device, one.rank) == (other.kind, other.device, other.rank) && other.tried_bytes.is_some()
        };
        if is_empty && rest.first().is_some_and(is_same) {
            let headline = self.groups.remove(0);
            self.count = self.count.saturating_sub(headline.count);
            if let Some(whole) = self.groups.first_mut().filter(|whole| whole.asked == AskedAt::default()) {
                whole.asked = headline.asked;
            }
        }
    }
}
