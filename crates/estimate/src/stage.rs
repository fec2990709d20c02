//! A stage of a pipeline: its micro-batches in the order of 1F1B.
//!
//! # Source
//! PyTorch v2.11, `torch/distributed/pipelining/schedules.py`, `Schedule1F1B`; `stage.py`, `PipelineStage`.

use std::collections::VecDeque;
use std::ops::Range;

use crate::dtype::DType;
use crate::models::Call;
use crate::optimizer::OptimizerState;
use crate::run::Program;
use crate::setup::{Keep, Setup};
use crate::shape::{Shape, dim};
use crate::tape::{Category, Edge, Ends, Moment, Tensor};

/// Which stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) ends: Ends,
    /// Micro-batches that are forward before the first is backward, itself included.
    pub(crate) in_flight: u64,
}

impl Stage {
    /// The first, the second and the last of so many stages: others have less in flight than the second.
    pub(crate) fn of(stages: u64) -> Vec<Stage> {
        let stage = |index: u64| Stage {
            ends: Ends { first: index == 0, last: index + 1 == stages },
            in_flight: stages.saturating_sub(index),
        };
        let mut all = vec![stage(0)];
        if stages > 2 {
            all.push(stage(1));
        }
        all.push(stage(stages.saturating_sub(1)));
        all
    }
}

/// A micro-batch that is forward and not yet backward.
struct Forward {
    /// The stage's output, or the loss.
    output: Tensor,
    from: Edge,
    graph: Range<usize>,
    input: Tensor,
}

/// The buffers that a stage receives into, which stay from micro-batch to micro-batch.
struct Traffic {
    shape: Shape,
    /// Hidden states and gradients, one for each micro-batch that is run, and the others' together.
    received: Vec<Tensor>,
    gradients: Vec<Tensor>,
    _others: Vec<Tensor>,
}

impl Program {
    /// Micro-batches beyond those that show the peak are like them: only their outputs count.
    pub(crate) fn train_stage(&mut self, stage: Stage) -> u64 {
        let setup = self.setup;
        let mut optimizer = OptimizerState::new(setup.optimizer, setup.parallel.tensor > 1);
        let count = setup.accumulation.max(1);
        let run = count.min(stage.in_flight.saturating_add(2));
        let buckets = self.buckets(false);
        let mut traffic: Option<Traffic> = None;
        let mut chunks = Vec::new();
        let mut module_outputs = 0;
        let mut inputs;
        for iteration in 0..2 {
            self.tape.begin(Moment::Forward);
            chunks.clear();
            inputs = self.ids(count);
            let traffic = traffic.get_or_insert_with(|| self.receive(stage, run, count));
            module_outputs = self.micro_batches(stage, run, count, &inputs, traffic, &mut chunks);
            self.tape.begin(if iteration == 0 { Moment::FirstStep } else { Moment::Step });
            optimizer.step(&mut self.tape);
            self.tape.zero_grad();
        }
        drop(buckets);
        module_outputs
    }

    /// The ids of all micro-batches.
    fn ids(&mut self, count: u64) -> Tensor {
        let sequences = dim("B·m", self.setup.batch.saturating_mul(count));
        self.tape.input("token ids", Shape::of(&[sequences, dim("S", self.setup.seq)]), DType::Int64)
    }

    /// The buffers for all micro-batches, made once.
    fn receive(&mut self, stage: Stage, run: u64, count: u64) -> Traffic {
        let setup = self.setup;
        let dtype = setup.dtype;
        let shape = Shape::of(&[dim("B", setup.batch), dim("S", setup.seq), dim("h", self.model.widths().0)]);
        let part = self.tape.part("pipeline");
        let mut others = Vec::new();
        let mut all = |is_there: bool, name| {
            let mut list: Vec<Tensor> = Vec::new();
            if is_there {
                list.extend((0..run).map(|_| self.tape.alloc_as(Category::Workspace, name, shape, dtype)));
                let rest = dim("m", count.saturating_sub(run));
                let sizes: Vec<_> = [rest].into_iter().chain(shape.dims().iter().copied()).collect();
                others.push(self.tape.alloc_as(Category::Workspace, name, Shape::of(&sizes), dtype));
            }
            list
        };
        let received = all(!stage.ends.first, "received hidden states");
        let gradients = all(!stage.ends.last, "received gradients");
        self.tape.part(part);
        Traffic { shape, received, gradients, _others: others }
    }

    fn micro_batches(
        &mut self,
        stage: Stage,
        run: u64,
        count: u64,
        ids: &Tensor,
        traffic: &Traffic,
        chunks: &mut Vec<Tensor>,
    ) -> u64 {
        let mut open: VecDeque<Forward> = VecDeque::new();
        let mut module_outputs = 0;
        // Names of the schedule hold the last output and the gradients that are sent backward.
        let mut last = None;
        let mut sent_back = None;
        let keeps = stage.ends.last && self.setup.keep == Keep::Outputs;
        if keeps && count > run {
            chunks.push(self.logits_of("logits", count - run));
        }
        let mut backward = 0;
        for index in 0..run {
            if index >= stage.in_flight {
                self.backward(&mut open, backward, traffic, &mut sent_back);
                backward += 1;
                self.tape.begin(Moment::Forward);
            }
            let forward = self.forward(stage, index, ids, traffic, &mut last);
            module_outputs = self.tape.module_outputs;
            if keeps {
                chunks.extend(last.iter().map(Tensor::detached));
            }
            open.push_back(forward);
        }
        while !open.is_empty() {
            self.backward(&mut open, backward, traffic, &mut sent_back);
            backward += 1;
        }
        drop((last, sent_back));
        self.tape.drop_graph();
        if keeps {
            drop(self.logits_of("logits of all micro-batches", count));
        }
        module_outputs
    }

    /// Logits of so many micro-batches.
    fn logits_of(&mut self, name: &'static str, count: u64) -> Tensor {
        let Setup { batch, seq, dtype, autocast, .. } = self.setup;
        let shape = [dim("m", count), dim("B", batch), dim("S", seq), dim("V", self.model.widths().1)];
        let part = self.tape.part("head");
        let logits = self.tape.alloc_as(Category::Temporary, name, Shape::of(&shape), autocast.unwrap_or(dtype));
        self.tape.part(part);
        logits
    }

    fn forward(
        &mut self,
        stage: Stage,
        index: u64,
        ids: &Tensor,
        traffic: &Traffic,
        last: &mut Option<Tensor>,
    ) -> Forward {
        let setup = self.setup;
        let tape = &mut self.tape;
        let begin = tape.graph_size();
        let own = usize::try_from(index).unwrap_or(usize::MAX);
        let input = match traffic.received.get(own) {
            Some(received) => tape.leaf(&received.view(traffic.shape)),
            None => tape.leaf(&Tensor {
                edge: Edge::Nowhere,
                ..ids.view(Shape::of(&[dim("B", setup.batch), dim("S", setup.seq)]))
            }),
        };
        let given = if stage.ends.first { input.detached() } else { input.clone() };
        tape.enter_autocast(setup.autocast);
        tape.module_outputs = 0;
        let call = Call { use_cache: false, ..Call::plain(stage.ends.last && self.model.loss_style().is_some()) };
        tape.before_model();
        let mut outputs = self.model.forward(tape, &setup, &[given], &call);
        tape.after_model();
        tape.leave_autocast();
        let output = match outputs.loss.take() {
            Some(loss) => loss,
            None if stage.ends.last => tape.mean(&outputs.logits),
            None => outputs.logits.clone(),
        };
        *last = Some(outputs.logits.detached());
        let graph = begin..tape.graph_size();
        Forward { from: output.edge, output: output.detached(), graph, input }
    }

    fn backward(
        &mut self,
        open: &mut VecDeque<Forward>,
        index: usize,
        traffic: &Traffic,
        sent_back: &mut Option<Vec<Tensor>>,
    ) {
        let Some(forward) = open.pop_front() else { return };
        let tape = &mut self.tape;
        tape.begin(Moment::Backward);
        let grad = match traffic.gradients.get(index) {
            Some(gradient) => gradient.clone(),
            None => {
                let part = tape.part("loss");
                let grad = tape.alloc("gradient of the loss", forward.output.shape, forward.output.dtype);
                tape.part(part);
                grad
            }
        };
        tape.before_backward_of_model();
        let arrived = tape.run_backward(forward.from, grad, forward.graph.start);
        tape.after_backward_of_model();
        tape.drop_part_of_graph(forward.graph);
        drop(forward.input);
        let sent: Vec<Tensor> = arrived.collected.into_iter().flatten().collect();
        *sent_back = Some(sent);
    }
}
