//! `highwater dryrun SCRIPT`: runs a script over the null GPU, and says what it would have taken on a real card.

mod again;
mod args;
mod folder;
mod sandbox;
mod signals;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use highwater_analysis::{StackClasses, analyse_with};
use highwater_documents::dryrun::{CardView, DryrunView, OtherwiseView, Runs};
use highwater_driver::Card;
use highwater_nullgpu::alike::Kind;
use highwater_nullgpu::interpreter::Interpreter;
use highwater_nullgpu::run::{Ending, Outcome, Process, Run, Watch};
use highwater_nullgpu::{Machine, own_directory};

pub(crate) use args::Args;

use again::Otherwise;

use super::{CHECK_FAILED, explain};
use crate::args::Format;
use crate::error::{BAD_INPUT, Problem};
use crate::input::{SizeArgs, read_snapshot, short_name};
use crate::output::{exists, to_stdout, write_json};
use crate::printable::{Lines, printable};
use crate::progress::SimulationBar;
use crate::python;
use crate::table::terminal_width;
use highwater_answers::what_if::Asked;
use highwater_output::whole_file::move_file;

/// Runs the script, and answers.
///
/// # Errors
/// The script cannot be run at all; one that fails is answered, with exit status 1 or 2.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !highwater_nullgpu::are_built_in() {
        return Err(Problem::new("this build of highwater makes no dry runs")
            .hint("`dryrun` and its `--sandbox` are for Linux on x86-64, with glibc: run the wheel or the program for it there")
            .into());
    }
    let card = card(&args.gpu)?;
    python::check_script(&args.script, "dryrun")?;
    check_output(args)?;
    if let Some((why, hint)) = args.contradiction() {
        return Err(Problem::new(why).hint(hint).into());
    }
    if let Some((rank, ranks)) = args.missing_rank() {
        return Err(Problem::new(format!("rank {rank} is not one of {ranks} ranks"))
            .hint(format!("give `--rank` a number from 0 to {}", ranks - 1))
            .into());
    }
    let asked = args.python.clone().unwrap_or_else(python::interpreter);
    let interpreter = Interpreter::new(&asked).map_err(Problem::from)?;
    let end = signals::end_on_signals();
    let folder = folder::Folder::new()?;
    let machine = Machine { memory_bytes: args.memory, devices: args.gpus(), ..Machine::new(card) };
    let watch = Watch {
        steps: args.steps,
        timeout: args.timeout,
        without_values: args.no_values,
        assume: args.assume.iter().cloned().collect(),
        fake_weights: args.fake_weights,
        timing: args.timing().unwrap_or_default(),
    };
    let asked = Run {
        interpreter: &interpreter,
        arguments: &args.script,
        machine,
        watch,
        ranks: args.ranks(),
        sandbox: args.sandbox,
        silent: false,
        end: &end,
    };
    let cache = own_directory::cache(&interpreter);
    let outcome = asked.run(cache.as_deref(), folder.path()).map_err(Problem::from)?;
    let otherwise = again::otherwise(&asked, &outcome, cache.as_deref(), folder.path());
    let (outcome, asked, otherwise) = match otherwise {
        Some(Otherwise { outcome, assumed, error }) => {
            let named = format!("{}={}", assumed.0, assumed.1);
            let watch = Watch { assume: [assumed].into(), ..asked.watch.clone() };
            (outcome, Run { watch, ..asked }, Some((error, named)))
        }
        None => (outcome, asked, None),
    };
    let is_timing_open = args.timing().is_none();
    let late = is_timing_open.then(|| again::late(&asked, &outcome, cache.as_deref())).flatten();
    let late_after_first_step =
        late.as_ref().and_then(|_| again::late_after_first_step(&asked, &outcome, cache.as_deref()));
    let few = if args.assume.is_empty() { again::few(&asked, &outcome, cache.as_deref()) } else { None };
    let kinds = args.each_kind_of().and_then(|ranks| again::kinds(&asked, ranks, &outcome, cache.as_deref()));
    let outcome = kept(outcome, args)?;
    let status = status(&outcome, kinds.as_deref().unwrap_or_default());
    let main = outcome.processes.first().filter(|main| !recording(main).as_os_str().is_empty());
    let Some(main) = main else {
        return Err(nothing_recorded(&outcome, args, folder.path()).into());
    };
    let snapshot = read_snapshot(recording(main), SizeArgs::default())?;
    let mut analysis = analyse_with(&snapshot, StackClasses::new(&snapshot));
    // Of the cards of other ranks a process records that it looked at them.
    analysis.devices.retain(|device| main.devices.iter().any(|peaks| peaks.device == device.device));
    let width = if args.format == Format::Text { terminal_width() } else { None };
    let report = highwater_documents::report_but(&analysis, BTreeMap::new(), |_| false, crate::report::columns(width));
    let name = args.output.as_deref().map_or_else(|| "the dry run".to_owned(), short_name);
    let no_question = Asked { confs: &[], capacities: &[], cards: &[], torch: None, device: None };
    // Of the driver's own allocator there is nothing to run again.
    let simulated = no_question.answered(&analysis, &name, &SimulationBar::watch()).ok();
    let explained = (main.how == Ending::Oom)
        .then(|| explain::view_of_snapshot(&analysis, Some(&main.error), &name).ok())
        .flatten();
    let view = DryrunView::new(
        CardView {
            key: card.key,
            name: card.name,
            memory_bytes: args.memory.unwrap_or(card.memory_bytes),
            proven: card.proven,
        },
        args.gpus(),
        Runs {
            first: &outcome,
            main,
            otherwise: otherwise.as_ref().map(|(error, assumed)| OtherwiseView { error, assumed }),
            late: late.as_ref(),
            late_after_first_step: late_after_first_step.as_ref(),
            few: few.as_ref(),
            kinds: kinds.as_deref(),
        },
        &report,
        simulated.as_ref().map(|(_, view)| view),
        explained.as_ref(),
    );
    to_stdout(|out| match args.format {
        Format::Json => write_json(out, &view),
        Format::Text => text::write(&mut Lines::for_stdout(out), &view, &name, args.output.is_some()),
    })?;
    Ok(status)
}

fn card(name: &str) -> Result<&'static Card, Problem> {
    Card::named(name).ok_or_else(|| {
        Problem::new(format!("unknown GPU `{name}`"))
            .hint(format!("known: {}; `--memory` changes the size of one", Card::names()))
    })
}

fn check_output(args: &Args) -> Result<(), Problem> {
    match &args.output {
        Some(path) if !args.force && path.exists() => Err(exists(path)),
        _ => Ok(()),
    }
}

/// 0 if all is well, 1 if the GPU ran out of memory, 2 if the script failed, in any of its ranks.
fn status(outcome: &Outcome, kinds: &[Kind<Option<Process>>]) -> ExitCode {
    let others = || kinds.iter().filter_map(|kind| kind.found.as_ref());
    let ended = |how: Ending| outcome.processes.iter().chain(others()).any(|process| process.how == how);
    let all_ran = kinds.iter().all(|kind| kind.found.is_some());
    let all_ended_well = all_ran && others().all(|process| matches!(process.how, Ending::Exit | Ending::Steps));
    if ended(Ending::Oom) {
        ExitCode::from(CHECK_FAILED)
    } else if outcome.timed_out || !outcome.status.success() || !all_ended_well {
        ExitCode::from(BAD_INPUT)
    } else {
        ExitCode::SUCCESS
    }
}

fn nothing_recorded(outcome: &Outcome, args: &Args, folder: &Path) -> Problem {
    let script = Path::new(&args.script[usize::from(args.script.len() > 1 && args.script[0] == "-m")]).display();
    if let Some(why) = &outcome.unwritten {
        return Problem::new(format!("cannot write the recording of `{script}`: {}", printable(why)))
            .hint(format!("it goes to a folder in `{}`: set `TMPDIR` to another directory", parent(folder).display()));
    }
    if outcome.asked_to_end {
        return Problem::new(format!("a signal ended `{script}` before it wrote a recording"));
    }
    if outcome.timed_out {
        return Problem::new(format!("`{script}` took too long, without using CUDA"))
            .hint("give it more time with `--timeout`");
    }
    if outcome.status.success() {
        return Problem::new(format!("`{script}` has allocated nothing on a GPU"))
            .hint("it may choose the CPU: check its use of `torch.cuda.is_available()`, which is true in a dry run");
    }
    Problem::new(format!("`{script}` failed before it allocated anything on the GPU ({})", outcome.status))
        .hint("its own messages are above")
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Moves the recordings to where they are wanted: rank 0's to the file that is named, the others' beside it.
fn kept(mut outcome: Outcome, args: &Args) -> anyhow::Result<Outcome> {
    let Some(path) = &args.output else { return Ok(outcome) };
    for (index, process) in outcome.processes.iter_mut().enumerate() {
        let target = if index == 0 { path.clone() } else { beside(path, &name_of(process)) };
        let source = recording(process).to_owned();
        if source.as_os_str().is_empty() {
            continue;
        }
        move_file(&source, &target)
            .map_err(|error| Problem::new(format!("cannot write `{}`", target.display())).because(error))?;
        match &mut process.failed {
            Some(failed) if process.how == Ending::Oom => failed.snapshot = target,
            _ => process.snapshot = target,
        }
    }
    Ok(outcome)
}

/// The recording that tells what happened: that of the failed allocation, if it ended the process.
fn recording(process: &Process) -> &Path {
    match &process.failed {
        Some(failed) if process.how == Ending::Oom && !failed.snapshot.as_os_str().is_empty() => &failed.snapshot,
        _ => &process.snapshot,
    }
}

fn name_of(process: &Process) -> String {
    rank_name(process.rank, process.pid)
}

fn rank_name(rank: Option<u32>, pid: u32) -> String {
    rank.map_or_else(|| format!("pid{pid}"), |rank| format!("rank{rank}"))
}

/// `run.pickle` and `rank1` give `run.rank1.pickle`.
fn beside(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or_else(String::new, |extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}.{name}{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_of_other_ranks_lie_beside_the_first() {
        assert_eq!(beside(Path::new("a/run.pickle"), "rank3"), Path::new("a/run.rank3.pickle"));
        assert_eq!(beside(Path::new("run"), "pid7"), Path::new("run.pid7"));
    }
}
