//! Random cases: a request program, and what it runs on.

use std::collections::{BTreeMap, BTreeSet};

use highwater_allocator::TorchVersion;

use crate::draft::Draft;
use crate::draw::Draw;
use crate::settings;

const MIB: u64 = 1 << 20;

/// Sizes around which the allocator, or a setting, decides otherwise.
const EDGES: [u64; 30] = [
    1,
    256,
    512,
    1024,
    4096,
    64 << 10,
    MIB / 2,
    MIB,
    3 * MIB / 2,
    2 * MIB,
    4 * MIB,
    8 * MIB,
    10 * MIB,
    11 * MIB,
    12 * MIB,
    16 * MIB,
    19 * MIB,
    20 * MIB,
    21 * MIB,
    32 * MIB,
    33 * MIB,
    50 * MIB,
    64 * MIB,
    84 * MIB,
    100 * MIB,
    128 * MIB,
    200 * MIB,
    256 * MIB,
    512 * MIB,
    1024 * MIB,
];

/// A program, and what it runs on.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) kind: &'static str,
    pub(crate) torch: TorchVersion,
    pub(crate) conf: String,
    pub(crate) capacity_bytes: u64,
    pub(crate) outside_bytes: u64,
    pub(crate) addresses: String,
    pub(crate) stop_on_oom: bool,
    pub(crate) rows: Vec<String>,
}

impl Case {
    /// The case of this seed: the same everywhere.
    pub(crate) fn new(seed: u64, torch: TorchVersion) -> Self {
        let draw = &mut Draw::new(seed);
        let mut draft = Draft::default();
        let ops = usize::try_from(*draw.of(&[150, 500, 1500, 1500, 3000])).expect("small");
        let (kind, make): (_, fn(&mut Draw, TorchVersion, &mut Draft, usize)) = match draw.below(100) {
            0..40 => ("mixed", mixed),
            40..52 => ("classes", classes),
            52..58 => ("limits", limits),
            58..72 => ("pools", pools),
            72..84 => ("training", training),
            84..95 => ("wild", wild),
            _ => ("settings", few),
        };
        make(draw, torch, &mut draft, ops);
        let conf = match kind {
            "settings" => settings::perhaps_refused(draw, torch),
            // These set what the program changes on the way.
            "limits" if draw.in_a_thousand(600) => String::new(),
            _ => settings::accepted(draw, torch),
        };
        let capacity_bytes = match draw.below(10) {
            _ if kind == "limits" => LIMITS_MIB * MIB,
            0..2 => 64 << 30,
            // Some way around what is live at the peak; now and then no multiple of the driver's 2 MiB.
            share => {
                let live = draft.peak_bytes.clamp(4 * MIB, 64 << 30);
                let capacity = live / 100 * draw.between(60, 160);
                if share == 2 { capacity } else { capacity.next_multiple_of(MIB) }
            }
        };
        let addresses = match draw.below(10) {
            0..5 => "first-fit".to_owned(),
            5..7 => "descending".to_owned(),
            7 => "bump".to_owned(),
            _ => format!("random:{}", draw.below(1 << 32)),
        };
        Self {
            seed,
            kind,
            torch,
            conf,
            capacity_bytes,
            outside_bytes: if draw.in_a_thousand(100) { draw.below(capacity_bytes / 4) } else { 0 },
            addresses,
            stop_on_oom: draw.in_a_thousand(30),
            rows: draft.rows,
        }
    }

    /// What the case runs on, as options of an oracle.
    pub(crate) fn options(&self) -> Vec<String> {
        let options = [
            ("--conf", self.conf.clone()),
            ("--capacity-bytes", self.capacity_bytes.to_string()),
            ("--outside-bytes", self.outside_bytes.to_string()),
            ("--va", self.addresses.clone()),
        ];
        let mut words: Vec<String> = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        if self.stop_on_oom {
            words.push("--stop-on-oom".to_owned());
        }
        words
    }
}

fn size(draw: &mut Draw, max: u64) -> u64 {
    let bytes = match draw.below(100) {
        0..14 => {
            let step = *draw.of(&[0, 1, 511, 512, 513]);
            let edge = *draw.of(&EDGES);
            if draw.in_a_thousand(500) { edge + step } else { edge.saturating_sub(step).max(1) }
        }
        14..55 => draw.any_magnitude(2 * MIB),
        55..80 => draw.between(MIB, 12 * MIB),
        _ => draw.between(MIB, max),
    };
    if bytes > max { draw.between(1, max) } else { bytes }
}

/// Every op, every size, in phases of last in first out, first in first out and random order around a moving target of
/// live blocks.
///
/// What PyTorch up to 2.11 does with `record_stream` under an open pool depends on heap addresses, and so does the
/// order in which several blocks complete that are in use on other streams and were freed under an open pool. So such
/// calls are made while no pool is open, and one such free until no pool is open.
fn mixed(draw: &mut Draw, torch: TorchVersion, p: &mut Draft, ops: usize) {
    let streams = *draw.of(&[1, 1, 2, 3, 5]);
    let max = *draw.of(&[2, 24, 96, 96, 300, 700]) * MIB;
    let live = *draw.of(&[8, 25, 60, 60, 200]);
    let (with_events, with_pools) = (streams > 1 && draw.in_a_thousand(700), draw.in_a_thousand(250));
    let confs = if draw.in_a_thousand(200) { settings::in_turn(draw, torch) } else { Vec::new() };
    let with_fractions = draw.in_a_thousand(250);
    let mut order: Vec<u64> = Vec::new();
    let (mut mode, mut target) = (2, live);
    let mut late_until = None;
    let (mut open, mut held, mut next_pool) = (Vec::new(), Vec::new(), 1);
    let (mut recorded, mut postponed) = (BTreeSet::new(), false);
    while p.len() < ops {
        if draw.in_a_thousand(8) {
            mode = draw.below(3);
            target = draw.between(2, 2 * live);
        }
        if with_fractions && draw.in_a_thousand(4) {
            p.memory_fraction(&settings::fraction(draw));
        }
        if !confs.is_empty() && draw.in_a_thousand(5) {
            p.set_config(&confs[draw.index(confs.len())]);
        }
        order.push(p.alloc(size(draw, max), draw.below(streams)));
        postponed &= !open.is_empty();
        if with_events {
            for _ in 0..2 {
                if open.is_empty() && draw.in_a_thousand(150) {
                    let id = *draw.of(&order);
                    recorded.insert(id);
                    p.record_stream(id, draw.below(streams));
                }
            }
            if late_until.is_none() && draw.in_a_thousand(10) {
                let stream = draw.in_a_thousand(700).then(|| draw.below(streams));
                p.events_ready(stream, false);
                late_until = Some(p.len() + draw.index(150));
            } else if late_until.is_some_and(|until| p.len() > until) {
                p.events_ready(None, true);
                late_until = None;
            }
        }
        let emptied = draw.in_a_thousand(3);
        while order.len() as u64 > target || (!order.is_empty() && draw.in_a_thousand(if emptied { 970 } else { 250 }))
        {
            let at = match mode {
                0 => order.len() - 1,
                1 => 0,
                _ => draw.index(order.len()),
            };
            if !open.is_empty() && recorded.contains(&order[at]) && std::mem::replace(&mut postponed, true) {
                break;
            }
            p.free(order.remove(at));
        }
        match draw.below(2000) {
            0..5 => p.empty_cache(None),
            5 => p.reset_peak(),
            6 => p.snapshot(),
            7 => order.push(p.alloc(0, draw.below(streams))),
            8 => p.free(draw.between(1, 500)),
            9 => order.push(p.alloc(1 << draw.between(31, 59), draw.below(streams))),
            _ => {}
        }
        if with_pools {
            if open.len() < 2 && draw.in_a_thousand(10) {
                // A released pool is gone: its number is not used again. A held one may be entered again.
                let again: Vec<u64> = held.iter().copied().filter(|pool| !open.contains(pool)).collect();
                let pool = if !again.is_empty() && draw.in_a_thousand(400) { *draw.of(&again) } else { next_pool };
                next_pool += u64::from(pool == next_pool);
                open.push(pool);
                held.push(pool);
                let only = draw.in_a_thousand(500).then(|| draw.below(streams));
                p.pool_begin(pool, only);
            } else if !open.is_empty() && draw.in_a_thousand(30) {
                p.pool_end(open.swap_remove(draw.index(open.len())));
            }
            let closed: Vec<u64> = held.iter().copied().filter(|pool| !open.contains(pool)).collect();
            if !closed.is_empty() && draw.in_a_thousand(20) {
                let pool = *draw.of(&closed);
                held.remove(held.iter().position(|&other| other == pool).expect("held"));
                p.pool_release(pool);
            }
        }
    }
    for pool in open {
        p.pool_end(pool);
    }
}

/// Sizes by class: many requests of 1 to 12 MiB, which get segments much larger than themselves; limits and settings
/// that change in turn.
fn classes(draw: &mut Draw, torch: TorchVersion, p: &mut Draft, ops: usize) {
    let streams = *draw.of(&[1, 1, 3]);
    let max = *draw.of(&[96, 400]) * MIB;
    let live = draw.between(10, 50);
    let (small, middle) = (draw.below(300), draw.between(200, 600));
    let every = draw.index(300) + 50;
    let fractions: Vec<String> = (0..draw.below(4)).map(|_| settings::fraction(draw)).collect();
    let confs = if draw.in_a_thousand(500) { settings::in_turn(draw, torch) } else { Vec::new() };
    let mut order: Vec<u64> = Vec::new();
    let mut turn = 0;
    while p.len() < ops {
        if p.len() >= turn * every {
            turn += 1;
            if !fractions.is_empty() {
                p.memory_fraction(&fractions[turn % fractions.len()]);
            }
            if !confs.is_empty() {
                p.set_config(&confs[turn % confs.len()]);
            }
        }
        let bytes = match draw.below(1000) {
            class if class < small => draw.any_magnitude(MIB),
            class if class < small + middle => draw.between(MIB, 12 * MIB),
            _ => draw.between(10 * MIB, max),
        };
        order.push(p.alloc(bytes, draw.below(streams)));
        let keep = if draw.in_a_thousand(4) { live / 8 } else { live };
        while order.len() as u64 > keep || (!order.is_empty() && draw.in_a_thousand(450)) {
            p.free(order.swap_remove(draw.index(order.len())));
        }
        if draw.in_a_thousand(4) {
            p.empty_cache(None);
        }
    }
    p.snapshot();
}

const LIMITS_MIB: u64 = 700;

/// Fills the device with whole segments, exactly to a fraction of it and one step beyond. Where the fraction is a
/// multiple of 2 MiB only after rounding, limits that are rounded and limits that are truncated come apart.
fn limits(draw: &mut Draw, _: TorchVersion, p: &mut Draft, ops: usize) {
    while p.len() < ops.min(800) {
        let percent = draw.between(1, 50) * 2;
        p.memory_fraction(&if percent == 100 { "1.0".to_owned() } else { format!("0.{percent:02}") });
        let mut left = percent * LIMITS_MIB / 200;
        let mut ids = Vec::new();
        while left > 0 {
            // Segments of 4 to 8 MiB do not exist by default: their requests get 20 MiB.
            let pairs = draw.between(1, 40).min(left);
            let pairs = if pairs < 5 { 1 } else { pairs };
            ids.push(p.alloc(if pairs == 1 { MIB - draw.below(1000) } else { 2 * MIB * pairs }, 0));
            left -= pairs;
        }
        ids.extend([p.alloc(MIB, 0), p.alloc(MIB / 2 + 1, 0)]);
        while !ids.is_empty() {
            p.free(ids.swap_remove(draw.index(ids.len())));
        }
        if draw.in_a_thousand(700) {
            p.empty_cache(None);
        }
    }
}

/// Private pools that are entered, filled, released, emptied and, once gone, begun again under the same number, one
/// open at a time; with or without flags and late events.
///
/// Pools with flags have numbers of their own; `use_on_oom` pools are never released, since PyTorch fails when it
/// searches one without uses. Of the blocks used on other streams one at most is freed under an open pool: see
/// [`mixed`].
fn pools(draw: &mut Draw, torch: TorchVersion, p: &mut Draft, ops: usize) {
    let streams = *draw.of(&[1, 2, 3]);
    let with_flags = torch >= TorchVersion::v2(11) && draw.in_a_thousand(500);
    let with_events = streams > 1 && draw.in_a_thousand(500);
    let numbers = draw.between(2, 24);
    let max = *draw.of(&[48, 48, 200]) * MIB;
    // The pool of a block; blocks outside pools; the uses of a pool; blocks used on another stream.
    let mut inside: BTreeMap<u64, u64> = BTreeMap::new();
    let mut outside: Vec<u64> = Vec::new();
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    let mut recorded: BTreeSet<u64> = BTreeSet::new();
    let (mut flagged, mut kept) = (1000, BTreeSet::new());
    while p.len() < ops {
        for _ in 0..draw.below(25) {
            outside.push(p.alloc(size(draw, max), draw.below(streams)));
            while !outside.is_empty() && draw.in_a_thousand(450) {
                p.free(outside.swap_remove(draw.index(outside.len())));
            }
        }
        recorded.retain(|id| outside.contains(id));
        if with_events {
            p.events_ready(None, draw.in_a_thousand(500));
            for &id in &outside {
                if draw.in_a_thousand(200) {
                    recorded.insert(id);
                    p.record_stream(id, draw.below(streams));
                }
            }
        }
        let again: Vec<u64> = held.keys().copied().filter(|&pool| pool < 1000).collect();
        let unused: Vec<u64> = (1..=numbers)
            .filter(|pool| !held.contains_key(pool) && !inside.values().any(|other| other == pool))
            .collect();
        let mut pool = if !again.is_empty() && draw.in_a_thousand(400) {
            Some(*draw.of(&again))
        } else if unused.is_empty() {
            None
        } else {
            Some(*draw.of(&unused))
        };
        if with_flags && draw.in_a_thousand(400) {
            flagged += 1;
            pool = Some(flagged);
            let flags = *draw.of(&["no_split", "use_on_oom", "use_on_oom no_split", ""]);
            let flags = if kept.len() < 4 { flags } else { "no_split" };
            if flags.starts_with("use_on_oom") {
                kept.insert(flagged);
            }
            p.pool_create(flagged, flags);
            held.insert(flagged, 1);
        }
        if let Some(pool) = pool {
            let only = draw.in_a_thousand(500).then(|| draw.below(streams));
            p.pool_begin(pool, only);
            *held.entry(pool).or_default() += 1;
            let mut postponed = false;
            for _ in 0..draw.between(3, 25) {
                let stream = draw.below(streams);
                let id = p.alloc(size(draw, max), stream);
                if only.is_none_or(|only| only == stream) {
                    inside.insert(id, pool);
                } else {
                    outside.push(id);
                }
                let mut freed: Vec<u64> = inside.keys().chain(&outside).copied().collect();
                freed.retain(|id| {
                    draw.in_a_thousand(20) && !(recorded.contains(id) && std::mem::replace(&mut postponed, true))
                });
                for id in freed {
                    inside.remove(&id);
                    outside.retain(|&other| other != id);
                    p.free(id);
                }
                if draw.in_a_thousand(20) {
                    p.empty_cache(None);
                }
            }
            p.pool_end(pool);
        }
        free_some(draw, p, &mut inside, 600, |pool| kept.contains(&pool));
        let released: Vec<u64> =
            held.keys().copied().filter(|pool| !kept.contains(pool) && draw.in_a_thousand(300)).collect();
        for pool in released {
            if draw.in_a_thousand(700) {
                free_some(draw, p, &mut inside, 900, |other| other == pool);
            }
            for _ in 0..held.remove(&pool).expect("held") {
                p.pool_release(pool);
            }
            if draw.in_a_thousand(300) {
                p.empty_cache(Some(pool));
            }
        }
        free_some(draw, p, &mut inside, 500, |pool| !held.contains_key(&pool));
        if with_events {
            p.events_ready(None, true);
            let id = p.alloc(1, 0);
            p.free(id);
        }
        // Pools without uses and without blocks are gone after this, and their numbers can be used again.
        p.empty_cache(None);
        if draw.in_a_thousand(50) {
            p.snapshot();
        }
    }
}

/// Frees a share, in a thousand, of the blocks of some pools.
fn free_some(draw: &mut Draw, p: &mut Draft, inside: &mut BTreeMap<u64, u64>, share: u64, of: impl Fn(u64) -> bool) {
    inside.retain(|&id, &mut pool| {
        let goes = of(pool) && draw.in_a_thousand(share);
        if goes {
            p.free(id);
        }
        !goes
    });
}

/// The training of a decoder: parameters, activations saved forward and freed backward, gradients, the state of Adam;
/// with streams that gather weights and reduce gradients, as sharded training has them.
fn training(draw: &mut Draw, _: TorchVersion, p: &mut Draft, ops: usize) {
    let width = 64 * draw.between(2, 20);
    let vocabulary = 1024 * draw.between(1, 40);
    let layers = draw.between(1, 8);
    let batch = draw.between(1, 8);
    let (low, high) = (draw.between(1, 512), draw.between(513, 1500));
    let with_variable = draw.in_a_thousand(700);
    let streams = *draw.of(&[1, 1, 2, 3]);
    let matrix = width * width;
    let layer = [6 * matrix, 2 * matrix, 8 * matrix, 8 * matrix, 2 * width, 2 * width];
    let mut weights = vec![2 * vocabulary * width];
    for _ in 0..layers {
        weights.extend(layer);
    }
    for &weight in &weights {
        p.alloc(weight, 0);
    }
    let mut with_state = false;
    while p.len() < ops {
        let tokens = batch * if with_variable { draw.between(low, high) } else { high };
        let hidden = 2 * tokens * width;
        let ids = p.alloc(8 * tokens, 0);
        let mut x = p.alloc(hidden, 0);
        let mut saved = Vec::new();
        for _ in 0..layers {
            let gathered = (streams > 1).then(|| p.alloc(24 * matrix, 1));
            let mut kept: Vec<u64> =
                [hidden, 8 * tokens, 3 * hidden, hidden, 4 * tokens].map(|bytes| p.alloc(bytes, 0)).to_vec();
            let projected = p.alloc(hidden, 0);
            kept.push(p.alloc(hidden, 0));
            p.free(projected);
            kept.extend([hidden, 4 * hidden, 4 * hidden].map(|bytes| p.alloc(bytes, 0)));
            let y = p.alloc(hidden, 0);
            kept.push(x);
            x = p.alloc(hidden, 0);
            p.free(y);
            saved.push(kept);
            if let Some(gathered) = gathered {
                p.record_stream(gathered, 0);
                p.free(gathered);
            }
        }
        let logits = p.alloc(2 * tokens * vocabulary, 0);
        let float = p.alloc(4 * tokens * vocabulary, 0);
        let loss = p.alloc(4, 0);
        let float_gradient = p.alloc(4 * tokens * vocabulary, 0);
        p.free(float);
        let gradient = p.alloc(2 * tokens * vocabulary, 0);
        p.free(float_gradient);
        p.free(logits);
        let mut dx = p.alloc(hidden, 0);
        let mut gradients = vec![p.alloc(2 * vocabulary * width, 0)];
        p.free(gradient);
        p.free(x);
        for mut kept in saved.into_iter().rev() {
            let reduced = (streams > 2).then(|| p.alloc(24 * matrix, 2));
            for bytes in layer {
                let temporary = p.alloc(*draw.of(&[hidden, 4 * hidden]), 0);
                gradients.push(p.alloc(bytes, 0));
                p.free(temporary);
                p.free(kept.pop().expect("ten are saved"));
            }
            let next = p.alloc(hidden, 0);
            p.free(std::mem::replace(&mut dx, next));
            for id in kept {
                p.free(id);
            }
            if let Some(reduced) = reduced {
                p.record_stream(reduced, 0);
                if draw.in_a_thousand(300) {
                    p.events_ready(Some(0), false);
                }
                p.free(reduced);
                if draw.in_a_thousand(500) {
                    p.events_ready(None, true);
                }
            }
        }
        p.events_ready(None, true);
        for id in [dx, ids, loss] {
            p.free(id);
        }
        if !std::mem::replace(&mut with_state, true) {
            for &weight in &weights {
                p.alloc(4 * weight.div_ceil(2), 0);
                p.alloc(4 * weight.div_ceil(2), 0);
            }
        }
        for id in gradients {
            let temporary = p.alloc(*draw.of(&layer), 0);
            p.free(temporary);
            p.free(id);
        }
    }
    p.snapshot();
}

/// Anything in any order. PyTorch fails on many of these, so they are short.
fn wild(draw: &mut Draw, torch: TorchVersion, p: &mut Draft, ops: usize) {
    let streams = draw.between(1, 4);
    let pools = draw.between(1, 4);
    let max = *draw.of(&[4, 48, 48, 200]) * MIB;
    let weight = *draw.of(&[0, 0, 10, 60]);
    let ops = ops.min(400);
    let (mut ids, mut held, mut open) = (Vec::new(), Vec::new(), Vec::new());
    while p.len() < ops {
        match draw.below(1000 + weight * 6) {
            0..480 => ids.push(p.alloc(size(draw, max), draw.below(streams))),
            480..800 if !ids.is_empty() => p.free(ids.swap_remove(draw.index(ids.len()))),
            800..880 if !ids.is_empty() => p.record_stream(*draw.of(&ids), draw.below(streams)),
            880..910 => p.events_ready(draw.in_a_thousand(600).then(|| draw.below(streams)), draw.in_a_thousand(600)),
            910..925 => p.empty_cache(None),
            925..930 => p.memory_fraction(&settings::fraction(draw)),
            930..935 => p.set_config(&settings::accepted(draw, torch)),
            935..938 => p.reset_peak(),
            938..942 => p.snapshot(),
            942..945 => p.free(draw.between(1, 500)),
            945..948 => ids.push(p.alloc(1 << draw.between(31, 59), draw.below(streams))),
            word if word < 1000 => {}
            word => match (word - 1000) % 6 {
                0 if torch >= TorchVersion::v2(11) => {
                    let pool = draw.between(1, pools);
                    held.push(pool);
                    let flags = *draw.of(&["", "no_split", "use_on_oom", "use_on_oom no_split"]);
                    p.pool_create(pool, flags);
                }
                0..2 => {
                    let pool = draw.between(1, pools);
                    held.push(pool);
                    open.push(pool);
                    p.pool_begin(pool, draw.in_a_thousand(400).then(|| draw.below(streams)));
                }
                2..4 if !open.is_empty() => p.pool_end(open.swap_remove(draw.index(open.len()))),
                4 if !held.is_empty() => p.pool_release(held.swap_remove(draw.index(held.len()))),
                5 => p.empty_cache(Some(draw.between(1, pools))),
                _ => {}
            },
        }
    }
}

/// A few requests, for settings that may be refused.
fn few(draw: &mut Draw, torch: TorchVersion, p: &mut Draft, _: usize) {
    let mut ids = Vec::new();
    for turn in 0..3 {
        for _ in 0..60 {
            ids.push(p.alloc(size(draw, 200 * MIB), 0));
            if draw.in_a_thousand(450) {
                p.free(ids.swap_remove(draw.index(ids.len())));
            }
        }
        // Refused on the way, settings are an error of PyTorch's, and the case is left out.
        if turn < 2 && draw.in_a_thousand(500) {
            p.set_config(&settings::accepted(draw, torch));
        }
    }
}
