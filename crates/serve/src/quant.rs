//! How a checkpoint's weights are stored, until the reader of `quantization_config` in `highwater-estimate` says it by module.

use serde_json::Value;

use crate::arithmetic::share;
use crate::error::ServeError;
use crate::version::short;

/// What a weight is to a quantisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightKind {
    Linear,
    Experts,
    Head,
}

/// A quantisation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Quant {
    label: String,
    bits: Option<f64>,
    experts_only: bool,
}

impl Quant {
    pub(crate) fn of(value: Option<&Value>) -> Result<Quant, ServeError> {
        let Some(map) = value.and_then(Value::as_object) else { return Ok(Quant::default()) };
        let method = map.get("quant_method").and_then(Value::as_str).unwrap_or("unknown");
        let bits = match method {
            "bitsandbytes" => 4.127,
            "gptq" | "awq" => 4.15,
            "fp8" | "fbgemm_fp8" => 8.002,
            "mxfp4" => 4.25,
            "compressed-tensors" => 8.02,
            "modelopt" => 4.5,
            other => return Err(ServeError::UnknownQuantisation(short(other))),
        };
        Ok(Quant { label: method.to_owned(), bits: Some(bits), experts_only: method == "mxfp4" })
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn bytes(&self, _module: &str, kind: WeightKind, shape: &[u64], element: u64) -> u64 {
        let numbers = shape.iter().fold(1, |all: u64, side| all.saturating_mul(*side));
        match self.bits {
            Some(bits) if kind != WeightKind::Head && !(self.experts_only && kind == WeightKind::Linear) => {
                share(numbers, bits / 8.0)
            }
            _ => numbers.saturating_mul(element),
        }
    }
}
