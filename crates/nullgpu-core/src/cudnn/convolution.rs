//! The scratch memory of convolutions. cuDNN chooses among many engines by rules of its own; what it takes was measured, and a
//! tree was learned from it for each direction, width of numbers and layout.
//!
//! A leaf says how the size is made: none at all, or copies of some of the three tensors (in the engines' own layout, maybe
//! with channels filled up), and besides them a fixed number of bytes, partial results, or tiles of them.
//!
//! # Source
//! Measured on an H200 with cuDNN 9.19 and torch 2.11.0+cu130: 126,000 layers, each forward and backward; the recipe is in
//! `recipes/convolution`. On the layers of networks that were held out, the tree is right to the byte for 85 to 94 % of the
//! forward passes and gradients of the input (channels last with 32 bits: 67 and 84 %) and for 46 to 72 % of the gradients of
//! the filter, and wrong by no more than a twentieth of the three tensors for 79 % of all.

use std::sync::LazyLock;

use super::graph::{Descriptors, Engine, attribute};

/// `cudnnBackendDescriptorType_t`
const FORWARD: i32 = 10;
const BACKWARD_FILTER: i32 = 11;
const BACKWARD_DATA: i32 = 12;

const DILATIONS: i32 = 102;
const STRIDES: i32 = 103;
const PADDINGS: i32 = 105;

/// Direction of a convolution, numbered as in the trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Forward = 0,
    Data = 1,
    Filter = 2,
}

impl Pass {
    /// The pass that a descriptor stands for, and the attributes that its tensors have: descriptor, filter, input, output.
    fn of(kind: i32) -> Option<(Pass, [i32; 4])> {
        match kind {
            FORWARD => Some((Pass::Forward, [702, 703, 704, 705])),
            BACKWARD_DATA => Some((Pass::Data, [708, 709, 710, 711])),
            BACKWARD_FILTER => Some((Pass::Filter, [714, 715, 716, 717])),
            _ => None,
        }
    }
}

/// A convolution of two dimensions or three.
#[derive(Clone, Debug)]
struct Convolution {
    pass: Pass,
    input: Vec<u64>,
    filter: Vec<u64>,
    output: Vec<u64>,
    strides: Vec<u64>,
    paddings: Vec<u64>,
    dilations: Vec<u64>,
    /// `cudnnDataType_t`
    kind: i32,
    channels_last: bool,
}

/// Whether channels lie last; nothing where it makes no difference.
fn channels_last(dimensions: &[u64], strides: &[u64]) -> Option<bool> {
    let inner: u64 = dimensions.get(2..)?.iter().product();
    (dimensions[1] > 1 && inner > 1).then(|| strides.get(1) == Some(&1))
}

impl Convolution {
    fn read(descriptors: &Descriptors, operation: u64) -> Option<Self> {
        let (pass, [how, filter, input, output]) = Pass::of(descriptors.kind(operation))?;
        let part = |name| descriptors.words(operation, name).next();
        let (how, tensors) = (part(how)?, [part(input)?, part(filter)?, part(output)?]);
        let layouts = tensors.map(|tensor| {
            let dimensions = descriptors.numbers(tensor, attribute::TENSOR_DIMENSIONS);
            (channels_last(&dimensions, &descriptors.numbers(tensor, attribute::TENSOR_STRIDES)), dimensions)
        });
        let told: Vec<bool> = layouts.iter().filter_map(|(last, _)| *last).collect();
        let [input, filter, output] = layouts.map(|(_, dimensions)| dimensions);
        let convolution = Convolution {
            pass,
            input,
            filter,
            output,
            strides: descriptors.numbers(how, STRIDES),
            paddings: descriptors.numbers(how, PADDINGS),
            dilations: descriptors.numbers(how, DILATIONS),
            kind: descriptors.code(tensors[0], attribute::TENSOR_TYPE)?,
            channels_last: !told.is_empty() && told.iter().all(|&last| last),
        };
        convolution.is_sound().then_some(convolution)
    }

    fn is_sound(&self) -> bool {
        let rank = self.input.len();
        let tensors = [&self.input, &self.filter, &self.output];
        let windows = [&self.strides, &self.paddings, &self.dilations];
        rank >= 4
            && tensors.iter().all(|sizes| sizes.len() == rank && sizes.iter().all(|&size| (1..1 << 31).contains(&size)))
            && windows.iter().all(|values| values.len() == rank - 2)
            && self.input[1] >= self.filter[1]
    }

    fn groups(&self) -> u64 {
        self.input[1] / self.filter[1]
    }

    fn element_size(&self) -> u64 {
        u64::try_from(super::layouts::element_size(self.kind)).unwrap_or(4)
    }

    /// Bytes of input, output and filter, their channels filled up to a multiple.
    fn sizes(&self, multiple: u64) -> [u64; 3] {
        let groups = self.groups();
        let up = |channels: u64| groups * (channels / groups).div_ceil(multiple) * multiple;
        let (channels, filters) = (up(self.input[1]), up(self.output[1]));
        let inner = |sizes: &[u64]| sizes[2..].iter().product::<u64>() * self.element_size();
        [
            self.input[0] * channels * inner(&self.input),
            self.output[0] * filters * inner(&self.output),
            filters * (channels / groups) * inner(&self.filter),
        ]
    }

    /// What the trees ask; the order is that of `recipes/convolution/learn.py`.
    fn features(&self) -> [u64; FEATURES] {
        let (x, y, w) = (&self.input, &self.output, &self.filter);
        let last = x.len() - 1;
        let groups = self.groups();
        let (batch, channels, filters) = (x[0], x[1] / groups, y[1] / groups);
        let inner = |sizes: &[u64]| sizes[2..].iter().product::<u64>();
        let (outputs, inputs, window) = (inner(y), inner(x), inner(w));
        let all = batch * outputs;
        // The product of matrices that the pass amounts to.
        let (rows, columns, depth) = match self.pass {
            Pass::Forward => (all, filters, channels * window),
            Pass::Data => (batch * inputs, channels, filters * window),
            Pass::Filter => (filters, channels * window, all),
        };
        let tiles = |high: u64, wide: u64| rows.div_ceil(high) * columns.div_ceil(wide) * groups;
        let [input_bytes, output_bytes, filter_bytes] = self.sizes(1);
        let (first, end) = (0, self.strides.len() - 1);
        [
            batch,
            channels,
            filters,
            groups,
            outputs,
            inputs,
            window,
            w[2],
            w[last],
            x[2],
            x[last],
            self.strides[first],
            self.strides[end],
            self.paddings[first],
            self.paddings[end],
            self.dilations[end],
            (last - 1) as u64,
            channels % 4,
            filters % 4,
            channels % 8,
            filters % 8,
            channels % 32,
            filters % 32,
            channels % 64,
            filters % 64,
            batch % 4,
            batch % 8,
            outputs % 4,
            outputs % 8,
            inputs % 4,
            inputs % 8,
            input_bytes,
            output_bytes,
            filter_bytes,
            rows,
            columns,
            depth,
            tiles(128, 128),
            tiles(64, 64),
            tiles(256, 128),
            tiles(128, 64),
            tiles(128, 256),
            tiles(256, 64),
            channels * window,
            filters * window,
            rows.saturating_mul(columns).saturating_mul(depth).saturating_mul(groups),
            y[2],
            y[last],
            depth / rows.max(1),
            depth / columns.max(1),
            self.element_size(),
            groups * channels,
            groups * filters,
            batch * inputs,
            all,
            channels.min(filters),
            u64::from(channels == 1 && groups > 1),
        ]
    }

    /// The scratch memory, where the tensor cores may be used or not.
    fn workspace_bytes(&self, tensor_cores: bool) -> u64 {
        let key = Key {
            pass: self.pass as u8,
            half: self.element_size() == 2,
            tensor_cores: tensor_cores || self.element_size() == 2,
            // There is one tree for 32 bits without tensor cores.
            channels_last: self.channels_last && (tensor_cores || self.element_size() == 2),
        };
        TREES.iter().find(|tree| tree.key == key).map_or(0, |tree| tree.leaf(&self.features()).bytes(self))
    }
}

const FEATURES: usize = 57;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    pass: u8,
    half: bool,
    tensor_cores: bool,
    channels_last: bool,
}

/// What the trees are written in: for each its key, in four bytes, how many nodes follow, and the nodes.
static BYTES: &[u8] = include_bytes!("convolution.bin");
static TREES: LazyLock<Vec<Tree>> = LazyLock::new(|| trees(BYTES));

#[derive(Debug)]
struct Tree {
    key: Key,
    nodes: &'static [[u8; 8]],
}

fn trees(mut bytes: &'static [u8]) -> Vec<Tree> {
    let mut trees = Vec::new();
    while let Some((&[pass, half, tensor_cores, channels_last, a, b, c, d], rest)) = bytes.split_first_chunk() {
        let (nodes, _) = rest.as_chunks::<8>();
        let count = (u32::from_le_bytes([a, b, c, d]) as usize).min(nodes.len());
        let key = Key { pass, half: half == 1, tensor_cores: tensor_cores == 1, channels_last: channels_last == 1 };
        trees.push(Tree { key, nodes: &nodes[..count] });
        bytes = &rest[count * 8..];
    }
    trees
}

/// What the first byte of a node is if it is a leaf; else the feature that is looked at.
const LEAF: u8 = 255;

impl Tree {
    /// Goes to the next node as long as the feature is no more than the node's number, else as far ahead as it says.
    fn leaf(&self, features: &[u64; FEATURES]) -> Leaf {
        let mut at = 0;
        while let Some(&[feature, _, low, high, a, b, c, d]) = self.nodes.get(at) {
            let wide = u16::from_le_bytes([low, high]);
            if feature == LEAF {
                return Leaf { form: wide, number: u32::from_le_bytes([a, b, c, d]) };
            }
            // Learned with numbers of 32 bits, so compared as such.
            #[expect(clippy::cast_precision_loss, reason = "as it was learned")]
            let value = features.get(usize::from(feature)).map_or(0.0, |&value| value as f32);
            at += if value <= f32::from_le_bytes([a, b, c, d]) { 1 } else { usize::from(wide) };
        }
        Leaf { form: 0, number: 0 }
    }
}

/// How a size is made.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    /// The lowest four bits: what comes besides copies. The next three: copies of input, output and filter. The rest: what
    /// their channels are filled up to.
    form: u16,
    number: u32,
}

impl Leaf {
    fn bytes(self, convolution: &Convolution) -> u64 {
        let sizes = convolution.sizes(u64::from(self.form >> 8).max(1));
        let part = |index: usize| if self.form & (16 << index) == 0 { 0 } else { sizes[index] };
        let copies = part(0) + part(1) + part(2);
        // Partial results have 32 bits.
        let result = match convolution.pass {
            Pass::Forward => sizes[1],
            Pass::Data => sizes[0],
            Pass::Filter => sizes[2],
        } / convolution.element_size()
            * 4;
        let number = u64::from(self.number);
        copies
            + match self.form & 15 {
                1 => number,
                2 => number * result,
                3 => number << 16,
                4 => number << 14,
                5 => convolution.input[0] * result,
                _ => 0,
            }
    }
}

/// Data types of cuDNN.
const FLOAT: i32 = 0;

/// The engines for a graph that is a convolution: with 32 bits one that uses tensor cores, and behind it one that does not,
/// for programs that forbid it. Nothing for another graph.
pub(super) fn engines(descriptors: &Descriptors, operations: &[u64]) -> Option<Vec<Engine>> {
    let convolution = operations.iter().find_map(|&operation| Convolution::read(descriptors, operation))?;
    let engine = |tensor_cores| Engine {
        workspace_bytes: i64::try_from(convolution.workspace_bytes(tensor_cores)).unwrap_or(0),
        tensor_cores,
    };
    let has_cores = crate::settings::get().card.major >= 8;
    Some(if convolution.kind == FLOAT && has_cores { vec![engine(true), engine(false)] } else { vec![engine(false)] })
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::{create, refer, search, set, tensor};
    use super::*;

    fn packed(sizes: &[u64], channels_last: bool) -> Vec<u64> {
        let (channels, height, width) = (sizes[1], sizes[2], sizes[3]);
        if channels_last {
            vec![channels * height * width, 1, channels * width, channels]
        } else {
            vec![channels * height * width, height * width, width, 1]
        }
    }

    /// What is found for a convolution without groups, stride 1 and padding that keeps the size.
    fn ask(kind: i32, pass: i32, [x, w]: [[u64; 4]; 2], last: bool) -> Vec<(i64, bool)> {
        let how = create(1);
        set(how, STRIDES, &[1, 1]);
        set(how, PADDINGS, &[w[2] / 2; 2]);
        set(how, DILATIONS, &[1, 1]);
        let y = [x[0], w[0], x[2], x[3]];
        let operation = create(pass);
        let (_, names) = Pass::of(pass).unwrap();
        let [input, filter, output] = [x, w, y].map(|sizes| tensor(kind, &sizes, &packed(&sizes, last)));
        for (name, part) in names.into_iter().zip([how, filter, input, output]) {
            refer(operation, name, &[part]);
        }
        search(&[operation])
    }

    #[test]
    fn layers_of_networks_want_what_was_measured() {
        // As an H200 had it, with tensor cores: a layer in the middle of a VGG, of a ResNet, and one of its small ones.
        let vgg = [[16, 128, 56, 56], [256, 128, 3, 3]];
        let resnet = [[32, 256, 14, 14], [256, 256, 3, 3]];
        let narrow = [[32, 256, 28, 28], [128, 256, 1, 1]];
        let found = [
            (vgg, FORWARD, MEASURED[0]),
            (resnet, FORWARD, MEASURED[1]),
            (resnet, BACKWARD_DATA, MEASURED[2]),
            (narrow, FORWARD, MEASURED[3]),
            (narrow, BACKWARD_FILTER, MEASURED[4]),
        ];
        for (sizes, pass, bytes) in found {
            assert_eq!(ask(FLOAT, pass, sizes, false)[0], (bytes, true), "{sizes:?} {pass}");
        }
    }

    const MEASURED: [i64; 5] = [78_250_131, 15_204_368, 15_204_368, 400, 4_194_304];

    #[test]
    fn a_program_that_forbids_the_tensor_cores_finds_a_second_engine() {
        let sizes = [[32, 256, 28, 28], [128, 256, 1, 1]];
        let found = ask(FLOAT, FORWARD, sizes, false);
        assert_eq!(found.iter().map(|&(_, cores)| cores).collect::<Vec<_>>(), [true, false]);
        assert_eq!(found[1].0, 0);
        assert_eq!(ask(2, FORWARD, sizes, true).len(), 1, "16 bits need no other");
    }

    #[test]
    fn the_trees_are_whole() {
        assert_eq!(TREES.len(), 15);
        let nodes: usize = TREES.iter().map(|tree| tree.nodes.len()).sum();
        assert_eq!(nodes * 8 + 15 * 8, BYTES.len());
        for tree in TREES.iter() {
            for (at, &[feature, _, low, high, ..]) in tree.nodes.iter().enumerate() {
                let ahead = usize::from(u16::from_le_bytes([low, high]));
                let inside = usize::from(feature) < FEATURES && at + ahead < tree.nodes.len() && ahead > 1;
                assert!(feature == LEAF || inside, "node {at} of {:?}", tree.key);
            }
        }
    }

    #[test]
    fn what_is_no_convolution_or_half_described_is_left_alone() {
        assert_eq!(search(&[create(FORWARD)]), [(0, false)]);
    }
}
