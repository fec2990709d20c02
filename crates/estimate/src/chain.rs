//! Networks that are given operator by operator, as convolutional ones are: each step makes a value of earlier ones.

use crate::network::{Piece, convolution, linear, norm, table};

/// The steps, in the order in which they run. The last one's value is the model's output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// The steps.
    pub steps: Vec<Step>,
    /// Values that a caller's variable holds, each with the step until which it does.
    pub held: Vec<[usize; 2]>,
}

/// An operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The part of the model.
    pub part: &'static str,
    /// What it makes.
    pub name: &'static str,
    /// Its module.
    pub module: String,
    /// What it does.
    pub op: Op,
    /// The steps whose values it takes.
    pub inputs: Vec<usize>,
    /// Sizes of its value for a sample: channels, height and width, or positions and width.
    pub shape: Vec<u64>,
    /// Its weight, with its bias.
    pub weight: Option<Piece>,
    /// Bytes of its buffers.
    pub buffer_bytes: u64,
    /// Whether its weights are never trained.
    pub is_frozen: bool,
}

/// What an operator does to memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// What the program feeds in.
    Input,
    /// A value that was there before, or the weights of a part that does not run.
    Held,
    /// Rows of a table, the same for every sample.
    Table,
    /// A kernel that keeps its inputs: a product, a norm, a product of values.
    Kernel,
    /// A convolution, which keeps its input.
    Convolve,
    /// An activation function that keeps its input.
    OfInput,
    /// An activation function that keeps its output.
    OfOutput,
    /// The same numbers under another shape.
    View,
    /// A copy, an enlargement or a product with a number: nothing is kept.
    Copy,
    /// A sum.
    Add,
    /// A sum in place of the first value.
    AddInto,
    /// Values side by side.
    Join,
    /// Dropout of this share.
    Dropout(f64),
    /// A maximum over windows, with the place of each.
    Pool,
    /// Attention of queries, keys and values with so many heads.
    Attention(u64),
}

/// More steps than any network has: what leads to more is wrong.
pub(crate) const MOST_STEPS: usize = 100_000;

/// How a convolution goes over an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) outputs: u64,
    pub(crate) kernel: u64,
    pub(crate) stride: u64,
    pub(crate) padding: u64,
    pub(crate) groups: u64,
    pub(crate) bias: bool,
}

impl Window {
    /// A kernel around each pixel.
    pub(crate) fn new(outputs: u64, kernel: u64) -> Window {
        Window { outputs, kernel, stride: 1, padding: kernel / 2, groups: 1, bias: true }
    }
}

/// Writes a chain. A value is the number of its step.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) chain: Chain,
    pub(crate) part: &'static str,
    pub(crate) is_frozen: bool,
}

impl Draft {
    fn push(&mut self, name: &'static str, op: Op, inputs: &[usize], shape: Vec<u64>) -> usize {
        self.chain.steps.push(Step {
            part: self.part,
            name,
            module: String::new(),
            op,
            inputs: inputs.to_vec(),
            shape,
            weight: None,
            buffer_bytes: 0,
            is_frozen: self.is_frozen,
        });
        self.chain.steps.len() - 1
    }

    fn weighted(&mut self, at: usize, module: String, weight: Piece) -> usize {
        self.chain.steps[at].module = module;
        self.chain.steps[at].weight = Some(weight);
        at
    }

    /// A caller's variable holds a value until here, as Python's do while a module runs.
    pub(crate) fn hold(&mut self, x: usize) {
        self.chain.held.push([x, self.chain.steps.len() - 1]);
    }

    /// Sizes of a value.
    pub(crate) fn shape(&self, x: usize) -> &[u64] {
        &self.chain.steps[x].shape
    }

    fn size(&self, x: usize, at: usize) -> u64 {
        self.shape(x).get(at).copied().unwrap_or(1)
    }

    pub(crate) fn input(&mut self, name: &'static str, shape: &[u64]) -> usize {
        self.push(name, Op::Input, &[], shape.to_vec())
    }

    /// A value that was there before.
    pub(crate) fn held(&mut self, name: &'static str, shape: &[u64]) -> usize {
        self.push(name, Op::Held, &[], shape.to_vec())
    }

    /// Weights of a part that does not run.
    pub(crate) fn idle(&mut self, module: impl Into<String>, weight: Piece) -> usize {
        let at = self.held("weights that wait", &[0]);
        self.weighted(at, module.into(), weight)
    }

    /// A convolution whose output has these sizes.
    pub(crate) fn convolved(&mut self, module: impl Into<String>, x: usize, weight: Piece, shape: &[u64]) -> usize {
        let at = self.push("convolution output", Op::Convolve, &[x], shape.to_vec());
        self.weighted(at, module.into(), weight)
    }

    pub(crate) fn table(&mut self, module: impl Into<String>, rows: u64, width: u64) -> usize {
        let at = self.push("rows of a table", Op::Table, &[], vec![rows, width]);
        self.weighted(at, module.into(), table("", &[rows, width]))
    }

    pub(crate) fn convolution(&mut self, module: impl Into<String>, x: usize, window: Window) -> usize {
        let side = |size: u64| {
            let padded = size.saturating_add(window.padding.saturating_mul(2));
            padded.saturating_sub(window.kernel) / window.stride.max(1) + 1
        };
        let (channels, height, width) = (self.size(x, 0), side(self.size(x, 1)), side(self.size(x, 2)));
        let at = self.push("convolution output", Op::Convolve, &[x], vec![window.outputs, height, width]);
        let inputs = channels / window.groups.max(1);
        let kernel = convolution("", &[window.outputs, inputs, window.kernel, window.kernel], window.bias);
        self.weighted(at, module.into(), kernel)
    }

    /// A norm over channels or the width, with weight and bias.
    pub(crate) fn norm(&mut self, module: impl Into<String>, x: usize) -> usize {
        let shape = self.shape(x).to_vec();
        let size = if shape.len() == 3 { shape[0] } else { shape.last().copied().unwrap_or(1) };
        let part = std::mem::replace(&mut self.part, "norm");
        let at = self.push("norm output", Op::Kernel, &[x], shape);
        self.part = part;
        self.weighted(at, module.into(), norm("", size, true))
    }

    /// `BatchNorm2d`, with mean and variance that it keeps in float32, and its count of batches.
    pub(crate) fn batch_norm(&mut self, module: impl Into<String>, x: usize) -> usize {
        let at = self.norm(module, x);
        self.chain.steps[at].buffer_bytes = self.size(x, 0).saturating_mul(8).saturating_add(8);
        at
    }

    /// A product with a number for each column of the width.
    pub(crate) fn scale(&mut self, module: impl Into<String>, x: usize) -> usize {
        let size = self.shape(x).last().copied().unwrap_or(1);
        self.weighed(module, x, size)
    }

    /// A product with this many numbers.
    pub(crate) fn weighed(&mut self, module: impl Into<String>, x: usize, size: u64) -> usize {
        let at = self.same("scaled", Op::Kernel, x);
        self.weighted(at, module.into(), norm("", size, false))
    }

    pub(crate) fn product(&mut self, module: impl Into<String>, x: usize, outputs: u64, bias: bool) -> usize {
        let mut shape = self.shape(x).to_vec();
        let inputs = shape.last().copied().unwrap_or(1);
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let at = self.push("product", Op::Kernel, &[x], shape);
        self.weighted(at, module.into(), linear("", outputs, inputs, bias))
    }

    /// A kernel over values alone, as a gate or a mean is.
    pub(crate) fn kernel(&mut self, name: &'static str, inputs: &[usize], shape: &[u64]) -> usize {
        self.push(name, Op::Kernel, inputs, shape.to_vec())
    }

    /// An operator that leaves the sizes as they are.
    pub(crate) fn same(&mut self, name: &'static str, op: Op, x: usize) -> usize {
        let shape = self.shape(x).to_vec();
        self.push(name, op, &[x], shape)
    }

    pub(crate) fn reshape(&mut self, name: &'static str, op: Op, x: usize, shape: &[u64]) -> usize {
        self.push(name, op, &[x], shape.to_vec())
    }

    /// An image as a row of its pixels: positions and channels.
    pub(crate) fn as_tokens(&mut self, x: usize) -> usize {
        let shape = [self.size(x, 1).saturating_mul(self.size(x, 2)), self.size(x, 0)];
        self.reshape("pixels as positions", Op::View, x, &shape)
    }

    pub(crate) fn sum(&mut self, name: &'static str, op: Op, a: usize, b: usize) -> usize {
        let shape = self.shape(a).to_vec();
        self.push(name, op, &[a, b], shape)
    }

    /// Channels side by side.
    pub(crate) fn join(&mut self, values: &[usize]) -> usize {
        let mut shape = values.first().map(|first| self.shape(*first).to_vec()).unwrap_or_default();
        let channels = values.iter().fold(0_u64, |sum, value| sum.saturating_add(self.size(*value, 0)));
        if let Some(first) = shape.first_mut() {
            *first = channels;
        }
        self.push("values side by side", Op::Join, values, shape)
    }

    /// Attention of values whose sizes are positions and width.
    pub(crate) fn attention(&mut self, [q, k, v]: [usize; 3], heads: u64) -> usize {
        let part = std::mem::replace(&mut self.part, "attention");
        let shape = self.shape(q).to_vec();
        let at = self.push("attention output", Op::Attention(heads), &[q, k, v], shape);
        self.part = part;
        at
    }
}
