//! `highwater run SCRIPT`: runs a Python script and records it, by the Python package.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use crate::error::Problem;
use crate::python::{check_script, interpreter};

/// Options of `highwater run`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  highwater run train.py --epochs 3
  highwater run -o runs/today.pickle -m my.training
  highwater run --driver train.py
  torchrun --nproc-per-node 2 -m highwater.autorecord --record job/ train.py")]
pub(crate) struct Args {
    /// The file to write, or a directory [default: highwater.pickle]
    #[arg(short, long, alias = "record", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Number of entries to keep [default: 300000]
    #[arg(long, value_name = "N")]
    max_entries: Option<u32>,
    /// Frames to record [default: python]
    #[arg(long, value_name = "WHICH", value_parser = ["python", "all", "none"])]
    stacks: Option<String>,
    /// Also record the driver's allocations, of every library of the process
    #[arg(long)]
    driver: bool,
    /// The interpreter that has torch and the package [default: the active environment's, else `python3`]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The script, or `-m` and a module, and its own arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCRIPT|-m MODULE")]
    script: Vec<OsString>,
}

/// Hands over to Python.
///
/// # Errors
/// If there is no interpreter, or it does not have the package.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check_script(&args.script, "run")?;
    let python = args.python.clone().unwrap_or_else(interpreter);
    check(&python)?;
    let mut command = Command::new(&python);
    command.args(["-m", "highwater.autorecord"]);
    if let Some(output) = &args.output {
        command.arg("--record").arg(output);
    }
    if let Some(entries) = args.max_entries {
        command.arg("--max-entries").arg(entries.to_string());
    }
    if let Some(stacks) = &args.stacks {
        command.arg("--stacks").arg(stacks);
    }
    if args.driver {
        command.arg("--driver");
    }
    Ok(become_it(command.args(&args.script)).map_err(|error| not_started(&python, &error))?)
}

/// Says if an interpreter cannot do it.
fn check(python: &PathBuf) -> Result<(), Problem> {
    let tried = Command::new(python)
        .args(["-c", "import highwater.autorecord"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| not_started(python, &error))?;
    if tried.success() {
        return Ok(());
    }
    let python = python.display();
    Err(Problem::new(format!("`{python}` does not have the Python package `highwater`")).hint(format!(
        "install it there with `{python} -m pip install highwater` (from a checkout of its source: `{python} -m pip install .`), \
         or name the interpreter that has it with `--python`"
    )))
}

fn not_started(python: &std::path::Path, error: &std::io::Error) -> Problem {
    Problem::new(format!("`{}` cannot be started", python.display()))
        .because(error)
        .hint("give the interpreter that has PyTorch with `--python`")
}

/// Python takes this process's place: signals and the exit status are its own.
#[cfg(unix)]
fn become_it(command: &mut Command) -> std::io::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

#[cfg(not(unix))]
fn become_it(command: &mut Command) -> std::io::Result<ExitCode> {
    let code = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
