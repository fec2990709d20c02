//! One moment of the trace, and the stacks that hold memory then.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::str::FromStr;

use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_problem::Problem;
use highwater_snapshot::{EntryId, StackId};

/// When to look at the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// When the most bytes were allocated.
    #[default]
    Peak,
    /// At the dump.
    End,
    /// At the first request that failed.
    Oom,
    /// After this entry.
    After(u32),
}

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "peak" => Ok(Self::Peak),
            "end" => Ok(Self::End),
            "oom" => Ok(Self::Oom),
            _ => text
                .replace(['_', ','], "")
                .parse()
                .map(Self::After)
                .map_err(|_| "expected the number of an entry, `peak`, `oom` or `end`"),
        }
    }
}

/// The bytes that the allocations of one stack hold.
pub struct Holding {
    /// Their stack.
    pub stack: StackId,
    /// What to say where the stack has no frames.
    pub label: Option<&'static str>,
    /// Requested bytes.
    pub bytes: u64,
}

impl Moment {
    /// Those of the devices that have this moment: for `oom` the ones on which a request failed, else all.
    ///
    /// # Errors
    /// If none of the devices has the entry that is named, or no request failed on them.
    pub fn devices(self, analysis: &Analysis, devices: &[u32]) -> Result<Vec<u32>, Problem> {
        let shown = || devices.iter().filter_map(|&device| analysis.device(device));
        let entry = match self {
            Self::Peak | Self::End => return Ok(devices.to_vec()),
            Self::Oom => {
                let failed = shown().filter(|device| !device.oom.is_empty());
                let failed: Vec<u32> = failed.map(|device| device.device).collect();
                return if failed.is_empty() { Err(no_failure()) } else { Ok(failed) };
            }
            Self::After(entry) => entry,
        };
        if shown().any(|device| EntryId::new(entry).index() < device.entries.len()) {
            return Ok(devices.to_vec());
        }
        let hints = shown().map(|device| match device.entries.len().checked_sub(1) {
            Some(last) => format!("device {} has entries 0 to {last}", device.device),
            None => format!("device {} has no entries; `--at end` shows the state at the dump", device.device),
        });
        Err(Problem::new(format!("there is no entry {entry}")).hint(hints.collect::<Vec<_>>().join("; ")))
    }

    /// The entry after which this moment is; `None` before the first one. Of several devices each has as many entries as
    /// it has: a shorter trace is at its end.
    pub fn entry(self, device: &DeviceAnalysis) -> Option<EntryId> {
        match self {
            Self::Peak => device.peak().entry,
            Self::End => device.entries.ids().next_back(),
            Self::Oom => device.oom.first().map(|event| event.entry),
            Self::After(entry) => device.entries.ids().next_back().map(|last| last.min(EntryId::new(entry))),
        }
    }

    /// The moment in words: `at the peak, entry 590`.
    pub fn describe(self, device: &DeviceAnalysis) -> String {
        let when = match self {
            Self::Peak => "at the peak",
            Self::End => "at the end",
            Self::Oom => "at the out-of-memory error",
            Self::After(_) => "live",
        };
        match self.entry(device) {
            Some(entry) => format!("{when}, after entry {}", entry.get()),
            None if device.entries.is_empty() => "at the dump".to_owned(),
            None => format!("{when}, before the first entry"),
        }
    }

    /// What is active at this moment, by stack, largest first.
    ///
    /// The sum is the device's requested bytes at that moment.
    pub fn holdings(self, analysis: &Analysis, device: &DeviceAnalysis) -> Vec<Holding> {
        let mut bytes: HashMap<(StackId, Option<&'static str>), u64> = HashMap::new();
        for lifetime in device.live(self.entry(device)) {
            let label = device.site(lifetime, &analysis.sites).absence();
            let sum = bytes.entry((lifetime.stack, label)).or_default();
            *sum = sum.saturating_add(lifetime.requested_bytes);
        }
        let mut holdings: Vec<_> =
            bytes.into_iter().map(|((stack, label), bytes)| Holding { stack, label, bytes }).collect();
        holdings.sort_unstable_by_key(|holding| (Reverse(holding.bytes), holding.stack, holding.label));
        holdings
    }
}

fn no_failure() -> Problem {
    Problem::new("no request failed in the recording").hint("`peak` and `end` are moments of every recording")
}
