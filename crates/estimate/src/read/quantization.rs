//! `quantization_config`, as the tools that quantise write it.
//!
//! # Source
//! transformers 5.17, `utils/quantization_config.py` and `quantizers/`; vLLM, `model_executor/layers/quantization/`; for packed
//! tensors the layouts of `AutoGPTQ` and `GPTQModel`, `AutoAWQ`, bitsandbytes 0.50, compressed-tensors 0.13, `ModelOpt` 0.40, HQQ 0.2.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::fields::{ConfigError, Fields};
use crate::quantization::{AtProduct, Beside, Format, Group, Kept, Pattern, Per, Quantization, Scope};

/// Methods that are understood, as a message lists them.
pub(super) const KNOWN: &str = "gptq, awq, auto-round, bitsandbytes, fp8, fbgemm_fp8, compressed-tensors, mxfp4, modelopt \
                                (FP8, NVFP4, MXFP8, W4A16 and W4A8 AWQ, mixed), hqq, eetq";

/// Only matrices of linear layers and of experts, the head's not.
const LAYERS: Scope = Scope { linear: true, experts: true, head: false, towers: true };

/// The same of the language model alone.
const LANGUAGE_LAYERS: Scope = Scope { towers: false, ..LAYERS };

fn scale(per: Per, bits: u64) -> Beside {
    Beside { what: Kept::Scale, per, bits }
}

fn zero_point(per: Per, bits: u64) -> Beside {
    Beside { what: Kept::ZeroPoint, per, bits }
}

fn index(per: Per, bits: u64) -> Beside {
    Beside { what: Kept::Index, per, bits }
}

/// A plan with defaults; the reader of a method sets the rest.
fn plan(method: &str, label: String, format: Format, scope: Scope) -> Quantization {
    Quantization {
        method: method.to_owned(),
        label,
        kv_cache: None,
        groups: vec![Group { targets: Vec::new(), format: Some(format) }],
        skipped: Vec::new(),
        scope,
        at_product: AtProduct::Fused,
    }
}

/// The quantisation in a configuration, if it has one.
///
/// # Errors
/// [`ConfigError::UnknownQuantization`] for a method that is not known, [`ConfigError::BadField`] for nonsense.
pub fn quantization(map: &Map<String, Value>) -> Result<Option<Quantization>, ConfigError> {
    let inner = ["text_config", "llm_config", "language_config", "thinker_config"]
        .iter()
        .filter_map(|name| map.get(*name).and_then(Value::as_object));
    let place = [map]
        .into_iter()
        .chain(inner)
        .find_map(|map| ["quantization_config", "compression_config"].iter().find_map(|name| map.get(*name)));
    let Some(value) = place.filter(|value| !value.is_null()) else { return Ok(None) };
    let Some(map) = value.as_object() else {
        return Err(ConfigError::BadField {
            field: "quantization_config".to_owned(),
            found: "no object".to_owned(),
            expected: "an object",
        });
    };
    if map.is_empty() {
        return Ok(None);
    }
    read(map).map(Some)
}

fn read(map: &Map<String, Value>) -> Result<Quantization, ConfigError> {
    let fields = Fields::new(map);
    let method = match fields.word(&["quant_method"])? {
        Some(method) => method.to_ascii_lowercase(),
        None if map.contains_key("config_groups") => "compressed-tensors".to_owned(),
        None if map.contains_key("quant_algo") => "modelopt".to_owned(),
        None if map.contains_key("load_in_4bit") || map.contains_key("load_in_8bit") => "bitsandbytes".to_owned(),
        None => return Err(ConfigError::UnknownQuantization("without a `quant_method`".to_owned())),
    };
    let mut found = match method.as_str() {
        "gptq" | "gptq_marlin" | "gptq_marlin_24" | "gptqmodel" => gptq(&fields)?,
        "awq" | "awq_marlin" | "llm-awq" => awq(&fields)?,
        "auto-round" | "auto_round" | "intel/auto-round" | "inc" => auto_round(&fields)?,
        "bitsandbytes" | "bitsandbytes_4bit" | "bitsandbytes_8bit" => bitsandbytes(&fields)?,
        "fp8" | "fbgemm_fp8" => fp8(&method, &fields)?,
        "compressed-tensors" | "compressed_tensors" | "sparseml" => compressed(&fields)?,
        "mxfp4" | "gpt_oss_mxfp4" => mxfp4(),
        "modelopt" | "modelopt_fp4" | "modelopt_mxfp8" | "modelopt_mixed" | "nvfp4" => modelopt(&fields)?,
        "hqq" => hqq(&fields)?,
        "eetq" => {
            let format = Format { bits: 8, word: 8, beside: vec![scale(Per::Output, 16)] };
            plan("eetq", "EETQ, 8 bits".to_owned(), format, LAYERS)
        }
        other => return Err(ConfigError::UnknownQuantization(format!("`{}`", shortened(other)))),
    };
    found.method = method;
    let lists = [
        "modules_to_not_convert",
        "llm_int8_skip_modules",
        "ignore",
        "exclude_modules",
        "ignored_layers",
        "skip_modules",
    ];
    for name in lists {
        found.skipped.extend(patterns(&fields, name)?);
    }
    found.kv_cache = kv_cache(map).or(found.kv_cache);
    Ok(found)
}

fn shortened(name: &str) -> String {
    name.chars().take(40).collect()
}

/// The type of the cache that the checkpoint comes with.
fn kv_cache(map: &Map<String, Value>) -> Option<String> {
    if let Some(word) = map.get("kv_cache_quant_algo").and_then(Value::as_str) {
        return Some(word.to_ascii_lowercase());
    }
    let scheme = map.get("kv_cache_scheme")?;
    if let Some(word) = scheme.as_str() {
        return Some(word.to_ascii_lowercase());
    }
    let bits = scheme.get("num_bits")?.as_u64()?;
    let kind = if scheme.get("type").and_then(Value::as_str) == Some("int") { "int" } else { "fp" };
    Some(format!("{kind}{bits}"))
}

/// A list of modules, each as a part of a name, a wildcard, or with `re:` an expression.
fn patterns(fields: &Fields<'_>, name: &str) -> Result<Vec<Pattern>, ConfigError> {
    let Some((_, value)) = fields.any(&[name]) else { return Ok(Vec::new()) };
    let bad = |found: &str| ConfigError::BadField {
        field: name.to_owned(),
        found: format!("`{}`", shortened(found)),
        expected: "a list of names of modules, with `*`, or expressions behind `re:`",
    };
    let list = match value {
        Value::Array(list) => list.clone(),
        Value::String(_) => vec![value.clone()],
        other => return Err(bad(&other.to_string())),
    };
    list.iter()
        .map(|item| {
            let text = item.as_str().ok_or_else(|| bad(&item.to_string()))?;
            pattern(text).ok_or_else(|| bad(text))
        })
        .collect()
}

fn pattern(text: &str) -> Option<Pattern> {
    match text.strip_prefix("re:") {
        Some(expression) => Pattern::expression(expression),
        None if text.contains(".*") && text.contains(['\\', '^', '$', '(', '[']) => Pattern::expression(text),
        None if text.contains(['*', '?']) => Some(Pattern::Wildcard(text.to_owned())),
        None => Some(Pattern::Part(text.to_owned())),
    }
}

/// Bits of a value: those that any tool packs.
fn bits(fields: &Fields<'_>, names: &[&str], default: u64) -> Result<u64, ConfigError> {
    match fields.any(names) {
        None => Ok(default),
        Some((name, value)) => {
            value.as_u64().filter(|bits| (1..=16).contains(bits)).ok_or_else(|| ConfigError::BadField {
                field: name.to_owned(),
                found: format!("`{}`", shortened(&value.to_string())),
                expected: "a number of bits from 1 to 16",
            })
        }
    }
}

/// Inputs that share a scale: all of an output's where it is -1 or missing.
fn group(fields: &Fields<'_>, names: &[&str], default: Option<u64>) -> Result<Per, ConfigError> {
    let size = match fields.any(names) {
        None => default,
        Some((_, value)) if value.as_i64() == Some(-1) => None,
        Some(_) => fields.count_if(names)?,
    };
    Ok(size.map_or(Per::Output, Per::Inputs))
}

fn in_groups(per: Per) -> String {
    match per {
        Per::Inputs(size) => format!("in groups of {size}"),
        _ => "a scale for each output".to_owned(),
    }
}

/// `qweight`, `qzeros` in as many bits, `scales` in 16, and `g_idx`: an index for each input.
fn gptq_format(bits: u64, per: Per, has_order: bool) -> Format {
    let mut beside = vec![scale(per, 16), zero_point(per, bits)];
    if has_order {
        beside.push(index(Per::Input, 32));
    }
    Format { bits, word: 32, beside }
}

fn gptq(fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    let own_bits = bits(fields, &["bits"], 4)?;
    let own = group(fields, &["group_size"], Some(128))?;
    let label = format!("GPTQ, {own_bits} bits, {}", in_groups(own));
    let mut found = plan("gptq", label, gptq_format(own_bits, own, true), LANGUAGE_LAYERS);
    found.scope.head = fields.flag(&["lm_head"], false)?;
    if let Some((name, value)) = fields.any(&["modules_in_block_to_quantize", "inside_layer_modules"]) {
        let names = value.as_array().into_iter().flatten().flat_map(|item| match item {
            Value::Array(inner) => inner.clone(),
            other => vec![other.clone()],
        });
        let targets: Option<Vec<Pattern>> = names.map(|name| name.as_str().and_then(pattern)).collect();
        let targets = targets.ok_or_else(|| ConfigError::BadField {
            field: name.to_owned(),
            found: format!("`{}`", shortened(&value.to_string())),
            expected: "lists of names of modules",
        })?;
        found.groups[0].targets = targets;
    }
    if let Some(dynamic) = fields.object("dynamic") {
        let mut first = Vec::new();
        for (key, settings) in dynamic {
            let (is_negative, expression) = match key.strip_prefix("-:") {
                Some(rest) => (true, rest),
                None => (false, key.strip_prefix("+:").unwrap_or(key)),
            };
            let target = Pattern::expression(expression).ok_or_else(|| ConfigError::BadField {
                field: "dynamic".to_owned(),
                found: format!("`{}`", shortened(key)),
                expected: "expressions that name modules",
            })?;
            if is_negative {
                found.skipped.push(target);
                continue;
            }
            let empty = Map::new();
            let inner = Fields::new(settings.as_object().unwrap_or(&empty));
            let per = match inner.any(&["group_size"]) {
                Some(_) => group(&inner, &["group_size"], None)?,
                None => own,
            };
            let format = Some(gptq_format(bits(&inner, &["bits"], own_bits)?, per, true));
            first.push(Group { targets: vec![target], format });
        }
        found.groups.splice(0..0, first);
    }
    Ok(found)
}

fn awq(fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    let bits = bits(fields, &["bits", "w_bit"], 4)?;
    let per = group(fields, &["group_size", "q_group_size"], Some(128))?;
    let format = Format { bits, word: 32, beside: vec![scale(per, 16), zero_point(per, bits)] };
    Ok(plan("awq", format!("AWQ, {bits} bits, {}", in_groups(per)), format, LANGUAGE_LAYERS))
}

fn auto_round(fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    let own_bits = bits(fields, &["bits"], 4)?;
    let per = group(fields, &["group_size"], Some(128))?;
    let packing = fields.word(&["packing_format"])?.unwrap_or("auto_round:auto_gptq");
    if packing.contains("fp") {
        return Err(ConfigError::UnknownQuantization(format!("`auto-round` packed as `{}`", shortened(packing))));
    }
    let label = format!("AutoRound, {own_bits} bits, {}", in_groups(per));
    let mut found = plan("auto-round", label, gptq_format(own_bits, per, false), LANGUAGE_LAYERS);
    if let Some(extra) = fields.object("extra_config") {
        for (name, settings) in extra {
            let empty = Map::new();
            let inner = Fields::new(settings.as_object().unwrap_or(&empty));
            let own = bits(&inner, &["bits"], own_bits)?;
            let format = (own < 16).then(|| gptq_format(own, per, false));
            found.groups.insert(0, Group { targets: vec![Pattern::Part(name.clone())], format });
        }
    }
    Ok(found)
}

/// # Source
/// bitsandbytes 0.50, `functional.py`, `quantize_4bit`: a scale for 64 values, with double quantisation in eight bits with one for
/// 256; `nn/modules.py`, `Int8Params`: a row's largest value (`SCB`) in float32.
fn bitsandbytes(fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    // Experts that are one tensor are no linear layers.
    let scope = Scope { experts: false, ..LAYERS };
    let is_four = fields.flag(&["load_in_4bit", "_load_in_4bit"], false)?;
    if !is_four && !fields.flag(&["load_in_8bit", "_load_in_8bit"], false)? {
        return Err(ConfigError::Contradiction(
            "`quantization_config` is of bitsandbytes, and neither `load_in_4bit` nor `load_in_8bit` is true"
                .to_owned(),
        ));
    }
    if !is_four {
        let format = Format { bits: 8, word: 8, beside: vec![scale(Per::Output, 32)] };
        return Ok(plan("bitsandbytes", "bitsandbytes, 8 bits".to_owned(), format, scope));
    }
    let kind = fields.word(&["bnb_4bit_quant_type"])?.unwrap_or("fp4");
    let is_double = fields.flag(&["bnb_4bit_use_double_quant"], false)?;
    let label = format!("bitsandbytes, {kind}{}", if is_double { ", scales quantised again" } else { "" });
    let mut found = plan("bitsandbytes", label, bits4(is_double), scope);
    found.at_product = AtProduct::MadeWhole;
    Ok(found)
}

/// The format of bitsandbytes in four bits.
pub(crate) fn bits4(is_double: bool) -> Format {
    let beside = if is_double {
        vec![scale(Per::Values(64), 8), scale(Per::Values(64 * 256), 32)]
    } else {
        vec![scale(Per::Values(64), 32)]
    };
    Format { bits: 4, word: 8, beside }
}

fn fp8(method: &str, fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    if method == "fbgemm_fp8" {
        let format = Format { bits: 8, word: 8, beside: vec![scale(Per::Output, 32)] };
        return Ok(plan(method, "FP8, a scale for each output".to_owned(), format, LAYERS));
    }
    let scheme = fields.word(&["activation_scheme"])?.unwrap_or("dynamic");
    let (per, label) = match fields.any(&["weight_block_size"]) {
        None => (Per::Matrix, format!("FP8, {scheme}, a scale for each matrix")),
        Some((name, value)) => match fields.numbers(&["weight_block_size"]).as_slice() {
            &[rows, columns] if rows > 0 && columns > 0 => {
                (Per::Block(rows, columns), format!("FP8, {scheme}, a scale for {rows} × {columns}"))
            }
            _ => {
                return Err(ConfigError::BadField {
                    field: name.to_owned(),
                    found: format!("`{}`", shortened(&value.to_string())),
                    expected: "two sizes, such as [128, 128]",
                });
            }
        },
    };
    let mut beside = vec![scale(per, 32)];
    if scheme == "static" {
        beside.push(scale(Per::Matrix, 32));
    }
    Ok(plan(method, label, Format { bits: 8, word: 8, beside }, LAYERS))
}

/// Blocks of 32 values of four bits that share an exponent of eight; of gpt-oss the experts only.
fn mxfp4() -> Quantization {
    let format = Format { bits: 4, word: 8, beside: vec![scale(Per::Inputs(32), 8)] };
    let scope = Scope { linear: false, experts: true, head: false, towers: false };
    plan("mxfp4", "MXFP4 for the experts".to_owned(), format, scope)
}

/// Blocks of 16 values of four bits with a scale in FP8, and scales of matrix and input in float32.
fn nvfp4(has_input_scale: bool) -> Format {
    let mut beside = vec![scale(Per::Inputs(16), 8), scale(Per::Matrix, 32)];
    if has_input_scale {
        beside.push(scale(Per::Matrix, 32));
    }
    Format { bits: 4, word: 8, beside }
}

fn modelopt(fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    let algorithm = fields.word(&["quant_algo"])?.unwrap_or_default().to_ascii_uppercase();
    if algorithm.is_empty() && fields.object("config_groups").is_some() {
        return compressed(fields);
    }
    if algorithm == "MIXED_PRECISION" {
        return mixed(fields);
    }
    let format = modelopt_format(&algorithm, fields)?;
    let mut found = plan("modelopt", format!("ModelOpt, {algorithm}"), format, LAYERS);
    found.skipped = modelopt_skipped(fields)?;
    found.kv_cache = fields.word(&["kv_cache_quant_algo"])?.map(str::to_ascii_lowercase);
    Ok(found)
}

/// What stays as it is: `exclude_modules` in a file of its own, `ignore` in the configuration.
fn modelopt_skipped(fields: &Fields<'_>) -> Result<Vec<Pattern>, ConfigError> {
    let mut skipped = patterns(fields, "exclude_modules")?;
    skipped.extend(patterns(fields, "ignore")?);
    Ok(skipped)
}

/// Layers by name, each with its algorithm.
fn mixed(fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    let layers = fields.object("quantized_layers").ok_or_else(|| ConfigError::BadField {
        field: "quantized_layers".to_owned(),
        found: "missing".to_owned(),
        expected: "modules with their `quant_algo`",
    })?;
    let mut groups: Vec<(String, Format, BTreeSet<String>)> = Vec::new();
    for (name, layer) in layers.iter().filter_map(|(name, layer)| Some((name, layer.as_object()?))) {
        let layer = Fields::new(layer);
        let algorithm = layer.word(&["quant_algo"])?.unwrap_or_default().to_ascii_uppercase();
        let format = modelopt_format(&algorithm, &layer)?;
        match groups.iter_mut().find(|(known, own, _)| *known == algorithm && *own == format) {
            Some((_, _, names)) => {
                names.insert(name.clone());
            }
            None => groups.push((algorithm, format, BTreeSet::from([name.clone()]))),
        }
    }
    let labels: Vec<&str> = groups.iter().map(|(algorithm, ..)| algorithm.as_str()).collect();
    let label = format!("ModelOpt, {}", labels.join(" and "));
    let first = Format { bits: 16, word: 8, beside: Vec::new() };
    let mut found = plan("modelopt", label, first, Scope { head: layers.contains_key("lm_head"), ..LAYERS });
    found.groups = groups
        .into_iter()
        .map(|(_, format, names)| Group { targets: vec![Pattern::Names(names)], format: Some(format) })
        .collect();
    found.skipped = modelopt_skipped(fields)?;
    found.kv_cache = fields.word(&["kv_cache_quant_algo"])?.map(str::to_ascii_lowercase);
    Ok(found)
}

fn modelopt_format(algorithm: &str, fields: &Fields<'_>) -> Result<Format, ConfigError> {
    let per = group(fields, &["group_size"], Some(128))?;
    Ok(match algorithm {
        "FP8" => Format { bits: 8, word: 8, beside: vec![scale(Per::Matrix, 32), scale(Per::Matrix, 32)] },
        "FP8_PER_CHANNEL_PER_TOKEN" => Format { bits: 8, word: 8, beside: vec![scale(Per::Output, 32)] },
        "FP8_PB_WO" | "FP8_PB_REAL" => Format { bits: 8, word: 8, beside: vec![scale(Per::Block(128, 128), 32)] },
        "NVFP4" | "NVFP4_AWQ" | "W4A4_NVFP4" => nvfp4(true),
        "W4A16_NVFP4" => nvfp4(false),
        "MXFP8" => Format { bits: 8, word: 8, beside: vec![scale(Per::Inputs(32), 8)] },
        "W4A16_AWQ" => Format { bits: 4, word: 8, beside: vec![scale(per, 16)] },
        "W4A8_AWQ" => {
            Format { bits: 4, word: 8, beside: vec![scale(per, 16), scale(Per::Matrix, 32), scale(Per::Matrix, 32)] }
        }
        other => return Err(ConfigError::UnknownQuantization(format!("`modelopt` with `{}`", shortened(other)))),
    })
}

fn hqq(fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    let outer = fields.object("quant_config").map(Fields::new);
    let settings = outer.as_ref().unwrap_or(fields);
    let inner = settings.object("weight_quant_params").map(Fields::new);
    let settings = inner.as_ref().unwrap_or(settings);
    let bits = bits(settings, &["nbits", "bits"], 4)?;
    let values = settings.count_if(&["group_size"])?.unwrap_or(64);
    let mut beside = vec![scale(Per::Values(values), 16), zero_point(Per::Values(values), 16)];
    if bits == 3 {
        // Ten values are packed into a word of 32 bits: two of them are lost.
        beside.push(index(Per::Values(10), 2));
    }
    let format = Format { bits, word: 8, beside };
    let mut found = plan("hqq", format!("HQQ, {bits} bits, in groups of {values}"), format, LANGUAGE_LAYERS);
    found.at_product = AtProduct::MadeWhole;
    found.skipped = patterns(fields, "skip_modules")?;
    Ok(found)
}

/// Groups of modules, each with a scheme for its weights.
fn compressed(fields: &Fields<'_>) -> Result<Quantization, ConfigError> {
    let overall = fields.word(&["format"])?.unwrap_or("pack-quantized");
    let groups = fields.object("config_groups").ok_or_else(|| ConfigError::BadField {
        field: "config_groups".to_owned(),
        found: "missing".to_owned(),
        expected: "groups of modules with their schemes",
    })?;
    let mut label = String::new();
    let mut read = Vec::new();
    for group in groups.values().filter_map(Value::as_object) {
        let inner = Fields::new(group);
        let targets = patterns(&inner, "targets")?;
        let own = inner.word(&["format"])?.unwrap_or(overall);
        let Some(weights) = inner.object("weights") else { continue };
        let (format, name) = scheme(&Fields::new(weights), inner.object("input_activations"), own)?;
        if label.is_empty() {
            label = format!("compressed-tensors, {name}");
        }
        // A class of modules is all of them.
        let is_class = |target: &Pattern| matches!(target, Pattern::Part(part) if matches!(part.as_str(), "Linear" | "FusedMoE" | "MoEGate"));
        let targets = if targets.iter().any(is_class) { Vec::new() } else { targets };
        read.push(Group { targets, format: Some(format) });
    }
    // Groups for named modules come before those for all.
    read.sort_by_key(|group| group.targets.is_empty());
    if read.is_empty() {
        return Err(ConfigError::UnknownQuantization("`compressed-tensors` without a scheme for weights".to_owned()));
    }
    let first = Format { bits: 16, word: 8, beside: Vec::new() };
    let mut found = plan("compressed-tensors", label, first, Scope { head: true, ..LAYERS });
    found.groups = read;
    found.at_product = AtProduct::MadeWhole;
    if !fields.words(&["ignore"]).unwrap_or_default().iter().any(|name| name.contains("lm_head")) {
        // A head is quantised only where a list leaves it in; the usual recipes do not target it.
        found.scope.head = found.groups.iter().any(|group| !group.targets.is_empty());
    }
    Ok(found)
}

fn scheme(
    weights: &Fields<'_>,
    inputs: Option<&Map<String, Value>>,
    format: &str,
) -> Result<(Format, String), ConfigError> {
    let bits = bits(weights, &["num_bits"], 8)?;
    let is_float = weights.word(&["type"])?.unwrap_or("int") == "float";
    let strategy = weights.word(&["strategy"])?.unwrap_or("tensor");
    let is_symmetric = weights.flag(&["symmetric"], true)?;
    let has_static_input = inputs.is_some_and(|inputs| {
        matches!(inputs.get("dynamic"), None | Some(Value::Bool(false) | Value::Null))
            || inputs.get("dynamic").and_then(Value::as_str) == Some("local")
    });
    let group_size = weights.count_if(&["group_size"])?;
    let kind = if is_float { format!("float{bits}") } else { format!("int{bits}") };
    if format.starts_with("nvfp4") || (is_float && bits == 4 && strategy == "tensor_group") {
        return Ok((nvfp4(has_static_input), "NVFP4".to_owned()));
    }
    if format.starts_with("mxfp4") || (is_float && bits == 4) {
        let per = Per::Inputs(group_size.unwrap_or(32));
        return Ok((Format { bits: 4, word: 8, beside: vec![scale(per, 8)] }, "MXFP4".to_owned()));
    }
    let per = match strategy {
        "tensor" => Per::Matrix,
        "channel" => Per::Output,
        "group" | "tensor_group" => Per::Inputs(group_size.unwrap_or(128)),
        "block" => match weights.numbers(&["block_structure"]).as_slice() {
            &[rows, columns] if rows > 0 && columns > 0 => Per::Block(rows, columns),
            _ => Per::Block(128, 128),
        },
        other => {
            return Err(ConfigError::UnknownQuantization(format!(
                "`compressed-tensors` with the strategy `{}`",
                shortened(other)
            )));
        }
    };
    let is_packed = matches!(format, "pack-quantized" | "mixed-precision" | "marlin-24") && !is_float && bits < 16;
    let scale_bits = if is_float && bits == 8 && matches!(per, Per::Matrix) { 32 } else { 16 };
    let mut beside = vec![scale(per, scale_bits)];
    if !is_symmetric {
        beside.push(zero_point(per, if is_packed { bits } else { 8 }));
    }
    if is_packed {
        // The shape before packing, as two numbers of 64 bits.
        beside.push(index(Per::Matrix, 128));
    }
    if weights.word(&["actorder"]).ok().flatten() == Some("group") {
        beside.push(index(Per::Input, 32));
    }
    if has_static_input && !is_packed {
        beside.push(scale(Per::Matrix, 32));
    }
    let word = if is_packed { 32 } else { 8 };
    let bits = if is_packed { bits } else { bits.max(8) };
    Ok((Format { bits, word, beside }, format!("{kind}, a scale for each {strategy}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::quantization::{Stored, WeightKind};

    #[expect(clippy::needless_pass_by_value, reason = "what `json!` makes, as it is written")]
    fn config(value: Value) -> Result<Option<Quantization>, ConfigError> {
        quantization(json!({"quantization_config": value}).as_object().unwrap())
    }

    fn stored(value: Value, module: &str, kind: WeightKind, shape: &[u64]) -> Stored {
        config(value).unwrap().unwrap().stored(module, kind, shape, 2)
    }

    const Q: &str = "model.layers.0.self_attn.q_proj";

    /// Bytes of the tensors of one layer of 4096 by 4096 as the tools save them.
    #[test]
    fn a_layer_takes_what_its_tensors_take() {
        let numbers = 4096 * 4096;
        let all = [
            // qweight, qzeros and scales of 32 groups, g_idx.
            (
                json!({"quant_method": "gptq", "bits": 4, "group_size": 128}),
                numbers / 2 + 32 * 4096 / 2 + 32 * 4096 * 2 + 4096 * 4,
            ),
            (json!({"quant_method": "gptq", "bits": 8, "group_size": -1}), numbers + 4096 + 4096 * 2 + 4096 * 4),
            (
                json!({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}),
                numbers / 2 + 32 * 4096 / 2 + 32 * 4096 * 2,
            ),
            (json!({"quant_method": "bitsandbytes", "load_in_8bit": true}), numbers + 4096 * 4),
            (json!({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}), numbers / 2 + numbers / 64 * 4),
            (
                json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true}),
                numbers / 2 + numbers / 64 + numbers / 64 / 256 * 4,
            ),
            (
                json!({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}),
                numbers + 32 * 32 * 4,
            ),
            (json!({"quant_method": "fp8", "activation_scheme": "static"}), numbers + 8),
            (
                json!({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}),
                numbers / 2 + numbers / 16 + 8,
            ),
            (
                json!({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}),
                numbers / 2 + numbers / 64 * 4,
            ),
            (
                json!({"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": true}}}}),
                numbers / 2 + 32 * 4096 * 2 + 16,
            ),
            (
                json!({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                    "input_activations": {"num_bits": 8, "type": "float", "dynamic": true}}}}),
                numbers + 4096 * 2,
            ),
        ];
        for (value, bytes) in all {
            let found = stored(value.clone(), Q, WeightKind::Linear, &[4096, 4096]);
            assert_eq!((found.bytes(), found.is_quantized), (bytes, true), "{value}");
            let norm = stored(value.clone(), "model.norm", WeightKind::Norm, &[4096]);
            assert_eq!(norm, Stored::plain(4096, 2), "{value}");
            let head = stored(value, "lm_head", WeightKind::Head, &[1000, 4096]);
            assert_eq!(head, Stored::plain(1000 * 4096, 2));
        }
    }

    #[test]
    fn mxfp4_takes_the_experts_alone() {
        let config = json!({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]});
        let experts =
            stored(config.clone(), "model.layers.0.mlp.experts.gate_up_proj", WeightKind::Experts, &[32, 5760, 2880]);
        assert_eq!(experts.bytes(), 32 * 5760 * 2880 * 17 / 32);
        assert!(!stored(config, Q, WeightKind::Linear, &[4096, 2880]).is_quantized);
    }

    #[test]
    fn lists_name_what_stays_as_it_is() {
        let left = |config: Value, module: &str| !stored(config, module, WeightKind::Linear, &[64, 64]).is_quantized;
        let fp8 = json!({"quant_method": "fp8", "modules_to_not_convert": ["visual", "model.layers.1.mlp.down_proj"]});
        assert!(left(fp8.clone(), "model.visual.blocks.0.attn.qkv"));
        assert!(left(fp8.clone(), "model.layers.1.mlp.down_proj"));
        assert!(left(fp8.clone(), "model.language_model.layers.1.mlp.down_proj"));
        assert!(!left(fp8, "model.layers.11.mlp.down_proj"));
        let dynamic = json!({"quant_method": "gptq", "bits": 4, "dynamic": {r"-:.*mlp\.shared_expert.*": {}, r"+:.*down_proj": {"bits": 8}}});
        assert!(left(dynamic.clone(), "model.layers.0.mlp.shared_expert.up_proj"));
        assert_eq!(stored(dynamic, "model.layers.0.mlp.down_proj", WeightKind::Linear, &[64, 128]).value_bits, 8);
        let ignore = json!({"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*", "lm_head"],
            "config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}});
        assert!(left(ignore.clone(), Q));
        assert!(!left(ignore, "model.layers.0.mlp.up_proj"));
    }

    /// As `ModelOpt` 0.45 writes it: Qwen3.6's language model under the prefix of a model that sees, Nemotron-H's with words of its own.
    #[test]
    fn a_mixed_checkpoint_gives_each_module_its_algorithm() {
        let layers = json!({"model.language_model.layers.1.linear_attn.out_proj": {"quant_algo": "FP8"},
            "model.language_model.layers.1.mlp.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
            "backbone.layers.3.mixer.experts.0.up_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16}});
        let mixed = json!({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "ignore": ["mtp*"], "quantized_layers": layers});
        let bits = |module: &str, kind| match kind {
            WeightKind::Experts => stored(mixed.clone(), module, kind, &[4, 64, 128]).value_bits,
            _ => stored(mixed.clone(), module, kind, &[64, 128]).value_bits,
        };
        assert_eq!(bits("model.layers.1.linear_attn.out_proj", WeightKind::Linear), 8);
        assert_eq!(bits("model.layers.1.mlp.experts.gate_up_proj", WeightKind::Experts), 4);
        assert_eq!(bits("model.layers.3.mlp.experts.up_proj", WeightKind::Experts), 4);
        assert_eq!(bits("model.layers.11.linear_attn.out_proj", WeightKind::Linear), 16);
        let left = json!({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.language_model.layers.1.mlp*"]});
        assert!(!stored(left, "model.layers.1.mlp.up_proj", WeightKind::Linear, &[64, 128]).is_quantized);
        let unnamed = config(json!({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}));
        assert!(unnamed.unwrap_err().to_string().contains("quantized_layers"));
    }

    #[test]
    fn an_unknown_method_is_refused_by_name() {
        let said = |value: Value| config(value).unwrap_err().to_string();
        assert_eq!(said(json!({"quant_method": "aqlm"})), "the quantisation `aqlm` is unknown");
        assert_eq!(said(json!({"bits": 4})), "the quantisation without a `quant_method` is unknown");
        assert_eq!(
            said(json!({"quant_method": "modelopt", "quant_algo": "X"})),
            "the quantisation `modelopt` with `X` is unknown"
        );
        assert!(said(json!({"quant_method": "gptq", "bits": 400})).contains("bits"));
        assert!(said(json!({"quant_method": "fp8", "weight_block_size": [0, 1]})).contains("weight_block_size"));
        assert!(
            said(json!({"quant_method": "compressed-tensors", "ignore": ["re:("], "config_groups": {}}))
                .contains("quantisation")
        );
        assert_eq!(config(Value::Null), Ok(None));
    }
}
