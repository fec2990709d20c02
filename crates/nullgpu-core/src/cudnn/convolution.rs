//! The scratch memory of convolutions. cuDNN chooses among many engines by rules of its own; what it takes was measured, and a
//! tree was learned from it for each direction, width of numbers and layout. Other trees say what the largest of all engines
//! wants, which a program asks for that tries them all.
//!
//! A leaf says how the size is made: none at all, or copies of some of the three tensors (in the engines' own layout, maybe
//! with channels filled up), and besides them a fixed number of bytes, partial results (a number of them, one for each image,
//! or as many as fill the card's processors), or tiles of them; or the Fourier transforms of the planes.
//!
//! # Source
//! Measured with cuDNN 9.19 and torch 2.11.0+cu130: 205,104 layers on an H200, each forward and backward, and 1,519 with
//! `torch.backends.cudnn.benchmark`; then on an H100 56,600 of them again and 38,500 of speech, detection, diffusion, pixels, volumes and
//! gradients for each sample, and 73,000 in groups with different numbers of input and output channels. The recipe is in
//! `recipes/convolution`. On layers that were held out, the trees are right to 512 bytes for 80 to 97 % of the forward passes, 88 to 100 %
//! of the gradients of the input, and 60 to 82 % of those of the filter. Of what the largest engine wants they are right for two thirds to
//! nine tenths with 32 bits, less with 16.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::graph::{Descriptors, Engine, TENSOR_CORES, attribute};
use crate::settings;

/// `cudnnBackendDescriptorType_t`
const FORWARD: i32 = 10;
const BACKWARD_FILTER: i32 = 11;
const BACKWARD_DATA: i32 = 12;

pub(super) const DILATIONS: i32 = 102;
pub(super) const STRIDES: i32 = 103;
pub(super) const PADDINGS: i32 = 105;

/// More elements than a tensor has on any card.
const ELEMENTS_MAX: u64 = 1 << 44;

/// Direction of a convolution, numbered as in the trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
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

/// The descriptors that an operation refers to, if it is a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pass: Pass,
    /// Strides, paddings and dilations.
    pub(super) convolution: u64,
    /// Input, filter and output.
    pub(super) tensors: [u64; 3],
}

impl Operands {
    pub(super) fn of(descriptors: &Descriptors, operation: u64) -> Option<Self> {
        let (pass, [how, filter, input, output]) = Pass::of(descriptors.kind(operation))?;
        let part = |name| descriptors.words(operation, name).next();
        Some(Operands { pass, convolution: part(how)?, tensors: [part(input)?, part(filter)?, part(output)?] })
    }
}

/// A convolution of two dimensions or three.
#[derive(Clone, Debug)]
pub(super) struct Convolution {
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
    pub(super) fn read(descriptors: &Descriptors, operation: u64) -> Option<Self> {
        let Operands { pass, convolution: how, tensors } = Operands::of(descriptors, operation)?;
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
            && tensors
                .iter()
                .all(|sizes| sizes.iter().fold(1, |all: u64, &size| all.saturating_mul(size)) < ELEMENTS_MAX)
            && windows.iter().all(|values| values.len() == rank - 2)
            && self.input[1] >= self.filter[1]
    }

    pub(super) fn groups(&self) -> u64 {
        self.input[1] / self.filter[1]
    }

    pub(super) fn is_bfloat16(&self) -> bool {
        self.kind == BFLOAT16
    }

    pub(super) fn element_size(&self) -> u64 {
        u64::try_from(super::layouts::element_size(self.kind)).unwrap_or(4)
    }

    /// Rows, columns and depth of the product of matrices that each group amounts to.
    fn product(&self) -> [u64; 3] {
        let groups = self.groups();
        let (channels, filters) = (self.input[1] / groups, self.output[1] / groups);
        let inner = |sizes: &[u64]| sizes[2..].iter().product::<u64>();
        let [outputs, inputs] = [&self.output, &self.input].map(|sizes| sizes[0] * inner(sizes));
        let window = inner(&self.filter);
        match self.pass {
            Pass::Forward => [outputs, filters, channels * window],
            Pass::Data => [inputs, channels, filters * window],
            Pass::Filter => [filters, channels * window, outputs],
        }
    }

    /// How many tiles of a height and width cover the rows and the columns of a group's product, if the gradient of a filter has tiles of
    /// its own for each place of its window; and the depth.
    pub(super) fn tiling(&self, (high, wide): (u64, u64)) -> ([u64; 2], u64) {
        let [rows, columns, depth] = self.product();
        let windows = if self.pass == Pass::Filter { self.filter[2..].iter().product() } else { 1 };
        ([rows.div_ceil(high), (columns / windows).div_ceil(wide) * windows], depth)
    }

    /// How many tiles of a height and width cover the products.
    fn tiles(&self, (high, wide): (u64, u64)) -> u64 {
        let [rows, columns, _] = self.product();
        rows.div_ceil(high) * columns.div_ceil(wide) * self.groups()
    }

    /// Bytes of input, output and filter, their channels filled up to a multiple; of a group that counts as square, to that of the more
    /// of them.
    pub(super) fn sizes(&self, fill: u64) -> [u64; 3] {
        let groups = self.groups();
        let multiple = (fill & !SQUARE).max(1);
        let up = |channels: u64| groups * (channels / groups).div_ceil(multiple) * multiple;
        let most = if fill & SQUARE == 0 { 0 } else { self.input[1].max(self.output[1]) };
        let (channels, filters) = (up(self.input[1].max(most)), up(self.output[1].max(most)));
        let inner = |sizes: &[u64]| sizes[2..].iter().product::<u64>() * self.element_size();
        [
            self.input[0] * channels * inner(&self.input),
            self.output[0] * filters * inner(&self.output),
            filters * (channels / groups) * inner(&self.filter),
        ]
    }

    /// Bytes of the Fourier transforms of the planes, complex numbers of 32 bits, as the engines that go by them keep them; 0
    /// for layers where none was seen.
    fn spectra_bytes(&self) -> u64 {
        let (x, y, w) = (&self.input, &self.output, &self.filter);
        let phases = self.strides.iter().product();
        let fits = match phases {
            1 => true,
            4 => self.pass == Pass::Data,
            _ => false,
        };
        if !fits || self.element_size() != 4 || x.len() != 4 || self.dilations.iter().any(|&step| step != 1) {
            return 0;
        }
        let spectrum = |height: u64, width: u64| height * (width / 2 + 1) * 8;
        let (inputs, outputs, filters) = (x[0] * x[1], x[0] * y[1], w[0] * w[1]);
        let sizes = self.sizes(1);
        if self.pass == Pass::Data {
            // Tiles of 32 by 32, one or two at a time; with a stride for each of its phases.
            let side = |at: usize| x[at + 2].div_ceil(self.strides[at]);
            let tiles = if side(0).max(side(1)) <= 30 { 1 } else { 2 };
            let all = spectrum(32, 32) * (phases * filters + tiles * (phases * inputs + outputs));
            // Strided groups go by eight.
            let groups = self.groups();
            return if phases > 1 { all * groups.min(8) / groups + sizes.iter().sum::<u64>() } else { all };
        }
        let side = |at: usize| (x[at + 2] + 2 * self.paddings[at]).next_power_of_two().max(16);
        let (height, width) = (side(0), side(1));
        if height.max(width) > 256 {
            return 0;
        }
        // The products stand where the transforms of one factor stood.
        let [most, copy] = match self.pass {
            Pass::Forward => [outputs.max(filters + inputs), sizes[2]],
            _ => [filters.max(inputs + outputs), sizes[1]],
        };
        2 * spectrum(height, width) * most + copy
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
        let [rows, columns, depth] = self.product();
        let tiles = |size| self.tiles(size);
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
            tiles((128, 128)),
            tiles((64, 64)),
            tiles((256, 128)),
            tiles((128, 64)),
            tiles((128, 256)),
            tiles((256, 64)),
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
            u64::from(w[2..] == self.strides && self.paddings.iter().all(|&padding| padding == 0)),
        ]
    }

    /// Whether there are several groups of several channels, with different numbers of input and output channels: gradients for each
    /// sample are such layers.
    fn has_odd_groups(&self) -> bool {
        self.filter[1] > 1 && self.groups() > 1 && self.input[1] != self.output[1]
    }

    /// The scratch memory of the engine that is best, where the tensor cores may be used or not.
    fn workspace_bytes(&self, tensor_cores: bool) -> u64 {
        let cores = tensor_cores || self.element_size() == 2;
        // There is one tree for 32 bits without tensor cores.
        let channels_last = self.channels_last && cores;
        let grouped = self.has_odd_groups().then(|| self.asked(Question::Grouped, cores, channels_last)).flatten();
        grouped.or_else(|| self.asked(Question::Best, cores, channels_last)).unwrap_or(0)
    }

    /// The most scratch memory that any engine wants: what a benchmark of all of them asks for. Nothing where too little was
    /// measured: for 32 bits with channels last.
    fn largest_workspace_bytes(&self) -> Option<u64> {
        self.asked(Question::Largest, true, self.channels_last)
    }

    fn asked(&self, question: Question, tensor_cores: bool, channels_last: bool) -> Option<u64> {
        let half = self.element_size() == 2;
        let key = Key { question: question as u8, pass: self.pass as u8, half, tensor_cores, channels_last };
        let tree = TREES.iter().find(|tree| tree.key == key)?;
        Some(tree.leaf(&self.features()).bytes(self))
    }
}

/// What a tree answers, numbered as in the file.
#[derive(Clone, Copy, Debug)]
enum Question {
    /// The scratch memory of the engine that cuDNN puts first.
    Best = 0,
    /// The most that one of all its engines wants.
    Largest = 1,
    /// As [`Question::Best`], for [odd groups](Convolution::has_odd_groups).
    Grouped = 2,
}

const FEATURES: usize = 58;
/// The bit of a fill that makes groups square: as many inputs as outputs.
const SQUARE: u64 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    question: u8,
    pass: u8,
    half: bool,
    tensor_cores: bool,
    channels_last: bool,
}

/// What the trees are written in: for each its key, in four bytes (the question is in the high half of the first), how many
/// nodes follow, and the nodes.
static BYTES: &[u8] = include_bytes!("convolution.bin");
static TREES: LazyLock<Vec<Tree>> = LazyLock::new(|| trees(BYTES));

#[derive(Debug)]
struct Tree {
    key: Key,
    nodes: &'static [[u8; 8]],
}

fn trees(mut bytes: &'static [u8]) -> Vec<Tree> {
    let mut trees = Vec::new();
    while let Some((&[first, half, tensor_cores, channels_last, a, b, c, d], rest)) = bytes.split_first_chunk() {
        let (nodes, _) = rest.as_chunks::<8>();
        let count = (u32::from_le_bytes([a, b, c, d]) as usize).min(nodes.len());
        let (question, pass) = (first >> 4, first & 15);
        let [half, tensor_cores, channels_last] = [half, tensor_cores, channels_last].map(|flag| flag == 1);
        let key = Key { question, pass, half, tensor_cores, channels_last };
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
    /// Plain bytes, or a count, and in the upper half a few bytes more.
    number: u32,
}

/// Heights and widths of tiles by which a product is split, in the order in which leaves count them.
const TILES: [(u64, u64); 8] =
    [(64, 64), (128, 64), (64, 128), (128, 128), (256, 64), (64, 256), (256, 128), (128, 256)];

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
        let (count, rest) = (u64::from(self.number & 0xffff), u64::from(self.number >> 16));
        match self.form & 15 {
            1 => copies + u64::from(self.number),
            2 => copies + rest + count * result,
            3 => copies + rest + (count << 16),
            4 => copies + rest + (count << 14),
            5 => convolution.input[0].saturating_mul(result).saturating_add(copies + rest),
            6 => copies + rest + splits(convolution, count) * result,
            7 => convolution.spectra_bytes(),
            _ => copies,
        }
    }
}

/// How often a product is split along its depth so that its tiles fill the card once, or twice.
fn splits(convolution: &Convolution, code: u64) -> u64 {
    let [tile, waves] = [code % 8, code / 8 + 1];
    let processors = u64::try_from(settings::get().card.multiprocessors).unwrap_or(1);
    let tile = usize::try_from(tile).ok().and_then(|index| TILES.get(index)).copied().unwrap_or((128, 128));
    (waves * processors / convolution.tiles(tile).max(1)).max(1)
}

/// Data types of cuDNN.
const FLOAT: i32 = 0;
const BFLOAT16: i32 = 9;

/// Whether a program's convolution got engines from here.
static ESTIMATED: AtomicBool = AtomicBool::new(false);

/// Whether the workspaces of convolutions are estimated: 1 if the installed cuDNN did not tell them.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its name")]
pub extern "C" fn highwater_nullgpu_convolutions_estimated() -> i32 {
    i32::from(ESTIMATED.load(Ordering::Relaxed))
}

/// The engines for a graph that is a convolution, first the one that is taken: with 32 bits one that uses tensor cores, and
/// behind it one that does not, for programs that forbid it. Nothing for another graph.
///
/// The last is the one that wants the most. Only a program that benchmarks all of them sees it: PyTorch asks for as much as the
/// largest wants, once for each layer, and takes the fastest. All are equally fast here, so that is the first.
pub(super) fn engines(descriptors: &Descriptors, operations: &[u64]) -> Option<Vec<Engine>> {
    let convolution = operations.iter().find_map(|&operation| Convolution::read(descriptors, operation))?;
    ESTIMATED.store(true, Ordering::Relaxed);
    let engine = |bytes, tensor_cores| Engine {
        workspace_bytes: i64::try_from(bytes).unwrap_or(0),
        notes: if tensor_cores { TENSOR_CORES } else { 0 },
    };
    let has_cores = settings::get().card.major >= 8;
    let mut engines = vec![engine(convolution.workspace_bytes(false), false)];
    if convolution.kind == FLOAT && has_cores {
        engines.insert(0, engine(convolution.workspace_bytes(true), true));
    }
    if let Some(bytes) = convolution.largest_workspace_bytes() {
        engines.push(engine(bytes, false));
    }
    Some(engines)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::graph::tests::{create, refer, search, set, tensor};
    use super::*;

    /// A convolution of the pass of this number, and of these shapes of input, filter and output.
    pub(crate) fn convolution(
        pass: u8,
        kind: i32,
        shapes: [Vec<u64>; 3],
        strides: Vec<u64>,
        channels_last: bool,
    ) -> Convolution {
        let pass = [Pass::Forward, Pass::Data, Pass::Filter][usize::from(pass)];
        let [input, filter, output] = shapes;
        let ones = vec![1; strides.len()];
        Convolution {
            pass,
            input,
            filter,
            output,
            paddings: ones.clone(),
            dilations: ones,
            strides,
            kind,
            channels_last,
        }
    }

    /// The shape of the output of a convolution of two dimensions.
    pub(crate) fn output(x: &[u64; 4], w: &[u64; 4], stride: u64, padding: u64) -> Vec<u64> {
        let [height, width] = [2, 3].map(|side| (x[side] + 2 * padding - w[side]) / stride + 1);
        vec![x[0], w[0], height, width]
    }

    fn packed(sizes: &[u64], channels_last: bool) -> Vec<u64> {
        let (channels, height, width) = (sizes[1], sizes[2], sizes[3]);
        if channels_last {
            vec![channels * height * width, 1, channels * width, channels]
        } else {
            vec![channels * height * width, height * width, width, 1]
        }
    }

    /// What is found for a convolution without groups, stride 1 and padding that keeps the size.
    fn ask(kind: i32, pass: i32, sizes: [[u64; 4]; 2], last: bool) -> Vec<(i64, bool)> {
        ask_strided(kind, pass, sizes, last, [1, sizes[1][2] / 2])
    }

    fn ask_strided(
        kind: i32,
        pass: i32,
        [x, w]: [[u64; 4]; 2],
        last: bool,
        [stride, padding]: [u64; 2],
    ) -> Vec<(i64, bool)> {
        let how = create(1);
        set(how, STRIDES, &[stride; 2]);
        set(how, PADDINGS, &[padding; 2]);
        set(how, DILATIONS, &[1, 1]);
        let y = output(&x, &w, stride, padding);
        let operation = create(pass);
        let (_, names) = Pass::of(pass).unwrap();
        let [input, filter, output] = [&x[..], &w[..], &y[..]].map(|sizes| tensor(kind, sizes, &packed(sizes, last)));
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
    fn images_cut_into_patches_want_what_was_measured() {
        for (kind, pass, sizes, bytes) in PATCHES {
            let side = sizes[1][2];
            let found = ask_strided(kind, pass, sizes, false, [side, 0])[0].0;
            // Engines differ by a few bytes, which no block does.
            assert!(found.abs_diff(bytes) <= 512, "{found} for {bytes}: {kind} {pass} {sizes:?}");
        }
    }

    /// As an H200 had it: type, pass, shapes of image and filter, bytes.
    const PATCHES: [(i32, i32, [[u64; 4]; 2], i64); 5] = [
        (FLOAT, FORWARD, [[8, 3, 224, 224], [1024, 3, 16, 16]], 14_385_168),
        (FLOAT, BACKWARD_FILTER, [[8, 3, 224, 224], [1024, 3, 16, 16]], 17_039_504),
        (FLOAT, BACKWARD_FILTER, [[8, 3, 224, 224], [768, 3, 16, 16]], 14_385_296),
        (FLOAT, FORWARD, [[16, 3, 518, 518], [1024, 3, 14, 14]], 143_645_456),
        (BFLOAT16, FORWARD, [[64, 3, 384, 384], [768, 3, 16, 16]], 210_763_792),
    ];

    #[test]
    fn groups_that_are_not_square_count_as_square_ones() {
        // Gradients of 16 and of 64 samples at once, as an H100 had them: what the engines copy has as many inputs as outputs.
        let narrow = [[1, 48, 32, 32], [512, 3, 3, 3]];
        let wide = [[1, 2048, 16, 16], [4096, 32, 3, 3]];
        for (sizes, bytes) in [(narrow, 4_784_144), (wide, 17_825_939)] {
            assert!((ask(FLOAT, BACKWARD_FILTER, sizes, false)[0].0 - bytes).abs() <= 512, "{sizes:?}");
        }
    }

    #[test]
    fn a_benchmark_of_all_engines_asks_for_fourier_transforms() {
        // As an H200 had it, of a layer in the middle of a ResNet, which wants 15,204,368 otherwise.
        let sizes = [[32, 256, 14, 14], [256, 256, 3, 3]];
        for (pass, bytes) in [(FORWARD, 172_228_608), (BACKWARD_DATA, 356_515_840), (BACKWARD_FILTER, 157_417_472)] {
            let found = ask(FLOAT, pass, sizes, false);
            assert_eq!(found.iter().map(|&(bytes, _)| bytes).max(), Some(bytes), "{pass}");
            assert_ne!(found[0].0, bytes, "it is not what is taken");
        }
    }

    #[test]
    fn transforms_of_strided_gradients_are_within_a_hundredth() {
        // Of layers that halve the image in ResNet-50, measured on an H200.
        for (side, channels, measured) in
            [(56, 128, 440_549_392), (28, 256, 1_356_365_840), (14, 512, 4_953_735_184_u64)]
        {
            let sizes = [[32, channels, side, side], [channels, channels, 3, 3]];
            let found = ask_strided(FLOAT, BACKWARD_DATA, sizes, false, [2, 1]);
            let most = u64::try_from(found.iter().map(|&(bytes, _)| bytes).max().unwrap()).unwrap();
            assert!(most.abs_diff(measured) * 100 < measured, "{side}: {most} for {measured}");
        }
    }

    #[test]
    fn a_program_that_forbids_the_tensor_cores_finds_a_second_engine() {
        let sizes = [[32, 256, 28, 28], [128, 256, 1, 1]];
        let found = ask(FLOAT, FORWARD, sizes, false);
        assert_eq!(found.iter().map(|&(_, cores)| cores).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(found[1].0, 0);
        assert_eq!(ask(2, FORWARD, sizes, true).len(), 2, "16 bits need no other but the largest");
    }

    #[test]
    fn the_trees_are_whole() {
        let nodes: usize = TREES.iter().map(|tree| tree.nodes.len()).sum();
        assert_eq!(nodes * 8 + TREES.len() * 8, BYTES.len());
        let about = |question| TREES.iter().filter(|tree| tree.key.question == question as u8).count();
        assert_eq!([Question::Best, Question::Largest, Question::Grouped].map(about), [15, 9, 9]);
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
