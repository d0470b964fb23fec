//! A view on a terminal.

use super::view::{IndexLine, Memory, Operations, Row, View};
use crate::report::text::{counted, size};
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row as TableRow, Table};
use ratatui::{Frame, Terminal};

const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Letters and colours of chunk kinds in bars; letters alone have to do.
const KINDS: [(&str, char, Color); 5] = [
    ("leaf", 'L', Color::Blue),
    ("inner", 'I', Color::Cyan),
    ("redo", 'R', Color::Magenta),
    ("block", 'B', Color::Green),
    ("other", 'O', Color::Yellow),
];

/// Width of a bar.
const BAR: usize = 40;

/// Draws it from the top; what does not fit is cut off, rows of compute nodes first.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let operations = if view.operations.is_empty() { 2 } else { view.operations.len() as u16 + 2 };
    let rows = view.rows.len().max(1) as u16 + 2;
    let heights = [
        Constraint::Length(2),
        Constraint::Length(operations),
        Constraint::Length(view.memory.len() as u16 + 1),
        Constraint::Length(view.indexes.len().max(1) as u16 + 2),
        Constraint::Length(rows),
        Constraint::Length(view.missing.len() as u16),
        Constraint::Fill(1),
    ];
    let [head, operations, memory, indexes, rows, missing, _] = Layout::vertical(heights).areas(frame.area());
    draw_head(frame, head, view);
    draw_operations(frame, operations, view);
    draw_memory(frame, memory, &view.memory);
    draw_indexes(frame, indexes, &view.indexes);
    draw_rows(frame, rows, view);
    let told: Vec<Line<'_>> =
        view.missing.iter().map(|line| Line::styled(format!("no metrics of {line}"), ALARM)).collect();
    frame.render_widget(Paragraph::new(told), missing);
}

/// The view as text, without blanks at the ends of its lines and lines at its end.
pub(super) fn frame_text(view: &View, (width, height): (u16, u16)) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw(frame, view));
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let line: String = (0..width).filter_map(|x| buffer.cell((x, y))).map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    };
    let text: String = (0..height).map(line).collect();
    text.trim_end().to_owned() + "\n"
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let View { pool, incarnation, seconds, epochs, locks, held, daemons, .. } = view;
    let mut first = vec![
        Span::styled(format!("pool {pool}"), STRONG),
        Span::raw(format!(
            ", incarnation {incarnation}; epoch {} ({:.1}/s); {} held",
            epochs.0,
            epochs.1,
            counted(*locks as u64, "lock")
        )),
    ];
    if !held.is_empty() {
        let shown: Vec<_> = held.iter().map(|(node, lock, row)| format!("{node}:{lock} by row {row}")).collect();
        let more = if *locks > held.len() { ", ..." } else { "" };
        first.push(Span::raw(format!(": {}{more}", shown.join(", "))));
    }
    let mut second = vec![Span::styled(format!("over {seconds:.1} s"), FAINT)];
    for (name, count) in daemons {
        let style = if *count > 0 && matches!(*name, "deaths" | "fenced") { ALARM } else { FAINT };
        second.push(Span::styled(format!("; {name} {count}"), style));
    }
    frame.render_widget(Paragraph::new(vec![Line::from(first), Line::from(second)]), area);
}

fn titled(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(title).title_style(STRONG).border_style(FAINT)
}

/// A number with three digits that count.
fn short(value: f64) -> String {
    match value {
        value if value.is_infinite() => "inf".to_owned(),
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn draw_operations(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let block = titled(" operations of sessions with metrics ");
    if view.operations.is_empty() {
        let why = if view.has_sessions { "none yet" } else { "not known: no --metrics of a session" };
        frame.render_widget(Paragraph::new(Line::styled(why, FAINT)).block(block), area);
        return;
    }
    let head = [
        "",
        "ops/s",
        "mean us",
        "p99 us <",
        "RTT/op",
        "requests/op",
        "read B/op",
        "written B/op",
        "retries/op",
        "failed/s",
    ];
    let widths = [10, 9, 9, 9, 8, 12, 10, 13, 11, 9].map(Constraint::Length);
    let row = |of: &Operations| {
        let Operations { kind, rate, failed, mean_us, p99_us, round_trips, requests, read, written, retries } = of;
        let numbers = [*rate, *mean_us, *p99_us, *round_trips, *requests, *read, *written, *retries, *failed];
        let style = if *failed > 0.0 { ALARM } else { Style::new() };
        let cells = numbers.map(|number| right(short(number)));
        TableRow::new([Cell::from(kind.clone())].into_iter().chain(cells)).style(style)
    };
    let head = TableRow::new(head.map(|name| right(name.to_owned()))).style(FAINT);
    let table = Table::new(view.operations.iter().map(row), widths).header(head).column_spacing(0).block(block);
    frame.render_widget(table, area);
}

fn draw_memory(frame: &mut Frame<'_>, area: Rect, memory: &[Memory]) {
    let lines: Vec<Line<'_>> = memory.iter().map(memory_line).collect();
    frame.render_widget(Paragraph::new(lines).block(titled(" memory by chunks ")), area);
}

fn memory_line(memory: &Memory) -> Line<'static> {
    let Memory { node, chunk_bytes, chunks, free, used, withheld, corrupt, granted } = memory;
    let cells = |count: u32| (u64::from(count) * BAR as u64).div_ceil(u64::from((*chunks).max(1))) as usize;
    let mut spans = vec![Span::styled(format!("MN {node:<3} "), STRONG), Span::raw("[")];
    let mut filled = 0;
    let mut told = Vec::new();
    for (name, count) in granted {
        let (_, letter, color) = KINDS.into_iter().find(|(known, ..)| known == name).unwrap_or(("", '?', Color::White));
        let width = cells(*count).min(BAR - filled);
        spans.push(Span::styled(letter.to_string().repeat(width), Style::new().fg(color)));
        filled += width;
        told.push(format!("{name} {count}"));
    }
    let width = cells(*used).min(BAR - filled);
    spans.push(Span::styled("u".repeat(width), FAINT));
    filled += width;
    spans.push(Span::raw(format!("{}] ", ".".repeat(BAR - filled))));
    told.push(format!("given back {used}"));
    told.push(format!("free {free}"));
    if *withheld > 0 {
        told.push(format!("withheld {withheld}"));
    }
    spans.push(Span::raw(format!("of {} x {}: {}", chunks, size(*chunk_bytes), told.join(", "))));
    if *corrupt > 0 {
        spans.push(Span::styled(format!(", CORRUPT {corrupt}"), ALARM));
    }
    Line::from(spans)
}

fn draw_indexes(frame: &mut Frame<'_>, area: Rect, indexes: &[IndexLine]) {
    let block = titled(" indexes ");
    if indexes.is_empty() {
        frame.render_widget(Paragraph::new(Line::styled("none", FAINT)).block(block), area);
        return;
    }
    let row = |index: &IndexLine| {
        let rate = index.rate.map_or_else(|| "-".to_owned(), short);
        TableRow::new([
            Cell::from(index.name.clone()),
            Cell::from(index.kind),
            right(size(index.granted_bytes)),
            right(rate),
        ])
    };
    let head = [Cell::from("name"), Cell::from("kind"), right("granted".to_owned()), right("ops/s".to_owned())];
    let widths = [24, 10, 12, 10].map(Constraint::Length);
    let head = TableRow::new(head).style(FAINT);
    frame.render_widget(Table::new(indexes.iter().map(row), widths).header(head).block(block), area);
}

fn draw_rows(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let title = format!(" compute nodes: {}; {} free again ", counted(view.rows.len() as u64, "row"), view.free_rows);
    let block = titled(&title);
    let row = |row: &Row| {
        let Row { row, state, incarnation, host, lanes, epoch, silent, unresponsive, locks, rate } = row;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let state = if *unresponsive { "UNRESPONSIVE" } else { state };
        let style = if *unresponsive || matches!(state, "fencing" | "dead") { ALARM } else { Style::new() };
        let cells = [
            right(row.to_string()),
            Cell::from(state.to_owned()),
            right(incarnation.to_string()),
            Cell::from(host.clone()),
            right(or_none(lanes.map(|lanes| lanes.to_string()))),
            right(or_none(epoch.map(|epoch| epoch.to_string()))),
            right(or_none(silent.map(|silent| format!("{:.1} s", silent.as_secs_f64())))),
            right(locks.to_string()),
            right(or_none(rate.map(short))),
        ];
        TableRow::new(cells).style(style)
    };
    let names = ["row", "state", "life", "host", "lanes", "epoch", "heartbeat", "locks", "ops/s"];
    let aligned =
        names.map(|name| if matches!(name, "state" | "host") { Cell::from(name) } else { right(name.to_owned()) });
    let widths = [4, 12, 6, 20, 6, 9, 10, 6, 9].map(Constraint::Length);
    let table = Table::new(view.rows.iter().map(row), widths).header(TableRow::new(aligned).style(FAINT)).block(block);
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn view() -> View {
        let row = Row {
            row: 1,
            state: "live",
            incarnation: 3,
            host: "alpha:12".to_owned(),
            lanes: Some(8),
            epoch: Some(41),
            silent: Some(Duration::from_millis(300)),
            unresponsive: false,
            locks: 2,
            rate: Some(12_345.0),
        };
        View {
            pool: "accounts".to_owned(),
            incarnation: 2,
            seconds: 1.0,
            epochs: (41, 2.5),
            locks: 2,
            held: vec![(0, 7, 1), (1, 9, 1)],
            has_sessions: true,
            operations: vec![Operations {
                kind: "get".to_owned(),
                rate: 1_234_567.0,
                mean_us: 3.25,
                p99_us: 16.4,
                round_trips: 1.0,
                requests: 1.0,
                read: 1024.0,
                ..Operations::default()
            }],
            daemons: vec![("processes", 1), ("deaths", 0)],
            memory: vec![Memory {
                node: 0,
                chunk_bytes: 1 << 20,
                chunks: 16,
                free: 7,
                used: 2,
                withheld: 1,
                corrupt: 0,
                granted: vec![("leaf", 4), ("inner", 2)],
            }],
            indexes: vec![IndexLine {
                name: "users".to_owned(),
                kind: "sherman",
                granted_bytes: 6 << 20,
                rate: Some(9.5),
            }],
            rows: vec![row.clone(), Row { row: 2, state: "live", unresponsive: true, locks: 0, rate: None, ..row }],
            free_rows: 1,
            missing: vec!["127.0.0.1:1: refused".to_owned()],
        }
    }

    #[test]
    fn a_frame_has_all_of_it() {
        let expected = "\
pool accounts, incarnation 2; epoch 41 (2.5/s); 2 locks held: 0:7 by row 1, 1:9 by row 1
over 1.0 s; processes 1; deaths 0
 operations of sessions with metrics \u{2500}
              ops/s  mean us p99 us <  RTT/op requests/op read B/op written B/op retries/op failed/s
get           1.23M     3.25     16.4    1.00        1.00      1024         0.00       0.00     0.00
 memory by chunks \u{2500}
MN 0   [LLLLLLLLLLIIIIIuuuuu....................] of 16 x 1.0 MiB: leaf 4, inner 2, given back 2, free 7, withheld 1
 indexes \u{2500}
name                     kind            granted      ops/s
users                    sherman         6.0 MiB       9.50
 compute nodes: 2 rows; 1 free again \u{2500}
 row state          life host                  lanes     epoch  heartbeat  locks     ops/s
   1 live              3 alpha:12                  8        41      0.3 s      2     12.3k
   2 UNRESPONSIVE      3 alpha:12                  8        41      0.3 s      0         -
no metrics of 127.0.0.1:1: refused
";
        let text = frame_text(&view(), (120, 40));
        // Rules go on to the right edge.
        let lines: Vec<_> = text.lines().map(|line| line.trim_end_matches('\u{2500}')).collect();
        let wanted: Vec<_> = expected.lines().map(|line| line.trim_end_matches('\u{2500}')).collect();
        assert_eq!(lines, wanted, "{text}");
    }

    #[test]
    fn what_does_not_fit_is_cut_off() {
        for size in [(1, 1), (20, 4), (80, 10)] {
            let text = frame_text(&view(), size);
            assert!(text.lines().count() <= usize::from(size.1), "{text}");
        }
    }

    #[test]
    fn a_pool_of_which_nothing_is_known_has_a_frame_too() {
        let text = frame_text(&View::default(), (80, 24));
        assert!(text.contains("no --metrics of a session") && text.contains("0 locks held"), "{text}");
    }
}
