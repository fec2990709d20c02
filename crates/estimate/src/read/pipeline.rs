//! Pipelines of diffusers: a `model_index.json` with the configurations of its models under `components`.
//!
//! # Source
//! diffusers 0.42, `pipelines/*/pipeline_*.py`: which model follows which, how long a text is, and whether guidance
//! doubles the batch.

use serde_json::{Map, Value};

use super::config::{from_config_value, of_diffusers};
use super::fields::{ConfigError, Fields};
use super::unet::{Way, autoencoder};
use crate::architecture::{Architecture, Body, Evidence};
use crate::pipeline::{Component, Pipeline, Role};

/// The pipelines that are computed: whether guidance doubles the batch, and tokens of a text for T5.
const PIPELINES: &[(&str, bool, u64)] = &[
    ("StableDiffusionPipeline", true, 77),
    ("StableDiffusionXLPipeline", true, 77),
    ("StableDiffusion3Pipeline", true, 256),
    ("FluxPipeline", false, 512),
];

/// The models of a pipeline, in the order in which they run.
const COMPONENTS: &[(&str, &str, Role)] = &[
    ("text_encoder", "text encoder", Role::Text),
    ("text_encoder_2", "second text encoder", Role::Text),
    ("text_encoder_3", "third text encoder", Role::Text),
    ("unet", "UNet", Role::Denoiser),
    ("transformer", "transformer", Role::Denoiser),
    ("vae", "VAE", Role::Decoder),
];

/// A pipeline.
///
/// # Errors
/// [`ConfigError::NotComputed`]: one of its models, or the pipeline itself, is not computed.
pub(super) fn pipeline(class: &str, map: &Map<String, Value>) -> Result<Architecture, ConfigError> {
    let name: String = class.chars().take(60).collect();
    let refused = |reason: String| ConfigError::NotComputed { name: name.clone(), reason };
    let known = PIPELINES.iter().find(|(known, ..)| *known == class);
    let (_, doubles, text_tokens) =
        known.ok_or_else(|| refused("this pipeline of diffusers is not supported".to_owned()))?;
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
    let upcasts_decoder = class == "StableDiffusionXLPipeline";
    let pipeline = Pipeline { components, doubles_batch: *doubles, text_tokens: *text_tokens, upcasts_decoder };
    // Whatever is wrong with a model is said now.
    for component in &pipeline.components {
        component_at(component, [1024, 1024])?;
    }
    let mut assumptions = vec!["one generation, whatever `--mode` says; without a safety checker".to_owned()];
    if *doubles {
        assumptions.push("classifier-free guidance, which doubles the batch".to_owned());
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

/// A model of a pipeline, for an image of these sides.
///
/// # Errors
/// As its configuration.
pub(crate) fn component_at(component: &Component, sides: [u64; 2]) -> Result<Architecture, ConfigError> {
    let map = &component.config;
    let class = map.get("_class_name").and_then(Value::as_str).unwrap_or_default();
    match component.role {
        Role::Text => from_config_value(&Value::Object(map.clone())),
        Role::Denoiser => of_diffusers(class, map, Some(sides)),
        Role::Decoder if class == "AutoencoderKL" => {
            let chain = autoencoder(class, &mut Fields::new(map), Way::Back(sides))?;
            Ok(Architecture { body: Body::Chain(chain), ..of_diffusers(class, map, None)? })
        }
        Role::Decoder => Err(ConfigError::NotComputed {
            name: class.chars().take(60).collect(),
            reason: "this class of diffusers is not supported".to_owned(),
        }),
    }
}

/// Parameters of a whole autoencoder: its encoder stays on the GPU, though a generation does not run it.
pub(crate) fn parameters_of(component: &Component) -> Option<u64> {
    let whole = of_diffusers("AutoencoderKL", &component.config, None).ok()?;
    let weights = crate::models::weights(&whole, crate::dtype::DType::Float32)?;
    Some(weights.iter().fold(0, |sum, weight| sum.saturating_add(weight.parameters())))
}
