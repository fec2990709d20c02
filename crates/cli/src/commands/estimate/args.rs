//! The options of `highwater estimate`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, ValueEnum};
use highwater_driver::CardOrSize;
use highwater_estimate::{Kind, OPTIONS, Opt, Request, RequestError};
use highwater_problem::Explained as _;
use highwater_serve::{FLAGS, Flag, Settings};
use serde_json::Value;

use crate::args::FormatToPaste;
use crate::error::Problem;

/// Terms that are shown, as where the command line is not told.
pub(super) const TERMS: usize = 12;

/// Options of `highwater estimate`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater estimate qwen2.5-1.5b --batch 16 --dtype float32 --keep loss
  highwater estimate ./my-model --batch 4 --seq 2048 --checkpointing --gpu a100
  highwater estimate llama3.1-8b --seq 4096 --lora-rank 16 --fit 24GiB
  highwater estimate gpt2 --batch 8 --seq 512 --sweep batch=1..64
  highwater estimate llama3.2-1b --mode generate --batch 16 --new-tokens 256
  highwater estimate gpt2 --batch 8 --seq 512 --against run.pickle
  highwater estimate llama3.1-8b --serve vllm --gpu l4 --max-model-len 16000
  highwater estimate qwen3-32b --serve vllm --need 32x8192
  highwater estimate --gpu l4 -- vllm serve Qwen/Qwen3-8B --max-model-len 8192
  highwater estimate --web                the same in the browser, with sliders
  highwater estimate gpt2 --batch 8 --web -o page.html
  highwater estimate qwen3-8b --serve vllm --gpu l4 --web -o page.html")]
pub(crate) struct Args {
    /// The model: a name such as `qwen2.5-1.5b`, a directory, a `config.json`, a `.safetensors` or `.gguf` file, a model in the
    /// Hugging Face cache
    #[arg(value_name = "MODEL", required_unless_present_any = ["list", "web", "command"])]
    pub(super) model: Option<String>,
    /// List the known model names
    #[arg(long)]
    pub(super) list: bool,
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Estimate an engine that serves the model: `vllm`, `sglang`, `llama.cpp` or `transformers`, with its release as in `vllm@0.11.0`
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["list", "sweep"])]
    pub(super) serve: Option<String>,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    /// With `--serve`: find the fewest GPUs, and the flags, that serve this many requests of this length at once, such as `32x8192`
    #[arg(long, value_name = "REQUESTSxTOKENS", num_args = 1..=5)]
    pub(super) need: Vec<String>,
    /// Show changes that make it fit a GPU, by its memory, such as `24GiB`, or its name; with `--serve`, compare GPUs, such as `h100,l4`
    #[arg(long, value_name = "SIZE|CARD")]
    pub(super) fit: Option<String>,
    /// Estimate each value of a range: `batch=1..64` or `seq=128..8192`, doubling, or a list as in `batch=1,2,4`
    #[arg(long, value_name = "NAME=RANGE")]
    pub(super) sweep: Option<String>,
    /// Method; `simple` adds the well-known formula, in its two variants, for comparison
    #[arg(long, value_enum, default_value_t)]
    pub(super) method: Method,
    /// Compare the estimate with a recording, by category; with `--serve` with an engine's log
    #[arg(long, value_name = "SNAPSHOT")]
    pub(super) against: Option<PathBuf>,
    #[command(flatten)]
    pub(super) size: crate::input::SizeArgs,
    /// Number of terms to show, 0 for all
    #[arg(long, alias = "terms", value_name = "N", default_value_t = TERMS)]
    pub(super) top: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: FormatToPaste,
    /// Open the calculator in the browser, or write it as one page with `-o FILE`
    #[arg(long, conflicts_with_all = ["list", "fit", "need", "sweep", "method", "against", "top", "format"])]
    pub(super) web: bool,
    #[command(flatten)]
    pub(super) page: PageArgs,
    /// An engine's command line, as it is
    #[arg(last = true, value_name = "ENGINE COMMAND")]
    pub(super) command: Vec<String>,
}

impl Args {
    /// Whether the question is about an engine.
    pub(super) fn asks_an_engine(&self) -> bool {
        self.serve.is_some() || !self.command.is_empty()
    }
}

/// Where the calculator goes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// With `--web`: write the page to this file, which needs no server and no network, instead of serving it
    #[arg(short, long, value_name = "FILE", requires = "web")]
    pub(super) output: Option<PathBuf>,
    /// With `-o`: overwrite the file if it exists
    #[arg(long, requires = "output")]
    pub(super) force: bool,
    /// With `--web`: the port to listen on [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, requires = "web")]
    pub(super) port: u16,
    /// With `--web`: only print the address, as over SSH
    #[arg(long, requires = "web")]
    pub(super) no_open: bool,
}

/// The engine's flags: those of [`FLAGS`].
#[derive(Clone, Debug)]
pub(crate) struct EngineArgs(pub(super) Settings);

impl clap::Args for EngineArgs {
    fn augment_args(command: Command) -> Command {
        let argument = |flag: &'static Flag| {
            let argument = Arg::new(flag.name).long(flag.name).help(flag.help).help_heading("With --serve");
            if flag.is_switch() {
                argument.action(ArgAction::SetTrue)
            } else {
                argument.value_name(flag.value_name).action(ArgAction::Set)
            }
        };
        command.args(FLAGS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EngineArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut engine = Self(Settings::default());
        engine.update_from_arg_matches(matches)?;
        Ok(engine)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for flag in FLAGS {
            let value = if flag.is_switch() {
                matches.get_flag(flag.name).then(String::new)
            } else {
                matches.get_one::<String>(flag.name).cloned()
            };
            if let Some(value) = value {
                flag.set(&mut self.0, &value)
                    .map_err(|error| clap::Error::raw(ErrorKind::InvalidValue, format!("{error}\n")))?;
            }
        }
        Ok(())
    }
}

/// How the model is run: the options of [`OPTIONS`].
#[derive(Clone, Debug)]
pub(crate) struct RunArgs(pub(super) Request);

impl clap::Args for RunArgs {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().zip(&*USUAL).map(|(option, usual)| argument(option, usual)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The default of each option; static because clap borrows it.
static USUAL: LazyLock<Vec<String>> = LazyLock::new(|| OPTIONS.iter().map(Opt::usual).collect());

fn argument(option: &'static Opt, usual: &'static str) -> Arg {
    let argument = Arg::new(option.name).long(option.name).help(option.help);
    if matches!(option.kind, Kind::Flag) {
        return argument.action(ArgAction::SetTrue);
    }
    // As `simulate` calls it.
    let argument = if option.name == "gpu" { argument.alias("card") } else { argument };
    let argument = argument.value_name(option.value_name).value_parser(OneWord(option));
    if usual.is_empty() { argument } else { argument.default_value(usual) }
}

impl FromArgMatches for RunArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut run = Self(Request::default());
        run.update_from_arg_matches(matches)?;
        Ok(run)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in OPTIONS {
            let value = match option.kind {
                Kind::Flag => Some(Value::Bool(matches.get_flag(option.name))),
                _ => matches.get_one::<String>(option.name).map(|word| Value::from(word.as_str())),
            };
            if let Some(value) = value {
                option.set(&mut self.0, &value).map_err(|error| refused(&error))?;
            }
        }
        Ok(())
    }
}

/// A word that an option takes, checked by the option itself; the help lists those that it takes.
#[derive(Clone)]
struct OneWord(&'static Opt);

impl TypedValueParser for OneWord {
    type Value = String;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let word = value.to_string_lossy();
        match self.0.set(&mut Request::default(), &Value::from(word.as_ref())) {
            Ok(()) => Ok(word.into_owned()),
            Err(error) => Err(refused(&error).with_cmd(command)),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = self.0.kind.words();
        let listed = words.into_iter().map(|(word, help)| {
            let value = PossibleValue::new(word);
            if help.is_empty() { value } else { value.help(help) }
        });
        if listed.len() == 0 { None } else { Some(Box::new(listed)) }
    }
}

fn refused(error: &RequestError) -> clap::Error {
    let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    clap::Error::raw(ErrorKind::InvalidValue, format!("{error}\n{hint}"))
}

/// Ways of estimating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Operator by operator
    #[default]
    Exact,
    /// Operator by operator, and by the well-known formula
    Simple,
}

/// What PyTorch may take of a card, by its name or its memory.
pub(super) fn card_bytes(text: &str) -> Result<u64, Problem> {
    Ok(CardOrSize::parse(text)?.memory_bytes())
}
