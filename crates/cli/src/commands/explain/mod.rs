//! `highwater explain`: why memory ran out, and what to change, from a message, a log or a snapshot.

mod follow;
mod input;
pub(crate) mod text;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use highwater_allocator::{Memory, TorchVersion};
use highwater_analysis::{Analysis, StackClasses, analyse_with};
use highwater_answers::what_if::card;
use highwater_documents::ExplainView;
use highwater_findings::explain::{Asked, disagreements, failures, failures_elsewhere};
use highwater_oom::{Found, LogReader};
use highwater_snapshot::{Snapshot, Unpacking};
use highwater_whatif::{Replayed, busiest, check_replayable, without_trace};
use input::Input;

use crate::args::{FormatToPaste, SitesArgs};
use crate::error::Problem;
use crate::input::SizeArgs;
use crate::output;
use crate::units::{count, counted, parse_size, size};

/// The options of `highwater explain`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater explain train.log
  highwater explain logs/rank*.log
  python train.py 2>&1 | highwater explain
  kubectl logs -f trainer | highwater explain --follow
  highwater explain --message 'CUDA out of memory. Tried to allocate 2 GiB. …'
  highwater explain oom.pickle
  highwater explain run.pickle --capacity 16GiB
  highwater explain run.pickle --card rtx4090")]
pub(crate) struct Args {
    /// Logs or snapshots, gzipped or not, each explained by itself; `-`, or no FILE at the end of a pipe, reads standard input to its end
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The text of the error; with a snapshot, it adds facts that the snapshot lacks
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Explain the first failure if PyTorch could reserve only this much, such as `16GiB`: needs a snapshot
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "files", conflicts_with = "card")]
    capacity: Option<u64>,
    /// Explain the first failure on this GPU, by its memory or its name: needs a snapshot
    #[arg(long, value_name = "SIZE|NAME", requires = "files")]
    card: Option<String>,
    /// Follow the rules of this torch release, such as `2.11` [default: those that the snapshot shows]
    #[arg(long, value_name = "VERSION", requires = "files")]
    torch: Option<TorchVersion>,
    /// Only this device of a snapshot
    #[arg(long, value_name = "N", requires = "files")]
    device: Option<u32>,
    /// Strip the directories from all paths in the snapshot
    #[arg(long, requires = "files")]
    redact: bool,
    /// Explain each failure as it comes, until the log ends: for a pipe, or for a file that still grows
    #[arg(long, conflicts_with_all = ["message", "capacity", "card", "torch", "device", "redact"])]
    follow: bool,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    sites: SitesArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: FormatToPaste,
}

/// Reads, finds, explains, prints.
///
/// # Errors
/// If there is no message, or the input cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let of_message = args.message.as_deref().map(found_in_message).transpose()?;
    match (&args.files[..], of_message) {
        ([], Some(found)) => print(args, &ExplainView::of_log(&found), "the message"),
        ([], None) if io::stdin().is_terminal() => Err(nothing_given().into()),
        ([], None) => explain_file(args, Path::new("-"), None),
        ([file], of_message) => explain_file(args, file, of_message),
        (files, None) if !args.follow => explain_each(args, files),
        _ => Err(Problem::new("`--follow` and `--message` go with one FILE").into()),
    }
}

/// Explains several files, one after the other: a file without an error is named, and does not stop the rest.
fn explain_each(args: &Args, files: &[PathBuf]) -> anyhow::Result<()> {
    let mut last = None;
    let mut is_any = false;
    for file in files {
        if is_any && args.format != FormatToPaste::Json {
            output::to_stdout(|out| writeln!(out))?;
        }
        match explain_file(args, file, None) {
            Ok(()) => is_any = true,
            Err(error) => {
                output::note(&format!("{error}"))?;
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if !is_any => Err(error),
        _ => Ok(()),
    }
}

/// Reads, finds, explains, prints.
fn explain_file(args: &Args, file: &Path, of_message: Option<Found>) -> anyhow::Result<()> {
    let name = crate::input::short_name(file);
    if args.follow {
        return follow::run(args, file, &name);
    }
    let memory = match &args.card {
        Some(text) => Some(card(text)?),
        None => args.capacity.map(Memory::Limit),
    };
    match input::open(file, args.size)? {
        Input::Log(log) if of_message.is_none() && memory.is_none() => {
            let found = read_log(log, &crate::input::name(file))?;
            if found.is_empty() {
                return without_a_failure(args, &found, &crate::input::name(file), name);
            }
            let mut view = ExplainView::of_log(&found);
            if let Some(engine) = found.engine.as_ref().filter(|engine| !engine.ranks.is_empty()) {
                match highwater_answers::serve::of_log(name.clone(), engine) {
                    Ok(served) => view.forecast = served.against,
                    Err(problem) => view.no_forecast = Some(no_forecast(&problem)),
                }
            }
            print(args, &view, &name)
        }
        Input::Log(_) => {
            let option = match memory {
                Some(Memory::Card { .. }) => "--card",
                Some(_) => "--capacity",
                None => "--message",
            };
            Err(Problem::new(format!(
                "`{option}` only works with a snapshot, but {} is a log",
                crate::input::name(file)
            ))
            .hint("a log is explained by the messages in it")
            .into())
        }
        Input::Snapshot(bytes) => {
            // It is unpacked already, as far as it may be.
            let snapshot = Snapshot::read_with(bytes, Unpacking::Unbounded)
                .map_err(|error| error.problem(&crate::input::name(file)))?;
            explain_snapshot(args, memory, snapshot, &of_message.unwrap_or_default(), &name)
        }
    }
}

const WHAT_TO_GIVE: &str = "give a log or a snapshot (`highwater explain train.log`), the error (`highwater explain --message 'CUDA out of memory. …'`), or \
     the end of a pipe (`python train.py 2>&1 | highwater explain`)";

/// How to give it something.
fn nothing_given() -> Problem {
    Problem::new("there is nothing to explain").hint(WHAT_TO_GIVE)
}

/// Whether a file is a log, by its first bytes; false for one that cannot be read.
pub(crate) fn is_log(file: &Path) -> bool {
    matches!(input::open(file, SizeArgs::default()), Ok(Input::Log(_)))
}

fn found_in_message(text: &str) -> Result<Found, Problem> {
    let mut log = LogReader::new();
    log.push(text.as_bytes());
    let found = log.finish();
    if found.is_empty() { Err(nothing(&found, "the text of `--message`")) } else { Ok(found) }
}

fn read_log(mut log: impl std::io::Read, name: &str) -> anyhow::Result<Found> {
    let mut reader = LogReader::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match log.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => reader.push(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(crate::error::unpacked(name, error).into()),
        }
    }
    Ok(reader.finish())
}

/// A log without a failure: of an engine that started, what it printed beside the forecast.
fn without_a_failure(args: &Args, found: &Found, name: &str, short: String) -> anyhow::Result<()> {
    let Some(engine) = found.engine.as_ref().filter(|engine| !engine.ranks.is_empty()) else {
        return Err(nothing(found, name).into());
    };
    match highwater_answers::serve::of_log(short, engine) {
        Ok(view) => output::print(args.format, &view, |_| super::estimate::served(&view)),
        Err(problem) => Err(nothing(found, name).because(no_forecast(&problem)).into()),
    }
}

/// Why there is no forecast beside an engine's numbers, and what to do.
fn no_forecast(problem: &Problem) -> String {
    format!(
        "its numbers are not compared with a forecast: {problem}; to compare them, name the model and the GPU: \
         `highwater estimate MODEL --serve \
         ENGINE --gpu GPU --against LOG`"
    )
}

/// That there is no message, with what was looked for.
fn nothing(found: &Found, name: &str) -> Problem {
    if found.lines == 0 {
        return Problem::new(format!("{name} is empty")).hint(WHAT_TO_GIVE);
    }
    let lines = counted(found.lines, "line", "lines");
    let engine = found.engine.as_ref().and_then(|engine| engine.engine);
    // Who asks whether memory ran out has a start that went well.
    let mention = found.mention.as_ref().filter(|mention| !(has_started(found) && mention.text.ends_with('?')));
    let cause = match (mention, engine) {
        (Some(mention), _) => {
            let text = match mention.text.as_str() {
                "" => String::new(),
                text => format!(": `{}`", text.replace('`', "'")),
            };
            format!(
                "line {} mentions memory, but has neither the numbers of PyTorch's message nor the words of another known error, \
                 so the text may be cut{text}",
                count(mention.line)
            )
        }
        (None, _) if !found.summaries.is_empty() => format!(
            "it has {} of `torch.cuda.memory_summary`, none of which shows a failed request",
            counted(found.summaries.len(), "table", "tables")
        ),
        (None, None) if !found.gpus.is_empty() => {
            let each = found.gpus.iter().take(8).map(|gpu| {
                format!("GPU {} has {}, {} of it in use", gpu.index, size(gpu.total_bytes), size(gpu.used_bytes))
            });
            let each: Vec<String> = each.collect();
            format!(
                "it has the table of nvidia-smi, which reports no error: {}; the `total capacity` of \
                 PyTorch's message is that of one of these GPUs",
                each.join("; ")
            )
        }
        (None, None) if found.settled.is_some() => {
            let settled = found.settled.as_ref();
            settled.map_or_else(String::new, |settled| {
                format!(
                    "`{}` rises from {} (line {}) to {} and stays there until line {}, over {} readings: memory that settles is a pool or a cache \
                     that has warmed up, and no leak",
                    settled.label,
                    settled.printed.0,
                    count(settled.lines.0),
                    settled.printed.1,
                    count(settled.lines.1),
                    settled.readings
                )
            })
        }
        (None, None) if found.talk.is_some() => {
            let (line, text) = found.talk.as_ref().map_or((0, ""), |talk| (talk.line, talk.text.as_str()));
            format!("line {} speaks of memory, but reports no error: `{}`", count(line), text.replace('`', "'"))
        }
        (None, Some(engine)) if has_started(found) => format!(
            "{engine} allocated its KV cache, and no later line reports a failure{}; it reserves its whole share of the GPU on purpose: what \
             weights and activations leave of it becomes the KV cache",
            found
                .engine
                .as_ref()
                .and_then(highwater_oom::printed)
                .map_or_else(String::new, |printed| format!("; {printed}"))
        ),
        (None, Some(engine)) => format!(
            "it has lines that {engine} prints while it starts, but none that says that memory ran out or that it refuses to start{}",
            found
                .engine
                .as_ref()
                .and_then(highwater_oom::printed)
                .map_or_else(String::new, |printed| format!("; {printed}"))
        ),
        (None, None) => format!(
            "searched {lines} for `CUDA out of memory. Tried to allocate …`, in the words of torch 1.0 to {}, also \
             of HIP, XPU, MPS and `cudaMallocAsync`, and for errors of vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp, Ollama and other \
             engines, of CUDA's libraries, of other frameworks and of the host",
            TorchVersion::NEWEST
        ),
    };
    if mention.is_none() && has_started(found) {
        return Problem::new(format!("{name} contains no known out-of-memory error"))
            .because(cause)
            .hint(format!("{}if the run fails later, give the lines of that failure", less_cache(engine)));
    }
    Problem::new(format!("{name} contains no known out-of-memory error")).because(cause).hint(
        "give the whole error, from `OutOfMemoryError:` or `RuntimeError:` to the end of its paragraph, or the log \
         of the rank that failed first, or the snapshot that `torch.cuda.memory._dump_snapshot` wrote; a process \
         killed by the system (`Killed`, exit code 137) ran out of host memory, not GPU memory",
    )
}

/// The setting of an engine's share, for those who did not expect it.
fn less_cache(engine: Option<&str>) -> String {
    let setting = match engine {
        Some("vllm") => "--gpu-memory-utilization",
        Some("sglang") => "--mem-fraction-static",
        Some("tensorrt-llm") => {
            "kv_cache_free_gpu_memory_fraction (free_gpu_memory_fraction), or max_tokens_in_paged_kv_cache"
        }
        _ => return String::new(),
    };
    format!("to give the cache less of the GPU, set {setting}; ")
}

/// Whether an engine printed that it has a KV cache.
fn has_started(found: &Found) -> bool {
    let ranks = found.engine.iter().flat_map(|engine| &engine.ranks);
    let has = |printed: &highwater_oom::Printed| {
        printed.kv_cache_bytes.is_some_and(|bytes| bytes > 0) || printed.kv_tokens.is_some_and(|tokens| tokens > 0)
    };
    ranks.clone().any(has)
}

fn explain_snapshot(
    args: &Args,
    memory: Option<Memory>,
    mut snapshot: Snapshot,
    found: &Found,
    name: &str,
) -> anyhow::Result<()> {
    let classes = StackClasses::with(&snapshot, args.sites.lines());
    snapshot.check_device(name, args.device)?;
    if args.redact {
        snapshot.redact();
    }
    let analysis = analyse_with(&snapshot, classes);
    let asked = SnapshotQuestion { memory, torch: args.torch, device: args.device };
    let view = explained(&analysis, &asked, found, name)?;
    print(args, &view, name)?;
    match args.format {
        FormatToPaste::Json => Ok(()),
        FormatToPaste::Text | FormatToPaste::Markdown => {
            crate::warnings::print_all(&analysis).context("cannot write to standard error")
        }
    }
}

/// What is asked of a snapshot.
#[derive(Clone, Copy, Debug, Default)]
struct SnapshotQuestion {
    memory: Option<Memory>,
    torch: Option<TorchVersion>,
    device: Option<u32>,
}

/// Explains what failed in a snapshot, or would fail with less memory; `found` is what a message says of it.
fn explained<'a>(
    analysis: &Analysis<'a>,
    question: &SnapshotQuestion,
    found: &Found,
    name: &str,
) -> Result<ExplainView<'a>, Problem> {
    let message = found.groups.first().map(|group| &group.message);
    let failing = analysis.devices.iter().filter(|device| !device.oom.is_empty());
    let mut failing = failing.filter(|device| question.device.is_none_or(|wanted| device.device == wanted));
    let device = match (question.memory, failing.next()) {
        (None, Some(device)) => Some(device),
        _ => busiest(analysis, question.device),
    };
    let device = device.ok_or_else(|| without_trace(&format!("`{name}`"), "it does not show the failure"))?;
    // A limit that only the message tells says what to simulate where the recording itself went well.
    let of_message = message.and_then(|message| message.limit_bytes).filter(|_| device.oom.is_empty());
    let memory = question.memory.or(of_message.map(Memory::Limit));
    if device.oom.is_empty() && memory.is_none() && message.is_none() {
        let entries = counted(device.entries.len(), "entry", "entries");
        if let Some(profile) = &analysis.snapshot.profile {
            return Err(Problem::new(format!(
                "`{name}` is {}: it does not show which request failed",
                profile.form.name()
            ))
            .because("a profiler's file records allocations and frees, not errors")
            .hint(format!(
                "`highwater report {name}` shows the use of memory; to explain a failure, give its message \
                     (`--message`), the log, or a snapshot recorded with \
                     `torch.cuda.memory._record_memory_history()`"
            )));
        }
        return Err(Problem::new(format!("`{name}` has no failed request"))
            .because(format!("none of the {entries} of device {} is an `oom`", device.device))
            .hint(
                "`--capacity 16GiB` or `--card rtx4090` explains the first failure with less memory; `highwater \
                 report` shows the use of memory",
            ));
    }
    let is_replayable = match check_replayable(analysis.snapshot, &format!("`{name}`")) {
        Err(problem) if question.memory.is_some() => return Err(problem),
        checked => checked.is_ok(),
    };
    let replayed = is_replayable.then(|| Replayed::new(analysis.snapshot, device, question.torch));
    let asked = Asked { memory, message };
    let mut failures = failures(analysis, device, replayed.as_ref(), asked);
    if memory.is_none() && question.device.is_none() {
        failures.extend(failures_elsewhere(analysis, device.device));
    }
    let mut view = ExplainView::of_failures(analysis, &failures, found);
    view.disagreements = message.map(|message| disagreements(message, device)).unwrap_or_default();
    if let (Some(memory), Some(Replayed { study, .. }), true) =
        (memory, &replayed, failures.is_empty() && message.is_none())
    {
        view.fits(memory, !device.oom.is_empty(), study.case(&study.recorded, memory).reason);
    }
    Ok(view)
}

/// The explanation of a snapshot in which a request failed; `message` is the error's text, if it is known.
///
/// # Errors
/// If no request failed in it.
pub(crate) fn view_of_snapshot<'a>(
    analysis: &Analysis<'a>,
    message: Option<&str>,
    name: &str,
) -> Result<ExplainView<'a>, Problem> {
    let found = message.map(found_in_message).transpose().unwrap_or_default().unwrap_or_default();
    explained(analysis, &SnapshotQuestion::default(), &found, name)
}

fn print(args: &Args, view: &ExplainView<'_>, name: &str) -> anyhow::Result<()> {
    output::print(args.format, view, |_| match args.format {
        FormatToPaste::Markdown => text::brief(view, name),
        FormatToPaste::Text | FormatToPaste::Json => text::document(view, name),
    })
}
