//! Whether an engine serves a model: from the words of a command line to the document.

use highwater_documents::serve::{GpuView, NeedView, ServeView, WayView};
use highwater_driver::{CARDS, Card, CardOrSize};
use highwater_estimate::read::{Model as Described, configuration};
use highwater_problem::Problem;
use highwater_serve::{Answer, Command, Model, Question, Release, ServeError, Settings};
use serde_json::Value;

/// Numbers of GPUs that are tried.
const COUNTS: [u64; 5] = [1, 2, 4, 8, 16];

/// What was asked.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The model; that of the pasted command line else.
    pub model: Option<String>,
    /// The engine and its release; that of the pasted command line else.
    pub engine: Option<String>,
    /// The GPU, where one was named.
    pub gpu: Option<String>,
    /// The type of the weights, where one was named.
    pub dtype: Option<String>,
    /// The engine's flags.
    pub settings: Settings,
    /// A pasted command line.
    pub command: Vec<String>,
    /// `32 requests of 8192 tokens`.
    pub need: Option<String>,
    /// GPUs for a table.
    pub fit: Vec<String>,
}

/// The answer.
///
/// # Errors
/// If the model, the engine, the GPU or a flag is unknown, or flags contradict each other.
pub fn answer(asked: Asked) -> Result<ServeView, Problem> {
    let mut settings = asked.settings;
    let command = Command::read(&asked.command, &mut settings)?;
    let release = release(asked.engine.as_deref(), &command)?;
    let name = asked.model.or(command.model).ok_or_else(|| {
        Problem::new("no model is named").hint("give its name, its directory or its `config.json` before the flags")
    })?;
    let model = served(&name)?;
    let gpu = match (&asked.gpu, settings.total_bytes) {
        (Some(gpu), _) => CardOrSize::parse(gpu)?,
        (None, Some(bytes)) => CardOrSize::Bytes(bytes),
        (None, None) => CardOrSize::parse(highwater_estimate::DEFAULT_CARD)?,
    };
    let question = Question { release, model: &model, gpu, settings };
    let mut answer = question.answer_with_changes()?;
    if asked.gpu.is_none() && question.settings.total_bytes.is_none() {
        answer.assumed.insert(0, format!("`--gpu` {}", highwater_estimate::DEFAULT_CARD));
    }
    if asked.dtype.or(command.dtype).is_some_and(|dtype| dtype == "float32") {
        answer.assumed.push("`--dtype` float32 is not served: taken as 16 bits".to_owned());
    }
    let mut view = ServeView::new(answer);
    view.ignored_flags = command.ignored;
    if !asked.fit.is_empty() {
        view.fit = Some(asked.fit.iter().map(|gpu| on(&question, gpu)).collect::<Result<_, Problem>>()?);
    }
    if let Some(need) = asked.need {
        view.need = Some(needed(&question, &need)?);
    }
    Ok(view)
}

/// The engine: as said, else that of the command line; its older half by the command line's environment.
fn release(said: Option<&str>, command: &Command) -> Result<Release, Problem> {
    let mut release = match (said, command.engine) {
        (Some(said), _) => Release::parse(said)?,
        (None, Some(engine)) => Release::parse(engine.name())?,
        (None, None) => {
            return Err(Problem::new("no engine is named")
                .hint("give `--serve vllm`, `sglang`, `llama.cpp` or `transformers`, or paste a command line of one behind `--`"));
        }
    };
    if let Some(engine) = command.engine.filter(|engine| *engine != release.engine) {
        return Err(Problem::new(format!(
            "`--serve {}` and the pasted command line of {engine} contradict each other",
            release.engine
        ))
        .hint("leave `--serve` out, or name the same engine"));
    }
    release.is_v0 = release.is_v0.or(command.is_v0);
    Ok(release)
}

/// A model as engines hold it.
///
/// # Errors
/// If there is no such model, or its configuration lacks what a cache needs.
pub fn served(name: &str) -> Result<Model, Problem> {
    let (known, config): (String, Value) = match crate::model::find(name)? {
        Described::Named(name) => {
            let (known, config) =
                configuration(&name).ok_or_else(|| Problem::new(format!("unknown model `{name}`")))?;
            (known.to_owned(), config)
        }
        Described::Described(files) => {
            let config = files.config.clone().ok_or_else(|| {
                Problem::new(format!("`{name}` has weights, but no configuration: the cache cannot be computed"))
                    .hint("put the model's `config.json` beside the weights")
            })?;
            let own = files.name.clone().or_else(|| model_type(&config));
            (own.unwrap_or_else(|| "model".to_owned()), config)
        }
    };
    Ok(Model::read(&known, &config)?)
}

fn model_type(config: &Value) -> Option<String> {
    config.get("model_type").and_then(Value::as_str).map(str::to_owned)
}

fn on(question: &Question<'_>, gpu: &str) -> Result<GpuView, Problem> {
    let mut other = Question { gpu: CardOrSize::parse(gpu)?, ..question.clone() };
    other.settings.total_bytes = None;
    Ok(GpuView::new(&other.answer()?))
}

/// The least that serves so many requests of so many tokens.
fn needed(question: &Question<'_>, need: &str) -> Result<NeedView, Problem> {
    let (requests, tokens) = read_need(need)?;
    let mut cards: Vec<&'static Card> = CARDS.iter().filter(|card| card.reported).collect();
    cards.sort_by_key(|card| card.memory_bytes);
    let mut ways = Vec::new();
    for count in COUNTS {
        if question.model.heads > 0 && question.model.heads % count != 0 {
            continue;
        }
        for card in &cards {
            if let Some(way) = way(question, card, count, requests, tokens)? {
                ways.push(way);
                break;
            }
        }
    }
    // A way with more GPUs and more memory is no help.
    ways.sort_by_key(|way| (way.memory_bytes, way.cards));
    Ok(NeedView { requests, tokens, ways })
}

/// Whether so many GPUs of a kind serve, as they are or with a flag.
fn way(
    question: &Question<'_>,
    card: &'static Card,
    count: u64,
    requests: u64,
    tokens: u64,
) -> Result<Option<WayView>, ServeError> {
    let mut own = Question { gpu: CardOrSize::Card(card), ..question.clone() };
    own.settings.total_bytes = None;
    own.settings.max_len = Some(own.settings.max_len.unwrap_or(tokens).max(tokens));
    let mut flags = vec![format!("--max-model-len {}", own.settings.max_len.unwrap_or(tokens))];
    if count > 1 {
        own.settings.tensor = Some(count);
        flags.push(format!("--tensor-parallel-size {count}"));
    }
    let is_vllm = own.release.engine == highwater_serve::Engine::Vllm;
    let tries = [None, is_vllm.then_some(requests)];
    for (at, sequences) in tries.into_iter().enumerate() {
        if at > 0 && sequences.is_none() {
            continue;
        }
        if let Some(sequences) = sequences {
            own.settings.sequences = Some(sequences);
            flags.push(format!("--max-num-seqs {sequences}"));
        }
        let answer = own.answer()?;
        let at_once = concurrency(&answer, tokens);
        if answer.starts && at_once >= as_number(requests) {
            return Ok(Some(WayView {
                card: card.key.to_owned(),
                cards: count,
                flags,
                concurrency: at_once,
                memory_bytes: card.memory_bytes.saturating_mul(count),
            }));
        }
    }
    Ok(None)
}

fn concurrency(answer: &Answer, tokens: u64) -> f64 {
    if answer.max_model_len == tokens {
        return answer.concurrency;
    }
    let at = answer.concurrency_at.iter().find(|row| row.tokens == tokens);
    at.map_or(answer.concurrency, |row| row.requests)
}

#[expect(clippy::cast_precision_loss, reason = "at most 2^32")]
fn as_number(count: u64) -> f64 {
    count as f64
}

/// `32 requests of 8192 tokens`, `32 x 8192`, `32x8192`.
fn read_need(need: &str) -> Result<(u64, u64), ServeError> {
    let numbers: Vec<u64> = need
        .split(|letter: char| !letter.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().unwrap_or(0))
        .collect();
    let is_number = |number: u64| (1..=1 << 32).contains(&number);
    match numbers[..] {
        [requests, tokens] if is_number(requests) && is_number(tokens) => Ok((requests, tokens)),
        _ => Err(ServeError::BadNeed(need.chars().filter(|letter| !letter.is_control()).take(60).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_read_as_people_write_them() {
        for need in ["32 requests of 8192 tokens", "32x8192", "32 x 8192"] {
            assert_eq!(read_need(need), Ok((32, 8192)), "{need}");
        }
        for need in ["", "32", "32 requests", "0x8192", "1 2 3", "99999999999999999999999 x 1"] {
            assert!(read_need(need).is_err(), "{need}");
        }
    }
}
