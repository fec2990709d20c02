use std::io;

use super::place::Places;
use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// A call site whose allocations stay, iteration after iteration: a leak shows here.
    "growth" => Growth<'a>, by fill {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// The line, or node of autograd, that stands for its stacks.
        call_site: &'a str,
        /// The program's own line, where `call_site` is a library's.
        called_from: Option<&'a str>,
        /// Mean requested bytes left behind per iteration.
        per_iteration_bytes: u64,
        /// Requested bytes left behind by all counted iterations.
        left_bytes: u64,
        /// Allocations left behind.
        allocations: u64,
        /// Iterations that left something.
        iterations: usize,
        /// Iterations that were counted.
        counted_iterations: usize,
    }
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    let mut places = Places::new(recording.analysis);
    for device in &recording.analysis.devices {
        for growth in &device.growth {
            let place = places.of(growth.site, growth.stack);
            let row = Growth {
                file: &recording.id.file,
                device: device.device,
                call_site: &place.call_site,
                called_from: place.called_from.as_deref(),
                per_iteration_bytes: growth.bytes_per_iteration(),
                left_bytes: growth.bytes,
                allocations: growth.count,
                iterations: growth.iterations,
                counted_iterations: growth.counted,
            };
            row.send(rows)?;
        }
    }
    Ok(())
}
