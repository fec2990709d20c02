//! The options of an estimate, each declared once: the request, the command line with its help, the JSON of the
//! calculator and of Python, the calculator's form, the checks between options and the list in `docs/estimate.md`
//! follow from this table.
//!
//! A new option is a row of [`OPTIONS`], and what [`Request::setup`] makes of it.

use highwater_driver::{CARDS, Card};
use highwater_units::count;
use serde::Serialize;
use serde_json::Value;

use crate::choices::{Choice, NEW_TOKENS, ZeroStage};
use crate::dtype::DType;
use crate::request::RequestError;
use crate::setup::{
    Attention, CacheKind, Keep, LoraTargets, Loss, Mode, Offload, Optimizer, Quantisation, TorchRelease,
};

/// The card that is meant if nobody names one: the one whose measurements stand behind the estimates.
pub const DEFAULT_CARD: &str = "h200";

/// No count is larger.
pub(crate) const MOST: u64 = 1 << 32;

/// One option.
#[derive(Debug)]
pub struct Opt {
    /// How it is called on the command line, without its dashes; in Python with `_` for `-`.
    pub name: &'static str,
    /// What it says, as the help prints it.
    pub help: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// How the help calls its value; empty for a flag.
    pub value_name: &'static str,
    /// The option without which it means nothing.
    pub needs: Option<&'static str>,
    /// The option that it cannot stand beside.
    pub excludes: Option<&'static str>,
    /// Where the calculator asks for it, and how.
    pub field: Field,
    get: fn(&Request) -> String,
    set: fn(&mut Request, &Opt, &Value) -> Result<(), RequestError>,
}

/// What an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Nothing: it is there, or not.
    Flag,
    /// A whole number from 1 to 2^32.
    Count,
    /// A number from 0 to 1.
    Share,
    /// One of these words. Each has its meaning beside it, unless the word is clear by itself. Some options also take other
    /// spellings.
    Words(fn() -> Vec<(&'static str, &'static str)>),
}

impl Kind {
    /// The words that can be chosen; none where other things can.
    pub fn words(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Kind::Words(words) => words(),
            Kind::Flag | Kind::Count | Kind::Share => Vec::new(),
        }
    }
}

/// The groups of the calculator's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Group {
    /// Above all groups.
    #[serde(rename = "")]
    Top,
    /// How much is run.
    Size,
    /// In which types.
    Numbers,
    /// How.
    Run,
    /// With which adapters.
    #[serde(rename = "LoRA")]
    Lora,
    /// On what.
    #[serde(rename = "GPUs")]
    Gpus,
}

/// How the calculator asks for an option.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Field {
    group: Group,
    label: &'static str,
    /// What stands for not choosing.
    #[serde(skip_serializing_if = "str::is_empty")]
    none: &'static str,
    /// The ends of a slider.
    #[serde(skip_serializing_if = "Option::is_none")]
    slider: Option<(u64, u64)>,
    /// The only mode in which it means something.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
}

const fn field(group: Group, label: &'static str) -> Field {
    Field { group, label, none: "", slider: None, mode: None }
}

impl Field {
    const fn or(self, none: &'static str) -> Field {
        Field { none, ..self }
    }

    const fn slider(self, least: u64, most: u64) -> Field {
        Field { slider: Some((least, most)), ..self }
    }

    const fn only(self, mode: &'static str) -> Field {
        Field { mode: Some(mode), ..self }
    }
}

macro_rules! options {
    ($(
        #[doc = $help:literal]
        $name:literal $id:ident: $type:ty = $default:expr, $field:expr $(, needs $needs:literal)? $(, excludes $other:literal)?;
    )*) => {
        /// How a model is run, before anything is known of the model. Each field is the option of that name.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Request {
            $(#[doc = $help] pub $id: $type,)*
        }

        impl Default for Request {
            fn default() -> Request {
                Request { $($id: $default,)* }
            }
        }

        /// All options, in the order of the help.
        pub static OPTIONS: &[Opt] = &[$(Opt {
            name: $name,
            help: $help.trim_ascii_start(),
            kind: <$type as Word>::KIND,
            value_name: <$type as Word>::VALUE,
            needs: first(&[$($needs)?]),
            excludes: first(&[$($other)?]),
            field: $field,
            get: |request| request.$id.word(),
            set: |request, option, value| {
                request.$id = Word::read(option, value)?;
                Ok(())
            },
        },)*];
    };
}

const fn first(texts: &[&'static str]) -> Option<&'static str> {
    if texts.is_empty() { None } else { Some(texts[0]) }
}

options! {
    /// Sequences, or images, in a micro-batch
    "batch" batch: u64 = 1, field(Group::Size, "batch").slider(1, 4096);
    /// Tokens per sequence, or in the prompt with `--mode generate` [default: 512, or the model's limit]
    "seq" seq: Option<u64> = None, field(Group::Size, "sequence").slider(16, 131_072);
    /// Type of the weights [default: the configuration's; float32 where it has none, and with `--autocast`]
    "dtype" dtype: Option<DType> = None, field(Group::Numbers, "weights").or("as configured");
    /// Run the forward pass in `torch.autocast` with this type
    "autocast" autocast: Option<DType> = None, field(Group::Numbers, "autocast").or("off");
    /// The optimizer
    "optimizer" optimizer: Optimizer = Optimizer::first(), field(Group::Run, "optimizer").only("train");
    /// The implementation of attention
    "attention" attention: Attention = Attention::first(), field(Group::Run, "attention");
    /// Gradient checkpointing
    "checkpointing" checkpointing: bool = false, field(Group::Run, "gradient checkpointing").only("train");
    /// The source of the loss
    "loss" loss: Loss = Loss::first(), field(Group::Run, "loss").only("train");
    /// Values that the script keeps until the end of the next forward pass: the model's outputs, or only the loss
    "keep" keep: Keep = Keep::first(), field(Group::Run, "script holds").only("train");
    /// The script
    "mode" mode: Mode = Mode::first(), field(Group::Top, "The script");
    /// Tokens to generate
    "new-tokens" new_tokens: u64 = NEW_TOKENS, field(Group::Size, "new tokens").slider(1, 131_072).only("generate");
    /// The KV cache of `generate`, or its bits
    "cache" cache: CacheKind = CacheKind::first(), field(Group::Run, "KV cache").only("generate");
    /// Height of the image or video that a pipeline of diffusers generates [default: 1024; 480 for a video]
    "height" height: Option<u64> = None, field(Group::Size, "height of the image").slider(256, 2048).only("generate");
    /// Width of the image or video [default: 1024; 832 for a video]
    "width" width: Option<u64> = None, field(Group::Size, "width of the image").slider(256, 2048).only("generate");
    /// Frames of the video [default: 81]
    "frames" frames: Option<u64> = None, field(Group::Size, "frames of the video").slider(1, 161).only("generate");
    /// Weights of a pipeline of diffusers that wait in the host's memory
    "offload" offload: Offload = Offload::first(), field(Group::Run, "offloading").only("generate");
    /// Micro-batches of a step
    "accumulation" accumulation: u64 = 1, field(Group::Run, "micro-batches").only("train");
    /// Train adapters of this rank (`LoRA`), the model itself frozen
    "lora-rank" lora_rank: Option<u64> = None, field(Group::Lora, "rank").or("none").only("train");
    /// Layers that get adapters
    "lora-targets" lora_targets: LoraTargets = LoraTargets::first(), field(Group::Lora, "adapters on").only("train"),
        needs "lora-rank";
    /// Dropout before the adapters
    "lora-dropout" lora_dropout: f64 = 0.0, field(Group::Lora, "dropout").only("train"), needs "lora-rank";
    /// Store the frozen weights in 4 bits (`QLoRA`)
    "quantise" quantise: Option<Quantisation> = None, field(Group::Lora, "frozen weights").or("as they are").only("train"),
        needs "lora-rank";
    /// The GPU: it decides kernels and workspaces
    "gpu" gpu: &'static Card = Card::named(DEFAULT_CARD).unwrap_or(&CARDS[0]), field(Group::Gpus, "GPU");
    /// Follow the rules of this PyTorch release
    "torch" torch: TorchRelease = TorchRelease::first(), field(Group::Gpus, "torch");
    /// Stage of `ZeRO` over the ranks of `--world-size`
    "zero" zero: ZeroStage = ZeroStage::first(), field(Group::Gpus, "sharding"), excludes "fsdp";
    /// FSDP 2 over the ranks of `--world-size`
    "fsdp" fsdp: bool = false, field(Group::Gpus, "FSDP 2");
    /// Data-parallel ranks
    "world-size" world_size: u64 = 1, field(Group::Gpus, "data-parallel ranks");
    /// Tensor-parallel ranks
    "tensor-parallel" tensor_parallel: u64 = 1, field(Group::Gpus, "tensor-parallel");
    /// Pipeline stages
    "pipeline-parallel" pipeline_parallel: u64 = 1, field(Group::Gpus, "pipeline stages");
}

impl Opt {
    /// The option of a name.
    pub fn named(name: &str) -> Option<&'static Opt> {
        OPTIONS.iter().find(|option| option.name == name)
    }

    /// What a request says of it, as on the command line: empty for nothing, `true` or `false` for a flag.
    pub fn word(&self, request: &Request) -> String {
        (self.get)(request)
    }

    /// What it is if nobody says.
    pub fn usual(&self) -> String {
        self.word(&Request::default())
    }

    /// Sets it in a request: a number, a flag or a word, as such or as text, as somebody typed it.
    ///
    /// # Errors
    /// If it does not take this.
    pub fn set(&self, request: &mut Request, value: &Value) -> Result<(), RequestError> {
        (self.set)(request, self, value)
    }

    fn out_of_range(&self, value: &Value, least: u64, most: u64) -> RequestError {
        RequestError::OutOfRange { name: self.name, value: shown(value), least, most: count(most) }
    }

    fn unknown(&self, value: &Value) -> RequestError {
        let known: Vec<&str> = match self.kind {
            Kind::Flag => vec!["true", "false"],
            kind => kind.words().into_iter().map(|(word, _)| word).collect(),
        };
        RequestError::Unknown { name: self.name, value: shown(value), known: known.join(", ") }
    }
}

/// An option for those who are not written in Rust.
#[derive(Debug, Serialize)]
pub struct OptView {
    name: &'static str,
    help: &'static str,
    /// `flag`, `count`, `share` or `word`.
    kind: &'static str,
    /// Its word if nobody says one; empty for none.
    usual: String,
    /// What can be chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    choices: Vec<ChoiceView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    excludes: Option<&'static str>,
    field: Field,
}

#[derive(Debug, Serialize)]
struct ChoiceView {
    name: &'static str,
    help: &'static str,
}

/// All options, to be written as JSON.
pub fn options_view() -> Vec<OptView> {
    let view = |option: &Opt| OptView {
        name: option.name,
        help: option.help,
        kind: match option.kind {
            Kind::Flag => "flag",
            Kind::Count => "count",
            Kind::Share => "share",
            Kind::Words(_) => "word",
        },
        usual: option.usual(),
        choices: option.kind.words().into_iter().map(|(name, help)| ChoiceView { name, help }).collect(),
        needs: option.needs,
        excludes: option.excludes,
        field: option.field,
    };
    OPTIONS.iter().map(view).collect()
}

/// A value that an option can have.
trait Word: Sized {
    const KIND: Kind;
    const VALUE: &'static str;
    fn read(option: &Opt, value: &Value) -> Result<Self, RequestError>;
    fn word(&self) -> String;
}

impl Word for bool {
    const KIND: Kind = Kind::Flag;
    const VALUE: &'static str = "";

    fn read(option: &Opt, value: &Value) -> Result<bool, RequestError> {
        value.as_bool().or_else(|| value.as_str()?.parse().ok()).ok_or_else(|| option.unknown(value))
    }

    fn word(&self) -> String {
        self.to_string()
    }
}

impl Word for u64 {
    const KIND: Kind = Kind::Count;
    const VALUE: &'static str = "N";

    fn read(option: &Opt, value: &Value) -> Result<u64, RequestError> {
        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        number.filter(|number| (1..=MOST).contains(number)).ok_or_else(|| option.out_of_range(value, 1, MOST))
    }

    fn word(&self) -> String {
        self.to_string()
    }
}

impl Word for f64 {
    const KIND: Kind = Kind::Share;
    const VALUE: &'static str = "P";

    fn read(option: &Opt, value: &Value) -> Result<f64, RequestError> {
        let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
        number.filter(|number| (0.0..=1.0).contains(number)).ok_or_else(|| option.out_of_range(value, 0, 1))
    }

    fn word(&self) -> String {
        self.to_string()
    }
}

impl<T: Choice> Word for T {
    const KIND: Kind = Kind::Words(|| T::ALL.iter().map(|&(name, _, help)| (name, help)).collect());
    const VALUE: &'static str = T::VALUE;

    fn read(option: &Opt, value: &Value) -> Result<T, RequestError> {
        named(value, T::named).ok_or_else(|| option.unknown(value))
    }

    fn word(&self) -> String {
        self.name().to_owned()
    }
}

impl Word for &'static Card {
    const KIND: Kind = Kind::Words(|| CARDS.iter().map(|card| (card.key, "")).collect());
    const VALUE: &'static str = "CARD";

    fn read(option: &Opt, value: &Value) -> Result<&'static Card, RequestError> {
        named(value, Card::named).ok_or_else(|| option.unknown(value))
    }

    fn word(&self) -> String {
        self.key.to_owned()
    }
}

impl<T: Word> Word for Option<T> {
    const KIND: Kind = T::KIND;
    const VALUE: &'static str = T::VALUE;

    fn read(option: &Opt, value: &Value) -> Result<Option<T>, RequestError> {
        T::read(option, value).map(Some)
    }

    fn word(&self) -> String {
        self.as_ref().map(T::word).unwrap_or_default()
    }
}

/// What a word names; a number is the word that it is written as.
fn named<T>(value: &Value, named: impl Fn(&str) -> Option<T>) -> Option<T> {
    match value {
        Value::String(word) => named(word),
        Value::Number(number) => named(&number.to_string()),
        _ => None,
    }
}

/// A value as it was written, as far as one wants to read it.
fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().filter(|letter| !letter.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_reads_what_it_writes() {
        for option in OPTIONS {
            let mut request = Request::default();
            for (word, _) in option.kind.words() {
                option.set(&mut request, &word.into()).unwrap();
                assert!(!option.word(&request).is_empty(), "{} {word}", option.name);
            }
            let usual = option.usual();
            if !usual.is_empty() {
                option.set(&mut request, &usual.into()).unwrap();
                assert_eq!(request, Request::default(), "{}", option.name);
            }
        }
    }

    #[test]
    fn rules_name_options_that_there_are() {
        for (at, option) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..at].iter().all(|other| other.name != option.name), "{}", option.name);
            assert!(!option.help.is_empty() && !option.help.ends_with('.'), "{}", option.name);
            for other in [option.needs, option.excludes].into_iter().flatten() {
                assert!(Opt::named(other).is_some(), "{} and {other}", option.name);
            }
            if let Some(mode) = option.field.mode {
                assert!(Mode::named(mode).is_some(), "{}", option.name);
            }
        }
    }

    /// The list in `docs/estimate.md` is this one.
    #[test]
    fn the_documentation_lists_every_option() {
        let row = |option: &Opt| {
            let words: Vec<String> = option.kind.words().iter().map(|(word, _)| format!("`{word}`")).collect();
            let takes = match option.kind {
                Kind::Flag => "–".to_owned(),
                Kind::Count => "a number".to_owned(),
                Kind::Share => "0 to 1".to_owned(),
                // The cards have a page of their own.
                Kind::Words(_) if option.name == "gpu" => "a card".to_owned(),
                Kind::Words(_) => words.join(", "),
            };
            let usual = match option.usual() {
                usual if usual.is_empty() || matches!(option.kind, Kind::Flag) => "–".to_owned(),
                usual => format!("`{usual}`"),
            };
            let needs = option.needs.map(|needs| format!("; needs `--{needs}`")).unwrap_or_default();
            let excludes = option.excludes.map(|other| format!("; not with `--{other}`")).unwrap_or_default();
            format!("| `--{}` | {takes} | {usual} | {}{needs}{excludes} |\n", option.name, option.help)
        };
        let table: String = OPTIONS.iter().map(row).collect();
        let page = include_str!("../../../docs/estimate.md");
        assert!(page.contains(&table), "docs/estimate.md lacks this table:\n{table}");
    }
}
