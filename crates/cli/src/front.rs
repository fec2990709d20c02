//! The first words of somebody who knows no command: a file, a directory, two files, an error pasted as it is.

use std::ffi::OsString;
use std::path::Path;

use crate::args;
use crate::commands::explain;
use crate::error::Problem;
use crate::input;

/// The words with the command that is meant, where the first of them is none.
///
/// A recording is reported, a directory's are compared, a log and an error's text are explained.
///
/// # Errors
/// If it takes a command to say what is wanted; the problem names those that do.
pub(crate) fn with_command(mut words: Vec<OsString>) -> Result<Vec<OsString>, Problem> {
    let Some(at) = first(&words) else { return Ok(words) };
    let word = words[at].to_string_lossy().into_owned();
    if args::is_command(&word) || (word.starts_with('-') && word != "-") {
        return Ok(words);
    }
    let path = Path::new(&words[at]);
    if !path.exists() {
        let said: Vec<_> = words[at..].iter().map(|word| word.to_string_lossy()).collect();
        let said = said.join(" ");
        if speaks_of_memory(&said) {
            words.truncate(at);
            words.extend(["explain".into(), "--message".into(), said.into()]);
            return Ok(words);
        }
    }
    if path.extension().is_some_and(|extension| extension == "py") {
        return Err(script(&word));
    }
    if word == "-" || (path.is_file() && explain::is_log(path)) {
        words.insert(at, "explain".into());
    } else if path.exists() || looks_like_a_file(&word) {
        if let Some(problem) = input::directory(path) {
            if !path.join("config.json").is_file() {
                words.insert(at, "ranks".into());
                return Ok(words);
            }
            return Err(problem);
        }
        check_alone(&words, at)?;
        words.insert(at, "report".into());
    }
    Ok(words)
}

/// What is wrong with words that the parser refuses, where it is that a command for one file was given several.
pub(crate) fn several(words: &[OsString]) -> Option<Problem> {
    let at = first(words)?;
    let takes_one = |word: &OsString| ["report", "live", "stats", "simulate", "check"].iter().any(|one| word == one);
    if takes_one(&words[at]) { check_alone(words, at + 1).err() } else { None }
}

/// Where the first word is that is neither the program's name nor `--color`.
fn first(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match word.to_str() {
            Some("--color") => at += 2,
            Some(word) if word.starts_with("--color=") => at += 1,
            _ => return Some(at),
        }
    }
    None
}

/// Checks that no further file stands after the one at `at`.
fn check_alone(words: &[OsString], at: usize) -> Result<(), Problem> {
    let files: Vec<_> = files(words, at).into_iter().map(|place| words[place].to_string_lossy()).collect();
    let [first, second, ..] = &files[..] else { return Ok(()) };
    let all = files.join(" ");
    let is_log = files.iter().any(|file| explain::is_log(Path::new(&**file)));
    Err(Problem::new(format!("{} files were given, but this command takes one", files.len())).hint(if is_log {
        format!("`highwater explain {all}` explains each")
    } else {
        format!("`highwater diff {first} {second}` shows what changed, `highwater view {all}` shows them side by side")
    }))
}

/// Where words from `at` on name files that exist.
fn files(words: &[OsString], at: usize) -> Vec<usize> {
    let is_file = |word: &OsString| !word.to_string_lossy().starts_with('-') && Path::new(word).is_file();
    (at..words.len()).filter(|&place| is_file(&words[place])).collect()
}

fn script(file: &str) -> Problem {
    Problem::new(format!("`{file}` is a Python script"))
        .hint(format!("`highwater run {file}` runs it and records its memory; `highwater dryrun {file}` needs no GPU"))
}

/// Whether these are the words of an error that somebody pasted.
fn speaks_of_memory(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("out of memory") || text.contains("outofmemory")
}

/// Whether a name is a file's, also where there is none: then it is the file that is missing, not a command that is misspelt.
fn looks_like_a_file(word: &str) -> bool {
    const ENDINGS: [&str; 10] = ["pickle", "pkl", "json", "html", "gz", "zst", "log", "txt", "out", "err"];
    let ending = Path::new(word).extension().and_then(|ending| ending.to_str());
    word.contains('/') || ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &[&str]) -> Vec<String> {
        let words = ["highwater"].iter().chain(line).map(OsString::from).collect();
        let words = with_command(words).unwrap_or_default();
        words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn commands_and_options_stay_as_they_are() {
        for line in [
            &["report", "a.pickle"][..],
            &["--help"],
            &["nonsense"],
            &["reprot", "x"],
            &["--color", "never", "top"],
            &[],
        ] {
            assert_eq!(rewritten(line), line);
        }
    }

    #[test]
    fn a_pasted_error_is_explained_quoted_or_not() {
        let error = "CUDA out of memory. Tried to allocate 2.00 GiB.";
        assert_eq!(rewritten(&[error]), ["explain", "--message", error]);
        let words: Vec<&str> = error.split(' ').collect();
        assert_eq!(rewritten(&words), ["explain", "--message", error]);
        assert_eq!(rewritten(&["--color=never", "torch.OutOfMemoryError:", "CUDA"])[1], "explain");
    }

    #[test]
    fn a_file_that_is_not_there_is_reported_as_missing() {
        assert_eq!(rewritten(&["run.pickle", "--top", "3"]), ["report", "run.pickle", "--top", "3"]);
        assert_eq!(rewritten(&["-"]), ["explain", "-"]);
    }
}
