//! `highwater help [TOPIC]`: of the program, of a command, or the page of a finding.

mod pages;

use std::process::ExitCode;

use crate::args;
use crate::error::Problem;
use crate::output::text_to_stdout;
use crate::style::{Ink, PLAIN, STRONG};
use crate::table::{broken, prose_width, terminal_width};

/// Options of `highwater help`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  highwater help simulate         the options of a command
  highwater help growth           a finding of `report`, with its remedy
  highwater help findings         all findings")]
pub(crate) struct Args {
    /// A command, a finding such as `growth`, or `findings`
    #[arg(value_name = "COMMAND|FINDING")]
    topic: Option<String>,
}

/// Prints the help, or the page.
///
/// # Errors
/// If there is no such topic.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(topic) = &args.topic else { return Ok(crate::run(["highwater", "--help"])) };
    if args::is_command(topic) {
        return Ok(crate::run(["highwater", topic, "--help"]));
    }
    let page = pages::PAGES.iter().find(|(id, _)| id == topic).map(|(_, text)| *text);
    let page = page.ok_or_else(|| unknown(topic))?;
    text_to_stdout(|out| write(out, page, prose_width(terminal_width())))?;
    Ok(ExitCode::SUCCESS)
}

fn unknown(topic: &str) -> Problem {
    let known: Vec<&str> = args::commands().chain(pages::PAGES.iter().map(|(id, _)| *id)).collect();
    let near = args::nearest(topic, &known);
    let meant = if near.is_empty() { String::new() } else { format!("did you mean `{}`? ", near.join("`, `")) };
    Problem::new(format!("there is no help on `{topic}`"))
        .hint(format!("{meant}`highwater help findings` lists the findings, `highwater help` the commands"))
}

/// Writes a page of Markdown for a terminal: paragraphs are filled, code and tables stay as they are.
fn write(out: &mut impl Ink, page: &str, width: usize) -> std::io::Result<()> {
    let mut paragraph = String::new();
    let mut is_code = false;
    for line in page.lines().chain([""]) {
        let is_fence = line.starts_with("```");
        let begins = line.is_empty() || line.starts_with(['#', '-', '|']) || is_fence || is_code;
        if begins && !paragraph.is_empty() {
            write_paragraph(out, &paragraph, width)?;
            paragraph.clear();
        }
        if is_fence {
            is_code = !is_code;
        } else if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
            out.ink(STRONG, heading.trim_start_matches(['#', ' ']))?;
            writeln!(out)?;
        } else if is_code || line.starts_with('|') {
            writeln!(out, "  {line}")?;
        } else if line.is_empty() {
            writeln!(out)?;
        } else {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(&without_links(line.trim_start()));
        }
    }
    Ok(())
}

/// Writes a paragraph or a point of a list; a few bold words at its beginning are bold.
fn write_paragraph(out: &mut impl Ink, text: &str, width: usize) -> std::io::Result<()> {
    let (bold, rest) = match text.strip_prefix("**").and_then(|text| text.split_once("**")) {
        Some((bold, rest)) => (bold, rest),
        None => ("", text),
    };
    let hanging = if text.starts_with("- ") { 2 } else { 0 };
    let filled = format!("{bold}{rest}").replace("**", "");
    for (number, line) in broken(&filled, width.saturating_sub(hanging)).iter().enumerate() {
        let indent = if number == 0 { 0 } else { hanging };
        let (bold, rest) = line.split_at(if number == 0 && line.starts_with(bold) { bold.len() } else { 0 });
        write!(out, "{:indent$}", "")?;
        out.ink(STRONG, bold)?;
        out.ink(PLAIN, rest)?;
        writeln!(out)?;
    }
    Ok(())
}

/// `[text](address)` as its text.
fn without_links(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let found = after.split_once("](").and_then(|(text, after)| Some((text, after.split_once(')')?.1)));
        let Some((text, after)) = found.filter(|(text, _)| !text.contains('[')) else { break };
        out.extend([before, text]);
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_filled_and_keeps_its_code() {
        let page = "# Title (`id`)\n\nOne line\nof a paragraph.\n\n**Bold.** Then [a link](x.md) and a[0].\n\n- point\n  more\n\n```sh\n  code  here\n```\n";
        let mut out = Vec::new();
        write(&mut out, page, 20).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        Title (`id`)

        One line of a
        paragraph.

        Bold. Then a link
        and a[0].

        - point more

            code  here
        ");
    }
}
