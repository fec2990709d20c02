//! All that a process has of its cards, where the driver was recorded.

use highwater_documents::{CardUseView, ComparedView, DriverSiteView, OwnerView, ReportView, TouchedView, WorkView};

use crate::document::Section;
use crate::style::{DIM, STRONG};
use crate::table::{Align, Cell, Table, shorten};
use crate::units::{count, counted, size};

/// Call sites that stand below an owner.
const SITES: usize = 3;
/// Managed allocations of which the text says when they were touched.
const TOUCHED: usize = 3;
/// Cells of a function's name: those of C++ templates have hundreds.
const FUNCTION_CELLS: usize = 100;
/// Bytes by which the sum of a process that is alone on its GPU does not exceed NVML's figure.
const FAR_BYTES: i64 = 32 << 20;

pub(super) fn sections(report: &ReportView<'_>) -> Vec<Section> {
    let Some(driver) = &report.driver else { return Vec::new() };
    let mut sections: Vec<Section> = driver.cards.iter().map(card).collect();
    if let Some(last) = sections.last_mut() {
        let kept = if driver.kept < driver.calls {
            format!(
                "; of the first {}, the file has only the memory that they left live",
                count(driver.calls - driver.kept)
            )
        } else {
            String::new()
        };
        last.line(format!("{} of the driver recorded{kept}.", counted(driver.calls, "call", "calls")));
        if driver.without_python > 0 {
            let calls = counted(driver.without_python, "call has", "calls have");
            last.line(format!("{calls} no Python line: reading it would have taken too much of the program's time."));
        }
        if let Some(text) = work(&driver.work, !driver.touched.is_empty()) {
            last.line(text);
        }
        for allocation in driver.touched.iter().take(TOUCHED) {
            last.line(touched(allocation));
        }
        if let Some(more) = driver.touched.len().checked_sub(TOUCHED).filter(|&more| more > 0) {
            last.line(format!(
                "… and {}; `--format json` has them",
                counted(more, "more managed allocation", "more managed allocations")
            ));
        }
        if let Some(card) = &driver.imitated {
            last.line(imitated(card));
        }
        for gap in &driver.gaps {
            last.line(format!("The driver is not recorded to the end: {}.", gap.why));
        }
    }
    sections
}

/// Kernels and copies, where a profiler counted them.
fn work(work: &[WorkView], knows_managed: bool) -> Option<String> {
    let all: Vec<_> = work.iter().map(|work| of_kind(work.count, &work.what, work.bytes)).collect();
    let touched = if knows_managed { "For managed memory only, the file says" } else { "The file does not say" };
    (!all.is_empty()).then(|| format!("The devices ran {}. {touched} which allocations they touched.", all.join(", ")))
}

fn of_kind(times: u64, what: &str, bytes: u64) -> String {
    let bytes = if bytes > 0 { format!(" ({})", size(bytes)) } else { String::new() };
    let one = SINGULAR.iter().find_map(|(many, one)| what.strip_prefix(many).map(|rest| format!("{one}{rest}")));
    let what = one.filter(|_| times == 1).unwrap_or_else(|| what.to_owned());
    format!("{} {what}{bytes}", count(times))
}

/// How kinds of work and of touches begin, for several and for one.
const SINGULAR: [(&str, &str); 5] =
    [("kernels", "kernel"), ("fills", "fill"), ("copies", "copy"), ("moves", "move"), ("page faults", "page fault")];

/// When a managed allocation was touched.
fn touched(of: &TouchedView) -> String {
    let site = of.site.as_ref().map_or_else(String::new, |site| format!(" {site}"));
    let all: Vec<_> = of.touches.iter().map(|touch| of_kind(touch.count, &touch.what, touch.bytes)).collect();
    let since = highwater_units::duration_us(of.untouched_us);
    format!("{} of managed memory{site} was last touched {since} before the end: {}.", size(of.bytes), all.join(", "))
}

/// What is known of memory outside PyTorch without a GPU.
fn imitated(card: &str) -> String {
    format!(
        "The {card} was imitated: the context, kernels, streams and the handles of cuBLAS, cuDNN and cuSOLVER count as on an H100 and H200 \
         (driver 580, CUDA 13.0), and NCCL's communicators as on two GPUs of one host: larger groups may need more."
    )
}

fn card(card: &CardUseView) -> Section {
    let mut section = Section::new(format!("Device {}: whole GPU at its peak", card.device));
    let columns = [("bytes", Align::Right), ("share", Align::Right), ("whose", Align::Left)];
    let mut table = Table::new(columns).indented(2).wrapped();
    let peak = &card.peak;
    for owner in peak.owners.iter().filter(|owner| owner.counts) {
        table.row([Cell::from(signed(owner.bytes)), share(owner, peak.bytes).into(), owner.title.clone().into()]);
        below(&mut table, owner);
    }
    let of = card.capacity_bytes.map_or_else(String::new, |bytes| format!(" of {}", size(bytes)));
    let all = Cell::new(size(peak.bytes), STRONG);
    table.row([all, Cell::from(""), Cell::new(format!("in all{of}"), STRONG)]);
    for owner in peak.owners.iter().filter(|owner| !owner.counts) {
        let title = format!("{}, not part of the sum", owner.title);
        table.row([Cell::new(signed(owner.bytes), DIM), Cell::from(""), Cell::new(title, DIM)]);
        below(&mut table, owner);
    }
    section.table(table);
    if let Some(text) = oversubscribed(card) {
        section.line(text);
    }
    if card.is_machines {
        section.line(
            "Its memory is the machine's, and other programs use it too: context, code and streams are not measured, \
             and not part of the sum.",
        );
    }
    if let Some(text) = compared(&card.compared) {
        section.line(text);
    }
    section
}

/// Managed memory for which the card has no room beside the rest.
fn oversubscribed(card: &CardUseView) -> Option<String> {
    let managed = card.peak.owners.iter().filter(|owner| owner.role == "managed");
    let managed = managed.map(|owner| u64::try_from(owner.bytes).unwrap_or(0)).fold(0, u64::saturating_add);
    let capacity = card.capacity_bytes?;
    (managed > 0 && managed.saturating_add(card.peak.bytes) > capacity).then(|| {
        format!(
            "{} of managed memory does not fit into the card's {} beside the rest: its pages move between host and card as they are used.",
            size(managed),
            size(capacity)
        )
    })
}

fn below(table: &mut Table, owner: &OwnerView) {
    for site in owner.sites.iter().take(SITES).filter(|site| site.bytes > 0) {
        let function = site.function.as_deref().map(|name| shorten(name, FUNCTION_CELLS));
        let shown = DriverSiteView { function, native: Vec::new(), ..site.clone() };
        if let Some(text) = shown.described() {
            let text = format!("  {} in {} {text}", size(site.bytes), count(site.allocations));
            table.row([Cell::from(""), Cell::from(""), Cell::new(text, DIM)]);
        }
    }
}

fn compared(compared: &[ComparedView]) -> Option<String> {
    let furthest = compared.iter().max_by_key(|compared| compared.left_bytes.unsigned_abs())?;
    let times = counted(compared.len(), "moment", "moments");
    let which = if furthest.left_bytes < 0 { "more" } else { "less" };
    let why = if furthest.left_bytes < -FAR_BYTES {
        " If other processes started on the GPU meanwhile, the context, code, kernels and streams include a part of their memory."
    } else {
        ""
    };
    Some(format!(
        "NVML's figure for the process was compared at {times}: the sum has at most {} {which}, where NVML says {}. No part of the sum comes \
         from that figure.{why}",
        size(furthest.left_bytes.unsigned_abs()),
        size(furthest.nvml_bytes)
    ))
}

fn share(owner: &OwnerView, all: u64) -> String {
    let bytes = u64::try_from(owner.bytes).unwrap_or(0);
    if all == 0 { String::new() } else { highwater_units::percent_of(bytes, all) }
}

fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}
