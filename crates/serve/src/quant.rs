//! The bytes of a weight as a checkpoint has it: the quantisation of `highwater-estimate`, or the model's own type.

use highwater_estimate::read::quantization;
use highwater_estimate::{Quantization, WeightKind};

use crate::arithmetic::product;
use crate::config::Fields;
use crate::error::ServeError;

/// How a checkpoint is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Quant(Option<Quantization>);

impl Quant {
    /// As the configuration says.
    pub(crate) fn of(config: Fields<'_>) -> Result<Quant, ServeError> {
        quantization(config.0).map(Quant).map_err(|error| ServeError::Config(error.to_string()))
    }

    /// Its name for people, empty for none.
    pub(crate) fn label(&self) -> String {
        self.0.as_ref().map(|own| own.label.clone()).unwrap_or_default()
    }

    /// The bytes of a weight.
    pub(crate) fn bytes(&self, module: &str, kind: WeightKind, shape: &[u64], element: u64) -> u64 {
        match &self.0 {
            Some(own) => own.stored(module, kind, shape, element).bytes(),
            None => shape.iter().fold(element, |all, side| product([all, *side])),
        }
    }
}
