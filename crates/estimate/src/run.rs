//! The program that is estimated: a training loop, a forward pass, or a generation.

use crate::architecture::Architecture;
use crate::dtype::DType;
use crate::models::{self, Call, Model, Outputs};
use crate::optimizer::OptimizerState;
use crate::setup::{Keep, Loss, Mode, Setup};
use crate::shape::{Shape, dim};
use crate::tape::{Books, Category, Moment, Tape, Tensor};

/// What a run leaves behind.
pub(crate) struct Run {
    pub(crate) books: Books,
    /// Parameters, and those that are trained.
    pub(crate) parameters: u64,
    pub(crate) trained: u64,
    /// Numbers in the outputs of all modules of one forward pass.
    pub(crate) module_outputs: u64,
    /// Iterations of a training loop.
    pub(crate) is_training: bool,
}

/// Runs the program of a set-up on a tape; `None` for a model of which only the size is known.
///
/// Training runs for two iterations: the first makes the optimizer's state, the second is like all later ones.
pub(crate) fn run(architecture: &Architecture, setup: &Setup) -> Option<Run> {
    let mut tape = Tape::new(setup.platform);
    tape.begin(Moment::Load);
    let model = models::build(architecture, setup, &mut tape)?;
    tape.part("model");
    let buffers = Shape::of(&[dim("bytes", model.buffer_bytes())]);
    let buffers = tape.alloc_as(Category::Parameter, "buffers", buffers, DType::Byte);
    let (parameters, trained) = tape.parameters.iter().fold((0, 0), |(all, trained): (u64, u64), parameter| {
        let count = parameter.numel();
        (all.saturating_add(count), trained.saturating_add(if parameter.is_trainable() { count } else { 0 }))
    });
    load(&mut tape);
    let mut program = Program { tape, model, setup: *setup };
    let module_outputs = match setup.mode {
        Mode::Train => program.train(),
        Mode::Forward => program.forward_only(),
        Mode::Generate { new_tokens } => program.generate(new_tokens),
    };
    drop(buffers);
    let Program { tape, model, .. } = program;
    drop(model);
    let is_training = setup.mode == Mode::Train;
    Some(Run { books: tape.finish(), parameters, trained, module_outputs, is_training })
}

/// While a model is loaded or made, a copy of the tensor at hand is there, too.
fn load(tape: &mut Tape) {
    let largest = tape.parameters.iter().max_by_key(|parameter| parameter.numel());
    if let Some((shape, dtype)) = largest.map(|parameter| (parameter.tensor.shape, parameter.tensor.dtype)) {
        drop(tape.alloc("copy of a parameter that is loaded", shape, dtype));
    }
}

struct Program {
    tape: Tape,
    model: Box<dyn Model>,
    setup: Setup,
}

impl Program {
    fn train(&mut self) -> u64 {
        let mut optimizer = OptimizerState::new(self.setup.optimizer);
        let mut held: Option<(Vec<Tensor>, Outputs, Tensor)> = None;
        let mut inputs = Vec::new();
        let mut module_outputs = 0;
        for iteration in 0..2 {
            for _ in 0..self.setup.accumulation.clamp(1, 3) {
                module_outputs = self.forward_and_backward(&mut inputs, &mut held);
            }
            self.tape.begin(if iteration == 0 { Moment::FirstStep } else { Moment::Step });
            optimizer.step(&mut self.tape);
            self.tape.zero_grad();
        }
        module_outputs
    }

    fn forward_and_backward(
        &mut self,
        inputs: &mut Vec<Tensor>,
        held: &mut Option<(Vec<Tensor>, Outputs, Tensor)>,
    ) -> u64 {
        let setup = self.setup;
        let tape = &mut self.tape;
        tape.begin(Moment::Forward);
        *inputs = self.model.inputs(tape, &setup);
        tape.enter_autocast(setup.autocast);
        tape.module_outputs = 0;
        let with_labels = setup.loss == Loss::Labels && self.model.loss_style().is_some();
        let call = Call { with_labels, use_cache: true, past: None, past_tokens: 0, last_logits_only: false };
        let mut outputs = self.model.forward(tape, &setup, inputs, &call);
        let module_outputs = tape.module_outputs;
        let loss = match outputs.loss.take() {
            Some(loss) => loss,
            None => {
                if setup.keep == Keep::Loss {
                    outputs.cache = models::Cache::default();
                }
                // The loop's own name still holds the last iteration's outputs until it is bound anew.
                *held = None;
                tape.mean(&outputs.logits)
            }
        };
        tape.leave_autocast();
        let from = loss.edge;
        *held = None;
        *held = (setup.keep == Keep::Outputs).then_some((inputs.clone(), outputs, loss.detached()));
        tape.begin(Moment::Backward);
        let part = tape.part("loss");
        let grad = tape.alloc("gradient of the loss", loss.shape, loss.dtype);
        tape.part(part);
        tape.run_backward(from, grad, 0);
        drop(loss);
        tape.drop_graph();
        module_outputs
    }

    fn forward_only(&mut self) -> u64 {
        let setup = self.setup;
        let tape = &mut self.tape;
        (tape.training, tape.grad_enabled) = (false, false);
        tape.begin(Moment::Forward);
        let inputs = self.model.inputs(tape, &setup);
        tape.enter_autocast(setup.autocast);
        let call = Call { with_labels: false, use_cache: true, past: None, past_tokens: 0, last_logits_only: false };
        let outputs = self.model.forward(tape, &setup, &inputs, &call);
        drop(outputs);
        tape.module_outputs
    }

    /// The prompt, the first new token and the last: in between the cache only grows.
    fn generate(&mut self, new_tokens: u64) -> u64 {
        let _ = new_tokens;
        self.forward_only()
    }
}
