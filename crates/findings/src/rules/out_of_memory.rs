//! A request that failed.

use highwater_analysis::oom::{Cause, OutOfMemory};
use highwater_units::{count, counted, size};
use highwater_whatif::whole_step::whole_step;

use super::{Evidence, Finding, Severity};

pub(super) fn out_of_memory(evidence: &Evidence<'_>) -> Option<Finding> {
    let failures = &evidence.device.oom;
    let first = failures.first()?;
    let others = failures.len() - 1;
    let more = if others == 0 { String::new() } else { format!(", and {} more", counted(others, "time", "times")) };
    let title = format!("out of memory at entry {}{more}", count(first.entry.get()));
    let whole = whole_step(evidence.analysis, evidence.device, first);
    Some(Finding::new("oom", Severity::Error, title, format!("{}; {}", explain(first), whole.text())))
}

/// Why a request failed, in words.
pub fn explain(oom: &OutOfMemory) -> String {
    let asked = size(oom.requested_bytes);
    let reserved = size(oom.totals.reserved_bytes);
    let active = size(oom.totals.active_bytes);
    let unused = size(oom.unused_bytes());
    let free = oom.device_free_bytes.map_or_else(String::new, size);
    match oom.cause {
        Cause::Limit => format!(
            "{asked} was asked for with {reserved} reserved, and a limit on this process, of less than {}, refused it: \
             the device still had {free} free (`set_per_process_memory_fraction`, or `per_process_memory_fraction` in \
             the settings)",
            size(oom.totals.reserved_bytes.saturating_add(oom.segment_bytes))
        ),
        Cause::NeverFits => format!(
            "{asked} was asked for, more than this process could ever have had: {reserved} reserved and {free} free on the \
             device come to {}",
            size(oom.available_bytes().unwrap_or(0))
        ),
        Cause::Fragmentation => format!(
            "{asked} was asked for; {free} was free on the device, and {unused} of the {reserved} reserved was not in use, \
             but in no piece that could be handed out"
        ),
        Cause::Full if oom.unused_bytes() == 0 => {
            format!("{asked} was asked for with all of the {reserved} reserved in use, and {free} free on the device")
        }
        Cause::Full => format!(
            "{asked} was asked for with {active} in use; {free} was free on the device, and {unused} of the {reserved} \
             reserved was not in use"
        ),
        Cause::Unknown => format!("{asked} was asked for with {active} in use and {reserved} reserved"),
    }
}
