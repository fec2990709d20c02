//! A tape on which a training loop runs without numbers: every tensor that PyTorch would allocate is taken down, kept
//! while a variable or the autograd graph refers to it, and freed when the last reference goes.
//!
//! The code of the models (`crate::models`) reads like the Python that it stands for, and a Rust scope ends where the
//! Python scope ends. So the lifetimes are those of the real program, and peaks need no formula of their own.

mod engine;
mod meter;
mod sharded;
mod tensor;
mod zero;

use std::collections::HashMap;
use std::rc::Rc;

pub(crate) use meter::{Allocation, Books, Event, Meter, What};
use sharded::Sharded;
use tensor::Storage;
pub(crate) use tensor::{Edge, Tensor};
use zero::Shares;

use crate::dtype::DType;
use crate::setup::Platform;
use crate::shape::Shape;

/// The category of a block, in the words of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Weights and buffers, and whole parameters that sharding gathers.
    Parameter,
    /// Gradients of parameters.
    Gradient,
    /// State that the optimizer keeps from step to step.
    OptimizerState,
    /// Kept for the backward pass, casts of weights included.
    Activation,
    /// In inference, the keys and values that are kept from token to token.
    Cache,
    /// Batches and labels.
    Input,
    /// Short-lived memory, and outputs that the program holds.
    Temporary,
    /// Workspaces of libraries, and communication buckets.
    Workspace,
}

impl Category {
    /// All of them, in the order of the report.
    pub const ALL: [Category; 8] = [
        Category::Parameter,
        Category::Gradient,
        Category::OptimizerState,
        Category::Activation,
        Category::Cache,
        Category::Input,
        Category::Temporary,
        Category::Workspace,
    ];

    /// Its name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Parameter => "parameter",
            Category::Gradient => "gradient",
            Category::OptimizerState => "optimizer_state",
            Category::Activation => "activation",
            Category::Cache => "cache",
            Category::Input => "input",
            Category::Temporary => "temporary",
            Category::Workspace => "workspace",
        }
    }
}

/// What a program is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// The model is built or loaded.
    Load,
    /// A forward pass, or a forward without gradients.
    Forward,
    /// A backward pass.
    Backward,
    /// A step of the optimizer.
    Step,
    /// The step in which the optimizer makes its state.
    FirstStep,
    /// The prompt of a generation.
    Prefill,
    /// A later token of a generation.
    Decode,
}

pub(crate) type Grads = Vec<Option<Tensor>>;
type Backward = Box<dyn FnOnce(&mut Tape, Grads) -> Grads>;

/// A function of the autograd graph. Its saved tensors are what `backward` holds.
struct Node {
    /// `None`: it has run, or only collects gradients.
    backward: Option<Backward>,
    edges: Vec<Edge>,
    /// The type of each output: a gradient of another type is cast when it arrives.
    ///
    /// # Source
    /// PyTorch v2.11, `torch/csrc/autograd/engine.cpp`, `validate_outputs`.
    outputs: Vec<DType>,
}

/// A parameter, and its gradient once there is one.
pub(crate) struct Parameter {
    /// This rank's part of it.
    pub(crate) tensor: Tensor,
    /// The shape of the whole.
    whole: Shape,
    pub(crate) part: &'static str,
    pub(crate) grad: Option<Tensor>,
    /// The gradient of the whole, until ranks reduce it.
    whole_grad: Option<Tensor>,
}

impl Parameter {
    /// Whether it is trained.
    pub(crate) fn is_trainable(&self) -> bool {
        self.tensor.requires_grad()
    }

    /// How many numbers.
    pub(crate) fn numel(&self) -> u64 {
        self.whole.numel()
    }
}

/// How a checkpoint treats what would be saved.
///
/// # Source
/// PyTorch v2.11, `torch/utils/checkpoint.py`: the non-reentrant form counts what is packed, and stops the
/// recomputation after the last of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saving {
    /// Tensors are saved.
    Keep,
    /// In a checkpoint's forward pass: they are counted and dropped.
    Count(u64),
    /// In a recomputation: so many are still to come, and nothing is computed after them.
    Until(u64),
}

/// Which ends of the model a rank has beside its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Embeddings.
    pub(crate) first: bool,
    /// The last norm and the head.
    pub(crate) last: bool,
}

/// The state of the program that runs on the tape.
pub(crate) struct Tape {
    meter: Rc<Meter>,
    nodes: Vec<Node>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) platform: Platform,
    pub(crate) grad_enabled: bool,
    /// Whether modules are in training mode: dropout is on.
    pub(crate) training: bool,
    /// The lower type of `torch.autocast`, while inside it.
    pub(crate) autocast: Option<DType>,
    /// Casts of parameters that autocast keeps until it is left.
    casts: HashMap<u32, Tensor>,
    /// The part of the model that this rank has.
    pub(crate) ends: Ends,
    /// Ranks that share each layer.
    pub(crate) tensor_ranks: u64,
    /// The ranks that share the parameters out, if there are any.
    sharded: Option<Sharded>,
    /// The ranks that share gradients out, if there are any.
    shares: Option<Shares>,
    part: &'static str,
    /// Of what is allocated outside of the graph's bookkeeping: `Activation` forward, `Temporary` backward.
    category: Category,
    saving: Saving,
    /// What encoders gave for the language model to put among its embeddings.
    pub(crate) joined: Vec<Tensor>,
    /// Numbers in the outputs of all modules, containers included: what forward hooks would add up.
    pub(crate) module_outputs: u64,
}

impl Tape {
    pub(crate) fn new(platform: Platform) -> Tape {
        Tape {
            meter: Rc::new(Meter::default()),
            nodes: Vec::new(),
            parameters: Vec::new(),
            platform,
            grad_enabled: true,
            training: true,
            autocast: None,
            casts: HashMap::new(),
            ends: Ends { first: true, last: true },
            tensor_ranks: 1,
            sharded: None,
            shares: None,
            part: "model",
            category: Category::Activation,
            saving: Saving::Keep,
            joined: Vec::new(),
            module_outputs: 0,
        }
    }

    /// What was taken down.
    pub(crate) fn finish(self) -> Books {
        self.meter.take()
    }

    /// A phase begins.
    pub(crate) fn begin(&mut self, moment: Moment) {
        self.category = match moment {
            Moment::Forward | Moment::Prefill | Moment::Decode => Category::Activation,
            Moment::Load | Moment::Backward | Moment::Step | Moment::FirstStep => Category::Temporary,
        };
        self.meter.begin(moment);
    }

    /// Names the part of the model that the next allocations are of, and gives the one before.
    pub(crate) fn part(&mut self, part: &'static str) -> &'static str {
        std::mem::replace(&mut self.part, part)
    }

    /// Allocates a tensor without a graph.
    pub(crate) fn alloc(&mut self, name: &'static str, shape: Shape, dtype: DType) -> Tensor {
        self.alloc_as(self.category, name, shape, dtype)
    }

    /// Allocates a tensor of a category.
    pub(crate) fn alloc_as(&mut self, category: Category, name: &'static str, shape: Shape, dtype: DType) -> Tensor {
        let what = What { part: self.part, name, category, shape, element_bytes: dtype.bytes() };
        let bytes = shape.numel().saturating_mul(dtype.bytes());
        let storage = (self.saving != Saving::Until(0) && bytes > 0)
            .then(|| Storage::new(&self.meter, self.meter.alloc(bytes, what)));
        Tensor { storage, shape, dtype, edge: Edge::Nowhere, is_view: false }
    }

    /// Allocates the gradient of what an edge leads to.
    pub(crate) fn alloc_grad(&mut self, edge: Edge, name: &'static str, shape: Shape, dtype: DType) -> Tensor {
        let category = match edge {
            Edge::Parameter(id) => {
                self.part = self.parameters[id as usize].part;
                Category::Gradient
            }
            _ => Category::Temporary,
        };
        self.alloc_as(category, name, shape, dtype)
    }

    /// Makes a parameter.
    pub(crate) fn parameter(&mut self, shape: Shape, dtype: DType, trainable: bool) -> Tensor {
        if let Some(shared) = self.shared_parameter(shape, dtype, trainable) {
            return shared;
        }
        let id = u32::try_from(self.parameters.len()).unwrap_or(u32::MAX);
        let mut tensor = self.alloc_as(Category::Parameter, "weights", shape, dtype);
        if trainable {
            tensor.edge = Edge::Parameter(id);
        }
        let parameter =
            Parameter { tensor: tensor.clone(), whole: shape, part: self.part, grad: None, whole_grad: None };
        self.parameters.push(parameter);
        tensor
    }

    /// Whether an operator over these inputs gets a node of the graph.
    pub(crate) fn records(&self, inputs: &[&Tensor]) -> bool {
        self.grad_enabled && inputs.iter().any(|input| input.requires_grad())
    }

    /// What the graph keeps of a tensor: the tensor, unless a checkpoint drops it.
    ///
    /// To be asked of inputs before the output is allocated, as PyTorch does.
    pub(crate) fn save(&mut self, tensor: &Tensor) -> Tensor {
        if let Some(storage) = tensor.storage.as_ref().filter(|_| !matches!(self.saving, Saving::Count(_))) {
            storage.save();
        }
        match &mut self.saving {
            Saving::Keep => tensor.detached(),
            Saving::Count(count) => {
                *count += 1;
                Tensor { storage: None, ..tensor.detached() }
            }
            Saving::Until(left) => {
                *left = left.saturating_sub(1);
                tensor.detached()
            }
        }
    }

    /// Adds a node with one output to the graph and ties the output to it.
    pub(crate) fn record(
        &mut self,
        inputs: &[&Tensor],
        mut output: Tensor,
        backward: impl FnOnce(&mut Tape, Tensor) -> Grads + 'static,
    ) -> Tensor {
        let edges = inputs.iter().map(|input| input.edge).collect();
        let node = Node {
            backward: Some(Box::new(move |tape, mut grads| match grads.pop().flatten() {
                Some(grad) => backward(tape, grad),
                None => Vec::new(),
            })),
            edges,
            outputs: vec![output.dtype],
        };
        output.edge = Edge::Node(self.push(node), 0);
        output
    }

    /// Adds a node with several outputs and gives the edges of the outputs.
    pub(crate) fn record_many(
        &mut self,
        inputs: &[&Tensor],
        outputs: &[DType],
        backward: impl FnOnce(&mut Tape, Grads) -> Grads + 'static,
    ) -> Vec<Edge> {
        let edges = inputs.iter().map(|input| input.edge).collect();
        let node = Node { backward: Some(Box::new(backward)), edges, outputs: outputs.to_vec() };
        let id = self.push(node);
        (0..outputs.len()).map(|slot| Edge::Node(id, u8::try_from(slot).unwrap_or(u8::MAX))).collect()
    }

    fn push(&mut self, node: Node) -> u32 {
        let id = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.nodes.push(node);
        id
    }

    /// How many functions the graph has so far.
    pub(crate) fn graph_size(&self) -> usize {
        self.nodes.len()
    }

    /// A tensor that another stage made, and whose gradient is wanted: a leaf of the graph.
    pub(crate) fn leaf(&mut self, tensor: &Tensor) -> Tensor {
        let leaf = self.push(Node { backward: None, edges: Vec::new(), outputs: vec![tensor.dtype] });
        Tensor { edge: Edge::Node(leaf, 0), ..tensor.clone() }
    }

    /// Drops a part of the graph, with whatever it still keeps.
    pub(crate) fn drop_part_of_graph(&mut self, part: std::ops::Range<usize>) {
        for node in &mut self.nodes[part] {
            node.backward = None;
        }
    }

    /// Drops the graph of an iteration, with whatever it still keeps.
    pub(crate) fn drop_graph(&mut self) {
        self.nodes.clear();
    }

    /// Sets the gradients to `None`.
    pub(crate) fn zero_grad(&mut self) {
        for parameter in &mut self.parameters {
            parameter.grad = None;
        }
    }

    /// The cast of a parameter that autocast has made already.
    pub(crate) fn cached_cast(&self, edge: Edge) -> Option<Tensor> {
        let Edge::Parameter(id) = edge else { return None };
        self.casts.get(&id).cloned()
    }

    /// Keeps the cast of a parameter until autocast is left.
    pub(crate) fn keep_cast(&mut self, edge: Edge, cast: &Tensor) {
        if let Edge::Parameter(id) = edge {
            self.casts.insert(id, cast.clone());
        }
    }

    /// Enters autocast.
    pub(crate) fn enter_autocast(&mut self, dtype: Option<DType>) {
        self.autocast = dtype;
    }

    /// Leaves autocast: the casts that nobody saved are freed.
    pub(crate) fn leave_autocast(&mut self) {
        self.autocast = None;
        self.casts.clear();
    }

    /// Counts what a module gives, as a forward hook would.
    pub(crate) fn module_output(&mut self, output: &Tensor) {
        self.module_outputs = self.module_outputs.saturating_add(output.shape.numel());
    }

    /// Runs a function as `torch.utils.checkpoint` does (`use_reentrant=False`): nothing it would save is kept but its
    /// inputs, and the backward pass runs it again up to the last tensor that it saves.
    pub(crate) fn checkpoint(
        &mut self,
        input: &Tensor,
        function: impl Fn(&mut Tape, &Tensor) -> Tensor + 'static,
    ) -> Tensor {
        self.checkpoint_with(input, &[], function)
    }

    /// The same for a function that also uses tensors that need gradients and are not its input.
    pub(crate) fn checkpoint_with(
        &mut self,
        input: &Tensor,
        others: &[&Tensor],
        function: impl Fn(&mut Tape, &Tensor) -> Tensor + 'static,
    ) -> Tensor {
        if !self.grad_enabled || self.saving != Saving::Keep {
            return function(self, input);
        }
        let floor = self.nodes.len();
        self.saving = Saving::Count(0);
        let mut output = function(self, input);
        let saved = match std::mem::replace(&mut self.saving, Saving::Keep) {
            Saving::Count(count) => count,
            Saving::Keep | Saving::Until(_) => 0,
        };
        self.nodes.truncate(floor);
        output.edge = Edge::Nowhere;
        let kept = input.detached();
        let (autocast, part) = (self.autocast, self.part);
        let inputs: Vec<&Tensor> = [input].into_iter().chain(others.iter().copied()).collect();
        let edges: Vec<Edge> = others.iter().map(|other| other.edge).collect();
        self.record(&inputs, output, move |tape, grad| {
            tape.part(part);
            tape.recompute(&kept, autocast, saved, grad, &edges, &function)
        })
    }

    fn recompute(
        &mut self,
        input: &Tensor,
        autocast: Option<DType>,
        saved: u64,
        grad: Tensor,
        others: &[Edge],
        function: &impl Fn(&mut Tape, &Tensor) -> Tensor,
    ) -> Grads {
        let floor = self.nodes.len();
        let leaf = self.push(Node { backward: None, edges: Vec::new(), outputs: vec![input.dtype] });
        let input = Tensor { edge: Edge::Node(leaf, 0), ..input.clone() };
        let outer = (self.autocast, std::mem::take(&mut self.casts));
        let category = std::mem::replace(&mut self.category, Category::Activation);
        (self.autocast, self.saving) = (autocast, Saving::Until(saved));
        let output = function(self, &input);
        self.saving = Saving::Keep;
        (self.autocast, self.casts) = outer;
        self.category = category;
        drop(input);
        let edge = output.edge;
        drop(output);
        let mut arrived = self.run_backward(edge, grad, floor);
        self.nodes.truncate(floor);
        let own = arrived.collected.pop().flatten();
        let of_others = others.iter().map(|edge| {
            let found = arrived.outside.iter().position(|(outside, _)| outside == edge)?;
            Some(arrived.outside.swap_remove(found).1)
        });
        let mut grads: Grads = of_others.collect();
        grads.insert(0, own);
        grads
    }
}
