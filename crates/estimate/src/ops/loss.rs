//! Losses.

use crate::dtype::DType;
use crate::shape::{Dim, Shape, dim};
use crate::tape::{Tape, Tensor};

/// How a family computes the loss of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossStyle {
    /// Logits in float32, labels shifted by one (`ForCausalLMLoss`).
    Causal,
    /// Logits in float32, labels as they are (`ForMaskedLMLoss`: `ModernBERT`).
    Upcast,
    /// `CrossEntropyLoss` over the logits as they are (BERT, T5, Whisper, classifiers).
    Plain,
}

impl Tape {
    /// The loss of labels over `rows` rows of logits.
    pub(crate) fn label_loss(&mut self, style: LossStyle, logits: &Tensor, batch: Dim) -> Tensor {
        let part = self.part("loss");
        let loss = match style {
            LossStyle::Causal => {
                let wide = self.to("logits in float32", logits, DType::Float32);
                let rows = logits.shape.rows().numel();
                let padded = Shape::of(&[dim("T + B", rows.saturating_add(batch.size))]);
                let padded = self.alloc("labels, padded", padded, DType::Int64);
                let shifted = self.alloc("labels, shifted", logits.shape.rows(), DType::Int64);
                let loss = self.cross_entropy(&wide, &shifted);
                drop((wide, padded, shifted));
                loss
            }
            LossStyle::Upcast => {
                let wide = self.to("logits in float32", logits, DType::Float32);
                let labels = self.view_of_labels(logits);
                self.cross_entropy(&wide, &labels)
            }
            LossStyle::Plain => {
                let labels = self.view_of_labels(logits);
                self.cross_entropy(logits, &labels)
            }
        };
        self.part(part);
        loss
    }

    fn view_of_labels(&self, logits: &Tensor) -> Tensor {
        let _ = self;
        Tensor { storage: None, shape: logits.shape.rows(), dtype: DType::Int64, ..logits.detached() }
    }

    /// `cross_entropy`: log-softmax, whose output is kept, and the negative log-likelihood. Autocast casts the log-softmax
    /// for the latter.
    fn cross_entropy(&mut self, logits: &Tensor, labels: &Tensor) -> Tensor {
        let log_softmax = self.activation_of_output("log-softmax", logits);
        let likelihood = match self.autocast {
            Some(_) => self.to("log-softmax in float32", &log_softmax, DType::Float32),
            None => log_softmax.clone(),
        };
        drop(log_softmax);
        let records = self.records(&[&likelihood]);
        let kept = records.then(|| (self.save(&likelihood), self.save(labels)));
        let one = Shape::of(&[dim("1", 1)]);
        let loss = self.alloc("loss", one, likelihood.dtype);
        let weight = self.alloc("total weight", one, likelihood.dtype);
        let Some(kept) = kept else { return loss };
        let kept = (kept, self.save(&weight));
        let shape = logits.shape;
        self.record(&[&likelihood], loss, move |tape, grad| {
            let gradient = tape.alloc("gradient of the log-softmax", shape, grad.dtype);
            drop((grad, kept));
            vec![Some(gradient)]
        })
    }

    /// `x.mean()`: keeps nothing, its gradient is as large as `x`.
    pub(crate) fn mean(&mut self, x: &Tensor) -> Tensor {
        let part = self.part("loss");
        let records = self.records(&[x]);
        let one = Shape::of(&[dim("1", 1)]);
        let mean = self.alloc("loss", one, x.dtype);
        self.part(part);
        if !records {
            return mean;
        }
        let shape = x.shape;
        self.record(&[x], mean, move |tape, grad| {
            let expanded = tape.alloc("gradient of the logits", shape, grad.dtype);
            drop(grad);
            vec![Some(expanded)]
        })
    }
}
