//! A request that failed.

use highwater_units::{count, counted};

use super::{Evidence, Finding, Severity};
use crate::explain::why;

pub(super) fn out_of_memory(evidence: &Evidence<'_>) -> Option<Finding> {
    let failures = &evidence.device.oom;
    let first = failures.first()?;
    let others = failures.len() - 1;
    let more = if others == 0 { String::new() } else { format!(", and {} more", counted(others, "time", "times")) };
    let title = format!("out of memory at entry {}{more}", count(first.entry.get()));
    let why = why(evidence.analysis, evidence.device, first);
    let whole = why.whole_step.map_or_else(String::new, |whole| format!("; {}", whole.text()));
    Some(Finding::new("oom", Severity::Error, title, format!("{}{whole}", why.diagnosis.text)))
}
