//! What people write around a log: what the program does, and the command that they ran.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use rustc_hash::FxHashSet;

use super::Surroundings;
use crate::known::text_of;

/// Of a longer line only this much is read.
const LINE_BYTES: usize = 4096;
/// Flags that are kept.
const MAX_FLAGS: usize = 256;
/// The longest name or value of a flag that is kept.
const FLAG_BYTES: usize = 80;
/// So much of a model's name stands before its size.
const NAME_BYTES: usize = 24;
/// Words of a line before which a command's program stands.
const PROGRAM_WORDS: usize = 6;

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
}

/// The words, which people write in any case.
const WORDS: [(Says, &[&str]); 9] = [
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
            "2 kernels",
            "two kernels",
            "both kernels",
            "another kernel",
            "other kernel",
            "second kernel",
            "2 notebooks",
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
            "only on gpu 0",
            "onto one single gpu",
            "loaded on one gpu",
            "loaded onto one gpu",
            "only on one gpu",
            "uses only one gpu",
            "only uses one gpu",
            "only gpu 0",
            "only uses gpu 0",
            "only the first gpu",
            "all on one gpu",
            "all on gpu 0",
            "all on cuda:0",
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
    (Says::Contained, &["docker", " container", "kubernetes"]),
];

static AUTOMATON: LazyLock<Option<(AhoCorasick, Vec<Says>)>> = LazyLock::new(|| {
    let rows = WORDS.iter().flat_map(|(says, words)| words.iter().map(|word| (*word, *says)));
    let (words, says): (Vec<&str>, Vec<Says>) = rows.unzip();
    Some((AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()?, says))
});

/// Programs that begin a command, and ends of their names.
const PROGRAMS: [&str; 22] = [
    "python",
    "accelerate",
    "torchrun",
    "deepspeed",
    "bash",
    "srun",
    "vllm",
    "sglang",
    "docker",
    "axolotl",
    "swift",
    "llamafactory-cli",
    "tune",
    "nohup",
    "uv",
    "poetry",
    "conda",
    "openrlhf",
    "colossalai",
    "llama-server",
    "llama-cli",
    "text-generation-launcher",
];
const PROGRAM_ENDS: [&str; 3] = [".py", ".sh", ".exe"];

/// How Python prints a command that has failed.
const FAILED_COMMAND: &str = "Command '['";

/// Settings of files and of objects that are flags by themselves.
const SWITCHES: [&str; 3] = ["gradient_checkpointing", "activation_checkpointing", "use_gradient_checkpointing"];

/// A flag that the text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name as written, without dashes.
    pub name: String,
    /// Its value, where it has one.
    pub value: Option<String>,
    /// It stands in a command, rather than in a sentence.
    pub is_set: bool,
    /// Its value stands behind `=`.
    pub has_equals: bool,
}

/// The flags that a text names, by their first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The flags.
    pub flags: Vec<Flag>,
    /// It has a command with several lines or flags.
    pub is_shown: bool,
}

/// A name without dashes before it, in lower case: `-` and `_` are the same.
fn normal(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_").to_lowercase()
}

/// Whether two names of flags are the same.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    normal(one) == normal(other)
}

impl Command {
    /// Whether the text names a flag, in a command or in a sentence.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| is_same(&flag.name, name))
    }

    /// The flag of a command with this name.
    pub(crate) fn set(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.is_set && is_same(&flag.name, name))
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.set(name).is_some_and(|flag| {
            flag.value
                .as_deref()
                .is_none_or(|value| !["false", "0", "no", "none"].contains(&value.to_lowercase().as_str()))
        })
    }

    fn add(&mut self, known: &mut FxHashSet<String>, name: &str, value: Option<&str>, is_set: bool, has_equals: bool) {
        let name = name.trim_matches('-');
        if name.len() < 2 || name.len() > FLAG_BYTES || !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            return;
        }
        // Looked up rather than compared with each: a hostile text repeats them.
        let mut is_new = || known.len() < MAX_FLAGS && known.insert(format!("{}{}", u8::from(is_set), normal(name)));
        if is_new() {
            let value = value.map(|value| value.trim_matches(['"', '\'', '\\', ',', '`']).to_owned());
            let value = value.filter(|value| !value.is_empty() && value.len() <= FLAG_BYTES);
            self.flags.push(Flag { name: name.to_owned(), value, is_set, has_equals });
        }
    }

    /// Reads a line; `goes_on` says whether the line before was of a command that goes on. Gives whether this one goes on.
    fn read(&mut self, line: &str, goes_on: bool, known: &mut FxHashSet<String>) -> bool {
        let line = line.trim().trim_start_matches(['$', '>', '+', '!', '`', '#', '%']).trim_start();
        let is_flag =
            |word: &str| word.starts_with("--") && word[2..].starts_with(|letter: char| letter.is_ascii_alphabetic());
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_program = |word: &&str| {
            let word = word.trim_matches(['`', '"', '\'']);
            let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
            PROGRAMS
                .iter()
                .any(|program| name == *program || name.starts_with(program) && name.len() <= program.len() + 5)
                || PROGRAM_ENDS.iter().any(|end| name.ends_with(end))
                || word.starts_with("./")
        };
        let begins = || {
            let head: Vec<&&str> = words.iter().take(PROGRAM_WORDS).take_while(|word| !word.starts_with('-')).collect();
            // A sentence has more words before its first flag.
            head.first().is_some_and(|word| is_program(word) || word.contains('='))
                && head.iter().any(|word| is_program(word))
                || words.first().is_some_and(|word| is_flag(word))
        };
        let is_of_command = goes_on || line.contains(FAILED_COMMAND) || begins();
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let bare = word.trim_matches(['`', '"', '\'', '(', ')', '[', ']', ',', '.', ';', ':']);
            if !is_flag(bare) {
                continue;
            }
            if let Some((name, value)) = bare.split_once('=') {
                self.add(known, name, Some(value), is_of_command, true);
            } else {
                let is_value = |next: &&&str| !next.starts_with('-') && **next != "\\" && !next.starts_with('`');
                let value = words.peek().filter(|next| is_of_command && is_value(next)).copied();
                self.add(known, bare, value, is_of_command, false);
            }
            self.is_shown |= is_of_command;
        }
        is_of_command && line.ends_with('\\')
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
                match says.get(found.pattern().as_usize()) {
                    Some(Says::Trains) => seen.trains = true,
                    Some(Says::Infers) => seen.infers = true,
                    Some(Says::TrainsPart) => seen.trains_part = true,
                    Some(Says::OtherKernel) => seen.has_other_kernel = true,
                    Some(Says::OneGpu) => seen.fills_one_gpu = true,
                    Some(Says::Wsl) => seen.is_wsl = true,
                    Some(Says::TimedOut) => seen.has_timed_out = true,
                    Some(Says::Initializes) => seen.initializes = true,
                    Some(Says::Contained) => seen.is_contained = true,
                    None => {}
                }
            }
        }
        seen.parameters = seen.parameters.or_else(|| parameters(line));
        let has_flags = memchr::memmem::find(line, b"--").is_some();
        let goes_on = std::mem::take(&mut self.goes_on);
        let ends_open = line.trim_ascii_end().ends_with(b"\\");
        if (has_flags || ends_open) && self.known.len() < MAX_FLAGS {
            self.goes_on = command.read(&text_of(line), goes_on, &mut self.known);
        }
        for name in SWITCHES {
            if let Some(at) = memchr::memmem::find(line, name.as_bytes()) {
                let after: Vec<u8> =
                    line[at + name.len()..].iter().copied().filter(|byte| !b" \"'".contains(byte)).take(5).collect();
                let is_on = [&b":true"[..], b"=true", b":True", b"=True"].iter().any(|on| after.starts_with(on));
                if is_on {
                    command.add(&mut self.known, name, None, true, false);
                }
            }
        }
    }
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
                let mut token = line[..begin].iter().rev().take(NAME_BYTES).take_while(is_of_token);
                // The number of a hash has letters up to `f`.
                token.any(|byte| matches!(byte.to_ascii_lowercase(), b'g'..=b'z'))
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
        assert!(seen("in a Docker image").is_contained && !seen("the doc is kernel.md").is_contained);
        assert!(!seen("the last GPU of the list").fills_one_gpu && !seen("the NCCL watchdog started").has_timed_out);
    }
}
