//! Memory and time of inputs made to be expensive: both stay a small multiple of the input.
//!
//! Each input is read in a process of its own, whose peak is what the system says it was.

use std::fmt::Write as _;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

use highwater_snapshot::Snapshot;

/// Bytes of input, unless the environment says otherwise.
const INPUT_BYTES: u64 = 4 << 20;

/// Peak bytes for each byte of input.
const MAX_MULTIPLE: u64 = 30;

/// What any run of this test binary takes.
const BASE_BYTES: u64 = 24 << 20;

const MAX_TIME: Duration = Duration::from_secs(20);

/// An input: a beginning, a unit that is repeated to the wanted size, an end.
struct Input {
    name: &'static str,
    start: &'static [u8],
    /// Appends the unit of this number.
    unit: fn(u32, &mut Vec<u8>),
    end: &'static [u8],
}

macro_rules! repeated {
    ($name:literal, $start:expr, $unit:expr, $end:expr) => {
        Input { name: $name, start: $start, unit: |_, out| out.extend_from_slice($unit), end: $end }
    };
}

/// A trace with one entry, in memo slot 0.
const ENTRY: &[u8] = b"\x80\x04}(\x8c\x0ddevice_traces]](}(\x8c\x06action\x8c\x05alloc\x8c\x04addr\x8c\x04addru\x94";
const SEGMENT: &[u8] = b"\x80\x04}(\x8c\x08segments](}(\x8c\x0atotal_sizeK\x00\x8c\x07addressK\x00u\x94";
const ANNOTATION: &[u8] =
    b"\x80\x04}(\x8c\x08segments]\x8c\x14external_annotations](}(\x8c\x05stageN\x8c\x04nameNu\x94";
const FRAME: &[u8] = b"\x80\x04](}(\x8c\x08filenameN\x8c\x04lineNu\x94";
/// Segments; a list of one block in memo slot 1.
const BLOCKS: &[u8] = b"\x80\x04}(\x8c\x08segments](](}(\x8c\x04sizeK\x00\x8c\x05stateNu\x94e\x940";
const ROOT: &[u8] = b"\x80\x04}(\x8c\x08segments](";

fn number(i: u32, out: &mut Vec<u8>) {
    out.push(b'J');
    out.extend_from_slice(&i.to_le_bytes());
}

fn string(i: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x8c\x05");
    out.extend(format!("{i:05x}").into_bytes().into_iter().take(5));
}

const INPUTS: &[Input] = &[
    repeated!("empty lists", b"\x80\x04(", b"]", b""),
    repeated!("empty dicts", b"\x80\x04(", b"}", b""),
    repeated!("empty tuples", b"\x80\x04(", b")", b""),
    repeated!("empty dicts, memoized", b"\x80\x04(", b"}\x94", b""),
    repeated!("numbers", b"\x80\x04(", b"K\x00", b""),
    repeated!("None", b"\x80\x04(", b"N", b""),
    repeated!("duplicates", b"\x80\x04]", b"2", b"e"),
    repeated!("memo slots", b"\x80\x04]", b"\x94", b""),
    repeated!("floats", b"\x80\x04(", b"G\0\0\0\0\0\0\0\0", b""),
    repeated!("wide numbers", b"\x80\x04(", b"\x8a\x08\0\0\0\0\0\0\0\x7f", b""),
    repeated!("wide numbers in one memo slot", b"\x80\x04\x8a\x08\0\0\0\0\0\0\0\x7f", b"q\x00", b"."),
    repeated!("lists of one", b"\x80\x04(", b"]Na", b""),
    repeated!("dicts of one pair", b"\x80\x04(", b"}NNs", b""),
    repeated!("tuples in tuples", b"\x80\x04N", b"\x85", b"."),
    repeated!("tuples of two of the tuple before", b"\x80\x04N", b"2\x86", b"."),
    repeated!("lists in lists", b"\x80\x04]", b"]", b""),
    repeated!("lists appended to each other", b"\x80\x04]", b"]a", b""),
    repeated!("one entry over and over", ENTRY, b"h\x00", b"eau."),
    repeated!("one entry over and over, duplicated", ENTRY, b"2", b"eau."),
    repeated!("one segment over and over", SEGMENT, b"2", b"eu."),
    repeated!("one annotation over and over", ANNOTATION, b"2", b"eu."),
    repeated!("one frame over and over", FRAME, b"2", b"e."),
    repeated!("one list of blocks in every segment", BLOCKS, b"}(\x8c\x0atotal_sizeK\x00\x8c\x06blocksh\x01u", b"eu."),
    repeated!("one block in every list", BLOCKS, b"]h\x00a", b""),
    repeated!("entries without content", b"\x80\x04](\x8c\x06action\x94", b"}(h\x00NNNu", b"e."),
    repeated!("keys without a name", ROOT, b"NN", b"eu."),
    Input { name: "distinct strings", start: b"\x80\x04(", unit: string, end: b"" },
    Input {
        name: "distinct streams",
        start: b"\x80\x04](\x8c\x06action\x94\x8c\x06stream\x94",
        unit: |i, out| {
            out.extend_from_slice(b"}(h\x00Nh\x01");
            number(i, out);
            out.push(b'u');
        },
        end: b"e.",
    },
    Input {
        name: "distinct streams, chosen for their hashes",
        start: b"\x80\x04](\x8c\x06action\x94\x8c\x06stream\x94",
        unit: |i, out| {
            // Undoes the multiplication of FxHash: all hashes end in the same bits.
            out.extend_from_slice(b"}(h\x00Nh\x01\x8a\x08");
            out.extend_from_slice(&u64::from(i).wrapping_mul(0x7814_94A5_5DAA_ED0D).to_le_bytes());
            out.push(b'u');
        },
        end: b"e.",
    },
    Input {
        name: "distinct pools",
        start: b"\x80\x04(",
        unit: |i, out| {
            number(i, out);
            out.extend_from_slice(b"2\x86");
        },
        end: b"",
    },
    Input {
        name: "distinct frames",
        start: b"\x80\x04](\x8c\x08filename\x94\x8c\x04line\x94",
        unit: |i, out| {
            out.extend_from_slice(b"}(h\x00Nh\x01");
            number(i, out);
            out.push(b'u');
        },
        end: b"e.",
    },
    Input {
        name: "memo slots out of order",
        start: b"\x80\x04N",
        unit: |i, out| {
            out.push(b'r');
            out.extend_from_slice(&(u32::MAX - i).to_le_bytes());
        },
        end: b".",
    },
    Input {
        name: "one large dict appended to a list over and over",
        start: b"\x80\x04](}(",
        unit: |i, out| match i {
            0..200_000 => out.extend_from_slice(b"K\x00N"),
            200_000 => out.extend_from_slice(b"u"),
            _ => out.extend_from_slice(b"2"),
        },
        end: b"e.",
    },
    Input {
        name: "a long value under many unknown keys",
        start: b"\x80\x04}(\x8c\x08segments]\x8c\x01k\x94](",
        unit: |i, out| match i {
            0..5000 => out.extend_from_slice(b"K\x00"),
            5000 => out.extend_from_slice(b"e\x94"),
            _ => out.extend_from_slice(b"h\x00h\x01"),
        },
        end: b"u.",
    },
    Input {
        name: "a long value under an unknown key of every entry",
        start: b"\x80\x04](](",
        unit: |i, out| match i {
            0..5000 => out.extend_from_slice(b"K\x00"),
            5000 => out.extend_from_slice(b"e\x94\x8c\x06action\x94\x8c\x01k\x94"),
            _ => out.extend_from_slice(b"}(h\x01Nh\x02h\x00u"),
        },
        end: b"e.",
    },
    Input {
        name: "settings that share their tables five deep",
        start: b"\x80\x04}(\x8c\x08segments]\x8c\x12allocator_settings}(\x8c\x01kNu\x94",
        unit: |i, out| {
            if i < 4000 {
                // A new table of a thousand keys that all hold the table before.
                if i.is_multiple_of(1000) {
                    out.extend_from_slice(b"}(");
                }
                string(i, out);
                out.extend_from_slice(&[b'h', u8::try_from(i / 1000).unwrap()]);
                if i % 1000 == 999 {
                    out.extend_from_slice(b"u\x94");
                }
            } else {
                out.extend_from_slice(b"NN");
            }
        },
        end: b"u.",
    },
    repeated!("JSON: empty lists", b"[", b"[],", b"[]]"),
    repeated!("JSON: lists of one", b"[", b"[1],", b"[]]"),
    repeated!("JSON: empty dicts", b"[", b"{},", b"{}]"),
    repeated!("JSON: dicts of one pair", b"[", b"{\"\":1},", b"{}]"),
    repeated!("JSON: numbers", b"[", b"1,", b"1]"),
    repeated!("JSON: one long list of floats", b"[", b"1e9,", b"1]"),
    repeated!("JSON: entries without content", b"[", b"{\"action\":1},", b"{}]"),
    repeated!("JSON: spaces", b"[", b" ", b"]"),
    repeated!("a memo slot overwritten before each stack", FRAME, b"Nq\x010](h\x00e0", b"e."),
    repeated!("NUL behind the end", b"\x80\x04].", b"\0", b""),
];

/// The bytes of an input, made as they are read.
struct Bytes {
    input: &'static Input,
    unit: u32,
    left: u64,
    ready: Vec<u8>,
    taken: usize,
    ended: bool,
}

impl Bytes {
    fn new(input: &'static Input, size: u64) -> Self {
        Self { input, unit: 0, left: size, ready: input.start.to_vec(), taken: 0, ended: false }
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.taken == self.ready.len() {
            self.ready.clear();
            self.taken = 0;
            while self.left > 0 && self.ready.len() < 64 << 10 {
                let before = self.ready.len();
                (self.input.unit)(self.unit, &mut self.ready);
                self.unit += 1;
                self.left = self.left.saturating_sub((self.ready.len() - before) as u64);
            }
            if self.left == 0 && !self.ended {
                self.ended = true;
                self.ready.extend_from_slice(self.input.end);
            }
        }
        let count = buffer.len().min(self.ready.len() - self.taken);
        buffer[..count].copy_from_slice(&self.ready[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn input_bytes() -> u64 {
    std::env::var("COST_INPUT_BYTES").map_or(INPUT_BYTES, |text| text.parse().unwrap())
}

/// Reads one input and says what it took, for the process that started this one.
#[test]
#[ignore = "run by `no_input_takes_more_than_a_small_multiple_of_itself`, in a process for each input"]
fn one_input() {
    let number: usize = std::env::var("COST_INPUT").unwrap().parse().unwrap();
    let begun = highwater_testkit::processor_time();
    let result = Snapshot::read(Bytes::new(&INPUTS[number], input_bytes()));
    let (peak, took) = (peak_bytes(), highwater_testkit::processor_time().saturating_sub(begun).as_millis());
    let outcome = result
        .map_or_else(|error| error.to_string(), |snapshot| format!("{} warnings", snapshot.warnings.iter().count()));
    std::fs::write(std::env::var("COST_OUT").unwrap(), format!("{peak} {took} {outcome}")).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn no_input_takes_more_than_a_small_multiple_of_itself() {
    let mut table = String::new();
    let mut too_much = String::new();
    for (number, input) in INPUTS.iter().enumerate() {
        let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cost-{number}"));
        drop(std::fs::remove_file(&out));
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cost::one_input", "--ignored"])
            .env("COST_INPUT", number.to_string())
            .env("COST_OUT", &out)
            .output()
            .unwrap();
        let Ok(line) = std::fs::read_to_string(&out) else {
            panic!("{}: {}", input.name, String::from_utf8_lossy(&output.stdout));
        };
        let mut words = line.splitn(3, ' ');
        let [peak, took] = [(); 2].map(|()| words.next().unwrap().parse::<u64>().unwrap());
        #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
        let multiple = peak as f64 / input_bytes() as f64;
        let row = format!("{multiple:6.1} x {took:6} ms  {} ({})", input.name, words.next().unwrap());
        writeln!(table, "{row}").unwrap();
        if peak > BASE_BYTES + MAX_MULTIPLE * input_bytes() || Duration::from_millis(took) > MAX_TIME {
            writeln!(too_much, "{row}").unwrap();
        }
    }
    if let Ok(path) = std::env::var("COST_TABLE") {
        std::fs::write(path, &table).unwrap();
    }
    assert_eq!(too_much, "", "too much of:\n{table}");
}
