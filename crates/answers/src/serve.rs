//! Whether an engine serves a model: from the words of a command line to the document.

use highwater_documents::serve::{GpuView, NeedView, ServeAgainstView, ServeTermView, ServeView, WayView};
use highwater_driver::{CARDS, Card, CardOrSize};
use highwater_oom::EngineLog;
use highwater_problem::Problem;
use highwater_serve::{Answer, Command, Flag, Loading, Model, Question, Release, ServeError, Settings};
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
    /// The name of an engine's log, and the log.
    pub against: Option<(String, Vec<u8>)>,
}

/// The answer.
///
/// # Errors
/// If the model, the engine, the GPU or a flag is unknown, or flags contradict each other.
pub fn answer(asked: Asked) -> Result<ServeView, Problem> {
    let Read { settings, release, model, dtype, ignored } = Read::of(&asked)?;
    let loading = Loading { dtype: dtype.as_deref(), quantization: settings.quantization.as_deref() };
    let model = served(&model, loading)?;
    let gpu = settings.gpu(asked.gpu.as_deref())?;
    let question = Question { release, model: &model, gpu, settings };
    let mut answer = question.answer_with_changes()?;
    if asked.gpu.is_none() && question.settings.total_bytes.is_none() {
        answer.assumed.insert(0, format!("`--gpu` {}", highwater_estimate::DEFAULT_CARD));
    }
    let mut view = ServeView::new(answer);
    view.ignored_flags = ignored;
    if !asked.fit.is_empty() {
        view.fit = Some(asked.fit.iter().map(|gpu| on(&question, gpu)).collect::<Result<_, Problem>>()?);
    }
    if let Some(need) = asked.need {
        view.need = Some(needed(&question, &need)?);
    }
    if let Some((name, log)) = asked.against {
        view.against = Some(beside(&view.answer, name, EngineLog::read(&log))?);
    }
    Ok(view)
}

/// The question with the words of the pasted command line.
struct Read {
    settings: Settings,
    release: Release,
    model: String,
    dtype: Option<String>,
    ignored: Vec<String>,
}

impl Read {
    fn of(asked: &Asked) -> Result<Read, Problem> {
        let mut settings = asked.settings.clone();
        let command = Command::read(&asked.command, &mut settings)?;
        let release = release(asked.engine.as_deref(), &command)?;
        let model = asked.model.clone().or(command.model).ok_or_else(|| {
            Problem::new("no model is named").hint("give its name, its directory or its `config.json` before the flags")
        })?;
        let dtype = asked.dtype.clone().or(command.dtype);
        Ok(Read { settings, release, model, dtype, ignored: command.ignored })
    }
}

/// The model, and the rest of the question as parameters of the calculator's address.
///
/// # Errors
/// If the engine, the GPU or a flag is unknown, or flags contradict each other.
pub fn words(asked: &Asked) -> Result<(String, Vec<(String, String)>), Problem> {
    let Read { settings, release, model, dtype, .. } = Read::of(asked)?;
    settings.check(&release)?;
    settings.gpu(asked.gpu.as_deref())?;
    let flag = |(name, value): (&str, String)| (format!("serve.{name}"), value);
    let mut words = vec![("serve".to_owned(), release.to_string())];
    words.extend(asked.gpu.clone().map(|gpu| ("gpu".to_owned(), gpu)));
    words.extend(dtype.map(|dtype| flag(("dtype", dtype))));
    words.extend(settings.said.into_iter().map(flag));
    Ok((model, words))
}

/// The forecast for the start that an engine's log tells of, beside the numbers that it printed.
///
/// # Errors
/// If the log does not name the engine, the model or the GPU's memory, or they are not known here.
pub fn of_log(name: String, log: &EngineLog) -> Result<ServeView, Problem> {
    let lacking = |what: &str| Problem::new(format!("the log does not name {what}"));
    let engine = log.engine.ok_or_else(|| lacking("its engine"))?;
    let release = Release::parse(
        &log.version.as_ref().map_or_else(|| engine.to_owned(), |version| format!("{engine}@{version}")),
    )?;
    let model = log.model.as_deref().ok_or_else(|| lacking("its model"))?;
    let (quantization, dtype) = (log.quantization.as_deref(), log.dtype.as_deref().filter(|dtype| *dtype != "auto"));
    let model = served(model, Loading { dtype: dtype.and_then(|dtype| dtype.rsplit('.').next()), quantization })?;
    let total = log.printed().total_bytes.ok_or_else(|| lacking("the GPU's memory"))?;
    let mut settings = Settings {
        total_bytes: Some(total),
        memory_share: log.utilization.or(log.mem_fraction_static).map(highwater_oom::Decimal::value),
        max_len: log.max_model_len,
        sequences: log.max_num_seqs,
        batched_tokens: log.max_num_batched_tokens,
        tensor: log.tensor_parallel,
        pipeline: log.pipeline_parallel,
        cache_bytes: log.kv_cache_setting_bytes,
        eager: log.is_eager == Some(true),
        first_start: log.compiles,
        ..Settings::default()
    };
    if let (Some(kind), Some(flag)) =
        (log.kv_dtype.as_deref().filter(|kind| *kind != "auto"), Flag::named("kv-cache-dtype"))
    {
        flag.set(&mut settings, kind)?;
    }
    let question = Question { release, model: &model, gpu: CardOrSize::Bytes(total), settings };
    let mut view = ServeView::new(question.answer_with_changes()?);
    view.against = Some(beside(&view.answer, name, Some(log.clone()))?);
    Ok(view)
}

/// The numbers of a log beside those of a forecast, and the term that differs most.
fn beside(answer: &Answer, log: String, read: Option<EngineLog>) -> Result<ServeAgainstView, Problem> {
    let read = read.filter(|read| read.engine == Some(answer.engine.name()));
    let printed = read.map(|read| read.printed()).ok_or_else(|| {
        Problem::new(format!("`{log}` has no line that {} prints about memory", answer.engine))
            .hint("give the engine's own log of the start, with its INFO lines")
    })?;
    let rank = answer.ranks.iter().min_by_key(|rank| rank.kv_cache_bytes);
    let of_rank = |of: fn(&highwater_serve::Rank) -> u64| rank.map_or(0.0, |rank| as_number(of(rank)));
    let mut terms = Vec::new();
    let mut term = |name: &str, forecast: f64, printed: Option<f64>, is_bytes: bool| {
        if let Some(printed) = printed {
            terms.push(ServeTermView { term: name.to_owned(), forecast, printed, is_bytes });
        }
    };
    let number = |bytes: Option<u64>| bytes.map(as_number);
    term("the GPU's memory", of_rank(|rank| rank.total_bytes), number(printed.total_bytes), true);
    term("weights", of_rank(|rank| rank.weights_bytes), number(printed.weights_bytes), true);
    term("activation peak", of_rank(|rank| rank.activation_peak_bytes), number(printed.activation_peak_bytes), true);
    term("outside PyTorch", of_rank(|rank| rank.non_torch_bytes), number(printed.non_torch_bytes), true);
    term("CUDA graphs", of_rank(|rank| rank.graph_bytes), number(printed.graph_estimate_bytes), true);
    term("cache", as_signed(answer.kv_cache_bytes), printed.kv_cache_bytes.map(as_signed), true);
    term("tokens", as_number(answer.tokens), number(printed.kv_tokens), false);
    term("blocks", as_number(answer.blocks.unwrap_or(0)), number(printed.gpu_blocks), false);
    let differs_most = differing(&terms);
    Ok(ServeAgainstView { log, terms, differs_most })
}

/// Why the caches differ. The cache is the rest: the cause is the term before it that differs most, or what the log does not print, where
/// these explain less than half.
fn differing(terms: &[ServeTermView]) -> Option<String> {
    let (caches, causes): (Vec<_>, Vec<_>) =
        terms.iter().filter(|term| term.is_bytes).partition(|term| term.term == "cache");
    let explained: f64 = causes.iter().map(|term| distance(term)).sum();
    if caches.iter().any(|cache| distance(cache) > 2.0 * explained) {
        return Some("what the log does not print, such as the GPU and its share".to_owned());
    }
    let most = causes.into_iter().max_by(|one, other| distance(one).total_cmp(&distance(other)));
    most.filter(|term| distance(term) > 0.0).map(|term| term.term.clone())
}

fn distance(term: &ServeTermView) -> f64 {
    (term.forecast - term.printed).abs()
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a GPU")]
fn as_signed(bytes: i64) -> f64 {
    bytes as f64
}

/// The document from JSON, as Python asks: the model is a name, a path, or the text of a `config.json`; `options` are `serve`, `gpu`,
/// `need`, `fit` and the engine's flags.
///
/// # Errors
/// As [`answer`].
pub fn answer_json(model: &str, options: &str) -> Result<ServeView, Problem> {
    let mut options: serde_json::Map<String, Value> = serde_json::from_str(options)
        .map_err(|error| Problem::new("the options are not a JSON object").because(error))?;
    let mut asked = Asked { model: Some(model.to_owned()), ..Asked::default() };
    asked.settings = Settings::take(&mut options)?;
    for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
        let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match name.as_str() {
            "serve" => asked.engine = Some(word),
            "gpu" => asked.gpu = Some(word),
            "dtype" => asked.dtype = Some(word),
            "need" => asked.need = Some(word),
            "fit" => asked.fit = word.split(',').map(|gpu| gpu.trim().to_owned()).collect(),
            _ => {
                let short: String = name.chars().filter(|letter| !letter.is_control()).take(40).collect();
                return Err(Problem::new(format!("unknown option `--{short}`")));
            }
        }
    }
    answer(asked)
}

/// The engine: as said, else that of the command line; its older half by the command line's environment.
fn release(said: Option<&str>, command: &Command) -> Result<Release, Problem> {
    let release = match (said, command.engine) {
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
    Ok(release.with_v0(command.is_v0))
}

/// A model as engines hold it.
///
/// # Errors
/// If there is no such model, or its configuration lacks what a cache needs.
pub fn served(name: &str, loading: Loading<'_>) -> Result<Model, Problem> {
    if name.trim_start().starts_with('{') {
        let config =
            serde_json::from_str(name).map_err(|error| Problem::new("the configuration is not JSON").because(error))?;
        return Ok(Model::read(&model_type(&config).unwrap_or_else(|| "model".to_owned()), &config, loading)?);
    }
    Ok(Model::described(&crate::model::find(name)?, loading)?)
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
        if question.model.heads > 0 && !question.model.heads.is_multiple_of(count) {
            continue;
        }
        for card in &cards {
            if let Some(way) = way(question, card, count, requests, tokens)? {
                ways.push(way);
                break;
            }
        }
    }
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
    // The GPUs of this way, however many the question's flags name.
    own.settings.tensor = (count > 1).then_some(count);
    own.settings.pipeline = None;
    if count > 1 {
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

/// What may stand beside the two numbers of a need; not `k`, which would be a thousand tokens.
const NEED_WORDS: [&str; 8] = ["", "x", "×", "of", "request", "requests", "token", "tokens"];

/// `32 requests of 8192 tokens`, `32 x 8192`, `32x8192`.
fn read_need(need: &str) -> Result<(u64, u64), ServeError> {
    let mut words = need.split(|letter: char| letter.is_ascii_digit() || letter.is_whitespace());
    if !words.all(|word| NEED_WORDS.contains(&word)) {
        return Err(bad_need(need));
    }
    let numbers: Vec<u64> = need
        .split(|letter: char| !letter.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().unwrap_or(0))
        .collect();
    let is_number = |number: u64| (1..=1 << 32).contains(&number);
    match numbers[..] {
        [requests, tokens] if is_number(requests) && is_number(tokens) => Ok((requests, tokens)),
        _ => Err(bad_need(need)),
    }
}

fn bad_need(need: &str) -> ServeError {
    ServeError::BadNeed(need.chars().filter(|letter| !letter.is_control()).take(60).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_a_term_or_what_the_log_leaves_out() {
        let term =
            |term: &str, forecast, printed| ServeTermView { term: term.to_owned(), forecast, printed, is_bytes: true };
        let weights = || term("weights", 10e9, 12e9);
        assert_eq!(differing(&[weights(), term("cache", 6e9, 4e9)]).as_deref(), Some("weights"));
        let left_out = differing(&[weights(), term("cache", 6e9, 60e9)]);
        assert!(left_out.is_some_and(|text| text.contains("does not print")));
        assert_eq!(differing(&[term("weights", 1.0, 1.0)]), None);
    }

    #[test]
    fn needs_are_read_as_people_write_them() {
        for need in ["32 requests of 8192 tokens", "32x8192", "32 x 8192"] {
            assert_eq!(read_need(need), Ok((32, 8192)), "{need}");
        }
        for need in ["", "32", "32 requests", "0x8192", "1 2 3", "99999999999999999999999 x 1", "32 x 8k", "-32x-8192"]
        {
            assert!(read_need(need).is_err(), "{need}");
        }
    }
}
