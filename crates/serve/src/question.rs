//! A question: an engine, a model, a GPU and the engine's flags.

use highwater_driver::{Card, CardOrSize};

use crate::answer::{Answer, ConcurrencyAt, Confidence, Level, Rank, Refusal, RefusalKind};
use crate::arithmetic::{ratio, share};
use crate::error::ServeError;
use crate::flags::Settings;
use crate::model::{Model, Stretch};
use crate::version::{Engine, Release, Version};
use crate::{llama_cpp, sglang, transformers, vllm};

/// Since when vLLM takes the configuration's longest sequence as that after `yarn`.
const YARN_COUNTS_SINCE: Version = Version::new(0, 30, 0);

/// Lengths that people ask for.
const LENGTHS: [u64; 6] = [1024, 2048, 4096, 8192, 32_768, 131_072];

/// A model on a GPU, served by an engine.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The engine.
    pub release: Release,
    /// The model.
    pub model: &'a Model,
    /// The GPU.
    pub gpu: CardOrSize,
    /// The flags.
    pub settings: Settings,
}

/// An engine's account, before it becomes an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) ranks: Vec<Rank>,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) block_tokens: Option<u64>,
    pub(crate) blocks: Option<u64>,
    pub(crate) tokens: u64,
    pub(crate) max_len: u64,
    /// Requests of a length at once.
    pub(crate) concurrency: Vec<(u64, f64)>,
    pub(crate) longest: u64,
    pub(crate) token_bytes: u64,
    /// Bytes by which the engine starts; negative those that it lacks.
    pub(crate) spare: Option<i64>,
    pub(crate) assumed: Vec<String>,
    /// Terms without a checked rule.
    pub(crate) unchecked: Vec<String>,
}

impl Question<'_> {
    /// The GPU's memory as the driver reports it.
    pub(crate) fn total(&self) -> u64 {
        self.settings.total_bytes.unwrap_or_else(|| self.gpu.memory_bytes())
    }

    /// The card, where it has a name.
    pub(crate) fn card(&self) -> Option<&'static Card> {
        match self.gpu {
            CardOrSize::Card(card) => Some(card),
            CardOrSize::Bytes(_) => None,
        }
    }

    /// Whether the GPU shares the processor's memory: Orin, Thor and GB10, by their compute capabilities.
    ///
    /// # Source
    /// vLLM 0.13, `vllm/utils/mem_utils.py`, `MemorySnapshot.measure`.
    pub(crate) fn shares_memory(&self) -> bool {
        const SHARED: [(u32, u32); 3] = [(8, 7), (11, 0), (12, 1)];
        self.card().is_some_and(|card| SHARED.contains(&card.compute_capability))
    }

    /// The longest sequence: as said, else the model's own.
    pub(crate) fn max_len(&self) -> u64 {
        self.settings.max_len.or_else(|| self.usual_len()).or_else(|| self.longest_len()).unwrap_or(2048)
    }

    /// The default of the longest sequence, if it is shorter than the longest that the engine accepts.
    ///
    /// # Source
    /// vLLM, `_get_and_verify_max_len` of `config/model.py` since 0.11.1.
    fn usual_len(&self) -> Option<u64> {
        let is_shorter = self.release.engine == Engine::Vllm && self.release.version >= Version::new(0, 11, 1);
        let stretch = self.model.stretch.as_ref().filter(|stretch| is_shorter && stretch.method == "longrope")?;
        stretch.original
    }

    /// The longest sequence that the engine accepts: the configuration's, or that of its stretched rotations.
    ///
    /// # Source
    /// vLLM, `_get_and_verify_max_len` of 0.6.4 to 0.33. `SGLang`, `get_context_length` of 0.5.23.
    pub(crate) fn longest_len(&self) -> Option<u64> {
        let most = self.model.max_positions?;
        let Some(Stretch { method, factor, original }) = &self.model.stretch else { return Some(most) };
        let trained = match (self.release.engine, method.as_str()) {
            (Engine::Vllm, "su" | "longrope" | "llama3") => return Some(most),
            (Engine::Vllm, _) if self.model.kind.contains("gemma3") => return Some(most),
            (Engine::Vllm, "yarn") if self.release.version >= YARN_COUNTS_SINCE => return Some(most),
            (Engine::Vllm, "yarn") => original.unwrap_or(most),
            (Engine::Vllm, _) => most,
            (Engine::Sglang, method) if method != "llama3" && original.is_none() => most,
            _ => return Some(most),
        };
        Some(share(trained, *factor))
    }

    /// The lengths of the answer: the longest first.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u64> {
        let most = self.max_len();
        let asked = &self.settings.lengths;
        let usual = LENGTHS.into_iter().filter(move |length| asked.is_empty() && *length < most);
        [most].into_iter().chain(usual).chain(asked.iter().copied())
    }

    /// Which layers a stage has: vLLM and `SGLang` give the remainder to the later stages but the last.
    pub(crate) fn stages(&self) -> Vec<std::ops::Range<usize>> {
        let stages = usize::try_from(self.settings.pp()).unwrap_or(1);
        let layers = self.model.layers.len();
        let mut sizes = vec![layers / stages; stages];
        let rest = layers % stages;
        for at in 2..rest + 2 {
            let place = stages.saturating_sub(at);
            sizes[place] += 1;
        }
        let mut start = 0;
        sizes
            .into_iter()
            .map(|size| {
                start += size;
                start - size..start
            })
            .collect()
    }

    /// The answer, without changes.
    ///
    /// # Errors
    /// If the engine does not have a flag, or flags contradict each other.
    pub fn answer(&self) -> Result<Answer, ServeError> {
        self.settings.check(&self.release)?;
        if self.release.engine == Engine::LlamaCpp && self.model.kind == "whisper" {
            let why = "it has no Whisper architecture, and whisper.cpp reads files of its own";
            return Err(ServeError::Unserved(self.release.engine, self.model.name.clone(), why));
        }
        let account = match self.release.engine {
            Engine::Vllm => vllm::account(self),
            Engine::Sglang => sglang::account(self),
            Engine::LlamaCpp => llama_cpp::account(self),
            Engine::Transformers => transformers::account(self),
        };
        Ok(self.answered(account))
    }

    fn answered(&self, account: Account) -> Answer {
        let kv_cache_bytes = account.ranks.iter().map(|rank| rank.kv_cache_bytes).min().unwrap_or(0);
        let confidence = self.confidence(&account);
        let refusal = self.refused_early().or(account.refusal);
        let mut assumed = self.model.assumed.clone();
        assumed.extend(account.assumed);
        let mut concurrency = account.concurrency.into_iter();
        let at_most = concurrency.next().map_or(0.0, |(_, requests)| requests);
        Answer {
            engine: self.release.engine,
            engine_version: self.release.version_text(),
            model: self.model.name.clone(),
            card: match self.gpu {
                CardOrSize::Card(card) => card.key.to_owned(),
                CardOrSize::Bytes(bytes) => highwater_units::size(bytes),
            },
            cards: self.settings.tp().saturating_mul(self.settings.pp()),
            starts: refusal.is_none(),
            refusal,
            kv_cache_bytes,
            block_tokens: account.block_tokens,
            blocks: account.blocks,
            tokens: account.tokens,
            max_model_len: account.max_len,
            concurrency: at_most,
            concurrency_at: concurrency.map(|(tokens, requests)| ConcurrencyAt { tokens, requests }).collect(),
            longest_context_tokens: account.longest,
            token_bytes: account.token_bytes,
            ranks: account.ranks,
            changes: Vec::new(),
            assumed,
            confidence,
        }
    }

    /// What the start depends on, where less than the forecast's error decides about it.
    ///
    /// # Source
    /// `docs/serve.md`: nine of ten caches in public logs are within 2 %. Terms without a rule were off by up to 5 % of the budget.
    fn close(&self, account: &Account) -> Option<String> {
        const ERROR: f64 = 0.02;
        const ERROR_UNCHECKED: f64 = 0.05;
        let is_checked = account.unchecked.is_empty() && self.release.is_checked();
        let budget = account.ranks.iter().map(|rank| rank.budget_bytes).max()?;
        let error = share(budget, if is_checked { ERROR } else { ERROR_UNCHECKED });
        let spare =
            account.spare.filter(|spare| spare.unsigned_abs() < error && self.settings.cache_bytes.is_none())?;
        let (size, error) = (highwater_units::size(spare.unsigned_abs()), highwater_units::size(error));
        Some(if spare < 0 {
            format!("only {size} are missing, and this forecast can be off by {error}: it may start")
        } else {
            format!("it starts with {size} to spare, and this forecast can be off by {error}: it may not start")
        })
    }

    fn confidence(&self, account: &Account) -> Confidence {
        let mut unchecked = account.unchecked.clone();
        if let Some(close) = self.close(account) {
            unchecked.insert(0, close);
        }
        if !self.settings.uncounted.is_empty() {
            let flags: Vec<String> = self.settings.uncounted.iter().map(|flag| format!("`{flag}`")).collect();
            let reason = format!("{} changes memory, and is not in these numbers", flags.join(", "));
            return Confidence { level: Level::Unchecked, reason };
        }
        if !self.release.is_checked() {
            let reason = format!("{} {} was not compared with logs", self.release.engine, self.release.version_text());
            return Confidence { level: Level::Unchecked, reason };
        }
        match unchecked.as_slice() {
            [] => Confidence {
                level: Level::Checked,
                reason: "every term has a rule that was compared with logs".to_owned(),
            },
            terms => Confidence { level: Level::Approximate, reason: terms.join("; ") },
        }
    }

    /// What engines refuse before they load anything.
    fn refused_early(&self) -> Option<Refusal> {
        let replicas = if self.settings.attention_replicas { self.settings.data.unwrap_or(1).max(1) } else { 1 };
        let all = self.settings.tp();
        if !all.is_multiple_of(replicas) {
            let sentence = format!("the {all} ranks of `--tensor-parallel-size` are not {replicas} equal replicas");
            return Some(Refusal { kind: RefusalKind::HeadsDoNotDivide, sentence });
        }
        let ranks = all / replicas;
        let heads = self.model.heads;
        if heads > 0 && !heads.is_multiple_of(ranks) && self.release.engine != Engine::LlamaCpp {
            let can: Vec<String> = [2, 4, 8, 16]
                .into_iter()
                .filter(|count| heads.is_multiple_of(*count))
                .map(|count| count.to_string())
                .collect();
            let instead = if can.is_empty() { String::new() } else { format!(": use {}", can.join(", ")) };
            let sentence =
                format!("the model's {heads} attention heads cannot be divided among {ranks} ranks{instead}");
            return Some(Refusal { kind: RefusalKind::HeadsDoNotDivide, sentence });
        }
        if self.settings.expert_parallel && self.model.experts == 0 && self.release.engine == Engine::Vllm {
            let sentence = "the model has no experts for `--enable-expert-parallel`".to_owned();
            return Some(Refusal { kind: RefusalKind::NoExperts, sentence });
        }
        let most = self.longest_len().filter(|most| self.settings.max_len.is_some_and(|said| said > *most));
        if let Some(most) = most.filter(|_| self.release.engine == Engine::Vllm) {
            let (asked, most) = (highwater_units::count(self.max_len()), highwater_units::count(most));
            let sentence = format!("`--max-model-len` is {asked}, and the model's own limit is {most}");
            return Some(Refusal { kind: RefusalKind::ContextBeyondModel, sentence });
        }
        None
    }
}

/// How many requests so many blocks hold.
pub(crate) fn requests(blocks: u64, needed: u64) -> f64 {
    ratio(blocks, needed)
}
