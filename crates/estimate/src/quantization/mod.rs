//! Weights of a quantised checkpoint: the layers that are quantised, and the bytes of each.
//!
//! The same few numbers describe every method: the bits of a value, and the data beside the values (scales, zero points, indices), each
//! with the number of values that share it.

mod pattern;

pub(crate) use pattern::Pattern;

/// How the weights of a checkpoint are quantised: its `quantization_config`.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// The method as the configuration calls it: `gptq`, `fp8`, `mxfp4`, …
    pub method: String,
    /// A name for people: "GPTQ, 4 bits in groups of 128".
    pub label: String,
    /// The type of keys and values where the configuration says that they are quantised, too: `fp8`.
    pub kv_cache: Option<String>,
    pub(crate) groups: Vec<Group>,
    pub(crate) skipped: Vec<Pattern>,
    pub(crate) scope: Scope,
    /// The way transformers multiplies with these weights.
    pub(crate) at_product: AtProduct,
}

/// Layers that are stored in one format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    /// The modules; empty for all.
    pub(crate) targets: Vec<Pattern>,
    /// `None` where they are not quantised.
    pub(crate) format: Option<Format>,
}

/// The kinds of weights that a method quantises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether something is quantised")]
pub(crate) struct Scope {
    pub(crate) linear: bool,
    pub(crate) experts: bool,
    pub(crate) head: bool,
    /// Encoders of images and sound beside the language model.
    pub(crate) towers: bool,
}

/// The way a matrix product uses a quantised weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtProduct {
    /// The kernel reads it as it is stored.
    Fused,
    /// It is dequantised for the duration of the product.
    MadeWhole,
}

/// How a matrix is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of a value.
    pub(crate) bits: u64,
    /// Bits of the words that values of one input row are packed into.
    pub(crate) word: u64,
    /// Data beside the values.
    pub(crate) beside: Vec<Beside>,
}

/// Data beside the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) what: Kept,
    pub(crate) per: Per,
    pub(crate) bits: u64,
}

/// A kind of data beside the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Scale,
    ZeroPoint,
    Index,
}

/// The number of values that share an element of such data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Per {
    /// The matrix.
    Matrix,
    /// An output.
    Output,
    /// An input.
    Input,
    /// This many inputs of an output.
    Inputs(u64),
    /// This many outputs by this many inputs.
    Block(u64, u64),
    /// This many consecutive values, whatever the shape.
    Values(u64),
}

impl Per {
    fn count(self, output: u64, input: u64) -> u64 {
        match self {
            Per::Matrix => 1,
            Per::Output => output,
            Per::Input => input,
            Per::Inputs(size) => output.saturating_mul(input.div_ceil(size.max(1))),
            Per::Block(rows, columns) => output.div_ceil(rows.max(1)).saturating_mul(input.div_ceil(columns.max(1))),
            Per::Values(size) => output.saturating_mul(input).div_ceil(size.max(1)),
        }
    }
}

/// The role of a weight, by which a method decides whether to quantise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightKind {
    /// The matrix of a linear layer.
    Linear,
    /// The matrices of experts, one after another.
    Experts,
    /// The router of experts.
    Router,
    /// A table of embeddings.
    Embedding,
    /// The head, or a classifier.
    Head,
    /// A norm's weight.
    Norm,
    /// A convolution's kernel.
    Convolution,
    /// Biases, gates, state matrices and everything else that is not the matrix of a product.
    Other,
}

/// A weight of a model, as it is loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// The module by transformers' name, `model.layers.0.self_attn.q_proj`; a bias ends with `.bias`.
    pub module: String,
    /// Its kind.
    pub kind: WeightKind,
    /// Its shape before quantisation: outputs and inputs of a product; for experts, their count first.
    pub shape: Vec<u64>,
    /// As it is loaded.
    pub stored: Stored,
    /// Whether it shares the memory of another weight: a tied head.
    pub is_tied: bool,
}

impl Weight {
    /// The number of elements.
    pub fn parameters(&self) -> u64 {
        self.shape.iter().fold(1, |product: u64, size| product.saturating_mul(*size))
    }
}

/// The bytes of a weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Bits of one value.
    pub value_bits: u64,
    /// The values.
    pub values: u64,
    /// Their scales.
    pub scales: u64,
    /// Their zero points.
    pub zero_points: u64,
    /// Orders of inputs, and shapes.
    pub indices: u64,
    /// Whether it is quantised.
    pub is_quantized: bool,
}

impl Stored {
    /// All together.
    pub fn bytes(&self) -> u64 {
        self.values.saturating_add(self.scales).saturating_add(self.zero_points).saturating_add(self.indices)
    }

    /// Numbers that are as they are, of so many bytes each.
    pub fn plain(numbers: u64, element_bytes: u64) -> Stored {
        let values = numbers.saturating_mul(element_bytes);
        Stored { value_bits: element_bytes.saturating_mul(8), values, ..Stored::default() }
    }
}

impl Format {
    /// The bytes of so many matrices of so many outputs and inputs.
    pub(crate) fn stored(&self, count: u64, output: u64, input: u64) -> Stored {
        let bytes = |bits: u64| bits.div_ceil(8);
        let word = self.word.max(8);
        let row = input.saturating_mul(self.bits).div_ceil(word).saturating_mul(word);
        let mut stored = Stored {
            value_bits: self.bits,
            values: bytes(row.saturating_mul(output)).saturating_mul(count),
            is_quantized: true,
            ..Stored::default()
        };
        for beside in &self.beside {
            let bits = beside.per.count(output, input).saturating_mul(beside.bits);
            let place = match beside.what {
                Kept::Scale => &mut stored.scales,
                Kept::ZeroPoint => &mut stored.zero_points,
                Kept::Index => &mut stored.indices,
            };
            *place = place.saturating_add(bytes(bits).saturating_mul(count));
        }
        stored
    }
}

impl Quantization {
    /// The bytes of a weight as it is loaded: quantised, or as it is with so many bytes a number.
    pub fn stored(&self, module: &str, kind: WeightKind, shape: &[u64], element_bytes: u64) -> Stored {
        let numbers = shape.iter().fold(1, |product: u64, size| product.saturating_mul(*size));
        match (self.format_of(module, kind), shape) {
            (Some(format), &[output, input]) => format.stored(1, output, input),
            (Some(format), &[count, output, input]) => format.stored(count, output, input),
            _ => Stored::plain(numbers, element_bytes),
        }
    }

    /// Whether a module is left as it is.
    fn is_skipped(&self, module: &str) -> bool {
        self.skipped.iter().any(|pattern| pattern.matches(module))
    }

    fn format_of(&self, module: &str, kind: WeightKind) -> Option<&Format> {
        let is_tower = ["visual", "vision", "audio", "image", "sam_model"]
            .iter()
            .any(|word| module.split('.').any(|part| part.starts_with(word)));
        let is_taken = match kind {
            WeightKind::Linear => self.scope.linear && (self.scope.towers || !is_tower),
            WeightKind::Experts => self.scope.experts,
            WeightKind::Head => self.scope.head,
            _ => false,
        };
        let names = || module_names(module, kind).into_iter();
        if !is_taken || names().any(|name| self.is_skipped(&name)) {
            return None;
        }
        let meant = |group: &&Group| {
            group.targets.is_empty() || names().any(|name| group.targets.iter().any(|target| target.matches(&name)))
        };
        self.groups.iter().find(meant)?.format.as_ref()
    }
}

/// Names that lists have for a module: transformers' own; with the prefixes of models that also see, and without; with Nemotron-H's
/// words for the model and its layers' parts. Experts, which are one tensor here, have the names of the first.
fn module_names(module: &str, kind: WeightKind) -> Vec<String> {
    let mut names = vec![module.to_owned()];
    let own = module.strip_prefix("model.language_model.").or_else(|| module.strip_prefix("model."));
    if let Some(layer) = own.filter(|own| own.starts_with("layers.")) {
        let part = layer.replacen(".self_attn.", ".mixer.", 1).replacen(".mlp.", ".mixer.", 1);
        names.extend(
            ["model.", "model.language_model.", "language_model.model."].map(|prefix| format!("{prefix}{layer}")),
        );
        names.push(format!("backbone.{part}"));
    }
    if kind == WeightKind::Experts {
        let of_first = |name: &String| {
            let (base, last) = name.rsplit_once('.')?;
            Some(format!("{base}.0.{}", if last == "gate_up_proj" { "gate_proj" } else { last }))
        };
        let firsts: Vec<String> = names.iter().filter_map(of_first).collect();
        names.extend(firsts);
    }
    names
}
