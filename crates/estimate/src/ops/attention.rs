//! Attention: which kernel runs, what it keeps, what it works in.

use crate::dtype::DType;
use crate::setup::TorchRelease;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Grads, Tape, Tensor};

/// Which code computes attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// The model's own Python.
    Eager,
    /// PyTorch's `_scaled_dot_product_attention_math`: quadratic in the sequence.
    Math,
    /// The memory-efficient kernel.
    Efficient,
    /// Flash attention 2, of PyTorch or of the package `flash-attn`.
    Flash,
    /// cuDNN's.
    Cudnn,
}

/// A mask that is given to attention.
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    pub(crate) tensor: Tensor,
    /// Its batch: 1 where all sequences share it.
    pub(crate) batch: Dim,
}

/// What attention gets.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says how something lies or runs")]
pub(crate) struct AttentionInputs<'a> {
    pub(crate) q: Tensor,
    pub(crate) k: Tensor,
    pub(crate) v: Tensor,
    pub(crate) batch: Dim,
    pub(crate) heads: Dim,
    pub(crate) kv_heads: Dim,
    pub(crate) queries: Dim,
    pub(crate) keys: Dim,
    pub(crate) head_dim: Dim,
    pub(crate) value_dim: Dim,
    pub(crate) mask: Option<&'a Mask>,
    pub(crate) is_causal: bool,
    pub(crate) dropout: f64,
    /// Whether keys and values lie head by head, as a cache leaves them; else token by token.
    pub(crate) kv_by_heads: bool,
    /// Whether query, key and value are views of one storage.
    pub(crate) is_packed: bool,
    /// Whether queries lie head by head, where they were joined of pieces: then cuDNN's output does, too.
    pub(crate) q_by_heads: bool,
    /// A bias of the scores that only the math kernel takes (T5).
    pub(crate) bias: Option<Tensor>,
    /// How the model's own Python differs.
    pub(crate) eager: EagerStyle,
}

/// How the eager attention of a family is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EagerStyle {
    /// Softmax in float32, cast back, as Llama's.
    pub(crate) softmax_in_float32: bool,
    /// Scores are multiplied with the scale.
    pub(crate) scales: bool,
    /// A soft cap on the scores: divided, `tanh`, multiplied (Gemma 2).
    pub(crate) soft_cap: bool,
}

/// What the choice of a kernel depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelChoice {
    pub(crate) dtype: DType,
    pub(crate) has_mask: bool,
    /// Whether keys are fewer than query heads when the kernel gets them.
    pub(crate) is_grouped: bool,
    pub(crate) head_dim: u64,
    pub(crate) value_dim: u64,
}

impl KernelChoice {
    /// Whether transformers leaves it to PyTorch that heads share keys; else it repeats them first.
    ///
    /// # Source
    /// transformers 5.17, `integrations/sdpa_attention.py`, `use_gqa_in_sdpa`.
    pub(crate) fn asks_grouped(&self) -> bool {
        !self.has_mask && self.head_dim == self.value_dim && self.head_dim <= 256
    }
}

fn rounded_up(value: u64, to: u64) -> u64 {
    value.div_ceil(to).saturating_mul(to)
}

impl Tape {
    /// Which kernel `scaled_dot_product_attention` takes.
    ///
    /// # Source
    /// `spec/memory-formulas.md` section 3; PyTorch v2.11, `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`.
    pub(crate) fn fused_kernel(&self, choice: &KernelChoice) -> Kernel {
        let (major, _) = self.platform.compute_capability;
        let head_dim = choice.head_dim.max(choice.value_dim);
        if choice.dtype.is_half() {
            let cudnn_limit = if major == 9 { 256 } else { 128 };
            let has_cudnn = matches!(major, 9 | 10) && self.platform.has_cudnn_attention;
            if has_cudnn && head_dim <= cudnn_limit && head_dim.is_multiple_of(8) {
                return Kernel::Cudnn;
            }
            if major >= 8 && !choice.has_mask && head_dim <= 256 && choice.head_dim == choice.value_dim {
                return Kernel::Flash;
            }
            if major < 8 && choice.dtype == DType::BFloat16 {
                return Kernel::Math;
            }
        }
        if choice.is_grouped && self.platform.torch < TorchRelease::V2_15 { Kernel::Math } else { Kernel::Efficient }
    }

    /// Keys or values repeated for the query heads that share them: a copy; the gradient is summed over them.
    fn repeat_kv(&mut self, name: &'static str, x: &Tensor, inputs: &AttentionInputs<'_>, last: Dim) -> Tensor {
        if inputs.heads.size == inputs.kv_heads.size {
            return x.clone();
        }
        let shape = Shape::of(&[inputs.batch, inputs.keys, inputs.heads, last]);
        let repeated = self.alloc(name, shape, x.dtype);
        if !self.records(&[x]) {
            return repeated;
        }
        let own = x.shape;
        self.record(&[x], repeated, move |tape, grad| {
            let sum = tape.alloc("gradient, summed over the heads of a group", own, grad.dtype);
            drop(grad);
            vec![Some(sum)]
        })
    }

    /// Attention from query, key and value to what the output projection gets: token by token, one storage.
    pub(crate) fn attention(&mut self, kernel: Kernel, mut inputs: AttentionInputs<'_>) -> Tensor {
        match kernel {
            Kernel::Eager => self.eager_attention(inputs),
            _ => {
                self.autocast_attention(&mut inputs);
                let mut choice = KernelChoice {
                    dtype: inputs.q.dtype,
                    has_mask: inputs.mask.is_some(),
                    is_grouped: inputs.heads.size != inputs.kv_heads.size,
                    head_dim: inputs.head_dim.size,
                    value_dim: inputs.value_dim.size,
                };
                if choice.is_grouped && !choice.asks_grouped() {
                    inputs.k =
                        self.repeat_kv("keys, repeated for the query heads", &inputs.k, &inputs, inputs.head_dim);
                    inputs.v =
                        self.repeat_kv("values, repeated for the query heads", &inputs.v, &inputs, inputs.value_dim);
                    inputs.kv_heads = inputs.heads;
                    choice.is_grouped = false;
                }
                let kernel = match kernel {
                    Kernel::Flash => kernel,
                    // No fused kernel gives a bias its gradient, or takes one that does not lie row by row.
                    _ if inputs.bias.is_some() => Kernel::Math,
                    _ => self.fused_kernel(&choice),
                };
                if kernel == Kernel::Math { self.math_attention(inputs) } else { self.fused_attention(kernel, inputs) }
            }
        }
    }

    /// Autocast casts what attention gets, the last argument first.
    fn autocast_attention(&mut self, inputs: &mut AttentionInputs<'_>) {
        let Some(lower) = self.autocast else { return };
        inputs.v = self.to("values, cast by autocast", &inputs.v, lower);
        inputs.k = self.to("keys, cast by autocast", &inputs.k, lower);
        inputs.q = self.to("queries, cast by autocast", &inputs.q, lower);
    }

    /// A boolean mask as the bias that kernels want: of the query's type, its rows padded for the memory-efficient kernel.
    fn bias_of_mask(&mut self, kernel: Kernel, inputs: &AttentionInputs<'_>, dtype: DType) -> Option<Tensor> {
        let mask = inputs.mask?;
        let keys = inputs.keys;
        let mut bias = if mask.tensor.dtype == DType::Byte {
            let shape = Shape::of(&[mask.batch, inputs.queries, keys]);
            self.alloc("mask as a bias", shape, dtype)
        } else {
            mask.tensor.clone()
        };
        if kernel == Kernel::Efficient && !keys.size.is_multiple_of(8) {
            let shape = Shape::of(&[mask.batch, inputs.queries, dim("S padded", rounded_up(keys.size, 8))]);
            bias = self.alloc("mask as a bias, padded", shape, dtype);
        }
        Some(bias)
    }

    /// Flash, memory-efficient and cuDNN attention: keep query, key, value, output and the log-sum-exp.
    #[expect(clippy::needless_pass_by_value, reason = "the inputs are let go when it returns")]
    #[expect(clippy::many_single_char_names, reason = "the symbols of the formulas")]
    fn fused_attention(&mut self, kernel: Kernel, inputs: AttentionInputs<'_>) -> Tensor {
        let dtype = inputs.q.dtype;
        let bias = self.bias_of_mask(kernel, &inputs, dtype);
        let (b, s, nh) = (inputs.batch, inputs.queries, inputs.heads);
        let records = self.records(&[&inputs.q, &inputs.k, &inputs.v]);
        let kept = records.then(|| (self.save(&inputs.q), self.save(&inputs.k), self.save(&inputs.v)));
        let output_shape = Shape::of(&[b, s, nh, inputs.value_dim]);
        let rows = match kernel {
            Kernel::Efficient => dim("S to 32", rounded_up(s.size, 32)),
            _ => s,
        };
        let mut random = Vec::new();
        if kernel == Kernel::Cudnn {
            random = vec![self.random_state(1), self.random_state(1)];
        }
        let output = self.alloc("attention output", output_shape, dtype);
        let needs_sums = records || kernel == Kernel::Flash;
        let sums = needs_sums.then(|| self.alloc("attention: log-sum-exp", Shape::of(&[b, nh, rows]), DType::Float32));
        match kernel {
            Kernel::Flash => random = vec![self.random_state(2), self.random_state(1)],
            Kernel::Cudnn => drop(self.alloc("cuDNN: workspace", Shape::of(&[dim("256", 256)]), DType::Byte)),
            _ => {}
        }
        let Some((q, k, v)) = kept else {
            let lies_by_heads = kernel == Kernel::Cudnn && inputs.q_by_heads;
            return if lies_by_heads { self.copy("attention output", &output) } else { output };
        };
        let (kept_output, sums) = (self.save(&output), sums.map(|sums| self.save(&sums)));
        let bias = bias.map(|bias| self.save(&bias));
        let shapes = KernelShapes {
            kernel,
            batch: b,
            heads: nh,
            queries: s,
            keys: inputs.keys,
            head_dim: inputs.head_dim,
            value_dim: inputs.value_dim,
            is_grouped: inputs.heads.size != inputs.kv_heads.size,
            dtype,
        };
        let is_packed = inputs.is_packed;
        let lies_by_heads = kernel == Kernel::Cudnn && inputs.q_by_heads;
        let mut node = self.record(&[&inputs.q, &inputs.k, &inputs.v], output, move |tape, grad| {
            let part = tape.part("attention");
            let grads = tape.fused_attention_grads(&shapes, [&q, &k, &v], is_packed);
            drop((grad, q, k, v, kept_output, sums, bias, random));
            tape.part(part);
            grads
        });
        node.shape = output_shape;
        if lies_by_heads { self.token_by_token(&node, &inputs) } else { node }
    }

    fn random_state(&mut self, values: u64) -> Tensor {
        self.alloc("attention: random state", Shape::of(&[dim("1", values)]), DType::Int64)
    }

    /// What the backward kernels allocate.
    ///
    /// # Source
    /// PyTorch v2.11, `aten/src/ATen/native/transformers/cuda/attention_backward.cu` and `flash_attn/flash_api.cpp`; the memory-efficient
    /// kernel's tiles: `mem_eff_attention/kernel_backward.h`; cuDNN's workspace: recordings on an H200.
    fn fused_attention_grads(&mut self, shapes: &KernelShapes, kept: [&Tensor; 3], is_packed: bool) -> Grads {
        let (b, s, nh) = (shapes.batch, shapes.queries, shapes.heads);
        let grads: Grads = if is_packed && shapes.kernel == Kernel::Efficient {
            let whole = self.alloc(
                "gradients of query, key and value",
                Shape::of(&[b, s, dim("3", 3), kept[0].shape.last_width()]),
                shapes.dtype,
            );
            kept.iter().map(|kept| Some(whole.view(kept.shape).through_view())).collect()
        } else {
            let name = "gradient of query, key or value";
            kept.iter().map(|kept| Some(self.alloc(name, kept.shape, shapes.dtype))).collect()
        };
        match shapes.kernel {
            Kernel::Efficient => {
                let per_row = Shape::of(&[b, s, nh]);
                let delta = if shapes.dtype == DType::Float32 {
                    let product = self.alloc(
                        "attention: output by its gradient",
                        Shape::of(&[b, s, nh, shapes.value_dim]),
                        DType::Float32,
                    );
                    let sum = self.alloc("attention: row sums", per_row, DType::Float32);
                    let delta = self.alloc("attention: row sums, head by head", per_row, DType::Float32);
                    drop((sum, product));
                    delta
                } else {
                    self.alloc("attention: row sums", per_row, DType::Float32)
                };
                let workspace = self.alloc(
                    "attention: tiles of the memory-efficient kernel",
                    shapes.efficient_workspace(),
                    DType::Byte,
                );
                drop((delta, workspace));
            }
            Kernel::Flash => {
                let rows = dim("S to 128", rounded_up(s.size, 128));
                let width = dim("d to 32", rounded_up(shapes.head_dim.size, 32));
                let sums = self.alloc("flash: row sums", Shape::of(&[b, nh, rows]), DType::Float32);
                let queries = self.alloc(
                    "flash: gradient of the query in float32",
                    Shape::of(&[b, rows, nh, width]),
                    DType::Float32,
                );
                let expanded = shapes.is_grouped.then(|| {
                    let shape = Shape::of(&[b, shapes.keys, nh, shapes.head_dim]);
                    let name = "flash: gradient of keys or values before it is summed";
                    (self.alloc(name, shape, shapes.dtype), self.alloc(name, shape, shapes.dtype))
                });
                drop((sums, queries, expanded));
            }
            Kernel::Cudnn => {
                let bytes = (8 * shapes.head_dim.size.max(shapes.value_dim.size) + 4)
                    .saturating_mul(b.size)
                    .saturating_mul(nh.size)
                    .saturating_mul(s.size)
                    .saturating_add(256);
                drop(self.alloc("cuDNN: workspace", Shape::of(&[dim("B·nh·S·(8d + 4) + 256", bytes)]), DType::Byte));
            }
            Kernel::Eager | Kernel::Math => {}
        }
        grads
    }

    /// Softmax over the last size: keeps its output.
    pub(crate) fn softmax(&mut self, x: &Tensor) -> Tensor {
        self.softmax_as(x, x.dtype)
    }

    /// Softmax that also casts, as PyTorch fuses it from float16 to float32.
    ///
    /// # Source
    /// PyTorch v2.11, `aten/src/ATen/native/cuda/SoftMax.cu`, `softmax_backward_cuda_out`: beside the gradient there is
    /// `grad * output`, in the type of the output.
    fn softmax_as(&mut self, x: &Tensor, dtype: DType) -> Tensor {
        let records = self.records(&[x]);
        let output = self.alloc("attention: probabilities", x.shape, dtype);
        if !records {
            return output;
        }
        let kept = self.save(&output);
        let from = x.dtype;
        self.record(&[x], output, move |tape, grad| {
            let gradient = tape.alloc("gradient of a softmax", grad.shape, from);
            let product = tape.alloc("gradient by the probabilities", grad.shape, grad.dtype);
            drop((product, grad, kept));
            vec![Some(gradient)]
        })
    }

    /// A product of activations wants its operands head by head: a copy, if the batch is more than one.
    fn by_heads(&mut self, name: &'static str, x: &Tensor, batch: Dim) -> Tensor {
        if batch.size > 1 { self.copy(name, x) } else { x.clone() }
    }

    fn score_shape(inputs: &AttentionInputs<'_>) -> Shape {
        Shape::of(&[inputs.batch, inputs.heads, inputs.queries, inputs.keys])
    }

    /// `eager_attention_forward` of transformers.
    #[expect(clippy::needless_pass_by_value, reason = "the inputs are let go when it returns")]
    fn eager_attention(&mut self, inputs: AttentionInputs<'_>) -> Tensor {
        let is_grouped = inputs.heads.size != inputs.kv_heads.size;
        let k = self.repeat_kv("keys, repeated for the query heads", &inputs.k, &inputs, inputs.head_dim);
        let v = self.repeat_kv("values, repeated for the query heads", &inputs.v, &inputs, inputs.value_dim);
        let kv_by_heads = inputs.kv_by_heads || is_grouped;
        let dtype = self.autocast.unwrap_or(inputs.q.dtype);
        let v_dtype = v.dtype;
        let mut scores = {
            let q = self.to("queries, cast by autocast", &inputs.q, dtype);
            let k = self.to("keys, cast by autocast", &k, dtype);
            let q = self.by_heads("queries, head by head", &q, inputs.batch);
            let k = if kv_by_heads { k } else { self.by_heads("keys, head by head", &k, inputs.batch) };
            self.bmm("attention: scores", &q, &k, Self::score_shape(&inputs))
        };
        drop(k);
        if inputs.eager.scales {
            scores = self.scale("attention: scaled scores", &scores);
        }
        if inputs.eager.soft_cap {
            scores = self.scale("attention: scores by the cap", &scores);
            scores = self.activation_of_output("attention: tanh of the scores", &scores);
            scores = self.scale("attention: capped scores", &scores);
        }
        if let Some(bias) = &inputs.bias {
            scores = self.add("attention: scores with bias", &scores, bias);
        }
        if let Some(mask) = inputs.mask {
            scores = self.add("attention: masked scores", &scores, &mask.tensor);
        }
        let wide =
            if inputs.eager.softmax_in_float32 || self.autocast.is_some() { DType::Float32 } else { scores.dtype };
        let mut probabilities = if wide == scores.dtype || scores.dtype == DType::Float16 {
            self.softmax_as(&scores, wide)
        } else {
            let cast = self.to("attention: scores in float32", &scores, wide);
            self.softmax(&cast)
        };
        drop(scores);
        let narrow = if inputs.eager.softmax_in_float32 { inputs.q.dtype } else { v_dtype };
        probabilities = self.to("attention: probabilities, cast back", &probabilities, narrow);
        let probabilities = self.dropout("attention", probabilities, inputs.dropout);
        let output = {
            let p = self.to("attention: probabilities, cast by autocast", &probabilities, dtype);
            let v = self.to("values, cast by autocast", &v, dtype);
            let v = if kv_by_heads { v } else { self.by_heads("values, head by head", &v, inputs.batch) };
            self.bmm(
                "attention output, head by head",
                &p,
                &v,
                Shape::of(&[inputs.batch, inputs.heads, inputs.queries, inputs.value_dim]),
            )
        };
        drop((probabilities, v));
        self.token_by_token(&output, &inputs)
    }

    /// `transpose(1, 2).contiguous()`: a copy, whose gradient is copied back.
    fn token_by_token(&mut self, output: &Tensor, inputs: &AttentionInputs<'_>) -> Tensor {
        let shape = Shape::of(&[inputs.batch, inputs.queries, inputs.heads, inputs.value_dim]);
        let turned = self.view_with_copied_grad(output, shape);
        self.copy("attention output", &turned)
    }

    /// `_scaled_dot_product_attention_math`.
    ///
    /// # Source
    /// PyTorch v2.11, `aten/src/ATen/native/transformers/attention.cpp`; 16-bit operands are taken to float32. Autocast has cast
    /// what it got, and is off inside.
    fn math_attention(&mut self, inputs: AttentionInputs<'_>) -> Tensor {
        let autocast = self.autocast.take();
        let output = self.math_attention_inside(inputs);
        self.autocast = autocast;
        output
    }

    #[expect(clippy::needless_pass_by_value, reason = "the inputs are let go when it returns")]
    fn math_attention_inside(&mut self, inputs: AttentionInputs<'_>) -> Tensor {
        let dtype = inputs.q.dtype;
        let q = self.to("queries in float32", &inputs.q, DType::Float32);
        let k = self.to("keys in float32", &inputs.k, DType::Float32);
        let v = self.to("values in float32", &inputs.v, DType::Float32);
        let scaled_q = self.scale("scaled queries", &q);
        let square = Shape::of(&[inputs.queries, inputs.keys]);
        let mask = if inputs.is_causal && inputs.queries.size > 1 {
            let ones = self.alloc("causal mask, boolean", square, DType::Byte);
            let triangle = self.alloc("causal mask, boolean", square, DType::Byte);
            drop(ones);
            let bias = self.alloc("causal mask as a bias", square, DType::Float32);
            drop(triangle);
            Some(bias)
        } else {
            self.bias_of_mask(Kernel::Math, &inputs, DType::Float32)
        };
        let k = self.repeat_kv("keys, repeated for the query heads", &k, &inputs, inputs.head_dim);
        let v = self.repeat_kv("values, repeated for the query heads", &v, &inputs, inputs.value_dim);
        let scaled_k = self.scale("scaled keys", &k);
        let is_grouped = inputs.heads.size != inputs.kv_heads.size;
        let by_heads = inputs.kv_by_heads || is_grouped;
        let mut scores = {
            let q = self.by_heads("queries, head by head", &scaled_q, inputs.batch);
            let k =
                if by_heads { scaled_k.clone() } else { self.by_heads("keys, head by head", &scaled_k, inputs.batch) };
            self.bmm("attention: scores", &q, &k, Self::score_shape(&inputs))
        };
        drop(scaled_k);
        if let Some(bias) = &inputs.bias {
            scores = self.add_in_place(&scores, bias);
        }
        let mut probabilities = self.softmax(&scores);
        if mask.is_some() || inputs.bias.is_some() {
            let shape = Self::score_shape(&inputs);
            let masked = self.alloc("attention: masked rows", shape, DType::Byte);
            let rows = self.alloc("attention: masked rows", shape.rows(), DType::Byte);
            drop((masked, rows));
        }
        drop(scores);
        if inputs.dropout > 0.0 {
            let outputs = self.module_outputs;
            probabilities = self.dropout("attention", probabilities, inputs.dropout);
            self.module_outputs = outputs;
        }
        // The probabilities are an output, too, which nobody takes.
        let narrow = (dtype != DType::Float32)
            .then(|| self.alloc("attention: probabilities, cast back", probabilities.shape, dtype));
        let v = if by_heads { v } else { self.by_heads("values, head by head", &v, inputs.batch) };
        let output = self.bmm(
            "attention output, head by head",
            &probabilities,
            &v,
            Shape::of(&[inputs.batch, inputs.heads, inputs.queries, inputs.value_dim]),
        );
        let output = self.to("attention output, cast back", &output, dtype);
        drop((q, scaled_q, k, mask, probabilities, v, narrow));
        self.token_by_token(&output, &inputs)
    }
}

/// The sizes that a kernel's scratch depends on.
#[derive(Clone, Copy, Debug)]
struct KernelShapes {
    kernel: Kernel,
    batch: Dim,
    heads: Dim,
    queries: Dim,
    keys: Dim,
    head_dim: Dim,
    value_dim: Dim,
    is_grouped: bool,
    dtype: DType,
}

impl KernelShapes {
    /// The memory-efficient kernel's scratch: a tile of float32 and a lock for each block of queries and of columns; with large
    /// heads in 16 bit also the gradients of keys and values in float32.
    ///
    /// # Source
    /// PyTorch v2.11, `mem_eff_attention/kernel_backward.h`, `workspace_size`; the tiles as measured for compute capability 8.0
    /// to 9.0 and head sizes of 32 to 256.
    fn efficient_workspace(&self) -> Shape {
        let width = self.head_dim.size.max(self.value_dim.size);
        let is_wide = self.dtype == DType::Float32;
        let (rows, columns) = match width {
            0..=64 => (64, 64),
            65..=128 if !is_wide => (128, 128),
            _ => (128, 64),
        };
        let tile = 4 * rows * columns + 16;
        let tiles =
            self.queries.size.div_ceil(rows).saturating_mul(self.head_dim.size.div_ceil(columns)).saturating_mul(tile);
        let sums = if !is_wide && width > 128 {
            rounded_up(self.keys.size, 64)
                .saturating_mul(rounded_up(self.head_dim.size, 128) + rounded_up(self.value_dim.size, 128))
                .saturating_mul(4)
        } else {
            0
        };
        let bytes = self.batch.size.saturating_mul(self.heads.size).saturating_mul(tiles.saturating_add(sums));
        Shape::of(&[dim("B·nh·tiles", bytes)])
    }
}

impl Shape {
    /// The product of all sizes but the first two: the width of a token.
    fn last_width(&self) -> Dim {
        dim("q", self.dims().iter().skip(2).fold(1, |product: u64, dim| product.saturating_mul(dim.size)))
    }
}
