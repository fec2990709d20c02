//! Request programs and the logs of RMM, which `highwater simulate --requests` runs.

use highwater_allocator::program::{Options, Program, RmmLog, run, run_quietly};
use highwater_allocator::{AddressPolicy, TorchVersion};

/// The settings that a program is run with, one by the input's first byte.
const CONFS: [&str; 4] = [
    "",
    "expandable_segments:True",
    "garbage_collection_threshold:0.6,max_split_size_mb:21",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
];

/// A program is read or refused, and runs to its end or to a stated error; the first byte says on which machine. A run counts
/// the same with and without its trace.
pub fn requests(bytes: &[u8]) {
    let Some((&machine, text)) = bytes.split_first() else { return };
    let program = if RmmLog::recognises(text) {
        RmmLog::parse(text).ok().map(|log| {
            assert_eq!(log.lines.len(), log.program.ops.len(), "a line for each row");
            log.program
        })
    } else {
        Program::parse(text).ok()
    };
    let Some(program) = program else { return };
    let options = Options {
        torch: if machine & 4 == 0 { TorchVersion::NEWEST } else { TorchVersion::v2(6) },
        conf: CONFS[usize::from(machine & 3)].to_owned(),
        capacity_bytes: if machine & 8 == 0 { 16 << 30 } else { 1 << 50 },
        outside_bytes: 0,
        addresses: if machine & 16 == 0 { AddressPolicy::Driver } else { AddressPolicy::FirstFit },
        stop_on_oom: false,
    };
    match (run(&program, &options), run_quietly(&program, &options)) {
        (Ok(run), Ok(statistics)) => assert_eq!(run.statistics, statistics),
        (run, quiet) => assert_eq!(run.err(), quiet.err()),
    }
}
