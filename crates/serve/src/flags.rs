//! The flags of engines that decide about memory, each declared once: the command line, a pasted command line, the JSON
//! of Python and the list in `docs/serve.md` follow from this table.
//!
//! # Source
//! vLLM, `vllm/engine/arg_utils.py`; `SGLang`, `python/sglang/srt/server_args.py`; llama.cpp, `common/arg.cpp`.

use highwater_driver::{CardOrSize, NeitherCardNorSize};
use highwater_estimate::DEFAULT_CARD;
use serde_json::{Map, Value};

use crate::cache_type::CacheType;
use crate::error::ServeError;
use crate::same::same_in;
use crate::version::{Engine, Release, Version, short};

/// The first vLLM without the older engine, V0: 0.11 does not have `vllm/worker/worker.py`.
const V0_UNTIL: Version = Version::new(0, 11, 0);
/// No count is larger.
const MOST: u64 = 1 << 32;
/// No curve has more points.
const MOST_LENGTHS: usize = 512;
/// No engine has more ranks in a dimension.
const MOST_RANKS: u64 = 256;

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Its other names; a single letter or `ngl` has one dash.
    pub aliases: &'static [&'static str],
    /// Engines that have it; none for a question of highwater's own.
    pub engines: &'static [Engine],
    /// The release that brought it.
    pub since: Option<Version>,
    /// The value in the help; empty for a switch.
    pub value_name: &'static str,
    /// The help.
    pub help: &'static str,
    set: fn(&mut Settings, &Flag, &str) -> Result<(), ServeError>,
}

const V: &[Engine] = &[Engine::Vllm];
const S: &[Engine] = &[Engine::Sglang];
const VS: &[Engine] = &[Engine::Vllm, Engine::Sglang];
const L: &[Engine] = &[Engine::LlamaCpp];
const ANY: &[Engine] = &[Engine::Vllm, Engine::Sglang, Engine::LlamaCpp, Engine::Transformers];

/// The settings of an engine; `None` for its own default.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of an engine")]
pub struct Settings {
    /// The GPU's memory as the driver reports it, where it differs from the table of cards.
    pub total_bytes: Option<u64>,
    /// Share of the GPU that the engine may use.
    pub memory_share: Option<f64>,
    /// The cache's bytes, whatever else there is.
    pub cache_bytes: Option<u64>,
    /// The longest sequence.
    pub max_len: Option<u64>,
    /// Sequences at a time.
    pub sequences: Option<u64>,
    /// Tokens of a batch.
    pub batched_tokens: Option<u64>,
    /// Type of keys and values.
    pub cache_type: Option<CacheType>,
    /// Type of values, where it differs.
    pub value_type: Option<CacheType>,
    /// Tensor-parallel ranks.
    pub tensor: Option<u64>,
    /// Pipeline stages.
    pub pipeline: Option<u64>,
    /// Data-parallel ranks.
    pub data: Option<u64>,
    /// Whether attention is in data-parallel replicas within the tensor-parallel ranks.
    pub attention_replicas: bool,
    /// Context-parallel ranks of decoding.
    pub decode_context: Option<u64>,
    /// Whether experts are divided as wholes.
    pub expert_parallel: bool,
    /// No CUDA graphs.
    pub eager: bool,
    /// The largest batch of a CUDA graph.
    pub graph_batch: Option<u64>,
    /// Tokens of a block.
    pub block: Option<u64>,
    /// Chunked prefill, said.
    pub chunked_prefill: Option<bool>,
    /// Prefix caching, said.
    pub prefix_caching: Option<bool>,
    /// `LoRA` adapters.
    pub lora: bool,
    /// Adapters at a time.
    pub loras: Option<u64>,
    /// Their rank.
    pub lora_rank: Option<u64>,
    /// Speculative tokens.
    pub speculative: Option<u64>,
    /// What makes them.
    pub drafter: Drafter,
    /// The name of the drafter's model.
    pub drafter_model: Option<String>,
    /// GiB of each rank's weights that stay in the host's memory.
    pub offload_bytes: Option<u64>,
    /// The cache's blocks, whatever else there is.
    pub forced_blocks: Option<u64>,
    /// Quantisation at load.
    pub quantization: Option<String>,
    /// Bytes of a number of a recurrent state.
    pub state_bytes: Option<u64>,
    /// Recurrent states that are kept.
    pub states: Option<u64>,
    /// Bytes of recurrent states for each byte of the cache.
    pub states_to_cache: Option<f64>,
    /// No images: their encoder is not loaded, and no image is profiled.
    pub text_only: bool,
    /// The encoder of images is not profiled.
    pub skips_images: bool,
    /// Tokens of the cache at most.
    pub most_tokens: Option<u64>,
    /// Window tokens for each full token in `SGLang`'s pools.
    pub window_ratio: Option<f64>,
    /// Layers on the GPU.
    pub gpu_layers: Option<u64>,
    /// Flash attention of llama.cpp.
    pub flash: Option<bool>,
    /// Windows are cached whole.
    pub window_full: bool,
    /// One cache for all sequences.
    pub unified: bool,
    /// How the ik fork caches latent attention.
    pub latent_mode: Option<u64>,
    /// Flags that were given, with their values as they were written; `true` for a switch.
    pub said: Vec<(&'static str, String)>,
    /// Flags that decide about memory, and are in no rule here.
    pub uncounted: Vec<String>,
    /// The first start after an installation: `torch.compile` has no cache.
    pub first_start: bool,
    /// Whether `FlashInfer` samples, where `VLLM_USE_FLASHINFER_SAMPLER` of a pasted command line says so.
    pub flashinfer_sampler: Option<bool>,
    /// Lengths whose requests are counted, beside the longest; none for those that people ask for.
    pub lengths: Vec<u64>,
}

/// What makes speculative tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drafter {
    /// Nothing, or a search in the prompt.
    #[default]
    Nothing,
    /// The model's own layers for that: multi-token prediction.
    OwnLayers,
    /// One layer that sees the model's hidden states, with a head of its own: EAGLE.
    Eagle,
    /// A whole model of its own.
    Checkpoint,
}

macro_rules! flags {
    ($($name:literal [$($alias:literal)*] $engines:expr, $since:expr, $value:literal, $help:literal, $set:expr;)*) => {
        /// All flags, in the order of the help.
        pub static FLAGS: &[Flag] = &[$(Flag {
            name: $name, aliases: &[$($alias),*], engines: $engines, since: $since, value_name: $value, help: $help, set: $set,
        },)*];
    };
}

macro_rules! count {
    ($field:ident) => {
        |settings, flag, value| {
            settings.$field = Some(flag.count(value)?);
            Ok(())
        }
    };
}

macro_rules! switch {
    ($field:ident, $to:expr) => {
        |settings, flag, value| {
            if flag.is_on(value)? {
                settings.$field = $to;
            }
            Ok(())
        }
    };
}

macro_rules! share {
    ($field:ident) => {
        |settings, flag, value| {
            settings.$field = Some(flag.share(value)?);
            Ok(())
        }
    };
}

flags! {
    "gpu-memory" [] ANY, None, "SIZE", "The memory that this GPU reports, where it differs from the table, such as `14.74GiB`",
        |settings, flag, value| { settings.total_bytes = Some(flag.size(value)?); Ok(()) };
    "first-start" [] V, None, "", "The first start after an installation: the cache of `torch.compile` is empty", switch!(first_start, true);
    "gpu-memory-utilization" [] V, None, "SHARE", "Share of the GPU's total memory for this instance", share!(memory_share);
    "kv-cache-memory-bytes" ["kv-cache-memory"] V, Some(Version::new(0, 10, 2)), "SIZE", "The cache's memory, instead of the rest of the budget",
        |settings, flag, value| { settings.cache_bytes = Some(flag.size(value)?); Ok(()) };
    "max-model-len" [] V, None, "N", "The longest sequence", count!(max_len);
    "max-num-seqs" [] V, None, "N", "Sequences in a batch", count!(sequences);
    "max-num-batched-tokens" [] V, None, "N", "Tokens in a batch", count!(batched_tokens);
    "block-size" [] V, None, "N", "Tokens of a block", |settings, flag, value| {
        // Backends of attention take no other sizes.
        let tokens = flag.count(value)?;
        let is_taken = tokens == 1 || tokens == 8 || tokens.is_multiple_of(16);
        settings.block = Some(is_taken.then_some(tokens).ok_or_else(|| flag.bad(value, "1, 8 or a multiple of 16"))?);
        Ok(())
    };
    "kv-cache-dtype" [] VS, None, "TYPE", "The cache's type: `auto`, `fp8`, …", |settings, flag, value| {
        settings.cache_type = Some(flag.cache_type(value)?);
        Ok(())
    };
    "tensor-parallel-size" ["tp" "tp-size"] VS, None, "N", "Tensor-parallel ranks", count!(tensor);
    "pipeline-parallel-size" ["pp" "pp-size"] VS, None, "N", "Pipeline stages", count!(pipeline);
    "data-parallel-size" ["dp" "dp-size"] VS, None, "N", "Data-parallel replicas, each on its own GPUs", count!(data);
    "enable-expert-parallel" [] V, Some(Version::new(0, 8, 0)), "", "Keep each expert whole on one rank", switch!(expert_parallel, true);
    "decode-context-parallel-size" ["dcp"] V, Some(Version::new(0, 10, 2)), "N", "Ranks that share the tokens of a cache", count!(decode_context);
    "enforce-eager" [] V, None, "", "No CUDA graphs", switch!(eager, true);
    "enable-chunked-prefill" [] V, None, "", "Prefill in pieces", switch!(chunked_prefill, Some(true));
    "no-enable-chunked-prefill" [] V, None, "", "Prefill at once", switch!(chunked_prefill, Some(false));
    "enable-prefix-caching" [] V, None, "", "Keep the blocks of common prefixes", switch!(prefix_caching, Some(true));
    "no-enable-prefix-caching" [] V, None, "", "Do not keep the blocks of common prefixes", switch!(prefix_caching, Some(false));
    "enable-lora" [] VS, None, "", "Serve LoRA adapters", switch!(lora, true);
    "max-loras" ["max-loras-per-batch"] VS, None, "N", "Adapters in a batch", count!(loras);
    "max-lora-rank" [] VS, None, "N", "The largest rank of an adapter", count!(lora_rank);
    "quantization" ["q"] VS, None, "METHOD", "Quantise at load", |settings, _, value| {
        settings.quantization = Some(short(value));
        Ok(())
    };
    "cpu-offload-gb" [] V, None, "GIB", "GiB of each rank's weights that stay in the host's memory", |settings, flag, value| {
        let gib = value.parse::<f64>().ok().filter(|gib| (0.0..=65_536.0).contains(gib));
        let gib = gib.ok_or_else(|| flag.bad(value, "GiB from 0 to 65,536"))?;
        settings.offload_bytes = Some(crate::arithmetic::share(1 << 30, gib));
        Ok(())
    };
    "num-gpu-blocks-override" [] V, None, "N", "The cache's blocks, instead of those that fit", count!(forced_blocks);
    "speculative-config" [] V, None, "JSON", "The drafter: its `method` and `num_speculative_tokens`", |settings, flag, value| {
        let map = serde_json::from_str::<serde_json::Value>(value).ok();
        let field = |name: &str| map.as_ref().and_then(|map| map.get(name));
        let tokens = field("num_speculative_tokens").and_then(serde_json::Value::as_u64);
        settings.drafter = match field("method").and_then(serde_json::Value::as_str) {
            Some("ngram" | "[ngram]" | "suffix") => Drafter::Nothing,
            Some(method) if method.contains("mtp") => Drafter::OwnLayers,
            Some("eagle" | "eagle3") => Drafter::Eagle,
            _ => Drafter::Checkpoint,
        };
        settings.drafter_model = field("model").and_then(serde_json::Value::as_str).map(str::to_owned);
        settings.speculative = Some(tokens.filter(|tokens| *tokens <= 1024).ok_or_else(|| flag.bad(value, "JSON with `num_speculative_tokens`"))?);
        Ok(())
    };
    "mamba-ssm-cache-dtype" [] V, Some(Version::new(0, 10, 1)), "TYPE", "The type of recurrent states: `auto`, `float32`, `float16`, …", |settings, flag, value| {
        settings.state_bytes = match value {
            "auto" => None,
            "float32" => Some(4),
            "float16" | "bfloat16" => Some(2),
            _ => return Err(flag.bad(value, "auto, float32, float16 or bfloat16")),
        };
        Ok(())
    };
    "language-model-only" [] V, Some(Version::new(0, 17, 0)), "", "Do not load the image encoder", switch!(text_only, true);
    "limit-mm-per-prompt" [] V, None, "JSON", "Images and videos of a prompt; without any, their encoder is not loaded", |settings, flag, value| {
        settings.text_only = flag.limits(value)?.iter().all(|limit| *limit == 0);
        Ok(())
    };
    "skip-mm-profiling" [] V, Some(Version::new(0, 10, 1)), "", "Do not profile the image encoder", switch!(skips_images, true);
    "enable-dp-attention" [] S, None, "", "Attention in the data-parallel replicas, on their share of the ranks", switch!(attention_replicas, true);
    "mem-fraction-static" [] S, None, "SHARE", "Share of the free memory for weights and cache", share!(memory_share);
    "context-length" [] S, None, "N", "The longest sequence", count!(max_len);
    "max-running-requests" [] S, None, "N", "Sequences in a batch", count!(sequences);
    "chunked-prefill-size" [] S, None, "N", "Tokens of a piece of the prompt", count!(batched_tokens);
    "cuda-graph-max-bs" [] S, None, "N", "The largest batch of a CUDA graph", count!(graph_batch);
    "disable-cuda-graph" [] S, None, "", "No CUDA graphs", switch!(eager, true);
    "page-size" [] S, None, "N", "Tokens of a page", count!(block);
    "max-total-tokens" [] S, None, "N", "Largest number of tokens in the cache", count!(most_tokens);
    "disable-radix-cache" [] S, None, "", "Do not keep common prefixes", switch!(prefix_caching, Some(false));
    "max-mamba-cache-size" [] S, None, "N", "Recurrent states that are kept", count!(states);
    "mamba-full-memory-ratio" [] S, None, "RATIO", "Memory of recurrent states for each byte of the cache, 0.9", |settings, flag, value| {
        let ratio = value.parse::<f64>().ok().filter(|ratio| (0.0..=100.0).contains(ratio));
        settings.states_to_cache = Some(ratio.ok_or_else(|| flag.bad(value, "a ratio from 0 to 100"))?);
        Ok(())
    };
    "swa-full-tokens-ratio" [] S, None, "SHARE", "Sliding-window tokens per full-attention token", share!(window_ratio);
    "ctx-size" ["c"] L, None, "N", "Tokens of the cache; 0: the model's own", |settings, flag, value| {
        settings.max_len = if value == "0" { None } else { Some(flag.count(value)?) };
        Ok(())
    };
    "parallel" ["np"] L, None, "N", "Sequences that share the context", count!(sequences);
    "ubatch-size" ["ub"] L, None, "N", "Tokens of a physical batch", count!(batched_tokens);
    "n-gpu-layers" ["ngl" "gpu-layers"] L, None, "N", "Layers on the GPU", |settings, flag, value| {
        // `-1`, `all` and `auto` mean all of them.
        settings.gpu_layers = if matches!(value, "-1" | "all" | "auto") { None } else { Some(flag.whole(value)?) };
        Ok(())
    };
    "cache-type-k" ["ctk"] L, None, "TYPE", "Type of keys: `f16`, `q8_0`, `q4_0`, …", |settings, flag, value| {
        settings.cache_type = Some(flag.cache_type(value)?);
        Ok(())
    };
    "cache-type-v" ["ctv"] L, None, "TYPE", "Type of values", |settings, flag, value| {
        settings.value_type = Some(flag.cache_type(value)?);
        Ok(())
    };
    "flash-attn" ["fa"] L, None, "on|off", "Flash attention", |settings, flag, value| {
        settings.flash = if value == "auto" { None } else { Some(flag.is_on(value)?) };
        Ok(())
    };
    "swa-full" [] L, None, "", "Cache sliding-window layers at full length", switch!(window_full, true);
    "kv-unified" ["kvu"] L, None, "", "One cache for all sequences", switch!(unified, true);
    "mla-use" ["mla"] L, None, "N", "How the ik fork caches latent attention, 0 to 3", |settings, flag, value| {
        settings.latent_mode = Some(flag.whole(value)?);
        Ok(())
    };
}

impl Flag {
    /// The flag of a name or alias.
    pub fn named(name: &str) -> Option<&'static Flag> {
        FLAGS.iter().find(|flag| flag.name == name || flag.aliases.contains(&name))
    }

    /// Whether it takes no value.
    pub fn is_switch(&self) -> bool {
        self.value_name.is_empty()
    }

    /// Sets it.
    ///
    /// # Errors
    /// If it does not take this value.
    pub fn set(&self, settings: &mut Settings, value: &str) -> Result<(), ServeError> {
        (self.set)(settings, self, value.trim())?;
        let value = if self.is_switch() { "true" } else { value.trim() };
        settings.said.retain(|(name, _)| *name != self.name);
        settings.said.push((self.name, value.to_owned()));
        Ok(())
    }

    fn bad(&self, value: &str, expected: &'static str) -> ServeError {
        ServeError::BadValue { name: self.name, value: short(value), expected }
    }

    /// A whole number from 1, also as in `8k` and `1M`: `k` is 1000 and `K` 1024, as vLLM reads them.
    fn count(&self, value: &str) -> Result<u64, ServeError> {
        let (digits, times) = match value.char_indices().next_back() {
            Some((at, 'k')) => (&value[..at], 1000),
            Some((at, 'K')) => (&value[..at], 1024),
            Some((at, 'm')) => (&value[..at], 1_000_000),
            Some((at, 'M')) => (&value[..at], 1 << 20),
            _ => (value, 1),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(times));
        number
            .filter(|number| (1..=MOST).contains(number))
            .ok_or_else(|| self.bad(value, "a whole number from 1 to 4,294,967,296"))
    }

    fn whole(&self, value: &str) -> Result<u64, ServeError> {
        value.parse().ok().filter(|number| *number <= MOST).ok_or_else(|| self.bad(value, "a whole number from 0"))
    }

    fn share(&self, value: &str) -> Result<f64, ServeError> {
        let share = value.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
        share.ok_or_else(|| self.bad(value, "a share above 0 and up to 1"))
    }

    fn size(&self, value: &str) -> Result<u64, ServeError> {
        let bytes = value.parse::<u64>().ok().or_else(|| highwater_units::parse_size(value).ok());
        bytes.filter(|bytes| (1..=1 << 50).contains(bytes)).ok_or_else(|| self.bad(value, "a size such as `20GiB`"))
    }

    /// The numbers of `{"image": 2, "video": {"count": 1}}`, or of `image=2,video=1` as older releases take them.
    fn limits(&self, value: &str) -> Result<Vec<u64>, ServeError> {
        let number = |value: &Value| value.as_u64().or_else(|| value.get("count").and_then(Value::as_u64));
        let limits = match serde_json::from_str::<Map<String, Value>>(value) {
            Ok(map) => map.values().map(number).collect::<Option<Vec<u64>>>(),
            Err(_) => {
                let pairs = value.split(',').map(|pair| pair.split_once('='));
                pairs.map(|pair| pair.and_then(|(_, count)| count.trim().parse().ok())).collect()
            }
        };
        let limits = limits.filter(|limits| !limits.is_empty());
        limits.ok_or_else(|| self.bad(value, "JSON such as `{\"image\": 2, \"video\": 0}`"))
    }

    fn is_on(&self, value: &str) -> Result<bool, ServeError> {
        match value {
            "" | "true" | "True" | "1" | "on" => Ok(true),
            "false" | "False" | "0" | "off" => Ok(false),
            _ => Err(self.bad(value, "on or off")),
        }
    }

    fn cache_type(&self, value: &str) -> Result<CacheType, ServeError> {
        CacheType::named(value).ok_or_else(|| self.bad(value, "a known cache type, such as auto, fp8, f16, q8_0, q4_0"))
    }
}

impl Settings {
    /// Takes the engine's flags, without dashes, and `lengths` out of the options of a JSON request.
    ///
    /// # Errors
    /// The first flag with a value that it does not take.
    pub fn take(options: &mut Map<String, Value>) -> Result<Settings, ServeError> {
        let mut settings = Settings::default();
        if let Some(lengths) = options.remove("lengths") {
            let lengths = lengths.as_array().into_iter().flatten().filter_map(Value::as_u64);
            settings.lengths = lengths.filter(|length| (1..=MOST).contains(length)).take(MOST_LENGTHS).collect();
        }
        let mut rest = Map::new();
        for (name, value) in std::mem::take(options) {
            match Flag::named(&name) {
                None => {
                    rest.insert(name, value);
                }
                Some(flag) if value.is_null() || flag.is_switch() && value == Value::Bool(false) => {}
                Some(flag) => {
                    flag.set(&mut settings, &value.as_str().map_or_else(|| value.to_string(), str::to_owned))?;
                }
            }
        }
        *options = rest;
        Ok(settings)
    }

    /// Checks that the engine has these flags, and that they do not contradict each other.
    ///
    /// # Errors
    /// The first flag that it does not have, or two that exclude each other.
    pub fn check(&self, release: &Release) -> Result<(), ServeError> {
        if release.is_v0 == Some(true) && release.version >= V0_UNTIL {
            return Err(ServeError::NoV0(release.version_text()));
        }
        for (name, _) in &self.said {
            let Some(flag) = Flag::named(name) else { continue };
            if !flag.engines.contains(&release.engine) {
                let instead = same_in(release.engine, name);
                return Err(ServeError::NotOfEngine { engine: release.engine, name: flag.name, instead });
            }
            if let Some(since) = flag.since.filter(|since| release.engine == Engine::Vllm && release.version < *since) {
                let version = release.version_text();
                return Err(ServeError::NotYet {
                    engine: release.engine,
                    version,
                    name: flag.name,
                    since: since.to_string(),
                });
            }
        }
        for (name, ranks) in [("tensor-parallel-size", self.tp()), ("pipeline-parallel-size", self.pp())] {
            if ranks > MOST_RANKS {
                return Err(ServeError::BadValue { name, value: ranks.to_string(), expected: "at most 256 ranks" });
            }
        }
        for (one, other) in [
            ("enable-prefix-caching", "no-enable-prefix-caching"),
            ("enable-chunked-prefill", "no-enable-chunked-prefill"),
            ("enforce-eager", "cuda-graph-max-bs"),
            ("disable-cuda-graph", "cuda-graph-max-bs"),
        ] {
            if self.is_said(one) && self.is_said(other) {
                return Err(ServeError::Both(one, other));
            }
        }
        let is_quantised = matches!(self.value_type, Some(CacheType::Packed(_)));
        if release.engine == Engine::LlamaCpp && is_quantised && self.flash == Some(false) {
            return Err(ServeError::Both("cache-type-v", "flash-attn off"));
        }
        Ok(())
    }

    fn is_said(&self, flag: &str) -> bool {
        self.said.iter().any(|(name, _)| *name == flag)
    }

    /// The GPU: the one that was named, else one of `--gpu-memory`, else the usual one.
    ///
    /// # Errors
    /// If the GPU is unknown.
    pub fn gpu(&self, named: Option<&str>) -> Result<CardOrSize, NeitherCardNorSize> {
        match (named, self.total_bytes) {
            (Some(named), _) => CardOrSize::parse(named),
            (None, Some(bytes)) => Ok(CardOrSize::Bytes(bytes)),
            (None, None) => CardOrSize::parse(DEFAULT_CARD),
        }
    }

    /// Tensor-parallel ranks.
    pub fn tp(&self) -> u64 {
        self.tensor.unwrap_or(1).max(1)
    }

    /// Pipeline stages.
    pub fn pp(&self) -> u64 {
        self.pipeline.unwrap_or(1).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_means_two_flags() {
        let mut names: Vec<&str> =
            FLAGS.iter().flat_map(|flag| flag.aliases.iter().copied().chain([flag.name])).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |name: &str, value: &str| {
            Flag::named(name).unwrap().set(&mut Settings::default(), value).unwrap_err().to_string()
        };
        assert_eq!(
            refused("gpu-memory-utilization", "1.5"),
            "`--gpu-memory-utilization 1.5` is not a share above 0 and up to 1"
        );
        assert!(refused("gpu-memory-utilization", "NaN").contains("NaN"));
        assert!(refused("max-model-len", "0").contains("whole number"));
        assert!(refused("max-model-len", "99999999999M").contains("whole number"));
        assert!(refused("kv-cache-dtype", "int3").contains("cache type"));
    }

    #[test]
    fn an_engine_without_the_flag_names_its_own() {
        let mut settings = Settings::default();
        Flag::named("mem-fraction-static").unwrap().set(&mut settings, "0.8").unwrap();
        let refused = settings.check(&Release::parse("vllm").unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "vllm does not have `--mem-fraction-static`");
        assert_eq!(highwater_problem::Explained::hint(&refused).unwrap(), "use `--gpu-memory-utilization`");
        let mut settings = Settings::default();
        Flag::named("dcp").unwrap().set(&mut settings, "8").unwrap();
        let refused = settings.check(&Release::parse("vllm@0.8.5").unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "vllm 0.8.5 does not have `--decode-context-parallel-size`: 0.10.2 added it");
        let mut settings = Settings::default();
        Flag::named("kv-cache-memory-bytes").unwrap().set(&mut settings, "10GiB").unwrap();
        assert!(settings.check(&Release::parse("vllm@0.10.2").unwrap()).is_ok());
        let refused = settings.check(&Release::parse("vllm@0.6.4").unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "vllm 0.6.4 does not have `--kv-cache-memory-bytes`: 0.10.2 added it");
    }

    /// llama.cpp: "V cache quantization requires `flash_attn`".
    #[test]
    fn packed_values_without_flash_attention_are_refused() {
        let mut settings = Settings::default();
        Flag::named("cache-type-v").unwrap().set(&mut settings, "q4_0").unwrap();
        let release = Release::parse("llama.cpp").unwrap();
        assert!(settings.check(&release).is_ok());
        Flag::named("flash-attn").unwrap().set(&mut settings, "off").unwrap();
        let refused = settings.check(&release).unwrap_err();
        assert_eq!(refused.to_string(), "`--cache-type-v` and `--flash-attn off` contradict each other");
    }

    /// The list in `docs/serve.md` is this one.
    #[test]
    fn the_documentation_lists_every_flag() {
        let row = |flag: &Flag| {
            let value = match flag.value_name {
                "" => "–".to_owned(),
                name => format!("`{}`", name.replace('|', "\\|")),
            };
            let engines = match flag.engines.len() {
                4 => "all".to_owned(),
                _ => {
                    let name = |engine: &Engine| match engine {
                        Engine::Vllm => "vLLM",
                        Engine::Sglang => "SGLang",
                        Engine::LlamaCpp => "llama.cpp",
                        Engine::Transformers => "transformers",
                    };
                    flag.engines.iter().map(name).collect::<Vec<_>>().join(", ")
                }
            };
            format!("| `--{}` | {value} | {engines} | {} |\n", flag.name, flag.help)
        };
        let table: String = FLAGS.iter().map(row).collect();
        assert!(include_str!("../../../docs/serve.md").contains(&table), "docs/serve.md lacks this table:\n{table}");
    }
}
