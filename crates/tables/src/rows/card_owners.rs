use std::io;

use crate::declaration::table;
use crate::{Recording, Rows};

table! {
    /// The owners of a GPU's memory at the peak of the whole GPU, if the driver was recorded: PyTorch's segments, each
    /// library, code, the context.
    "card_owners" => CardOwner<'a>, by fill {
        /// The snapshot.
        file: &'a str,
        /// CUDA ordinal.
        device: u32,
        /// Its kind: `pytorch`, `library`, `code`, `kernels`, `graphs`, `streams`, `context`, `managed`, `pinned`,
        /// `unexplained`.
        role: &'a str,
        /// The library; null where the role says it.
        library: Option<&'a str>,
        /// Bytes; negative if more was freed than the recording saw allocated.
        bytes: i64,
        /// Whether it counts in the process's memory on the GPU.
        counts: bool,
        /// Live allocations, or changes that were measured.
        allocations: usize,
        /// The GPU memory that the process uses at that moment.
        card_bytes: u64,
    }
}

fn fill(recording: &Recording<'_>, rows: &mut Rows<'_>) -> io::Result<()> {
    for card in recording.report.driver.iter().flat_map(|driver| &driver.cards) {
        let Ok(device) = u32::try_from(card.device) else { continue };
        for owner in &card.peak.owners {
            let row = CardOwner {
                file: &recording.id.file,
                device,
                role: owner.role,
                library: Some(owner.library.as_str()).filter(|library| !library.is_empty()),
                bytes: owner.bytes,
                counts: owner.counts,
                allocations: owner.allocations,
                card_bytes: card.peak.bytes,
            };
            row.send(rows)?;
        }
    }
    Ok(())
}
