//! What an optimizer keeps from step to step, and what it allocates in one.
//!
//! # Source
//! PyTorch v2.11, `torch/optim/`; bitsandbytes 0.50, `optim/optimizer.py`; multiples: `spec/memory-formulas.md` section 2.

use crate::dtype::DType;
use crate::setup::Optimizer;
use crate::shape::{Shape, dim};
use crate::tape::{Category, Tape, Tensor};

/// The optimizer of a run, and its state.
pub(crate) struct OptimizerState {
    kind: Optimizer,
    state: Vec<Tensor>,
}

/// How a step goes over the parameters.
enum Temporaries {
    /// Nothing worth mentioning.
    None,
    /// Copies of all parameters at once.
    All(usize),
    /// Copies of one parameter after the other; the last copy of one is there until the next one's is made.
    EachInTurn(usize),
}

impl Optimizer {
    /// Copies of a parameter that are kept: those of `torch.optim`.
    const fn copies(self) -> u64 {
        match self {
            Optimizer::Sgd | Optimizer::Adafactor => 0,
            Optimizer::SgdMomentum | Optimizer::RmsProp | Optimizer::Adagrad | Optimizer::Lion => 1,
            Optimizer::AdamWAmsgrad => 3,
            _ => 2,
        }
    }

    const fn temporaries(self) -> Temporaries {
        match self {
            Optimizer::Sgd
            | Optimizer::SgdMomentum
            | Optimizer::AdamWFused
            | Optimizer::AdamW8bit
            | Optimizer::PagedAdamW8bit
            | Optimizer::Lion8bit => Temporaries::None,
            Optimizer::AdamW
            | Optimizer::AdamWAmsgrad
            | Optimizer::RmsProp
            | Optimizer::NAdam
            | Optimizer::RAdam
            | Optimizer::Adamax => Temporaries::All(1),
            Optimizer::Adagrad | Optimizer::Adadelta => Temporaries::All(2),
            Optimizer::AdamWLoop | Optimizer::Adafactor | Optimizer::Muon | Optimizer::Lion => {
                Temporaries::EachInTurn(2)
            }
        }
    }
}

impl OptimizerState {
    pub(crate) fn new(kind: Optimizer) -> OptimizerState {
        OptimizerState { kind, state: Vec::new() }
    }

    /// One step: makes the state if there is none yet, then what it works with.
    pub(crate) fn step(&mut self, tape: &mut Tape) {
        let part = tape.part("optimizer");
        let trained: Vec<(Shape, DType, &'static str)> = tape
            .parameters
            .iter()
            .filter(|parameter| parameter.is_trainable() && parameter.grad.is_some())
            .map(|parameter| (parameter.tensor.shape, parameter.tensor.dtype, parameter.part))
            .collect();
        if self.state.is_empty() {
            for &(shape, dtype, part) in &trained {
                self.make_state(tape, shape, dtype, part);
            }
        }
        tape.part("optimizer");
        self.work(tape, &trained);
        tape.part(part);
    }

    fn keep(&mut self, tape: &mut Tape, name: &'static str, shape: Shape, dtype: DType) {
        let state = tape.alloc_as(Category::OptimizerState, name, shape, dtype);
        self.state.push(state);
    }

    fn make_state(&mut self, tape: &mut Tape, shape: Shape, dtype: DType, part: &'static str) {
        tape.part(part);
        let values = shape.numel();
        let is_matrix = shape.dims().len() >= 2;
        match self.kind {
            Optimizer::Adafactor if is_matrix => {
                let columns = shape.last();
                let rows = Shape::of(&[dim("rows", values / columns.size.max(1))]);
                self.keep(tape, "row sums of squares", rows, dtype);
                self.keep(tape, "column sums of squares", Shape::of(&[columns]), dtype);
            }
            Optimizer::Adafactor => self.keep(tape, "sums of squares", shape, dtype),
            Optimizer::Muon if is_matrix && !matches!(part, "embedding" | "head") => {
                self.keep(tape, "momentum", shape, dtype);
            }
            Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit if values >= 4096 => self.keep_quantised(tape, shape, 2),
            Optimizer::Lion8bit if values >= 4096 => self.keep_quantised(tape, shape, 1),
            Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit => {
                self.keep(tape, "first moments", shape, DType::Float32);
                self.keep(tape, "second moments", shape, DType::Float32);
            }
            Optimizer::Lion8bit => self.keep(tape, "momentum", shape, DType::Float32),
            kind => {
                for copy in 0..kind.copies() {
                    let name = ["first moments", "second moments", "largest second moments"];
                    self.keep(tape, name[usize::try_from(copy).unwrap_or(0).min(2)], shape, dtype);
                }
                if kind == Optimizer::AdamWFused {
                    self.keep(tape, "step counter", Shape::of(&[dim("1", 1)]), DType::Float32);
                }
            }
        }
    }

    /// Values in eight bits, a scale for each 256. Paged state of large tensors is in managed memory.
    fn keep_quantised(&mut self, tape: &mut Tape, shape: Shape, states: u32) {
        let values = shape.numel();
        if self.kind == Optimizer::PagedAdamW8bit && values >= 100_000 {
            return;
        }
        for _ in 0..states {
            self.keep(tape, "moments in eight bits", shape, DType::Byte);
            let blocks = Shape::of(&[dim("N/256", values.div_ceil(256))]);
            self.keep(tape, "scales of moments", blocks, DType::Float32);
        }
    }

    fn work(&self, tape: &mut Tape, trained: &[(Shape, DType, &'static str)]) {
        match self.kind.temporaries() {
            Temporaries::None => {}
            Temporaries::All(copies) => {
                let mut all = Vec::new();
                for _ in 0..copies {
                    for &(shape, dtype, _) in trained {
                        all.push(tape.alloc("intermediates of all parameters", shape, dtype));
                    }
                }
            }
            Temporaries::EachInTurn(copies) => {
                let mut last: Option<Tensor> = None;
                for &(shape, dtype, _) in trained {
                    let mut current = Vec::new();
                    for _ in 0..copies {
                        current.push(tape.alloc("intermediates of one parameter", shape, dtype));
                    }
                    last = current.pop().or(last);
                }
                drop(last);
            }
        }
    }
}
