//! Random request programs through PyTorch's own allocator and through ours: every byte of what they write is compared.
//!
//! A binary of its own: `make fuzz-allocator` builds and runs it alone, in release, and it replaces the panic hook of its process.
//! PyTorch's allocator runs in the oracles, which `make oracle` builds and which are not part of the repository.
//! `make fuzz-allocator` runs this with them; without them only the generator is tested, with what must hold of any
//! allocator. What steers it:
//!
//! | variable | what |
//! | --- | --- |
//! | `HIGHWATER_ORACLE` | the folder of the oracles, one folder each |
//! | `HIGHWATER_FUZZ_SECONDS` | how long, 10 by default |
//! | `HIGHWATER_FUZZ_SEED` | the first seed; by default the time, so that every run sees new programs |

#![expect(clippy::print_stderr, reason = "says what is running, and what was found")]

mod books;
mod cases;
mod draft;
mod draw;
mod outcome;
mod settings;
mod shrink;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use cases::Case;
use outcome::{Oracle, Verdict, compare};
use shrink::shrink;

/// After so many differences the search ends.
const ENOUGH: usize = 5;

/// How often a difference is looked for again while the program shrinks.
const PATIENCE: usize = 3000;

/// How often PyTorch must decide the same with the heap at other addresses before a difference counts.
const REPEATS: usize = 6;

#[test]
fn every_program_does_as_in_torch() {
    let Some(folder) = std::env::var_os("HIGHWATER_ORACLE") else {
        eprintln!("not run: HIGHWATER_ORACLE does not say where the oracles are; `make oracle` builds them");
        return;
    };
    let oracles = Oracle::find(Path::new(&folder));
    let duration = Duration::from_secs(number("HIGHWATER_FUZZ_SECONDS").unwrap_or(10));
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("later than 1970");
    let first = number("HIGHWATER_FUZZ_SEED").unwrap_or(since_1970.as_secs() * 1000);
    eprintln!("seeds from {first}, for {} s", duration.as_secs());
    // A panic of our allocator is a difference, and is reported as one.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (mut tally, mut found) = (Tally::default(), Vec::new());
    let (begun, mut said) = (Instant::now(), Instant::now());
    for seed in first.. {
        for oracle in &oracles {
            if let Some(difference) = try_case(oracle, &Case::new(seed, oracle.torch), &mut tally) {
                eprintln!("{difference}");
                found.push(difference);
                // Other versions would likely differ in the same way.
                break;
            }
        }
        if said.elapsed() > Duration::from_secs(30) {
            eprintln!("{} s: {}", begun.elapsed().as_secs(), tally.line());
            said = Instant::now();
        }
        if found.len() >= ENOUGH || begun.elapsed() >= duration {
            break;
        }
    }
    std::panic::set_hook(hook);
    eprintln!("{}{}", tally.failures(), tally.line());
    assert!(found.is_empty(), "{} differences, listed above", found.len());
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: `{text}`")))
}

/// What was run so far.
#[derive(Default)]
struct Tally {
    cases: usize,
    events: usize,
    /// Cases on which PyTorch fails, by kind and how it fails: all, and those on which we fail too.
    torch_fails: BTreeMap<(&'static str, &'static str), (usize, usize)>,
    /// Cases whose outcome in PyTorch depends on where its heap lies.
    unsettled: usize,
    equal: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn line(&self) -> String {
        let equal: Vec<String> = self.equal.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        format!(
            "{} cases; equal {} ({}), {} events; torch fails on {}, on {} of them so do we; on {} its outcome depends \
             on heap addresses",
            self.cases,
            self.equal.values().sum::<usize>(),
            equal.join(", "),
            self.events,
            self.torch_fails.values().map(|fails| fails.0).sum::<usize>(),
            self.torch_fails.values().map(|fails| fails.1).sum::<usize>(),
            self.unsettled,
        )
    }

    fn failures(&self) -> String {
        let lines = self.torch_fails.iter().map(|((kind, why), (all, ours))| {
            format!("torch fails on {all} of {kind}, on {ours} of them so do we: {why}\n")
        });
        lines.collect()
    }
}

/// Runs a case, and says how it differs, with the fewest rows that do.
fn try_case(oracle: &Oracle, case: &Case, tally: &mut Tally) -> Option<String> {
    tally.cases += 1;
    let torch = oracle.run(case, false);
    match compare(case.kind, &torch, &outcome::ours(case)) {
        Verdict::Equal => {
            *tally.equal.entry(case.kind).or_default() += 1;
            tally.events += torch.map_or(0, |outputs| outputs[0].lines().count() - 1);
            return None;
        }
        Verdict::TorchFails { why, as_do_we } => {
            let fails = tally.torch_fails.entry((case.kind, why)).or_default();
            fails.0 += 1;
            fails.1 += usize::from(as_do_we);
            return None;
        }
        Verdict::Differs(_) => {}
    }
    if (0..REPEATS).any(|_| oracle.run(case, true) != torch) {
        tally.unsettled += 1;
        return None;
    }
    let difference = |case: &Case| match compare(case.kind, &oracle.run(case, false), &outcome::ours(case)) {
        Verdict::Differs(how) => Some(how),
        _ => None,
    };
    let mut shortest = case.clone();
    let with_rows = |rows: &[String]| Case { rows: rows.to_vec(), ..case.clone() };
    shortest.rows = shrink(&case.rows, PATIENCE, |rows| difference(&with_rows(rows)).is_some());
    let with_parts = |parts: &[String]| Case { conf: parts.join(","), ..shortest.clone() };
    let parts = shrink(&settings::parts(&case.conf), PATIENCE, |parts| difference(&with_parts(parts)).is_some());
    let shortest = with_parts(&parts);
    let how = difference(&shortest).unwrap_or_else(|| "nothing, when it is run again".to_owned());
    Some(describe(oracle, case, &shortest, &how))
}

fn describe(oracle: &Oracle, case: &Case, shortest: &Case, how: &str) -> String {
    let folder = outcome::scratch().join("differential");
    let path: PathBuf = folder.join(format!("{}-{}.csv", case.seed, case.torch));
    std::fs::create_dir_all(&folder).expect("the folder of tests can be written");
    std::fs::write(&path, draft::file(&shortest.rows)).expect("the folder of tests can be written");
    let quoted: Vec<String> = shortest
        .options()
        .iter()
        .map(|word| if word.starts_with("--") { word.clone() } else { format!("'{word}'") })
        .collect();
    format!(
        "seed {}, torch {}, {}: {how}\n  program: {}, {} rows of {}\n  torch:   {} --program {} {} --events -\n  \
         again:   HIGHWATER_FUZZ_SEED={} HIGHWATER_FUZZ_SECONDS=0",
        case.seed,
        case.torch,
        case.kind,
        path.display(),
        shortest.rows.len(),
        case.rows.len(),
        oracle.program.display(),
        path.display(),
        quoted.join(" "),
        case.seed,
    )
}
