use std::io;

use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// A finding of the report. `highwater help ID` explains its kind.
    "findings" => Finding<'a>, by fill {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// Its place in the report of the device, from 0.
        position: usize,
        /// The word for its kind.
        id: &'a str,
        /// `error`, `warning` or `info`.
        severity: &'a str,
        /// The finding in one line.
        title: &'a str,
        /// The evidence.
        detail: &'a str,
        /// The saving of the change; null where it is not known.
        saving_bytes: Option<u64>,
        /// Whether the saving is an estimate.
        saving_is_estimated: bool,
        /// The advice.
        change: Option<&'a str>,
        /// The allocator's settings that it recommends.
        conf: Option<&'a str>,
    }
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    for view in &recording.report.devices {
        for (position, finding) in view.findings.iter().enumerate() {
            let row = Finding {
                file: &recording.id.file,
                device: view.device,
                position,
                id: finding.id,
                severity: finding.severity.name(),
                title: &finding.title,
                detail: &finding.detail,
                saving_bytes: finding.saving_bytes,
                saving_is_estimated: finding.estimated,
                change: finding.change.as_deref(),
                conf: finding.conf.as_deref(),
            };
            row.send(rows)?;
        }
    }
    Ok(())
}
