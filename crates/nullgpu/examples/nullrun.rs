//! Runs a program over the null GPU: `nullrun SITE_PACKAGES CORE STUBS CARD PROGRAM ARGUMENT…`. `NULLRUN_DEVICES` says how many
//! cards there are, `NULLRUN_TRACE` names a file for traces.

use std::path::Path;
use std::process::{Command, ExitCode};

use highwater_driver::Card;
use highwater_nullgpu::{Machine, prepare};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [site_packages, core, stubs, card, program, rest @ ..] = arguments.as_slice() else {
        return Err("usage: nullrun SITE_PACKAGES CORE STUBS CARD PROGRAM ARGUMENT…".into());
    };
    let prepared = prepare(Path::new(site_packages), &[], Path::new(core), Path::new(stubs))?;
    let card = card.to_str().and_then(Card::named).ok_or("no such card")?;
    let trace = std::env::var_os("NULLRUN_TRACE").map(Into::into);
    let devices = std::env::var("NULLRUN_DEVICES").ok().and_then(|count| count.parse().ok()).unwrap_or(1);
    let machine = Machine { trace, devices, ..Machine::new(card) };
    let status = Command::new(program)
        .args(rest)
        .env_remove("CUDA_VISIBLE_DEVICES")
        .envs(prepared.environment(&machine, std::env::var_os("LD_PRELOAD")))
        .status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
