//! Why a rank holds more or less than the median rank: its peak, beside the other's, taken apart.
//!
//! The causes that explain most specifically come first. Each claims the call sites that it explains, so that no byte is told twice.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use highwater_analysis::category::Category;
use highwater_documents::ranks::{BecauseView, SiteDeltaView};
use highwater_findings::batch::Ratio;
use highwater_units::{count, counted, size};

use crate::digest::{DeviceDigest, Held, Site, SiteBytes};
use crate::inputs::{What, fed};
use crate::numbering::Row;

/// Call sites that a cause names.
const NAMED: usize = 8;
/// Call sites in its sentence.
const SAID: usize = 2;
/// A cause of less than this part of the difference is left out.
const LEAST_PART: u64 = 20;
/// From this part of the difference on, what no cause explains is told.
const UNEXPLAINED_PART: u64 = 4;

/// What the causes of all ranks rest on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// The requested bytes of the model: of the parameters of all ranks together where the job divides them, else those of one; and half
    /// of the optimizer's state, which with two moments is as much.
    pub(crate) model_bytes: [u64; 2],
    /// Whether the job divides its parameters among ranks.
    pub(crate) is_sharded: bool,
    /// Whether experts are spread over ranks.
    pub(crate) has_experts: bool,
}

/// A call site at both peaks.
#[derive(Clone, Debug)]
struct Both<'a> {
    site: &'a Site,
    place: &'a str,
    category: Category,
    bytes: [u64; 2],
    count: [u64; 2],
    set_up_bytes: u64,
    is_claimed: bool,
}

impl Both<'_> {
    fn delta(&self) -> i64 {
        less(self.bytes[0], self.bytes[1])
    }
}

/// One number less another.
fn less(own: u64, other: u64) -> i64 {
    i64::try_from(i128::from(own) - i128::from(other)).unwrap_or(if own > other { i64::MAX } else { i64::MIN })
}

/// The causes of the difference between a rank and the one that it is compared with, the largest first.
pub(crate) fn causes(row: &Row<'_>, other: &Row<'_>, job: &Job) -> Vec<BecauseView> {
    let (own, reference) = (row.device, other.device);
    let mut sites = both(own, reference);
    let delta = less(own.peak_bytes, reference.peak_bytes);
    let mut found: Vec<BecauseView> = Vec::new();
    found.extend(leak(own, reference, &mut sites));
    let fed = inputs(own, reference, &mut sites);
    found.extend(iterations(own, reference, fed, &mut sites));
    found.extend(parameters(own, reference, job, &mut sites));
    if delta > 0 {
        found.extend(at_another_time(own, reference, job, &mut sites));
        found.extend(own_work(reference, job, &mut sites));
    }
    found.extend(more_at_once(&mut sites, delta));
    found.extend(uneven(job, &mut sites, delta));
    found.retain(|cause| cause.kind == "leak" || cause.delta_bytes.unsigned_abs() >= delta.unsigned_abs() / LEAST_PART);
    found.sort_by_key(|cause| Reverse(i128::from(cause.delta_bytes) * i128::from(delta.signum())));
    found.extend(reserved(row, other));
    found.extend(elsewhere(row, other));
    found.extend(unexplained(own, reference, &sites, delta, &found));
    found
}

fn both<'a>(own: &'a DeviceDigest, other: &'a DeviceDigest) -> Vec<Both<'a>> {
    both_of(&own.sites, &other.sites)
}

fn both_of<'a>(own: &'a [SiteBytes], other: &'a [SiteBytes]) -> Vec<Both<'a>> {
    let mut sites: BTreeMap<&Site, Both<'a>> = BTreeMap::new();
    let mut add = |at: usize, held: &'a SiteBytes| {
        let both = sites.entry(&held.site).or_insert_with(|| Both {
            site: &held.site,
            place: &held.place,
            category: Category::ALL.get(usize::from(held.category)).copied().unwrap_or(Category::Unknown),
            bytes: [0; 2],
            count: [0; 2],
            set_up_bytes: 0,
            is_claimed: false,
        });
        both.bytes[at] = both.bytes[at].saturating_add(held.bytes);
        both.count[at] = both.count[at].saturating_add(held.count);
        if at == 0 {
            both.set_up_bytes = both.set_up_bytes.saturating_add(held.set_up_bytes);
        }
    };
    for (at, held) in own.iter().map(|held| (0, held)).chain(other.iter().map(|held| (1, held))) {
        add(at, held);
    }
    let mut sites: Vec<Both<'a>> = sites.into_values().collect();
    sites.sort_by_key(|site| (Reverse(site.delta().unsigned_abs()), site.site));
    sites
}

/// Claims the sites that hold, and gives them with the sum of their differences.
fn claim(sites: &mut [Both<'_>], holds: impl Fn(&Both<'_>) -> bool) -> (i64, Vec<SiteDeltaView>) {
    let (mut sum, mut views): (i64, Vec<(bool, SiteDeltaView)>) = (0, Vec::new());
    for site in sites.iter_mut().filter(|site| !site.is_claimed && site.delta() != 0) {
        if holds(site) {
            site.is_claimed = true;
            sum = sum.saturating_add(site.delta());
            views.push((site.site.label.is_none(), view(site)));
        }
    }
    // A line says more than a thread without one.
    views.sort_by_key(|&(has_line, _)| !has_line);
    (sum, views.into_iter().map(|(_, view)| view).take(NAMED).collect())
}

fn view(site: &Both<'_>) -> SiteDeltaView {
    SiteDeltaView { place: site.place.to_owned(), bytes: site.bytes[0], other_bytes: site.bytes[1] }
}

/// `3.00 GiB against 2.00 GiB at loss.py:40 cross_entropy`, of the first few.
fn said(sites: &[SiteDeltaView]) -> String {
    let one = |site: &SiteDeltaView| match site.other_bytes {
        0 => format!("{} at {}", size(site.bytes), site.place),
        other => format!("{} against {} at {}", size(site.bytes), size(other), site.place),
    };
    sites.iter().take(SAID).map(one).collect::<Vec<_>>().join(", ")
}

fn cause(kind: &'static str, delta: i64, sentence: String, call_sites: Vec<SiteDeltaView>) -> BecauseView {
    let r#where = call_sites.first().map(|site| site.place.clone());
    BecauseView { kind, r#where, delta_bytes: delta, sentence, call_sites }
}

/// Lines that leave memory behind in each iteration, and do so on no other rank.
fn leak(own: &DeviceDigest, other: &DeviceDigest, sites: &mut [Both<'_>]) -> Option<BecauseView> {
    let elsewhere: BTreeMap<&Site, u64> =
        other.growing.iter().map(|growing| (&growing.site, growing.bytes_per_iteration)).collect();
    let alone = |bytes: u64, site: &Site| elsewhere.get(site).is_none_or(|&there| bytes / 2 > there);
    let growing: Vec<_> =
        own.growing.iter().filter(|growing| alone(growing.bytes_per_iteration, &growing.site)).collect();
    let largest = growing.first()?;
    let of: BTreeSet<&Site> = growing.iter().map(|growing| &growing.site).collect();
    let (at_peak, views) = claim(sites, |site| of.contains(site.site) && site.delta() > 0);
    let left: u64 = growing.iter().map(|growing| growing.bytes).fold(0, u64::saturating_add);
    let what = if largest.is_loss { "the loss is kept" } else { "memory is left behind" };
    let each = growing.iter().map(|growing| growing.bytes_per_iteration).fold(0, u64::saturating_add);
    let sentence = format!(
        "it leaks: {what} at {}, {} more in each of {}, and not on the others",
        largest.place,
        size(each),
        counted(largest.iterations, "iteration", "iterations"),
    );
    let mut because = cause("leak", at_peak.max(less(left, 0)), sentence, views);
    because.r#where = Some(largest.place.clone());
    Some(because)
}

/// Whether a site holds what grows with the inputs.
fn is_of_data(site: &Both<'_>) -> bool {
    !matches!(site.category, Category::Parameter | Category::OptimizerState)
}

/// Longer sequences, larger batches.
fn inputs(own: &DeviceDigest, other: &DeviceDigest, sites: &mut [Both<'_>]) -> Option<BecauseView> {
    let fed = fed(&own.work, &other.work)?;
    let grows = fed.ratio.value() > 1.0;
    // Squares grow more, and what is rounded or has a fixed part grows less.
    let (low, high) = if grows { (1.0, fed.ratio.value().powi(2)) } else { (fed.ratio.value().powi(2), 1.0) };
    let made = |device: &DeviceDigest| -> BTreeMap<Site, u64> {
        let mut made: BTreeMap<Site, u64> = BTreeMap::new();
        for (site, _, sizes) in &device.work.rows {
            let sum = made.entry(site.clone()).or_default();
            *sum = sum.saturating_add(sizes.bytes);
        }
        made
    };
    let (ours, theirs) = (made(own), made(other));
    let follows = |site: &Both<'_>| {
        let is_there = site.bytes[0] > 0 && site.bytes[1] > 0;
        // At two peaks of other moments, what the iteration makes there tells.
        let bytes = if is_there {
            Some(site.bytes)
        } else {
            ours.get(site.site).zip(theirs.get(site.site)).map(|(a, b)| [*a, *b])
        };
        is_of_data(site) && bytes.is_some_and(|bytes| is_within(bytes, low, high)) && (site.delta() > 0) == grows
    };
    let (delta, views) = claim(sites, follows);
    let delta = if views.is_empty() { less(own.peak_bytes, other.peak_bytes) } else { delta };
    let (kind, what) = told(fed.ratio, fed.what);
    let lines = if views.is_empty() {
        String::new()
    } else {
        format!(
            "; {} in that proportion: {}",
            if grows { "these lines grow" } else { "these lines shrink" },
            said(&views)
        )
    };
    let mut because = cause(kind, delta, format!("{what}{lines}"), views);
    because.delta_bytes = delta;
    Some(because)
}

/// Whether one number is between so many times the other, about, and not the same.
fn is_within([own, other]: [u64; 2], low: f64, high: f64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a ratio of bytes, for a comparison")]
    let times = own as f64 / other.max(1) as f64;
    own != other && times > low * 0.99 && times < high * 1.01
}

/// The kind and the words for what a rank is fed.
fn told(ratio: Ratio, what: What) -> (&'static str, String) {
    let is_more = ratio.value() > 1.0;
    let factor = format!("{} times", factor(ratio));
    match what {
        What::Length(lengths) => {
            let numbers = match lengths {
                Some([own, other]) => format!("{} tokens against {}", count(own), count(other)),
                None => format!("{factor} the length of the others'"),
            };
            if is_more {
                ("longer-sequences", format!("its sequences are longer ({numbers})"))
            } else {
                ("shorter-sequences", format!("its sequences are shorter ({numbers})"))
            }
        }
        What::Rows([own, other]) => {
            let numbers = format!("{} against {}", count(own), count(other));
            if is_more {
                ("larger-batch", format!("its batch is larger ({numbers})"))
            } else {
                ("smaller-batch", format!("its batch is smaller ({numbers})"))
            }
        }
        What::Either if is_more => {
            ("larger-inputs", format!("its inputs are {factor} as large: a larger batch or longer sequences"))
        }
        What::Either => {
            ("smaller-inputs", format!("its inputs are {factor} as large: a smaller batch or shorter sequences"))
        }
    }
}

/// `1.5`, `12`, `0.67`.
fn factor(ratio: Ratio) -> String {
    if ratio.per == 1 {
        return count(ratio.times);
    }
    let text = format!("{:.2}", ratio.value());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Weights, their gradients, and the optimizer's state.
fn is_of_model(site: &Both<'_>) -> bool {
    matches!(site.category, Category::Parameter | Category::Gradient | Category::OptimizerState)
}

/// Parameters that are larger or more.
fn parameters(own: &DeviceDigest, other: &DeviceDigest, job: &Job, sites: &mut [Both<'_>]) -> Option<BecauseView> {
    /// Uneven shards and rounding make such a part of a difference, in percent of the parameters.
    const UNEVEN_PERCENT: u64 = 2;
    let (held, there) = (&own.parameters, &other.parameters);
    let by = held.bytes.abs_diff(there.bytes);
    if by.saturating_mul(100) <= there.bytes.max(held.bytes).saturating_mul(UNEVEN_PERCENT) {
        return None;
    }
    let is_more = held.bytes > there.bytes;
    let categories = [Category::Parameter, Category::Gradient, Category::OptimizerState];
    let sum = |device: &DeviceDigest| {
        categories.iter().map(|category| device.categories[*category as usize]).fold(0, u64::saturating_add)
    };
    // A larger vocabulary makes larger logits, too.
    let most = differing(held, there).map(|differing| differing.times());
    let (low, high) = if is_more { (1.0, most.unwrap_or(1.0)) } else { (most.unwrap_or(1.0), 1.0) };
    let follows = |site: &Both<'_>| is_of_model(site) || (most.is_some() && is_within(site.bytes, low, high));
    let (claimed, views) = claim(sites, |site| follows(site) && (site.delta() > 0) == is_more);
    let delta = if claimed == 0 { less(sum(own), sum(other)) } else { claimed };
    let amount = if is_more { "more" } else { "fewer" };
    let (bytes, lines) = (size(by), if views.is_empty() { String::new() } else { format!(": {}", said(&views)) });
    if held.count == there.count {
        let kind = if is_more { "larger-parameters" } else { "smaller-parameters" };
        let tensors = differing(held, there).map_or_else(String::new, |differing| differing.text(held.count));
        let sentence = format!("its parameters hold {bytes} {}{tensors}{lines}", if is_more { "more" } else { "less" });
        return Some(cause(kind, delta, sentence, views));
    }
    if let Some(share) = share_of_model(by, job).filter(|_| is_more) {
        return Some(cause("whole-model", delta, whole(job, by, share, "keeps"), views));
    }
    let number = held.count.abs_diff(there.count);
    let kind = if is_more { "more-parameters" } else { "fewer-parameters" };
    let sentence = format!(
        "it has {} {amount} ({bytes}): another model, or another part of it{lines}",
        counted(number, "parameter", "parameters")
    );
    Some(cause(kind, delta, sentence, views))
}

/// Parameters that have other sizes on two ranks.
struct Differing {
    count: u64,
    /// Of the largest of them, here and there.
    largest: [u64; 2],
}

impl Differing {
    fn times(&self) -> f64 {
        Ratio::new(self.largest[0], self.largest[1]).map_or(1.0, Ratio::value)
    }

    /// `, in 2 of 290 tensors, the largest 600.00 MiB against 544.00 MiB`.
    fn text(&self, of: u64) -> String {
        let [own, other] = self.largest;
        format!(
            ", in {} of {} tensors, the largest {} against {}",
            count(self.count),
            count(of),
            size(own),
            size(other)
        )
    }
}

/// Which parameters have other sizes, where there are as many of them.
fn differing(held: &Held, there: &Held) -> Option<Differing> {
    let rest = |a: &Held, b: &Held| -> Vec<(u64, u64)> {
        let known: BTreeMap<u64, u64> = b.sizes.iter().copied().collect();
        let more = |&(size, count): &(u64, u64)| {
            let more = count.saturating_sub(known.get(&size).copied().unwrap_or(0));
            (more > 0).then_some((size, more))
        };
        a.sizes.iter().filter_map(more).collect()
    };
    let (own, other) = (rest(held, there), rest(there, held));
    let number = |rest: &[(u64, u64)]| rest.iter().fold(0, |all: u64, &(_, count)| all.saturating_add(count));
    let largest = |rest: &[(u64, u64)]| rest.iter().map(|&(size, _)| size).max();
    let are_as_many = held.count == there.count && number(&own) == number(&other);
    let largest = [largest(&own)?, largest(&other)?];
    are_as_many.then(|| Differing { count: number(&own), largest })
}

/// How bytes compare with those of the whole model, where they are about as many: in half the precision, as it is, or twice.
fn share_of_model(bytes: u64, job: &Job) -> Option<&'static str> {
    let near = |of: u64| of > 0 && bytes.abs_diff(of) <= of / 8;
    let is_near =
        |times: u64, per: u64| job.model_bytes.into_iter().any(|model| near(model.saturating_mul(times) / per));
    let shares = [(1, 1, "as much as"), (1, 2, "half as much as"), (2, 1, "twice as much as")];
    shares.into_iter().find(|&(times, per, _)| is_near(times, per)).map(|(.., words)| words)
}

fn whole(job: &Job, bytes: u64, share: &str, verb: &str) -> String {
    let of = if job.is_sharded { "the parameters of all ranks together" } else { "the whole model" };
    format!("it {verb} {}, about {share} {of}", size(bytes))
}

/// A peak before the first iteration or after the last, where the other rank's is in one.
fn at_another_time(own: &DeviceDigest, other: &DeviceDigest, job: &Job, sites: &mut [Both<'_>]) -> Option<BecauseView> {
    let is_before = own.peak.is_set_up && !other.peak.is_set_up;
    let is_after = own.peak.is_after && !other.peak.is_after;
    if !is_before && !is_after {
        return None;
    }
    let delta = less(own.peak_bytes, other.peak_bytes);
    let (_, views) = claim(sites, |site| site.delta() > 0);
    let held: u64 = views.iter().map(|site| site.bytes.saturating_sub(site.other_bytes)).fold(0, u64::saturating_add);
    let when = if is_before { "before the first iteration" } else { "after the last iteration" };
    let lines = if views.is_empty() { String::new() } else { format!(": {}", said(&views)) };
    let (kind, sentence) = if let Some(share) = share_of_model(held, job) {
        let verb = if is_before { "loads" } else { "gathers" };
        ("whole-model", format!("{}, {when}{lines}", whole(job, held, share, verb)))
    } else if is_before {
        ("set-up", format!("its peak is {when}, in work of its own{lines}"))
    } else {
        ("own-work", format!("its peak is {when}, in work of its own{lines}"))
    };
    Some(cause(kind, delta, sentence, views))
}

/// Lines that hold memory here and do not run on the other rank.
fn own_work(other: &DeviceDigest, job: &Job, sites: &mut [Both<'_>]) -> Option<BecauseView> {
    let known: BTreeSet<&Site> = other.work.rows.iter().map(|(site, ..)| site).collect();
    let is_own = |site: &Both<'_>| site.bytes[1] == 0 && site.site.label.is_none() && !known.contains(site.site);
    let set_up: u64 = sites
        .iter()
        .filter(|site| !site.is_claimed && is_own(site))
        .map(|site| site.set_up_bytes)
        .fold(0, u64::saturating_add);
    let (delta, views) = claim(sites, is_own);
    if views.is_empty() {
        return None;
    }
    let bytes = delta.unsigned_abs();
    let lines = said(&views);
    if let Some(share) = share_of_model(bytes, job) {
        let verb = if set_up > bytes / 2 { "keeps from its set-up" } else { "holds" };
        return Some(cause("whole-model", delta, format!("{}: {lines}", whole(job, bytes, share, verb)), views));
    }
    if set_up > bytes / 2 {
        let sentence =
            format!("it keeps {} from before the first iteration that the others do not have: {lines}", size(bytes));
        return Some(cause("set-up", delta, sentence, views));
    }
    let sentence = format!("lines that the others do not run hold {}: {lines}", size(bytes));
    Some(cause("own-work", delta, sentence, views))
}

/// A peak in an iteration that the other rank does not have; `fed` is how that iteration is fed, where it is fed more.
fn iterations(
    own: &DeviceDigest,
    other: &DeviceDigest,
    fed: Option<BecauseView>,
    sites: &mut [Both<'_>],
) -> Option<BecauseView> {
    let more = own.iterations.complete.checked_sub(other.iterations.complete).filter(|&more| more > 0);
    let is_there = own.peak.iteration.is_some_and(|at| at as usize >= other.iterations.complete);
    let is_whole = other.recorded.is_none() && other.failed == 0;
    let Some(more) = more.filter(|_| is_there && is_whole && own.peak_bytes > other.peak_bytes) else { return fed };
    let (_, views) = claim(sites, |site| site.delta() > 0 && is_of_data(site));
    let more = if more == 1 { "one more iteration".to_owned() } else { format!("{} more iterations", count(more)) };
    let how = fed.as_ref().map_or_else(String::new, |fed| format!(", where {}", fed.sentence));
    let sentence = format!("it runs {more} than the others, and its peak is there{how}");
    let views = fed.map_or(views, |fed| fed.call_sites);
    Some(cause("extra-iteration", less(own.peak_bytes, other.peak_bytes), sentence, views))
}

/// Blocks of the same sizes, and more of them.
fn more_at_once(sites: &mut [Both<'_>], delta: i64) -> Option<BecauseView> {
    let is_more = delta > 0;
    let holds = |site: &Both<'_>| {
        let [own, other] = site.count;
        if own == 0 || other == 0 || own == other || !is_of_data(site) || (own > other) != is_more {
            return false;
        }
        let (a, b) = (site.bytes[0] / own, site.bytes[1] / other);
        a.abs_diff(b) <= a.max(b) / 50
    };
    let first = sites.iter().find(|site| !site.is_claimed && holds(site))?.count;
    let (sum, views) = claim(sites, holds);
    let (kind, word) = if is_more { ("more-at-once", "more") } else { ("fewer-at-once", "fewer") };
    let sentence = format!(
        "its blocks are as large as elsewhere and {word} are there at once ({} against {}), as with {word} \
         micro-batches in flight: {}",
        count(first[0]),
        count(first[1]),
        said(&views)
    );
    Some(cause(kind, sum, sentence, views))
}

/// As many blocks at the same lines, of other sizes, and not in the proportion of the inputs.
fn uneven(job: &Job, sites: &mut [Both<'_>], delta: i64) -> Option<BecauseView> {
    let is_more = delta > 0;
    let is_line = |site: &Both<'_>| !site.is_claimed && site.site.label.is_none() && is_of_data(site);
    if !sites
        .iter()
        .any(|site| is_line(site) && site.bytes.iter().all(|&bytes| bytes > 0) && (site.delta() > 0) == is_more)
    {
        return None;
    }
    let holds =
        |site: &Both<'_>| is_of_data(site) && site.bytes[0] > 0 && site.bytes[1] > 0 && (site.delta() > 0) == is_more;
    let (sum, views) = claim(sites, holds);
    if views.is_empty() {
        return None;
    }
    let kind = if job.has_experts { "expert-load" } else { "uneven-work" };
    let why = if job.has_experts {
        "as when more tokens are routed to its experts"
    } else {
        "so their sizes depend on the data"
    };
    let word = if is_more { "larger" } else { "smaller" };
    let sentence =
        format!("the same lines make {word} blocks, though its inputs are as large, {why}: {}", said(&views));
    Some(cause(kind, sum, sentence, views))
}

/// What a rank still holds at its end, where the others hold less.
pub(crate) fn at_the_end(row: &Row<'_>, other: &Row<'_>, job: &Job) -> BecauseView {
    let (own, there) = (row.device, other.device);
    let delta = less(own.end_allocated_bytes, there.end_allocated_bytes);
    let mut sites = both_of(&own.end_sites, &there.end_sites);
    let (_, views) = claim(&mut sites, |site| (site.delta() > 0) == (delta > 0));
    let lines = if views.is_empty() { String::new() } else { format!(": {}", said(&views)) };
    let bytes = delta.unsigned_abs();
    if let Some(share) = share_of_model(bytes, job).filter(|_| delta > 0) {
        return cause("whole-model", delta, format!("{}, at its end{lines}", whole(job, bytes, share, "holds")), views);
    }
    let word = if delta > 0 { "more" } else { "less" };
    cause("kept-at-end", delta, format!("at its end it holds {} {word} than the others{lines}", size(bytes)), views)
}

/// Reserved memory that differs where allocated memory does not.
fn reserved(row: &Row<'_>, other: &Row<'_>) -> Option<BecauseView> {
    /// Less, in percent of what is reserved, is a matter of the order of requests.
    const NOTICED_PERCENT: u64 = 10;
    let (own, there) = (row.device, other.device);
    let unused = |device: &DeviceDigest| device.peak_reserved_bytes.saturating_sub(device.peak_bytes);
    let delta = less(unused(own), unused(there));
    if delta.unsigned_abs().saturating_mul(100) < there.peak_reserved_bytes.saturating_mul(NOTICED_PERCENT) {
        return None;
    }
    let settings: Vec<String> = row
        .digest
        .settings
        .iter()
        .filter_map(|(key, value)| {
            let elsewhere = other.digest.settings.get(key)?;
            (elsewhere != value).then(|| format!("`{key}` is {value} here and {elsewhere} there"))
        })
        .take(SAID)
        .collect();
    let retries = match (own.retries, there.retries) {
        (a, b) if a > b => {
            format!(", and {} to release its cache {}", if a == 1 { "had once" } else { "had" }, times_word(a))
        }
        _ => String::new(),
    };
    let word = if delta > 0 { "more" } else { "less" };
    let (kind, why) = if settings.is_empty() {
        ("reserved", "its requests come in another order or in other sizes, which leaves other gaps".to_owned())
    } else {
        ("settings", settings.join(", "))
    };
    let bytes = size(delta.unsigned_abs());
    Some(cause(
        kind,
        delta,
        format!("it reserves {bytes} {word} than it allocates, beside the others: {why}{retries}"),
        Vec::new(),
    ))
}

fn times_word(times: usize) -> String {
    if times == 1 { String::new() } else { format!("{} times", count(times)) }
}

/// Memory of others on its device, and its own on the devices of others.
fn elsewhere(row: &Row<'_>, other: &Row<'_>) -> Vec<BecauseView> {
    let mut found = Vec::new();
    for stray in &row.beside {
        let sentence = format!(
            "it also allocates {} on device {}, which costs a CUDA context there: call \
             `torch.cuda.set_device` before anything else uses CUDA",
            size(stray.peak_bytes),
            stray.device
        );
        let mut because = cause("other-device", less(stray.peak_reserved_bytes, 0), sentence, Vec::new());
        because.r#where = Some(format!("device {}", stray.device));
        found.push(because);
    }
    if let Some(bytes) = more_outside(row, other) {
        let sentence = format!(
            "{} of its GPU are used by something else, beside the others: another process or another CUDA context on the \
             same card",
            size(bytes)
        );
        let mut because = cause("other-context", less(bytes, 0), sentence, Vec::new());
        because.r#where = Some(format!("device {}", row.device.device));
        found.push(because);
    }
    found
}

/// Below this, what others have on a card varies by itself: contexts differ with the libraries that are loaded.
const NOTICED_OUTSIDE_BYTES: u64 = 256 << 20;

/// What else is on a rank's card, as its recorder measured it at the dump.
pub(crate) fn outside_bytes(row: &Row<'_>) -> Option<u64> {
    let devices = &row.digest.manifest.as_ref()?.devices;
    devices.iter().find(|device| device.device == row.device.device)?.outside_bytes
}

/// How much more of its card something else uses than of the other's card, where that is much.
pub(crate) fn more_outside(row: &Row<'_>, other: &Row<'_>) -> Option<u64> {
    let available = |device: &DeviceDigest| {
        device
            .failures
            .iter()
            .filter_map(|failure| Some(failure.free_bytes?.saturating_add(failure.reserved_bytes)))
            .min()
    };
    let more = match (outside_bytes(row), outside_bytes(other)) {
        (Some(own), Some(there)) => own.checked_sub(there),
        // What others have reserved, this one could not have.
        _ => available(row.device).and_then(|available| other.device.peak_reserved_bytes.checked_sub(available)),
    };
    more.filter(|&bytes| bytes > NOTICED_OUTSIDE_BYTES)
}

/// What is left when every cause has its part.
fn unexplained(
    own: &DeviceDigest,
    other: &DeviceDigest,
    sites: &[Both<'_>],
    delta: i64,
    found: &[BecauseView],
) -> Option<BecauseView> {
    let is_of_peak =
        |because: &&BecauseView| !matches!(because.kind, "reserved" | "settings" | "other-device" | "other-context");
    let told: i64 = found.iter().filter(is_of_peak).map(|because| because.delta_bytes).fold(0, i64::saturating_add);
    let rest = delta.saturating_sub(told);
    let is_much = rest.unsigned_abs() > delta.unsigned_abs() / UNEXPLAINED_PART && rest.signum() == delta.signum();
    if !is_much || rest.unsigned_abs().saturating_mul(100) < other.peak_bytes {
        return None;
    }
    let same_sign = |site: &&Both<'_>| !site.is_claimed && site.delta().signum() == delta.signum();
    let mut views: Vec<SiteDeltaView> = sites.iter().filter(same_sign).map(view).collect();
    views.truncate(NAMED);
    let is_bare = own.sites.iter().all(|held| held.site.label.is_some());
    let what = if is_bare { blocks(own, other, delta > 0) } else { said(&views) };
    let what = if what.is_empty() { String::new() } else { format!("; most of it: {what}") };
    let word = if rest > 0 { "more" } else { "less" };
    let sentence = format!("the cause of {} {word} is unknown{what}", size(rest.unsigned_abs()));
    Some(cause("unknown", rest, sentence, if is_bare { Vec::new() } else { views }))
}

/// `32 blocks of 25.00 MiB against 1`, where there are no stacks.
fn blocks(own: &DeviceDigest, other: &DeviceDigest, is_more: bool) -> String {
    let counts = |held: &Held| -> BTreeMap<u64, u64> { held.sizes.iter().copied().collect() };
    let (ours, theirs) = (counts(&own.blocks), counts(&other.blocks));
    let sizes: BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
    let of = |counts: &BTreeMap<u64, u64>, size: u64| counts.get(&size).copied().unwrap_or(0);
    let mut differing: Vec<(u64, u64, u64)> = sizes
        .into_iter()
        .map(|size| (size, of(&ours, size), of(&theirs, size)))
        .filter(|&(_, own, other)| if is_more { own > other } else { own < other })
        .collect();
    differing.sort_by_key(|&(size, own, other)| Reverse(size.saturating_mul(own.abs_diff(other))));
    let one = |&(bytes, own, other): &(u64, u64, u64)| {
        format!("{} of {} against {}", counted(own, "block", "blocks"), size(bytes), count(other))
    };
    differing.iter().take(SAID).map(one).collect::<Vec<_>>().join(", ")
}
