//! Attention as a graph of cuDNN's: one operation, or of two or five products.

use super::graph::{Descriptors, Engine, attribute};
use crate::settings;

const MATMUL: i32 = 19;
const FORWARD: i32 = 41;
const BACKWARD: i32 = 43;

const MATMUL_A: i32 = 1520;
const MATMUL_B: i32 = 1521;
const FORWARD_QUERY: i32 = 2800;
const FORWARD_KEY: i32 = 2801;
const BACKWARD_QUERY: i32 = 2851;
const BACKWARD_KEY: i32 = 2852;

/// What an attention wants besides what PyTorch's front end asks for itself; the backward pass, where several heads of the
/// query share one of the keys, a float for each element of the query more.
///
/// # Source
/// Measured on an H200 with cuDNN 9.19 and torch 2.11: 14 shapes, plain, causal, masked, biased, with dropout, with keys
/// of another length, and with fewer heads of keys.
const BYTES: i64 = 256;

/// The one engine of a graph of attention; nothing if the graph is something else.
pub(super) fn engines(descriptors: &Descriptors, operations: &[u64]) -> Option<Vec<Engine>> {
    let mut products = operations.iter().copied().filter(|&operation| descriptors.kind(operation) == MATMUL);
    let count = products.clone().count();
    let first = products.next();
    let of_kind = |kind| operations.iter().copied().find(|&operation| descriptors.kind(operation) == kind);
    let tensor = |operation: u64, name| {
        Some(descriptors.numbers(descriptors.words(operation, name).next()?, attribute::TENSOR_DIMENSIONS))
    };
    let (query, key) = match (of_kind(BACKWARD), of_kind(FORWARD), count) {
        (Some(backward), _, _) => {
            (tensor(backward, BACKWARD_QUERY)?, tensor(backward, BACKWARD_KEY).unwrap_or_default())
        }
        (None, None, 5) => (tensor(first?, MATMUL_A)?, tensor(first?, MATMUL_B).unwrap_or_default()),
        (None, Some(forward), _) => {
            let workspace_bytes = tensor(forward, FORWARD_QUERY)
                .zip(tensor(forward, FORWARD_KEY))
                .and_then(|(query, key)| decoding(&query, &key))
                .unwrap_or(BYTES);
            return Some(vec![Engine { workspace_bytes, notes: 0 }]);
        }
        (None, None, 2) => return Some(vec![Engine { workspace_bytes: BYTES, notes: 0 }]),
        _ => return None,
    };
    let shared = query.get(1) != key.get(1);
    let elements = query.iter().fold(1_u64, |product, &size| product.saturating_mul(size));
    let gradient = if shared { i64::try_from(elements.saturating_mul(4)).unwrap_or(i64::MAX) } else { 0 };
    Some(vec![Engine { workspace_bytes: gradient.saturating_add(BYTES), notes: 0 }])
}

/// Keys that are never shared out, and how many a part has at least.
const WHOLE_KEYS: u64 = 512;
const PART_KEYS: u64 = 128;
/// The least and the most parts.
const PARTS_MIN: u64 = 4;
const PARTS_MAX: u64 = 64;

/// What a query of one row wants, as when a text is continued; nothing if it has more. Long keys are shared out in parts, a power
/// of two of them, so that two blocks run on each multiprocessor; of each part it keeps the sums and two numbers for a row.
///
/// # Source
/// Measured on an H200 with cuDNN 9.19 and torch 2.11: batches of 1 to 32, 4 to 32 heads, 64 and 128 wide, 1 to 32 heads of
/// keys, 100 to 32,768 keys, 336 shapes, all as here.
fn decoding(query: &[u64], key: &[u64]) -> Option<i64> {
    let (&[batch, heads, 1, width], &[_, key_heads, keys, _]) = (query, key) else { return None };
    let blocks = u64::try_from(settings::get().card.multiprocessors).unwrap_or(1) * 2;
    let most = (blocks / (batch * key_heads).max(1)).min(keys.div_ceil(PART_KEYS)).min(PARTS_MAX);
    if keys <= WHOLE_KEYS || most < PARTS_MIN {
        return Some(0);
    }
    let parts = 1 << most.ilog2();
    i64::try_from(parts * batch * heads * (width + 2) * 4 + 128).ok()
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::{create, refer, search, tensor};
    use super::*;

    #[test]
    fn a_backward_attention_wants_a_float_for_each_element_of_the_query_if_heads_are_shared() {
        let backward = |key_heads| {
            let operation = create(BACKWARD);
            refer(operation, BACKWARD_QUERY, &[tensor(2, &[2, 12, 256, 64], &[])]);
            refer(operation, BACKWARD_KEY, &[tensor(2, &[2, key_heads, 256, 64], &[])]);
            search(&[operation])
        };
        assert_eq!(backward(4), [(2 * 12 * 256 * 64 * 4 + 256, false)]);
        assert_eq!(backward(12), [(256, false)]);
    }

    #[test]
    fn keys_of_a_single_row_are_shared_out() {
        let bytes = |batch, heads, key_heads, width, keys| {
            let operation = create(FORWARD);
            refer(operation, FORWARD_QUERY, &[tensor(2, &[batch, heads, 1, width], &[])]);
            refer(operation, FORWARD_KEY, &[tensor(2, &[batch, key_heads, keys, width], &[])]);
            search(&[operation])[0].0
        };
        assert_eq!(
            [bytes(8, 14, 2, 64, 512), bytes(8, 14, 2, 64, 513), bytes(8, 14, 2, 64, 32_768)],
            [0, 118_400, 473_216]
        );
        assert_eq!([bytes(1, 8, 8, 64, 1_500), bytes(1, 32, 8, 128, 4_096)], [17_024, 532_608]);
        assert_eq!([bytes(1, 4, 1, 64, 8_192), bytes(1, 4, 1, 64, 16_384)], [67_712, 67_712], "no more parts");
        assert_eq!([bytes(16, 32, 8, 64, 32_768), bytes(32, 8, 1, 128, 2_048)], [0, 1_065_088]);
        let operation = create(FORWARD);
        refer(operation, FORWARD_QUERY, &[tensor(2, &[1, 8, 2, 64], &[])]);
        refer(operation, FORWARD_KEY, &[tensor(2, &[1, 8, 4_096, 64], &[])]);
        assert_eq!(search(&[operation]), [(BYTES, false)], "two rows");
    }

    #[test]
    fn two_products_are_a_forward_pass() {
        assert_eq!(search(&[create(MATMUL), create(30), create(MATMUL)]), [(256, false)]);
        assert_eq!(search(&[create(MATMUL)]), [(0, false)], "a product alone is none");
    }
}
