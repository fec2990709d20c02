//! The autoencoder of Wan and of Qwen-Image: latents to frames, four at a time.
//!
//! # Source
//! diffusers 0.42, `models/autoencoders/autoencoder_kl_wan.py` and `autoencoder_kl_qwenimage.py`. The decoder runs once for each latent
//! frame. Each convolution over time keeps the last two frames that it took, for the next pass.

use super::convolutions::{bounded, finished, sizes};
use super::fields::{ConfigError, Fields};
use crate::chain::{Chain, Draft, Op};
use crate::network::convolution;
use crate::pipeline::Canvas;

/// The classes that are known.
pub(super) fn is_known(class: &str) -> bool {
    matches!(class, "AutoencoderKLWan" | "AutoencoderKLQwenImage")
}

/// Latent frames of a video: the first frame has one of its own, four others share one.
pub(super) fn latent_frames(frames: u64) -> u64 {
    (frames.max(1) - 1) / 4 + 1
}

/// A value of a step: channels, frames, height and width.
#[derive(Clone, Copy)]
struct Clip {
    at: usize,
    channels: u64,
    frames: u64,
    height: u64,
    width: u64,
}

impl Clip {
    /// Sizes as a chain has them, the frames below each other.
    fn shape(self) -> [u64; 3] {
        [self.channels, self.frames.saturating_mul(self.height), self.width]
    }
}

/// Sizes of a kernel: over time, and over each side.
#[derive(Clone, Copy)]
struct Kernel {
    time: u64,
    side: u64,
}

const CUBE: Kernel = Kernel { time: 3, side: 3 };
const POINT: Kernel = Kernel { time: 1, side: 1 };
const TIME: Kernel = Kernel { time: 3, side: 1 };
const IMAGE: Kernel = Kernel { time: 1, side: 3 };

struct Work {
    draft: Draft,
    /// A later pass, which finds the frames that the pass before kept; else the first.
    is_later: bool,
    /// Weights alone, of the half that does not run.
    is_idle: bool,
    /// Numbers of 16 bits, which norms and enlargements cast to 32.
    is_half: bool,
    /// What the pass keeps for the next, in the order of the convolutions.
    kept: Vec<Clip>,
    /// What the pass before kept, the last convolution first.
    before: Vec<Clip>,
}

impl Work {
    /// A value of this shape, of another.
    fn derived(&mut self, name: &'static str, op: Op, from: Clip, clip: Clip) -> Clip {
        Clip { at: self.draft.reshape(name, op, from.at, &clip.shape()), ..clip }
    }

    fn copied(&mut self, name: &'static str, from: Clip, clip: Clip) -> Clip {
        self.derived(name, Op::Copy, from, clip)
    }

    /// Two values behind each other in time.
    fn joined(&mut self, name: &'static str, parts: [Clip; 2], clip: Clip) -> Clip {
        Clip { at: self.draft.kernel(name, &parts.map(|part| part.at), &clip.shape()), ..clip }
    }

    /// A value that was there before.
    fn held(&mut self, name: &'static str, clip: Clip) -> Clip {
        Clip { at: self.draft.held(name, &clip.shape()), ..clip }
    }

    fn copy(&mut self, name: &'static str, clip: Clip) -> Clip {
        self.copied(name, clip, clip)
    }

    /// A value in 32 bits: twice the bytes, as twice the channels.
    fn wide(&mut self, name: &'static str, from: Clip, clip: Clip) -> Clip {
        self.copied(name, from, Clip { channels: clip.channels.saturating_mul(2), ..clip })
    }

    /// The convolution itself: its input is padded already.
    fn product(&mut self, module: &str, x: Clip, output: Clip, kernel: Kernel) -> Clip {
        // The last size is that of the window, which decides what cuDNN copies.
        let shape =
            [output.channels, x.channels, 1, kernel.time.saturating_mul(kernel.side).saturating_mul(kernel.side)];
        let piece = convolution("", &shape, true);
        let at = if self.is_idle {
            self.draft.idle(module, piece)
        } else {
            self.draft.convolved(module, x.at, piece, &output.shape())
        };
        Clip { at, ..output }
    }

    /// What a convolution over time keeps: its last two frames.
    fn keep(&mut self, x: Clip, before: Option<Clip>) {
        let own = Clip { frames: x.frames.min(2), ..x };
        let mut last = self.copied("last frames", x, own);
        if let Some(before) = before.filter(|_| x.frames < 2) {
            last = self.joined("last frames", [before, last], Clip { frames: 2, ..x });
        }
        self.kept.push(last);
    }

    /// A causal convolution, with the frames that it kept; a variable of the caller holds what it takes.
    fn convolution(&mut self, module: &str, x: Clip, channels: u64, kernel: Kernel) -> Clip {
        let output = Clip { channels, ..x };
        if self.is_idle {
            return self.product(module, x, output, kernel);
        }
        let before = if kernel.time > 1 { self.before.pop() } else { None };
        if kernel.time > 1 {
            self.keep(x, before);
        }
        let more = |frames: u64| frames.saturating_add(kernel.time - 1);
        let long = Clip { frames: more(x.frames), ..x };
        let joined = before.map(|before| self.joined("frames with those before", [before, x], long));
        let border = kernel.side - 1;
        let padded = Clip { height: x.height.saturating_add(border), width: x.width.saturating_add(border), ..long };
        let padded = self.copied("padded", joined.unwrap_or(x), padded);
        let output = self.product(module, padded, output, kernel);
        self.draft.hold(x.at);
        if let Some(before) = before {
            self.draft.hold(before.at);
        }
        output
    }

    /// `WanRMS_norm`, whose steps are operators of their own.
    fn norm(&mut self, module: &str, x: Clip) -> Clip {
        if self.is_idle {
            let at = self.draft.idle(module, crate::network::norm("", x.channels, false));
            return Clip { at, ..x };
        }
        let divided = if self.is_half {
            let wide = self.wide("in 32 bits", x, x);
            let divided = self.copied("divided by its length", wide, wide);
            self.draft.hold(wide.at);
            self.copied("divided by its length", divided, x)
        } else {
            self.copy("divided by its length", x)
        };
        let scaled = self.copy("scaled", divided);
        let at = self.draft.weighed(module, scaled.at, x.channels);
        let weighed = Clip { at, ..scaled };
        let shifted = self.copy("norm output", weighed);
        self.draft.hold(divided.at);
        self.draft.hold(x.at);
        shifted
    }

    /// A norm, an activation function, a convolution.
    fn normed(&mut self, modules: [&str; 2], x: Clip, channels: u64) -> Clip {
        let normed = self.norm(modules[0], x);
        let active =
            if self.is_idle { normed } else { self.derived("activation function", Op::OfInput, normed, normed) };
        self.convolution(modules[1], active, channels, CUBE)
    }

    fn residual(&mut self, module: &str, x: Clip, channels: u64) -> Clip {
        self.draft.part = "convolutions";
        let shortcut = if x.channels == channels {
            x
        } else {
            self.convolution(&format!("{module}conv_shortcut"), x, channels, POINT)
        };
        let inner = self.normed([&format!("{module}norm1"), &format!("{module}conv1")], x, channels);
        let inner = self.normed([&format!("{module}norm2"), &format!("{module}conv2")], inner, channels);
        if self.is_idle {
            return inner;
        }
        let at = self.draft.sum("residual", Op::Add, inner.at, shortcut.at);
        self.draft.hold(x.at);
        Clip { at, ..inner }
    }

    /// Attention of a frame over itself, with one head.
    fn attention(&mut self, module: &str, x: Clip) -> Clip {
        self.draft.part = "attention";
        let normed = self.norm(&format!("{module}norm"), x);
        let triple = Clip { channels: x.channels.saturating_mul(3), ..x };
        let all = self.product(&format!("{module}to_qkv"), normed, triple, POINT);
        if self.is_idle {
            return self.product(&format!("{module}proj"), x, x, POINT);
        }
        let copied = self.copy("queries, keys and values", all);
        let tokens = [x.frames.saturating_mul(x.height).saturating_mul(x.width), x.channels];
        let [q, k, v] =
            ["queries", "keys", "values"].map(|name| self.draft.reshape(name, Op::View, copied.at, &tokens));
        let attended = self.draft.attention([q, k, v], 1);
        let image = self.copied("positions as an image", Clip { at: attended, ..x }, x);
        let projected = self.product(&format!("{module}proj"), image, x, POINT);
        let at = self.draft.sum("residual", Op::Add, projected.at, x.at);
        self.draft.hold(x.at);
        Clip { at, ..x }
    }

    fn middle(&mut self, module: &str, x: Clip) -> Clip {
        let first = self.residual(&format!("{module}resnets.0."), x, x.channels);
        let attended = self.attention(&format!("{module}attentions.0."), first);
        let last = self.residual(&format!("{module}resnets.1."), attended, x.channels);
        if !self.is_idle {
            self.draft.hold(x.at);
        }
        last
    }

    /// Twice the sides and half the channels; with `in_time` twice the frames too, except in the first pass.
    fn larger(&mut self, module: &str, x: Clip, in_time: bool) -> Clip {
        self.draft.part = "convolutions";
        let mut clip = x;
        if in_time {
            let name = format!("{module}time_conv");
            let doubled = Clip { channels: x.channels.saturating_mul(2), ..x };
            if self.is_later {
                let doubled = self.convolution(&name, x, doubled.channels, TIME);
                let frames = Clip { frames: x.frames.saturating_mul(2), ..x };
                clip = self.copied("frames in turn", doubled, frames);
            } else {
                self.is_idle = true;
                self.product(&name, x, doubled, TIME);
                self.is_idle = false;
            }
        }
        let half = (x.channels / 2).max(1);
        let grown = Clip { height: clip.height.saturating_mul(2), width: clip.width.saturating_mul(2), ..clip };
        if clip.frames > 1 {
            clip = self.copy("frames as images", clip);
        }
        let grown = if self.is_half {
            let wide = self.wide("in 32 bits", clip, clip);
            let wide = self.copied("enlarged", wide, Clip { channels: wide.channels, ..grown });
            let narrow = self.copied("enlarged", wide, grown);
            self.draft.hold(clip.at);
            narrow
        } else {
            self.copied("enlarged", clip, grown)
        };
        let output = self.product(&format!("{module}resample.1"), grown, Clip { channels: half, ..grown }, IMAGE);
        self.draft.hold(x.at);
        output
    }
}

/// What the configuration says.
struct Sizes {
    widths: Vec<u64>,
    blocks: u64,
    latent: u64,
    in_time: Vec<bool>,
    inputs: u64,
    outputs: u64,
}

fn read(class: &str, fields: &mut Fields<'_>) -> Result<Sizes, ConfigError> {
    let refused = |reason: &str| ConfigError::NotComputed { name: class.to_owned(), reason: reason.to_owned() };
    if fields.flag(&["is_residual"], false)? || fields.count_if(&["patch_size"])?.is_some() {
        return Err(refused("the residual autoencoder of Wan 2.2 is not supported"));
    }
    if fields.any(&["attn_scales"]).is_some_and(|(_, value)| value.as_array().is_none_or(|list| !list.is_empty())) {
        return Err(refused("its `attn_scales` are not supported"));
    }
    let base = fields.count_if(&["base_dim"])?.unwrap_or(96);
    if fields.count_if(&["decoder_base_dim"])?.is_some_and(|width| width != base) {
        return Err(refused("its `decoder_base_dim` is not supported"));
    }
    let factors = sizes(fields, "dim_mult", &[1, 2, 4, 4])?;
    let blocks = fields.count_if(&["num_res_blocks"])?.unwrap_or(2);
    bounded(&[blocks])?;
    let in_time: Vec<bool> = match fields.any(&["temperal_downsample"]) {
        None => vec![false, true, true],
        Some((_, list)) => list.as_array().into_iter().flatten().map(|value| value == true).collect(),
    };
    if in_time.len() + 1 != factors.len() {
        return Err(ConfigError::Contradiction(format!(
            "`temperal_downsample` has {} entries, and `dim_mult` has {}: one more is needed",
            in_time.len(),
            factors.len()
        )));
    }
    Ok(Sizes {
        widths: factors.into_iter().map(|factor| base.saturating_mul(factor)).collect(),
        blocks,
        latent: fields.count_if(&["z_dim"])?.unwrap_or(16),
        in_time,
        inputs: fields.count_if(&["in_channels", "input_channels"])?.unwrap_or(3),
        outputs: fields.count_if(&["out_channels"])?.unwrap_or(3),
    })
}

fn encoder(work: &mut Work, sizes: &Sizes, x: Clip) {
    let levels = sizes.widths.len();
    let mut x = work.convolution("encoder.conv_in", x, sizes.widths[0], CUBE);
    let mut layer = 0;
    for (at, width) in sizes.widths.iter().enumerate() {
        for _ in 0..sizes.blocks {
            x = work.residual(&format!("encoder.down_blocks.{layer}."), x, *width);
            layer += 1;
        }
        if at + 1 < levels {
            x = work.convolution(&format!("encoder.down_blocks.{layer}.resample.1"), x, *width, IMAGE);
            if sizes.in_time[at] {
                x = work.convolution(&format!("encoder.down_blocks.{layer}.time_conv"), x, *width, TIME);
            }
            layer += 1;
        }
    }
    x = work.middle("encoder.mid_block.", x);
    let latent = sizes.latent.saturating_mul(2);
    x = work.normed(["encoder.norm_out", "encoder.conv_out"], x, latent);
    work.convolution("quant_conv", x, latent, POINT);
}

fn decoder(work: &mut Work, sizes: &Sizes, x: Clip) -> Clip {
    let levels = sizes.widths.len();
    let mut x = {
        let first = work.convolution("decoder.conv_in", x, sizes.widths[levels - 1], CUBE);
        work.middle("decoder.mid_block.", first)
    };
    for (place, level) in (0..levels).rev().enumerate() {
        let of_block = x;
        for layer in 0..=sizes.blocks {
            x = work.residual(&format!("decoder.up_blocks.{place}.resnets.{layer}."), x, sizes.widths[level]);
        }
        if level > 0 {
            x = work.larger(&format!("decoder.up_blocks.{place}.upsamplers.0."), x, sizes.in_time[level - 1]);
        }
        work.draft.hold(of_block.at);
    }
    work.draft.part = "head";
    let output = work.normed(["decoder.norm_out", "decoder.conv_out"], x, sizes.outputs);
    work.draft.hold(x.at);
    output
}

/// The whole autoencoder, of which the decoder runs: its last pass, when the frames before are there.
pub(super) fn autoencoder(class: &str, fields: &mut Fields<'_>, canvas: Option<Canvas>) -> Result<Chain, ConfigError> {
    let sizes = read(class, fields)?;
    let canvas = canvas.unwrap_or_else(|| {
        let usual = match class {
            "AutoencoderKLWan" => Canvas { height: 480, width: 832, frames: 81, is_half: false },
            _ => Canvas { height: 1024, width: 1024, frames: 1, is_half: false },
        };
        fields
            .assumptions
            .push(format!("the decoder alone runs, for {} frames of {} × {}", usual.frames, usual.height, usual.width));
        usual
    });
    let latents = latent_frames(canvas.frames);
    let factor = 1_u64 << (sizes.widths.len() - 1).min(32);
    let (height, width) = ((canvas.height / factor).max(1), (canvas.width / factor).max(1));
    let empty = || Work {
        draft: Draft::default(),
        is_later: latents > 1,
        is_idle: true,
        is_half: canvas.is_half,
        kept: Vec::new(),
        before: Vec::new(),
    };
    let mut work = empty();
    let video = Clip { at: 0, channels: sizes.latent, frames: latents, height, width };
    let at = work.draft.input("latents", &video.shape());
    encoder(&mut work, &sizes, Clip { at, channels: sizes.inputs, ..video });
    work.is_idle = false;
    work.draft.part = "embedding";
    let all = work.convolution("post_quant_conv", Clip { at, ..video }, sizes.latent, POINT);
    let at = work.draft.reshape("a latent frame", Op::View, all.at, &[sizes.latent, height, width]);
    let before = Clip {
        channels: sizes.outputs,
        frames: (latents - 1).saturating_mul(4).saturating_sub(3),
        height: height.saturating_mul(factor),
        width: width.saturating_mul(factor),
        at: 0,
    };
    let before = (latents > 1).then(|| work.held("frames so far", before));
    if latents > 1 {
        // What the pass before kept is as large as what this one will keep.
        let mut rehearsal = Work { is_idle: false, ..empty() };
        let at = rehearsal.draft.input("latents", &[sizes.latent, height, width]);
        decoder(&mut rehearsal, &sizes, Clip { at, frames: 1, ..video });
        for kept in rehearsal.kept.into_iter().rev() {
            let kept = work.held("frames of the pass before", Clip { frames: 2, ..kept });
            work.before.push(kept);
        }
    }
    let mut output = decoder(&mut work, &sizes, Clip { at, frames: 1, ..video });
    if let Some(before) = before {
        let all = Clip { frames: before.frames.saturating_add(output.frames), ..before };
        let joined = work.joined("all frames", [before, output], all);
        work.kept.push(output);
        output = joined;
    }
    let last = work.copy("frames within bounds", output);
    for value in [output, last, all].into_iter().chain(std::mem::take(&mut work.kept)) {
        work.draft.hold(value.at);
    }
    finished(work.draft)
}
