//! A document of headings, facts, tables and pictures, written as text or as Markdown.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr as _;

use crate::markdown::{Place, markdown, picture};
use crate::printable::Printable;
use crate::style::{Ink, STRONG, Style};
use crate::table::{Cell, Table, broken, prose_width};

/// An answer before it is written.
#[derive(Debug, Default)]
pub struct Document {
    /// What it is about, one line; nothing where the answer says it.
    pub title: Text,
    /// The answer, a paragraph each.
    pub lead: Vec<Text>,
    /// The rest, the most wanted first.
    pub sections: Vec<Section>,
}

/// A heading and what stands under it.
#[derive(Debug, Default)]
pub struct Section {
    heading: Text,
    items: Vec<Item>,
}

/// A line or a paragraph, whose parts may differ in style.
#[derive(Clone, Debug, Default)]
pub struct Text(Vec<Cell>);

/// A part of a section.
#[derive(Debug)]
enum Item {
    /// A paragraph.
    Line(Text),
    /// A table.
    Table(Table),
    /// A point of a list with its mark, and paragraphs under it.
    Point { mark: Printable, title: Text, paragraphs: Vec<Text> },
    /// Lines that keep their shape.
    Picture(Vec<Text>),
}

impl<T: Into<Printable>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(vec![text.into().into()])
    }
}

impl Text {
    /// A text in a style.
    pub fn styled(text: impl Into<Printable>, style: Style) -> Self {
        Self(vec![Cell::new(text, style)])
    }

    /// This text and another after it.
    #[must_use]
    pub fn and(mut self, text: impl Into<Printable>, style: Style) -> Self {
        self.0.push(Cell::new(text, style));
        self
    }

    /// The text without its styles.
    fn plain(&self) -> Printable {
        self.0.iter().map(|part| &**part.text()).collect::<String>().into()
    }

    /// Writes it, broken at blanks into lines of at most `room` cells behind `indent` blanks; the first begins with `mark`.
    fn write(&self, out: &mut impl Ink, mark: &str, indent: usize, room: Option<usize>) -> io::Result<()> {
        let text = self.plain();
        let lines = room.map_or_else(|| vec![text.to_string()], |room| broken(&text, room.saturating_sub(indent)));
        let mut parts = self.0.iter().map(|part| (part.style(), &**part.text()));
        let (mut style, mut rest) = parts.next().unwrap_or_default();
        for (number, line) in lines.iter().enumerate() {
            // Every line but the last took a blank with it, which is of some part, too.
            let blank = usize::from(number + 1 < lines.len());
            if !line.is_empty() || (number == 0 && !mark.is_empty()) {
                let before = if number == 0 { mark } else { "" };
                write!(out, "{:width$}{before}", "", width = indent - before.width())?;
            }
            let (mut shown, mut missing) = (line.len(), line.len() + blank);
            while missing > 0 {
                if rest.is_empty() {
                    let Some(next) = parts.next() else { break };
                    (style, rest) = next;
                }
                let (now, later) = rest.split_at(missing.min(rest.len()));
                out.ink(style, &now[..shown.min(now.len())])?;
                shown -= shown.min(now.len());
                missing -= now.len();
                rest = later;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

impl Section {
    /// A section without anything under its heading.
    pub fn new(heading: impl Into<Printable>) -> Self {
        Self { heading: Text::styled(heading, STRONG), items: Vec::new() }
    }

    /// Paragraphs without a heading.
    pub fn without_heading() -> Self {
        Self::default()
    }

    /// Whether nothing stands in it.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds a paragraph.
    pub fn line(&mut self, line: impl Into<Text>) {
        self.items.push(Item::Line(line.into()));
    }

    /// Adds a point of a list.
    pub fn point<T: Into<Text>>(&mut self, title: impl Into<Text>, paragraphs: impl IntoIterator<Item = T>) {
        self.marked("-", title, paragraphs);
    }

    /// Adds a point of a numbered list.
    pub fn step<T: Into<Text>>(
        &mut self,
        number: usize,
        title: impl Into<Text>,
        paragraphs: impl IntoIterator<Item = T>,
    ) {
        self.marked(&format!("{number}."), title, paragraphs);
    }

    fn marked<T: Into<Text>>(&mut self, mark: &str, title: impl Into<Text>, paragraphs: impl IntoIterator<Item = T>) {
        let paragraphs = paragraphs.into_iter().map(Into::into).collect();
        self.items.push(Item::Point { mark: mark.into(), title: title.into(), paragraphs });
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.items.push(Item::Table(table));
    }

    /// Adds lines that keep their shape.
    pub fn picture<T: Into<Text>>(&mut self, lines: impl IntoIterator<Item = T>) {
        self.items.push(Item::Picture(lines.into_iter().map(Into::into).collect()));
    }
}

/// Blanks before what stands under a heading.
const INDENT: usize = 2;

impl Document {
    /// Writes it for a terminal: paragraphs are [no wider than prose is](prose_width), tables are cut at `width`, if there is one.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, out: &mut impl Ink, width: Option<usize>) -> io::Result<()> {
        const NARROWEST: usize = 40;
        let room = Some(prose_width(width).max(NARROWEST));
        if !self.title.0.is_empty() {
            self.title.write(out, "", 0, room)?;
            if !self.lead.is_empty() {
                writeln!(out)?;
            }
        }
        self.lead.iter().try_for_each(|paragraph| paragraph.write(out, "", 0, room))?;
        for section in &self.sections {
            writeln!(out)?;
            let indent = if section.heading.0.is_empty() { 0 } else { INDENT };
            if indent > 0 {
                section.heading.write(out, "", 0, room)?;
            }
            for item in &section.items {
                match item {
                    Item::Line(line) => line.write(out, "", indent, room)?,
                    Item::Point { mark, title, paragraphs } => {
                        let indent = indent + mark.width() + 1;
                        title.write(out, &format!("{mark} "), indent, room)?;
                        paragraphs.iter().try_for_each(|paragraph| paragraph.write(out, "", indent, room))?;
                    }
                    Item::Table(table) => table.write(out, width)?,
                    Item::Picture(lines) => lines.iter().try_for_each(|line| line.write(out, "", INDENT, None))?,
                }
            }
        }
        Ok(())
    }

    /// Writes it for pasting into an issue.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        let escaped = |text: &Text| markdown(&text.plain(), Place::Paragraph);
        if !self.title.0.is_empty() {
            writeln!(out, "### {}", escaped(&self.title))?;
        }
        for (number, paragraph) in self.lead.iter().enumerate() {
            let strong = if number == 0 { "**" } else { "" };
            writeln!(out, "\n{strong}{}{strong}", escaped(paragraph))?;
        }
        for section in &self.sections {
            if section.heading.0.is_empty() {
                writeln!(out)?;
            } else {
                writeln!(out, "\n#### {}\n", escaped(&section.heading))?;
            }
            for item in &section.items {
                match item {
                    Item::Line(line) => writeln!(out, "{}\n", escaped(line))?,
                    Item::Point { mark, title, paragraphs } => {
                        writeln!(out, "{mark} **{}**\n", escaped(title))?;
                        let indent = mark.width() + 1;
                        let mut paragraph = |text| writeln!(out, "{:indent$}{}\n", "", escaped(text));
                        paragraphs.iter().try_for_each(&mut paragraph)?;
                    }
                    Item::Table(table) => table.write_markdown(out)?,
                    Item::Picture(lines) => {
                        let lines: Vec<Printable> = lines.iter().map(Text::plain).collect();
                        writeln!(out, "{}\n", picture(&lines))?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printable::Lines;
    use crate::style::PLAIN;

    #[test]
    fn paragraphs_break_at_blanks() {
        let mut out = Vec::new();
        Text::from("word ".repeat(20)).write(&mut out, "", 2, Some(40)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.len() <= 40 && line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 20);
    }

    #[test]
    fn a_style_goes_on_over_the_end_of_a_line() {
        let mut out = Lines::with_styles(Vec::new());
        Text::styled("one two", STRONG).and(" three four", PLAIN).write(&mut out, "- ", 2, Some(9)).unwrap();
        let text = String::from_utf8(out.into_inner()).unwrap();
        assert_eq!(text, "- \u{1b}[1mone two\u{1b}[0m\n  three\n  four\n");
        let mut out = Lines::with_styles(Vec::new());
        Text::from("one ").and("", PLAIN).and("two three", STRONG).write(&mut out, "", 0, Some(7)).unwrap();
        let text = String::from_utf8(out.into_inner()).unwrap();
        assert_eq!(text, "one \u{1b}[1mtwo\u{1b}[0m\n\u{1b}[1mthree\u{1b}[0m\n");
    }

    #[test]
    fn a_document_is_text_and_markdown() {
        let mut section = Section::new("Why");
        section.step(1, "Do `this`", ["It helps."]);
        section.picture(["a_b"]);
        let document = Document { title: "run".into(), lead: vec!["It <fits>.".into()], sections: vec![section] };
        let mut text = Vec::new();
        document.write_text(&mut text, None).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
        run

        It <fits>.

        Why
          1. Do `this`
             It helps.
          a_b
        ");
        let mut markdown = Vec::new();
        document.write_markdown(&mut markdown).unwrap();
        insta::assert_snapshot!(String::from_utf8(markdown).unwrap(), @r"
        ### run

        **It \<fits\>.**

        #### Why

        1. **Do `this`**

           It helps.

        ```text
        a_b
        ```
        ");
    }
}
