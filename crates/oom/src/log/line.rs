//! A line of a log, freed of what terminals, editors and JSON put into it.

use std::borrow::Cow;

/// Without colours and other orders to a terminal, and without the zero bytes of a log in UTF-16, as PowerShell writes.
pub(super) fn plain(line: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(0x1b, 0, line).is_none() {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            0 => after,
            0x1b => after_escape(after),
            _ => {
                plain.push(byte);
                after
            }
        };
    }
    Cow::Owned(plain)
}

/// What follows an escape sequence.
fn after_escape(text: &[u8]) -> &[u8] {
    match text.first() {
        // `ESC [ parameters letter`.
        Some(b'[') => {
            let end = text[1..].iter().position(|byte| !(0x20..=0x3f).contains(byte));
            end.map_or(&[], |end| text.get(end + 2..).unwrap_or_default())
        }
        // `ESC ] … BEL`, or `ESC ] … ESC \`: a title, a link.
        Some(b']') => match memchr::memchr2(0x07, 0x1b, text) {
            Some(end) if text[end] == 0x07 => &text[end + 1..],
            Some(end) => text.get(end + 2..).unwrap_or_default(),
            None => &[],
        },
        Some(_) => &text[1..],
        None => &[],
    }
}

/// Characters that HTML writes otherwise: a page or a feed was copied.
const ENTITIES: [(&[u8], u8); 9] = [
    (b"&#39;", b'\''),
    (b"&#x27;", b'\''),
    (b"&apos;", b'\''),
    (b"&quot;", b'"'),
    (b"&#34;", b'"'),
    (b"&nbsp;", b' '),
    (b"&lt;", b'<'),
    (b"&gt;", b'>'),
    (b"&amp;", b'&'),
];

/// HTML's marks that a text which was copied as a page has: `<span class="x">`, `</code>`, `<br/>`.
const TAGS: [&[u8]; 12] =
    [b"span", b"code", b"pre", b"br", b"div", b"strong", b"em", b"font", b"td", b"tr", b"li", b"p"];
/// The longest such mark.
const TAG_BYTES: usize = 1024;

/// Without the `>` of a quotation before it, without HTML's marks, and with characters for HTML's names of them.
pub(super) fn unquoted(line: &[u8]) -> Cow<'_, [u8]> {
    let mut line = line;
    while let Some(rest) = line.strip_prefix(b"> ") {
        line = rest;
    }
    let is_plain = |at: &usize| line[*at] == b'<' && tag(&line[*at..]).is_none();
    let Some(first) = memchr::memchr2_iter(b'&', b'<', line).find(|at| !is_plain(at)) else {
        return Cow::Borrowed(line);
    };
    let mut text = line[..first].to_vec();
    let mut rest = &line[first..];
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(length) = tag(rest) {
            rest = &rest[length..];
            continue;
        }
        let entity = ENTITIES.iter().find(|(name, _)| byte == b'&' && rest.starts_with(name));
        let (byte, length) = entity.map_or((byte, 1), |(name, byte)| (*byte, name.len()));
        text.push(byte);
        rest = if length == 1 { after } else { &rest[length..] };
    }
    Cow::Owned(text)
}

/// Without the stars of Markdown's emphasis around words: `Tried to allocate **20.00 MiB**`. Those of source code have no closing ones.
pub(super) fn without_emphasis(line: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'*', line) else { return Cow::Borrowed(line) };
    let mut text: Vec<u8> = Vec::new();
    let mut at = first;
    let mut kept = 0;
    while let Some(found) = memchr::memchr(b'*', &line[at..]) {
        let begin = at + found;
        let stars = stars(&line[begin..]);
        let after = begin + stars;
        let opens = stars <= MAX_STARS
            && begin
                .checked_sub(1)
                .is_none_or(|before| matches!(line[before], b' ' | b'\t' | b'(' | b'"' | b'\'' | b'>'))
            && line.get(after).is_some_and(|next| !next.is_ascii_whitespace());
        let close = if opens { closing(line, after, stars) } else { None };
        if let Some(close) = close {
            text.extend_from_slice(&line[kept..begin]);
            text.extend_from_slice(&line[after..close]);
            kept = close + stars;
            at = kept;
        } else {
            at = after;
        }
    }
    if kept == 0 {
        return Cow::Borrowed(line);
    }
    text.extend_from_slice(&line[kept..]);
    Cow::Owned(text)
}

/// Emphasis has no more stars.
const MAX_STARS: usize = 3;
/// Emphasis is no longer.
const EMPHASIS_BYTES: usize = 400;

/// The number of stars at the beginning of a text.
fn stars(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b'*').count()
}

/// Where emphasis with so many stars ends.
fn closing(line: &[u8], from: usize, count: usize) -> Option<usize> {
    let end = line.len().min(from + EMPHASIS_BYTES);
    let mut at = from;
    while let Some(found) = memchr::memchr(b'*', &line[at..end]) {
        let begin = at + found;
        let run = stars(&line[begin..]);
        let ends_word = begin > from && !line[begin - 1].is_ascii_whitespace();
        let is_end = line.get(begin + run).is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'_');
        if run == count && ends_word && is_end {
            return Some(begin);
        }
        at = begin + run;
        if at >= end {
            break;
        }
    }
    None
}

/// The length of a mark of HTML at the beginning of a text.
fn tag(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"<")?;
    let name = inner.strip_prefix(b"/").unwrap_or(inner);
    let is_known = TAGS.iter().any(|tag| {
        name.starts_with(tag) && name.get(tag.len()).is_some_and(|after| matches!(after, b' ' | b'>' | b'/'))
    });
    let end = if is_known { memchr::memchr(b'>', &text[..text.len().min(TAG_BYTES)]) } else { None };
    end.map(|end| end + 1)
}

/// The text of a line without the right side of a box, if the left side was taken from it.
pub(super) fn unboxed<'a>(line: &[u8], body: &'a [u8]) -> &'a [u8] {
    let side = "│".as_bytes();
    let is_boxed = line.trim_ascii_start().starts_with(side);
    if is_boxed { body.trim_ascii_end().strip_suffix(side).unwrap_or(body) } else { body }
}

/// A text whose escapes (`\n`, `\"`, `\u001b`) are what they stand for; `None` if it has none that matter.
///
/// A log may be JSON, or hold the `repr` of a text.
pub(super) fn unescaped(line: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(b'\\', line)?;
    // Paths of Windows are no escapes.
    if line.trim_ascii_start().starts_with(b"File \"") || has_plain_path(line) {
        return None;
    }
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        text.extend_from_slice(&rest[..at]);
        let (byte, length) = match rest[at + 1..] {
            [b'n' | b'r', ..] => (b'\n', 2),
            [b't', ..] => (b'\t', 2),
            [quoted @ (b'"' | b'\'' | b'\\' | b'/'), ..] => (quoted, 2),
            [b'u', b'0', b'0', high, low, ..] | [b'x', high, low, ..] => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => (high << 4 | low, if rest[at + 1] == b'u' { 6 } else { 4 }),
                _ => (b'\\', 1),
            },
            _ => (b'\\', 1),
        };
        text.push(byte);
        rest = &rest[at + length..];
    }
    text.extend_from_slice(rest);
    Some(text)
}

/// Whether a line has a path of Windows as it is, `D:\ai\train.py`: in JSON and in Python's `repr` each of its backslashes is doubled.
fn has_plain_path(line: &[u8]) -> bool {
    memchr::memmem::find_iter(line, b":\\").any(|colon| {
        let (before, drive) = match line[..colon] {
            [.., before, drive] => (Some(before), drive),
            [drive] => (None, drive),
            [] => return false,
        };
        let name = &line[colon + 2..];
        drive.is_ascii_uppercase()
            && before.is_none_or(|byte| byte == b' ' || byte == b'"' || byte == b'\'' || byte == b'(')
            && name.first().is_some_and(u8::is_ascii_alphanumeric)
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_zero_bytes_go() {
        let text = |line: &'static [u8]| String::from_utf8(plain(line).into_owned()).unwrap();
        assert_eq!(text(b"\x1b[1;31mCUDA \x1b[0mout\x1b[K of memory"), "CUDA out of memory");
        assert_eq!(text(b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b"), "ab");
        assert_eq!(text(b"C\0U\0D\0A\0"), "CUDA");
        assert_eq!(text(b"ab\x1b"), "ab");
        assert_eq!(text(b"ab\x1b["), "ab");
        assert_eq!(text(b"ab\x1b]never ends"), "ab");
    }

    #[test]
    fn quotations_and_names_of_characters_go() {
        let text = |line: &'static str| String::from_utf8(unquoted(line.as_bytes()).into_owned()).unwrap();
        assert_eq!(text("> > model&#39;s &quot;a&amp;b&quot; &nope; & c"), "model's \"a&b\" &nope; & c");
        assert_eq!(text(">>> import torch"), ">>> import torch");
        assert_eq!(text("<span style=\"color: red\">Error:</span> a<br/>b"), "Error: ab");
        assert_eq!(text("in <module> [1]<stderr>: a < b </torch_1>"), "in <module> [1]<stderr>: a < b </torch_1>");
        assert_eq!(text("a &"), "a &");
    }

    #[test]
    fn emphasis_goes_and_stars_of_code_stay() {
        let text = |line: &'static str| String::from_utf8(without_emphasis(line.as_bytes()).into_owned()).unwrap();
        assert_eq!(
            text("**CUDA out of memory.** Tried to allocate *20.00 MiB*."),
            "CUDA out of memory. Tried to allocate 20.00 MiB."
        );
        assert_eq!(text("***bold*** and **b**, (**c**)"), "bold and b, (c)");
        for line in [
            "f(*args, **kwargs)",
            "void* operator new(size_t)",
            "8 * 1024 * 1024",
            "*****____***",
            "* item",
            "a**b",
            "char *x, int *y)",
            "**",
        ] {
            assert_eq!(text(line), line);
        }
    }

    #[test]
    fn escapes_become_what_they_stand_for() {
        let text = |line: &[u8]| unescaped(line).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(text(b"plain"), None);
        assert_eq!(text(br#"  File "D:\w\transcribe.py", line 1"#), None);
        assert_eq!(text(br#"a\nb \"q\" \u001b[0m \\n c:\dir"#).unwrap(), "a\nb \"q\" \x1b[0m \\n c:\\dir");
        assert_eq!(text(br"end\").unwrap(), r"end\");
        assert_eq!(text(br"\u00").unwrap(), r"\u00");
    }
}
