//! The charts of `dm figures --svg`: each paper's values beside ours.

use super::row::{Row, number};
use crate::picture::axis::Axis;
use crate::picture::pairs::{PLOT, Pair, Pairs, grid};
use crate::picture::svg::{Svg, lines};

/// A chart: a row for each figure, the paper's value and ours on one axis.
struct Chart {
    /// Name of the file.
    name: &'static str,
    title: &'static str,
    /// What the parameters do not tell.
    about: &'static str,
    /// What the axis has.
    axis: &'static str,
    logarithmic: bool,
    groups: &'static [Group],
}

/// Rows under a heading: labels, and titles of figures.
type Group = (&'static str, &'static [(&'static str, &'static str)]);

const TIMES: &str = "throughput, as a multiple (logarithmic)";

const CHARTS: &[Chart] = &[
    Chart {
        name: "sherman-techniques",
        title: "Sherman, Figure 5 (b): what each technique adds",
        about: "Half look-ups, half writes, skewed.",
        axis: "throughput, Mops/s",
        logarithmic: false,
        groups: &[(
            "each with those above it",
            &[
                ("FG+, the tree it is compared with", "Sherman Table 1, FG, write-intensive, skewed; Figure 5, FG+"),
                ("+ Combine", "Sherman Figure 5 (b), + Combine"),
                ("+ On-Chip", "Sherman Figure 5 (b), + On-Chip"),
                ("+ Hierarchical", "Sherman Figure 5 (b), + Hierarchical (with hand-over)"),
                ("+ 2-Level Ver: all techniques", "Sherman Figure 5 (b), + 2-Level Ver: all techniques"),
            ],
        )],
    },
    Chart {
        name: "sherman-throughput",
        title: "Sherman, Tables 1 and 3, Figures 6 and 7: throughput",
        about: "FG is the tree it is compared with. Processor times of the profile were fitted to the rows marked \u{b0}.",
        axis: "throughput, Mops/s",
        logarithmic: false,
        groups: &[
            (
                "FG (Table 1)",
                &[
                    ("read-intensive, uniform\u{b0}", "Sherman Table 1, FG, read-intensive, uniform"),
                    ("read-intensive, skewed", "Sherman Table 1, FG, read-intensive, skewed"),
                    ("write-intensive, uniform\u{b0}", "Sherman Table 1, FG, write-intensive, uniform"),
                    ("write-intensive, skewed", "Sherman Table 1, FG, write-intensive, skewed; Figure 5, FG+"),
                ],
            ),
            (
                "Sherman, write-intensive (Figures 6 and 7)",
                &[
                    ("uniform, 176 clients", "Sherman Figure 6, write-intensive, uniform, all techniques"),
                    ("uniform, 528 clients", "Sherman Figure 7 (a), uniform, 528 clients"),
                    ("skew 0.9, 528 clients", "Sherman Figure 7 (b), skew 0.9, 528 clients"),
                    ("skew 0.99, 528 clients", "Sherman Figure 7 (c), skew 0.99, 528 clients"),
                ],
            ),
            (
                "Sherman, scans (Table 3)",
                &[
                    ("range-only, 100 records", "Sherman Table 3, range-only, 100 records"),
                    ("range-only, 1000 records", "Sherman Table 3, range-only, 1000 records"),
                    ("range-write, 100 records", "Sherman Table 3, range-write, 100 records"),
                    ("range-write, 1000 records", "Sherman Table 3, range-write, 1000 records"),
                ],
            ),
        ],
    },
    Chart {
        name: "chime",
        title: "CHIME, Figure 12: throughput beside Sherman and SMART",
        about: "YCSB's workloads.",
        axis: TIMES,
        logarithmic: true,
        groups: &[
            (
                "times Sherman's",
                &[
                    ("C, look-ups", "CHIME Figure 12, C, over Sherman"),
                    ("B, 5 % updates", "CHIME Figure 12, B, over Sherman"),
                    ("D, 5 % inserts", "CHIME Figure 12, D, over Sherman"),
                    ("A, half updates", "CHIME Figure 12, A, over Sherman"),
                    ("LOAD, inserts", "CHIME Figure 12, LOAD, over Sherman"),
                    ("E, scans", "CHIME Figure 12, E, over Sherman"),
                ],
            ),
            (
                "times SMART's",
                &[
                    ("C, look-ups", "CHIME Figure 12, C, over SMART"),
                    ("A, half updates", "CHIME Figure 12, A, over SMART"),
                    ("LOAD, inserts", "CHIME Figure 12, LOAD, over SMART"),
                    ("E, scans", "CHIME Figure 12, E, over SMART"),
                ],
            ),
        ],
    },
    Chart {
        name: "smart",
        title: "SMART, Figure 14: throughput beside Sherman",
        about: "YCSB's workloads.",
        axis: TIMES,
        logarithmic: true,
        groups: &[(
            "times Sherman's",
            &[
                ("C, look-ups", "SMART Figure 14, C, over Sherman"),
                ("D, 5 % inserts", "SMART Figure 14, D, over Sherman"),
                ("A, half updates", "SMART Figure 14, A, over Sherman"),
                ("LOAD, inserts", "SMART Figure 14, LOAD, over Sherman"),
            ],
        )],
    },
    Chart {
        name: "dolphin",
        title: "Dolphin, Figures 6 to 8: throughput beside Sherman and SMART",
        about: "Hot keys lie side by side, as the paper's program draws them, or scattered.",
        axis: TIMES,
        logarithmic: true,
        groups: &[
            (
                "times Sherman's",
                &[
                    ("A, hot keys adjacent", "Dolphin Figure 7 (a), A, hot keys adjacent, over Sherman"),
                    ("A, hot keys scattered", "Dolphin Figure 7 (a), A, hot keys scattered, over Sherman"),
                    ("C, hot keys adjacent", "Dolphin Figure 7 (b), C, hot keys adjacent, over Sherman"),
                    ("C, hot keys scattered", "Dolphin Figure 7 (b), C, hot keys scattered, over Sherman"),
                    ("LOAD", "Dolphin Figure 7 (c), LOAD, over Sherman"),
                    ("scans of 100 records", "Dolphin Figure 8, range-only, 100 records, over Sherman"),
                    ("A, uniform", "Dolphin Figure 6 (c), A, uniform, 200 MB, over Sherman"),
                ],
            ),
            (
                "times SMART's",
                &[
                    ("A, hot keys adjacent", "Dolphin Figure 7 (a), A, hot keys adjacent, over SMART"),
                    ("A, hot keys scattered", "Dolphin Figure 7 (a), A, hot keys scattered, over SMART"),
                    ("LOAD", "Dolphin Figure 7 (c), LOAD, over SMART"),
                    ("scans of 100 records", "Dolphin Figure 8, range-only, 100 records, over SMART"),
                    ("A, uniform", "Dolphin Figure 6 (c), A, uniform, 200 MB, over SMART"),
                ],
            ),
        ],
    },
    Chart {
        name: "memory",
        title: "Dolphin, Table II: bytes of the pool for each record",
        about: "Keys and values of 8 B, 16 M records.",
        axis: "bytes a record (logarithmic)",
        logarithmic: true,
        groups: &[(
            "",
            &[
                ("Sherman", "Dolphin Table II, Sherman, pool, a record"),
                ("Dolphin", "Dolphin Table II, Dolphin, pool, a record"),
                ("SMART", "Dolphin Table II, SMART, pool, a record"),
            ],
        )],
    },
];

/// A chart that was drawn, or the title of a figure that is not in the table.
pub(super) type Drawn = Result<String, String>;

/// Draws what can be drawn of the table. `parameters` are the options that figures have in common.
pub(super) fn draw(rows: &[Row], parameters: &impl Fn(&[&str]) -> String) -> Vec<(&'static str, Drawn)> {
    let mut drawn: Vec<_> = CHARTS.iter().map(|chart| (chart.name, chart.draw(rows, parameters))).collect();
    drawn.push(("ratios", ratios(rows)));
    drawn
}

impl Chart {
    fn draw(&self, rows: &[Row], parameters: &impl Fn(&[&str]) -> String) -> Drawn {
        let of = |title: &str| rows.iter().find(|row| row.title == title).ok_or_else(|| title.to_owned());
        let titles: Vec<&str> = self.groups.iter().flat_map(|(_, rows)| rows.iter().map(|(_, title)| *title)).collect();
        let mut groups = Vec::new();
        for (heading, rows) in self.groups {
            let pair = |&(label, title): &(&str, &str)| {
                of(title).map(|row| Pair { label: label.to_owned(), first: row.paper, second: row.ours })
            };
            groups.push(((*heading).to_owned(), rows.iter().map(pair).collect::<Result<Vec<_>, String>>()?));
        }
        let parameters = parameters(&titles);
        let caption = format!("{} \u{201c}Ours\u{201d} is simulated. All rows: {parameters}", self.about);
        let pairs = Pairs {
            title: self.title,
            axis: self.axis,
            logarithmic: self.logarithmic,
            columns: ["paper", "ours"],
            groups: &groups,
            caption: &caption,
        };
        Ok(pairs.draw())
    }
}

/// Headings of the chart of all figures, by the word that titles begin with.
const PAPERS: &[(&str, &str)] = &[
    ("", "Limits of a NIC"),
    ("Sherman", "Sherman, SIGMOD 2022"),
    ("CHIME", "CHIME, SOSP 2024"),
    ("SMART", "SMART, OSDI 2023"),
    ("RDWC", "RDWC, SMART's read delegation and write combining"),
    ("Dolphin", "Dolphin, MSST 2024"),
];

/// The heading that a title belongs to, by its place in [`PAPERS`], and what the title says below it.
fn paper_of(title: &str) -> (usize, &str) {
    let (first, rest) = title.split_once([' ', ',']).unwrap_or((title, ""));
    match PAPERS.iter().position(|(paper, _)| *paper == first) {
        Some(paper) => (paper, rest.trim_start()),
        None => (0, title),
    }
}

/// Every figure that a paper has a number for: how many times the paper's value ours is.
fn ratios(rows: &[Row]) -> Drawn {
    const LINE: f64 = 16.0;
    const HEADING: f64 = 26.0;
    const LEFT: f64 = 440.0;
    let mut rows: Vec<(&Row, f64)> = rows.iter().filter_map(|row| Some((row, row.ours / row.paper?))).collect();
    if rows.is_empty() {
        return Err("a figure with a paper's value".to_owned());
    }
    rows.sort_by_key(|(row, _)| paper_of(&row.title).0);
    let axis = Axis::of(rows.iter().map(|(_, ratio)| *ratio), true, LEFT, PLOT);
    let title = "All published figures: our simulated value over the paper's";
    let mut svg = Svg::new(LEFT + PLOT + 184.0, title);
    svg.text((16.0, 28.0), "title", title);
    let groups: Vec<_> =
        rows.chunk_by(|(one, _), (next, _)| paper_of(&one.title).0 == paper_of(&next.title).0).collect();
    let top = 62.0;
    let bottom = top + rows.len() as f64 * LINE + groups.len() as f64 * HEADING + 6.0;
    // A quarter more or less.
    svg.rect((axis.at(0.8), top), (axis.at(1.25) - axis.at(0.8), bottom - top), "band");
    grid(&mut svg, &axis, LEFT + PLOT, (top, bottom), "ours / paper (logarithmic)");
    svg.text((LEFT + PLOT + 84.0, top - 8.0), "small paper strong end", "paper");
    svg.text((LEFT + PLOT + 168.0, top - 8.0), "small ours strong end", "ours");
    let mut y = top;
    for group in groups {
        svg.text((16.0, y + 18.0), "small strong", PAPERS[paper_of(&group[0].0.title).0].1);
        y += HEADING;
        for (row, ratio) in group {
            draw_ratio(&mut svg, &axis, (LEFT, y + 10.0), row, *ratio);
            y += LINE;
        }
    }
    let about = "The band is a quarter more or less. Rings: processor times of the profile were fitted to these two. Letters are \
                 YCSB's workloads: A half updates, B 5 % updates, C look-ups, D 5 % inserts, E scans, LOAD inserts. FG and FG+ are \
                 the tree that Sherman is compared with. Why values differ is in the table that dm figures prints.";
    let end = svg.paragraph((16.0, bottom + 52.0), "small dim", 152, 14.0, about);
    Ok(svg.finish(end + 2.0))
}

/// A row of the chart of all figures: its title left of `left`, the ratio, and both values.
fn draw_ratio(svg: &mut Svg, axis: &Axis, (left, y): (f64, f64), row: &Row, ratio: f64) {
    let title = lines(paper_of(&row.title).1, 78);
    let more = if title.len() > 1 { " \u{2026}" } else { "" };
    svg.text((left - 12.0, y), "small end", &format!("{}{more}", title.first().map_or("", String::as_str)));
    let (one, x) = (axis.at(1.0), axis.at(ratio));
    svg.line((one, y - 4.0), (x, y - 4.0), "join");
    let fitted = row.note.starts_with("calibrated");
    svg.circle((x, y - 4.0), if fitted { 3.0 } else { 4.0 }, if fitted { "paper" } else { "ours" });
    let unit = &row.unit;
    let paper = number(row.paper.unwrap_or_default());
    svg.text((left + PLOT + 84.0, y), "small paper end", &format!("{paper} {unit}"));
    svg.text((left + PLOT + 168.0, y), "small ours end", &format!("{} {unit}", number(row.ours)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_needs_all_its_figures() {
        let row = |title: &str, paper, ours| Row {
            title: title.to_owned(),
            paper,
            ours,
            unit: "x".to_owned(),
            both: None,
            note: String::new(),
        };
        let rows: Vec<_> = CHARTS[3].groups[0].1.iter().map(|(_, title)| row(title, Some(2.0), 3.0)).collect();
        let parameters = |titles: &[&str]| format!("--of {}", titles.len());
        let drawn = CHARTS[3].draw(&rows, &parameters).unwrap();
        assert!(drawn.contains("--of 4") && drawn.matches("class=\"ours\"").count() == 5, "{drawn}");
        assert_eq!(CHARTS[3].draw(&rows[1..], &parameters), Err(rows[0].title.clone()));
        // A row of which the paper has no number has one mark.
        assert!(ratios(&[row("a b", None, 1.0)]).is_err());
    }

    #[test]
    fn rows_stand_below_their_papers() {
        assert_eq!(paper_of("SMART, cached look-ups"), (3, "cached look-ups"));
        assert_eq!(paper_of("Sherman Figure 5 (b), + Combine"), (1, "Figure 5 (b), + Combine"));
        assert_eq!(paper_of("small READs, cx6"), (0, "small READs, cx6"));
        assert_eq!(paper_of("Dolphin"), (5, ""));
    }
}
