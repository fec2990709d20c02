//! Pipelines of diffusers: a `model_index.json` with the configurations of its models under `components`.
//!
//! # Source
//! diffusers 0.42, `pipelines/*/pipeline_*.py`: which model follows which, how long a text is, and whether guidance
//! doubles the batch.

use serde_json::{Map, Value};

use super::config::{from_config_value, of_diffusers};
use super::fields::{ConfigError, Fields};
use super::unet::{Way, autoencoder};
use super::video;
use crate::architecture::{Architecture, Body, Evidence};
use crate::pipeline::{Canvas, Component, Decoding, Pipeline, Role};

/// A pipeline that is computed.
struct Known {
    class: &'static str,
    /// Whether guidance doubles the batch, and not the number of calls.
    doubles_batch: bool,
    /// Tokens of a text, where its encoder takes as many.
    text_tokens: u64,
    decoding: Decoding,
    /// Height, width and frames that its call takes by itself.
    usual: [u64; 3],
}

const fn known(
    class: &'static str,
    doubles_batch: bool,
    text_tokens: u64,
    decoding: Decoding,
    usual: [u64; 3],
) -> Known {
    Known { class, doubles_batch, text_tokens, decoding, usual }
}

const IMAGE: [u64; 3] = [1024, 1024, 1];
const VIDEO: [u64; 3] = [480, 832, 81];

const PIPELINES: &[Known] = &[
    known("StableDiffusionPipeline", true, 77, Decoding::AsGiven, IMAGE),
    known("StableDiffusionXLPipeline", true, 77, Decoding::Upcast, IMAGE),
    known("StableDiffusion3Pipeline", true, 256, Decoding::AsGiven, IMAGE),
    known("FluxPipeline", false, 512, Decoding::AsGiven, IMAGE),
    known("QwenImagePipeline", false, 512, Decoding::AsGiven, IMAGE),
    known("WanPipeline", false, 512, Decoding::Float32, VIDEO),
];

/// The models of a pipeline, in the order in which they run.
const COMPONENTS: &[(&str, &str, Role)] = &[
    ("text_encoder", "text encoder", Role::Text),
    ("text_encoder_2", "second text encoder", Role::Text),
    ("text_encoder_3", "third text encoder", Role::Text),
    ("unet", "UNet", Role::Denoiser),
    ("transformer", "transformer", Role::Denoiser),
    ("transformer_2", "second transformer", Role::Denoiser),
    ("vae", "VAE", Role::Decoder),
];

/// A pipeline.
///
/// # Errors
/// [`ConfigError::NotComputed`]: one of its models, or the pipeline itself, is not computed.
pub(super) fn pipeline(class: &str, map: &Map<String, Value>) -> Result<Architecture, ConfigError> {
    let name: String = class.chars().take(60).collect();
    let refused = |reason: String| ConfigError::NotComputed { name: name.clone(), reason };
    let known = PIPELINES.iter().find(|known| known.class == class);
    let known = known.ok_or_else(|| refused("this pipeline of diffusers is not supported".to_owned()))?;
    let given = map.get("components").and_then(Value::as_object);
    let given = given.ok_or_else(|| {
        refused("the configurations of its models are not there: give the pipeline's directory".to_owned())
    })?;
    let mut components = Vec::new();
    for (key, label, role) in COMPONENTS {
        let Some(config) = given.get(*key).filter(|config| !config.is_null()) else { continue };
        let config = config.as_object().ok_or(ConfigError::NotAnObject("a model's configuration"))?;
        components.push(Component { label, role: *role, config: config.clone() });
    }
    for (role, what) in [(Role::Denoiser, "UNet or transformer"), (Role::Decoder, "VAE")] {
        if !components.iter().any(|component| component.role == role) {
            return Err(refused(format!("it has no configuration of a {what}")));
        }
    }
    let &Known { doubles_batch, text_tokens, decoding, usual, .. } = known;
    let pipeline = Pipeline { components, doubles_batch, text_tokens, decoding, usual };
    // Whatever is wrong with a model is said now.
    let [height, width, frames] = usual;
    for component in &pipeline.components {
        component_at(component, Canvas { height, width, frames, is_half: true })?;
    }
    let mut assumptions = vec!["one generation, whatever `--mode` says; without a safety checker".to_owned()];
    if doubles_batch {
        assumptions.push("classifier-free guidance, which doubles the batch".to_owned());
    }
    if decoding == Decoding::Float32 {
        assumptions.push("the VAE in float32, as diffusers' documentation loads it".to_owned());
    }
    Ok(Architecture {
        name,
        family: "diffusers",
        evidence: Evidence::Shapes,
        body: Body::Pipeline(pipeline),
        towers: Vec::new(),
        max_positions: None,
        dtype: None,
        quantization: None,
        counted_parameters: None,
        assumptions,
    })
}

/// A model of a pipeline that generates this canvas.
///
/// # Errors
/// As its configuration.
pub(crate) fn component_at(component: &Component, canvas: Canvas) -> Result<Architecture, ConfigError> {
    let map = &component.config;
    let class = map.get("_class_name").and_then(Value::as_str).unwrap_or_default();
    match component.role {
        Role::Text => {
            let mut encoder = from_config_value(&Value::Object(map.clone()))?;
            // A text has no images.
            for tower in &mut encoder.towers {
                tower.positions = Some(0);
            }
            Ok(encoder)
        }
        Role::Denoiser => of_diffusers(class, map, Some(canvas)),
        Role::Decoder if class == "AutoencoderKL" => {
            let chain = autoencoder(class, &mut Fields::new(map), Way::Back([canvas.height, canvas.width]))?;
            Ok(Architecture { body: Body::Chain(chain), ..of_diffusers(class, map, None)? })
        }
        Role::Decoder if video::is_known(class) => of_diffusers(class, map, Some(canvas)),
        Role::Decoder => Err(ConfigError::NotComputed {
            name: class.chars().take(60).collect(),
            reason: "this class of diffusers is not supported".to_owned(),
        }),
    }
}

/// Parameters of a whole autoencoder: its encoder stays on the GPU, though a generation does not run it.
pub(crate) fn parameters_of(component: &Component) -> Option<u64> {
    let class = component.config.get("_class_name").and_then(Value::as_str).unwrap_or_default();
    let whole = of_diffusers(class, &component.config, None).ok()?;
    let weights = crate::models::weights(&whole, crate::dtype::DType::Float32)?;
    Some(weights.iter().fold(0, |sum, weight| sum.saturating_add(weight.parameters())))
}
