//! Which frames of a stack are whose: the rules, as data.
//!
//! A frame belongs to the first rule that matches it, and to the user if none does. Libraries on top of PyTorch
//! (transformers, diffusers, …) are nobody's rule: their lines say more than the one line that calls them.

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The program, or a library that is not PyTorch.
    User,
    /// PyTorch's own Python code.
    Torch,
    /// Code that PyTorch's compiler generated.
    Generated,
    /// Python's standard library.
    Python,
    /// C++ and C: PyTorch's, CPython's, anybody's.
    Native,
    /// The machinery that captured the stack.
    Unwinding,
}

impl Owner {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Torch => "torch",
            Self::Generated => "generated",
            Self::Python => "python",
            Self::Native => "native",
            Self::Unwinding => "unwinding",
        }
    }
}

/// Which text of a frame a rule looks at, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The function's name contains the text.
    NameContains(&'static str),
    /// The function's name is the text.
    NameIs(&'static str),
    /// The file's name contains the text.
    FileContains(&'static str),
    /// The file's name begins with the text.
    FileStarts(&'static str),
    /// The file's name ends in the text.
    FileEnds(&'static str),
    /// The file's name is the text.
    FileIs(&'static str),
    /// The file is one that PyTorch's compiler wrote, wherever its cache is.
    FileIsCompiled,
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Whose frames it matches.
    pub owner: Owner,
    /// Which frames.
    pub matches: Match,
}

const fn rule(owner: Owner, matches: Match) -> Rule {
    Rule { owner, matches }
}

/// The rules, in order.
///
/// # Source
/// Unwinding: the filter of PyTorch's own tools, `spec/snapshot-format.md` section 7.4. The rest: how the recordings
/// of torch 2.11 name their files.
pub const RULES: &[Rule] = &[
    rule(Owner::Unwinding, Match::NameContains("unwind::unwind")),
    rule(Owner::Unwinding, Match::NameContains("CapturedTraceback::gather")),
    rule(Owner::Unwinding, Match::NameContains("gather_with_cpp")),
    rule(Owner::Unwinding, Match::NameContains("__libc_start")),
    rule(Owner::Unwinding, Match::NameContains("PyEval_")),
    rule(Owner::Unwinding, Match::NameContains("PyObject_")),
    rule(Owner::Unwinding, Match::NameContains("PyFunction_")),
    rule(Owner::Generated, Match::FileContains("torchinductor_")),
    rule(Owner::Generated, Match::FileIsCompiled),
    rule(Owner::Generated, Match::FileStarts("<eval_with_key>")),
    rule(Owner::Torch, Match::FileContains("-packages/torch/")),
    rule(Owner::Torch, Match::FileContains("-packages\\torch\\")),
    rule(Owner::Torch, Match::FileContains("/pytorch/torch/")),
    rule(Owner::Torch, Match::FileStarts("torch/")),
    rule(Owner::User, Match::FileContains("-packages/")),
    rule(Owner::User, Match::FileContains("-packages\\")),
    // PyTorch elsewhere: `pip install --target`, a build of one's own.
    rule(Owner::Torch, Match::FileContains("/torch/nn/modules/")),
    rule(Owner::Torch, Match::FileContains("/torch/nn/functional.py")),
    rule(Owner::Torch, Match::FileContains("/torch/optim/")),
    rule(Owner::Torch, Match::FileContains("/torch/autograd/")),
    rule(Owner::Torch, Match::FileContains("/torch/distributed/")),
    rule(Owner::Torch, Match::FileContains("/torch/cuda/")),
    rule(Owner::Torch, Match::FileContains("/torch/serialization.py")),
    rule(Owner::Torch, Match::FileContains("/torch/storage.py")),
    rule(Owner::Torch, Match::FileContains("/torch/functional.py")),
    rule(Owner::Torch, Match::FileContains("/torch/overrides.py")),
    rule(Owner::Torch, Match::FileContains("/torch/nn/utils/")),
    rule(Owner::Torch, Match::FileContains("/torch/nn/parallel/")),
    rule(Owner::Torch, Match::FileContains("/torch/amp/")),
    rule(Owner::Torch, Match::FileContains("/torch/utils/_")),
    rule(Owner::Torch, Match::FileContains("/torch/utils/checkpoint.py")),
    rule(Owner::Torch, Match::FileContains("/torch/_")),
    rule(Owner::Python, Match::FileStarts("<frozen ")),
    rule(Owner::Python, Match::FileContains("/lib/python3.")),
    rule(Owner::Python, Match::FileContains("\\Lib\\")),
    rule(Owner::User, Match::FileEnds(".py")),
    rule(Owner::User, Match::FileStarts("<ipython")),
    rule(Owner::User, Match::FileStarts("<stdin>")),
    rule(Owner::User, Match::FileStarts("<string>")),
    rule(Owner::User, Match::FileContains("/ipykernel_")),
    rule(Owner::Native, Match::FileIs("")),
    rule(Owner::Native, Match::FileIs("??")),
    rule(Owner::Native, Match::FileContains(".so")),
    rule(Owner::Native, Match::FileEnds(".cpp")),
    rule(Owner::Native, Match::FileEnds(".cc")),
    rule(Owner::Native, Match::FileEnds(".c")),
    rule(Owner::Native, Match::FileEnds(".cxx")),
    rule(Owner::Native, Match::FileEnds(".o")),
    rule(Owner::Native, Match::FileEnds(".S")),
    rule(Owner::Native, Match::FileEnds(".cu")),
    rule(Owner::Native, Match::FileEnds(".cuh")),
    rule(Owner::Native, Match::FileEnds(".h")),
    rule(Owner::Native, Match::FileEnds(".hpp")),
    rule(Owner::Native, Match::FileEnds(".inl")),
    rule(Owner::Native, Match::NameContains("::")),
];

impl Match {
    pub(crate) fn holds(self, name: &str, filename: &str) -> bool {
        match self {
            Self::NameContains(text) => name.contains(text),
            Self::NameIs(text) => name == text,
            Self::FileContains(text) => filename.contains(text),
            Self::FileStarts(text) => filename.starts_with(text),
            Self::FileEnds(text) => filename.ends_with(text),
            Self::FileIs(text) => filename == text,
            Self::FileIsCompiled => is_compiled(filename),
        }
    }
}

/// Whether a file is named by the hash of its code, in a directory named by two letters of the hash: programs and
/// `TORCHINDUCTOR_CACHE_DIR` choose where.
///
/// # Source
/// PyTorch v2.11, `torch/_inductor/codecache.py`, `sha256_hash`, `code_hash` and `get_path`.
fn is_compiled(filename: &str) -> bool {
    /// `c`, and a hash in base 32.
    const LETTERS: usize = 52;
    let Some((path, name)) = filename.rsplit_once(['/', '\\']) else { return false };
    let Some(stem) = name.strip_suffix(".py") else { return false };
    let is_hash = |letter: u8| letter.is_ascii_lowercase() || (b'2'..=b'7').contains(&letter);
    stem.len() == LETTERS
        && stem.starts_with('c')
        && stem.bytes().all(is_hash)
        && path.rsplit(['/', '\\']).next() == stem.get(1..3)
}

/// Whose code a frame with this name and file is.
pub fn owner(name: &str, filename: &str) -> Owner {
    RULES.iter().find(|rule| rule.matches.holds(name, filename)).map_or(Owner::User, |rule| rule.owner)
}

/// Directories of what is installed, or fetched with a model: parts of a file's name.
const LIBRARIES: [&str; 3] = ["-packages/", "-packages\\", "transformers_modules"];

/// Whether a file is a library's rather than the program's own. What was installed in place (`pip install -e`) counts
/// as the program's: nothing in a path tells.
pub fn is_library(filename: &str) -> bool {
    LIBRARIES.iter().any(|part| filename.contains(part))
}

impl Owner {
    /// Whether it is Python code, whoever wrote it.
    pub const fn is_python(self) -> bool {
        matches!(self, Self::User | Self::Torch | Self::Generated | Self::Python)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_decides_a_frame() {
        for (i, rule) in RULES.iter().enumerate() {
            let (name, file) = match rule.matches {
                Match::NameContains(text) => (format!("x{text}x"), "x".to_owned()),
                Match::NameIs(text) => (text.to_owned(), "x".to_owned()),
                Match::FileContains(text) => ("f".to_owned(), format!("a{text}b")),
                Match::FileStarts(text) => ("f".to_owned(), format!("{text}b")),
                Match::FileEnds(text) => ("f".to_owned(), format!("a{text}")),
                Match::FileIs(text) => ("f".to_owned(), text.to_owned()),
                Match::FileIsCompiled => ("f".to_owned(), format!("/x/ab/cab{}.py", "q".repeat(49))),
            };
            let first = RULES.iter().position(|r| r.matches.holds(&name, &file));
            assert_eq!(first, Some(i), "rule {i} never decides: {:?}", rule.matches);
        }
    }

    #[test]
    fn frames_of_real_recordings_have_the_right_owner() {
        for (name, file, want) in [
            ("step", "/home/user/project/capture.py", Owner::User),
            ("forward", "/home/user/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", Owner::Torch),
            ("forward", "/home/user/venv/lib/python3.12/site-packages/transformers/models/gpt2.py", Owner::User),
            ("inner", "/usr/lib/python3.12/contextlib.py", Owner::Python),
            ("<module>", "<stdin>", Owner::User),
            ("call", "/tmp/torchinductor_user/ab/cab.py", Owner::Generated),
            (
                "call",
                "/home/user/inductor/bc/cbcap45nkm3gzbmp4cbrzeoayki33gxeplwwkcjc5se3uelg6h6x.py",
                Owner::Generated,
            ),
            ("call", "/home/user/xy/cbcap45nkm3gzbmp4cbrzeoayki33gxeplwwkcjc5se3uelg6h6x.py", Owner::User),
            ("??", "/usr/lib/libc.so.6", Owner::Native),
            ("torch::autograd::Engine::thread_init(int)", "??", Owner::Native),
            ("torch::unwind::unwind()", "??", Owner::Unwinding),
            ("execute_native_thread_routine", "thread48.o", Owner::Native),
            ("<module>", "/tmp/ipykernel_12/34.py", Owner::User),
        ] {
            assert_eq!(owner(name, file), want, "{name} {file}");
        }
    }
}
