//! Where a message and a snapshot that are given together do not tell of one failure.

use highwater_allocator::message::Size;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::oom::{Cause, OutOfMemory};
use highwater_oom::Message;
use highwater_units::{count, size};

/// What a message says otherwise than the entry of a device that it fits best; empty if they agree.
pub fn disagreements(message: &Message, device: &DeviceAnalysis<'_>) -> Vec<String> {
    let compared = device.oom.iter().map(|event| compared(message, device, event));
    let Some(fewest) = compared.min_by_key(Vec::len) else {
        return vec![format!(
            "the message reports a failed request, but the snapshot has no `oom` entry on device {}: it was written \
             earlier, or by another process",
            device.device
        )];
    };
    fewest
}

/// The entry that a message fits best.
pub(super) fn best<'a>(message: &Message, device: &'a DeviceAnalysis<'_>) -> Option<&'a OutOfMemory> {
    device.oom.iter().min_by_key(|event| compared(message, device, event).len())
}

fn compared(message: &Message, device: &DeviceAnalysis<'_>, event: &OutOfMemory) -> Vec<String> {
    let entry = format!("entry {}", count(event.entry.get()));
    let totals = event.totals;
    let mut differences = Vec::new();
    let mut compare = |what: &str, said: Option<u64>, is: Option<u64>| {
        if let (Some(said), Some(is)) = (said, is)
            && !prints_alike(said, is)
        {
            differences.push(format!("{what}: {} in the message, {} at {entry} of the snapshot", size(said), size(is)));
        }
    };
    compare("requested from the driver", message.tried_bytes, Some(event.segment_bytes));
    compare("free on the GPU", message.free_bytes, event.device_free_bytes);
    let is_exact = totals.allocated_doubt_bytes == 0 && device.recorded.from_start;
    let private = message.private_bytes.unwrap_or(0);
    let allocated = message.allocated_bytes.map(|bytes| bytes.saturating_sub(private));
    // The difference of two printed amounts is no printed amount.
    compare("allocated by PyTorch", allocated.filter(|_| is_exact && private == 0), Some(totals.allocated_bytes));
    let reserved = message.reserved_bytes.filter(|_| !message.reserved_is_cached);
    compare("reserved by PyTorch", reserved, Some(totals.reserved_bytes));
    if let Some(device_said) = message.device
        && device_said != device.device
    {
        differences.push(format!("the device: {device_said} in the message, {} in the snapshot", device.device));
    }
    if event.cause == Cause::Limit
        && let Some(limit) = message.limit_bytes
    {
        let (at_least, refused) = event.limit_bytes(device.timeline.reserved_peak().bytes);
        let slack = limit / 500;
        if limit.saturating_add(slack) < at_least || limit > refused.saturating_add(slack) {
            differences.push(format!(
                "the limit: {} in the message, between {} and {} at {entry} of the snapshot",
                size(limit),
                size(at_least),
                size(refused)
            ));
        }
    }
    differences
}

/// Whether a printed amount may be that of a number.
fn prints_alike(said: u64, is: u64) -> bool {
    // Half a hundredth of the unit that PyTorch prints it in, and a byte for rounding.
    let unit: u64 = match is {
        0..=0x400 => 1,
        0x401..=0x10_0000 => 1 << 10,
        0x10_0001..=0x4000_0000 => 1 << 20,
        _ => 1 << 30,
    };
    said.abs_diff(is) <= unit / 200 + 1 || Size(said).to_string() == Size(is).to_string()
}
