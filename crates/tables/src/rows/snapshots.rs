use std::io;

use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// A file that was read.
    "snapshots" => Snapshot<'a>, by fill {
        /// The file, as it was named: the key of a snapshot in every table.
        file: &'a str,
        /// Bytes of pickle or JSON, decompressed.
        input_bytes: u64,
        /// How it was encoded, such as `pickle protocol 4`.
        encoding: &'a str,
        /// The kind of the profiler's file; null for a snapshot.
        profile: Option<&'a str>,
        /// Whether the input ended too early.
        is_cut: bool,
        /// The version of PyTorch that its keys show, or a span such as `2.10 to 2.11`.
        torch_version: &'a str,
        /// Whether that is one version for sure.
        torch_version_is_known: bool,
        /// Number of devices.
        devices: usize,
        /// Kinds of warnings about the file.
        warnings: usize,
        /// The answer of the report in one sentence.
        verdict: &'a str,
        /// The version of highwater that made the row.
        highwater_version: &'a str,
    }
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    let report = &recording.report;
    let row = Snapshot {
        file: &recording.id.file,
        input_bytes: report.source.bytes,
        encoding: &report.source.encoding,
        profile: report.source.profile,
        is_cut: report.source.is_cut,
        torch_version: &report.torch.version,
        torch_version_is_known: report.torch.known,
        devices: report.devices.len(),
        warnings: report.warnings.len(),
        verdict: &report.verdict,
        highwater_version: env!("CARGO_PKG_VERSION"),
    };
    row.send(rows)
}
