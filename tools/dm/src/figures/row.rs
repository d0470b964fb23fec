//! A line of the table of figures: written by a run, and read back to be drawn.
//!
//! Pictures are drawn from these lines only, so that what is drawn of a run and what is drawn later of its printed table is
//! the same.

pub(super) use crate::picture::axis::number;
use std::fmt;

/// What one figure came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// What, and where it is from.
    pub title: String,
    /// What the paper has.
    pub paper: Option<f64>,
    /// What the simulation has; of a comparison, how many times as much.
    pub ours: f64,
    /// Unit of both.
    pub unit: String,
    /// A comparison: both values of ours, in Mops/s.
    pub both: Option<(f64, f64)>,
    /// What one must know.
    pub note: String,
}

/// How the table begins.
pub(super) const HEAD: &str = "| figure | paper | ours (simulated) | ratio | remarks |\n|---|---|---|---|---|\n";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, paper, ours, unit, both, note } = self;
        write!(f, "| {title} | ")?;
        match paper {
            Some(paper) => write!(f, "{} {unit} | ", number(*paper))?,
            None => f.write_str("- | ")?,
        }
        write!(f, "{} {unit}", number(*ours))?;
        if let Some((ours, rivals)) = both {
            write!(f, " ({} / {} Mops/s)", number(*ours), number(*rivals))?;
        }
        match paper {
            Some(paper) => write!(f, " | {:.2} ", ours / paper)?,
            None => f.write_str(" | - ")?,
        }
        write!(f, "| {note} |")
    }
}

impl Row {
    /// Reads a line of the table; `None`: it is something else.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [title, paper, ours, _, note] = cells[..] else { return None };
        let measured = |cell: &str| {
            let (value, unit) = cell.split_once(' ')?;
            Some((value.parse::<f64>().ok()?, unit.to_owned()))
        };
        let (ours, both) = match ours.split_once(" (") {
            Some((ours, both)) => {
                let (ours_mops, rivals_mops) = both.strip_suffix(" Mops/s)")?.split_once(" / ")?;
                (ours, Some((ours_mops.parse().ok()?, rivals_mops.parse().ok()?)))
            }
            None => (ours, None),
        };
        let (ours, unit) = measured(ours)?;
        let paper = if paper == "-" { None } else { Some(measured(paper)?.0) };
        Some(Self { title: title.to_owned(), paper, ours, unit, both, note: note.to_owned() })
    }
}

/// Reads the lines of a table that is somewhere in a text, and gives each its whole title: "... p50" goes on with the title
/// before it.
pub(super) fn read(text: &str) -> Vec<Row> {
    let start = text.find(HEAD).map_or(text.len(), |at| at + HEAD.len());
    let mut rows: Vec<Row> = text[start..].lines().map_while(Row::parse).collect();
    let mut whole = String::new();
    for row in &mut rows {
        row.title = whole_title(&mut whole, &row.title);
    }
    rows
}

/// The whole of a title, which may go on with the one before it.
pub(super) fn whole_title(before: &mut String, title: &str) -> String {
    if let Some(rest) = title.strip_prefix("... ") {
        return format!("{before}: {rest}");
    }
    title.clone_into(before);
    title.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_what_was_written() {
        let row = Row {
            title: "Some Figure 1, C".to_owned(),
            paper: Some(4.3),
            ours: 4.01,
            unit: "x".to_owned(),
            both: Some((44.3, 11.1)),
            note: "why".to_owned(),
        };
        let alone =
            Row { paper: None, both: None, ours: 1348.0, unit: "MB".to_owned(), note: String::new(), ..row.clone() };
        assert_eq!(row.to_string(), "| Some Figure 1, C | 4.30 x | 4.01 x (44.3 / 11.1 Mops/s) | 0.93 | why |");
        for row in [row, alone] {
            assert_eq!(Row::parse(&row.to_string()), Some(row));
        }
        for line in ["| a | b |", "text", "| a | - | x y | - |  |", ""] {
            assert_eq!(Row::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_table_is_found_in_a_text_and_titles_that_go_on_are_whole() {
        let line = |title: &str| format!("| {title} | 1.00 us | 2.00 us | 2.00 |  |\n");
        let text = format!("text\n\n{HEAD}{}{}{}\n{}", line("A"), line("... p90"), line("B"), line("C"));
        let titles: Vec<_> = read(&text).into_iter().map(|row| row.title).collect();
        assert_eq!(titles, ["A", "A: p90", "B"]);
    }
}
