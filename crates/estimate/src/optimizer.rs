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
    /// Whether it goes over the parameters one by one, whatever it would do else: tensor-parallel ranks have tensors of two kinds.
    ///
    /// # Source
    /// transformers 5.17, `trainer_optimizer.py`: `foreach` and `fused` are off under tensor parallelism.
    one_by_one: bool,
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
    /// Adafactor's: an estimate of the variance of one parameter after the other, the last one's being there until the next is made.
    Factored,
    /// Muon's: a few copies of one matrix after the other; then `AdamW`'s of what is no matrix of a layer.
    Orthogonal,
}

/// Whether Muon trains it: a matrix of a layer.
fn is_for_muon(shape: Shape, part: &str) -> bool {
    shape.dims().len() == 2 && !matches!(part, "embedding" | "head")
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
            Optimizer::AdamWLoop | Optimizer::Lion => Temporaries::EachInTurn(2),
            Optimizer::Adafactor => Temporaries::Factored,
            Optimizer::Muon => Temporaries::Orthogonal,
        }
    }
}

impl OptimizerState {
    pub(crate) fn new(kind: Optimizer, one_by_one: bool) -> OptimizerState {
        let kind = if one_by_one && kind == Optimizer::AdamWFused { Optimizer::AdamW } else { kind };
        OptimizerState { kind, one_by_one, state: Vec::new() }
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
        self.step_over(tape, &trained);
        tape.part(part);
    }

    /// One step over a part of all parameters in one piece, in float32.
    pub(crate) fn step_flat(&mut self, tape: &mut Tape, numel: u64) {
        let part = tape.part("optimizer");
        self.step_over(tape, &[(Shape::of(&[dim("N", numel)]), DType::Float32, "optimizer")]);
        tape.part(part);
    }

    fn step_over(&mut self, tape: &mut Tape, trained: &[(Shape, DType, &'static str)]) {
        if self.state.is_empty() {
            for &(shape, dtype, part) in trained {
                self.make_state(tape, shape, dtype, part);
            }
        }
        tape.part("optimizer");
        self.work(tape, trained);
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
            Optimizer::Muon if is_for_muon(shape, part) => {
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
        let temporaries = match self.kind.temporaries() {
            Temporaries::All(_) if self.one_by_one => Temporaries::EachInTurn(2),
            temporaries => temporaries,
        };
        match temporaries {
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
            Temporaries::Factored => {
                let mut last: Option<Tensor> = None;
                for &(shape, dtype, _) in trained {
                    last = Some(factored(tape, shape, dtype));
                }
                drop(last);
            }
            Temporaries::Orthogonal => {
                let mut last: Option<Tensor> = None;
                for &(shape, dtype, _) in trained.iter().filter(|(shape, _, part)| is_for_muon(*shape, part)) {
                    last = Some(orthogonal(tape, shape, dtype));
                }
                drop(last);
                let rest = trained.iter().filter(|(shape, _, part)| !is_for_muon(*shape, part));
                let all: Vec<Tensor> = rest
                    .map(|&(shape, dtype, _)| tape.alloc("intermediates of all other parameters", shape, dtype))
                    .collect();
                drop(all);
            }
        }
    }
}

/// The update of a matrix by Newton and Schulz: the momentum in bfloat16, and from step to step two squares and a new one.
///
/// # Source
/// PyTorch v2.11, `torch/optim/_muon.py`, `_zeropower_via_newtonschulz`.
fn orthogonal(tape: &mut Tape, shape: Shape, dtype: DType) -> Tensor {
    let name = "intermediates of one matrix";
    let update = tape.alloc(name, shape, dtype);
    let mut matrix = if dtype == DType::BFloat16 { update.clone() } else { tape.alloc(name, shape, DType::BFloat16) };
    let shorter = shape.dims().iter().copied().min_by_key(|dim| dim.size).unwrap_or(dim("1", 1));
    let square = Shape::of(&[shorter, shorter]);
    let mut squares = None;
    for _ in 0..2 {
        let gram = tape.alloc("square of one matrix", square, DType::BFloat16);
        let step = tape.alloc("square of one matrix", square, DType::BFloat16);
        let next = tape.alloc(name, shape, DType::BFloat16);
        (matrix, squares) = (next, Some((gram, step)));
    }
    drop((update, squares));
    matrix
}

/// The update of a parameter from row and column sums; the norm over columns works in global memory.
///
/// # Source
/// PyTorch v2.11, `torch/optim/_adafactor.py`, `_single_tensor_adafactor`.
fn factored(tape: &mut Tape, shape: Shape, dtype: DType) -> Tensor {
    let name = "intermediates of one parameter";
    if let [rows, columns] = *shape.dims() {
        let of_rows = tape.alloc(name, Shape::of(&[rows]), dtype);
        let of_columns = tape.alloc(name, Shape::of(&[columns]), dtype);
        tape.column_sum_scratch(rows.size, columns.size);
        let update = tape.alloc(name, shape, dtype);
        drop((of_rows, of_columns));
        return update;
    }
    let square = (shape.dims().len() == 1).then(|| tape.alloc(name, shape, dtype));
    let update = tape.alloc(name, shape, dtype);
    drop(square);
    update
}
