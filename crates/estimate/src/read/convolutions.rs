//! Networks for images of several scales: `ResNet`, `ConvNeXt`, Swin, `SegFormer`, DETR.
//!
//! # Source
//! transformers 5.17, `models/resnet/modeling_resnet.py`, `models/convnext/modeling_convnext.py`,
//! `models/segformer/modeling_segformer.py`, `models/detr/modeling_detr.py`; 5.24, `models/swin/modeling_swin.py`.

use serde_json::{Map, Value};

use super::fields::{ConfigError, Fields};
use crate::chain::{Chain, Draft, MOST_STEPS, Op, Window};

/// Side of the image that a `ResNet` is taken to see, a `ConvNeXt`, and a `SegFormer`.
const RESNET_SIDE: u64 = 224;
const CONVNEXT_SIDE: u64 = 224;
const SEGFORMER_SIDE: u64 = 512;
/// An image whose short side is scaled to 800, as DETR's processor does.
const DETR_IMAGE: [u64; 2] = [800, 1066];

/// A list of sizes, or transformers' default.
pub(super) fn sizes(fields: &Fields<'_>, name: &str, default: &[u64]) -> Result<Vec<u64>, ConfigError> {
    let list = match fields.any(&[name]) {
        None => default.to_vec(),
        Some(_) => fields.numbers(&[name]),
    };
    if list.is_empty() || list.len() > 64 || list.iter().any(|size| *size == 0 || *size > 1 << 24) {
        return Err(ConfigError::Contradiction(format!("`{name}` is not a list of sizes")));
    }
    Ok(list)
}

/// Refuses lists that belong together and are not of one length.
fn as_long(lists: &[(&str, &[u64])], length: usize) -> Result<(), ConfigError> {
    match lists.iter().find(|(_, list)| list.len() < length) {
        None => Ok(()),
        Some((name, list)) => {
            Err(ConfigError::Contradiction(format!("`{name}` has {} entries for {length} stages", list.len())))
        }
    }
}

/// The finished chain, unless it is longer than any network.
pub(super) fn finished(draft: Draft) -> Result<Chain, ConfigError> {
    if draft.chain.steps.len() > MOST_STEPS {
        return Err(ConfigError::Contradiction(format!("it has more than {MOST_STEPS} operators")));
    }
    Ok(draft.chain)
}

/// Layers of all stages, which no network has more than some thousands of.
pub(super) fn bounded(depths: &[u64]) -> Result<(), ConfigError> {
    let all = depths.iter().fold(0_u64, |sum, depth| sum.saturating_add(*depth));
    if all > 4096 {
        return Err(ConfigError::Contradiction(format!("it has {all} layers: no model has more than 4096")));
    }
    Ok(())
}

/// Labels of a classifier: `id2label` or `num_labels`, else two.
pub(super) fn labels(fields: &mut Fields<'_>) -> Result<u64, ConfigError> {
    let counted = fields.object("id2label").map(|labels| u64::try_from(labels.len()).unwrap_or(u64::MAX));
    if let Some(count) = fields.count_if(&["num_labels"])?.or(counted.filter(|count| *count > 0)) {
        return Ok(count);
    }
    fields.assume("num_labels", "2");
    Ok(2)
}

/// What is done to the outputs of a convolution.
#[derive(Clone, Copy)]
struct Norms {
    /// Mean, variance, weight and bias never change: a product and a sum.
    is_frozen: bool,
}

impl Norms {
    fn after(self, draft: &mut Draft, module: String, x: usize) -> usize {
        if !self.is_frozen {
            return draft.batch_norm(module, x);
        }
        let part = std::mem::replace(&mut draft.part, "norm");
        let scaled = draft.same("frozen norm: scaled", Op::Copy, x);
        let shifted = draft.same("frozen norm output", Op::Copy, scaled);
        draft.chain.steps[shifted].buffer_bytes = draft.shape(x)[0].saturating_mul(16);
        draft.hold(x);
        draft.part = part;
        shifted
    }
}

/// Sizes of a `ResNet`.
struct ResNet {
    embedding: u64,
    hidden: Vec<u64>,
    depths: Vec<u64>,
    is_bottleneck: bool,
    first_is_reduced: bool,
    reduces_early: bool,
}

impl ResNet {
    fn read(fields: &mut Fields<'_>) -> Result<ResNet, ConfigError> {
        let hidden = sizes(fields, "hidden_sizes", &[256, 512, 1024, 2048])?;
        let depths = sizes(fields, "depths", &[3, 4, 6, 3])?;
        as_long(&[("depths", &depths)], hidden.len())?;
        bounded(&depths)?;
        Ok(ResNet {
            embedding: fields.count_if(&["embedding_size"])?.unwrap_or(64),
            is_bottleneck: fields.word(&["layer_type"])?.unwrap_or("bottleneck") == "bottleneck",
            first_is_reduced: fields.flag(&["downsample_in_first_stage"], false)?,
            reduces_early: fields.flag(&["downsample_in_bottleneck"], false)?,
            hidden,
            depths,
        })
    }

    /// The one that timm has under this name.
    fn named(name: &str) -> Option<ResNet> {
        let (depths, is_bottleneck): (&[u64], bool) = match name.split('.').next()? {
            "resnet18" => (&[2, 2, 2, 2], false),
            "resnet34" => (&[3, 4, 6, 3], false),
            "resnet50" => (&[3, 4, 6, 3], true),
            "resnet101" => (&[3, 4, 23, 3], true),
            "resnet152" => (&[3, 8, 36, 3], true),
            _ => return None,
        };
        let hidden = if is_bottleneck { vec![256, 512, 1024, 2048] } else { vec![64, 128, 256, 512] };
        Some(ResNet {
            embedding: 64,
            hidden,
            depths: depths.to_vec(),
            is_bottleneck,
            first_is_reduced: false,
            reduces_early: false,
        })
    }

    /// Its last stage's value; the first so many stages, with the stem, are not trained.
    fn draw(&self, draft: &mut Draft, prefix: &str, x: usize, norms: Norms, frozen_stages: usize) -> usize {
        draft.part = "convolutions";
        draft.is_frozen = frozen_stages > 0;
        let stem = Window { stride: 2, ..plain(self.embedding, 7) };
        let pixels = x;
        let x = draft.convolution(format!("{prefix}embedder.embedder.convolution"), x, stem);
        let x = norms.after(draft, format!("{prefix}embedder.embedder.normalization"), x);
        let x = draft.same("activation function", Op::OfOutput, x);
        let pooled = {
            let [channels, height, width] = [0, 1, 2].map(|at| draft.shape(x)[at]);
            [channels, height.div_ceil(2), width.div_ceil(2)]
        };
        let pooled = draft.reshape("pooled maximum", Op::Pool, x, &pooled);
        let mut x = pooled;
        for (stage, (hidden, depth)) in self.hidden.iter().zip(&self.depths).enumerate() {
            draft.is_frozen = stage + 1 < frozen_stages;
            let of_stage = x;
            for layer in 0..*depth {
                let is_reduced = layer == 0 && (stage > 0 || self.first_is_reduced);
                let module = format!("{prefix}encoder.stages.{stage}.layers.{layer}.");
                x = self.layer(draft, &module, x, *hidden, if is_reduced { 2 } else { 1 }, norms);
            }
            draft.hold(of_stage);
        }
        draft.hold(pixels);
        draft.hold(pooled);
        draft.is_frozen = false;
        x
    }

    fn layer(&self, draft: &mut Draft, module: &str, x: usize, hidden: u64, stride: u64, norms: Norms) -> usize {
        let windows = if self.is_bottleneck {
            let reduced = (hidden / 4).max(1);
            let (first, second) = if self.reduces_early { (stride, 1) } else { (1, stride) };
            vec![
                Window { stride: first, ..plain(reduced, 1) },
                Window { stride: second, ..plain(reduced, 3) },
                plain(hidden, 1),
            ]
        } else {
            vec![Window { stride, ..plain(hidden, 3) }, plain(hidden, 3)]
        };
        let count = windows.len();
        let mut inner = x;
        for (at, window) in windows.into_iter().enumerate() {
            let given = inner;
            inner = draft.convolution(format!("{module}layer.{at}.convolution"), inner, window);
            inner = norms.after(draft, format!("{module}layer.{at}.normalization"), inner);
            if at + 1 < count {
                inner = draft.same("activation function", Op::OfOutput, inner);
            }
            draft.hold(given);
        }
        let shortcut = if draft.shape(x)[0] != hidden || stride != 1 {
            let window = Window { stride, ..plain(hidden, 1) };
            let shortcut = draft.convolution(format!("{module}shortcut.convolution"), x, window);
            norms.after(draft, format!("{module}shortcut.normalization"), shortcut)
        } else {
            x
        };
        let sum = draft.sum("residual", Op::AddInto, inner, shortcut);
        let output = draft.same("activation function", Op::OfOutput, sum);
        draft.hold(x);
        output
    }
}

/// A convolution without a bias.
fn plain(outputs: u64, kernel: u64) -> Window {
    Window { bias: false, ..Window::new(outputs, kernel) }
}

/// `ResNet` with its classifier.
pub(super) fn resnet(fields: &mut Fields<'_>) -> Result<Chain, ConfigError> {
    let sizes = ResNet::read(fields)?;
    let labels = labels(fields)?;
    let mut draft = Draft::default();
    let channels = fields.count_if(&["num_channels"])?.unwrap_or(3);
    let pixels = draft.input("pixels", &[channels, RESNET_SIDE, RESNET_SIDE]);
    let x = sizes.draw(&mut draft, "resnet.", pixels, Norms { is_frozen: false }, 0);
    draft.part = "head";
    let width = draft.shape(x)[0];
    let pooled = draft.reshape("mean of the pixels", Op::Copy, x, &[1, width]);
    draft.product("classifier.1", pooled, labels, true);
    fields.assumptions.push(format!("an image of {RESNET_SIDE} × {RESNET_SIDE}"));
    finished(draft)
}

/// `ConvNeXt` with its classifier.
pub(super) fn convnext(fields: &mut Fields<'_>) -> Result<Chain, ConfigError> {
    let hidden = sizes(fields, "hidden_sizes", &[96, 192, 384, 768])?;
    let depths = sizes(fields, "depths", &[3, 3, 9, 3])?;
    as_long(&[("depths", &depths)], hidden.len())?;
    bounded(&depths)?;
    let labels = labels(fields)?;
    let is_scaled = fields.number(&["layer_scale_init_value"])?.unwrap_or(1e-6) > 0.0;
    let patch = fields.count_if(&["patch_size"])?.unwrap_or(4);
    let side = fields.count_if(&["image_size"])?.unwrap_or(CONVNEXT_SIDE);
    if fields.number(&["drop_path_rate"])?.unwrap_or(0.0) > 0.0 {
        fields.assumptions.push("no layer is dropped, whatever `drop_path_rate` says".to_owned());
    }
    let mut draft = Draft::default();
    let channels = fields.count_if(&["num_channels"])?.unwrap_or(3);
    draft.part = "embedding";
    let pixels = draft.input("pixels", &[channels, side, side]);
    let stem = Window { stride: patch, padding: 0, ..Window::new(hidden[0], patch) };
    let mut x = draft.convolution("convnext.embeddings.patch_embeddings", pixels, stem);
    x = draft.norm("convnext.embeddings.layernorm", x);
    let embedded = x;
    for (stage, (width, depth)) in hidden.iter().zip(&depths).enumerate() {
        let module = format!("convnext.encoder.stages.{stage}.");
        draft.part = "convolutions";
        let of_stage = x;
        if stage > 0 {
            let normed = draft.norm(format!("{module}downsampling_layer.0"), x);
            let half = Window { stride: 2, padding: 0, ..Window::new(*width, 2) };
            x = draft.convolution(format!("{module}downsampling_layer.1"), normed, half);
        }
        for layer in 0..*depth {
            x = convnext_layer(&mut draft, &format!("{module}layers.{layer}."), x, is_scaled);
        }
        draft.hold(of_stage);
    }
    draft.hold(embedded);
    draft.part = "head";
    let width = draft.shape(x)[0];
    let pooled = draft.reshape("mean of the pixels", Op::Copy, x, &[1, width]);
    let normed = draft.norm("convnext.layernorm", pooled);
    draft.product("classifier", normed, labels, true);
    fields.assumptions.push(format!("an image of {side} × {side}"));
    finished(draft)
}

/// A convolution of each channel, then an MLP for each pixel.
fn convnext_layer(draft: &mut Draft, module: &str, x: usize, is_scaled: bool) -> usize {
    let image = draft.shape(x).to_vec();
    let width = image[0];
    let own = Window { groups: width, ..Window::new(width, 7) };
    let spread = draft.convolution(format!("{module}dwconv"), x, own);
    let tokens = draft.as_tokens(spread);
    let normed = draft.norm(format!("{module}layernorm"), tokens);
    draft.part = "mlp";
    let wide = draft.product(format!("{module}pwconv1"), normed, width.saturating_mul(4), true);
    let active = draft.same("activation function", Op::OfInput, wide);
    let mut narrow = draft.product(format!("{module}pwconv2"), active, width, true);
    if is_scaled {
        narrow = draft.scale(format!("{module}layer_scale_parameter"), narrow);
    }
    draft.part = "convolutions";
    let inner = draft.reshape("positions as pixels", Op::View, narrow, &image);
    let sum = draft.sum("residual", Op::Add, x, inner);
    draft.hold(x);
    sum
}

/// Swin with a classifier: attention within windows, whose scores are tensors of their own.
pub(super) fn swin(fields: &mut Fields<'_>) -> Result<Chain, ConfigError> {
    let depths = sizes(fields, "depths", &[2, 2, 6, 2])?;
    let heads = sizes(fields, "num_heads", &[3, 6, 12, 24])?;
    as_long(&[("num_heads", &heads)], depths.len())?;
    bounded(&depths)?;
    let patch = fields.count_if(&["patch_size"])?.unwrap_or(4);
    let window = fields.count_if(&["window_size"])?.unwrap_or(7);
    let bias = fields.flag(&["qkv_bias"], true)?;
    if fields.flag(&["use_absolute_embeddings"], false)? {
        return Err(ConfigError::NotComputed {
            name: "swin".to_owned(),
            reason: "its `use_absolute_embeddings` is not supported".to_owned(),
        });
    }
    let ratio = fields.number(&["mlp_ratio"])?.unwrap_or(4.0);
    let mut width = fields.count_if(&["embed_dim"])?.unwrap_or(96);
    let [height, length] = fields.sides("image_size", 224)?;
    let mut draft = Draft::default();
    let channels = fields.count_if(&["num_channels"])?.unwrap_or(3);
    let pixels = draft.input("pixels", &[channels, height, length]);
    draft.part = "embedding";
    let step = Window { stride: patch, padding: 0, ..Window::new(width, patch) };
    let image = draft.convolution("swin.embeddings.patch_embeddings.projection", pixels, step);
    let [mut height, mut length] = [1, 2].map(|at| draft.shape(image)[at]);
    let tokens = draft.as_tokens(image);
    let mut x = draft.norm("swin.embeddings.norm", tokens);
    for (stage, depth) in depths.iter().enumerate() {
        let module = format!("swin.encoder.layers.{stage}.");
        if heads[stage] == 0 || !width.is_multiple_of(heads[stage]) {
            return Err(ConfigError::Contradiction(format!(
                "`num_heads` has {}, which does not divide the width of its stage, {width}",
                heads[stage]
            )));
        }
        for layer in 0..*depth {
            let swin = SwinLayer { heads: heads[stage], window, ratio, bias, sides: [height, length] };
            x = swin.draw(&mut draft, &format!("{module}blocks.{layer}."), x);
        }
        if stage + 1 < depths.len() {
            draft.part = "embedding";
            (height, length) = (height.div_ceil(2), length.div_ceil(2));
            let four = [height.saturating_mul(length), width.saturating_mul(4)];
            let joined = draft.reshape("four neighbours side by side", Op::Copy, x, &four);
            let normed = draft.norm(format!("{module}downsample.norm"), joined);
            width = width.saturating_mul(2);
            x = draft.product(format!("{module}downsample.reduction"), normed, width, false);
        }
    }
    draft.part = "head";
    let normed = draft.norm("swin.layernorm", x);
    if fields.words(&["architectures"]).is_none_or(|names| names[..] != ["SwinModel"]) {
        let mean = draft.reshape("mean of the positions", Op::Copy, normed, &[1, width]);
        let labels = labels(fields)?;
        draft.product("classifier", mean, labels, true);
    }
    finished(draft)
}

/// A layer of Swin.
struct SwinLayer {
    heads: u64,
    window: u64,
    ratio: f64,
    bias: bool,
    sides: [u64; 2],
}

impl SwinLayer {
    fn draw(&self, draft: &mut Draft, module: &str, x: usize) -> usize {
        let (width, window) = (draft.shape(x)[1], self.window.max(1));
        let [high, wide] = self.sides.map(|side| side.div_ceil(window));
        let (windows, own) = (high.saturating_mul(wide), window.saturating_mul(window));
        draft.part = "attention";
        let normed = draft.norm(format!("{module}layernorm_before"), x);
        let padded = [windows.saturating_mul(own), width];
        let tokens = draft.reshape("windows", Op::Copy, normed, &padded);
        let [q, k, v] = ["q_proj", "k_proj", "v_proj"]
            .map(|name| draft.product(format!("{module}attention.{name}"), tokens, width, self.bias));
        let rows = window.saturating_mul(2).saturating_sub(1);
        let table = draft.table(
            format!("{module}attention.relative_position_bias.relative_position_bias_table"),
            rows.saturating_mul(rows),
            self.heads,
        );
        let places = [self.heads, own, own];
        let places = draft.reshape("bias of relative positions", Op::Copy, table, &places);
        let scores = [self.heads.saturating_mul(windows), own, own];
        let products = draft.kernel("scores", &[q, k], &scores);
        let biased = draft.sum("scores with their bias", Op::Add, products, places);
        let shares = draft.same("softmax", Op::OfOutput, biased);
        let attended = draft.kernel("attention output", &[shares, v], &padded);
        let output = draft.product(format!("{module}attention.o_proj"), attended, width, true);
        let unpadded = [self.sides[0].saturating_mul(self.sides[1]), width];
        let output = draft.reshape("windows as an image", Op::Copy, output, &unpadded);
        let x = draft.sum("residual", Op::Add, x, output);
        draft.part = "mlp";
        let normed = draft.norm(format!("{module}layernorm_after"), x);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a multiple of the width, as Python computes it"
        )]
        let inner = (width as f64 * self.ratio.clamp(0.0, 1024.0)) as u64;
        let up = draft.product(format!("{module}mlp.fc1"), normed, inner, true);
        let active = draft.same("activation function", Op::OfInput, up);
        let down = draft.product(format!("{module}mlp.fc2"), active, width, true);
        draft.sum("residual", Op::Add, x, down)
    }
}

/// `SegFormer` with the head of its `architectures`: for each pixel, unless they name the classifier.
pub(super) fn segformer(fields: &mut Fields<'_>) -> Result<Chain, ConfigError> {
    let hidden = sizes(fields, "hidden_sizes", &[32, 64, 160, 256])?;
    let depths = sizes(fields, "depths", &[2, 2, 2, 2])?;
    let patches = sizes(fields, "patch_sizes", &[7, 3, 3, 3])?;
    let strides = sizes(fields, "strides", &[4, 2, 2, 2])?;
    let heads = sizes(fields, "num_attention_heads", &[1, 2, 5, 8])?;
    let ratios = sizes(fields, "mlp_ratios", &[4, 4, 4, 4])?;
    let reductions = sizes(fields, "sr_ratios", &[8, 4, 2, 1])?;
    let stages = usize::try_from(fields.count_if(&["num_encoder_blocks"])?.unwrap_or(4)).unwrap_or(usize::MAX);
    let lists: [(&str, &[u64]); 7] = [
        ("hidden_sizes", &hidden),
        ("depths", &depths),
        ("patch_sizes", &patches),
        ("strides", &strides),
        ("num_attention_heads", &heads),
        ("mlp_ratios", &ratios),
        ("sr_ratios", &reductions),
    ];
    as_long(&lists, stages)?;
    bounded(&depths)?;
    let classifies =
        fields.words(&["architectures"]).is_some_and(|names| names[..] == ["SegformerForImageClassification"]);
    let labels = labels(fields)?;
    let mut draft = Draft::default();
    let channels = fields.count_if(&["num_channels"])?.unwrap_or(3);
    let mut x = draft.input("pixels", &[channels, SEGFORMER_SIDE, SEGFORMER_SIDE]);
    let mut outputs = Vec::new();
    for stage in 0..stages {
        let width = hidden[stage];
        if heads[stage] == 0 || width % heads[stage] != 0 {
            return Err(ConfigError::Contradiction(format!(
                "`num_attention_heads` has {}, which does not divide {width} of `hidden_sizes`",
                heads[stage]
            )));
        }
        let module = format!("segformer.stages.{stage}.");
        draft.part = "embedding";
        let window = Window { stride: strides[stage], ..Window::new(width, patches[stage]) };
        let image = draft.convolution(format!("{module}patch_embeddings.proj"), x, window);
        let [height, length] = [1, 2].map(|at| draft.shape(image)[at]);
        let mut tokens = draft.as_tokens(image);
        tokens = draft.norm(format!("{module}patch_embeddings.layer_norm"), tokens);
        for layer in 0..depths[stage] {
            let module = format!("{module}blocks.{layer}.");
            let sides = [height, length];
            tokens =
                segformer_layer(&mut draft, &module, tokens, sides, heads[stage], reductions[stage], ratios[stage]);
        }
        tokens = draft.norm(format!("{module}layer_norm"), tokens);
        x = draft.reshape("image of the stage", Op::Copy, tokens, &[width, height, length]);
        outputs.push(x);
    }
    draft.part = "head";
    if classifies {
        let width = draft.shape(x)[0];
        let mean = draft.reshape("mean of the positions", Op::Copy, x, &[1, width]);
        draft.product("classifier", mean, labels, true);
    } else {
        let width = fields.count_if(&["decoder_hidden_size"])?.unwrap_or(256);
        let [height, length] = [1, 2].map(|at| draft.shape(outputs[0])[at]);
        let mut grown = Vec::new();
        for (stage, output) in outputs.iter().enumerate() {
            let [own_height, own_length] = [1, 2].map(|at| draft.shape(*output)[at]);
            let tokens = draft.as_tokens(*output);
            let projected = draft.product(format!("decode_head.linear_projections.{stage}.proj"), tokens, width, true);
            let image = draft.reshape("projection as an image", Op::View, projected, &[width, own_height, own_length]);
            grown.push(draft.reshape("enlarged", Op::Copy, image, &[width, height, length]));
        }
        let joined = draft.join(&grown);
        let fused = draft.convolution("decode_head.linear_fuse", joined, plain(width, 1));
        let normed = draft.batch_norm("decode_head.batch_norm", fused);
        let active = draft.same("activation function", Op::OfOutput, normed);
        let dropped =
            draft.same("dropout", Op::Dropout(fields.probability(&["classifier_dropout_prob"], 0.1)?), active);
        draft.convolution("decode_head.classifier", dropped, Window::new(labels, 1));
        for value in outputs.iter().chain(&grown) {
            draft.hold(*value);
        }
    }
    fields.assumptions.push(format!("an image of {SEGFORMER_SIDE} × {SEGFORMER_SIDE}"));
    finished(draft)
}

fn segformer_layer(
    draft: &mut Draft,
    module: &str,
    x: usize,
    [height, length]: [u64; 2],
    heads: u64,
    reduction: u64,
    ratio: u64,
) -> usize {
    let width = draft.shape(x)[1];
    draft.part = "attention";
    let normed = draft.norm(format!("{module}layernorm_before"), x);
    let q = draft.product(format!("{module}attention.q_proj"), normed, width, true);
    let mut source = normed;
    if reduction > 1 {
        let image = draft.reshape("positions as an image", Op::Copy, normed, &[width, height, length]);
        let window = Window { stride: reduction, padding: 0, ..Window::new(width, reduction) };
        let reduced =
            draft.convolution(format!("{module}attention.sequence_reduction.sequence_reduction"), image, window);
        let tokens = draft.as_tokens(reduced);
        source = draft.norm(format!("{module}attention.sequence_reduction.layer_norm"), tokens);
    }
    let k = draft.product(format!("{module}attention.k_proj"), source, width, true);
    let v = draft.product(format!("{module}attention.v_proj"), source, width, true);
    let attended = draft.attention([q, k, v], heads);
    let output = draft.product(format!("{module}attention.o_proj"), attended, width, true);
    let x = draft.sum("residual", Op::Add, output, x);
    draft.part = "mlp";
    let normed = draft.norm(format!("{module}layernorm_after"), x);
    let wide = draft.product(format!("{module}mlp.fc1"), normed, width.saturating_mul(ratio), true);
    let inner = width.saturating_mul(ratio);
    let image = draft.reshape("positions as an image", Op::View, wide, &[inner, height, length]);
    let window = Window { groups: inner, ..Window::new(inner, 3) };
    let mixed = draft.convolution(format!("{module}mlp.dwconv.dwconv"), image, window);
    let tokens = draft.as_tokens(mixed);
    let active = draft.same("activation function", Op::OfInput, tokens);
    let narrow = draft.product(format!("{module}mlp.fc2"), active, width, true);
    draft.sum("residual", Op::Add, narrow, x)
}

/// The backbone of a DETR: a `ResNet` of timm or of transformers.
fn backbone(fields: &Fields<'_>) -> Result<(ResNet, usize), ConfigError> {
    let inner = fields.object("backbone_config");
    let name =
        inner.and_then(|inner| inner.get("backbone")).or_else(|| fields.any(&["backbone"]).map(|(_, name)| name));
    let name = name.and_then(Value::as_str);
    let own = |map: &Map<String, Value>| map.get("model_type").and_then(Value::as_str) == Some("resnet");
    if let Some(map) = inner.filter(|map| own(map)) {
        // The names that the model looks for to train are not this backbone's: all of it is frozen.
        return Ok((ResNet::read(&mut Fields::new(map))?, usize::MAX));
    }
    let name = name.unwrap_or("resnet50");
    let named = ResNet::named(name).map(|sizes| (sizes, 2));
    named.ok_or_else(|| ConfigError::NotComputed {
        name: "detr".to_owned(),
        reason: format!("its backbone, `{}`, is not a known ResNet", name.chars().take(40).collect::<String>()),
    })
}

/// DETR for detection.
pub(super) fn detr(fields: &mut Fields<'_>) -> Result<Chain, ConfigError> {
    let (sizes, frozen) = backbone(fields)?;
    if fields.words(&["architectures"]).is_some_and(|names| names.contains(&"DetrForSegmentation")) {
        return Err(ConfigError::NotComputed {
            name: "detr".to_owned(),
            reason: "its segmentation head is not supported".to_owned(),
        });
    }
    let width = fields.count_if(&["d_model", "hidden_size"])?.unwrap_or(256);
    let queries = fields.count_if(&["num_queries"])?.unwrap_or(100);
    let dropout = fields.probability(&["dropout"], 0.1)?;
    let depths = [
        fields.count_if(&["encoder_layers", "num_hidden_layers"])?.unwrap_or(6),
        fields.count_if(&["decoder_layers"])?.unwrap_or(6),
    ];
    bounded(&depths)?;
    let heads = [
        fields.count_if(&["encoder_attention_heads"])?.unwrap_or(8),
        fields.count_if(&["decoder_attention_heads"])?.unwrap_or(8),
    ];
    for heads in heads {
        super::config::heads_divide(width, heads)?;
    }
    let inner = [
        fields.count_if(&["encoder_ffn_dim"])?.unwrap_or(2048),
        fields.count_if(&["decoder_ffn_dim"])?.unwrap_or(2048),
    ];
    let labels = labels(fields)?.saturating_add(1);
    let is_learned = fields.word(&["position_embedding_type"])? == Some("learned");
    let mut draft = Draft::default();
    let channels = fields.count_if(&["num_channels"])?.unwrap_or(3);
    let pixels = draft.input("pixels", &[channels, DETR_IMAGE[0], DETR_IMAGE[1]]);
    let image = sizes.draw(&mut draft, "model.backbone.model.", pixels, Norms { is_frozen: true }, frozen);
    draft.part = "embedding";
    let projected = draft.convolution("model.input_projection", image, Window::new(width, 1));
    let mut x = draft.as_tokens(projected);
    let places = if is_learned {
        let rows = draft.table("model.position_embedding.row_embeddings", 50, width / 2);
        draft.table("model.position_embedding.column_embeddings", 50, width / 2);
        let shape = draft.shape(x).to_vec();
        draft.reshape("positions", Op::Copy, rows, &shape)
    } else {
        let shape = draft.shape(x).to_vec();
        draft.input("positions", &shape)
    };
    for layer in 0..depths[0] {
        let module = format!("model.encoder.layers.{layer}.");
        let detr = DetrLayer { module: &module, heads: heads[0], inner: inner[0], dropout };
        x = detr.attend(&mut draft, "self_attn", x, x, [Some(places), Some(places)]);
        x = detr.mlp(&mut draft, x);
    }
    draft.part = "embedding";
    let table = draft.table("model.query_position_embeddings", queries, width);
    let mut objects = draft.same("queries", Op::Copy, table);
    for layer in 0..depths[1] {
        let module = format!("model.decoder.layers.{layer}.");
        let detr = DetrLayer { module: &module, heads: heads[1], inner: inner[1], dropout };
        objects = detr.attend(&mut draft, "self_attn", objects, objects, [Some(table), Some(table)]);
        objects = detr.attend(&mut draft, "encoder_attn", objects, x, [Some(table), Some(places)]);
        objects = detr.mlp(&mut draft, objects);
    }
    draft.part = "head";
    let objects = draft.norm("model.decoder.layernorm", objects);
    let mut boxes = objects;
    for layer in 0..3_u64 {
        boxes =
            draft.product(format!("bbox_predictor.layers.{layer}"), boxes, if layer == 2 { 4 } else { width }, true);
        let name = if layer == 2 { "boxes" } else { "activation function" };
        boxes = draft.same(name, Op::OfOutput, boxes);
    }
    draft.product("class_labels_classifier", objects, labels, true);
    fields.assumptions.push(format!(
        "an image of {} × {}; each convolution copies its input, as cuDNN's kernels do",
        DETR_IMAGE[0], DETR_IMAGE[1]
    ));
    finished(draft)
}

/// A layer of DETR's encoder or decoder.
struct DetrLayer<'a> {
    module: &'a str,
    heads: u64,
    inner: u64,
    dropout: f64,
}

impl DetrLayer<'_> {
    /// Attention of `x` over `source`, each with its positions added where it is asked and where it is looked for.
    fn attend(
        &self,
        draft: &mut Draft,
        name: &str,
        x: usize,
        source: usize,
        [own, of_source]: [Option<usize>; 2],
    ) -> usize {
        let (module, width) = (self.module, draft.shape(x)[1]);
        draft.part = "attention";
        let placed = |draft: &mut Draft, x: usize, places: Option<usize>| match places {
            Some(places) => draft.sum("with positions", Op::Add, x, places),
            None => x,
        };
        let asked = placed(draft, x, own);
        let looked = if x == source { asked } else { placed(draft, source, of_source) };
        let q = draft.product(format!("{module}{name}.q_proj"), asked, width, true);
        let k = draft.product(format!("{module}{name}.k_proj"), looked, width, true);
        let v = draft.product(format!("{module}{name}.v_proj"), source, width, true);
        let attended = draft.attention([q, k, v], self.heads);
        let output = draft.product(format!("{module}{name}.o_proj"), attended, width, true);
        let output = draft.same("dropout", Op::Dropout(self.dropout), output);
        let sum = draft.sum("residual", Op::Add, x, output);
        draft.norm(format!("{module}{name}_layer_norm"), sum)
    }

    fn mlp(&self, draft: &mut Draft, x: usize) -> usize {
        let (module, width) = (self.module, draft.shape(x)[1]);
        draft.part = "mlp";
        let wide = draft.product(format!("{module}mlp.fc1"), x, self.inner, true);
        let active = draft.same("activation function", Op::OfOutput, wide);
        let narrow = draft.product(format!("{module}mlp.fc2"), active, width, true);
        let narrow = draft.same("dropout", Op::Dropout(self.dropout), narrow);
        let sum = draft.sum("residual", Op::Add, x, narrow);
        draft.norm(format!("{module}final_layer_norm"), sum)
    }
}
