//! What the report says, in the order in which a person in trouble asks.

use highwater_analysis::category::Category;
use highwater_analysis::timeline::Total;
use highwater_answers::frames;
use highwater_documents::{DeviceView, FrameView, IterationView, PhaseView, ReportView, SettingView};
use highwater_findings::Severity;
use highwater_findings::verdict::capitalised;
use highwater_snapshot::Setting;

use super::{card, chart, timeline};
use crate::document::{Document, Section, Text};
use crate::style::{self, BAD, DIM, HINT, PLAIN, STRONG};
use crate::table::{Align, Cell, Table};
use crate::units::{count, counted, size, size_with_requested};
use crate::units::{duration_us, percent};

/// What the caller chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Rows of each table.
    pub(crate) top: usize,
    /// A capacity to draw, in bytes.
    pub(crate) capacity_bytes: Option<u64>,
    /// Cells of the terminal.
    pub(crate) width: Option<usize>,
    /// Whether a failure leads on to `highwater explain FILE`: not where its explanation stands beside the report.
    pub(crate) leads_on: bool,
}

/// The report as a document; `name` is the file's.
pub(crate) fn document(report: &ReportView<'_>, name: &str, options: Options) -> Document {
    let entries: usize = report.devices.iter().map(|device| device.entries).sum();
    let mut document = Document {
        title: format!(
            "{name}: {} of {}, {} of {}, {}",
            counted(entries, "trace entry", "trace entries"),
            counted(report.devices.len(), "device", "devices"),
            size(report.source.bytes),
            report.source.encoding,
            report.source.profile_name.map_or_else(|| format!("torch {}", report.torch.version), str::to_owned)
        )
        .into(),
        lead: vec![verdict(report)],
        sections: Vec::new(),
    };
    if options.leads_on && report.devices.iter().any(|device| !device.oom.is_empty()) {
        document.lead.push(
            Text::from("→ ")
                .and(format!("`highwater explain {name}`"), HINT)
                .and(" shows why, and how to fix it", PLAIN),
        );
    }
    document.sections.extend(findings(report));
    for device in &report.devices {
        document.sections.extend(device_sections(device, report.source.profile.is_some(), options));
    }
    document.sections.extend(card::sections(report));
    document.sections.extend(host(report));
    document.sections.extend(settings(report));
    document.sections.extend(warnings(report));
    document
}

/// The verdict: its first sentence is the answer.
fn verdict(report: &ReportView<'_>) -> Text {
    let failed = report.devices.iter().any(|device| !device.oom.is_empty());
    let end = report.verdict.find(". ").map_or(report.verdict.len(), |end| end + 1);
    let (answer, rest) = report.verdict.split_at(end);
    Text::styled(answer, if failed { BAD } else { STRONG }).and(rest, PLAIN)
}

fn findings(report: &ReportView<'_>) -> Option<Section> {
    let mut section = Section::new("Findings");
    for device in &report.devices {
        // The lead says the out-of-memory event already.
        for finding in device.findings.iter().filter(|finding| finding.id != "oom") {
            let (severity, weight) = match finding.severity {
                Severity::Error => ("error", BAD),
                Severity::Warning => ("warning", style::WARNING),
                Severity::Info => ("info", STRONG),
            };
            let about = if finding.estimated { "about " } else { "" };
            let saving =
                finding.saving_bytes.map_or_else(String::new, |bytes| format!(" [saves {about}{}]", size(bytes)));
            let title = Text::styled(severity, weight)
                .and(format!(", device {}{saving}: ", device.device), PLAIN)
                .and(finding.title.as_str(), STRONG);
            let detail = Text::from(format!("{}.", capitalised(&finding.detail)));
            let change = finding.change.as_ref().map(|change| Text::from("→ ").and(change.as_str(), style::GOOD));
            let more = Text::styled(format!("({}: `highwater help {0}`)", finding.id), DIM);
            section.point(title, [Some(detail), change, Some(more)].into_iter().flatten());
        }
    }
    (!section.is_empty()).then_some(section)
}

fn device_sections(device: &DeviceView<'_>, is_profile: bool, options: Options) -> Vec<Section> {
    let mut sections = vec![totals(device, is_profile, options)];
    sections.extend(categories(device));
    sections.extend(live_at_peak(device, options));
    sections.extend(iterations(device, options));
    sections.extend(growth(device, options));
    sections.extend(fragmentation(device));
    sections.extend(out_of_memory(device, options));
    sections
}

fn totals(device: &DeviceView<'_>, is_profile: bool, options: Options) -> Section {
    let mut section = Section::new(format!("Device {}", device.device));
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]).indented(2).wrapped();
    let exact = |bytes: u64| format!("{} bytes", count(bytes));
    let mut row = |what: &str, bytes: u64, note: String| table.row([what.to_owned(), size(bytes), note]);
    if device.has_history {
        let peak = &device.peak;
        let at_peak = |total: Total| if total.key() == device.at_peak.by { when(device) } else { String::new() };
        let between = |least: u64, most: Option<u64>| match most {
            Some(most) => format!("at least {}, at most {}", exact(least), exact(most)),
            None => exact(least),
        };
        let allocated = between(peak.allocated_bytes, peak.allocated_bytes_at_most);
        let active = between(peak.active_bytes, peak.active_bytes_at_most);
        row("peak allocated", peak.allocated_bytes, format!("{allocated}{}", at_peak(Total::Allocated)));
        if peak.active_bytes != peak.allocated_bytes || peak.active_bytes_at_most != peak.allocated_bytes_at_most {
            row("peak active", peak.active_bytes, active);
        }
        if !is_profile {
            let requested = exact(peak.requested_bytes);
            row("peak requested", peak.requested_bytes, format!("{requested}{}", at_peak(Total::Requested)));
            row("peak reserved", peak.reserved_bytes, exact(peak.reserved_bytes));
        }
    }
    if is_profile {
        // The profiler tells of blocks only: of one total, and no dump.
        row("allocated at the end", device.end.allocated_bytes, exact(device.end.allocated_bytes));
        section.table(table);
        section.line("");
        section.picture(timeline::picture(device, is_profile, options).iter().map(|line| chart::styled(line)));
        return section;
    }
    row("allocated at the dump", device.end.allocated_bytes, exact(device.end.allocated_bytes));
    if device.end.active_bytes != device.end.allocated_bytes {
        row("active at the dump", device.end.active_bytes, exact(device.end.active_bytes));
    }
    row("requested at the dump", device.end.requested_bytes, exact(device.end.requested_bytes));
    row("reserved at the dump", device.end.reserved_bytes, exact(device.end.reserved_bytes));
    section.table(table);
    if let Some(reason) = device.block_sizes.reason.as_ref().filter(|_| device.has_history) {
        section.line(format!("Allocated and active bytes are not exact: {reason}."));
    }
    if device.has_history {
        section.line("");
        section.picture(timeline::picture(device, is_profile, options).iter().map(|line| chart::styled(line)));
    }
    section
}

/// The total that the report goes by.
pub(super) fn by(device: &DeviceView<'_>) -> Total {
    if device.at_peak.by == Total::Requested.key() { Total::Requested } else { Total::Allocated }
}

/// When the peak was, and during what.
fn when(device: &DeviceView<'_>) -> String {
    let Some(entry) = device.at_peak.entry else { return String::new() };
    let elapsed = device.at_peak.elapsed_us.map(duration_us);
    let parts = [
        Some(format!("at entry {}", count(entry))),
        elapsed.map(|elapsed| format!("after {elapsed}")),
        device.at_peak.iteration.map(|iteration| format!("in iteration {iteration}")),
        device.at_peak.phase.map(str::to_owned),
        device.at_peak.scopes.last().map(|scope| format!("in `{scope}`")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!(", {}", parts.join(", "))
}

/// What the live bytes are for, largest first, with bars; nothing where that is not told of any.
fn categories(device: &DeviceView<'_>) -> Option<Section> {
    let mut named = device.at_peak.categories.named();
    named.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    if named.iter().all(|&(name, bytes)| bytes == 0 || name == Category::Unknown.name()) {
        return None;
    }
    let moment = if device.has_history { "peak" } else { "dump" };
    let mut section = Section::new(format!("Device {}: live at the {moment}, by category", device.device));
    let columns =
        [(by(device).word(), Align::Right), ("share", Align::Right), ("category", Align::Left), ("", Align::Left)];
    let mut table = Table::new(columns).indented(2).optional(&[3]);
    let all = named.iter().map(|&(_, bytes)| bytes).fold(0, u64::saturating_add);
    for (name, bytes) in named.into_iter().filter(|&(_, bytes)| bytes > 0) {
        let bar = Cell::new(chart::bar(bytes, all), category_style(name));
        table.row([size(bytes).into(), share(bytes, all).into(), Cell::from(name.replace('_', " ")), bar]);
    }
    section.table(table);
    if let Some(why) = device.at_peak.unknown_because {
        section.line(format!("Unknown: {why}."));
    }
    Some(section)
}

/// The colour of a category, the same as in the page.
pub(crate) fn category_style(name: &str) -> style::Style {
    style::colour(highwater_documents::category_colour(name))
}

fn live_at_peak(device: &DeviceView<'_>, options: Options) -> Option<Section> {
    let sites = &device.at_peak.call_sites;
    if sites.is_empty() {
        return None;
    }
    let moment = if device.has_history { "peak" } else { "dump" };
    let all = sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add);
    let blocks = sites.iter().map(|site| site.count).fold(0, u64::saturating_add);
    let mut section = Section::new(format!(
        "Device {}: live at the {moment}, by call site: {} in {}",
        device.device,
        size(all),
        counted(blocks, "allocation", "allocations")
    ));
    let mut table = Table::new([
        (by(device).word(), Align::Right),
        ("share", Align::Right),
        ("count", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2)
    .wrapped();
    for site in sites.iter().take(options.top) {
        table.row([size(site.bytes), share(site.bytes, all), count(site.count), frames::place_of(&site.at)]);
    }
    section.table(table);
    if sites.len() > options.top {
        let rest = sites[options.top..].iter().map(|site| site.bytes).fold(0, u64::saturating_add);
        section.line(format!(
            "… and {} with {}; `--top {}` shows all",
            counted(sites.len() - options.top, "more call site", "more call sites"),
            size(rest),
            sites.len()
        ));
    }
    Some(section)
}

fn frame_text(frame: &FrameView<'_>) -> String {
    frames::short_of(frame.filename, frame.name, frame.line)
}

fn share(part: u64, whole: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
    if whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) }
}

fn iterations(device: &DeviceView<'_>, options: Options) -> Option<Section> {
    let rows = &device.iterations;
    if rows.is_empty() {
        let seen = device.seen.as_ref()?;
        return Some(Section::new(format!("Device {}: no iterations, but {seen}", device.device)));
    }
    let by = by(device);
    let either = |allocated, requested| size(if by == Total::Allocated { allocated } else { requested });
    let mut section = Section::new(format!(
        "Device {}: {}, by {}",
        device.device,
        if rows.len() == 1 {
            "1 iteration".to_owned()
        } else {
            format!("{} {}", count(rows.len()), device.iterations_are)
        },
        device.iterations_by
    ));
    let mut table = Table::new([
        ("", Align::Right),
        ("entries", Align::Right),
        (if by == Total::Allocated { "peak allocated" } else { "peak requested" }, Align::Right),
        ("at its end", Align::Right),
        ("peak of each phase", Align::Left),
    ])
    .indented(2)
    .wrapped();
    // The first ones warm up, the last ones show where it went.
    let head = options.top.div_ceil(2);
    let hidden = if rows.len() > options.top { head..rows.len() - (options.top - head) } else { 0..0 };
    for (i, iteration) in rows.iter().enumerate().filter(|(i, _)| !hidden.contains(i)) {
        let mark = if iteration.complete { "" } else { " (incomplete)" };
        table.row([
            i.to_string(),
            format!("{}–{}", count(iteration.start_entry), count(iteration.end_entry)),
            either(iteration.peak_allocated_bytes, iteration.peak_requested_bytes),
            either(iteration.end_allocated_bytes, iteration.end_requested_bytes),
            format!("{}{mark}", phases(iteration, by)),
        ]);
        if i + 1 == hidden.start {
            table.below(format!("… {} more", count(hidden.len())));
        }
    }
    section.table(table);
    Some(section)
}

fn phases(iteration: &IterationView, by: Total) -> String {
    const SHOWN: usize = 6;
    let phases = &iteration.phases;
    let bytes = |phase: &PhaseView| match by {
        Total::Allocated => phase.peak_allocated_bytes,
        _ => phase.peak_requested_bytes,
    };
    let mut parts: Vec<_> =
        phases.iter().take(SHOWN).map(|phase| format!("{} {}", phase.name, size(bytes(phase)))).collect();
    if phases.len() > SHOWN {
        parts.push(format!("… {} more", phases.len() - SHOWN));
    }
    parts.join(", ")
}

fn growth(device: &DeviceView<'_>, options: Options) -> Option<Section> {
    let first = device.growth.first()?;
    let mut section =
        Section::new(format!("Device {}: memory that iterations leave behind, by call site", device.device));
    let mut table = Table::new([
        ("an iteration", Align::Right),
        ("in all", Align::Right),
        ("count", Align::Right),
        ("iterations", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2)
    .wrapped();
    for growth in device.growth.iter().take(options.top) {
        table.row([
            size(growth.bytes_per_iteration),
            size(growth.bytes),
            count(growth.count),
            format!("{} of {}", growth.iterations, growth.counted),
            frames::place_of(&growth.at),
        ]);
    }
    section.table(table);
    section.line(format!(
        "Counted: allocations of {} that are still alive after the last one.",
        counted(first.counted, "iteration", "iterations")
    ));
    Some(section)
}

fn fragmentation(device: &DeviceView<'_>) -> Option<Section> {
    if device.peak.reserved_bytes == 0 {
        return None;
    }
    let waste = &device.fragmentation;
    let part = |share: Option<f64>| share.map_or_else(String::new, |share| format!(" ({})", percent(share)));
    let outside = waste.scattered_share.map(|share| format!("; {} of the free bytes lie outside it", percent(share)));
    let at_peak = [
        (waste.free_at_peak_bytes, "free at the peak: reserved and in no active block".to_owned()),
        (waste.rounding_at_peak_bytes, "active beyond the requested bytes, at the peak".to_owned()),
    ];
    let at_dump = [
        (waste.free_bytes, format!("free at the dump: reserved and in no active block{}", part(waste.free_share))),
        (waste.releasable_bytes, "of these, in segments with nothing active: `empty_cache()` releases them".to_owned()),
        (
            waste.inactive_split_bytes,
            "of these, in segments partly in use, expandable ones not counted (`inactive_split`)".to_owned(),
        ),
        (waste.largest_free_block_bytes, format!("the largest free block{}", outside.unwrap_or_default())),
        (waste.rounding_bytes, "active beyond the requested bytes, at the dump: the allocator's rounding".to_owned()),
        (
            waste.private_pool_free_bytes,
            "of the free bytes, in private pools: other requests cannot use them".to_owned(),
        ),
        (waste.other_streams_free_bytes, "of the free bytes, on streams other than the main one".to_owned()),
    ];
    let measures = at_peak.into_iter().filter(|_| device.has_history).chain(at_dump);
    // A zero has no row.
    let rows: Vec<_> = measures.filter(|(bytes, _)| *bytes > 0).collect();
    if rows.is_empty() {
        return None;
    }
    let mut section = Section::new(format!("Device {}: fragmentation", device.device));
    let mut table = Table::new([("", Align::Right), ("", Align::Left)]).indented(2).wrapped();
    for (bytes, meaning) in rows {
        table.row([size(bytes), meaning]);
    }
    section.table(table);
    Some(section)
}

/// Callers of an out-of-memory request that are shown.
const CALLERS: usize = 8;

fn out_of_memory(device: &DeviceView<'_>, options: Options) -> Option<Section> {
    if device.oom.is_empty() {
        return None;
    }
    let mut section = Section::new(format!(
        "Device {}: out of memory, {}",
        device.device,
        counted(device.oom.len(), "time", "times")
    ));
    let mut table = Table::new([
        ("entry", Align::Right),
        ("requested", Align::Right),
        ("in use", Align::Right),
        ("reserved", Align::Right),
        ("device free", Align::Right),
        ("where", Align::Left),
    ])
    .indented(2)
    .wrapped();
    for oom in device.oom.iter().take(options.top) {
        table.row([
            count(oom.entry),
            size_with_requested(oom.segment_bytes, oom.requested_bytes),
            size(oom.active_bytes),
            size(oom.reserved_bytes),
            oom.device_free_bytes.map_or_else(|| "-".to_owned(), size),
            frames::place_of(&oom.at),
        ]);
    }
    section.table(table);
    if device.oom.len() > options.top {
        section.line(format!(
            "… and {} more; `--top {}` shows all",
            count(device.oom.len() - options.top),
            device.oom.len()
        ));
    }
    let callers = device.oom[0].frames.iter().skip(1).take(CALLERS);
    let callers: Vec<_> = callers.map(|frame| format!("  ← {}", frame_text(frame))).collect();
    if !callers.is_empty() {
        section.line(if device.oom.len() > 1 { "The first was called from:" } else { "Called from:" });
        section.picture(callers);
    }
    Some(section)
}

fn host(report: &ReportView<'_>) -> Option<Section> {
    let host = report.host.as_ref()?;
    let mut section = Section::new("Pinned host memory");
    section.line(format!(
        "{} in use of {} reserved at the dump, {}",
        size(host.allocated_bytes),
        size(host.reserved_bytes),
        counted(host.entries, "trace entry", "trace entries")
    ));
    Some(section)
}

/// Whether a setting is as PyTorch has it where nobody sets anything.
///
/// # Source
/// PyTorch v2.11, `c10/core/AllocatorConfig.h` and `c10/cuda/CUDAAllocatorConfig.h`.
fn is_default(key: &str, value: &Setting) -> bool {
    match value {
        Setting::Text(conf) => conf.is_empty(),
        Setting::Bool(is_on) => !is_on,
        Setting::Float(share) => share.total_cmp(&0.0).is_eq(),
        // Threads that register pinned memory, of which there is one.
        Setting::Int(number) if key == "pinned_num_register_threads" => *number == 1,
        // The largest number, as a signed one: -1, or less where a program sets it in MiB, as vLLM does.
        Setting::Int(number) => *number < 0,
        // Tables whose values are all 0 are off.
        Setting::Table(table) => table.iter().all(|(_, value)| *value == Setting::Int(0)),
    }
}

fn settings(report: &ReportView<'_>) -> Option<Section> {
    let entries = report.settings.0;
    if entries.is_empty() {
        return None;
    }
    let mut section = Section::new("Allocator settings");
    let changed: Vec<_> = entries.iter().filter(|(key, value)| !is_default(key, value)).collect();
    for (key, value) in &changed {
        let value = serde_json::to_string(&SettingView(value)).unwrap_or_default();
        section.line(format!("{key} = {value}"));
    }
    if changed.is_empty() {
        section.line("all at their defaults");
    } else if changed.len() < entries.len() {
        section.line(Text::styled("the others at their defaults", DIM));
    }
    Some(section)
}

fn warnings(report: &ReportView<'_>) -> Option<Section> {
    if report.warnings.is_empty() {
        return None;
    }
    let mut section = Section::new("Warnings");
    for warning in &report.warnings {
        let times = if warning.count > 1 { format!(" ({} times)", warning.count) } else { String::new() };
        section.line(format!("- {}{times}", warning.message));
    }
    Some(section)
}
