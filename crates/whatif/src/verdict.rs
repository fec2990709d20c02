//! The answer in one sentence, with what proves it.

use highwater_allocator::Memory;
use highwater_analysis::device::DeviceAnalysis;
use highwater_analysis::oom::Cause;
use highwater_snapshot::EntryId;
use highwater_units::{count, size};

use super::fit::Fit;
use super::study::Study;

/// A peak this much higher is an alarm: in percent of the recording's own.
const ALARM_PERCENT: u64 = 110;
/// A need this much lower is worth a setting: in percent of the recording's own.
const WORTHWHILE_PERCENT: u64 = 98;
/// Settings whose needs are this close, in percent of the recording's own, differ by what they reserve without a limit.
const ALIKE_PERCENT: u64 = 2;

/// What the verdict says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// More was live than there was memory: no allocator can help.
    Impossible,
    /// A setting would have saved the run.
    Saved,
    /// None of the settings that were tried would have.
    NotSaved,
    /// A setting needs less memory.
    Better,
    /// None needs noticeably less.
    Optimal,
}

impl Kind {
    /// The word of the JSON document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Impossible => "impossible",
            Self::Saved => "saved",
            Self::NotSaved => "not-saved",
            Self::Better => "better",
            Self::Optimal => "optimal",
        }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it says.
    pub kind: Kind,
    /// The sentence.
    pub text: String,
    /// The settings that it recommends.
    pub conf: Option<String>,
    /// The memory that the answer is about.
    pub capacity_bytes: Option<u64>,
    /// What is left of it under these settings.
    pub spare_bytes: Option<u64>,
    /// The entry at which most was live.
    pub entry: Option<EntryId>,
    /// What was live there.
    pub live_bytes: u64,
}

/// A setting that makes a program worse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The settings.
    pub conf: String,
    /// The recording's own peak of reserved memory, with memory without end.
    pub own_reserved_bytes: u64,
    /// The peak under these settings.
    pub reserved_bytes: u64,
}

/// What the allocator could have had when a request failed.
struct Capacity {
    /// It held this much at some time, so it could have had it.
    at_least: u64,
    /// It was refused this much.
    less_than: u64,
    /// A limit refused it, or what refused it is not known; else the device itself.
    is_limit: bool,
    /// It is asked what so much memory would do: nothing failed.
    is_supposed: bool,
}

impl Capacity {
    fn at_failure(device: &DeviceAnalysis<'_>) -> Option<Self> {
        let event = device.oom.first()?;
        Some(match (event.cause, event.available_bytes()) {
            (Cause::Limit, _) | (_, None) => {
                let (at_least, less_than) = event.limit_bytes(device.timeline.reserved_peak().bytes);
                Self { at_least, less_than, is_limit: true, is_supposed: false }
            }
            (_, Some(available)) => Self {
                at_least: available,
                less_than: available.saturating_add(1),
                is_limit: false,
                is_supposed: false,
            },
        })
    }

    /// So much, as a limit.
    fn of(bytes: u64, is_supposed: bool) -> Self {
        Self { at_least: bytes, less_than: bytes.saturating_add(1), is_limit: true, is_supposed }
    }

    /// In words that follow "there was".
    fn described(&self) -> String {
        if self.is_limit && self.less_than > self.at_least.saturating_add(1) {
            format!("at least {} and less than {}", size(self.at_least), size(self.less_than))
        } else {
            size(self.at_least)
        }
    }
}

/// What the allocator could have held when the first request failed: the least that is certain.
pub fn capacity_at_failure(device: &DeviceAnalysis<'_>) -> Option<u64> {
    Capacity::at_failure(device).map(|capacity| capacity.at_least)
}

/// Whether settings reserve much more than the recording's own where there is no limit.
fn is_alarming(fit: &Fit, own: &Fit) -> bool {
    fit.ample_reserved_bytes > own.ample_reserved_bytes / 100 * ALARM_PERCENT
}

/// The row to recommend: one that is safe without a limit if there is any; of those the one that needs least under a
/// limit, and of those that need about as little, the one that reserves least without.
fn recommended<'t>(rows: &[&'t Fit], own: &Fit) -> Option<&'t Fit> {
    let any_is_safe = rows.iter().any(|fit| !is_alarming(fit, own));
    let eligible = || rows.iter().copied().filter(|fit| !any_is_safe || !is_alarming(fit, own));
    let least = eligible().map(|fit| fit.min_capacity_any_order_bytes).min()?;
    let most = least.saturating_add(own.min_capacity_any_order_bytes / 100 * ALIKE_PERCENT);
    eligible()
        .filter(|fit| fit.min_capacity_any_order_bytes <= most)
        .min_by_key(|fit| (fit.ample_reserved_bytes, fit.min_capacity_any_order_bytes))
}

/// What settings reserve without a limit, beside the recording's own: the number that users know from their own
/// reports.
fn reserved_at_the_peak(fit: &Fit, own: &Fit) -> String {
    let (bytes, own_bytes) = (size(fit.ample_reserved_bytes), size(own.ample_reserved_bytes));
    if bytes == own_bytes {
        format!("reserves {bytes} at its peak, as before")
    } else {
        format!("reserves {bytes} at its peak instead of {own_bytes}")
    }
}

impl Study {
    /// Settings under which the program holds much more than it did; what the verdict recommends is none of them, for
    /// it weighs both.
    pub fn alarms(&self, table: &[Fit], verdict: &Verdict) -> Vec<Alarm> {
        let Some(own) = table.first() else { return Vec::new() };
        let worse = table.iter().filter(|fit| is_alarming(fit, own) && verdict.conf.as_ref() != Some(&fit.conf));
        worse
            .map(|fit| Alarm {
                conf: fit.conf.clone(),
                own_reserved_bytes: own.ample_reserved_bytes,
                reserved_bytes: fit.ample_reserved_bytes,
            })
            .collect()
    }

    /// The answer to the user's question: whether a setting would have saved this run, or how little it could do with.
    pub fn verdict(&self, device: &DeviceAnalysis<'_>, table: &[Fit]) -> Verdict {
        match Capacity::at_failure(device) {
            Some(capacity) => self.verdict_on_failure(&capacity, table),
            None => self.verdict_on_need(table),
        }
    }

    /// As [`verdict`](Self::verdict), for a run that had so much memory, as a limit.
    pub fn verdict_within(&self, capacity_bytes: u64, table: &[Fit]) -> Verdict {
        self.verdict_on_failure(&Capacity::of(capacity_bytes, false), table)
    }

    /// As [`verdict_within`](Self::verdict_within), where it is only asked what so much memory would do.
    pub fn verdict_supposing(&self, capacity_bytes: u64, table: &[Fit]) -> Verdict {
        self.verdict_on_failure(&Capacity::of(capacity_bytes, true), table)
    }

    fn blank(&self, kind: Kind, text: String) -> Verdict {
        Verdict {
            kind,
            text,
            conf: None,
            capacity_bytes: None,
            spare_bytes: None,
            entry: self.live.entry,
            live_bytes: self.live.bytes,
        }
    }

    fn verdict_on_failure(&self, capacity: &Capacity, table: &[Fit]) -> Verdict {
        let live = size(self.live.bytes);
        if self.live.bytes >= capacity.less_than {
            let at = self.live.entry.map_or_else(String::new, |entry| format!(" at entry {}", count(entry.index())));
            let there = if capacity.is_supposed { "there is only" } else { "there was" };
            let text = format!(
                "no allocator setting can fix this:{at} the program needs {live} at once, and {there} {}",
                capacity.described()
            );
            return Verdict { capacity_bytes: Some(capacity.less_than), ..self.blank(Kind::Impossible, text) };
        }
        let fitting = table.iter().filter(|fit| fit.min_capacity_any_order_bytes <= capacity.at_least);
        let fitting: Vec<&Fit> = fitting.collect();
        match table.first().and_then(|own| Some((own, recommended(&fitting, own)?))) {
            Some((own, fit)) => {
                let spare = capacity.at_least - fit.min_capacity_any_order_bytes;
                let price = if is_alarming(fit, own) {
                    format!("; this needs a memory limit: without one it {}", reserved_at_the_peak(fit, own))
                } else {
                    String::new()
                };
                let text = format!(
                    "{} {} the request that {}, with {} to spare{price}",
                    named(&fit.conf),
                    if capacity.is_supposed { "serves" } else { "would have served" },
                    if capacity.is_supposed { "fails" } else { "failed" },
                    size(spare)
                );
                Verdict {
                    conf: Some(fit.conf.clone()),
                    capacity_bytes: Some(capacity.at_least),
                    spare_bytes: Some(spare),
                    ..self.blank(Kind::Saved, text)
                }
            }
            None => {
                let text = if capacity.is_supposed {
                    format!("no setting is certain to fit in {}: {live} is live at once", capacity.described())
                } else {
                    format!(
                        "no setting is certain to have saved this run: it needs {live} at once, and there was {}",
                        capacity.described()
                    )
                };
                Verdict { capacity_bytes: Some(capacity.at_least), ..self.blank(Kind::NotSaved, text) }
            }
        }
    }

    fn verdict_on_need(&self, table: &[Fit]) -> Verdict {
        let Some(own) = table.first() else {
            return self.blank(Kind::Optimal, "nothing was allocated".to_owned());
        };
        let own_bytes = own.min_capacity_any_order_bytes;
        let is_less = |bytes: u64, own: u64| bytes <= own / 100 * WORTHWHILE_PERCENT;
        // Under a limit what is needed counts; without one, what is reserved. Neither may become worse for the other.
        let under_a_limit = |fit: &&Fit| is_less(fit.min_capacity_any_order_bytes, own_bytes);
        let without_one = |fit: &&Fit| {
            is_less(fit.ample_reserved_bytes, own.ample_reserved_bytes) && fit.min_capacity_any_order_bytes <= own_bytes
        };
        let is_safe = |fit: &&Fit| !is_alarming(fit, own);
        let better: Vec<&Fit> =
            table.iter().filter(is_safe).filter(|fit| under_a_limit(fit) || without_one(fit)).collect();
        if let Some(best) = recommended(&better, own) {
            let best_bytes = best.min_capacity_any_order_bytes;
            let reserved = reserved_at_the_peak(best, own);
            let text = if under_a_limit(&best) {
                format!(
                    "{} {reserved}; under a limit, {} is enough instead of {}",
                    named(&best.conf),
                    size(best_bytes),
                    size(own_bytes)
                )
            } else {
                format!("{} {reserved}, and needs no more memory under a limit", named(&best.conf))
            };
            return Verdict {
                conf: Some(best.conf.clone()),
                capacity_bytes: Some(best_bytes),
                spare_bytes: Some(own_bytes - best_bytes),
                ..self.blank(Kind::Better, text)
            };
        }
        let text = match table.iter().filter(under_a_limit).min_by_key(|fit| fit.min_capacity_any_order_bytes) {
            // Only settings that are a danger without a limit need less under one.
            Some(_) => format!("{} is enough, and no setting tried needs less without a risk", size(own_bytes)),
            None => {
                format!("already optimal: {} is enough, and no setting tried needs noticeably less", size(own_bytes))
            }
        };
        Verdict { capacity_bytes: Some(own_bytes), ..self.blank(Kind::Optimal, text) }
    }

    /// The memory that there was when a recorded request failed, as far as it is certain: under a limit that was, in a
    /// run, exactly what the allocator could hold.
    pub fn memory_at_failure(&self, device: &DeviceAnalysis<'_>) -> Option<Memory> {
        Capacity::at_failure(device).map(|capacity| match capacity {
            Capacity { at_least, is_limit: true, .. } => Memory::Limit(at_least),
            Capacity { at_least, .. } => Memory::Card { total_bytes: at_least, outside_bytes: 0 },
        })
    }

    /// What can be said of a capacity before anything is run: more is live than it holds.
    pub fn is_impossible(&self, memory: Memory) -> bool {
        memory.capacity_bytes().is_some_and(|capacity| self.live.bytes > capacity)
    }
}

/// Settings as one reads them.
pub fn named(conf: &str) -> String {
    if conf.is_empty() { "the default settings".to_owned() } else { format!("`{conf}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn fit(conf: &str, needs_gib: u64, unlimited_gib: u64) -> Fit {
        Fit {
            conf: conf.to_owned(),
            min_capacity_bytes: needs_gib * GIB,
            min_capacity_any_order_bytes: needs_gib * GIB,
            num_alloc_retries: 0,
            ample_reserved_bytes: unlimited_gib * GIB,
            ample_device_allocs: 0,
            cards: Vec::new(),
        }
    }

    fn chosen(rows: &[Fit]) -> Option<&str> {
        let rows: Vec<&Fit> = rows.iter().collect();
        recommended(&rows, rows[0]).map(|fit| fit.conf.as_str())
    }

    #[test]
    fn what_is_safe_without_a_limit_comes_before_what_needs_least_under_one() {
        let table = [fit("", 150, 190), fit("expandable", 136, 155), fit("split", 134, 247)];
        assert_eq!(chosen(&table), Some("expandable"));
        assert_eq!(chosen(&[fit("", 150, 190), fit("split", 134, 247)]), Some(""), "the recording's own are safe");
    }

    #[test]
    fn of_settings_that_need_as_little_the_one_that_reserves_least_is_chosen() {
        let table = [fit("", 200, 210), fit("a", 150, 205), fit("b", 153, 160), fit("c", 180, 150)];
        assert_eq!(chosen(&table), Some("b"));
    }

    #[test]
    fn where_nothing_is_safe_what_needs_least_is_chosen() {
        let own = fit("", 150, 190);
        let rows = [&fit("split", 134, 247), &fit("round", 139, 300)];
        assert_eq!(recommended(&rows, &own).map(|fit| fit.conf.as_str()), Some("split"));
        assert_eq!(recommended(&[], &own).map(|fit| fit.conf.as_str()), None);
    }
}
