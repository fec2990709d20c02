//! What people write around a log: what the program does.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use rustc_hash::FxHashSet;

use super::Surroundings;
use super::command::{Command, Flag, MAX_FLAGS};
use crate::known::text_of;

/// Of a longer line only this much is read.
const LINE_BYTES: usize = 4096;
/// So much of a model's name stands before its size.
const NAME_BYTES: usize = 32;
/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Trains,
    Infers,
    TrainsPart,
    OtherKernel,
    OneGpu,
    Wsl,
    TimedOut,
    Initializes,
    Contained,
    Loads,
    Of(Device),
    Nvidia,
    Starts(FrontEnd),
    Fsdp,
    Saves,
    Tests,
    SharedMemory,
    LostVariable,
    LoadsOtherwise,
    WarmsUp,
    FollowsEvaluation,
    Predicts,
    Windows,
    SameStep,
}

/// A kind of device beside NVIDIA's GPUs, by the names that its logs and users have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// AMD's GPUs.
    Amd,
    /// Intel's GPUs.
    Intel,
    /// Ascend.
    Ascend,
    /// Gaudi.
    Gaudi,
}

/// A program around llama.cpp, with names of its own for the same settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// LM Studio.
    LmStudio,
    /// `KoboldCpp`.
    Kobold,
    /// text-generation-webui.
    WebUi,
    /// llama-cpp-python.
    Python,
}

/// The words, which people write in any case.
const WORDS: [(Says, &[&str]); 30] = [
    (
        Says::Trains,
        &[
            "training",
            "finetun",
            "fine-tun",
            "fine tun",
            "train.py",
            "train_",
            "trainer",
            ".backward(",
            "optimizer.step",
            "epoch",
            "gradient checkpoint",
            "gradient accum",
        ],
    ),
    (
        Says::Infers,
        &[
            "inference",
            "inferer",
            "infer(",
            "infer.py",
            ".generate(",
            ".predict(",
            "predict.py",
            "txt2img",
            "img2img",
            "transcribe",
        ],
    ),
    (
        Says::TrainsPart,
        &[
            "lora",
            "peft",
            "adapter",
            "zero_stage",
            "zero2",
            "zero3",
            "zero-2",
            "zero-3",
            "deepspeed",
            "fsdp",
            "4bit",
            "4-bit",
            "8bit",
            "8-bit",
            "frozen",
            "freez",
            "unsloth",
            "quantiz",
            "offload",
            "megatron",
            "tensor parallel",
            "tensor_parallel",
            "tensor-parallel",
            "sharded",
            "full_shard",
            "galore",
            "badam",
        ],
    ),
    (
        Says::OtherKernel,
        &[
            " 2 kernels running",
            " 2 kernels are running",
            "two kernels running",
            "two kernels are running",
            "both kernels are running",
            "another notebook kernel",
            "second kernel is running",
            " 2 notebooks",
            "two notebooks",
            "both notebooks",
            "another notebook",
            "other notebook",
            "second notebook",
        ],
    ),
    (
        Says::OneGpu,
        &[
            "on the last gpu",
            "the last gpu ran",
            "onto one single gpu",
            "loaded on one gpu",
            "loaded onto one gpu",
            "other gpus are empty",
            "other gpus are idle",
            "other gpus are free",
            "other gpu is empty",
            "other gpu is idle",
        ],
    ),
    (Says::Wsl, &["wsl2", "wsl 2", "in wsl", "on wsl", "under wsl", "standard-wsl"]),
    (Says::TimedOut, &["nccl timeout", "nccl time out", "nccl timed out", "collective operation timeout"]),
    (Says::Initializes, &["/initializer/", "/initial_value"]),
    (
        Says::Loads,
        &["during weight loading", "while loading weights", "while loading the weights", "when loading the weights"],
    ),
    (Says::Contained, &["docker", " container", "kubernetes"]),
    (Says::Of(Device::Amd), &["rocm", "hip error", "hiperror", "amdgpu", "radeon", "hip_visible_devices"]),
    (
        Says::Of(Device::Intel),
        &[
            "xpu:",
            "'xpu'",
            "\"xpu\"",
            "torch.xpu",
            "xpu_worker",
            "--device xpu",
            "level_zero",
            "level zero",
            "intel arc",
            "arc(tm)",
        ],
    ),
    (Says::Of(Device::Ascend), &["torch_npu", "npu:", "--device npu", "ascend9", "ascend npu", "ascend/", "huawei"]),
    (Says::Of(Device::Gaudi), &["habana", "\"hpu\"", "'hpu'", "gaudi"]),
    (
        Says::Nvidia,
        &["nvidia", "geforce", "rtx ", "cuda_visible_devices", "platform cuda", "tesla ", "a100", "h100", "h200"],
    ),
    (Says::Starts(FrontEnd::LmStudio), &["lm studio", "lmstudio", "lm-studio"]),
    (Says::Starts(FrontEnd::Kobold), &["koboldcpp"]),
    (Says::Starts(FrontEnd::WebUi), &["text-generation-webui", "oobabooga"]),
    (Says::Starts(FrontEnd::Python), &["llama-cpp-python", "llama_cpp/", "import llama_cpp", "from llama_cpp"]),
    (Says::Fsdp, &["fsdp", "fully sharded", "fullyshardeddataparallel"]),
    (
        Says::Saves,
        &[
            "saving the checkpoint",
            "saving a checkpoint",
            "saving checkpoint",
            "save the checkpoint",
            "save a checkpoint",
            "saving the model",
            "save the model",
            "when saving",
            "while saving",
        ],
    ),
    // Names of tests, as pytest prints them.
    (Says::Tests, &["::test_", "::test", "pytest", "[gw0]", "[gw1]", "[gw2]", "[gw3]"]),
    // APUs of AMD, and machines that have one.
    (
        Says::SharedMemory,
        &[
            "strix halo",
            "strix-halo",
            "ryzen ai",
            "evo-x2",
            "gfx1150",
            "gfx1151",
            "gfx1152",
            "gfx1103",
            "8050s",
            "8060s",
            "radeon 780m",
            "radeon 890m",
            "mi300a",
            "steam deck",
        ],
    ),
    // SGLang's loader of diffusion models (`component_loader.py`).
    (Says::LoadsOtherwise, &["error while loading customized "]),
    (
        Says::FollowsEvaluation,
        &[
            "after the first eval",
            "after first eval",
            "after the eval",
            "after eval",
            "after an eval",
            "after each eval",
            "after the validation",
            "after validation",
            "after the first validation",
            "with eval off",
            "with evaluation off",
            "without eval",
        ],
    ),
    (
        Says::Predicts,
        &["do_predict", "trainer.predict(", "evaluate & predict", "evaluate and predict", "evaluation and prediction"],
    ),
    (Says::Windows, &["windows"]),
    (Says::SameStep, &["same epoch", "same step", "same iteration", "same batch every time", "same image every time"]),
    // vLLM's last part of a start.
    (Says::WarmsUp, &["compile_or_warm_up_model", "_dummy_sampler_run"]),
    // A shell that ends at once sets it.
    (Says::LostVariable, &["!export ", "! export ", "os.system(\"export ", "os.system('export "]),
];

static AUTOMATON: LazyLock<Option<(AhoCorasick, Vec<Says>)>> = LazyLock::new(|| {
    let rows = WORDS.iter().flat_map(|(says, words)| words.iter().map(|word| (*word, *says)));
    let (words, says): (Vec<&str>, Vec<Says>) = rows.unzip();
    Some((AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()?, says))
});

/// Families of models, whose names end in a size. A shorter one has to be a whole word.
const FAMILIES: [&str; 44] = [
    "llama",
    "qwen",
    "mistral",
    "mixtral",
    "ministral",
    "gemma",
    "falcon",
    "bloom",
    "pythia",
    "vicuna",
    "deepseek",
    "baichuan",
    "chatglm",
    "internlm",
    "internvl",
    "codegen",
    "starcoder",
    "stablelm",
    "smollm",
    "alpaca",
    "wizardlm",
    "zephyr",
    "nemotron",
    "minicpm",
    "llava",
    "granite",
    "exaone",
    "openhermes",
    "redpajama",
    "skywork",
    "cogvideox",
    "cogvlm",
    "dolly",
    "olmo",
    "opt",
    "phi",
    "yi",
    "glm",
    "gpt",
    "mpt",
    "moss",
    "wan",
    "ziya",
    "solar",
];
/// From this length on the name of a family may stand within a word: `codellama`.
const LONG_FAMILY: usize = 5;

/// Words behind a time limit that is only set.
const OF_SETTING: [&str; 8] = ["is ", "of ", "to ", "=", ":", "_", "was set", "(default"];

/// Settings whose value is a model.
const OF_MODEL: [&str; 4] = ["model", "model_name_or_path", "model_path", "model_name"];

/// Settings of files and of objects that are flags by themselves.
const SWITCHES: [&str; 3] = ["gradient_checkpointing", "activation_checkpointing", "use_gradient_checkpointing"];

/// Whether a word of the text stands for itself: not in the name of an attribute, an argument or a file.
fn counts(says: Says, line: &[u8], found: std::ops::Range<usize>) -> bool {
    let before = found.start.checked_sub(1).map(|at| line[at].to_ascii_lowercase());
    let after = line.get(found.end);
    let end = found.end;
    let word = &line[found];
    match says {
        // `training=self.training` stands in tracebacks of inference, too.
        Says::Trains if word.eq_ignore_ascii_case(b"training") => {
            !before.is_some_and(|byte| b"._".contains(&byte)) && !after.is_some_and(|byte| b"=_".contains(byte))
        }
        // `exploration`, `requests/adapters.py`.
        Says::TrainsPart if word.eq_ignore_ascii_case(b"lora") || word.eq_ignore_ascii_case(b"adapter") => {
            !before.is_some_and(|byte| byte == b'/' || byte.is_ascii_alphabetic())
                || before == Some(b'q')
                || word.eq_ignore_ascii_case(b"lora") && before == Some(b'/')
        }
        // `the NCCL timeout is 1800 s`.
        Says::TimedOut if word.to_ascii_lowercase().starts_with(b"nccl time") => {
            let after = line[end..].trim_ascii_start();
            !OF_SETTING.iter().any(|word| after.starts_with(word.as_bytes()))
        }
        // A line of a report's form: sentences compare systems, and speak of windows of attention.
        Says::Windows => {
            let before = line[..end - word.len()].trim_ascii().to_ascii_lowercase();
            let rest = line[end..].trim_ascii();
            let is_release = [&b"10"[..], b"11", b"-10", b"-11"].iter().any(|release| rest.starts_with(release));
            let is_label =
                [&b""[..], b"os:", b"- os:", b"platform:", b"- platform:", b"system:"].contains(&&before[..]);
            is_label && (rest.is_empty() || is_release)
        }
        // Listings of settings have it where it is off.
        Says::Predicts if word.eq_ignore_ascii_case(b"do_predict") => {
            let is_flag = line[..end - word.len()].ends_with(b"--");
            let after = line[end..].trim_ascii_start().to_ascii_lowercase();
            is_switched_on(line, end - word.len(), word.len()) || is_flag && !after.starts_with(b"false")
        }
        _ => true,
    }
}

/// Reads what people write.
#[derive(Clone, Debug, Default)]
pub(super) struct ProseReader {
    goes_on: bool,
    /// The flags that were read.
    known: FxHashSet<String>,
}

impl ProseReader {
    /// Takes a line.
    pub(super) fn read(&mut self, line: &[u8], command: &mut Command, seen: &mut Surroundings) {
        let line = &line[..line.len().min(LINE_BYTES)];
        if let Some((automaton, says)) = AUTOMATON.as_ref() {
            for found in automaton.find_overlapping_iter(line) {
                let Some(says) =
                    says.get(found.pattern().as_usize()).filter(|says| counts(**says, line, found.range()))
                else {
                    continue;
                };
                let said = match says {
                    Says::Trains => &mut seen.trains,
                    Says::Infers => &mut seen.infers,
                    Says::TrainsPart => &mut seen.trains_part,
                    Says::OtherKernel => &mut seen.has_other_kernel,
                    Says::OneGpu => &mut seen.fills_one_gpu,
                    Says::Wsl => &mut seen.is_wsl,
                    Says::TimedOut => &mut seen.has_timed_out,
                    Says::Initializes => &mut seen.initializes,
                    Says::Contained => &mut seen.is_contained,
                    Says::Loads => &mut seen.fails_while_loading,
                    Says::Nvidia => &mut seen.names_nvidia,
                    Says::Fsdp => &mut seen.is_fully_sharded,
                    Says::Saves => &mut seen.saves,
                    Says::Tests => &mut seen.is_test,
                    Says::SharedMemory => &mut seen.shares_memory,
                    Says::LostVariable => &mut seen.loses_variable,
                    Says::FollowsEvaluation => &mut seen.follows_evaluation,
                    Says::WarmsUp => &mut seen.warms_up,
                    Says::SameStep => &mut seen.fails_at_same_step,
                    Says::Predicts => &mut seen.predicts,
                    Says::Windows => &mut seen.names_windows,
                    Says::LoadsOtherwise => &mut seen.loads_otherwise,
                    Says::Of(device) => {
                        seen.names_devices[*device as usize] = true;
                        continue;
                    }
                    Says::Starts(front_end) => {
                        seen.front_end = seen.front_end.or(Some(*front_end));
                        continue;
                    }
                };
                *said = true;
            }
        }
        seen.parameters = seen.parameters.or_else(|| parameters(line));
        seen.lowers_watermark |= lowers_watermark(line);
        let has_flags = memchr::memmem::find(line, b"--").is_some();
        let goes_on = std::mem::take(&mut self.goes_on);
        let ends_open = line.trim_ascii_end().ends_with(b"\\");
        if (has_flags || ends_open) && self.known.len() < MAX_FLAGS {
            self.goes_on = command.read(&text_of(line), goes_on, &mut self.known);
        }
        for name in SWITCHES {
            if memchr::memmem::find_iter(line, name.as_bytes()).any(|at| is_switched_on(line, at, name.len())) {
                let flag = Flag { name: name.to_owned(), value: None, is_set: true, has_equals: false };
                command.add(&mut self.known, flag);
            }
        }
    }
}

/// Whether a line sets the limit of MPS below the platform's own: `PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.7`. 0.0 is none, and 1.7 the default.
fn lowers_watermark(line: &[u8]) -> bool {
    const NAME: &[u8] = b"MPS_HIGH_WATERMARK_RATIO";
    memchr::memmem::find_iter(line, NAME).any(|at| {
        let value: Vec<u8> =
            line[at + NAME.len()..].iter().copied().filter(|byte| !b" =:'\"]".contains(byte)).take(3).collect();
        matches!(value[..], [b'0' | b'1', b'.', tenth @ b'0'..=b'9'] if value[0] == b'0' && tenth > b'0' || value[0] == b'1' && tenth < b'7')
    })
}

/// Whether a whole name, which begins here, is set to true: `disable_gradient_checkpointing: true` is another name.
fn is_switched_on(line: &[u8], at: usize, length: usize) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let after: Vec<u8> =
        line[at + length..].iter().copied().take(16).filter(|byte| !b" \"'".contains(byte)).take(5).collect();
    !at.checked_sub(1).is_some_and(|before| is_of_name(&line[before]))
        && [&b":true"[..], b"=true", b":True", b"=True"].iter().any(|on| after.starts_with(on))
}

/// The parameters of a model that a name tells: `llama-7b`, `Qwen2.5-14B`, `a 7B model`.
fn parameters(line: &[u8]) -> Option<u64> {
    memchr::memchr2_iter(b'b', b'B', line).find_map(|at| {
        let is_end = line.get(at + 1).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        let length = line[..at].iter().rev().take(6).take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        if !is_end || length == 0 {
            return None;
        }
        let begin = at - length;
        let number: f64 = std::str::from_utf8(&line[begin..at]).ok()?.parse().ok()?;
        let is_name = match begin.checked_sub(1).map(|before| line[before]) {
            Some(b'-' | b'_') => {
                let is_of_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
                let name = line[..begin].iter().rev().take(NAME_BYTES).take_while(is_of_token).count();
                let is_of_path = |byte: &&u8| is_of_token(byte) || **byte == b'/';
                let path = line[..begin].iter().rev().take(2 * NAME_BYTES).take_while(is_of_path).count();
                names_family(&line[begin - name..begin]) || is_model(&line[..begin - path])
            }
            None | Some(b' ') => {
                let after = line[at + 1..].trim_ascii_start();
                [&b"model"[..], b"param", b"llm", b"LLM"].iter().any(|word| after.starts_with(word))
            }
            _ => false,
        };
        let is_likely = (0.1..=2000.0).contains(&number);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 10^8 and 2 * 10^12")]
        (is_name && is_likely).then_some((number * 1e9) as u64)
    })
}

/// Whether a name has the words of a family: a block `Mixed_5b`, a GPU's id and a pod's name end like sizes.
fn names_family(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(|byte| !byte.is_ascii_alphabetic()).any(|word| {
        FAMILIES.iter().any(|family| {
            let family = family.as_bytes();
            word == family || family.len() >= LONG_FAMILY && memchr::memmem::find(word, family).is_some()
        })
    })
}

/// Whether a line ends in a setting whose value is a model: `model: `, `--model `, `model_name_or_path=`.
fn is_model(before: &[u8]) -> bool {
    let text = text_of(&before[before.len().saturating_sub(NAME_BYTES)..]).to_lowercase();
    let name = text.trim_end_matches([' ', ':', '=', '"', '\'']);
    let separator = &text[name.len()..];
    let begin = name.rfind(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').map_or(0, |at| at + 1);
    OF_MODEL.contains(&&name[begin..]) && (separator.contains([':', '=']) || name[..begin].ends_with("--"))
        || text.ends_with("tuning ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Command, Surroundings) {
        let (mut command, mut seen) = (Command::default(), Surroundings::default());
        let mut reader = ProseReader::default();
        text.lines().for_each(|line| reader.read(line.as_bytes(), &mut command, &mut seen));
        (command, seen)
    }

    #[test]
    fn flags_of_a_command_are_told_from_those_of_a_sentence() {
        let (command, _) = read(
            "I do not want --gradient_checkpointing for this.\n$ accelerate launch train.py \\\n  --train_batch_size=4 \\\n\
             \x20 --use-8bit-adam --lr 1e-4\n",
        );
        assert!(command.names("gradient-checkpointing") && !command.is_on("gradient_checkpointing"));
        assert!(command.is_on("use_8bit_adam"));
        assert_eq!(command.set("train_batch_size").and_then(|flag| flag.value.as_deref()), Some("4"));
        assert_eq!(command.set("lr").and_then(|flag| flag.value.as_deref()), Some("1e-4"));
        let (command, _) = read(
            "CalledProcessError: Command '['python3', 'train.py', '--lr=5e-05', '--gradient_checkpointing']' returned",
        );
        assert!(command.is_on("gradient_checkpointing") && command.is_shown);
        let (command, _) =
            read("gradient_checkpointing: true\nPlease try to increase --mem-fraction-static.\n--x_off False");
        assert!(
            command.is_on("gradient_checkpointing")
                && command.set("mem_fraction_static").is_none()
                && !command.is_on("x_off")
        );
    }

    #[test]
    fn a_sentence_that_begins_with_a_flag_or_a_program_is_no_command() {
        for text in [
            "--gradient_checkpointing makes no difference",
            "docker works with --gpus all",
            "deepspeed needs --zero_stage 3",
            "--flag  Whether to recompute",
            "uvicorn --port 80",
            "swiftly --fast",
        ] {
            assert!(!read(text).0.is_shown, "{text}");
        }
        for text in [
            "vllm serve mymodel --port 80",
            "CUDA_VISIBLE_DEVICES=0 python3.10 train.py --optim adamw",
            "docker run image --gpus all",
            "llama-server.exe --ctx-size 4096",
            "python -m torch.distributed.launch --nproc_per_node 2 train.py",
        ] {
            assert!(read(text).0.is_shown, "{text}");
        }
        assert!(!read("--gradient_checkpointing helps").0.is_on("gradient_checkpointing"));
    }

    #[test]
    fn only_a_whole_name_is_a_switch() {
        let is_on = |text: &str| read(text).0.is_on("gradient_checkpointing");
        assert!(!is_on("disable_gradient_checkpointing: true") && !is_on("no_gradient_checkpointing=True"));
        assert!(is_on("f(gradient_checkpointing_kwargs={}, gradient_checkpointing=True)"));
        assert!(read("use_gradient_checkpointing=True").0.is_on("use_gradient_checkpointing"));
    }

    #[test]
    fn no_more_flags_are_kept_than_a_command_has() {
        let lines: Vec<String> = (0..2_000).map(|number| format!("--flag{number} 1 --flag{number} 2")).collect();
        assert_eq!(read(&lines.join("\n")).0.flags.len(), MAX_FLAGS);
    }

    #[test]
    fn the_size_of_a_model_is_read_from_its_name() {
        for (text, parameters) in [
            ("full fine-tuning of llama-7b", Some(7_000_000_000)),
            ("model: Qwen/Qwen2.5-14B-Instruct", Some(14_000_000_000)),
            ("a 1.5B model", Some(1_500_000_000)),
            ("busId c9000 comm 0x555b51b3e2d0", None),
            ("commit 9ac04-7b", None),
            ("8b", None),
            ("in 4b of memory", None),
            ("24GB of RAM", None),
            ("--model company/answers-13b", Some(13_000_000_000)),
            ("--model answers-13b", Some(13_000_000_000)),
            ("model: \"answers-13b\"", Some(13_000_000_000)),
            ("Tuning some-7B on V100s", Some(7_000_000_000)),
            ("opt-6.7b", Some(6_700_000_000)),
            ("GPU 0: NVIDIA A10 (UUID: GPU-5c2b1f0a-417b-9d3e-8a6f-2b7c1d9e0f3a)", None),
            ("File \"inception.py\", line 9, in forward: x = self.Mixed_5b(x)", None),
            ("of the model Mixed_5b", None),
            ("pytorch-worker-7b", None),
            ("adopt-7b", None),
        ] {
            assert_eq!(super::parameters(text.as_bytes()), parameters, "{text}");
        }
    }

    #[test]
    fn what_a_program_does_is_read_in_any_case() {
        let seen = |text: &str| read(text).1;
        assert!(seen("During Inference it fails").infers && !seen("from_pretrained(path)").trains);
        assert!(seen("Full Fine-tuning").trains && seen("QLoRA").trains_part);
        assert!(!seen("Loading checkpoint shards: 100%").trains_part && !seen("wslog.txt is in place").is_wsl);
        assert!(!seen("words/Adam/beta1_power").initializes);
        assert!(!seen("the kernel was killed").has_other_kernel && seen("Two kernels are running").has_other_kernel);
        assert!(seen("it is loaded onto one GPU").fills_one_gpu && !seen("I have only one GPU").fills_one_gpu);
        assert!(!seen("return F.dropout(x, self.p, training=self.training)").trains);
        assert!(seen("During training it fails").trains && seen("Training: 3 %").trains);
        assert!(!seen("the exploration with colorama").trains_part && seen("lora_r: 8").trains_part);
        assert!(!seen("requests/adapters.py").trains_part && seen("an adapter of rank 8").trains_part);
        assert!(!seen("32 kernels of 3x3").has_other_kernel && !seen("another kernel is launched").has_other_kernel);
        for text in
            ["I train only on one GPU, a 3090", "Using only GPU 0", "it uses only one GPU", "I train only on GPU 0"]
        {
            assert!(!seen(text).fills_one_gpu, "{text}");
        }
        assert!(seen("in a Docker image").is_contained && !seen("the doc is kernel.md").is_contained);
        assert!(!seen("the NCCL timeout is 1800 s").has_timed_out && seen("NCCL timed out on rank 3").has_timed_out);
        let tool = |text: &str| seen(text).tool();
        assert_eq!(tool("vllm serve --device xpu"), Some("xpu-smi ps"));
        assert_eq!(tool("quay.io/ascend/verl, sorted in ascending order"), Some("npu-smi info"));
        for text in
            ["sorted in ascending order", "ROCm fails, my RTX 4090 works", "on ROCm and on Intel Arc", "input: 4"]
        {
            assert_eq!(tool(text), None, "{text}");
        }
        let lowers = |text: &str| seen(text).lowers_watermark;
        assert!(
            lowers("PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.7")
                && lowers("os.environ['PYTORCH_MPS_HIGH_WATERMARK_RATIO'] = \"1.2\"")
        );
        assert!(
            !lowers("Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit")
                && !lowers("MPS_HIGH_WATERMARK_RATIO=1.7")
        );
        assert!(!seen("the last GPU of the list").fills_one_gpu && !seen("the NCCL watchdog started").has_timed_out);
    }
}
