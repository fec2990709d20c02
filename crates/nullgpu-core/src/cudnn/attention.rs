//! Attention as a graph of cuDNN's: one operation, or of two or five products.

use super::graph::{Descriptors, Engine, attribute};

const MATMUL: i32 = 19;
const FORWARD: i32 = 41;
const BACKWARD: i32 = 43;

const MATMUL_A: i32 = 1520;
const MATMUL_B: i32 = 1521;
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
        (None, Some(_), _) | (None, None, 2) => {
            return Some(vec![Engine { workspace_bytes: BYTES, tensor_cores: false }]);
        }
        _ => return None,
    };
    let shared = query.get(1) != key.get(1);
    let elements = query.iter().fold(1_u64, |product, &size| product.saturating_mul(size));
    let gradient = if shared { i64::try_from(elements.saturating_mul(4)).unwrap_or(i64::MAX) } else { 0 };
    Some(vec![Engine { workspace_bytes: gradient.saturating_add(BYTES), tensor_cores: false }])
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
    fn two_products_are_a_forward_pass() {
        assert_eq!(search(&[create(MATMUL), create(30), create(MATMUL)]), [(256, false)]);
        assert_eq!(search(&[create(MATMUL)]), [(0, false)], "a product alone is none");
    }
}
