//! A pasted command line: `vllm serve MODEL --max-model-len 8192`, `docker run … --model X`, `llama-server -m X -c 8192 -ngl 99`.

use crate::error::ServeError;
use crate::flags::{Flag, Settings};
use crate::version::{Engine, short};

/// What a command line says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    /// The engine, where its name is among the words.
    pub engine: Option<Engine>,
    /// The model.
    pub model: Option<String>,
    /// The type of the weights.
    pub dtype: Option<String>,
    /// vLLM's older engine, by `VLLM_USE_V1`.
    pub is_v0: Option<bool>,
    /// Flags that are not known to decide about memory, as they are named.
    pub ignored: Vec<String>,
}

/// Words that begin an engine's own words.
const PROGRAMS: &[(&str, Engine)] = &[
    ("vllm", Engine::Vllm),
    ("vllm.entrypoints", Engine::Vllm),
    ("sglang", Engine::Sglang),
    ("sglang.launch_server", Engine::Sglang),
    ("llama-server", Engine::LlamaCpp),
    ("llama-cli", Engine::LlamaCpp),
];

/// Flags that decide about memory, and are in no rule here: the answer says so.
///
/// # Source
/// vLLM, `vllm/engine/arg_utils.py`; `SGLang`, `server_args.py`; llama.cpp, `common/arg.cpp`.
const UNCOUNTED: &[&str] = &[
    "hf-overrides",
    "mm-processor-kwargs",
    "compilation-config",
    "disable-hybrid-kv-cache-manager",
    "mamba-cache-dtype",
    "mamba-block-size",
    "mamba-cache-mode",
    "kv-transfer-config",
    "enable-sleep-mode",
    "prefill-context-parallel-size",
    "kv-offloading-size",
    "max-parallel-loading-workers",
    "ep-size",
    "ep",
    "expert-parallel-size",
    "speculative-algorithm",
    "speculative-draft-model-path",
    "speculative-num-draft-tokens",
    "speculative-num-steps",
    "enable-hierarchical-cache",
    "enable-piecewise-cuda-graph",
    "enable-mixed-chunk",
    "torchao-config",
    "json-model-override-args",
    "dp-attention",
    "tensor-split",
    "ts",
    "split-mode",
    "sm",
    "main-gpu",
    "mg",
    "override-tensor",
    "ot",
    "n-cpu-moe",
    "ncmoe",
    "cpu-moe",
    "cmoe",
    "no-kv-offload",
    "nkvo",
    "mmproj",
    "mm",
    "model-draft",
    "md",
    "spec-draft-model",
    "lora",
    "draft-max",
    "swa-checkpoints",
];

/// The longest command line that is read.
const MOST_WORDS: usize = 1000;

impl Command {
    /// Reads the words of a command line into settings.
    ///
    /// # Errors
    /// If a flag has a value that it does not take, or none.
    pub fn read(words: &[String], settings: &mut Settings) -> Result<Command, ServeError> {
        if words.len() > MOST_WORDS {
            return Err(ServeError::Command(format!("has more than {MOST_WORDS} words")));
        }
        let mut command = Command::default();
        // The engine's own words: those after its name; a container may have its flags alone.
        let named = |word: &str| {
            let last = word.rsplit('/').next().unwrap_or(word);
            PROGRAMS
                .iter()
                .find(|(name, _)| last == *name || word.contains("vllm.entrypoints") && *name == "vllm.entrypoints")
        };
        for word in words {
            if let Some(value) = word.strip_prefix("VLLM_USE_V1=") {
                command.is_v0 = Some(value == "0");
            }
            if let Some(value) = word.strip_prefix("VLLM_USE_FLASHINFER_SAMPLER=") {
                settings.flashinfer_sampler = Some(value == "1");
            }
        }
        let program = words.iter().enumerate().find_map(|(at, word)| named(word).map(|program| (at, program)));
        command.engine = program.map(|(_, (_, engine))| *engine);
        let start = program.map_or(0, |(at, _)| at + 1);
        let mut words = words[start..].iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                let is_word = matches!(word, "serve" | "launch_server") || word.contains('=');
                if !is_word && command.model.is_none() && command.engine.is_some() && !word.starts_with('\\') {
                    command.model = Some(short_path(word));
                }
                continue;
            };
            let (name, own) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            let name = name.replace('_', "-");
            // A value is the next word that is not a flag; negative numbers are values.
            let mut value = || {
                own.map(str::to_owned).or_else(|| {
                    let is_value = |next: &&str| {
                        !next.starts_with('-') || next[1..].starts_with(|letter: char| letter.is_ascii_digit())
                    };
                    words.next_if(is_value).map(str::to_owned)
                })
            };
            match name.as_str() {
                "model" | "model-path" | "m" | "hf" | "hf-repo" => {
                    command.model = value().map(|value| short_path(&value));
                }
                "dtype" => command.dtype = value(),
                _ => match Flag::named(&name) {
                    Some(flag) if flag.is_switch() => flag.set(settings, own.unwrap_or_default())?,
                    Some(flag) => {
                        // llama.cpp's `-fa` may stand alone.
                        let missing = || ServeError::Command(format!("has no value for `--{}`", flag.name));
                        let given = match value() {
                            None if flag.name == "flash-attn" => Some("on".to_owned()),
                            given => given,
                        };
                        flag.set(settings, &given.ok_or_else(missing)?)?;
                    }
                    None if UNCOUNTED.contains(&name.as_str()) => {
                        value();
                        settings.uncounted.push(short(word.split('=').next().unwrap_or(word)));
                    }
                    None => {
                        value();
                        command.ignored.push(short(word.split('=').next().unwrap_or(word)));
                    }
                },
            }
        }
        // The other programs of an engine serve several sequences unless told otherwise.
        if program.is_some_and(|(_, (name, _))| *name == "llama-cli") {
            settings.sequences.get_or_insert(1);
        }
        Ok(command)
    }
}

fn short_path(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(4096).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (Command, Settings) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let mut settings = Settings::default();
        let command = Command::read(&words, &mut settings).unwrap();
        (command, settings)
    }

    #[test]
    fn command_lines_of_engines_are_understood() {
        let (command, settings) = read(
            "VLLM_USE_V1=0 vllm serve Qwen/Qwen3-8B --tensor-parallel-size=2 --max_model_len 8k --port 8000 --enforce-eager",
        );
        assert_eq!(
            (command.engine, command.model.as_deref(), command.is_v0),
            (Some(Engine::Vllm), Some("Qwen/Qwen3-8B"), Some(true))
        );
        assert_eq!((settings.tensor, settings.max_len, settings.eager), (Some(2), Some(8000), true));
        assert_eq!(command.ignored, ["--port"]);
        let (command, settings) =
            read("python -m sglang.launch_server --model-path x --tp 4 --mem-fraction-static 0.8");
        assert_eq!((command.engine, command.model.as_deref()), (Some(Engine::Sglang), Some("x")));
        assert_eq!((settings.tensor, settings.memory_share), (Some(4), Some(0.8)));
        let (command, settings) = read("./llama-server -m a.gguf -c 32768 -ngl 99 -fa -ctk q8_0 -ctv q8_0");
        assert_eq!(
            (command.engine, settings.max_len, settings.gpu_layers),
            (Some(Engine::LlamaCpp), Some(32768), Some(99))
        );
        assert_eq!((settings.flash, settings.said.len(), settings.sequences), (Some(true), 5, None));
        assert_eq!(read("llama-cli -m a.gguf -c 65536").1.sequences, Some(1), "not a server");
    }

    #[test]
    fn a_flag_without_its_value_is_named() {
        let words = ["vllm", "serve", "x", "--max-model-len"].map(str::to_owned);
        let refused = Command::read(&words, &mut Settings::default()).unwrap_err();
        assert_eq!(refused.to_string(), "the command line behind `--` has no value for `--max-model-len`");
    }
}
