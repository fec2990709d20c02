//! A document of headings, facts, tables and pictures, written as text or as Markdown.

use std::io::{self, Write};

use crate::table::{Table, broken};

/// A report before it is written.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// What it is about, one line.
    pub(crate) title: String,
    /// The answer.
    pub(crate) lead: String,
    /// The rest, the most wanted first.
    pub(crate) sections: Vec<Section>,
}

/// A heading and what stands under it.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) items: Vec<Item>,
}

/// A part of a section.
#[derive(Debug)]
pub(crate) enum Item {
    /// A paragraph.
    Line(String),
    /// A table.
    Table(Table),
    /// A point of a list, with paragraphs under it.
    Point(String, Vec<String>),
    /// Lines that keep their shape.
    Picture(Vec<String>),
}

impl Section {
    pub(crate) fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), items: Vec::new() }
    }

    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.items.push(Item::Line(line.into()));
    }

    pub(crate) fn point(&mut self, title: impl Into<String>, paragraphs: Vec<String>) {
        self.items.push(Item::Point(title.into(), paragraphs));
    }

    pub(crate) fn table(&mut self, table: Table) {
        self.items.push(Item::Table(table));
    }
}

impl Document {
    /// Writes it for a terminal; lines are wrapped and tables cut at `width`, if there is one.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write_text(&self, out: &mut impl Write, width: Option<usize>) -> io::Result<()> {
        wrapped(out, &self.title, 0, width)?;
        writeln!(out)?;
        wrapped(out, &self.lead, 0, width)?;
        for section in &self.sections {
            writeln!(out)?;
            wrapped(out, &section.heading, 0, width)?;
            for item in &section.items {
                match item {
                    Item::Line(line) => wrapped(out, line, 2, width)?,
                    Item::Point(title, paragraphs) => {
                        wrapped(out, &format!("- {title}"), 2, width)?;
                        paragraphs.iter().try_for_each(|paragraph| wrapped(out, paragraph, 4, width))?;
                    }
                    Item::Table(table) => table.write(out, width)?,
                    Item::Picture(lines) => lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?,
                }
            }
        }
        Ok(())
    }

    /// Writes it for pasting into an issue.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "### {}\n\n**{}**", escaped(&self.title), escaped(&self.lead))?;
        for section in &self.sections {
            writeln!(out, "\n#### {}\n", escaped(&section.heading))?;
            for item in &section.items {
                match item {
                    Item::Line(line) => writeln!(out, "{}\n", escaped(line))?,
                    Item::Point(title, paragraphs) => {
                        writeln!(out, "- **{}**\n", escaped(title))?;
                        paragraphs.iter().try_for_each(|paragraph| writeln!(out, "  {}\n", escaped(paragraph)))?;
                    }
                    Item::Table(table) => table.write_markdown(out)?,
                    Item::Picture(lines) => writeln!(out, "```text\n{}\n```\n", lines.join("\n"))?,
                }
            }
        }
        Ok(())
    }
}

/// Text in which Markdown finds nothing but text: names such as `__init__` and `<module>` stay as they are.
///
/// What stands in backticks is code already.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_code = false;
    for c in text.chars() {
        is_code ^= c == '`';
        if !is_code && matches!(c, '_' | '*' | '<' | '>' | '[' | ']' | '#' | '\\') {
            out.push('\\');
        }
        if c == '|' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Writes a paragraph, broken at blanks.
fn wrapped(out: &mut impl Write, text: &str, indent: usize, width: Option<usize>) -> io::Result<()> {
    const NARROWEST: usize = 40;
    let room = width.map_or(usize::MAX, |width| width.max(NARROWEST) - indent);
    for line in broken(text, room) {
        let indent = if line.is_empty() { 0 } else { indent };
        writeln!(out, "{:indent$}{line}", "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_break_at_blanks() {
        let mut out = Vec::new();
        wrapped(&mut out, &"word ".repeat(20), 2, Some(40)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.len() <= 40 && line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 20);
    }

    #[test]
    fn markdown_leaves_names_alone() {
        assert_eq!(escaped("a.py:3 __init__ `x_y` <module>"), r"a.py:3 \_\_init\_\_ `x_y` \<module\>");
        assert_eq!(escaped("a|b"), r"a\|b");
    }
}
