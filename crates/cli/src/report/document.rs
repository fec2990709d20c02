//! A document of headings, facts, tables and pictures, written as text or as Markdown.

use std::io::{self, Write};

use crate::markdown::{Place, markdown, picture};
use crate::printable::Printable;
use crate::table::{Table, broken};

/// A report before it is written.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// What it is about, one line.
    pub(crate) title: Printable,
    /// The answer.
    pub(crate) lead: Printable,
    /// The rest, the most wanted first.
    pub(crate) sections: Vec<Section>,
}

/// A heading and what stands under it.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) heading: Printable,
    pub(crate) items: Vec<Item>,
}

/// A part of a section.
#[derive(Debug)]
pub(crate) enum Item {
    /// A paragraph.
    Line(Printable),
    /// A table.
    Table(Table),
    /// A point of a list, with paragraphs under it.
    Point(Printable, Vec<Printable>),
    /// Lines that keep their shape.
    Picture(Vec<Printable>),
}

impl Section {
    pub(crate) fn new(heading: impl Into<Printable>) -> Self {
        Self { heading: heading.into(), items: Vec::new() }
    }

    pub(crate) fn line(&mut self, line: impl Into<Printable>) {
        self.items.push(Item::Line(line.into()));
    }

    pub(crate) fn point(&mut self, title: impl Into<Printable>, paragraphs: impl IntoIterator<Item = String>) {
        self.items.push(Item::Point(title.into(), paragraphs.into_iter().map(Printable::new).collect()));
    }

    pub(crate) fn table(&mut self, table: Table) {
        self.items.push(Item::Table(table));
    }

    pub(crate) fn picture(&mut self, lines: Vec<String>) {
        self.items.push(Item::Picture(lines.into_iter().map(Printable::new).collect()));
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
        let escaped = |text| markdown(text, Place::Paragraph);
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
                    Item::Picture(lines) => writeln!(out, "{}\n", picture(lines))?,
                }
            }
        }
        Ok(())
    }
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
}
