//! The options of `highwater dryrun`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use highwater_nullgpu::run::{Ranks, Timing};

use crate::args::Format;
use crate::units::parse_size;

/// Options of `highwater dryrun`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "an option each")]
#[command(
    after_long_help = "The script really runs: it reads its data, and writes its files and logs. Only the GPU is imitated: results that the script reads from it are likely values, or zeros. With `--sandbox` its files and those of the programs that it starts go to a temporary folder, where it can read them again. Its output goes to standard error.

Exit status: 0 if the run fits the GPU, 1 if the GPU runs out of memory, 2 if the script fails for another reason.

Examples:
  highwater dryrun --gpu a100-40 --steps 3 train.py --batch-size 16
  highwater dryrun --gpu h100 --sandbox --steps 3 train.py
  highwater dryrun --gpu h100 --memory 40GiB -o run.pickle -m my.training
  highwater dryrun --gpu h100 --gpus 8 --ranks 8 --steps 2 train_fsdp.py
  highwater dryrun --gpu h100 --imagine-ranks 512 --steps 2 train_70b.py"
)]
pub(crate) struct Args {
    /// GPU to imitate, such as `h100` or `rtx4090`
    #[arg(long, alias = "card", value_name = "CARD", default_value = "h200")]
    pub(super) gpu: String,
    /// Memory of the GPU, such as `16GiB` [default: that of the product]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) memory: Option<u64>,
    /// Number of GPUs, at most 16 [default: 1, or one per rank]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(GPUS_MAX)))]
    gpus: Option<u32>,
    /// End after this many optimizer steps [default: the script runs to its end]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) steps: Option<u64>,
    /// End after this time, such as `90s`, `10m` or `1h`
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) timeout: Option<Duration>,
    /// Start this many ranks of the script, like `torchrun` on one machine; with `--imagine-ranks`, `all` runs one of each kind
    #[arg(long, value_name = "N|all", value_parser = parse_ranks)]
    ranks: Option<Wanted>,
    /// Run one rank of N; the other ranks are simulated, as if all were alike
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX)))]
    imagine_ranks: Option<u32>,
    /// Which of the imagined ranks to run
    #[arg(long, value_name = "R", requires = "imagine_ranks", default_value_t = 0)]
    rank: u32,
    /// Invent the weights that the script loads; only the configuration is needed
    #[arg(long)]
    pub(super) fake_weights: bool,
    /// Assumption about values that are only known on a GPU, such as `nonzero=0.5`, or about one line, `train.py:12=true`; may be repeated
    #[arg(long, value_name = "WHAT=HOW", value_parser = parse_assumption)]
    pub(super) assume: Vec<(String, String)>,
    /// When streams finish their work: `at-once`, about when a GPU would (`gpu`), only when the script waits (`late`), or
    /// `at-once` in the first step and `late` in the others [default: `at-once`, and further runs if the peak depends on it]
    #[arg(long, value_enum, value_name = "WHEN")]
    timing: Option<When>,
    /// Redirect the script's writes to a temporary folder, and delete it at the end
    #[arg(long)]
    pub(super) sandbox: bool,
    /// Do not compute the values of small tensors: faster, but every value that the script reads is 0
    #[arg(long)]
    pub(super) no_values: bool,
    /// The interpreter that has torch [default: the active environment's, else `python3`]
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,
    /// Write the recording to this file; with several ranks, the others' files are next to it
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    pub(super) force: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// The script, or `-m` and a module, and its own arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCRIPT|-m MODULE")]
    pub(super) script: Vec<OsString>,
}

/// The ranks that are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// This number of ranks, started together.
    Started(u32),
    /// One of each kind of the imagined ranks.
    EachKind,
}

/// When streams finish their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum When {
    AtOnce,
    Gpu,
    Late,
    LateAfterFirstStep,
}

/// More ranks than any job has: each takes a place in memory.
const RANKS_MAX: u32 = 1 << 16;
/// More cards than one machine is imagined with.
const GPUS_MAX: u32 = 16;
/// The cards of a machine on which many ranks are imagined.
const GPUS_OF_MANY: u32 = 8;

impl Args {
    /// How many cards there are.
    pub(super) fn gpus(&self) -> u32 {
        let imagined = || self.imagine_ranks.map(|ranks| ranks.min(GPUS_OF_MANY));
        self.gpus.or(self.started()).or_else(imagined).unwrap_or(1)
    }

    fn started(&self) -> Option<u32> {
        match self.ranks {
            Some(Wanted::Started(ranks)) => Some(ranks),
            Some(Wanted::EachKind) | None => None,
        }
    }

    /// Why `--ranks` and `--imagine-ranks` contradict each other, and the remedy; `None` if they do not.
    pub(super) fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        match (self.ranks, self.imagine_ranks) {
            (Some(Wanted::Started(_)), Some(_)) => Some((
                "`--ranks N` starts ranks, and `--imagine-ranks` simulates them",
                "use one of the two, or `--ranks all` with `--imagine-ranks N`",
            )),
            (Some(Wanted::EachKind), None) => Some((
                "`--ranks all` needs to know how many ranks there are",
                "give `--imagine-ranks N`, or start all of them with `--ranks N`",
            )),
            _ => None,
        }
    }

    /// The number of imagined ranks, if one of each kind is to be run.
    pub(super) fn each_kind_of(&self) -> Option<u32> {
        self.imagine_ranks.filter(|_| self.ranks == Some(Wanted::EachKind))
    }

    /// The rank that is not one of those imagined, with their number.
    pub(super) fn missing_rank(&self) -> Option<(u32, u32)> {
        self.imagine_ranks.filter(|&ranks| self.rank >= ranks).map(|ranks| (self.rank, ranks))
    }

    /// When streams finish their work; `None` if the answer is to say where that decides.
    pub(super) fn timing(&self) -> Option<Timing> {
        self.timing.map(|when| match when {
            When::Gpu => Timing::Card,
            When::AtOnce => Timing::AtOnce,
            When::Late => Timing::Late,
            When::LateAfterFirstStep => Timing::LateAfterFirstStep,
        })
    }

    /// How many processes run the script.
    pub(super) fn ranks(&self) -> Ranks {
        match (self.started(), self.imagine_ranks) {
            (Some(ranks), _) => Ranks::Launched(ranks),
            (None, Some(ranks)) => Ranks::Imagined { ranks, rank: self.rank },
            (None, None) => Ranks::Alone,
        }
    }
}

fn parse_ranks(text: &str) -> Result<Wanted, String> {
    if text == "all" {
        return Ok(Wanted::EachKind);
    }
    let number = text.parse().ok().filter(|number| (1..=GPUS_MAX).contains(number));
    number.map(Wanted::Started).ok_or_else(|| format!("`{text}` is not a number from 1 to {GPUS_MAX}, or `all`"))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: f64 = number.parse().map_err(|_| format!("`{text}` is not a time: try `90s` or `10m`"))?;
    let seconds = match &text[number.len()..] {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("`{other}` is not a unit: use `s`, `m` or `h`")),
    };
    Duration::try_from_secs_f64(count * seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("`{text}` is not a possible timeout"))
}

fn parse_assumption(text: &str) -> Result<(String, String), String> {
    /// What can be assumed, and the words for it beside a share between 0 and 1.
    const KNOWN: [(&str, &[&str]); 3] = [
        ("nonzero", &["full", "none", "uniform"]),
        ("routing", &["balanced", "uneven", "unknown"]),
        ("overflow", &["never", "always"]),
    ];
    let (what, how) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`: try `nonzero=0.5`"))?;
    if let Some((_, line)) = what.rsplit_once(':') {
        let is_line = line.parse::<u32>().is_ok();
        let is_value = matches!(how, "true" | "false") || how.parse::<f64>().is_ok_and(f64::is_finite);
        return match (is_line, is_value) {
            (true, true) => Ok((what.to_owned(), how.to_owned())),
            (true, false) => Err(format!(
                "`{how}` is not a value: use `true`, `false`, a number, or of a mask the share that is set"
            )),
            (false, _) => {
                Err(format!("`{what}` is not a line: use `FILE:LINE` as the answer prints it, such as `train.py:12`"))
            }
        };
    }
    if what == "fraction" {
        let is_number = how.parse::<f64>().is_ok_and(f64::is_finite);
        return if is_number { Ok((what.to_owned(), how.to_owned())) } else { Err(format!("`{how}` is not a number")) };
    }
    let Some((_, words)) = KNOWN.iter().find(|(known, _)| *known == what) else {
        return Err(format!(
            "`{what}` has no assumption: use `nonzero`, `routing`, `overflow`, `fraction` or `FILE:LINE`"
        ));
    };
    let is_share = what == "nonzero" && how.parse::<f64>().is_ok_and(|share| (0.0..=1.0).contains(&share));
    if is_share || words.contains(&how) {
        return Ok((what.to_owned(), how.to_owned()));
    }
    let share = if what == "nonzero" { ", or a share between 0 and 1" } else { "" };
    Err(format!("`{how}` is not an assumption of `{what}`: {}{share}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["", "s", "3d", "-1s", "0", "infs", "1e300h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranks_are_started_or_one_of_each_kind_is_run() {
        assert_eq!(parse_ranks("4"), Ok(Wanted::Started(4)));
        assert_eq!(parse_ranks("all"), Ok(Wanted::EachKind));
        for wrong in ["", "0", "17", "-1", "every"] {
            assert!(parse_ranks(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn assumptions_are_those_that_are_known() {
        let pair = |what: &str, how: &str| Ok((what.to_owned(), how.to_owned()));
        assert_eq!(parse_assumption("nonzero=0.25"), pair("nonzero", "0.25"));
        assert_eq!(parse_assumption("nonzero=uniform"), pair("nonzero", "uniform"));
        assert_eq!(parse_assumption("routing=balanced"), pair("routing", "balanced"));
        assert_eq!(parse_assumption("fraction=1e-3"), pair("fraction", "1e-3"));
        assert_eq!(parse_assumption("my/train.py:12=true"), pair("my/train.py:12", "true"));
        assert_eq!(parse_assumption("train.py:12=0.25"), pair("train.py:12", "0.25"));
        for wrong in [
            "nonzero",
            "nonzero=2",
            "routing=0.5",
            "item=1",
            "train.py:x=1",
            "train.py:1=maybe",
            "a.py:1=inf",
            "fraction=small",
        ] {
            assert!(parse_assumption(wrong).is_err(), "{wrong}");
        }
    }
}
