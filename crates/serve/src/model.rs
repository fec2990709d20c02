//! A model as an engine holds it: each layer's cache, its weights, and the sizes that the profile run depends on. All
//! of it is `highwater-estimate`'s reading of the configuration, seen from the engine's side.

use highwater_estimate::read::{Counted, Model as Described, configuration, from_config_value};
use highwater_estimate::{Architecture, Body, DType, LayerCache, ServedVision, weights};
use serde_json::{Value, json};

use crate::arithmetic::{product, ratio, share};
use crate::error::ServeError;
use crate::weights::{Part, Weight, WeightList};

/// A model, as far as serving goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Its family, by the name of the module of transformers.
    pub family: &'static str,
    /// The configuration's `model_type`.
    pub kind: String,
    /// Vocabulary.
    pub vocab: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Width of the widest MLP that a token goes through.
    pub intermediate: u64,
    /// Experts.
    pub experts: u64,
    /// Experts that a token goes to, and their width; 0 for none.
    pub routed: (u64, u64),
    /// Query heads.
    pub heads: u64,
    /// Each layer's cache.
    pub layers: Vec<LayerCache>,
    /// The same in an engine where no layer uses the keys and values of an earlier one.
    pub own_layers: Vec<LayerCache>,
    /// Layers that predict tokens after the next, for a drafter.
    pub predicting_layers: u64,
    /// The longest sequence that the configuration allows.
    pub max_positions: Option<u64>,
    /// Rotations that are stretched over longer sequences.
    pub stretch: Option<Stretch>,
    /// Bytes of a number of the type that the model is computed in.
    pub element_bytes: u64,
    /// Bytes of a number of a recurrent state.
    pub state_bytes: u64,
    /// Bytes of the table of rotations that an engine keeps: positions × rotated part × element.
    pub rotary_bytes: u64,
    /// An encoder of images or sound stands before the language model.
    pub has_encoder: bool,
    /// The encoder of images.
    pub vision: Option<ServedVision>,
    /// The weights, part by part.
    pub weights: WeightList,
    /// A name for the quantisation, empty for none.
    pub quantisation: String,
    /// Taken where the configuration does not say.
    pub assumed: Vec<String>,
}

/// Rotary embeddings that reach further than they were trained for.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// The method, as in `yarn`, `longrope`, `linear`.
    pub method: String,
    /// By how much; 1 where the configuration does not say.
    pub factor: f64,
    /// The longest sequence of the training.
    pub original: Option<u64>,
}

impl Stretch {
    /// From `rope_scaling`, or from `rope_parameters`, which newer configurations have for each type of layer.
    fn read(value: &Value) -> Option<Self> {
        let own = value.as_object()?;
        let method = ["rope_type", "type"].iter().find_map(|name| own.get(*name)?.as_str());
        let Some(method) = method else { return own.values().find_map(Self::read) };
        (method != "default").then(|| Stretch {
            method: method.to_owned(),
            factor: own
                .get("factor")
                .and_then(Value::as_f64)
                .filter(|factor| factor.is_finite() && *factor > 0.0)
                .unwrap_or(1.0),
            original: own.get("original_max_position_embeddings").and_then(Value::as_u64),
        })
    }
}

/// The type that an engine computes in.
///
/// # Source
/// vLLM, `vllm/config/model.py`, `_get_and_verify_dtype`: `auto` takes the checkpoint's own type, and 16 bits for
/// float32.
///
/// # Errors
/// If engines do not compute in it.
pub(crate) fn element_bytes(dtype: Option<&str>) -> Result<u64, ServeError> {
    match dtype {
        None | Some("auto" | "half" | "float16" | "bfloat16") => Ok(2),
        Some("float" | "float32") => Ok(4),
        Some(other) => Err(ServeError::BadValue {
            name: "dtype",
            value: crate::version::short(other),
            expected: "auto, float16, bfloat16 or float32",
        }),
    }
}

/// How an engine loads the weights, where its flags say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loading<'a> {
    /// `--dtype`.
    pub dtype: Option<&'a str>,
    /// `--quantization`.
    pub quantization: Option<&'a str>,
}

/// A configuration as it is with `--quantization`.
///
/// # Source
/// vLLM, `vllm/config/model.py`, `_verify_quantization` (a checkpoint's own method must be the same),
/// `layers/quantization/fp8.py` (an unquantised checkpoint is cast, but for the head),
/// `layers/quantization/bitsandbytes.py` (nf4 without double quantisation).
fn quantized(config: &Value, method: Option<&str>) -> Result<Value, ServeError> {
    // Kernels and spellings of one method.
    let plain = |method: &str| {
        let method = method.to_ascii_lowercase().replace('_', "-");
        match method.as_str() {
            "gptq-marlin" | "moe-wna16" | "gptq-bitblas" => "gptq".to_owned(),
            "awq-marlin" => "awq".to_owned(),
            "inc" => "auto-round".to_owned(),
            "modelopt-fp4" | "modelopt-mixed" => "modelopt".to_owned(),
            _ => method,
        }
    };
    let Some(wanted) = method.map(plain).filter(|method| method != "none") else { return Ok(config.clone()) };
    let own = config.get("quantization_config").and_then(|own| own.get("quant_method")).and_then(Value::as_str);
    let own = own.map(plain);
    let said = crate::version::short(method.unwrap_or_default());
    match own {
        Some(own) if own == wanted || own == "awq" && said == "moe_wna16" => return Ok(config.clone()),
        Some(own) => return Err(ServeError::OtherQuantization(said, crate::version::short(&own))),
        None => {}
    }
    let quantization = match wanted.as_str() {
        "fp8" => json!({"quant_method": "fp8", "activation_scheme": "dynamic", "modules_to_not_convert": ["lm_head"]}),
        "bitsandbytes" => json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": false}),
        _ => return Err(ServeError::NotQuantized(said)),
    };
    let mut config = config.clone();
    if let Some(map) = config.as_object_mut() {
        map.insert("quantization_config".to_owned(), quantization);
    }
    Ok(config)
}

/// How many times the positions of the model its table of rotations has: four where positions have three axes, for the
/// length of videos.
///
/// # Source
/// vLLM 0.7 to 0.24, `MRotaryEmbedding`: `cache_max_position_num`. Qwen3.5 9B and Qwen2.5-VL 7B print 0.1 GiB more
/// than their weights.
fn positions_of_table(kind: &str) -> u64 {
    let has_axes =
        ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v"].iter().any(|family| kind.starts_with(family));
    if has_axes { 4 } else { 1 }
}

impl Model {
    /// Reads a configuration as the engine loads it.
    ///
    /// # Errors
    /// If a size is missing or nonsense, the quantisation is unknown or another than the flag's, or the model
    /// generates no text.
    pub fn read(name: &str, config: &Value, loading: Loading<'_>) -> Result<Model, ServeError> {
        let element_bytes = element_bytes(loading.dtype)?;
        let config = quantized(config, loading.quantization)?;
        let architecture = from_config_value(&config).map_err(ServeError::Model)?;
        Self::of(name, &architecture, &config, element_bytes)
    }

    /// Reads a model of the catalogue, or of its files.
    ///
    /// # Errors
    /// As [`Model::read`]; if there is no such name, or no configuration beside the weights.
    pub fn described(model: &Described, loading: Loading<'_>) -> Result<Model, ServeError> {
        let files = match model {
            Described::Named(name) => {
                let unknown = || ServeError::UnknownModel(crate::version::short(name));
                let (known, config) = configuration(name).ok_or_else(unknown)?;
                return Self::read(known, &config, loading);
            }
            Described::Described(files) => files,
        };
        let kind = |config: &Value| config.get("model_type").and_then(Value::as_str).map(str::to_owned);
        let config =
            files.config.as_ref().ok_or_else(|| ServeError::NoConfig(files.name.clone().unwrap_or_default()))?;
        let name = files.name.clone().or_else(|| kind(config)).unwrap_or_else(|| "model".to_owned());
        let mut model = Self::read(&name, config, loading)?;
        if let Some(counted) = &files.counted {
            if files.is_gguf && counted.bytes == 0 && counted.parameters > 0 {
                return Err(ServeError::Config(format!(
                    "`{name}` has tensors of an unknown type: its weights cannot be counted"
                )));
            }
            model.weigh(counted, files.is_gguf, loading);
        }
        Ok(model)
    }

    /// Takes the weights' bytes from the header of their files, layer by layer, where the engine loads them as they
    /// are.
    fn weigh(&mut self, counted: &Counted, is_gguf: bool, loading: Loading<'_>) {
        let is_cast = self.element_bytes == 4 || counted.dtype == Some(DType::Float32) && !is_gguf;
        if counted.bytes == 0 || counted.layers.is_empty() || loading.quantization.is_some() || is_cast {
            return;
        }
        let in_layers = counted.layers.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let stored = |weight: &Weight| weight.part != Part::Absorbed;
        let sum = |layer: Option<u32>, list: &WeightList| {
            list.iter()
                .filter(|weight| weight.layer == layer && stored(weight))
                .fold(0, |sum: u64, weight| sum.saturating_add(weight.bytes))
        };
        let layers = counted.layers.iter().zip(0_u32..).map(|(bytes, layer)| (Some(layer), *bytes));
        let rest = (None, counted.bytes.saturating_sub(in_layers));
        for (layer, bytes) in layers.chain([rest]) {
            let times = ratio(bytes, sum(layer, &self.weights));
            for weight in self.weights.iter_mut().filter(|weight| weight.layer == layer && stored(weight)) {
                weight.bytes = share(weight.bytes, times);
            }
        }
        if is_gguf {
            "GGUF".clone_into(&mut self.quantisation);
        }
        self.assumed.push("the weights' bytes are those of the files' headers".to_owned());
    }

    fn of(name: &str, architecture: &Architecture, config: &Value, element_bytes: u64) -> Result<Model, ServeError> {
        if let Body::Unknown(_) = &architecture.body {
            return Err(ServeError::Config(format!(
                "the layers of `{}` are unknown: the cache cannot be computed",
                crate::version::short(&architecture.name)
            )));
        }
        let unserved = || {
            ServeError::Config(format!("`{name}` generates no text and keeps no cache: engines' budgets do not apply"))
        };
        let shape = architecture.served().ok_or_else(unserved)?;
        let dtype = if element_bytes == 4 { DType::Float32 } else { DType::BFloat16 };
        let kv_heads = shape.layers.iter().find_map(|layer| match layer.cache {
            LayerCache::Full { kv_heads, .. }
            | LayerCache::Window { kv_heads, .. }
            | LayerCache::Beside { kv_heads, .. }
            | LayerCache::Indexed { kv_heads, .. } => Some(kv_heads),
            _ => None,
        });
        let mut list = WeightList::new();
        for weight in weights(architecture, dtype).unwrap_or_default().iter().filter(|weight| !weight.is_tied) {
            list.push(Weight::of(weight, kv_heads));
            // The up-projection of latent attention is kept a second time, in the halves that are multiplied into queries and outputs.
            if weight.module.ends_with(".kv_b_proj") {
                let twice = list.last().copied().map(|first| Weight {
                    part: Part::Absorbed,
                    bytes: product([first.sides.0, first.sides.1, element_bytes]),
                    sides: (0, 0),
                    ..first
                });
                list.extend(twice);
            }
        }
        let mut assumed = architecture.assumptions.clone();
        if element_bytes == 2 && architecture.dtype == Some(DType::Float32) {
            assumed.push("the checkpoint's float32 is loaded in 16 bits, the engines' default".to_owned());
        }
        let text = ["text_config", "llm_config", "language_config"].iter().find_map(|name| config.get(*name));
        let field = |name: &str| text.and_then(|text| text.get(name)).or_else(|| config.get(name));
        let state_is_wide = ["mamba_ssm_dtype", "mamba_ssm_cache_dtype"]
            .iter()
            .any(|name| field(name).and_then(Value::as_str) == Some("float32"));
        let predicting = ["num_nextn_predict_layers", "mtp_num_hidden_layers"]
            .iter()
            .find_map(|name| field(name).and_then(Value::as_u64));
        let kind = config.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let positions = product([shape.max_positions.unwrap_or(0), positions_of_table(&kind)]);
        Ok(Model {
            name: name.to_owned(),
            family: architecture.family,
            kind,
            vocab: shape.vocab,
            hidden: shape.hidden,
            intermediate: shape.intermediate,
            experts: shape.experts.map_or(0, |experts| experts.count),
            routed: shape.experts.map_or((0, 0), |experts| (experts.per_token, experts.intermediate)),
            heads: shape.heads,
            predicting_layers: predicting.unwrap_or(1).clamp(1, 16),
            layers: shape.layers.iter().map(|layer| layer.cache).collect(),
            own_layers: shape.layers.iter().map(|layer| layer.own).collect(),
            max_positions: shape.max_positions,
            stretch: ["rope_parameters", "rope_scaling"].iter().find_map(|name| Stretch::read(field(name)?)),
            rotary_bytes: product([positions, shape.rotary_dim, element_bytes]),
            element_bytes,
            state_bytes: if state_is_wide { 4 } else { element_bytes },
            has_encoder: ["vision_config", "audio_config"]
                .iter()
                .any(|name| config.get(*name).is_some_and(Value::is_object)),
            vision: shape.vision,
            weights: list,
            quantisation: architecture.quantization.as_ref().map(|own| own.label.clone()).unwrap_or_default(),
            assumed,
        })
    }

    /// Bytes of the weights of a part, on all ranks together.
    pub fn weights_of(&self, part: Part) -> u64 {
        self.weights.iter().filter(|weight| weight.part == part).fold(0, |sum, weight| sum.saturating_add(weight.bytes))
    }
}
