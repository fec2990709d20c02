//! Attention as the families have it in common: heads, rotation, the cache, the kernel.

use crate::dtype::DType;
use crate::ops::{AttentionInputs, EagerStyle, Kernel, KernelChoice, Mask};
use crate::setup::{Attention, Setup};
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

/// Keys and values of every layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    pub(crate) layers: Vec<(Tensor, Tensor)>,
    /// Those that were made of what an encoder gave.
    pub(crate) of_encoder: Vec<(Tensor, Tensor)>,
    /// Recurrent states of layers that also attend.
    pub(crate) of_states: Vec<(Tensor, Tensor)>,
}

impl Cache {
    /// Takes everything out, for a call that goes on with it.
    pub(crate) fn take_all(&mut self) -> Vec<Option<(Tensor, Tensor)>> {
        std::mem::take(&mut self.layers).into_iter().map(Some).collect()
    }
}

/// Sizes of attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadDims {
    pub(crate) heads: Dim,
    pub(crate) kv_heads: Dim,
    pub(crate) head_dim: Dim,
    pub(crate) value_dim: Dim,
}

impl HeadDims {
    /// Heads of one size, with or without fewer for keys and values.
    pub(crate) fn new(heads: u64, kv_heads: u64, head_dim: u64) -> HeadDims {
        let head_dim = dim("d", head_dim);
        HeadDims { heads: dim("nh", heads), kv_heads: dim("nkv", kv_heads), head_dim, value_dim: head_dim }
    }

    /// The width of all query heads.
    pub(crate) fn query_width(&self) -> Dim {
        dim("q", self.heads.size.saturating_mul(self.head_dim.size))
    }

    /// The width of all key heads.
    pub(crate) fn key_width(&self) -> Dim {
        dim("k", self.kv_heads.size.saturating_mul(self.head_dim.size))
    }

    /// The width of the values of all key heads.
    pub(crate) fn value_width(&self) -> Dim {
        if self.value_dim.size == self.head_dim.size {
            self.key_width()
        } else {
            dim("v", self.kv_heads.size.saturating_mul(self.value_dim.size))
        }
    }

    /// The width of what all query heads give.
    pub(crate) fn output_width(&self) -> Dim {
        if self.value_dim.size == self.head_dim.size {
            self.query_width()
        } else {
            dim("nh·dv", self.heads.size.saturating_mul(self.value_dim.size))
        }
    }
}

/// How one call of attention goes.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says how something lies or runs")]
pub(crate) struct Plan<'a> {
    pub(crate) dims: HeadDims,
    pub(crate) batch: Dim,
    pub(crate) queries: Dim,
    pub(crate) keys: Dim,
    pub(crate) mask: Option<&'a Mask>,
    pub(crate) is_causal: bool,
    pub(crate) dropout: f64,
    pub(crate) eager: EagerStyle,
    /// Whether keys and values come from a cache.
    pub(crate) cached: bool,
    /// Whether query, key and value are views of one storage.
    pub(crate) is_packed: bool,
    /// Whether queries lie head by head.
    pub(crate) q_by_heads: bool,
    pub(crate) attention: Attention,
}

impl Plan<'_> {
    /// Attention of every query to every key, without mask, dropout or cache.
    pub(crate) fn plain(dims: HeadDims, [batch, queries, keys]: [Dim; 3], attention: Attention) -> Plan<'static> {
        Plan {
            dims,
            batch,
            queries,
            keys,
            mask: None,
            is_causal: false,
            dropout: 0.0,
            eager: EagerStyle { softmax_in_float32: false, scales: true, soft_cap: false },
            cached: false,
            is_packed: false,
            q_by_heads: false,
            attention,
        }
    }

    /// The kernel that will run.
    pub(crate) fn kernel(&self, tape: &Tape, dtype: DType) -> Kernel {
        match self.attention {
            Attention::Eager => Kernel::Eager,
            Attention::Flash => Kernel::Flash,
            Attention::Sdpa => {
                let mut choice = KernelChoice {
                    dtype: tape.autocast.unwrap_or(dtype),
                    has_mask: self.mask.is_some(),
                    is_grouped: self.dims.heads.size != self.dims.kv_heads.size,
                    head_dim: self.dims.head_dim.size,
                    value_dim: self.dims.value_dim.size,
                };
                choice.is_grouped &= choice.asks_grouped();
                tape.fused_kernel(&choice)
            }
        }
    }

    /// Whether the gradient of a key or value has to be copied on its way to the projection: it lies head by head where the
    /// projection wants it token by token.
    pub(crate) fn copies_kv_grad(&self, tape: &Tape, dtype: DType) -> bool {
        let is_grouped = self.dims.heads.size != self.dims.kv_heads.size;
        match self.kernel(tape, dtype) {
            Kernel::Eager | Kernel::Math => true,
            Kernel::Cudnn => self.cached || (is_grouped && self.mask.is_some()),
            Kernel::Efficient | Kernel::Flash => is_grouped && self.mask.is_some(),
        }
    }

    /// The same of a query.
    pub(crate) fn copies_q_grad(&self, tape: &Tape, dtype: DType) -> bool {
        matches!(self.kernel(tape, dtype), Kernel::Eager | Kernel::Math)
    }

    /// Attention over heads.
    pub(crate) fn run(&self, tape: &mut Tape, q: Tensor, k: Tensor, v: Tensor) -> Tensor {
        self.run_with_bias(tape, q, k, v, None)
    }

    /// Attention over heads, with a learned bias of the scores.
    pub(crate) fn run_with_bias(
        &self,
        tape: &mut Tape,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Option<Tensor>,
    ) -> Tensor {
        let kernel = match self.attention {
            Attention::Eager => Kernel::Eager,
            Attention::Flash => Kernel::Flash,
            Attention::Sdpa => Kernel::Efficient,
        };
        let inputs = AttentionInputs {
            q,
            k,
            v,
            batch: self.batch,
            heads: self.dims.heads,
            kv_heads: self.dims.kv_heads,
            queries: self.queries,
            keys: self.keys,
            head_dim: self.dims.head_dim,
            value_dim: self.dims.value_dim,
            mask: self.mask,
            is_causal: self.is_causal,
            dropout: if tape.is_training() { self.dropout } else { 0.0 },
            kv_by_heads: self.cached,
            is_packed: self.is_packed,
            q_by_heads: self.q_by_heads,
            bias,
            eager: self.eager,
        };
        tape.attention(kernel, inputs)
    }
}

/// `x.view(batch, tokens, heads, size)`: with or without a copy of the gradient.
pub(crate) fn as_heads(tape: &mut Tape, x: &Tensor, shape: Shape, copies_grad: bool) -> Tensor {
    if copies_grad { tape.view_with_copied_grad(x, shape) } else { x.view(shape) }
}

/// Keys or values after those of the cache: a copy of both, in the type of the keys.
///
/// # Source
/// transformers 5.17, `cache_utils.py`, `DynamicLayer.lazy_initialization`: empty keys and values are of the keys' type, and
/// concatenating takes the wider one. Under autocast rotated keys are float32, and then so are cached values.
pub(crate) fn extend(
    tape: &mut Tape,
    name: &'static str,
    past: Option<&Tensor>,
    new: &Tensor,
    shape: Shape,
    keys: DType,
) -> Tensor {
    let parts: Vec<&Tensor> = past.into_iter().chain([new]).collect();
    let dtype = if new.dtype == keys { keys } else { DType::Float32 };
    tape.cat_as(name, &parts, shape, dtype)
}

/// Keys and values of `shape` after those of a decoder's cache, if there is one; else they are what was made.
pub(crate) fn extend_both(
    tape: &mut Tape,
    past: Option<(Tensor, Tensor)>,
    (k, v): (Tensor, Tensor),
    shape: Shape,
) -> (Tensor, Tensor) {
    let (past_keys, past_values) = past.unzip();
    let keys = extend(tape, "keys in the cache", past_keys.as_ref(), &k, shape, k.dtype);
    let values = extend(tape, "values in the cache", past_values.as_ref(), &v, shape, k.dtype);
    (keys, values)
}

/// Tables of cosines and sines.
#[derive(Clone, Debug)]
pub(crate) struct Rotary {
    pub(crate) cos: Tensor,
    pub(crate) sin: Tensor,
}

/// The rotary embedding's forward pass: everything in float32, cast at the end.
///
/// # Source
/// transformers 5.17, `modeling_llama.py`, `LlamaRotaryEmbedding.forward`.
///
/// `rows` are the positions: those of a sequence, or of each where they are given.
pub(crate) fn rotary_tables(tape: &mut Tape, rows: Shape, size: Dim, dtype: DType) -> Rotary {
    let part = tape.part("rotary");
    let enabled = std::mem::replace(&mut tape.grad_enabled, false);
    let with = |last| Shape::of(&rows.dims().iter().copied().chain([last]).collect::<Vec<Dim>>());
    let (table, half) = (with(size), with(dim("d/2", size.size / 2)));
    let positions = tape.alloc("positions in float32", rows, DType::Float32);
    let frequencies = tape.alloc("angles", half, DType::Float32);
    let angles = tape.alloc("angles, twice", table, DType::Float32);
    let mut scaled = || {
        let plain = tape.alloc("cosine or sine", table, DType::Float32);
        let scaled = tape.alloc("cosine or sine", table, DType::Float32);
        drop(plain);
        scaled
    };
    let (cos, sin) = (scaled(), scaled());
    let narrow = (tape.to("cosine", &cos, dtype), tape.to("sine", &sin, dtype));
    drop((positions, frequencies, angles, cos, sin));
    tape.grad_enabled = enabled;
    tape.part(part);
    Rotary { cos: narrow.0, sin: narrow.1 }
}

/// Positions of the tokens, as the model makes them when none are given.
pub(crate) fn position_ids(tape: &mut Tape, tokens: Dim) -> Tensor {
    let shape = Shape::of(&[tokens]);
    let range = tape.alloc("positions", shape, DType::Int64);
    let shifted = tape.alloc("positions", shape, DType::Int64);
    drop(range);
    shifted
}

/// The mask that eager attention always gets: a boolean one for all sequences, and from it a number for each of the batch.
///
/// # Source
/// transformers 5.17, `masking_utils.py`, `sdpa_mask`, `eager_mask`.
pub(crate) fn eager_mask(tape: &mut Tape, setup: &Setup, batch: Dim, queries: Dim, keys: Dim) -> Option<Mask> {
    if setup.attention != Attention::Eager || queries.size <= 1 {
        return None;
    }
    let part = tape.part("mask");
    let allowed = tape.alloc("mask, boolean", Shape::of(&[queries, keys]), DType::Byte);
    let tensor = tape.alloc("mask", Shape::of(&[batch, queries, keys]), setup.dtype);
    drop(allowed);
    tape.part(part);
    Some(Mask { tensor, batch })
}

/// The mask of layers with a window, or `None` where the window is no shorter than the sequence; with a mask of padding, which
/// `generate` gives, one for each sequence.
pub(crate) fn window_mask(
    tape: &mut Tape,
    batch: Dim,
    queries: Dim,
    keys: Dim,
    window: Option<u64>,
    is_padded: bool,
) -> Option<Mask> {
    if window.is_none_or(|window| keys.size < window) || (queries.size <= 1 && !is_padded) {
        return None;
    }
    let part = tape.part("mask");
    let shape = Shape::of(&[queries, keys]);
    let causal = tape.alloc("mask, boolean", shape, DType::Byte);
    let near = tape.alloc("mask, boolean", shape, DType::Byte);
    let tensor = tape.alloc("mask, boolean", shape, DType::Byte);
    drop((causal, near));
    let tensor =
        if is_padded { tape.alloc("mask, boolean", Shape::of(&[batch, queries, keys]), DType::Byte) } else { tensor };
    tape.part(part);
    Some(Mask { tensor, batch })
}
