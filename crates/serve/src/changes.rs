//! What to change: each flag alone, with what it frees, the largest first.

use highwater_driver::{Card, CardOrSize};

use crate::answer::{Answer, Change};
use crate::cache_type::CacheType;
use crate::error::ServeError;
use crate::flags::Settings;
use crate::question::Question;
use crate::version::Engine;

/// A change that is tried.
struct Try {
    flag: &'static str,
    value: String,
    costs: &'static str,
    settings: Settings,
}

impl Question<'_> {
    /// The answer with changes.
    ///
    /// # Errors
    /// As [`Question::answer`].
    pub fn answer_with_changes(&self) -> Result<Answer, ServeError> {
        let mut answer = self.answer()?;
        answer.changes = self.changes(&answer)?;
        Ok(answer)
    }

    fn changes(&self, answer: &Answer) -> Result<Vec<Change>, ServeError> {
        let mut changes = Vec::new();
        for tried in self.tried(answer) {
            let question = Question { settings: tried.settings, ..self.clone() };
            let other = question.answer()?;
            let frees = freed(answer, &other);
            let helps = frees > 0
                && other
                    .refusal
                    .as_ref()
                    .is_none_or(|refusal| Some(refusal.kind) == answer.refusal.as_ref().map(|own| own.kind))
                || other.starts && !answer.starts;
            // A stronger value of the same flag is listed for what it frees beyond the milder one.
            let adds = changes.iter().all(|milder: &Change| {
                milder.flag != tried.flag || milder.frees_bytes < frees || !milder.starts && other.starts
            });
            if helps && adds {
                changes.push(Change {
                    flag: tried.flag.to_owned(),
                    value: tried.value,
                    frees_bytes: frees,
                    tokens: other.tokens,
                    starts: other.starts,
                    costs: tried.costs.to_owned(),
                });
            }
        }
        changes.extend(self.card_that_does(answer)?);
        changes.sort_by_key(|change| std::cmp::Reverse((change.starts, change.frees_bytes)));
        Ok(changes)
    }

    fn tried(&self, answer: &Answer) -> Vec<Try> {
        let mut tried = Vec::new();
        let mut add = |flag, value: String, costs, change: &dyn Fn(&mut Settings)| {
            let mut settings = self.settings.clone();
            change(&mut settings);
            tried.push(Try { flag, value, costs, settings });
        };
        let engine = self.release.engine;
        let is_half = !matches!(self.settings.cache_type, Some(CacheType::Fp8 | CacheType::Packed(_)));
        match engine {
            Engine::Vllm => {
                for sequences in [256, 64, 16] {
                    add("--max-num-seqs", sequences.to_string(), "fewer requests run at once", &|settings| {
                        settings.sequences = Some(settings.sequences.map_or(sequences, |said| said.min(sequences)));
                    });
                }
                for tokens in [2048, 512] {
                    add(
                        "--max-num-batched-tokens",
                        tokens.to_string(),
                        "prompts are read in more steps",
                        &|settings| {
                            settings.batched_tokens =
                                Some(settings.batched_tokens.map_or(tokens, |said| said.min(tokens)));
                        },
                    );
                }
                if !self.settings.eager {
                    add("--enforce-eager", String::new(), "decoding is slower without CUDA graphs", &|settings| {
                        settings.eager = true;
                    });
                }
                add(
                    "--gpu-memory-utilization",
                    "0.95".to_owned(),
                    "less is left for CUDA graphs and other processes",
                    &|settings| {
                        settings.memory_share = Some(settings.memory_share.unwrap_or(0.9).max(0.95));
                    },
                );
            }
            Engine::Sglang => {
                add("--chunked-prefill-size", "2048".to_owned(), "prompts are read in more steps", &|settings| {
                    settings.batched_tokens = Some(settings.batched_tokens.map_or(2048, |said| said.min(2048)));
                });
                if self.settings.memory_share.is_some_and(|share| share < 0.9) {
                    add(
                        "--mem-fraction-static",
                        "0.9".to_owned(),
                        "less is left for activations and CUDA graphs",
                        &|settings| {
                            settings.memory_share = Some(0.9);
                        },
                    );
                }
            }
            Engine::LlamaCpp => {
                for (value, kind) in [("q8_0", CacheType::Packed(34 * 8)), ("q4_0", CacheType::Packed(18 * 8))] {
                    add(
                        "--cache-type-k and --cache-type-v",
                        value.to_owned(),
                        "answers may differ; needs flash attention",
                        &|settings| {
                            settings.cache_type = Some(kind);
                            settings.value_type = Some(kind);
                            settings.flash = settings.flash.map(|_| true);
                        },
                    );
                }
                add("--ubatch-size", "128".to_owned(), "prompts are read more slowly", &|settings| {
                    settings.batched_tokens = Some(settings.batched_tokens.map_or(128, |said| said.min(128)));
                });
            }
            Engine::Transformers => {}
        }
        if matches!(engine, Engine::Vllm | Engine::Sglang) {
            if is_half {
                add(
                    "--kv-cache-dtype",
                    "fp8".to_owned(),
                    "answers may differ a little; Ada, Hopper or newer",
                    &|settings| {
                        settings.cache_type = Some(CacheType::Fp8);
                    },
                );
            }
            if let Some(parts) = self.more_parts() {
                add("--tensor-parallel-size", parts.to_string(), "more GPUs", &|settings| {
                    settings.tensor = Some(parts);
                });
            }
        }
        // A context that the cache holds is no saving, but the start that was asked for.
        if !answer.starts && answer.longest_context_tokens >= 256 {
            let (flag, longest) = match engine {
                Engine::Vllm => ("--max-model-len", answer.longest_context_tokens),
                _ => return tried,
            };
            let mut settings = self.settings.clone();
            settings.max_len = Some(longest.min(answer.max_model_len));
            tried.push(Try { flag, value: longest.to_string(), costs: "longer requests are refused", settings });
        }
        tried
    }

    /// The next tensor parallelism that starts, else the next one.
    fn more_parts(&self) -> Option<u64> {
        let parts =
            || (1..7).map(|power| self.settings.tp().saturating_mul(1 << power)).take_while(|&parts| parts <= 64);
        let starts = |parts: &u64| {
            let mut question = self.clone();
            question.settings.tensor = Some(*parts);
            question.answer().is_ok_and(|answer| answer.starts)
        };
        parts().find(starts).or_else(|| parts().next())
    }

    /// The smallest card that does where this one does not.
    fn card_that_does(&self, answer: &Answer) -> Result<Option<Change>, ServeError> {
        if answer.starts {
            return Ok(None);
        }
        let mut cards: Vec<&'static Card> =
            highwater_driver::CARDS.iter().filter(|card| card.memory_bytes > self.total()).collect();
        cards.sort_by_key(|card| card.memory_bytes);
        for card in cards {
            let mut question = Question { gpu: CardOrSize::Card(card), ..self.clone() };
            question.settings.total_bytes = None;
            let other = question.answer()?;
            if other.starts {
                return Ok(Some(Change {
                    flag: "--gpu".to_owned(),
                    value: card.key.to_owned(),
                    frees_bytes: freed(answer, &other),
                    tokens: other.tokens,
                    starts: true,
                    costs: "another GPU".to_owned(),
                }));
            }
        }
        Ok(None)
    }
}

/// Bytes that the cache gains, or that the same tokens need less.
fn freed(before: &Answer, after: &Answer) -> u64 {
    let gained = u64::try_from(after.kv_cache_bytes.saturating_sub(before.kv_cache_bytes)).unwrap_or(0);
    let shrunk = before.token_bytes.saturating_sub(after.token_bytes).saturating_mul(before.tokens);
    gained.max(shrunk)
}
