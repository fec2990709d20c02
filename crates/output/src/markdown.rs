//! Text for Markdown, as GitHub reads it, in which nothing of a name is alive.

use crate::printable::{Piece, Printable};

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a paragraph or a heading.
    Paragraph,
    /// In a cell of a table, where a bar ends the cell even within code.
    Cell,
}

/// The text in Markdown: names such as `__init__` and `<module>` are shown as they are, and code is code.
///
/// Words that would become links, mentions of people or references to issues all by themselves are made code, too: no
/// backslash keeps GitHub from finding them.
pub fn markdown(text: &Printable, place: Place) -> String {
    let mut writer = Writer { out: String::with_capacity(text.len() + 8), place, is_after_code: false };
    for piece in text.pieces() {
        match piece {
            Piece::Words(words) => writer.words(words),
            Piece::Code(code) => writer.code(code),
        }
    }
    writer.out
}

/// Lines that keep their shape.
pub fn picture(lines: &[Printable]) -> String {
    let longest = lines.iter().map(|line| longest_run(line)).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
    format!("{fence}text\n{}\n{fence}", lines.join("\n"))
}

struct Writer {
    out: String,
    place: Place,
    is_after_code: bool,
}

impl Writer {
    fn words(&mut self, text: &str) {
        for (number, word) in text.split(' ').enumerate() {
            if number > 0 {
                self.push(' ');
            }
            if is_alive(word) {
                self.code(word);
                continue;
            }
            for c in word.chars() {
                if matches!(c, '\\' | '`' | '_' | '*' | '<' | '>' | '[' | ']' | '#' | '|' | '~' | '&' | '$') {
                    self.push('\\');
                }
                self.push(c);
            }
        }
    }

    /// Code between as many backticks as none of it has in a row.
    fn code(&mut self, text: &str) {
        if self.place == Place::Cell && text.contains('|') {
            // In a cell a bar has to be escaped, but after a backslash that is in the code the escape would be undone.
            for (number, part) in text.split('|').enumerate() {
                if number > 0 {
                    self.push('\\');
                    self.push('|');
                }
                self.code(part);
            }
            return;
        }
        if text.is_empty() {
            return;
        }
        if self.is_after_code {
            // The backticks of both would be one row of them.
            self.push(' ');
        }
        let fence = "`".repeat(longest_run(text) + 1);
        // One blank at each end is not part of the code; without them a backtick there would lengthen the fence.
        let is_padded = text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']);
        let pad = if is_padded { " " } else { "" };
        self.out.extend([&fence, pad, text, pad, &fence]);
        self.is_after_code = true;
    }

    fn push(&mut self, c: char) {
        self.out.push(c);
        self.is_after_code = false;
    }
}

/// Whether a word does something without any markup: an address, somebody's name, the number of an issue.
fn is_alive(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_number = |mark: &str| {
        lower.match_indices(mark).any(|(at, _)| lower[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    lower.contains("//")
        || lower.contains("www.")
        || lower.contains("mailto:")
        || lower.contains("xmpp:")
        || lower.contains('@')
        || is_number("#")
        || is_number("gh-")
}

/// The most backticks in a row.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraph(text: &str) -> String {
        markdown(&text.into(), Place::Paragraph)
    }

    fn cell(text: &str) -> String {
        markdown(&text.into(), Place::Cell)
    }

    #[test]
    fn names_are_shown_as_they_are() {
        assert_eq!(paragraph("a.py:3 __init__ `x_y` <module>"), r"a.py:3 \_\_init\_\_ `x_y` \<module\>");
        assert_eq!(paragraph("a|b ~~c~~ &amp; $x$"), r"a\|b \~\~c\~\~ \&amp; \$x\$");
    }

    #[test]
    fn an_odd_backtick_switches_nothing_off() {
        assert_eq!(paragraph("`<img src=x>"), r"\`\<img src=x\>");
        assert_eq!(paragraph("call `f()` at `![p](x) and <b>"), r"call `f()` at \`!\[p\](x) and \<b\>");
        // A name with backticks on both sides of our own code: all of it is words or code, none of it markup.
        assert_eq!(paragraph("x` and `<b>` <i>"), r"x`  and  `\<b\>\` \<i\>");
        assert_eq!(paragraph("a `` <b>"), r"a \`\` \<b\>");
    }

    #[test]
    fn addresses_people_and_issues_are_dead() {
        assert_eq!(paragraph("see https://evil.example/a_b or @you."), "see `https://evil.example/a_b` or `@you.`");
        assert_eq!(paragraph("a //evil.example"), "a `//evil.example`");
        assert_eq!(
            paragraph("www.evil.example, me@evil.example, x#1, GH-2"),
            "`www.evil.example,` `me@evil.example,` `x#1,` `GH-2`"
        );
        assert_eq!(paragraph("# one #two"), r"\# one \#two");
        assert_eq!(paragraph("@a`b"), r"`@a`\`b");
    }

    #[test]
    fn a_bar_ends_no_cell_even_after_a_backslash() {
        assert_eq!(cell(r"a\|b"), r"a\\\|b");
        assert_eq!(cell(r"`a\|b` c"), r"`a\`\|`b` c");
        assert_eq!(paragraph("`a|b`"), "`a|b`");
    }

    #[test]
    fn two_pieces_of_code_are_not_one() {
        assert_eq!(paragraph("`a``b`"), "`a` `b`");
        assert_eq!(paragraph("x@y`b`"), "`x@y` `b`");
    }

    #[test]
    fn code_may_begin_with_a_blank() {
        assert_eq!(paragraph("` a`"), "`  a `");
    }

    #[test]
    fn a_picture_is_fenced_by_more_backticks_than_it_has() {
        let lines = ["a".into(), "````".into()];
        assert_eq!(picture(&lines), "`````text\na\n````\n`````");
        assert_eq!(picture(&lines[..1]), "```text\na\n```");
    }
}
