//! The commands of the README and of `docs/` do what these pages say.
//!
//! - A ```` ```console ```` block is a transcript. Its commands run in a directory that has `testdata`, and must print what stands below
//!   them. A line `…` stands for any number of lines, and a `…` within a line for a time, a version or a path: anything.
//!   `INSTA_UPDATE=always` writes the output anew, around the `…`.
//! - Where a GPU or a network is needed, the line before the block says when and where it was recorded:
//!   `Recorded on 2026-11-22, NVIDIA H200:`. It is not run.
//! - Any other line of code that begins with `highwater` is an example: it runs on the files of [`FILES`], and prints what the stored
//!   `examples` have. What needs a GPU, serves a page or runs a script is only asked for its help, which knows the options, and must not
//!   be refused. So is a command within a sentence.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Stands for any number of lines of output.
const ELISION: &str = "…";

/// How the line before a transcript begins that cannot be made again here.
const RECORDED: &str = "Recorded on ";

/// Files that examples name, and the ones of `testdata` that stand for them.
const FILES: [(&str, &str); 18] = [
    ("highwater.pickle", "whole_card/nccl.pickle.gz"),
    ("profile.sqlite", "nsight/2024.sqlite"),
    ("run.pickle", "recordings/resnet50_expandable.pickle.gz"),
    ("last-release.pickle", "recordings/resnet50_expandable.pickle.gz"),
    ("oom.pickle", "recordings/oom_gpt2_8gib.pickle.gz"),
    ("before.pickle", "batches/resnet18_b8.pickle.gz"),
    ("after.pickle", "batches/resnet18_b32.pickle.gz"),
    ("first.pickle", "recordings/linear_forward.pickle.gz"),
    ("second.pickle", "recordings/linear_forward.pickle.gz"),
    ("batch8.pickle", "batches/resnet18_b8.pickle.gz"),
    ("batch16.pickle", "batches/resnet18_b32.pickle.gz"),
    ("batch32.pickle", "batches/resnet18_b96.pickle.gz"),
    ("lightning.pickle", "recordings/linear_forward.pickle.gz"),
    ("transformers.pickle", "recordings/linear_forward.pickle.gz"),
    ("train.log", "messages/slurm_label.log"),
    ("job/rank0.pickle", "ranks/leak.rank0.pickle.gz"),
    ("job/rank1.pickle", "ranks/leak.rank1.pickle.gz"),
    ("program.csv", "allocator/programs/classes12_fraction.csv.gz"),
];

/// Commands that need a GPU, serve a page or run a script.
const NOT_RUN: [&str; 5] = ["doctor", "dryrun", "run", "top", "view"];

/// The exit status for an input or an option that is refused.
const REFUSED: i32 = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README, and the pages below `docs/`.
fn pages() -> Vec<PathBuf> {
    let markdown = |directory: &str| {
        let entries = fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect::<Vec<_>>()
    };
    let mut pages =
        [vec![root().join("README.md")], markdown("docs"), markdown("docs/findings"), markdown("docs/integrations")]
            .concat();
    pages.sort();
    pages
}

/// Code on a page.
struct Block {
    /// The word after the fence; empty for code that is indented.
    language: String,
    /// The last line before it that is not blank.
    before: String,
    /// Where its lines are on the page.
    lines: std::ops::Range<usize>,
}

fn blocks(page: &[&str]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut before = "";
    let mut at = 0;
    while at < page.len() {
        let line = page[at];
        let is_fence = |line: &str| line.trim_start().starts_with("```");
        let is_code = |line: &str| line.starts_with("    ") || line.is_empty();
        if is_fence(line) {
            let length = page[at + 1..].iter().position(|line| is_fence(line)).expect("a fence is closed");
            let language = line.trim_start().trim_start_matches('`').to_owned();
            blocks.push(Block { language, before: before.to_owned(), lines: at + 1..at + 1 + length });
            at += length + 2;
        } else if line.starts_with("    ") && (at == 0 || page[at - 1].is_empty()) {
            let length = page[at..].iter().position(|line| !is_code(line)).unwrap_or(page.len() - at);
            blocks.push(Block { language: String::new(), before: before.to_owned(), lines: at..at + length });
            at += length;
        } else {
            if !line.is_empty() {
                before = line;
            }
            at += 1;
        }
    }
    blocks
}

/// A command of a transcript, and the lines below it.
struct Said<'p> {
    command: &'p str,
    output: Vec<&'p str>,
}

fn transcript<'p>(lines: &[&'p str]) -> Vec<Said<'p>> {
    let mut said: Vec<Said<'p>> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), said.last_mut()) {
            (Some(command), _) => said.push(Said { command, output: Vec::new() }),
            (None, Some(last)) => last.output.push(line),
            (None, None) => panic!("a transcript begins with a command: {line}"),
        }
    }
    for one in &mut said {
        while one.output.last().is_some_and(|line| line.is_empty()) {
            one.output.pop();
        }
    }
    said
}

/// What a line of the shell prints in a directory, on both streams, and its exit status.
fn printed(command: &str, directory: &Path) -> (Vec<String>, Option<i32>) {
    let program = Path::new(env!("CARGO_BIN_EXE_highwater")).parent().unwrap();
    let mut path = OsString::from(program);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(directory).env("PATH", path).env("NO_COLOR", "1");
    for variable in ["COLUMNS", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CLICOLOR_FORCE"] {
        shell.env_remove(variable);
    }
    let output = shell.output().expect("there is a shell");
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    (lines, output.status.code())
}

/// Whether lines are what a page shows, which may leave some out.
fn matches(shown: &[&str], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&ELISION, rest)) => (0..=printed.len()).any(|left| matches(rest, &printed[left..])),
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, more)| is_line(first, line) && matches(rest, more))
        }
    }
}

/// Whether a line is what a page shows, which may leave parts of it out.
fn is_line(shown: &str, printed: &str) -> bool {
    match shown.split_once(ELISION) {
        None => shown == printed,
        Some((head, tail)) => printed.strip_prefix(head).is_some_and(|printed| {
            printed.char_indices().map(|(at, _)| at).chain([printed.len()]).any(|at| is_line(tail, &printed[at..]))
        }),
    }
}

/// What the page should show: as many lines before and after what is left out as it has now.
fn again(shown: &[&str], printed: &[String]) -> Vec<String> {
    // What is right stays, with all that it leaves out.
    if matches(shown, printed) {
        return shown.iter().map(|line| (*line).to_owned()).collect();
    }
    let Some(first) = shown.iter().position(|line| *line == ELISION) else { return printed.to_vec() };
    let after = shown.iter().rev().position(|line| *line == ELISION).unwrap_or(0);
    let (first, from) = (first.min(printed.len()), printed.len().saturating_sub(after));
    [&printed[..first], &[ELISION.to_owned()], &printed[from..]].concat()
}

/// An example without the words beside it.
fn example(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("$ ");
    let example = line.split("   ").next().unwrap_or(line).split(" # ").next().unwrap_or(line).trim_end();
    example.starts_with("highwater ").then_some(example)
}

/// Whether an example ends by itself, here.
fn ends_here(example: &str) -> bool {
    let command = example.split(' ').nth(1).unwrap_or_default();
    !NOT_RUN.contains(&command) && (!example.contains(" --web") || example.contains(" -o "))
}

/// Commands within the sentences of a line, without those that stand for several.
fn mentioned(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|quoted| quoted.starts_with("highwater ") && !quoted.contains(['|', '<', '(', '$', '…', '"', '\'']))
}

/// An example that would print its help.
fn asking_for_help(example: &str) -> String {
    let mut words: Vec<&str> = example.split(' ').collect();
    // What follows a script is the script's.
    let is_script =
        |word: &&str| Path::new(word).extension().is_some_and(|extension| extension == "py") || *word == "-m";
    let at = match words.get(1) {
        Some(&("run" | "dryrun")) => words.iter().position(is_script).unwrap_or(words.len()),
        _ => words.iter().position(|word| matches!(*word, "|" | ">" | "&&")).unwrap_or(words.len()),
    };
    words.insert(at, "--help");
    words.join(" ")
}

/// Runs every command of a page; gives how many were compared, how many are known as examples, and how many were recorded elsewhere.
///
/// `examples` gets each example's output.
fn check(path: &Path, directory: &Path, wrong: &mut String, examples: &mut BTreeMap<String, String>) -> [usize; 3] {
    let text = fs::read_to_string(path).unwrap();
    let page: Vec<&str> = text.lines().collect();
    let name = path.strip_prefix(root()).unwrap().display();
    let (mut counts, mut changed) = ([0; 3], page.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    let known = |command: &str, line: usize, wrong: &mut String| {
        let (said, status) = printed(command, directory);
        if status == Some(REFUSED) {
            writeln!(wrong, "{name}:{line}: {command}\n{}\n", said.join("\n")).unwrap();
        }
        // The size of a page depends on whether the viewer's was built.
        let lines = said.iter().map(|line| {
            line.split_once(" (").filter(|_| line.starts_with("wrote ")).map_or(&**line, |(wrote, _)| wrote)
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut code = Vec::new();
    // From the end, so that what is written anew moves no lines that are still to come.
    for block in blocks(&page).into_iter().rev() {
        let lines = &page[block.lines.clone()];
        if block.before.starts_with(RECORDED) {
            let date = block.before[RECORDED.len()..].get(..10).unwrap_or_default();
            let is_date =
                date.bytes().enumerate().all(|(i, letter)| letter == b"0000-00-00"[i] || letter.is_ascii_digit());
            assert!(is_date && date.len() == 10 && block.before.contains(", "), "{name}: {}", block.before);
            counts[2] += lines.iter().filter(|line| line.trim_start().starts_with("$ ")).count();
        } else if block.language == "console" {
            let mut anew = Vec::new();
            for said in transcript(lines) {
                let (printed, _) = printed(said.command, directory);
                counts[0] += 1;
                if !matches(&said.output, &printed) {
                    writeln!(wrong, "{name}:{}: $ {}\n{}\n", block.lines.start, said.command, printed.join("\n"))
                        .unwrap();
                }
                anew.extend(
                    [
                        if anew.is_empty() { Vec::new() } else { vec![String::new()] },
                        vec![format!("$ {}", said.command)],
                    ]
                    .concat(),
                );
                anew.extend(again(&said.output, &printed));
            }
            changed.splice(block.lines.clone(), anew);
        } else if matches!(block.language.as_str(), "" | "sh" | "text") {
            for (i, example) in lines.iter().enumerate().filter_map(|(i, line)| Some((i, example(line)?))) {
                let line = block.lines.start + i + 1;
                if ends_here(example) {
                    examples.insert(example.to_owned(), known(example, line, wrong));
                } else {
                    known(&asking_for_help(example), line, wrong);
                }
                counts[1] += 1;
            }
        }
        code.push(block.lines);
    }
    for (i, line) in page.iter().enumerate().filter(|(i, _)| !code.iter().any(|lines| lines.contains(i))) {
        for example in mentioned(line) {
            known(&asking_for_help(example), i + 1, wrong);
            counts[1] += 1;
        }
    }
    if std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
        fs::write(path, changed.join("\n") + "\n").unwrap();
    }
    counts
}

#[test]
#[cfg(unix)]
fn the_commands_of_the_pages_do_what_these_say() {
    let scratch = TempDir::new().unwrap();
    std::os::unix::fs::symlink(root().join("testdata").canonicalize().unwrap(), scratch.path().join("testdata"))
        .unwrap();
    for (name, file) in FILES {
        fs::create_dir_all(scratch.path().join(name).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(scratch.path().join("testdata").join(file), scratch.path().join(name)).unwrap();
    }
    let mut wrong = String::new();
    let (mut counts, mut examples) = ([0; 3], BTreeMap::new());
    for page in pages() {
        for (sum, count) in counts.iter_mut().zip(check(&page, scratch.path(), &mut wrong, &mut examples)) {
            *sum += count;
        }
    }
    let [compared, known, recorded] = counts;
    assert!(wrong.is_empty(), "other than the pages say; `INSTA_UPDATE=always` writes them anew:\n\n{wrong}");
    assert!(compared >= 8 && known >= 100 && recorded >= 8, "{counts:?}: blocks of the pages are not found");
    let examples: Vec<String> = examples.iter().map(|(example, head)| format!("$ {example}\n{head}\n")).collect();
    insta::assert_snapshot!("examples", examples.join("\n"));
}

/// The names of the commands, from the help.
fn commands() -> Vec<String> {
    let (help, _) = printed("highwater --help", &root());
    let name = |line: &String| Some(line.strip_prefix("  ")?.split_once("  ")?.0.to_owned());
    let is_name = |name: &String| !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_lowercase());
    help.iter().filter_map(name).filter(is_name).collect()
}

#[test]
#[cfg(unix)]
fn an_example_of_the_help_is_one_line_that_the_program_knows() {
    let commands = commands();
    let mut wrong = String::new();
    let mut examples = 0;
    for command in &commands {
        let (help, _) = printed(&format!("COLUMNS=80 highwater {command} --help"), &root());
        let shown = help.iter().skip_while(|line| !line.starts_with("Example")).skip(1);
        for line in shown.filter(|line| !line.is_empty()) {
            let Some(example) = example(line) else { continue };
            // Nothing is written, and no other program is started.
            let alone = example
                .split(" | ")
                .flat_map(|part| part.split(" > "))
                .flat_map(|part| part.split(" && "))
                .next()
                .unwrap_or(example);
            let (said, status) = printed(&asking_for_help(alone), &root());
            if line.chars().count() > 80 || status == Some(REFUSED) {
                writeln!(wrong, "{command}: {line}\n{}\n", said.first().cloned().unwrap_or_default()).unwrap();
            }
            examples += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(commands.len() >= 20 && examples >= 60, "{} commands, {examples} examples", commands.len());
}

#[test]
fn the_animation_shows_what_the_program_prints() {
    let svg = fs::read_to_string(root().join("docs/images/terminal.svg")).unwrap();
    let texts = svg.lines().filter(|line| line.starts_with("<text ")).map(|line| {
        let words = line.split('<').filter_map(|part| part.split_once('>')).map(|(_, words)| words);
        words.collect::<String>().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    });
    let texts: Vec<String> = texts.collect();
    let (command, shown) = texts.split_first().expect("a command");
    let command = command.strip_prefix("$ ").expect("a prompt");
    let (printed, _) = printed(&format!("COLUMNS=92 {command}"), &root().join("testdata/recordings"));
    let mut rest = printed.iter();
    for line in shown.iter().filter(|line| *line != ELISION) {
        assert!(rest.any(|printed| printed == line), "{line}: `node docs/images/terminal.mjs` makes it again");
    }
    assert!(shown.len() > 20 && svg.contains("prefers-reduced-motion") && !svg.contains("<script"));
}

#[test]
fn lines_that_are_left_out_may_be_any() {
    let printed: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    for shown in [&["a", "b", "c", "d"][..], &["a", "…", "d"], &["…"], &["…", "c", "…"], &["a", "b", "c", "d", "…"]]
    {
        assert!(matches(shown, &printed), "{shown:?}");
    }
    for shown in [&[][..], &["a"], &["a", "…", "c"], &["…", "x", "…"], &["a", "b", "c", "d", "e"]] {
        assert!(!matches(shown, &printed), "{shown:?}");
    }
    assert_eq!(again(&["x", "…", "y"], &printed), ["a", "…", "d"]);
    assert_eq!(again(&["a", "…", "c", "d"], &printed), ["a", "…", "c", "d"]);
    assert!(is_line("read in … s", "read in 1.25 s") && is_line("… in …", "a in b") && is_line("a…", "a"));
    assert!(!is_line("read in … s", "read in 1.25 ms") && !is_line("a…b", "a") && !is_line("", "a"));
    assert_eq!(again(&["x"], &printed), printed);
}

#[test]
fn an_example_is_known_by_its_help() {
    let help = |line| example(line).map(asking_for_help).unwrap_or_default();
    assert_eq!(help("    highwater top --once          a table"), "highwater top --once --help");
    assert_eq!(
        help("$ highwater dryrun --gpu h100 train.py --batch 2"),
        "highwater dryrun --gpu h100 --help train.py --batch 2"
    );
    assert_eq!(help("highwater explain - | head"), "highwater explain - --help | head");
    assert_eq!(example("python3 train.py"), None);
    assert_eq!(
        mentioned("see `highwater top` and `highwater view FILE…` or `top`").collect::<Vec<_>>(),
        ["highwater top"]
    );
    assert!(ends_here("highwater estimate gpt2 --web -o page.html") && !ends_here("highwater estimate --web"));
}
