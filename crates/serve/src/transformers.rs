//! transformers' `generate`: no pool; keys and values grow with the batch until the memory ends.
//!
//! # Source
//! transformers 5.17, `cache_utils.py`: each layer's keys and values are concatenated, so the old ones and the new ones are there at
//! once for the moment.

use crate::answer::{Rank, Refusal, RefusalKind};
use crate::arithmetic::{product, ratio, signed};
use crate::cache::{Making, token_bytes};
use crate::cache_type::CacheType;
use crate::question::{Account, Question};
use crate::weights::Part;

/// The context and kernels of a process.
const CONTEXT: u64 = highwater_driver::context::BARE_BYTES;

/// The account: the memory that is left after the weights is what requests may grow into.
pub(crate) fn account(question: &Question<'_>) -> Account {
    let model = question.model;
    let mut account = Account { max_len: question.max_len(), ..Account::default() };
    let total = question.total();
    let weights = model
        .weights
        .iter()
        .filter(|weight| weight.part != Part::Absorbed)
        .map(|weight| weight.on_rank(1))
        .fold(0, u64::saturating_add);
    let making = Making {
        ranks: 1,
        block: 1,
        kind: CacheType::Auto,
        element: model.element_bytes,
        state_element: model.state_bytes,
        has_groups: true,
        speculative: 0,
        state_blocks: 1,
        latent_align: 1,
    };
    let of_token = model.layers.iter().map(|cache| token_bytes(cache, &making)).fold(0, u64::saturating_add);
    let largest = model.layers.iter().map(|cache| token_bytes(cache, &making)).max().unwrap_or(0);
    // The logits of the last position in 16 and 32 bits, and one layer's MLP for a step.
    let activation = product([model.vocab, 6]).saturating_add(product([3, model.intermediate, model.element_bytes]));
    let left =
        [weights, CONTEXT, activation].into_iter().fold(signed(total), |left, term| left.saturating_sub(signed(term)));
    // While a layer grows, it is there twice.
    let needed = of_token.saturating_add(largest).max(1);
    account.tokens = u64::try_from(left).unwrap_or(0) / needed;
    account.token_bytes = of_token;
    account.longest = account.tokens;
    account.concurrency = question.lengths().map(|length| (length, ratio(account.tokens, length))).collect();
    account.ranks = vec![Rank {
        rank: 0,
        stage: 0,
        total_bytes: total,
        budget_bytes: total,
        weights_bytes: weights,
        activation_peak_bytes: activation,
        activation_by: "logits and MLP of one decoding step; a prompt needs more".to_owned(),
        non_torch_bytes: CONTEXT,
        graph_bytes: 0,
        kv_cache_bytes: left,
    }];
    if weights > total {
        let sentence = format!(
            "the weights take {}, the GPU has {}",
            highwater_units::size(weights),
            highwater_units::size(total)
        );
        account.refusal = Some(Refusal { kind: RefusalKind::WeightsDoNotFit, sentence });
    } else if left <= 0 {
        let sentence = "no memory is left for keys and values".to_owned();
        account.refusal = Some(Refusal { kind: RefusalKind::NoCache, sentence });
    }
    account.assumed.push("transformers has no pool: the cache is the memory that requests may grow into".to_owned());
    account.unchecked.push("transformers prints nothing to compare with".to_owned());
    account
}
