//! Who wrote a line of a log, by what launchers and loggers put before it.

/// Tokens that are looked at before a line's own text.
const MAX_TOKENS: usize = 8;
/// The longest such token.
const MAX_TOKEN_BYTES: usize = 96;

/// Who wrote a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// The process in the job.
    pub(super) rank: Option<u32>,
    /// What tells lines of one process from those of others: the tokens that name a process or a host.
    pub(super) key: Vec<u8>,
    /// Where the line's own text begins.
    pub(super) body: usize,
}

/// How sure a number is to be the rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    /// `[default3]:`, `LOCAL_RANK`: of one host.
    Local,
    /// `3: `, `[3]:`, `[1,3]<stderr>:`: where launchers put it.
    Label,
    /// `[rank3]:`, `Rank 3`: it says so.
    Named,
}

/// Reads what stands before a line's own text.
pub(super) fn origin(line: &[u8]) -> Origin {
    let mut origin = Origin::default();
    let mut best: Option<Trust> = None;
    for _ in 0..MAX_TOKENS {
        let start = origin.body + blanks(&line[origin.body..]);
        let Some(token) = token(&line[start..]) else { break };
        // `[TRT] [E] 2: …`: behind a level it is a code.
        let is_code = matches!(line[..start].trim_ascii_end(), [.., b'[', b'A'..=b'Z', b']'])
            && token.rank.is_some_and(|(_, trust)| trust == Trust::Label);
        if is_code {
            break;
        }
        if let Some((rank, trust)) = token.rank
            && best.is_none_or(|best| trust > best)
        {
            (origin.rank, best) = (Some(rank), Some(trust));
        }
        if token.names_process {
            origin.key.extend_from_slice(&line[start..start + token.length]);
        }
        origin.body = start + token.length;
    }
    origin
}

/// The rank that a text names anywhere: `rank 3`, `local_rank=3`, `"rank": 3`. What a name says counts more than `local`.
pub(super) fn named_rank(text: &[u8]) -> Option<u32> {
    let mut local = None;
    let lower = text.to_ascii_lowercase();
    for at in memchr::memmem::find_iter(&lower, b"rank") {
        let before = &lower[..at];
        let is_word = before.last().is_none_or(|byte| !byte.is_ascii_alphabetic());
        let after = &text[at + 4..];
        let gap = after.iter().take(12).take_while(|byte| b" :=_\"'#\t".contains(byte)).count();
        let Some(rank) = whole_number(&after[gap..]).filter(|_| is_word) else { continue };
        if before.ends_with(b"local_") {
            local = local.or(Some(rank));
        } else {
            return Some(rank);
        }
    }
    local
}

struct Token {
    length: usize,
    rank: Option<(u32, Trust)>,
    names_process: bool,
}

impl Token {
    fn nobody(length: usize) -> Self {
        Self { length, rank: None, names_process: false }
    }

    fn process(length: usize, rank: Option<(u32, Trust)>) -> Self {
        Self { length, rank, names_process: true }
    }
}

fn token(text: &[u8]) -> Option<Token> {
    match text.first()? {
        b'[' => bracketed(text),
        b'(' => parenthesised(text),
        b'0'..=b'9' => labelled(text),
        b'|' => Some(Token::nobody(1)),
        _ if text.starts_with("│".as_bytes()) => Some(Token::nobody("│".len())),
        _ => word(text),
    }
}

/// `[rank3]:`, `[default0]:`, `[1,3]<stderr>:`, `[3]:`, `[INFO]`, `[2024-05-01 12:00:00,123]`.
fn bracketed(text: &[u8]) -> Option<Token> {
    let end = within(text, b']')?;
    // A link is text: `[train.py](https://localhost:8080/#)`.
    if text[end + 1..].starts_with(b"(http") {
        return None;
    }
    let inner = &text[1..end];
    let mut length = end + 1;
    if text[length..].starts_with(b"<stderr>") || text[length..].starts_with(b"<stdout>") {
        length += b"<stderr>".len();
    }
    let has_colon = text.get(length) == Some(&b':');
    length += usize::from(has_colon);
    if let Some(rank) = named_rank(inner) {
        let trust = if inner.to_ascii_lowercase().starts_with(b"local") { Trust::Local } else { Trust::Named };
        return Some(Token::process(length, Some((rank, trust))));
    }
    if let Some(rank) = tensor_rank(inner) {
        return Some(Token::process(length, Some((rank, Trust::Named))));
    }
    if let Some(rank) = inner.strip_prefix(b"default").and_then(only_number) {
        return Some(Token::process(length, Some((rank, Trust::Local))));
    }
    // Open MPI's --tag-output: job and rank.
    if let Some(comma) = inner.iter().position(|&byte| byte == b',')
        && only_number(&inner[..comma]).is_some()
        && let Some(rank) = only_number(&inner[comma + 1..])
    {
        return Some(Token::process(length, Some((rank, Trust::Label))));
    }
    match only_number(inner) {
        Some(rank) if has_colon => Some(Token::process(length, Some((rank, Trust::Label)))),
        _ => Some(Token::nobody(length)),
    }
}

/// `(RayTrainWorker pid=1234, ip=10.0.0.7)`, `(Worker_TP0 pid=548)`.
fn parenthesised(text: &[u8]) -> Option<Token> {
    let end = within(text, b')')?;
    let inner = &text[1..end];
    let is_process = memchr::memmem::find(inner, b"pid=").is_some();
    let rank = named_rank(inner).or_else(|| tensor_rank(inner)).map(|rank| (rank, Trust::Named));
    (is_process || rank.is_some()).then(|| Token::process(end + 1, rank))
}

/// `3: ` of `srun --label`, or a time.
fn labelled(text: &[u8]) -> Option<Token> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits <= 6 && text.get(digits) == Some(&b':') && matches!(text.get(digits + 1), Some(b' ') | None) {
        return Some(Token::process(digits + 1, Some((only_number(&text[..digits])?, Trust::Label))));
    }
    let length = text.iter().take(MAX_TOKEN_BYTES).take_while(|byte| is_of_time(**byte)).count();
    let has = |wanted: &[u8]| text[..length].iter().any(|byte| wanted.contains(byte));
    (length >= 8 && has(b"-:/")).then(|| Token::nobody(length))
}

fn is_of_time(byte: u8) -> bool {
    byte.is_ascii_digit() || b"-:.,/+TZ".contains(&byte)
}

/// `rank3:`, `Rank 3:`, `worker-1:`, `stderr F` of a container's log.
fn word(text: &[u8]) -> Option<Token> {
    let lower: Vec<u8> = text.iter().take(24).map(u8::to_ascii_lowercase).collect();
    for (head, trust) in [(&b"rank"[..], Trust::Named), (b"local_rank", Trust::Local), (b"global_rank", Trust::Named)] {
        let Some(after) = lower.strip_prefix(head) else { continue };
        let gap = after.iter().take_while(|byte| b" =_#".contains(byte)).count();
        let digits = after[gap..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = head.len() + gap + digits;
        if let Some(rank) = only_number(&text[head.len() + gap..length])
            && matches!(text.get(length), Some(b':' | b' ' | b']' | b'|' | b','))
        {
            return Some(Token::process(length + 1, Some((rank, trust))));
        }
    }
    for stream in [&b"stderr F "[..], b"stdout F "] {
        if text.starts_with(stream) {
            return Some(Token::nobody(stream.len()));
        }
    }
    // A host's name ends in its number, unlike that of an exception.
    let name =
        text.iter().take(MAX_TOKEN_BYTES).take_while(|b| b.is_ascii_alphanumeric() || b"._-".contains(b)).count();
    let is_host = name > 1 && text[name - 1].is_ascii_digit() && text[name..].starts_with(b": ");
    if is_host {
        return Some(Token::process(name + 1, None));
    }
    // `vllm-1  | `: Docker Compose.
    let bar = name + blanks(&text[name..]);
    let is_service = name > 1 && bar > name && text[bar..].starts_with(b"| ");
    is_service.then(|| Token::process(bar + 1, None))
}

/// The rank among GPUs that share each layer, where there are no other: `Worker_TP1`, `2025-06-20 10:00:00 TP1`.
fn tensor_rank(text: &[u8]) -> Option<u32> {
    let has_others = [&b"PP"[..], b"DP"].iter().any(|name| part_number(text, name).is_some_and(|number| number > 0));
    if has_others { None } else { part_number(text, b"TP") }
}

/// The number behind a name that begins a word.
fn part_number(text: &[u8], name: &[u8]) -> Option<u32> {
    let is_part = |at: &usize| *at > 0 && b" _".contains(&text[at - 1]);
    memchr::memmem::find_iter(text, name).find(is_part).and_then(|at| whole_number(&text[at + name.len()..]))
}

fn within(text: &[u8], end: u8) -> Option<usize> {
    text.iter().take(MAX_TOKEN_BYTES).position(|&byte| byte == end)
}

fn blanks(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

fn only_number(text: &[u8]) -> Option<u32> {
    let text = text.trim_ascii();
    (whole_digits(text) == text.len()).then(|| whole_number(text)).flatten()
}

fn whole_number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(&text[..whole_digits(text)]).ok()?.parse().ok()
}

fn whole_digits(text: &[u8]) -> usize {
    text.iter().take(11).take_while(|byte| byte.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_which_process_wrote_a_line() {
        for (line, rank, body) in [
            ("[rank3]: torch.OutOfMemoryError", Some(3), "torch.OutOfMemoryError"),
            ("[default5]:[rank13]: RuntimeError", Some(13), "RuntimeError"),
            ("[default0]:RuntimeError: x", Some(0), "RuntimeError: x"),
            ("12: RuntimeError: x", Some(12), "RuntimeError: x"),
            ("  3: [rank: 3] RuntimeError", Some(3), "RuntimeError"),
            ("[1,7]<stderr>:RuntimeError", Some(7), "RuntimeError"),
            ("[2024-05-01 12:00:00,123] [ERROR] [Rank 2] boom", Some(2), "boom"),
            ("2024-05-01T12:00:00.123Z stderr F [rank1]: boom", Some(1), "boom"),
            ("worker-1: [rank9]: boom", Some(9), "boom"),
            ("(RayTrainWorker pid=1234, ip=10.0.0.7) boom", None, "boom"),
            ("Rank 6: boom", Some(6), "boom"),
            ("(Worker_TP1 pid=548) boom", Some(1), "boom"),
            ("(Worker_PP1_TP0 pid=548) boom", None, "boom"),
            ("[2025-06-20 10:00:00 TP3] boom", Some(3), "boom"),
            ("RuntimeError: CUDA out of memory", None, "RuntimeError: CUDA out of memory"),
            ("404 files", None, "404 files"),
            ("[TRT] [E] 2: [virtualMemoryBuffer.cpp::140] boom", None, "2: [virtualMemoryBuffer.cpp::140] boom"),
        ] {
            let origin = origin(line.as_bytes());
            assert_eq!((origin.rank, line[origin.body..].trim_start()), (rank, body), "{line}");
        }
        assert_ne!(origin(b"worker-1: x").key, origin(b"worker-2: x").key);
        assert_eq!(origin(b"2024-05-01 12:00:00 [rank1]: x").key, origin(b"2024-05-01 12:00:09 [rank1]: y").key);
    }

    #[test]
    fn a_rank_may_be_named_anywhere() {
        for (text, rank) in [
            ("{\"rank\": 3, \"msg\"", Some(3)),
            ("local_rank=1 global_rank=9 ", Some(9)),
            ("| ERROR | rank 12 |", Some(12)),
            ("frank 3", None),
            ("local_rank: 2", Some(2)),
            ("ranking 5 models", None),
        ] {
            assert_eq!(named_rank(text.as_bytes()), rank, "{text}");
        }
    }
}
