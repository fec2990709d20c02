//! Settings of an engine: from its own line, from a table of arguments, or from the command.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::memmem;

use super::lines::{NAMES, Setting};
use super::{EngineLog, LEAST_SHARE, MAX_SHARES};
use crate::known::{Decimal, text_of};

/// The longest value.
const VALUE_BYTES: usize = 200;
/// Of a line with settings, so much is read.
const LINE_BYTES: usize = 64 << 10;

/// The command of vLLM.
const SERVE: &[u8] = b"vllm serve ";

static SETTINGS: LazyLock<Names<Setting>> = LazyLock::new(|| Names::new(&NAMES));

impl EngineLog {
    /// Takes the settings that a line names: `max_model_len=4096`, `'max_model_len': 4096`, `--max-model-len 4096`.
    pub(crate) fn take_settings(&mut self, line: &[u8]) {
        let line = &line[..line.len().min(LINE_BYTES)];
        for (setting, value) in SETTINGS.values(line) {
            self.set(setting, &value);
        }
        self.take_spoken_shares(line);
        let has = |words: &[u8]| memmem::find(line, words).is_some();
        if let Some(at) = memmem::find(line, SERVE) {
            // The model stands behind the command, without a name.
            let rest = &line[at + SERVE.len()..];
            let model = rest.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
            let model = model.filter(|word| word.contains(&b'/') && !word.starts_with(b"-"));
            if let Some(model) = model {
                self.set(Setting::Model, &text_of(&model[..model.len().min(VALUE_BYTES)]));
            }
        }
        if has(b"llama-server") || has(b"llama-cli") {
            self.take_short_options(line);
        }
        if has(b"sglang") || has(b"server_args=") || has(b"mem-fraction-static") {
            self.engine.get_or_insert("sglang");
        } else if has(b"vllm")
            || has(b"LLM engine (v")
            || has(b"gpu-memory-utilization")
            || has(b"non-default args")
            || has(b"gpu_memory_utilization=")
        {
            self.engine.get_or_insert("vllm");
        } else if has(b"text-generation-launcher ") {
            self.engine.get_or_insert("tgi");
        } else if has(b"trtllm-serve ") {
            self.engine.get_or_insert("tensorrt-llm");
        } else if has(b"lmdeploy") || has(b"TurbomindEngineConfig") || has(b"PytorchEngineConfig") {
            self.engine.get_or_insert("lmdeploy");
        }
    }

    /// Takes the short options of llama.cpp's command: `-c 8192`, `-ub 1024`.
    fn take_short_options(&mut self, line: &[u8]) {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            let setting = match word {
                b"-c" | b"--ctx-size" => Setting::MaxModelLen,
                b"-ub" | b"--ubatch-size" => Setting::MaxNumBatchedTokens,
                _ => continue,
            };
            if let Some(value) = words.next() {
                self.set(setting, &text_of(&value[..value.len().min(VALUE_BYTES)]));
                self.engine.get_or_insert("llama.cpp");
            }
        }
    }

    /// Takes the shares that a person names: "with `--mem-fraction-static` at 0.85 it fails, and at 0.84 ...".
    fn take_spoken_shares(&mut self, line: &[u8]) {
        let has = |words: &[u8]| memmem::find(line, words).is_some();
        // A command names other decimals, too: its share is read as a setting.
        let is_command = memmem::find_iter(line, b" --").count() > 1;
        let names_share = has(b"fraction-static") || has(b"fraction_static");
        if !names_share || is_command || has(b"erver_args") || has(b"ServerArgs") {
            return;
        }
        let words = line.split(|byte| !byte.is_ascii_digit() && *byte != b'.');
        for word in words.filter_map(|word| std::str::from_utf8(word).ok()?.trim_end_matches('.').strip_prefix("0.")) {
            let share = Decimal::parse(&format!("0.{word}")).filter(|share| share.millionths >= LEAST_SHARE);
            if self.shares_tried.len() < MAX_SHARES {
                self.shares_tried.extend(share.filter(|share| !self.shares_tried.contains(share)));
            }
        }
    }

    fn set(&mut self, setting: Setting, value: &str) {
        let number = value.parse::<u64>().ok();
        let text = Some(value.to_owned()).filter(|value| value != "None");
        let first = |field: &mut Option<u64>| *field = field.or(number);
        match setting {
            Setting::Model => self.model = self.model.take().or(text),
            Setting::Dtype => self.dtype = self.dtype.take().or(text),
            Setting::Quantization => self.quantization = self.quantization.take().or(text),
            Setting::KvDtype => self.kv_dtype = self.kv_dtype.take().or(text),
            Setting::MaxModelLen => first(&mut self.max_model_len),
            Setting::TensorParallel => first(&mut self.tensor_parallel),
            Setting::PipelineParallel => first(&mut self.pipeline_parallel),
            Setting::MaxNumSeqs | Setting::MaxRunningRequests => first(&mut self.max_num_seqs),
            Setting::MaxNumBatchedTokens | Setting::ChunkedPrefillSize => first(&mut self.max_num_batched_tokens),
            Setting::KvCacheMemory => first(&mut self.kv_cache_setting_bytes),
            Setting::Utilization => self.utilization = self.utilization.or(Decimal::parse(value)),
            Setting::MemFractionStatic => {
                let share = Decimal::parse(value);
                self.mem_fraction_static = self.mem_fraction_static.or(share);
                if self.shares_tried.len() < MAX_SHARES {
                    self.shares_tried.extend(share.filter(|share| !self.shares_tried.contains(share)));
                }
            }
            Setting::CacheMaxEntryCount => {
                self.cache_max_entry_count = self.cache_max_entry_count.or(Decimal::parse(value));
            }
            Setting::EnforceEager => {
                self.is_eager = self.is_eager.or(match value {
                    "False" | "false" => Some(false),
                    _ => Some(true),
                });
            }
            Setting::SleepMode => self.has_sleep_mode |= !matches!(value, "False" | "false" | "None"),
        }
    }
}

/// Names of settings that are looked for at once; written with `_`, they match `-` too.
pub(crate) struct Names<T: 'static> {
    /// `None` could only come of a table that is too large.
    automaton: Option<AhoCorasick>,
    of: &'static [(&'static str, T)],
}

impl<T: Copy> Names<T> {
    /// A table of names.
    pub(crate) fn new(of: &'static [(&'static str, T)]) -> Self {
        Self { automaton: AhoCorasick::new(of.iter().map(|(name, _)| name)).ok(), of }
    }

    /// The first value of each name in a line, in the order of the table.
    pub(crate) fn values(&self, line: &[u8]) -> Vec<(T, String)> {
        let even: Vec<u8> = line.iter().map(|&byte| if byte == b'-' { b'_' } else { byte }).collect();
        let mut values: Vec<Option<String>> = vec![None; self.of.len()];
        for found in self.automaton.iter().flat_map(|names| names.find_overlapping_iter(&even)) {
            if let Some(value @ None) = values.get_mut(found.pattern().as_usize()) {
                *value = value_at(&even[..found.start()], &line[found.end()..]);
            }
        }
        let values = self.of.iter().zip(values);
        values.filter_map(|((_, what), value)| Some((*what, value?))).collect()
    }
}

/// The value of a name between these texts, if it stands there as a setting; before it, `_` stands for `-`.
fn value_at(before: &[u8], after: &[u8]) -> Option<String> {
    let is_option = before.ends_with(b"__") || before.ends_with(b" _");
    let is_word = is_option || before.last().is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let quote = usize::from(after.first().is_some_and(|byte| b"'\"".contains(byte)));
    let gap = match after.get(quote) {
        Some(b'=' | b':') => quote + 1,
        Some(b' ') if is_option => quote + 1,
        // A switch without a value.
        _ if is_option && (after.is_empty() || after.first() == Some(&b'\\')) => return Some("True".to_owned()),
        _ => return None,
    };
    if !is_word {
        return None;
    }
    let rest = after[gap..].trim_ascii_start();
    if is_option && rest.first() == Some(&b'-') {
        return Some("True".to_owned());
    }
    let (rest, ends): (&[u8], &[u8]) = match rest.first() {
        Some(quote @ (b'\'' | b'"')) => (&rest[1..], std::slice::from_ref(quote)),
        _ => (rest, b",)} ;\\]"),
    };
    let length = rest.iter().take(VALUE_BYTES).take_while(|byte| !ends.contains(byte)).count();
    (length > 0).then(|| text_of(&rest[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_any_of_their_forms() {
        for line in [
            "Initializing a V1 LLM engine (v0.9.2) with config: model='a/b', tokenizer='c', max_seq_len=4096, \
             tensor_parallel_size=2, enforce_eager=True, kv_cache_dtype=fp8",
            "non-default args: {'model': 'a/b', 'max_model_len': 4096, 'tensor_parallel_size': 2, 'enforce_eager': True, \
             'kv_cache_dtype': 'fp8'}",
            "vllm serve --model a/b --max-model-len 4096 --tensor-parallel-size=2 --kv-cache-dtype fp8 --enforce-eager",
        ] {
            let mut log = EngineLog::default();
            log.take_settings(line.as_bytes());
            assert_eq!(
                (log.engine, log.model.as_deref(), log.max_model_len),
                (Some("vllm"), Some("a/b"), Some(4096)),
                "{line}"
            );
            assert_eq!(
                (log.tensor_parallel, log.is_eager, log.kv_dtype.as_deref()),
                (Some(2), Some(true), Some("fp8")),
                "{line}"
            );
        }
        let mut log = EngineLog::default();
        log.take_settings(b"server_args=ServerArgs(model_path='q', mem_fraction_static=0.88, tp_size=1)");
        assert_eq!((log.engine, log.mem_fraction_static.unwrap().millionths), (Some("sglang"), 880_000));
    }
}
