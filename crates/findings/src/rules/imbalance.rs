//! One device of several that holds far more than the others, at the same lines.

use highwater_analysis::callsite::Site;
use highwater_analysis::device::DeviceAnalysis;
use highwater_snapshot::EntryId;
use highwater_units::{percent_of, size};
use rustc_hash::FxHashMap;

use super::{Evidence, Finding, Severity, place};

/// So many times what the others hold on average is far more.
const FAR_MORE: u64 = 2;

/// What the lines have in common is worth a word from this share of the peak on, in percent.
const WORTH_PERCENT: u64 = 20;

/// Lines that are told.
const TOLD: usize = 3;

/// One finding, of the device that holds most.
pub(super) fn imbalance(evidence: &Evidence<'_>) -> Option<Finding> {
    let (analysis, own) = (evidence.analysis, evidence.device);
    let others: Vec<&DeviceAnalysis<'_>> =
        analysis.devices.iter().filter(|other| other.device != own.device && other.peak().bytes > 0).collect();
    let mean = |sum: u64| sum / (others.len() as u64).max(1);
    let others_mean = mean(others.iter().map(|other| other.peak().bytes).fold(0, u64::saturating_add));
    let is_highest = others.iter().all(|other| other.peak().bytes < evidence.peak.bytes);
    if others.is_empty() || !is_highest || evidence.peak.bytes / FAR_MORE < others_mean {
        return None;
    }
    let is_line = |site: Site| matches!(site, Site::Frame(frame) if analysis.sites.owner(frame).is_python());
    let elsewhere: Vec<FxHashMap<Site, u64>> = others.iter().map(|other| most_by_site(evidence, other)).collect();
    let own_sites = own.counted_by_site(evidence.peak.entry, analysis.snapshot, &analysis.sites);
    let mut shared: Vec<(Site, u64, u64)> = own_sites
        .into_iter()
        .filter(|held| is_line(held.site))
        .filter_map(|held| {
            let there =
                elsewhere.iter().filter_map(|sites| sites.get(&held.site)).copied().fold(0, u64::saturating_add);
            (there > 0).then_some((held.site, held.bytes, mean(there)))
        })
        .collect();
    let sum = |part: fn(&(Site, u64, u64)) -> u64| shared.iter().map(part).fold(0, u64::saturating_add);
    let (here, there) = (sum(|&(_, here, _)| here), sum(|&(_, _, there)| there));
    let devices = others.len() as u64 + 1;
    // Dealt out evenly, each device would hold the mean of all.
    let saving = here.saturating_sub(there) / devices * (devices - 1);
    if here / FAR_MORE < there || saving < evidence.share_of_peak(WORTH_PERCENT) {
        return None;
    }
    shared.sort_by_key(|&(site, here, there)| (std::cmp::Reverse(here.saturating_sub(there)), site));
    let others_word = if others.len() == 1 { "the other device" } else { "each of the others on average" };
    let lines: Vec<String> = shared
        .iter()
        .take(TOLD)
        .map(|&(site, here, there)| {
            format!("{} here and {} there at {}", size(here), size(there), place(analysis, site))
        })
        .collect();
    let title =
        format!("device {} holds {}, {others_word} {}", own.device, size(evidence.peak.bytes), size(others_mean));
    let detail = format!(
        "at this device's peak its largest call sites hold {}, and at most {} there: {}; {} of this device's peak \
         is above the mean of all devices",
        size(here),
        size(there),
        lines.join("; "),
        percent_of(saving, evidence.peak.bytes)
    );
    Some(Finding::new("imbalance", Severity::Warning, title, detail).saves_about(saving).change(
        "distribute the work by size rather than by count: samples of similar length, graphs by their edges, equal \
         batches; or limit the size of one sample",
    ))
}

/// The most that each line holds at once on a device.
fn most_by_site(evidence: &Evidence<'_>, device: &DeviceAnalysis<'_>) -> FxHashMap<Site, u64> {
    let mut changes: Vec<(usize, bool, Site, u64)> = Vec::with_capacity(device.lifetimes.rows.len() * 2);
    for lifetime in &device.lifetimes.rows {
        let site = device.site(lifetime, &evidence.analysis.sites);
        let bytes = device.blocks().of(lifetime, evidence.analysis.snapshot);
        changes.push((lifetime.alloc().map_or(0, EntryId::index), true, site, bytes));
        if let Some(freed) = lifetime.free_requested().or(lifetime.free_completed()) {
            changes.push((freed.index(), false, site, bytes));
        }
    }
    changes.sort_unstable_by_key(|&(entry, comes, ..)| (entry, comes));
    let mut held: FxHashMap<Site, (u64, u64)> = FxHashMap::default();
    for (_, comes, site, bytes) in changes {
        let (now, most) = held.entry(site).or_default();
        *now = if comes { now.saturating_add(bytes) } else { now.saturating_sub(bytes) };
        *most = (*most).max(*now);
    }
    held.into_iter().map(|(site, (_, most))| (site, most)).collect()
}
