//! Strings and pages keep to `STYLE.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::run::command;

/// Patterns that read as translated, with words to use instead. A space stands for any white space.
const BANNED: [(&str, &str); 31] = [
    (r"\b(is|are|was|were) no \w+( \w+)? (that|which) (is|are) known\b", "unknown …"),
    (r"\bthat (is|are) known of\b", "known"),
    (
        r"(`|\}|\b(it|that|this|which)) is no (file|card|number|size|moment|name|option|capacity|version|directory|text|time|log|address)\b",
        "is not a …",
    ),
    (r"\bbrings? (most|nothing|[\d{])", "saves, frees"),
    (r"\bfor about \w+ (\w+ )?more\b", "costs about … % more"),
    (r"\b(asked|asks|ask|asking) for\b", "request"),
    (r"\b(gave|gives?|giving|given) (\w+ )?back\b", "release, free"),
    (r"\b(let|lets|letting) go\b", "free, release"),
    (r"\bhand(ed|s)? out\b", "allocate"),
    (r"\btells? of\b", "cover, show"),
    (r"\b(is|are|was|were) not told\b", "unknown"),
    (r"\b(do|does) not tell\b", "does not show"),
    (r"\b(are|is) told apart\b", "distinguish"),
    (r"\bthere is no (torch|card)\b", "… is not installed, unknown …"),
    (r"\bas of a\b", "as on a"),
    (r"\bso (many|much) (that|as)\b", "enough to"),
    (r"\b(kept|counted|left|shown|meant) are\b", "subject first"),
    (r"\b(would|can|could|that|will|must) do (with|without)? ?(less|more)\b", "need, be enough"),
    (r"\bwould (have )?do(ne)?\b[,.;]", "be enough"),
    (r"\bthe (ones?|those) (that|which) (is|are) (meant|wanted|needed)\b", "name it"),
    (r"\bof (its|their|one's|your) own accord\b", "by itself"),
    (r"\b(nobody|somebody|whoever)\b", "no process, another process"),
    (r"\b(at|in) (the )?most (it|they|there)\b", "subject first"),
    (r"\b(a|an|one|each|every) (\w+ )?(more|less) (with|for) each\b", "per"),
    (r"\bin the manner of\b", "like"),
    (r"\bby what (it|they) (is|are)\b", "by …"),
    (r"\bof what (is|was|are|were)\b", "of the …"),
    (
        r"\bwhat (is|was|were) (live|there|kept|left|held|reserved|allocated|used|needed|free|known|recorded)\b",
        "name the noun",
    ),
    (r"\ball (of it )?that (is|was) (live|there|held|reserved|allocated)\b", "all … memory"),
    (r"\bwants? (a|an|the)\b", "needs"),
    (r"\b(hand|hands|handed|handing) (\w+ )?over\b", "pass, exchange"),
];

/// Free relative clauses with "what" that prose may have in a thousand words, and any short text.
const WHATS_IN_THOUSAND: usize = 2;
const WHATS_IN_SHORT: usize = 1;

/// A stretch of prose: the line of its file on which it begins, and the text.
struct Piece {
    line: usize,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files below a folder whose name ends so, sorted.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The string literals of a Rust file that a user may see: none of its tests, and no reason of a lint or a panic.
fn literals(source: &str) -> Vec<Piece> {
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
        let comment = r"//[^\n]*|/\*(?s:.*?)\*/";
        let character = r"'(?:\\[^\n]{1,9}?|[^\\'])'";
        let raw = r##"\br"(?<raw>[^"]*)"|\br#"(?<hashed>(?s:.*?))"#"##;
        let plain = r#"(?<silent>\bexpect\(\s*|\breason\s*=\s*)?"(?<plain>(?s:\\.|[^"\\])*)""#;
        Regex::new(&format!("{comment}|{character}|{raw}|{plain}")).unwrap()
    });
    static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());
    let shipped = source.split("#[cfg(test)]\nmod ").next().unwrap();
    let mut pieces = Vec::new();
    for found in TOKEN.captures_iter(shipped).filter(|found| found.name("silent").is_none()) {
        if let Some(text) = ["plain", "raw", "hashed"].iter().find_map(|name| found.name(name)) {
            let line = line_of(shipped, text.start());
            pieces.push(Piece { line, text: CONTINUED.replace_all(text.as_str(), "").replace("\\n", " ") });
        }
    }
    pieces
}

/// The texts that a pattern captures in a file, which skips its comments by capturing nothing there.
fn captured(source: &str, token: &Regex) -> Vec<Piece> {
    let texts = token.captures_iter(source).filter_map(|found| found.iter().skip(1).flatten().next());
    texts.map(|text| Piece { line: line_of(source, text.start()), text: text.as_str().to_owned() }).collect()
}

/// The strings of a Python file, docstrings among them.
fn python_strings(source: &str) -> Vec<Piece> {
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"#[^\n]*|"""((?s:.*?))"""|"((?:\\.|[^"\\\n])*)"|'((?:\\.|[^'\\\n])*)'"#).unwrap()
    });
    captured(source, &TOKEN)
}

/// The strings of a TypeScript file, and the text between its tags.
fn page_strings(source: &str) -> Vec<Piece> {
    const LITERAL: &str = r#"'((?:\\.|[^'\\\n])*)'|"((?:\\.|[^"\\\n])*)"|`((?:\\.|[^`\\])*)`"#;
    static COMMENT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!(r"(?<comment>//[^\n]*|/\*(?s:.*?)\*/)|{LITERAL}")).unwrap());
    static TOKEN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!(r#"{LITERAL}|[>}}]([^<>{{}}=;'`\"]+)"#)).unwrap());
    let bare = COMMENT.replace_all(source, |found: &Captures| match found.name("comment") {
        Some(comment) => "\n".repeat(comment.as_str().matches('\n').count()),
        None => found[0].to_owned(),
    });
    captured(&bare, &TOKEN)
}

/// The paragraphs of a page without its code and quotations.
fn paragraphs(page: &str) -> Vec<Piece> {
    let code = Regex::new(r#"(?s)```.*?```|`[^`]*`|<[^>\n]*>|"[^"\n]*"|“[^”]*”"#).unwrap();
    let blank = |code: &Captures| format!("`{}`", "\n".repeat(code[0].matches('\n').count()));
    let page = code.replace_all(page, blank);
    let mut pieces = Vec::new();
    let mut at = 0;
    for paragraph in page.split("\n\n") {
        pieces.push(Piece { line: line_of(&page, at), text: paragraph.to_owned() });
        at += paragraph.len() + 2;
    }
    pieces
}

/// All banned patterns in one, each the one group that it captures.
static ANY_BANNED: LazyLock<Regex> = LazyLock::new(|| {
    let groups: Vec<_> =
        BANNED.iter().map(|(pattern, _)| format!("({})", pattern.replace('(', "(?:").replace(' ', r"\s+"))).collect();
    Regex::new(&format!("(?i){}", groups.join("|"))).unwrap()
});

/// Where `text`, on which a banned pattern begins at `line`, has them.
fn banned(name: &str, line: usize, text: &str) -> Vec<String> {
    let found = ANY_BANNED.captures_iter(text).map(|found| {
        let rule = (1..found.len()).find(|group| found.get(*group).is_some()).unwrap() - 1;
        let at = found.get_match();
        let line = line + line_of(text, at.start()) - 1;
        format!("{name}:{line}: `{}` (write: {}; pattern `{}`)", at.as_str(), BANNED[rule].1, BANNED[rule].0)
    });
    found.collect()
}

/// What is wrong with the prose of a file, one line each.
fn faults(name: &str, pieces: &[Piece]) -> Vec<String> {
    static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{[a-z_.]+(:[^}]*)?\}").unwrap());
    static QUESTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[^.;:|?]*\?").unwrap());
    static WHAT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)\bwhat\b([- ]if)?").unwrap());
    let mut faults = Vec::new();
    let mut whats = Vec::new();
    let mut words = 0;
    for piece in pieces {
        let text = PLACEHOLDER.replace_all(&piece.text, "{}");
        words += text.split_whitespace().count();
        faults.extend(banned(name, piece.line, &text));
        let asserted =
            QUESTION.replace_all(&text, |question: &Captures| "\n".repeat(question[0].matches('\n').count()));
        for found in WHAT.captures_iter(&asserted).filter(|found| found.get(1).is_none()) {
            whats.push(piece.line + line_of(&asserted, found.get_match().start()) - 1);
        }
    }
    let allowed = WHATS_IN_SHORT.max(words * WHATS_IN_THOUSAND / 1000);
    if whats.len() > allowed {
        let lines: Vec<_> = whats.iter().map(ToString::to_string).collect();
        let (first, count, lines) = (whats[0], whats.len(), lines.join(", "));
        faults.push(format!(
            "{name}:{first}: `what` stands {count} times in {words} words, {allowed} are enough (lines {lines})"
        ));
    }
    faults
}

/// Panics with all faults of these files, each with its line.
fn check(paths: Vec<PathBuf>, pieces: impl Fn(&str) -> Vec<Piece>) {
    let root = root();
    let mut faults = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        faults.extend(self::faults(name, &pieces(&fs::read_to_string(&path).unwrap())));
    }
    assert!(faults.is_empty(), "{} faults; see STYLE.md\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn strings_keep_to_the_style() {
    let unseen = ["testkit/", "fuzz-targets/", "fake-nvml/", "/tests.rs"];
    let mut paths = files("crates", ".rs");
    paths.retain(|path| {
        let name = path.to_str().unwrap();
        name.contains("/src/") && !unseen.iter().any(|unseen| name.contains(unseen))
    });
    assert!(paths.len() > 300, "only {} files of Rust were found", paths.len());
    check(paths, literals);
}

#[test]
fn python_keeps_to_the_style() {
    check(files("python/highwater", ".py"), python_strings);
}

#[test]
fn the_pages_strings_keep_to_the_style() {
    let mut paths = [files("ui/src", ".ts"), files("ui/src", ".tsx")].concat();
    paths.retain(|path| !path.to_str().unwrap().contains(".test."));
    check(paths, page_strings);
}

#[test]
fn documentation_keeps_to_the_style() {
    let mut paths = files("docs", ".md");
    paths.extend(["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| root().join(name)));
    check(paths, paragraphs);
}

#[test]
fn help_keeps_to_the_style() {
    let folder = tempfile::tempdir().unwrap();
    command().args(["man", "--out"]).arg(folder.path()).assert().success();
    let mut faults = Vec::new();
    for entry in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        let page =
            fs::read_to_string(entry.path()).unwrap().replace("\\-", "-").replace("\\fR", "").replace("\\fB", "");
        faults.extend(self::faults(entry.file_name().to_str().unwrap(), &[Piece { line: 1, text: page }]));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
