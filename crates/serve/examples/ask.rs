//! Answers questions that are lines of JSON on standard input: for `benches/serving.py`, without the program around the arithmetic.

use std::io::{BufRead as _, Write as _};

use highwater_driver::CardOrSize;
use highwater_serve::{Flag, Loading, Model, Question, Release, Settings};
use serde_json::{Value, json};

fn answer(question: &Value) -> Result<Value, String> {
    let text = |name: &str| question[name].as_str().unwrap_or_default();
    let config = match question["config"]["base"].as_str() {
        None => question["config"].clone(),
        Some(base) => {
            let (_, mut config) = highwater_estimate::read::configuration(base).ok_or("no such base")?;
            for (name, value) in question["config"].as_object().ok_or("no config")? {
                config[name.as_str()] = value.clone();
            }
            config
        }
    };
    let mut settings = Settings::default();
    for (name, value) in question["flags"].as_object().into_iter().flatten() {
        let flag = Flag::named(name).ok_or_else(|| format!("no flag {name}"))?;
        flag.set(&mut settings, value.as_str().unwrap_or_default()).map_err(|error| error.to_string())?;
    }
    // The cache that a log prints is also given to releases without a flag for it.
    settings.said.retain(|(name, _)| *name != "kv-cache-memory-bytes");
    settings.flashinfer_sampler =
        question["environment"]["VLLM_USE_FLASHINFER_SAMPLER"].as_str().map(|value| value != "0");
    let loading = Loading { dtype: None, quantization: settings.quantization.as_deref() };
    let release = Release::parse(text("serve")).map_err(|error| error.to_string())?;
    let model = Model::read(text("name"), &config, loading).map_err(|error| error.to_string())?;
    let gpu = CardOrSize::parse(text("gpu")).map_err(|error| error.to_string())?;
    let asked = Question { release, model: &model, gpu, settings };
    let answer = asked.answer_with_changes().map_err(|error| error.to_string())?;
    serde_json::to_value(&answer).map_err(|error| error.to_string())
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let question: Value = serde_json::from_str(&line?)?;
        let answer = answer(&question).unwrap_or_else(|error| json!({ "error": error }));
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
