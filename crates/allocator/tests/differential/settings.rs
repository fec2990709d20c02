//! Settings strings, of keys that a version has.

use highwater_allocator::TorchVersion;

use crate::draw::Draw;

/// A string of one to four keys, or the default; PyTorch accepts it when nothing was set before.
pub(crate) fn accepted(draw: &mut Draw, torch: TorchVersion) -> String {
    if draw.in_a_thousand(250) {
        return String::new();
    }
    let count = *draw.of(&[1, 1, 1, 2, 2, 3, 4]);
    some_keys(draw, torch, count, true)
}

/// A string that may be refused: values at and beyond their limits, unknown keys, empty parts.
pub(crate) fn perhaps_refused(draw: &mut Draw, torch: TorchVersion) -> String {
    let mut conf = some_keys(draw, torch, 1, true);
    for _ in 0..draw.between(1, 3) {
        conf.push(',');
        conf += *draw.of(&[
            "",
            "max_split_size_mb:19",
            "max_split_size_mb:20",
            "max_split_size_mb:0",
            "max_split_size_mb:1",
            "max_split_size_mb:20.7",
            "max_split_size_mb:-5",
            "max_split_size_mb:x",
            "max_split_size_mb",
            "max_split_size_mb:",
            "max_split_size_mb: 64 ",
            "max_split_size_mb=64",
            "max_non_split_rounding_mb:19",
            "max_non_split_rounding_mb:20",
            "large_segment_size_mb:10",
            "large_segment_size_mb:11",
            "large_segment_size_mb:40",
            "garbage_collection_threshold:0",
            "garbage_collection_threshold:0.0001",
            "garbage_collection_threshold:1",
            "garbage_collection_threshold:1.5",
            "garbage_collection_threshold:-0.5",
            "garbage_collection_threshold:.5",
            "garbage_collection_threshold:5e-1",
            "roundup_power2_divisions:0",
            "roundup_power2_divisions:1",
            "roundup_power2_divisions:3",
            "roundup_power2_divisions:256",
            "roundup_power2_divisions:[]",
            "roundup_power2_divisions:[1:0]",
            "roundup_power2_divisions:[3:2]",
            "roundup_power2_divisions:[0:2]",
            "roundup_power2_divisions:[2:3]",
            "roundup_power2_divisions:[2:4,]",
            "roundup_power2_divisions:[2:4",
            "roundup_power2_divisions:[131072:4]",
            "expandable_segments:true",
            "expandable_segments:1",
            "expandable_segments:False",
            "per_process_memory_fraction:0.5",
            "per_process_memory_fraction:1.5",
            "per_process_memory_fraction:-1",
            "backend:native",
            "backend:nonsense",
            "release_lock_on_cudamalloc:True",
            "release_lock_on_cudamalloc:yes",
            "expandable_segments_reserve:0.5",
            "expandable_segments_reserve:2G",
            "expandable_segments_reserve:512M",
            "expandable_segments_reserve:nonsense",
            "pinned_use_cuda_host_register:True",
            "pinned_num_register_threads:8",
            "pinned_num_register_threads:3",
            "pinned_num_register_threads:256",
            "pinned_use_background_threads:True",
            "throw_on_cudamalloc_oom:True",
            "roundup_bypass_threshold_mb:64",
            "nonsense:1",
            "nonsense",
        ]);
    }
    conf
}

/// The parts of a string between the commas that are not inside a list.
pub(crate) fn parts(conf: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for letter in conf.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("one at least").push(letter);
    }
    parts
}

/// Settings that may follow each other: PyTorch fails when splitting is limited while expandable segments are in use.
pub(crate) fn in_turn(draw: &mut Draw, torch: TorchVersion) -> Vec<String> {
    if draw.in_a_thousand(500) {
        return vec!["expandable_segments:True".to_owned(), "expandable_segments:False".to_owned()];
    }
    (0..draw.between(2, 4)).map(|_| some_keys(draw, torch, 2, false)).collect()
}

fn some_keys(draw: &mut Draw, torch: TorchVersion, count: usize, expandable: bool) -> String {
    let mut keys = vec!["max_split_size_mb", "roundup_power2_divisions", "garbage_collection_threshold"];
    keys.push("max_non_split_rounding_mb");
    if expandable {
        keys.extend(["expandable_segments", "expandable_segments"]);
    }
    if torch >= TorchVersion::v2(10) {
        keys.push("per_process_memory_fraction");
    }
    if torch >= TorchVersion::v2(11) {
        keys.push("large_segment_size_mb");
    }
    if torch >= TorchVersion::v2(12) {
        keys.push("throw_on_cudamalloc_oom");
    }
    if expandable && torch >= TorchVersion::v2(15) {
        keys.push("expandable_segments_reserve");
    }
    let mut parts = Vec::new();
    while parts.len() < count && !keys.is_empty() {
        let key = keys.swap_remove(draw.index(keys.len()));
        keys.retain(|&other| other != key);
        parts.push(format!("{key}:{}", value(draw, key)));
    }
    parts.join(",")
}

fn value(draw: &mut Draw, key: &str) -> String {
    match key {
        // From the largest segment size below: a smaller one would be refused.
        "max_split_size_mb" | "max_non_split_rounding_mb" => {
            if draw.in_a_thousand(700) { *draw.of(&[64, 65, 100, 128, 256, 512]) } else { draw.between(64, 300) }
                .to_string()
        }
        "large_segment_size_mb" => draw.of(&[11, 12, 20, 21, 32, 33, 50, 64]).to_string(),
        "garbage_collection_threshold" => format!("0.{}", draw.between(1, 99)),
        "per_process_memory_fraction" => fraction(draw),
        "expandable_segments_reserve" => (*draw.of(&["0.05", "0.25", "0.5", "1.0", "1G", "3G", "100G"])).to_owned(),
        "roundup_power2_divisions" if draw.in_a_thousand(500) => draw.of(&[1, 2, 4, 8, 16, 32, 64]).to_string(),
        "roundup_power2_divisions" => divisions(draw),
        _ => if draw.in_a_thousand(850) { "True" } else { "False" }.to_owned(),
    }
}

fn divisions(draw: &mut Draw) -> String {
    let mut entries = Vec::new();
    let mut interval = draw.below(3);
    for _ in 0..draw.between(1, 4) {
        let division = if draw.in_a_thousand(100) { 0 } else { 1 << draw.below(6) };
        entries.push(format!("{}:{division}", 1_u64 << interval));
        interval += draw.between(1, 4);
    }
    if draw.in_a_thousand(600) {
        let at = if draw.in_a_thousand(900) { entries.len() } else { draw.index(entries.len() + 1) };
        entries.insert(at, format!(">:{}", 1 << draw.below(5)));
    }
    format!("[{}]", entries.join(","))
}

/// A share of the device's memory.
pub(crate) fn fraction(draw: &mut Draw) -> String {
    match draw.below(10) {
        0 => "1.0".to_owned(),
        1..=4 => format!("0.{}", draw.between(1, 9)),
        _ => format!("0.{:03}", draw.between(30, 999)),
    }
}
