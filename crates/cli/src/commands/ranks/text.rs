//! What `highwater ranks` says, for a person.

use highwater_documents::ranks::{BecauseView, GroupView, RankView, RanksView};

use crate::document::{Document, Section, Text};
use crate::style::{BAD, PLAIN, STRONG, WARNING};
use crate::table::{Align, Cell, Table};
use crate::units::{count, size};

/// Outliers whose call sites are shown.
const EXPLAINED: usize = 8;

/// What the caller chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// A line for each rank.
    pub(super) each: bool,
    /// Rows of each table.
    pub(super) top: usize,
}

/// The comparison.
pub(super) fn document(view: &RanksView, options: Options) -> Document {
    let mut document = Document { lead: vec![Text::styled(&*view.verdict, STRONG)], ..Document::default() };
    document.sections.push(table(view, options));
    document.sections.extend(causes(view));
    document.sections.extend(imbalance(view));
    document.sections.extend(unread(view, options.top));
    if !view.notes.is_empty() {
        let mut section = Section::new("Notes");
        view.notes.iter().for_each(|note| section.point(&**note, Vec::<Text>::new()));
        document.sections.push(section);
    }
    document
}

/// A line of the table: ranks that are alike, or one of them.
struct Line<'a> {
    name: String,
    rows: Vec<&'a RankView>,
    role: Option<&'a str>,
    is_outlier: bool,
}

fn lines<'a>(view: &'a RanksView, each: bool) -> Vec<Line<'a>> {
    if each {
        let one = |rank: &'a RankView| Line {
            name: name(view, rank),
            rows: vec![rank],
            role: rank.role.as_deref(),
            is_outlier: rank.is_outlier,
        };
        return view.ranks.iter().map(one).collect();
    }
    let group = |group: &'a GroupView| Line {
        name: names(view, group),
        rows: group.rows.iter().map(|&row| &view.ranks[row]).collect(),
        role: group.role.as_deref(),
        is_outlier: group.is_outlier,
    };
    view.groups.iter().map(group).collect()
}

/// `rank 3`, `device 1`, or the file where its rank is unknown.
fn name(view: &RanksView, rank: &RankView) -> String {
    let is_one_file = view.ranks.len() > 1 && view.ranks.iter().all(|other| other.file == rank.file);
    let is_twice = |number: u32| view.ranks.iter().filter(|other| other.rank == Some(number)).count() > 1;
    match rank.rank {
        Some(_) if is_one_file => format!("device {}", rank.device),
        Some(number) if is_twice(number) => format!("rank {number}, device {}", rank.device),
        Some(number) => format!("rank {number}"),
        None => match &rank.host {
            Some(host) => format!("{host}, {}", file_name(&rank.file)),
            None => file_name(&rank.file).to_owned(),
        },
    }
}

fn file_name(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}

/// `ranks 0–1, 3`.
fn names(view: &RanksView, group: &GroupView) -> String {
    match &group.rows[..] {
        [row] => name(view, &view.ranks[*row]),
        rows if rows.len() == group.ranks.len() => {
            let is_one_file = rows.iter().all(|&row| view.ranks[row].file == view.ranks[rows[0]].file);
            format!("{} {}", if is_one_file { "devices" } else { "ranks" }, highwater_ranks::spans(&group.ranks))
        }
        rows => format!("{} recordings", count(rows.len())),
    }
}

/// The value in the middle.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

fn table(view: &RanksView, options: Options) -> Section {
    let mut table = Table::new([
        ("", Align::Left),
        ("peak", Align::Right),
        ("parameter", Align::Right),
        ("gradient", Align::Right),
        ("optimizer", Align::Right),
        ("activation", Align::Right),
        ("other", Align::Right),
        ("reserved", Align::Right),
        ("free at peak", Align::Right),
        ("end", Align::Right),
        ("retries", Align::Right),
        ("", Align::Left),
    ])
    .indented(2)
    .optional(&[10, 6, 3, 8, 4, 2, 5, 9, 7])
    .wrapped();
    let all = lines(view, options.each);
    for line in all.iter().take(options.top) {
        let of = |bytes: fn(&RankView) -> u64| size(median(line.rows.iter().map(|rank| bytes(rank)).collect()));
        let retries: usize = line.rows.iter().map(|rank| rank.retries).sum();
        table.row([
            Cell::new(&*line.name, if line.is_outlier { WARNING } else { PLAIN }),
            Cell::new(of(|rank| rank.peak_allocated_bytes), if line.is_outlier { STRONG } else { PLAIN }),
            of(|rank| rank.categories.parameter).into(),
            of(|rank| rank.categories.gradient).into(),
            of(|rank| rank.categories.optimizer_state).into(),
            of(|rank| rank.categories.activation).into(),
            of(other).into(),
            of(|rank| rank.peak_reserved_bytes).into(),
            of(|rank| rank.free_at_peak_bytes).into(),
            of(|rank| rank.end_allocated_bytes).into(),
            count(retries).into(),
            remark(line),
        ]);
    }
    let mut section =
        Section::new(if options.each { "Ranks" } else { "Groups of ranks that hold about the same amount" });
    section.table(table);
    if all.len() > options.top {
        section.line(format!("… and {} more; `--top 0` shows all", count(all.len() - options.top)));
    }
    section
}

fn other(rank: &RankView) -> u64 {
    let shown = &rank.categories;
    [shown.cache, shown.input, shown.temporary, shown.workspace, shown.unknown].into_iter().fold(0, u64::saturating_add)
}

/// What is to be said of a line: its part, that it is an outlier, that it failed.
fn remark(line: &Line<'_>) -> Cell {
    let failed = line.rows.iter().filter(|rank| rank.oom > 0).count();
    let failure = match (failed, line.rows.len()) {
        (0, _) => None,
        (_, 1) => Some("out of memory".to_owned()),
        (failed, of) => Some(format!("{} of {} ran out of memory", count(failed), count(of))),
    };
    let kind = line.rows[0].because.first().filter(|_| line.is_outlier).map(|because| because.kind.replace('-', " "));
    let style = if failed > 0 {
        BAD
    } else if line.is_outlier {
        WARNING
    } else {
        PLAIN
    };
    let parts = [line.role.map(str::to_owned), kind, failure];
    Cell::new(parts.into_iter().flatten().collect::<Vec<_>>().join("; "), style)
}

/// Why ranks differ, one after the other, with the call sites that show it.
fn causes(view: &RanksView) -> Option<Section> {
    // Outliers of one group differ in the same way.
    let of_group = |group: &GroupView| {
        if group.is_outlier {
            vec![(names(view, group), &view.ranks[group.rows[0]])]
        } else {
            group.rows.iter().map(|&row| (name(view, &view.ranks[row]), &view.ranks[row])).collect()
        }
    };
    let mut explained: Vec<(String, &RankView)> =
        view.groups.iter().flat_map(of_group).filter(|(_, rank)| !rank.because.is_empty()).collect();
    explained.sort_by_key(|(_, rank)| (!rank.is_outlier, std::cmp::Reverse(rank.peak_allocated_bytes)));
    let mut section = Section::new("Why");
    for (name, rank) in explained.iter().take(EXPLAINED) {
        let sentences = rank.because.iter().map(|because| format!("{}: {}", signed(because), because.sentence));
        section.point(Text::styled(&**name, STRONG), sentences);
    }
    if explained.len() > EXPLAINED {
        section.line(format!("… and {} more ranks; `--format json` has all", count(explained.len() - EXPLAINED)));
    }
    let sites = explained.iter().find(|(_, rank)| rank.is_outlier).and_then(|(name, rank)| {
        let because = rank.because.iter().find(|because| !because.call_sites.is_empty())?;
        Some((name, because))
    });
    if let Some((name, because)) = sites {
        let mut table = Table::new([(&**name, Align::Right), ("median rank", Align::Right), ("where", Align::Left)])
            .indented(4)
            .wrapped();
        for site in &because.call_sites {
            table.row([size(site.bytes), size(site.other_bytes), site.place.clone()]);
        }
        section.table(table);
    }
    (!section.is_empty()).then_some(section)
}

/// `+3.00 GiB`.
fn signed(because: &BecauseView) -> String {
    let sign = if because.delta_bytes < 0 { '-' } else { '+' };
    format!("{sign}{}", size(because.delta_bytes.unsigned_abs()))
}

/// The largest over the mean, for each measure that is not even.
fn imbalance(view: &RanksView) -> Option<Section> {
    /// Less is not worth a line.
    const NOTICED: f64 = 1.05;
    /// A category that holds less than this part of the highest peak is left out.
    const LEAST_PART: u64 = 100;
    let imbalance = &view.imbalance;
    let mut table =
        Table::new([("", Align::Left), ("largest over mean", Align::Right), ("largest", Align::Left)]).indented(2);
    let mut is_empty = true;
    let mut row = |name: &str, ratio: f64, at: usize, bytes: u64| {
        if ratio >= NOTICED {
            is_empty = false;
            table.row([
                name.replace('_', " "),
                format!("{ratio:.2}"),
                format!("{} on {}", size(bytes), self::name(view, &view.ranks[at])),
            ]);
        }
    };
    let mut total = |name: &str, ratio: Option<f64>, bytes: fn(&RankView) -> u64| {
        let largest = (0..view.ranks.len()).max_by_key(|&row| bytes(&view.ranks[row]));
        if let (Some(ratio), Some(at)) = (ratio, largest) {
            row(name, ratio, at, bytes(&view.ranks[at]));
        }
    };
    total("allocated", imbalance.allocated, |rank| rank.peak_allocated_bytes);
    total("reserved", imbalance.reserved, |rank| rank.peak_reserved_bytes);
    let most = view.ranks.iter().map(|rank| rank.peak_allocated_bytes).max().unwrap_or(0);
    for category in imbalance.by_category.iter().filter(|category| category.largest_bytes > most / LEAST_PART) {
        row(category.name, category.largest_over_mean, category.largest_row, category.largest_bytes);
    }
    if is_empty {
        return None;
    }
    let mut section = Section::new("Imbalance");
    section.table(table);
    Some(section)
}

fn unread(view: &RanksView, top: usize) -> Option<Section> {
    if view.unread.is_empty() {
        return None;
    }
    let mut section = Section::new("Not compared, or in part");
    for unread in view.unread.iter().take(top) {
        section.point(Text::styled(&*unread.file, BAD).and(format!(": {}", unread.reason), PLAIN), Vec::<Text>::new());
    }
    if view.unread.len() > top {
        section.line(format!("… and {} more; `--top 0` shows all", count(view.unread.len() - top)));
    }
    Some(section)
}
