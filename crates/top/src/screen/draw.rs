//! Draws the screen: the GPUs above, the processes below, the keys at the foot.

use highwater_monitor::{GpuSample, ProcessSample, processes};
use highwater_output::printable::printable;
use highwater_output::table::shorten;
use highwater_units::{counted, size};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::graph::{bar, graph};
use super::keys::HELP;
use super::state::{Mode, Sort, State};
use crate::table::{busy, command, driver, ecc, loaded_lines, notes, percent_used, power, temperature, torch_lines};

/// Lines for processes, with their titles, before graphs get any.
const FEWEST_ROWS: u16 = 8;

/// Lines of a graph at most.
const TALLEST: u16 = 6;

/// Terminals so wide show two GPUs beside each other.
const WIDE: u16 = 150;

/// Cells of a bar at most: the graph beside it tells more.
const LONGEST_BAR: usize = 40;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame, state: &mut State) {
    let area = frame.area();
    let gpus = gpu_layout(state, area);
    let [title, above, list, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(gpus.height),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(title_line(state)).style(strong(state)), title);
    draw_gpus(frame, state, &gpus, above);
    draw_processes(frame, state, list);
    frame.render_widget(Paragraph::new(foot_line(state)), foot);
    match &state.mode {
        Mode::Help => draw_help(frame, area),
        Mode::Details => draw_details(frame, state, area),
        Mode::Confirm(target) => {
            let question = format!("Send {} to {}?\n{}", target.signal.name(), target.pid, printable(&target.command));
            popup(frame, area, " y: yes, anything else: no ", &question, 64, 6, 0);
        }
        Mode::Browse | Mode::Filter => {}
    }
}

fn strong(state: &State) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    if state.has_colour { style.fg(Color::Cyan) } else { style }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn title_line(state: &State) -> String {
    let Some(sample) = &state.sample else { return "highwater top: looking …".to_owned() };
    let pace = match (state.is_log, state.is_paused) {
        (_, true) => "paused".to_owned(),
        (true, false) => format!("log, speed {}", state.speed),
        (false, false) => format!("every {:.3?}", state.interval.div_f64(state.speed)),
    };
    format!("highwater top  {}  {pace}  {}", driver(sample), counted(count(state.looks), "sample", "samples"))
}

fn count(looks: u64) -> usize {
    usize::try_from(looks).unwrap_or(usize::MAX)
}

fn foot_line(state: &State) -> Line<'static> {
    if state.mode == Mode::Filter {
        return Line::from(format!("filter: {}_   Enter applies it, Esc removes it", printable(&state.filter)));
    }
    if let Some(message) = &state.message {
        return Line::from(printable(message).into_owned()).style(Style::new().add_modifier(Modifier::BOLD));
    }
    let keys = [
        ("?", "help"),
        ("Enter", "open"),
        ("d", "details"),
        ("s", "sort"),
        ("/", "filter"),
        ("k", "kill"),
        ("Space", "pause"),
        ("q", "leave"),
    ];
    let mut spans = Vec::new();
    if !state.filter.is_empty() {
        spans.push(Span::raw(format!("filter: {}  ", printable(&state.filter))));
    }
    for (key, what) in keys {
        spans.push(Span::styled(key, Style::new().add_modifier(Modifier::REVERSED)));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    Line::from(spans)
}

/// How the GPUs share the lines above the list.
struct GpuLayout {
    columns: u16,
    /// Lines of each graph; 0 puts it beside the bar.
    graph_rows: u16,
    /// Lines of notes for each GPU.
    note_rows: u16,
    height: u16,
}

fn gpu_layout(state: &State, area: Rect) -> GpuLayout {
    let gpus = state.sample.as_ref().map_or(0, |sample| sample.gpus.len());
    let gpus = u16::try_from(gpus).unwrap_or(u16::MAX);
    let columns = if area.width >= WIDE && gpus > 1 { 2 } else { 1 };
    let lines = gpus.div_ceil(columns);
    let room = area.height.saturating_sub(2 + FEWEST_ROWS);
    let has_notes = state.sample.iter().flat_map(|sample| &sample.gpus).any(|gpu| !gpu.notes.is_empty());
    let each = room.checked_div(lines).unwrap_or(0);
    let note_rows = u16::from(has_notes && each >= 2);
    let graph_rows = each.saturating_sub(1 + note_rows).min(TALLEST);
    let height = lines.saturating_mul(1 + note_rows + graph_rows).min(area.height.saturating_sub(4));
    GpuLayout { columns, graph_rows, note_rows, height }
}

fn draw_gpus(frame: &mut Frame, state: &State, layout: &GpuLayout, area: Rect) {
    let Some(sample) = &state.sample else { return };
    let each = 1 + layout.note_rows + layout.graph_rows;
    let width = area.width / layout.columns;
    for (place, gpu) in (0_u16..).zip(&sample.gpus) {
        let (column, line) = (place % layout.columns, place / layout.columns);
        let y = line.saturating_mul(each);
        if y >= area.height {
            break;
        }
        let block = Rect {
            x: area.x + column * width,
            y: area.y + y,
            width: width.saturating_sub(u16::from(layout.columns > 1)),
            height: each.min(area.height - y),
        };
        frame.render_widget(Paragraph::new(gpu_lines(state, gpu, layout, usize::from(block.width))), block);
    }
}

fn gpu_lines(state: &State, gpu: &GpuSample, layout: &GpuLayout, width: usize) -> Vec<Line<'static>> {
    let history = state.histories.get(&gpu.label());
    let total = gpu.memory.map_or(0, |memory| memory.total_bytes);
    let draw = |width, rows| history.map_or_else(Vec::new, |history| graph(&history.used_bytes, total, width, rows));
    let mut head = head(state, gpu, width);
    if layout.graph_rows == 0 {
        let rest = width.saturating_sub(head.width() + 1);
        let beside = draw(rest, 1).pop().unwrap_or_default();
        head.push_span(Span::raw(format!(" {beside}")));
    }
    let mut lines = vec![head];
    if layout.note_rows > 0 {
        lines.push(Line::styled(cut(&format!("    {}", notes(gpu).join("; ")), width), dim()));
    }
    if layout.graph_rows > 0 {
        lines.extend(
            draw(width, usize::from(layout.graph_rows)).into_iter().map(|line| Line::styled(line, tint(state, gpu))),
        );
    }
    lines
}

/// A GPU in a line: number, bar, numbers, name.
fn head(state: &State, gpu: &GpuSample, width: usize) -> Line<'static> {
    let label = format!("{:>3} ", gpu.label());
    if gpu.is_lost {
        let text = format!("{label}LOST {}: {}", printable(&gpu.name), notes(gpu).join("; "));
        return Line::styled(cut(&text, width), Style::new().add_modifier(Modifier::BOLD));
    }
    let Some(memory) = gpu.memory else {
        return Line::from(cut(&format!("{label}{}: {}", printable(&gpu.name), notes(gpu).join("; ")), width));
    };
    let most = state.histories.get(&gpu.label()).map_or(0, |history| history.most_bytes);
    let numbers = format!(
        " {} of {} {} {} {} most {}",
        size(memory.used_bytes),
        size(memory.total_bytes),
        busy(gpu),
        temperature(gpu),
        power(gpu),
        size(most)
    );
    let rest = width.saturating_sub(label.len() + numbers.chars().count());
    let cells = rest.min(LONGEST_BAR).min(width / 4).max(6);
    let bar = bar(memory.used_bytes, memory.reserved_bytes, memory.total_bytes, cells);
    let errors =
        gpu.ecc.and_then(|ecc| ecc.uncorrected).filter(|&errors| errors > 0).map(|_| format!(" ECC {}", ecc(gpu)));
    let name = format!(" {}{}", printable(&gpu.name), errors.unwrap_or_default());
    let name = if rest >= cells + name.chars().count() { name } else { String::new() };
    Line::from(vec![
        Span::raw(label),
        Span::styled(bar, tint(state, gpu)),
        Span::raw(numbers),
        Span::styled(name, dim()),
    ])
}

/// Green, yellow, red; the number beside it says the same.
fn tint(state: &State, gpu: &GpuSample) -> Style {
    let Some(memory) = gpu.memory.filter(|_| state.has_colour) else { return Style::new() };
    Style::new().fg(match percent_used(&memory) {
        0..75 => Color::Green,
        75..92 => Color::Yellow,
        _ => Color::Red,
    })
}

fn draw_processes(frame: &mut Frame, state: &mut State, area: Rect) {
    if area.height == 0 {
        return;
    }
    let width = usize::from(area.width);
    let (lines, chosen) = process_lines(state, width);
    let rows = usize::from(area.height) - 1;
    // The chosen row and what is open below it stay in sight.
    if chosen.start < state.scroll {
        state.scroll = chosen.start;
    }
    state.scroll =
        state.scroll.max(chosen.end.saturating_sub(rows)).min(chosen.start).min(lines.len().saturating_sub(1));
    let list: Vec<_> = lines.into_iter().skip(state.scroll).take(rows).collect();
    let all = std::iter::once(titles(state)).chain(list).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(all), area);
}

fn titles(state: &State) -> Line<'static> {
    let mark = |sort: Sort| match (state.sort == sort, state.is_reversed) {
        (true, false) => format!("{}▼", sort.name()),
        (true, true) => format!("{}▲", sort.name()),
        (false, _) => sort.name().to_owned(),
    };
    let text = row(
        " ",
        &mark(Sort::Gpu),
        &mark(Sort::Pid),
        &mark(Sort::User),
        "type",
        &mark(Sort::Memory),
        &mark(Sort::Command),
    );
    Line::styled(text, Style::new().add_modifier(Modifier::REVERSED))
}

fn row(mark: &str, gpu: &str, pid: &str, user: &str, kind: &str, memory: &str, command: &str) -> String {
    format!("{mark}{gpu:>4} {pid:>8} {:<10} {kind:<4} {memory:>10}  {command}", shorten(user, 10))
}

/// The lines of the list, and which are the chosen row's.
fn process_lines(state: &State, width: usize) -> (Vec<Line<'static>>, std::ops::Range<usize>) {
    let mut lines = Vec::new();
    let mut chosen = 0..0;
    for (gpu, process) in state.rows() {
        let first = lines.len();
        let is_chosen = state.is_chosen(gpu, process);
        lines.push(process_line(gpu, process, is_chosen, state.open.contains(&process.pid), width));
        if state.open.contains(&process.pid) {
            lines.extend(opened(process, width).into_iter().map(|line| Line::styled(line, dim())));
        }
        if is_chosen {
            chosen = first..lines.len();
        }
    }
    if lines.is_empty() {
        let why = if state.filter.is_empty() { "no process uses a GPU" } else { "no process matches the filter" };
        lines.push(Line::styled(format!("      {why}"), dim()));
    }
    (lines, chosen)
}

fn process_line(
    gpu: &GpuSample,
    process: &ProcessSample,
    is_chosen: bool,
    is_open: bool,
    width: usize,
) -> Line<'static> {
    let mark = match (process.torch.is_some() || process.torch_note.is_some(), is_open) {
        (true, true) => "▾ ",
        (true, false) => "▸ ",
        (false, _) => "",
    };
    let memory = process.bytes.map_or_else(|| "?".to_owned(), size);
    let user = process.user.as_deref().unwrap_or("?");
    let text = row(
        if is_chosen { ">" } else { " " },
        &gpu.label(),
        &process.pid.to_string(),
        &printable(user),
        process.kind.letter(),
        &memory,
        &format!("{mark}{}", command(process)),
    );
    Line::styled(cut(&text, width), if is_chosen { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() })
}

/// The beginning of a text: of a command line it says more than the end.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// What an open row shows.
fn opened(process: &ProcessSample, width: usize) -> Vec<String> {
    let mut lines = torch_lines(process);
    lines.extend(loaded_lines(process));
    if lines.is_empty() {
        let how =
            "to see how PyTorch uses this memory, start the program with `highwater run`; see `highwater top --help`";
        return wrapped(how, width);
    }
    lines.iter().flat_map(|line| wrapped(line, width)).collect()
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let indent = " ".repeat(8);
    highwater_output::table::broken(text, width.saturating_sub(indent.len()).max(20))
        .iter()
        .map(|line| format!("{indent}{line}"))
        .collect()
}

fn draw_help(frame: &mut Frame, area: Rect) {
    let lines: Vec<_> = HELP.iter().map(|(key, what)| format!("{key:<14} {what}")).collect();
    popup(frame, area, " keys ", &lines.join("\n"), 78, 16, 0);
}

fn draw_details(frame: &mut Frame, state: &State, area: Rect) {
    let Some((gpu, process)) = state.chosen() else { return };
    let mut lines = vec![
        format!("GPU {} {}", gpu.label(), printable(&gpu.name)),
        format!("memory {}, type {}", process.bytes.map_or_else(|| "not told".to_owned(), size), process.kind.letter()),
        format!("user {}", printable(process.user.as_deref().unwrap_or("not told"))),
        command(process).to_string(),
        String::new(),
    ];
    lines.extend(torch_lines(process).iter().map(ToString::to_string));
    lines.extend(loaded_lines(process).iter().map(ToString::to_string));
    if !state.is_log {
        lines.push(String::new());
        lines.push("its tree:".to_owned());
        for node in processes::tree(process.pid, &processes::all()) {
            let mark = if node.process.pid == process.pid { ">" } else { " " };
            let indent = "  ".repeat(node.depth);
            lines.push(format!("{mark}{indent}{} {}", node.process.pid, printable(&node.process.command)));
        }
    }
    let title = format!(" process {} ", process.pid);
    popup(
        frame,
        area,
        &title,
        &lines.join("\n"),
        area.width.saturating_sub(4),
        area.height.saturating_sub(4),
        state.details_scroll,
    );
}

fn popup(frame: &mut Frame, area: Rect, title: &str, text: &str, width: u16, height: u16, scroll: u16) {
    let (width, height) = (width.min(area.width), height.min(area.height));
    let inner = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, inner);
    let block = Block::bordered().title(title.to_owned());
    frame.render_widget(
        Paragraph::new(text.to_owned()).wrap(Wrap { trim: false }).scroll((scroll, 0)).block(block),
        inner,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::state::tests::sample;
    use highwater_monitor::{Memory, Power};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Duration;

    fn drawn(state: &mut State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn any_size_is_drawn_in_any_mode() {
        for gpus in [0, 1, 2, 9] {
            let mut sample = sample();
            sample.gpus = sample.gpus.iter().cycle().take(gpus).cloned().collect();
            // A log may say anything.
            for gpu in &mut sample.gpus {
                let all = u64::MAX;
                gpu.memory = Some(Memory { total_bytes: all, used_bytes: all, free_bytes: all, reserved_bytes: all });
                gpu.name = "重み\u{1b}[31m".repeat(20);
                gpu.notes = vec!["note\n".repeat(50)];
                gpu.power = Some(Power { draw_mw: u32::MAX, limit_mw: Some(u32::MAX) });
            }
            let mut state = State::new(true, Duration::from_secs(1));
            state.has_colour = true;
            state.take(sample);
            for mode in [Mode::Browse, Mode::Filter, Mode::Details, Mode::Help] {
                state.mode = mode;
                for (width, height) in [(1, 1), (3, 2), (20, 5), (80, 24), (200, 60), (400, 200)] {
                    drawn(&mut state, width, height);
                }
            }
        }
    }

    #[test]
    fn a_small_terminal_shows_bars_graphs_and_processes() {
        let mut state = State::new(false, Duration::from_secs(1));
        state.has_colour = false;
        state.take(sample());
        insta::assert_snapshot!(drawn(&mut state, 80, 16));
    }
}
