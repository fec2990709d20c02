//! Diffusers' convolutional networks: `UNet`s that denoise, and the autoencoder between pixels and latents.
//!
//! # Source
//! diffusers 0.42, `models/unets/unet_2d_condition.py`, `unet_2d.py`, `unet_2d_blocks.py`, `models/resnet.py`,
//! `models/transformers/transformer_2d.py`, `models/attention.py`, `models/autoencoders/autoencoder_kl.py`, `vae.py`.

use super::convolutions::{bounded, finished, sizes};
use super::fields::{ConfigError, Fields};
use crate::chain::{Chain, Draft, Op, Window};

/// Tokens of the text, as CLIP gives them.
const TEXT: u64 = 77;

/// A list with an entry for each block, which one number stands for.
fn for_each(fields: &Fields<'_>, name: &str, blocks: usize, default: u64) -> Result<Vec<u64>, ConfigError> {
    if fields.any(&[name]).is_some_and(|(_, value)| value.is_array()) {
        let list = sizes(fields, name, &[default])?;
        if list.len() != blocks {
            return Err(ConfigError::Contradiction(format!("`{name}` has {} entries for {blocks} blocks", list.len())));
        }
        return Ok(list);
    }
    Ok(vec![fields.count_if(&[name])?.unwrap_or(default); blocks])
}

/// The values of other options that are computed, each with its default; any other is named.
fn plain_options(class: &str, fields: &Fields<'_>) -> Result<(), ConfigError> {
    let not_computed = |reason: String| Err(ConfigError::NotComputed { name: class.to_owned(), reason });
    for name in ["encoder_hid_dim_type", "time_cond_proj_dim", "cross_attention_norm", "class_embeddings_concat"] {
        let is_set = fields.any(&[name]).is_some_and(|(_, value)| value != false);
        if is_set {
            return not_computed(format!("its `{name}` is not supported"));
        }
    }
    for (name, usual) in
        [("resnet_time_scale_shift", "default"), ("attention_type", "default"), ("time_embedding_type", "positional")]
    {
        match fields.word(&[name])? {
            None => {}
            Some(word) if word == usual => {}
            Some(word) => return not_computed(format!("`{name}` of `{}` is not supported", short(word))),
        }
    }
    match fields.word(&["addition_embed_type"])? {
        None | Some("text_time") => Ok(()),
        Some(word) => not_computed(format!("`addition_embed_type` of `{}` is not supported", short(word))),
    }
}

fn short(word: &str) -> String {
    word.chars().filter(|letter| !letter.is_control()).take(40).collect()
}

/// Sizes that all blocks share.
struct Blocks<'a> {
    draft: &'a mut Draft,
    /// The embedding of the time, where there is one.
    time: Option<usize>,
    /// The text, where there is one.
    text: Option<usize>,
    is_linear: bool,
}

impl Blocks<'_> {
    /// Two convolutions, each behind a norm and an activation function, and the embedding of the time between.
    fn residual(&mut self, module: &str, x: usize, outputs: u64) -> usize {
        let time = self.time;
        let draft = &mut *self.draft;
        draft.part = "convolutions";
        let normed = draft.norm(format!("{module}norm1"), x);
        let active = draft.same("activation function", Op::OfInput, normed);
        let mut inner = draft.convolution(format!("{module}conv1"), active, Window::new(outputs, 3));
        if let Some(time) = time {
            let active = draft.same("activation function", Op::OfInput, time);
            let projected = draft.product(format!("{module}time_emb_proj"), active, outputs, true);
            let as_pixel = draft.reshape("time", Op::View, projected, &[outputs, 1, 1]);
            inner = draft.sum("with time", Op::Add, inner, as_pixel);
        }
        let normed = draft.norm(format!("{module}norm2"), inner);
        let active = draft.same("activation function", Op::OfInput, normed);
        let inner = draft.convolution(format!("{module}conv2"), active, Window::new(outputs, 3));
        let shortcut = if draft.shape(x)[0] == outputs {
            x
        } else {
            draft.convolution(format!("{module}conv_shortcut"), x, Window::new(outputs, 1))
        };
        let sum = draft.sum("residual", Op::Add, shortcut, inner);
        let scaled = draft.same("residual, scaled", Op::Copy, sum);
        draft.hold(x);
        scaled
    }

    /// Attention of an image over itself, with a norm before it.
    fn own_attention(&mut self, module: &str, x: usize, heads: u64) -> usize {
        let draft = &mut *self.draft;
        draft.part = "attention";
        let [channels, height, width] = [0, 1, 2].map(|at| draft.shape(x)[at]);
        let tokens = draft.as_tokens(x);
        let normed = draft.norm(format!("{module}group_norm"), tokens);
        let [q, k, v] =
            ["to_q", "to_k", "to_v"].map(|name| draft.product(format!("{module}{name}"), normed, channels, true));
        let attended = draft.attention([q, k, v], heads);
        let output = draft.product(format!("{module}to_out.0"), attended, channels, true);
        let image = draft.reshape("positions as an image", Op::View, output, &[channels, height, width]);
        let sum = draft.sum("residual", Op::Add, image, x);
        draft.same("residual, scaled", Op::Copy, sum)
    }

    /// A transformer over the image's pixels and the text.
    fn transformer(&mut self, module: &str, x: usize, heads: u64, depth: u64) -> usize {
        let (text, is_linear) = (self.text, self.is_linear);
        let draft = &mut *self.draft;
        draft.part = "attention";
        let [channels, height, width] = [0, 1, 2].map(|at| draft.shape(x)[at]);
        let normed = draft.norm(format!("{module}norm"), x);
        let mut tokens = if is_linear {
            let tokens = draft.as_tokens(normed);
            draft.product(format!("{module}proj_in"), tokens, channels, true)
        } else {
            let projected = draft.convolution(format!("{module}proj_in"), normed, Window::new(channels, 1));
            let tokens = draft.as_tokens(projected);
            draft.same("pixels as positions, copied", Op::Copy, tokens)
        };
        for layer in 0..depth {
            let module = format!("{module}transformer_blocks.{layer}.");
            for (norm, name, source) in [("norm1", "attn1", None), ("norm2", "attn2", text)] {
                draft.part = "attention";
                let normed = draft.norm(format!("{module}{norm}"), tokens);
                let source = source.unwrap_or(normed);
                let q = draft.product(format!("{module}{name}.to_q"), normed, channels, false);
                let k = draft.product(format!("{module}{name}.to_k"), source, channels, false);
                let v = draft.product(format!("{module}{name}.to_v"), source, channels, false);
                let attended = draft.attention([q, k, v], heads);
                let output = draft.product(format!("{module}{name}.to_out.0"), attended, channels, true);
                tokens = draft.sum("residual", Op::Add, output, tokens);
            }
            draft.part = "mlp";
            let normed = draft.norm(format!("{module}norm3"), tokens);
            let wide = draft.product(format!("{module}ff.net.0.proj"), normed, channels.saturating_mul(8), true);
            let positions = draft.shape(wide)[0];
            let half = [positions, channels.saturating_mul(4)];
            let value = draft.reshape("half of the product", Op::View, wide, &half);
            let gate = draft.reshape("half of the product", Op::View, wide, &half);
            let gate = draft.same("activation function", Op::OfInput, gate);
            let gated = draft.kernel("mlp: gate by value", &[value, gate], &half);
            let narrow = draft.product(format!("{module}ff.net.2"), gated, channels, true);
            tokens = draft.sum("residual", Op::Add, narrow, tokens);
        }
        draft.part = "attention";
        let image = if is_linear {
            let output = draft.product(format!("{module}proj_out"), tokens, channels, true);
            draft.reshape("positions as an image", Op::Copy, output, &[channels, height, width])
        } else {
            let image = draft.reshape("positions as an image", Op::Copy, tokens, &[channels, height, width]);
            draft.convolution(format!("{module}proj_out"), image, Window::new(channels, 1))
        };
        draft.sum("residual", Op::Add, image, x)
    }

    /// Half the sides, by a convolution.
    fn smaller(&mut self, module: &str, x: usize) -> usize {
        self.draft.part = "convolutions";
        let channels = self.draft.shape(x)[0];
        self.draft.convolution(format!("{module}conv"), x, Window { stride: 2, ..Window::new(channels, 3) })
    }

    /// Twice the sides, and a convolution.
    fn larger(&mut self, module: &str, x: usize) -> usize {
        self.draft.part = "convolutions";
        let [channels, height, width] = [0, 1, 2].map(|at| self.draft.shape(x)[at]);
        let sides = [channels, height.saturating_mul(2), width.saturating_mul(2)];
        let grown = self.draft.reshape("enlarged", Op::Copy, x, &sides);
        let output = self.draft.convolution(format!("{module}conv"), grown, Window::new(channels, 3));
        self.draft.hold(x);
        output
    }

    /// The end: a norm, an activation function, a convolution.
    fn end(&mut self, module: &str, x: usize, outputs: u64) -> usize {
        let draft = &mut *self.draft;
        draft.part = "head";
        let normed = draft.norm(format!("{module}conv_norm_out"), x);
        let active = draft.same("activation function", Op::OfInput, normed);
        draft.convolution(format!("{module}conv_out"), active, Window::new(outputs, 3))
    }
}

/// What a block has beside its convolutions.
#[derive(Clone, Copy, PartialEq)]
enum Attends {
    Nothing,
    Itself,
    Text,
}

/// The kinds of blocks that are computed.
fn attends(class: &str, name: &str) -> Result<Attends, ConfigError> {
    match name {
        "DownBlock2D" | "UpBlock2D" => Ok(Attends::Nothing),
        "AttnDownBlock2D" | "AttnUpBlock2D" => Ok(Attends::Itself),
        "CrossAttnDownBlock2D" | "CrossAttnUpBlock2D" => Ok(Attends::Text),
        other => Err(ConfigError::NotComputed {
            name: class.to_owned(),
            reason: format!("its block `{}` is not supported", short(other)),
        }),
    }
}

/// `UNet2DConditionModel`, or `UNet2DModel` without a text, over latents of these sides.
pub(super) fn unet(class: &str, fields: &mut Fields<'_>, sides: Option<[u64; 2]>) -> Result<Chain, ConfigError> {
    plain_options(class, fields)?;
    let has_text = class == "UNet2DConditionModel";
    let default: &[u64] = if has_text { &[320, 640, 1280, 1280] } else { &[224, 448, 672, 896] };
    let channels = sizes(fields, "block_out_channels", default)?;
    let blocks = channels.len();
    let down: Vec<&str> = fields.words(&["down_block_types"]).unwrap_or_else(|| {
        if has_text {
            vec!["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"]
        } else {
            vec!["DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"]
        }
    });
    let up: Vec<&str> = fields.words(&["up_block_types"]).unwrap_or_else(|| {
        if has_text {
            vec!["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"]
        } else {
            vec!["AttnUpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"]
        }
    });
    if down.len() != blocks || up.len() != blocks {
        return Err(ConfigError::Contradiction(format!(
            "`down_block_types` and `up_block_types` do not have the {blocks} entries of `block_out_channels`"
        )));
    }
    let layers = for_each(fields, "layers_per_block", blocks, 2)?;
    let depths = for_each(fields, "transformer_layers_per_block", blocks, 1)?;
    bounded(&layers)?;
    bounded(&depths)?;
    let text_widths = for_each(fields, "cross_attention_dim", blocks, 1280)?;
    let own = for_each(fields, "attention_head_dim", blocks, 8)?;
    // The number of heads under the name of their size; without a text it is their size.
    let heads = |at: usize| if has_text { own[at] } else { (channels[at] / own[at].max(1)).max(1) };
    for at in 0..blocks {
        if heads(at) == 0 || channels[at] % heads(at) != 0 {
            return Err(ConfigError::Contradiction(format!(
                "`attention_head_dim` has {}, which does not divide {} of `block_out_channels`",
                own[at], channels[at]
            )));
        }
    }
    let sides = match sides {
        Some(sides) => sides,
        None => fields.sides("sample_size", 64)?,
    };
    let mut draft = Draft::default();
    let inputs = fields.count_if(&["in_channels"])?.unwrap_or(if has_text { 4 } else { 3 });
    let latents = draft.input("latents", &[inputs, sides[0], sides[1]]);
    let text = has_text.then(|| draft.input("text", &[TEXT, text_widths[0]]));
    draft.part = "embedding";
    let wide = channels[0].saturating_mul(4);
    let steps = draft.input("time", &[1, channels[0]]);
    let mut time = embedding(&mut draft, "time_embedding.", steps, wide);
    if fields.word(&["addition_embed_type"])?.is_some() {
        let width = fields.count(&["projection_class_embeddings_input_dim"], 2816)?;
        let added = draft.input("text and sizes", &[1, width]);
        let added = embedding(&mut draft, "add_embedding.", added, wide);
        time = draft.sum("time with text and sizes", Op::Add, time, added);
    }
    if fields.word(&["class_embed_type"])?.is_some() || fields.any(&["num_class_embeds"]).is_some() {
        return Err(ConfigError::NotComputed {
            name: class.to_owned(),
            reason: "its class embedding is not supported".to_owned(),
        });
    }
    let kernel = fields.count_if(&["conv_in_kernel"])?.unwrap_or(3);
    let mut x = draft.convolution("conv_in", latents, Window::new(channels[0], kernel));
    let is_linear = fields.flag(&["use_linear_projection"], false)?;
    let mut work = Blocks { draft: &mut draft, time: Some(time), text, is_linear };
    let mut kept = vec![x];
    for at in 0..blocks {
        let kind = attends(class, down[at])?;
        for layer in 0..layers[at] {
            x = work.residual(&format!("down_blocks.{at}.resnets.{layer}."), x, channels[at]);
            x = attend(&mut work, &format!("down_blocks.{at}.attentions.{layer}."), x, kind, heads(at), depths[at]);
            kept.push(x);
        }
        if at + 1 < blocks {
            x = work.smaller(&format!("down_blocks.{at}.downsamplers.0."), x);
            kept.push(x);
        }
    }
    let last = blocks - 1;
    x = work.residual("mid_block.resnets.0.", x, channels[last]);
    let has_middle = !fields.says_null("mid_block_type");
    let kind = match (has_middle, has_text) {
        (false, _) => Attends::Nothing,
        (true, true) => Attends::Text,
        (true, false) => Attends::Itself,
    };
    x = attend(&mut work, "mid_block.attentions.0.", x, kind, heads(last), depths[last]);
    x = work.residual("mid_block.resnets.1.", x, channels[last]);
    for (place, at) in (0..blocks).rev().enumerate() {
        let kind = attends(class, up[place])?;
        let mut of_block = vec![x];
        for layer in 0..=layers[at] {
            let skipped = kept.pop().unwrap_or(x);
            of_block.push(skipped);
            let joined = work.draft.join(&[x, skipped]);
            x = work.residual(&format!("up_blocks.{place}.resnets.{layer}."), joined, channels[at]);
            x = attend(&mut work, &format!("up_blocks.{place}.attentions.{layer}."), x, kind, heads(at), depths[at]);
        }
        if at > 0 {
            x = work.larger(&format!("up_blocks.{place}.upsamplers.0."), x);
        }
        for value in of_block {
            work.draft.hold(value);
        }
    }
    let outputs = fields.count_if(&["out_channels"])?.unwrap_or(inputs);
    work.end("", x, outputs);
    fields.assumptions.push(format!(
        "latents of {} × {}; each convolution copies its input, as cuDNN's kernels do",
        sides[0], sides[1]
    ));
    finished(draft)
}

fn attend(work: &mut Blocks<'_>, module: &str, x: usize, kind: Attends, heads: u64, depth: u64) -> usize {
    match kind {
        Attends::Nothing => x,
        Attends::Itself => work.own_attention(module, x, heads),
        Attends::Text => work.transformer(module, x, heads, depth),
    }
}

fn embedding(draft: &mut Draft, module: &str, x: usize, width: u64) -> usize {
    let inner = draft.product(format!("{module}linear_1"), x, width, true);
    let active = draft.same("activation function", Op::OfInput, inner);
    draft.product(format!("{module}linear_2"), active, width, true)
}

/// The sides of an image that an autoencoder is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// An image to latents and back: the whole model.
    There,
    /// Latents to an image, of these sides.
    Back([u64; 2]),
}

/// `AutoencoderKL`.
pub(super) fn autoencoder(class: &str, fields: &mut Fields<'_>, way: Way) -> Result<Chain, ConfigError> {
    let channels = sizes(fields, "block_out_channels", &[64])?;
    let blocks = channels.len();
    let layers = fields.count_if(&["layers_per_block"])?.unwrap_or(1);
    bounded(&[layers])?;
    let latent = fields.count_if(&["latent_channels"])?.unwrap_or(4);
    let names: [(&str, &str); 2] = [("down_block_types", "DownEncoderBlock2D"), ("up_block_types", "UpDecoderBlock2D")];
    for (name, usual) in names {
        let unusual = fields.words(&[name]).and_then(|words| words.into_iter().find(|word| *word != usual));
        if let Some(word) = unusual {
            return Err(ConfigError::NotComputed {
                name: class.to_owned(),
                reason: format!("its block `{}` is not supported", short(word)),
            });
        }
    }
    let inputs = fields.count_if(&["in_channels"])?.unwrap_or(3);
    let has_attention = fields.flag(&["mid_block_add_attention"], true)?;
    let factor = 1_u64 << (blocks - 1).min(32);
    let mut draft = Draft::default();
    let mut x = match way {
        Way::There => {
            let sides = fields.sides("sample_size", 512)?;
            fields.assumptions.push(format!("an image of {} × {}, to latents and back", sides[0], sides[1]));
            let pixels = draft.input("pixels", &[inputs, sides[0], sides[1]]);
            draft.part = "embedding";
            let mut x = draft.convolution("encoder.conv_in", pixels, Window::new(channels[0], 3));
            let mut work = Blocks { draft: &mut draft, time: None, text: None, is_linear: false };
            for (at, width) in channels.iter().enumerate() {
                let of_block = x;
                for layer in 0..layers {
                    x = work.residual(&format!("encoder.down_blocks.{at}.resnets.{layer}."), x, *width);
                }
                if at + 1 < blocks {
                    x = work.smaller(&format!("encoder.down_blocks.{at}.downsamplers.0."), x);
                }
                work.draft.hold(of_block);
            }
            x = middle(&mut work, "encoder.", x, has_attention);
            x = work.end("encoder.", x, latent.saturating_mul(2));
            if fields.flag(&["use_quant_conv"], true)? {
                x = draft.convolution("quant_conv", x, Window::new(latent.saturating_mul(2), 1));
            }
            let [height, width] = [1, 2].map(|at| draft.shape(x)[at]);
            draft.reshape("latents", Op::Copy, x, &[latent, height, width])
        }
        Way::Back(sides) => draft.input("latents", &[latent, sides[0] / factor, sides[1] / factor]),
    };
    draft.part = "embedding";
    if fields.flag(&["use_post_quant_conv"], true)? {
        x = draft.convolution("post_quant_conv", x, Window::new(latent, 1));
    }
    x = draft.convolution("decoder.conv_in", x, Window::new(channels[blocks - 1], 3));
    let mut work = Blocks { draft: &mut draft, time: None, text: None, is_linear: false };
    x = middle(&mut work, "decoder.", x, has_attention);
    for (place, at) in (0..blocks).rev().enumerate() {
        let of_block = x;
        for layer in 0..=layers {
            x = work.residual(&format!("decoder.up_blocks.{place}.resnets.{layer}."), x, channels[at]);
        }
        if at > 0 {
            x = work.larger(&format!("decoder.up_blocks.{place}.upsamplers.0."), x);
        }
        work.draft.hold(of_block);
    }
    let outputs = fields.count_if(&["out_channels"])?.unwrap_or(3);
    work.end("decoder.", x, outputs);
    finished(draft)
}

fn middle(work: &mut Blocks<'_>, module: &str, x: usize, has_attention: bool) -> usize {
    let (of_block, channels) = (x, work.draft.shape(x)[0]);
    let mut x = work.residual(&format!("{module}mid_block.resnets.0."), x, channels);
    if has_attention {
        x = work.own_attention(&format!("{module}mid_block.attentions.0."), x, 1);
    }
    x = work.residual(&format!("{module}mid_block.resnets.1."), x, channels);
    work.draft.hold(of_block);
    x
}
