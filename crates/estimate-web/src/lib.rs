//! The estimate for the calculator in the browser: the same functions as behind `highwater estimate`, with JSON on both sides.
//!
//! As WebAssembly it imports nothing, so it cannot ask anybody for anything. `exports` is how the page calls it.

mod exports;

use std::fmt::Display;

use highwater_documents::estimate::EstimateView;
use highwater_documents::serve::ServeView;
use highwater_driver::CARDS;
use highwater_estimate::read::{Model, catalogue_names, describe};
use highwater_estimate::{Request, options_view};
use highwater_problem::Problem;
use highwater_serve::{CacheType, Engine, Loading, Question, Release, Settings, first_flags};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use exports::*;

fn malformed(what: &str, why: impl Display) -> Problem {
    Problem::new(format!("the {what} cannot be read")).because(why)
}

/// Answers a request.
///
/// The request is a JSON object of the options of `highwater estimate`, without their dashes: see [`Request::from_json`]. `model` is a name of the catalogue, or what [`described`] gave for a file; with `"fit": true` the answer says what to
/// change to fit the card of `gpu`. The answer is the document of `highwater estimate --format json`, or an object with
/// `error`, `causes` and `hint`.
pub fn answered(request: &[u8]) -> String {
    text(document(request))
}

/// Takes the model out of a request.
fn model_in(options: &mut Map<String, Value>) -> Result<Model, Problem> {
    serde_json::from_value(options.remove("model").unwrap_or_default())
        .map_err(|_| malformed("model", "it is neither a name nor what a file says"))
}

fn document(request: &[u8]) -> Result<EstimateView, Problem> {
    let mut options: Map<String, Value> =
        serde_json::from_slice(request).map_err(|error| malformed("request", error))?;
    let model = model_in(&mut options)?;
    let is_to_fit = options.remove("fit") == Some(Value::Bool(true));
    let request = Request::from_json(&options)?;
    let architecture = model.architecture()?;
    let setup = request.setup(&architecture)?;
    let document = EstimateView::new(&architecture, &setup)?;
    Ok(if is_to_fit { document.fitted(&architecture, &setup, request.gpu.memory_bytes) } else { document })
}

/// Answers a question about serving.
///
/// The question is a JSON object: `model` as in [`answered`], `serve` the engine with its release, `gpu`, `dtype`, the engine's flags
/// without their dashes, and `lengths` for the curve of requests. The answer is the document of `highwater estimate --serve ENGINE
/// --format json`, or an object with `error`, `causes` and `hint`.
pub fn served(question: &[u8]) -> String {
    text(serve_document(question))
}

fn serve_document(question: &[u8]) -> Result<ServeView, Problem> {
    let mut options: Map<String, Value> =
        serde_json::from_slice(question).map_err(|error| malformed("question", error))?;
    let settings = Settings::take(&mut options)?;
    let described = model_in(&mut options)?;
    let word = |name: &str| options.get(name).and_then(Value::as_str);
    let loading = Loading { dtype: word("dtype"), quantization: settings.quantization.as_deref() };
    let model = highwater_serve::Model::described(&described, loading)?;
    let release = Release::parse(word("serve").unwrap_or("vllm"))?;
    let gpu = settings.gpu(word("gpu"))?;
    let question = Question { release, model: &model, gpu, settings };
    Ok(ServeView::new(question.answer_with_changes()?))
}

/// What a file says of its model: a `model` for requests, or an object with `error`, `causes` and `hint`.
///
/// `start` are as many of its first bytes as [`highwater_estimate::read::wanted_bytes`] says.
pub fn described(name: &str, start: &[u8], file_bytes: u64) -> String {
    text(describe(name, start, file_bytes).map_err(Problem::from))
}

/// What can be chosen: `models`, `cards`, the `options`, each with what it takes and how to ask for it, and the `engines` that serve,
/// each with the flags that people set first.
pub fn choices() -> String {
    let cards = CARDS
        .iter()
        .map(|card| json!({"name": card.key, "title": card.short_name(), "memory_bytes": card.memory_bytes}));
    let engines = Engine::ALL.into_iter().map(|(name, engine)| {
        let fields = first_flags(engine).map(
            |(label, flag)| json!({"name": flag.name, "label": label, "help": flag.help, "takes": flag.value_name}),
        );
        json!({"name": name, "title": engine.title(), "release": engine.usual().to_string(), "cache_types": CacheType::usual_names(engine),
            "fields": fields.collect::<Vec<_>>()})
    });
    let answer = json!({
        "models": catalogue_names().collect::<Vec<_>>(),
        "cards": cards.collect::<Vec<_>>(),
        "options": options_view(),
        "engines": engines.collect::<Vec<_>>(),
    });
    answer.to_string()
}

fn text(answer: Result<impl Serialize, Problem>) -> String {
    let text = match answer {
        Ok(answer) => serde_json::to_string(&answer),
        Err(problem) => serde_json::to_string(&problem),
    };
    // What is made of strings, numbers and lists of them is JSON.
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(request: &Value) -> Value {
        serde_json::from_str(&answered(request.to_string().as_bytes())).unwrap()
    }

    #[test]
    fn a_request_is_answered_with_the_document() {
        let document = answer(&json!({"model": "gpt2", "batch": 4, "seq": 512, "gpu": "t4", "fit": true}));
        assert_eq!(document["format"], "highwater-estimate");
        assert_eq!(document["setup"]["batch"], 4);
        assert_eq!(document["fit"]["limit_bytes"], document["cards"][2]["memory_bytes"]);
    }

    #[test]
    fn a_question_about_serving_is_answered_with_its_document() {
        let ask =
            |question: Value| -> Value { serde_json::from_str(&served(question.to_string().as_bytes())).unwrap() };
        let document =
            ask(json!({"model": "llama3.1-8b", "serve": "vllm@0.11.0", "gpu": "h100", "max-model-len": 16_000,
            "enforce-eager": false, "lengths": [4000, 8000]}));
        assert_eq!((&document["format"], &document["tokens"]), (&json!("highwater-serve"), &json!(420_928)));
        let curve = document["concurrency_at"].as_array().unwrap();
        assert_eq!(curve.iter().map(|point| point["tokens"].as_u64().unwrap()).collect::<Vec<_>>(), [4000, 8000]);
        let refused = ask(json!({"model": "llama3.1-8b", "serve": "tgi"}));
        assert_eq!(refused["error"], "unknown engine `tgi`");
        assert_eq!(ask(json!({"model": "wonder"}))["error"], "unknown model `wonder`");
    }

    #[test]
    fn bad_input_is_said_as_on_the_command_line() {
        let said = |request: Value| answer(&request)["error"].as_str().unwrap().to_owned();
        assert_eq!(said(json!({"model": "gpt2", "batch": 0})), "`--batch 0` is not between 1 and 4,294,967,296");
        assert_eq!(said(json!({"model": "wonder"})), "unknown model `wonder`");
        assert_eq!(
            said(json!({"model": {"config": {"hidden_size": -1}}})),
            "`config.json` does not describe a model that can be estimated"
        );
        assert_eq!(said(json!([])), "the request cannot be read");
        assert_eq!(said(json!({"batch": 1})), "the model cannot be read");
    }

    #[test]
    fn a_file_becomes_a_model() {
        let config = br#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}"#;
        let model: Value = serde_json::from_str(&described("config.json", config, config.len() as u64)).unwrap();
        assert_eq!(answer(&json!({"model": model}))["family"], "llama");
        let problem: Value = serde_json::from_str(&described("a.gguf", b"GG", 2)).unwrap();
        assert_eq!(problem["error"], "`a.gguf` is not a readable GGUF file");
        assert!(problem["causes"][0].as_str().unwrap().contains("ends within its header"));
    }
}
