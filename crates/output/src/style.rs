//! Colour and weight on a terminal: names for styles, and the writers that know whether to show them.
//!
//! A style is never part of a text: whatever a text holds, [`Lines`](crate::printable::Lines) escapes its control characters,
//! and the escapes of styles go past it. So no name in a file can bring one.

use std::io::{self, Write};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{Ansi256Color, AnsiColor};

pub use anstyle::Style;

/// As the terminal shows text.
pub const PLAIN: Style = Style::new();
/// The answer, and headings.
pub const STRONG: Style = Style::new().bold();
/// Secondary text: heads of tables, file names, bytes in full.
pub const DIM: Style = Style::new().dimmed();
/// A failure: an error, out of memory, a budget that is exceeded.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// A warning.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// Advice: a hint, a setting that fits.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Memory in use, in a drawing.
pub const BAR: Style = AnsiColor::Cyan.on_default();
/// Where to go on.
pub const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Something that text is written to, in styles where it has them.
pub trait Ink: Write {
    /// Writes a text in a style.
    ///
    /// # Errors
    /// Those of the writer.
    fn ink(&mut self, style: Style, text: &str) -> io::Result<()>;
}

impl Ink for Vec<u8> {
    fn ink(&mut self, _: Style, text: &str) -> io::Result<()> {
        self.write_all(text.as_bytes())
    }
}

/// How full a GPU is, from 0 to 100 %: room, little room, next to none.
pub fn of_fullness(percent: u64) -> Style {
    match percent {
        0..75 => GOOD,
        75..92 => AnsiColor::Yellow.on_default(),
        _ => AnsiColor::Red.on_default(),
    }
}

/// A drawing in runs of characters that have one style.
pub fn runs(drawing: &str, of: impl Fn(char) -> Style) -> Vec<(Style, &str)> {
    let mut runs = Vec::new();
    let mut rest = drawing;
    while let Some(first) = rest.chars().next() {
        let style = of(first);
        let end = rest.find(|c| of(c) != style).unwrap_or(rest.len());
        let (run, later) = rest.split_at(end);
        runs.push((style, run));
        rest = later;
    }
    runs
}

/// Whether a stream shows styles: as `--color` says, else as the terminal, `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE` do.
///
/// # Source
/// <https://no-color.org/>, <https://bixense.com/clicolors/>. `CLICOLOR_FORCE=0` forces nothing; `anstream` takes every value for yes.
pub fn choice(stream: &impl RawStream) -> ColorChoice {
    let is_asked = ColorChoice::global() != ColorChoice::Auto;
    if is_asked || anstyle_query::no_color() || std::env::var_os("CLICOLOR_FORCE").is_none_or(|value| value != "0") {
        return AutoStream::choice(stream);
    }
    let clicolor = anstyle_query::clicolor();
    let has_colours = anstyle_query::term_supports_color() || clicolor == Some(true) || anstyle_query::is_ci();
    if clicolor != Some(false) && stream.is_terminal() && has_colours {
        ColorChoice::Always
    } else {
        ColorChoice::Never
    }
}

/// Whether standard output shows styles.
pub fn on_stdout() -> bool {
    choice(&io::stdout()) != ColorChoice::Never
}

/// Standard error, which keeps styles where it shows them.
pub fn stderr() -> AutoStream<io::StderrLock<'static>> {
    let stream = io::stderr();
    let choice = choice(&stream);
    AutoStream::new(stream.lock(), choice)
}

/// The colour of a terminal with 256 of them that is nearest to one with red, green and blue from 0 to 255.
///
/// # Source
/// xterm's `256colres.h`: a cube of six steps a side (0, 95, 135, 175, 215, 255) from number 16 on.
pub fn colour([red, green, blue]: [u8; 3]) -> Style {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |part: u8| (0..6_u8).min_by_key(|&step| STEPS[usize::from(step)].abs_diff(part)).unwrap_or(0);
    Ansi256Color(16 + 36 * nearest(red) + 6 * nearest(green) + nearest(blue)).on_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_cut_where_its_style_changes() {
        let of = |c| if c == '█' { BAR } else { PLAIN };
        assert_eq!(runs("██ a█", of), [(BAR, "██"), (PLAIN, " a"), (BAR, "█")]);
        assert_eq!(runs("", of), []);
    }

    #[test]
    fn colours_are_the_nearest_of_the_cube() {
        assert_eq!(colour([0, 0, 0]), Ansi256Color(16).on_default());
        assert_eq!(colour([255, 255, 255]), Ansi256Color(231).on_default());
        // Steps 1, 3 and 2: 68 is nearer to 95 than to 0.
        assert_eq!(colour([0x44, 0xaa, 0x77]), Ansi256Color(16 + 36 + 18 + 2).on_default());
    }
}
