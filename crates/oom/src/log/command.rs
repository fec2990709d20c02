//! The command that people ran, and the flags that they name.

use rustc_hash::FxHashSet;

/// Flags that are kept.
pub(super) const MAX_FLAGS: usize = 256;
/// The longest name or value of a flag that is kept.
const FLAG_BYTES: usize = 80;
/// Words of a line before which a command's program stands.
const PROGRAM_WORDS: usize = 6;

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

/// Subcommands of programs.
const SUBCOMMANDS: [&str; 16] = [
    "run",
    "launch",
    "serve",
    "train",
    "sft",
    "pt",
    "rlhf",
    "infer",
    "exec",
    "chat",
    "eval",
    "export",
    "deploy",
    "bench",
    "finetune",
    "preprocess",
];
/// Values of a switch that is on.
const ON: [&str; 4] = ["true", "yes", "on", "unsloth"];

/// How Python prints a command that has failed.
const FAILED_COMMAND: &str = "Command '['";

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
    /// A command with at least one flag is in the text.
    pub is_shown: bool,
}

/// A name without dashes before it, in lower case: `-` and `_` are the same.
fn normal(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_").to_lowercase()
}

/// Whether two names of flags are the same.
pub(crate) fn is_same_flag(one: &str, other: &str) -> bool {
    normal(one) == normal(other)
}

impl Command {
    /// Whether the text names a flag, in a command or in a sentence.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| is_same_flag(&flag.name, name))
    }

    /// The flag of a command with this name.
    pub(crate) fn set(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.is_set && is_same_flag(&flag.name, name))
    }

    /// Whether a switch is on: a word behind it may be of a sentence.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let is_true = |value: &str| {
            let value = value.to_lowercase();
            let is_word = value.bytes().all(|byte| byte.is_ascii_alphabetic());
            ON.contains(&value.as_str()) || !is_word && value != "0"
        };
        self.set(name).is_some_and(|flag| flag.value.as_deref().is_none_or(is_true))
    }

    /// Keeps a flag, unless it is known or its name is not a flag's.
    pub(super) fn add(&mut self, known: &mut FxHashSet<String>, flag: Flag) {
        let name = flag.name.trim_matches('-');
        if name.len() < 2 || name.len() > FLAG_BYTES || !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            return;
        }
        // Looked up rather than compared with each: a hostile text repeats them.
        if known.len() < MAX_FLAGS && known.insert(format!("{}{}", u8::from(flag.is_set), normal(name))) {
            let name = name.to_owned();
            let value = flag.value.map(|value| value.trim_matches(['"', '\'', '\\', ',', '`']).to_owned());
            let value = value.filter(|value| !value.is_empty() && value.len() <= FLAG_BYTES);
            self.flags.push(Flag { name, value, ..flag });
        }
    }

    /// Reads a line. `goes_on`: the command of the line before goes on here. Returns whether the command goes on in the next line.
    pub(super) fn read(&mut self, line: &str, goes_on: bool, known: &mut FxHashSet<String>) -> bool {
        let line = line.trim().trim_start_matches(['$', '>', '+', '!', '`', '#', '%']).trim_start();
        let is_flag =
            |word: &str| word.starts_with("--") && word[2..].starts_with(|letter: char| letter.is_ascii_alphabetic());
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let begins = || {
            let head: Vec<&str> = words.iter().copied().take_while(|word| !word.starts_with('-')).collect();
            // A sentence has other words before its first flag.
            is_head(&head) || head.is_empty() && words.first().is_some_and(|word| is_flag(word))
        };
        let is_of_command = goes_on || line.contains(FAILED_COMMAND) || begins() && !is_sentence(&words);
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let bare = word.trim_matches(['`', '"', '\'', '(', ')', '[', ']', ',', '.', ';', ':']);
            if !is_flag(bare) {
                continue;
            }
            if let Some((name, value)) = bare.split_once('=') {
                let (name, value) = (name.to_owned(), Some(value.to_owned()));
                self.add(known, Flag { name, value, is_set: is_of_command, has_equals: true });
            } else {
                let ends = word.ends_with([']', ')', ';']) || word.ends_with("]'");
                let is_value =
                    |next: &&&str| !ends && !next.starts_with('-') && **next != "\\" && !next.starts_with('`');
                let value = words.peek().filter(|next| is_of_command && is_value(next)).map(|next| (*next).to_owned());
                self.add(known, Flag { name: bare.to_owned(), value, is_set: is_of_command, has_equals: false });
            }
            self.is_shown |= is_of_command;
        }
        is_of_command && line.ends_with('\\')
    }
}

/// Whether a word is a program that begins a command.
fn is_program(word: &str) -> bool {
    let word = word.trim_matches(['`', '"', '\'']);
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let is_release = |rest: &str| {
        rest.is_empty() || rest == ".exe" || rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    PROGRAMS.iter().any(|program| name.strip_prefix(program).is_some_and(is_release))
        || PROGRAM_ENDS.iter().any(|end| name.ends_with(end))
        || word.starts_with("./")
}

/// Whether words are those of a command before its first flag: variables, programs, a subcommand and its arguments.
fn is_head(words: &[&str]) -> bool {
    let at = words.iter().position(|word| SUBCOMMANDS.contains(word)).unwrap_or(words.len());
    let is_name = |word: &str| word.bytes().any(|byte| b"=/._:\\@".contains(&byte) || byte.is_ascii_digit());
    words.len() <= PROGRAM_WORDS
        && words.first().is_some_and(|word| is_program(word) || word.contains('='))
        && words.iter().any(|word| is_program(word))
        && words[..at].iter().all(|word| is_program(word) || is_name(word))
}

/// Whether two plain words in a row follow a flag: `--flag makes no difference`.
fn is_sentence(words: &[&str]) -> bool {
    let is_plain = |word: &str| {
        let word = word.trim_end_matches([',', '.', ';', ':', '?', '!']);
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    words.windows(3).any(|three| three[0].starts_with("--") && is_plain(three[1]) && is_plain(three[2]))
}
