//! Folded stacks, as `flamegraph.pl` and `inferno-flamegraph` read them: `outer;…;inner bytes`.

use std::io::{self, Write};

use highwater_analysis::Analysis;
use highwater_answers::frames;
use highwater_answers::moment::Moment;

/// Writes a line for each stack that holds memory at the moment, largest first.
///
/// Several devices are told apart by an outermost frame `device N`.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, analysis: &Analysis, devices: &[u32], moment: Moment) -> io::Result<()> {
    let snapshot = analysis.snapshot;
    for device in devices.iter().filter_map(|&device| analysis.device(device)) {
        for holding in moment.holdings(analysis, device) {
            if devices.len() > 1 {
                write!(out, "device {};", device.device)?;
            }
            let frames = snapshot.stack(holding.stack).rev().map(|frame| frames::short(snapshot, frame));
            let parts: Vec<_> =
                frames.chain(holding.label.map(str::to_owned)).map(|part| part.replace(';', ",")).collect();
            writeln!(out, "{} {}", parts.join(";"), holding.bytes)?;
        }
    }
    Ok(())
}
