//! `highwater simulate --requests`: a request program on one device or on several.

use std::path::Path;

use anyhow::Context as _;
use highwater_allocator::program::{self, Options, Run, RunError, Summary};
use highwater_allocator::settings::Backend;
use highwater_allocator::{AddressPolicy, ConfError, Settings, TorchVersion};
use highwater_analysis::parallel;
use highwater_documents::requests::{ProgramView, RequestsView, RunView, TorchView, Warning};
use highwater_problem::Explained as _;

use super::Args;
use super::program_file::{ProgramFile, address_policy};
use super::requests_view;
use crate::args::FormatToPaste;
use crate::error::Problem;
use crate::input::{name, short_name};
use crate::output::{self, exists, is_stdout, write_to};
use crate::units::{count, size};

/// The device's memory where none is given: as in the oracle.
const DEFAULT_CAPACITY_BYTES: u64 = 16 << 30;
/// More memory than any device will have; beyond it addresses would run out of numbers.
const MAX_CAPACITY_BYTES: u64 = 1 << 50;

/// The driver's own rule, and others that show what it may decide: a program with kernels gets other addresses.
const PLAUSIBLE: [AddressPolicy; 5] = [
    AddressPolicy::Driver,
    AddressPolicy::FirstFit,
    AddressPolicy::Descending,
    AddressPolicy::Bump,
    AddressPolicy::Random(1),
];

/// Runs the program of `file`, and prints or writes what came of it.
///
/// # Errors
/// If the program, the settings or an option is bad, PyTorch itself would break, or an output cannot be written.
pub(super) fn run(args: &Args, file: &Path) -> anyhow::Result<()> {
    let machines = machines(args)?;
    check_outputs(args, machines.len())?;
    let mut warnings = Vec::new();
    for conf in confs(args) {
        check_settings(conf, torch(args), &mut warnings)?;
    }
    let policy = args.requests.va.as_ref().map(address_policy).transpose()?;
    let program = ProgramFile::read(file, args.size)?;
    warnings.extend(program.log.iter().flat_map(|log| log.warnings.iter().cloned()));
    let failed = |(machine, error)| explain(&program, file, &machines, machine, error);
    let writes = args.requests.outputs().next().is_some();
    if let (true, [machine]) = (writes, &machines[..]) {
        let options = Options { addresses: policy.clone().unwrap_or_default(), ..machine.clone() };
        let run = program::run(&program.program, &options).map_err(|error| failed((0, error)))?;
        warnings.extend(unscripted(run.unscripted_ranges));
        write_files(args, &run)?;
    }
    // Whoever has the files has the answer; a summary beside them is for programs that ask for it.
    if !writes || (args.format == FormatToPaste::Json && !args.requests.outputs().any(|(_, path)| is_stdout(path))) {
        let summaries = summaries(&program, &machines, policy.as_ref()).map_err(failed)?;
        if !writes {
            let ranges = summaries.iter().flatten().map(|summary| summary.unscripted_ranges);
            warnings.extend(unscripted(ranges.max().unwrap_or(0)));
        }
        let runs = machines.iter().zip(&summaries);
        let runs =
            runs.map(|(machine, runs)| RunView::new(machine, &runs[0], &runs[1..], |op| program.line(op))).collect();
        let chosen_by = if args.torch.is_some() { "flag" } else { "default" };
        let torch = TorchView { version: torch(args).to_string(), chosen_by };
        let addresses = policy.unwrap_or_default().to_string();
        let kind = if program.log.is_some() { "rmm-log" } else { "requests" };
        let read = ProgramView { kind, rows: program.program.ops.len() };
        let view = RequestsView::new(read, torch, addresses, runs, warnings.clone());
        output::print(args.format, &view, |_| requests_view::document(&view, &short_name(file)))?;
    }
    requests_view::print_warnings(&warnings).context("cannot write to standard error")
}

/// That a script of addresses did not suffice.
fn unscripted(ranges: u64) -> Option<Warning> {
    let message = "a range was not in the script of addresses and got another address".to_owned();
    (ranges > 0).then_some(Warning { id: "unscripted", message, count: ranges, line: None })
}

fn torch(args: &Args) -> TorchVersion {
    args.torch.unwrap_or(TorchVersion::NEWEST)
}

fn confs(args: &Args) -> Vec<&str> {
    if args.conf.is_empty() { vec![""] } else { args.conf.iter().map(String::as_str).collect() }
}

/// Each settings string on each capacity, in the order given.
fn machines(args: &Args) -> Result<Vec<Options>, Problem> {
    let capacities = if args.capacity.is_empty() { &[DEFAULT_CAPACITY_BYTES][..] } else { &args.capacity };
    if let Some(&most) = capacities.iter().max().filter(|&&most| most > MAX_CAPACITY_BYTES) {
        let limit = size(MAX_CAPACITY_BYTES);
        return Err(Problem::new(format!("`--capacity` is {}, expected at most {limit}", size(most))));
    }
    let machine = |conf: &str, capacity_bytes| Options {
        torch: torch(args),
        conf: conf.to_owned(),
        capacity_bytes,
        outside_bytes: args.requests.outside,
        addresses: AddressPolicy::default(),
        stop_on_oom: args.requests.stop_on_oom,
    };
    let pairs = confs(args).into_iter().flat_map(|conf| capacities.iter().map(move |&capacity| (conf, capacity)));
    Ok(pairs.map(|(conf, capacity)| machine(conf, capacity)).collect())
}

/// Before anything is run: whether the files can be written that shall be.
fn check_outputs(args: &Args, runs: usize) -> Result<(), Problem> {
    for (option, path) in args.requests.outputs() {
        if runs > 1 {
            return Err(Problem::new(format!("`{option}` writes one run, but there are {}", count(runs)))
                .hint("give one `--conf` and one `--capacity` at most"));
        }
        if !args.requests.force && !is_stdout(path) && path.exists() {
            return Err(exists(path));
        }
    }
    Ok(())
}

fn check_settings(conf: &str, torch: TorchVersion, warnings: &mut Vec<Warning>) -> Result<(), Problem> {
    let mut settings = Settings::new(torch);
    settings.parse(conf).map_err(|error| refused(&format!("the settings `{conf}`"), torch, &error))?;
    if settings.backend == Backend::CudaMallocAsync {
        return Err(Problem::new("`backend:cudaMallocAsync` cannot be simulated")
            .because("the driver's own pools then serve the requests: they have no blocks, and their rules are unknown")
            .hint("leave the backend out, or write `backend:native`"));
    }
    for message in settings.remarks().iter().map(ToString::to_string) {
        if !warnings.iter().any(|known| known.message == message) {
            warnings.push(Warning { id: "settings", message, count: 1, line: None });
        }
    }
    Ok(())
}

fn refused(what: &str, torch: TorchVersion, error: &ConfError) -> Problem {
    Problem::new(format!("torch {torch} refuses {what}")).because(error).hinted(error.hint())
}

/// For each machine the run under the policy; where none was asked for, a run under each plausible one.
///
/// # Errors
/// Of the first run that cannot be run to its end, with the number of its machine.
fn summaries(
    program: &ProgramFile,
    machines: &[Options],
    policy: Option<&AddressPolicy>,
) -> Result<Vec<Vec<Summary>>, (usize, RunError)> {
    let policies = policy.map_or(&PLAUSIBLE[..], std::slice::from_ref);
    let jobs: Vec<_> =
        (0..machines.len()).flat_map(|machine| policies.iter().map(move |policy| (machine, policy))).collect();
    let outcomes = parallel::map(&jobs, |&(machine, policy)| {
        let options = Options { addresses: policy.clone(), ..machines[machine].clone() };
        program::summarise(&program.program, &options).map_err(|error| (machine, error))
    });
    let mut outcomes = outcomes.into_iter();
    let of_machine = |_| outcomes.by_ref().take(policies.len()).collect::<Result<Vec<_>, _>>();
    machines.iter().map(of_machine).collect()
}

fn write_files(args: &Args, run: &Run) -> anyhow::Result<()> {
    for (option, path) in args.requests.outputs() {
        let csv = match option {
            "--events" => run.events_csv(),
            "--blocks" => run.blocks_csv(),
            _ => run.stats_csv(),
        };
        write_to(path, args.requests.force, |out| std::io::Write::write_all(out, csv.as_bytes()))?;
    }
    Ok(())
}

/// Why a program could not be run to its end.
fn explain(file: &ProgramFile, path: &Path, machines: &[Options], machine: usize, error: RunError) -> Problem {
    let (path, machine) = (name(path), &machines[machine]);
    let torch = machine.torch;
    match error {
        RunError::Settings(error) => refused(&format!("the settings `{}`", machine.conf), torch, &error),
        RunError::SettingsOfRow { op, error } => {
            refused(&format!("the settings of {}, {path}", file.place(op)), torch, &error)
        }
        RunError::PoolCreate { op } => {
            Problem::new(format!("{path}: {}: torch {torch} has no `pool_create`", file.place(op)))
                .hint("run it with `--torch 2.11` or newer")
        }
        RunError::Undefined { op, reason } => {
            let hint = match (machines, machine.conf.as_str()) {
                ([_], _) => "PyTorch's further behaviour is undefined, so there is no result".to_owned(),
                (_, "") => format!("this happens with PyTorch's default settings on {}", size(machine.capacity_bytes)),
                (_, conf) => format!("this happens with the settings `{conf}` on {}", size(machine.capacity_bytes)),
            };
            Problem::new(format!("{path}: {}: PyTorch itself would fail here", file.place(op)))
                .because(reason)
                .hint(hint)
        }
        error => Problem::new(format!("{path} cannot be run")).because(error),
    }
}
