//! text-generation-inference's (TGI) refusals and their causes.

use super::because;
use super::engines::load;
use super::flags::after_start;
use crate::diagnosis::{Cause, Diagnosis};
use crate::engine::EngineLog;
use crate::log::Event;
use crate::steps::Step;

/// A warm-up of so few tokens takes well below 1 GiB.
const FEW_TOKENS: u64 = 2048;
/// One of these takes some MiB.
const VERY_FEW_TOKENS: u64 = 512;

/// The answer to a failure of TGI.
pub(super) fn explain(event: &Event, log: &EngineLog) -> Option<(Diagnosis, Vec<Step>)> {
    Some(match event.id {
        "tgi-load" => load(log),
        "tgi-prefill" | "tgi-total" => warm_up(event, log),
        "tgi-batch" => batch(event),
        "tgi-request" => request(event),
        _ => return None,
    })
}

/// A request beyond the limits that were set, or computed, at start.
fn request(event: &Event) -> (Diagnosis, Vec<Step>) {
    let (limit, inputs, new) = (event.number("limit"), event.number("inputs"), event.number("new"));
    let asked = match (inputs, new) {
        (Some(inputs), Some(new)) => format!("{inputs} tokens and {new} new ones"),
        (Some(inputs), None) => format!("{inputs} tokens"),
        _ => "more tokens".to_owned(),
    };
    let of = limit.map_or_else(String::new, |limit| format!(" of {limit} tokens"));
    let text = format!(
        "the server refused a request of {asked}: its own limit{of} is smaller; the GPU is not full, and other requests go on"
    );
    let shorter = Step::new(
        "shorter-context",
        "send a shorter prompt, or request fewer new tokens",
        "both count towards the limit",
    );
    let raise = Step::new(
        "raise-limit",
        "raise the server's limits, if the KV cache has room for such a request",
        "the server prints at its start how many tokens the cache holds",
    );
    let flags = if new.is_some() {
        "--max-total-tokens"
    } else {
        "--max-input-tokens (--max-input-length), --max-total-tokens"
    };
    (because(Cause::Limit, text), vec![shorter, raise.with(flags)])
}

fn warm_up(event: &Event, log: &EngineLog) -> (Diagnosis, Vec<Step>) {
    let tokens = event.number("tokens").map_or_else(|| "all".to_owned(), |tokens| tokens.to_string());
    if event.id == "tgi-total" {
        let text = format!(
            "the KV cache that fits beside the weights and the warm-up holds fewer than the {tokens} tokens of one \
             request"
        );
        let shorter = Step::new("shorter-context", "serve shorter requests", "the cache must hold one request in full")
            .with("--max-total-tokens 4096");
        let mut steps = vec![shorter];
        steps.extend(after_start(log, None, None));
        return (because(Cause::KvCache, text), steps);
    }
    let text = format!(
        "the GPU cannot hold the warm-up's {tokens} prefill tokens beside the weights, so no KV cache could be allocated"
    );
    // Few tokens need little: what is too large are the weights.
    let mut steps = after_start(log, None, None);
    if let Some(tokens) = event.number("tokens").filter(|&tokens| tokens <= FEW_TOKENS) {
        if tokens <= VERY_FEW_TOKENS {
            // Fewer would free nothing.
            steps.retain(|step| step.id != "smaller-prefill");
        } else if let Some(step) = steps.iter_mut().find(|step| step.id == "smaller-prefill") {
            step.change = Some(format!("--max-batch-prefill-tokens {}", tokens / 2));
        }
        let weights = Step::new(
            "less-weights",
            "load less of the model on each GPU: quantised weights, or more GPUs",
            format!("{tokens} tokens need little memory, so the weights fill nearly all of the GPU"),
        );
        steps.insert(0, weights.with("--quantize bitsandbytes-nf4 (or a model in AWQ, GPTQ), --num-shard 2"));
    }
    (because(Cause::KvCache, text), steps)
}

/// Releases that took the size of the KV cache from a setting.
fn batch(event: &Event) -> (Diagnosis, Vec<Step>) {
    let tokens = event.number("tokens").map_or_else(|| "all".to_owned(), |tokens| tokens.to_string());
    let text = format!(
        "the GPU cannot hold a KV cache for {tokens} tokens beside the weights and the warm-up: that is the number for all \
         requests of a batch (`max_batch_total_tokens`)"
    );
    let fewer = Step::new("fewer-requests", "allow fewer tokens in a batch", "the cache is allocated for all of them")
        .with("--max-batch-total-tokens");
    let shorter = Step::new(
        "smaller-prefill",
        "warm up with fewer tokens",
        "the warm-up computes this many tokens at once, beside the cache",
    )
    .with("--max-batch-prefill-tokens 2048");
    (because(Cause::KvCache, text), vec![fewer, shorter])
}
