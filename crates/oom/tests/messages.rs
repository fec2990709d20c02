//! Out-of-memory messages: the golden logs of `testdata/messages`, and what holds for any text.

use std::time::Duration;

use highwater_allocator::TorchVersion;
use highwater_allocator::message::{OutOfMemory, Process, Size, rejected};
use highwater_oom::{
    Cause, Found, Kind, LogReader, Message, Situation, Surroundings, diagnosis, record_a_snapshot, steps,
};
use highwater_testkit::{json as json_of, processor_time, testdata};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn found(log: &[u8]) -> Found {
    let mut reader = LogReader::new();
    reader.push(log);
    reader.finish()
}

/// A message as `expected.json` has it: what the text lacks is absent.
fn as_expected(message: &Message, count: u64) -> Value {
    let mut fields = Map::new();
    let numbers = [
        ("rank", message.rank.map(u64::from)),
        ("device", message.device.map(u64::from)),
        ("tried_bytes", message.tried_bytes),
        ("capacity_bytes", message.capacity_bytes),
        ("free_bytes", message.free_bytes),
        ("process_bytes", message.process_bytes),
        ("allocated_bytes", message.allocated_bytes),
        ("reserved_bytes", message.reserved_bytes),
        ("reserved_unallocated_bytes", message.reserved_unallocated_bytes),
        ("limit_bytes", message.limit_bytes),
        ("private_pools_bytes", message.private_bytes),
        ("expandable_reserve_bytes", message.reserve_bytes),
        ("other_allocations_bytes", message.others_bytes),
    ];
    fields.extend(numbers.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?.into()))));
    let processes = message.other_processes.iter().map(|process| json!({"pid": process.pid, "bytes": process.bytes}));
    fields.insert("other_processes".to_owned(), processes.collect());
    fields.insert("count".to_owned(), count.into());
    Value::Object(fields)
}

fn goldens() -> Vec<(String, Vec<u8>, Value)> {
    let folder = testdata("messages");
    let expected = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: Map<String, Value> = serde_json::from_str(&expected).unwrap();
    let logs = expected.into_iter();
    logs.map(|(name, want)| {
        let log = std::fs::read(folder.join(format!("{name}.log"))).unwrap();
        (name, log, want)
    })
    .collect()
}

fn listed(found: &Found) -> Value {
    found.groups.iter().map(|group| as_expected(&group.message, group.count)).collect()
}

#[test]
fn every_golden_log_gives_its_numbers() {
    let goldens = goldens();
    assert!(goldens.len() >= 60);
    for (name, log, want) in goldens {
        assert_eq!(listed(&found(&log)), want, "{name}");
    }
}

#[test]
fn a_message_is_not_counted_again_by_the_words_of_its_first_line() {
    for (name, log, _) in goldens() {
        let found = found(&log);
        for group in &found.groups {
            let again = found.events.iter().find(|event| event.line == group.line);
            assert!(again.is_none(), "{name}: {again:?}");
        }
    }
    // A first line without its numbers is a message, too; one of other words is not.
    let first = "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n";
    let rest = "Currently allocated     : 6.51 GiB\nRequested               : 2.00 GiB\n";
    let bare = "Exception during processing !!! Allocation on device \n";
    let found = found(format!("{first}{rest}and again:\n{first}done\n{bare}").as_bytes());
    assert_eq!((found.count, found.event_count), (2, 1), "{found:?}");
    assert_eq!(found.events[0].line, 7);
}

#[test]
fn the_pieces_that_a_log_comes_in_change_nothing() {
    for (name, log, want) in goldens() {
        for length in [1, 7, 4096] {
            let mut reader = LogReader::new();
            log.chunks(length).for_each(|piece| reader.push(piece));
            assert_eq!(listed(&reader.finish()), want, "{name} in pieces of {length}");
        }
    }
}

#[test]
fn the_words_tell_the_release() {
    for (name, log, _) in goldens() {
        let Some(version) = name.strip_prefix("torch_") else { continue };
        let mut numbers = version.split('_').map(|number| number.parse::<u16>().ok());
        let release = (numbers.next().flatten().unwrap(), numbers.next().flatten().unwrap());
        let releases = found(&log).groups[0].message.releases.unwrap();
        assert!(releases.first <= release && release <= releases.last, "{name}: {releases}");
    }
}

/// What real runs printed on an H200 with torch 2.11.
#[test]
fn messages_of_real_runs_are_read_whole() {
    let limits = json_of(&testdata("replays/limits.json"));
    let mut texts: Vec<String> =
        limits.as_array().unwrap().iter().filter_map(|run| run["oom_message"].as_str().map(str::to_owned)).collect();
    for name in ["oom_gpt2_8gib", "oom_whole_gpu"] {
        let stats = json_of(&testdata(format!("recordings/{name}.json")));
        texts.push(stats["oom_message"].as_str().unwrap().to_owned());
    }
    assert!(texts.len() > 6);
    for text in texts {
        let message = Message::parse(&text).unwrap();
        assert!(!message.is_cut && message.process_bytes.is_some(), "{text}");
        assert_eq!(message.releases.unwrap().first, (2, 11), "{text}");
        assert_eq!(message.other_processes.len(), text.matches("Process ").count(), "{text}");
    }
}

/// The bytes that a size is printed as.
fn printed(bytes: u64) -> u64 {
    let text = format!("RuntimeError: CUDA out of memory. Tried to allocate {} (GPU 0; ", Size(bytes));
    Message::parse(&text).unwrap().tried_bytes.unwrap()
}

#[derive(Clone, Debug)]
struct Written {
    message: OutOfMemory,
}

prop_compose! {
    fn written()(
        minor in 1_u16..=15,
        device in 0_u32..16,
        sizes in prop::array::uniform5(prop_oneof![0..5000_u64, 0..1_u64 << 20, 0..1_u64 << 30, 0..1_u64 << 40]),
        limit in prop::option::of(0_u64..1 << 38),
        private in prop_oneof![Just(0_u64), 1..1_u64 << 30],
        processes in prop::collection::vec((prop::option::of(1_u32..1_000_000), 0_u64..1 << 38), 0..9),
        expandable_segments: bool,
        reserve in prop::option::of(0_u64..1 << 33),
    ) -> Written {
        let mut has_own = false;
        let mut one_own = |id: Option<u32>| if id.is_none() && std::mem::replace(&mut has_own, true) { Some(7) } else { id };
        let processes = processes.into_iter().map(|(id, bytes)| Process { id: one_own(id), bytes }).collect();
        let [segment_bytes, total_bytes, free_bytes, allocated_bytes, unallocated] = sizes;
        let version = TorchVersion::v2(minor);
        let private_free_bytes = private;
        let message = OutOfMemory {
            device,
            segment_bytes,
            total_bytes: Some(total_bytes),
            free_bytes,
            limit_bytes: limit,
            allocated_bytes,
            reserved_bytes: allocated_bytes + private_free_bytes + unallocated,
            private_free_bytes,
            processes,
            expandable_segments,
            exceeded_reserve_bytes: reserve,
            ..OutOfMemory::new(version)
        };
        Written { message }
    }
}

proptest! {
    #[test]
    fn what_our_allocator_writes_is_read_back(Written { message: wrote } in written(), width in 1_usize..200) {
        let text = wrote.to_string();
        let read = Message::parse(&text).unwrap();
        let minor = wrote.version >= TorchVersion::v2(4);
        let private = if minor { wrote.private_free_bytes } else { 0 };
        let allocated = wrote.allocated_bytes + private;
        prop_assert_eq!(read.tried_bytes, Some(printed(wrote.segment_bytes)));
        prop_assert_eq!(read.capacity_bytes, wrote.total_bytes.map(printed));
        prop_assert_eq!(read.free_bytes, Some(printed(wrote.free_bytes)));
        prop_assert_eq!(read.device, Some(wrote.device));
        prop_assert_eq!(read.limit_bytes, wrote.limit_bytes.map(printed));
        prop_assert_eq!(read.allocated_bytes, Some(printed(allocated)));
        prop_assert_eq!(read.reserved_unallocated_bytes, Some(printed(wrote.reserved_bytes - allocated)));
        prop_assert_eq!(read.private_bytes, (private > 0).then(|| printed(private)));
        let own = wrote.processes.iter().find(|process| process.id.is_none());
        prop_assert_eq!(read.process_bytes, own.map(|own| printed(own.bytes)));
        let others = wrote.processes.iter().filter_map(|process| Some((process.id?, printed(process.bytes))));
        let listed = read.other_processes.iter().map(|process| (process.pid, process.bytes));
        prop_assert_eq!(listed.collect::<Vec<_>>(), others.collect::<Vec<_>>());
        prop_assert!(!read.is_cut);
        let releases = read.releases.unwrap();
        let release = wrote.version.numbers();
        prop_assert!(releases.first <= release && release <= releases.last, "{} of {}", releases, wrote.version);
        let is_told = wrote.version >= TorchVersion::v2(15) && (wrote.expandable_segments || wrote.exceeded_reserve_bytes.is_some());
        prop_assert_eq!(read.has_expandable_segments, is_told);

        // Broken into lines anywhere, it says the same.
        let letters: Vec<char> = text.chars().collect();
        let broken: Vec<String> = letters.chunks(width).map(|line| line.iter().collect()).collect();
        let log = broken.join("\n");
        if width >= 4 {
            prop_assert_eq!(Message::parse(&log), Some(read));
        } else {
            let _ = found(log.as_bytes());
        }
    }

    #[test]
    fn a_message_that_is_cut_anywhere_tells_a_part_of_it(Written { message: wrote } in written(), share in 0.0_f64..1.0) {
        let text = wrote.to_string();
        let whole = Message::parse(&text).unwrap();
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
        let end = (text.len() as f64 * share) as usize;
        if let Some(part) = Message::parse(&text[..end]) {
            prop_assert!(part.tried_bytes == whole.tried_bytes);
            for (part, whole) in [
                (part.capacity_bytes, whole.capacity_bytes),
                (part.free_bytes, whole.free_bytes),
                (part.process_bytes, whole.process_bytes),
                (part.limit_bytes, whole.limit_bytes),
                (part.allocated_bytes, whole.allocated_bytes),
                (part.reserved_unallocated_bytes, whole.reserved_unallocated_bytes),
            ] {
                prop_assert!(part.is_none() || part == whole);
            }
        }
    }

    #[test]
    fn any_message_is_explained_without_a_panic(Written { message } in written(), is_notebook: bool) {
        let message = Message::parse(&message.to_string()).unwrap();
        let surroundings = Surroundings { is_notebook, ..Surroundings::default() };
        let situation = Situation::of_message(&message, surroundings);
        let diagnosis = diagnosis(&situation);
        let steps = steps(&situation, &diagnosis);
        if situation.has_expandable_segments || situation.unallocated_bytes.unwrap_or(0) < 64 << 20 {
            prop_assert!(steps.iter().all(|step| step.id != "expandable-segments"));
        }
    }

    #[test]
    fn any_bytes_are_read_the_same_in_any_pieces(log in prop::collection::vec(any::<u8>(), 0..2000), length in 1_usize..200) {
        let whole = found(&log);
        let mut reader = LogReader::new();
        log.chunks(length).for_each(|piece| reader.push(piece));
        prop_assert_eq!(reader.finish(), whole);
    }

    #[test]
    fn pieces_of_messages_in_any_order_are_read_without_a_panic(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60),
        length in 1_usize..50,
    ) {
        let log = pieces.concat();
        let whole = found(log.as_bytes());
        prop_assert!(whole.groups.iter().map(|group| group.count).sum::<u64>() == whole.count);
        let mut reader = LogReader::new();
        log.as_bytes().chunks(length).for_each(|piece| reader.push(piece));
        prop_assert_eq!(reader.finish(), whole);
    }
}

const PIECES: &[&str] = &[
    "CUDA",
    " out of memory",
    ". Tried to allocate",
    " 2.00 GiB",
    "2.",
    "00 G",
    "iB",
    "\n",
    "\r",
    "[rank3]: ",
    "3: ",
    "\\n",
    "\\u001b[31m",
    "\x1b[0m",
    "GPU 0 has a total capacity of ",
    " of which ",
    " is free. ",
    "Process 12 has ",
    "memory in use. ",
    "Of the allocated memory ",
    "is allocated by PyTorch, ",
    "and ",
    "is reserved by PyTorch but unallocated.",
    "{\"rank\": 4, ",
    "\"",
    "(GPU 0; ",
    " total capacity; ",
    " cached)",
    "│",
    "expandable_segments is enabled",
    "\0",
    "8.00 GiB allowed; ",
];

#[test]
fn a_hostile_log_takes_linear_time_and_little_memory() {
    // Each would be quadratic for a parser that begins anew with every line or anchor.
    let patterns = [
        "CUDA out of memory. Tried to allocate ",
        "CUDA out of memory. Tried to allocate 1.00 GiB. ",
        "CUDA out of memory. Tried to allocate 1.00 GiB\n",
        "CUDA\n",
        "out of memory",
        "local_rank CUDA out of memory. Tried to allocate 1.00 GiB. ",
        "Process 1 has 1.00 GiB memory in use. ",
        "\\\\\\\\n out of memory",
        "[rank1]: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has\n[rank2]: by PyTorch\n",
        "{\"a\": \"CUDA out of memory. Tried to allocate 1.00 GiB\\n\"",
        "111111111111111111111111111 total capacity by PyTorch ",
        "\x1b]out of memory",
    ];
    let taken = |pattern: &str, bytes: usize| {
        let log = pattern.repeat(bytes / pattern.len());
        let begun = processor_time();
        let found = found(log.as_bytes());
        assert!(found.groups.len() <= 10_000);
        processor_time().saturating_sub(begun)
    };
    for pattern in patterns {
        // Four times the bytes take 16 times as long where every line or anchor begins anew.
        let (small, large) = (taken(pattern, 64 << 10), taken(pattern, 256 << 10));
        assert!(large < small * 8 + Duration::from_millis(100), "{pattern:?}: {small:?}, {large:?}");
    }
}

#[test]
fn different_messages_beyond_a_bound_are_counted() {
    let one =
        |i: u32| format!("CUDA out of memory. Tried to allocate {i}.00 MiB (GPU 0; 1.00 GiB total capacity;\nx\n");
    let log: String = (0..10_010).map(one).collect();
    let found = found(log.as_bytes());
    assert_eq!((found.groups.len(), found.count, found.left_out), (10_000, 10_010, 10));
}

/// What is kept does not grow with a log, whoever writes it and whatever is left open: its debug text stands for its memory.
#[test]
fn memory_is_bounded() {
    let line = |i: usize| {
        let writer = format!("(Worker pid={i})");
        match i % 7 {
            0 => format!("{writer} CUDA out of memory. Tried to allocate {}.00 GiB. GPU 0 has\n", i % 10),
            1 => format!("{writer}   File \"a{}.py\", line {i}, in f\n", i % 99),
            2 => format!("{writer} NCCL WARN Failed to CUDA calloc {i} bytes\n"),
            3 => format!("{writer} max seq len ({i}), (24.0 GiB KV cache is To serve at least one\n"),
            4 => format!("{writer} | PyTorch CUDA memory summary, device ID {i} |\n"),
            5 => format!("{writer} vocab_size={i} batch_size={i} bad_alloc\n"),
            _ => format!("{writer} Sleep mode freed 1.00 GiB memory, {i}.00 GiB memory is still in use.\n"),
        }
    };
    let mut reader = LogReader::new();
    let mut sizes = Vec::new();
    for part in 0..4 {
        for i in 0..8_000 {
            reader.push(line(part * 8_000 + i).as_bytes());
        }
        sizes.push(format!("{reader:?}").len());
    }
    // Of 2.5 MB of lines.
    assert!(sizes.iter().all(|&size| size < 1 << 20), "{sizes:?}");
}

/// Lines of ranks in any order between each other say the same of each rank.
#[test]
fn ranks_between_each_other_are_told_apart() {
    let log_of = |rank: u64| -> Vec<String> {
        let lines = [
            "Traceback (most recent call last):".to_owned(),
            format!("  File \"/home/u/train{rank}.py\", line {rank}, in main"),
            "    loss.backward()".to_owned(),
            format!(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {rank}.50 GiB. GPU {rank} has a total"
            ),
            format!(
                " capacity of 79.15 GiB of which 1.{rank}0 GiB is free. Of the allocated memory 70.00 GiB is allocated by"
            ),
            " PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.".to_owned(),
            format!("|                  PyTorch CUDA memory summary, device ID {rank}                 |"),
            format!("| Allocated memory      |   {rank}062 MiB |   4877 MiB |  89299 MiB |  88237 MiB |"),
            format!("NCCL WARN Failed to CUDA calloc {rank}6291456 bytes"),
        ];
        lines.iter().map(|line| format!("[rank{rank}]: {line}\n")).collect()
    };
    // A generator of its own: the orders are the same in every run.
    let mut state = 7_u64;
    for _ in 0..50 {
        let mut logs: Vec<_> = (1..=3).map(|rank| log_of(rank).into_iter().peekable()).collect();
        let mut mixed = String::new();
        while logs.iter_mut().any(|log| log.peek().is_some()) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let of = usize::try_from(state >> 33).unwrap() % 3;
            mixed.extend(logs[of].next());
        }
        let found = found(mixed.as_bytes());
        assert_eq!((found.groups.len(), found.events.len(), found.summaries.len()), (3, 3, 3), "{mixed}");
        for group in &found.groups {
            let rank = group.message.rank.unwrap();
            assert_eq!(group.message.device, Some(rank), "{mixed}");
            assert_eq!(group.asked.own.as_ref().unwrap().line, rank, "{mixed}");
            assert_eq!(group.message.reserved_unallocated_bytes, Some(1 << 30), "{mixed}");
        }
        for summary in &found.summaries {
            assert_eq!(summary.device, summary.rank, "{mixed}");
            assert!(summary.allocated().is_some(), "{mixed}");
        }
    }
}

#[test]
fn a_line_may_be_longer_than_any_buffer() {
    let text = OutOfMemory { total_bytes: Some(80 << 30), ..OutOfMemory::new(TorchVersion::v2(11)) }.to_string();
    for before in [(1 << 20) - 40, (1 << 20) - 9, (1 << 20) + 3, 3 << 20] {
        let log = format!("{}{text}{}", "x ".repeat(before / 2), " y".repeat(1 << 20));
        let found = found(log.as_bytes());
        assert_eq!(found.groups.len(), 1, "{before}");
        assert_eq!(found.groups[0].message.capacity_bytes, Some(80 << 30), "{before}");
    }
}

fn cause_of(text: &str, surroundings: Surroundings) -> (Cause, Vec<&'static str>) {
    let situation = Situation::of_message(&Message::parse(text).unwrap(), surroundings);
    let diagnosis = diagnosis(&situation);
    let ids = steps(&situation, &diagnosis).iter().map(|step| step.id).collect();
    (diagnosis.cause, ids)
}

/// A message of torch 2.9 on a card of 24 GiB.
fn says(tried: &str, free: &str, processes: &str, allocated: &str, unallocated: &str) -> String {
    format!(
        "CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 23.65 GiB of which {free} is free. \
         {processes}Of the allocated memory {allocated} is allocated by PyTorch, and {unallocated} is reserved by PyTorch but \
         unallocated."
    )
}

#[test]
fn each_cause_is_told_by_its_numbers() {
    let plain = Surroundings::default();
    let this = |gib: &str| format!("Including non-PyTorch memory, this process has {gib} memory in use. ");
    let cause = |text: &str| cause_of(text, plain);
    let too_big = says("2.00 GiB", "1.00 GiB", &this("22.50 GiB"), "21.90 GiB", "10.00 MiB");
    assert_eq!(cause(&too_big), (Cause::TooBig, vec!["shrink"]));
    let fragmented = says("2.00 GiB", "1.00 GiB", &this("22.50 GiB"), "17.90 GiB", "4.00 GiB");
    assert_eq!(cause(&fragmented), (Cause::Fragmentation, vec!["expandable-segments", "shrink"]));
    let others = says(
        "2.00 GiB",
        "1.00 GiB",
        &format!("Process 7 has 14.00 GiB memory in use. {}", this("8.50 GiB")),
        "7.90 GiB",
        "8.00 MiB",
    );
    assert_eq!(cause(&others), (Cause::OtherProcess, vec!["end-process", "shrink"]));
    let outside = says("2.00 GiB", "1.00 GiB", &this("22.50 GiB"), "10.00 GiB", "8.00 MiB");
    assert_eq!(cause(&outside), (Cause::OutsidePyTorch, vec!["free-outside", "shrink"]));
    let unseen = says("2.00 GiB", "1.00 GiB", &this("4.50 GiB"), "4.00 GiB", "8.00 MiB");
    assert_eq!(cause(&unseen), (Cause::OutsidePyTorch, vec!["free-outside", "shrink"]));
    let never = says("30.00 GiB", "22.00 GiB", &this("1.50 GiB"), "1.00 GiB", "8.00 MiB");
    assert_eq!(cause(&never), (Cause::NeverFits, vec!["split-request"]));
    let limited = too_big
        .replace("Of the", "8.00 GiB allowed; Of the")
        .replace("1.00 GiB is free", "14.00 GiB is free")
        .replace("21.90", "7.50");
    assert_eq!(cause(&limited), (Cause::Limit, vec!["raise-limit", "shrink"]));
    let graphs = too_big.replace(
        "21.90 GiB is allocated by PyTorch,",
        "21.90 GiB is allocated by PyTorch, with 3.00 GiB allocated in private pools (e.g., CUDA Graphs),",
    );
    assert_eq!(cause(&graphs), (Cause::PrivatePools, vec!["share-pools", "shrink"]));
    let notebook = Surroundings { is_notebook: true, ..plain };
    assert_eq!(cause_of(&too_big, notebook), (Cause::Leftover, vec!["restart-kernel", "shrink"]));
    let refused = says("2.00 GiB", "3.00 GiB", &this("20.00 GiB"), "19.50 GiB", "8.00 MiB");
    assert_eq!(cause(&refused).0, Cause::Refused);
    assert_eq!(cause("CUDA out of memory. Tried to allocate more than 1EB memory.").0, Cause::NeverFits);
    assert_eq!(cause(&rejected(5 << 30)), (Cause::Limit, vec!["drop-rejection", "shrink"]));
    assert_eq!(cause("RuntimeError: CUDA error: out of memory").0, Cause::OutsidePyTorch);
}

#[test]
fn advice_that_does_not_apply_is_not_given() {
    let this = "Including non-PyTorch memory, this process has 22.50 GiB memory in use. ";
    let fragmented = says("2.00 GiB", "1.00 GiB", this, "17.90 GiB", "4.00 GiB");
    let told = format!("{fragmented} expandable_segments is enabled. If instead");
    let known = Surroundings { has_expandable_segments: true, ..Surroundings::default() };
    for (text, surroundings) in [(told.as_str(), Surroundings::default()), (&fragmented, known)] {
        let (cause, steps) = cause_of(text, surroundings);
        assert!(cause != Cause::Fragmentation && !steps.contains(&"expandable-segments"), "{text}");
    }
    // Where releases do not have them, their own remedy.
    let old = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.65 GiB total capacity; 17.90 GiB already allocated; 1.00 \
               GiB free; 21.90 GiB reserved in total by PyTorch)";
    assert_eq!(cause_of(old, Surroundings::default()), (Cause::Fragmentation, vec!["max-split-size", "shrink"]));
    // A few MiB are crumbs, even where the request is smaller.
    let crumbs = says("2.00 MiB", "0 bytes", this, "21.90 GiB", "4.32 MiB");
    assert_eq!(cause_of(&crumbs, Surroundings::default()), (Cause::TooBig, vec!["shrink"]));
    assert_eq!(record_a_snapshot(&Situation::default()).id, "record");
}

#[test]
fn a_card_with_a_few_free_mebibytes_is_full() {
    let this = "Including non-PyTorch memory, this process has 23.60 GiB memory in use. ";
    let full = says("26.00 MiB", "38.38 MiB", this, "23.10 GiB", "8.00 MiB");
    assert_eq!(cause_of(&full, Surroundings::default()), (Cause::TooBig, vec!["shrink"]));
    // Half a gibibyte was there for it.
    let refused = says("26.00 MiB", "538.38 MiB", this, "22.60 GiB", "8.00 MiB");
    assert_eq!(cause_of(&refused, Surroundings::default()), (Cause::Refused, vec!["look-at-device"]));
    // PyTorch names no process on Windows alone, whose paging file is a limit, too.
    let nobody = says("26.00 MiB", "4.48 GiB", "", "18.20 GiB", "8.00 MiB");
    assert_eq!(cause_of(&nobody, Surroundings::default()), (Cause::Refused, vec!["larger-page-file"]));
}

#[test]
fn the_memory_that_nobody_names_is_the_cause_where_it_is_much() {
    let old = |allocated: &str, free: &str| {
        format!(
            "CUDA out of memory. Tried to allocate 600.00 MiB (GPU 0; 23.65 GiB total capacity; {allocated} GiB already allocated; {free} \
             MiB free; {allocated} GiB reserved in total by PyTorch)"
        )
    };
    let largest = old("19.40", "300.00");
    assert_eq!(cause_of(&largest, Surroundings::default()), (Cause::TooBig, vec!["shrink", "free-outside"]));
    let small = old("4.20", "300.00");
    assert_eq!(cause_of(&small, Surroundings::default()), (Cause::OutsidePyTorch, vec!["free-outside", "shrink"]));
}

#[test]
fn a_cache_with_more_than_was_refused_is_in_pieces() {
    let says = |unallocated: &str| {
        format!(
            "XPU out of memory. Tried to allocate 1.20 GiB. GPU 0 has a total capacity of 15.11 GiB. Of the allocated memory 8.00 GiB is \
             allocated by PyTorch, and {unallocated} is reserved by PyTorch but unallocated."
        )
    };
    let gaps = cause_of(&says("4.50 GiB"), Surroundings::default());
    assert_eq!(gaps, (Cause::Fragmentation, vec!["empty-cache", "shrink"]));
    assert_eq!(cause_of(&says("20.00 MiB"), Surroundings::default()).0, Cause::Refused);
}

#[test]
fn a_log_says_what_its_messages_do_not() {
    let log = b"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\nstep 1\n";
    assert!(found(log).surroundings.has_expandable_segments);
    let advice = OutOfMemory::new(TorchVersion::v2(9)).to_string();
    assert!(!found(advice.as_bytes()).surroundings.has_expandable_segments);
    assert!(found(b"/tmp/ipykernel_12/345.py in <module>\n").surroundings.is_notebook);
    let mention = found(b"a\ncaught CUDA out of memory, skipping\n");
    assert_eq!(
        (mention.groups.len(), mention.mention.as_ref().map(|mention| mention.line), mention.lines),
        (0, Some(2), 2)
    );
    assert_eq!(Message::parse("RuntimeError: CUDA error: out of memory").unwrap().kind, Kind::Driver);
}
