//! A chart with a row for each thing that has two values: both on one axis, and as numbers beside it.

use super::axis::{Axis, number, plain};
use super::svg::Svg;

const LEFT: f64 = 236.0;
/// Width of the plot.
pub const PLOT: f64 = 420.0;
const FIRST: f64 = LEFT + PLOT + 72.0;
const SECOND: f64 = FIRST + 78.0;
const WIDTH: f64 = SECOND + 20.0;
const LINE: f64 = 22.0;

/// A row.
#[derive(Clone, Debug)]
pub struct Pair {
    /// What it is.
    pub label: String,
    /// What the other is compared with, if it is known.
    pub first: Option<f64>,
    /// The value that the chart is about.
    pub second: f64,
}

/// A chart.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    /// Above it.
    pub title: &'a str,
    /// What the axis has.
    pub axis: &'a str,
    /// Whether the axis is logarithmic.
    pub logarithmic: bool,
    /// What the two values are, in a word each.
    pub columns: [&'a str; 2],
    /// Rows under a heading, which may be empty.
    pub groups: &'a [(String, Vec<Pair>)],
    /// Below it.
    pub caption: &'a str,
}

impl Pairs<'_> {
    /// The text of the file.
    pub fn draw(&self) -> String {
        let rows = || self.groups.iter().flat_map(|(_, rows)| rows);
        let values = rows().flat_map(|row| row.first.into_iter().chain([row.second]));
        let axis = Axis::of(values, self.logarithmic, LEFT, PLOT);
        let mut svg = Svg::new(WIDTH, self.title);
        svg.text((16.0, 28.0), "title", self.title);
        let top = 64.0;
        let headings = self.groups.iter().filter(|(heading, _)| !heading.is_empty()).count();
        let bottom = top + rows().count() as f64 * LINE + headings as f64 * (LINE + 6.0) + 4.0;
        grid(&mut svg, &axis, LEFT + PLOT, (top, bottom), self.axis);
        self.legend(&mut svg, top - 10.0);
        let mut y = top + 15.0;
        for (heading, rows) in self.groups {
            if !heading.is_empty() {
                svg.text((16.0, y + 4.0), "strong", heading);
                y += LINE + 6.0;
            }
            for row in rows {
                svg.text((LEFT - 12.0, y), "end", &row.label);
                row.draw(&mut svg, &axis, y);
                y += LINE;
            }
        }
        let end = svg.paragraph((16.0, bottom + 54.0), "small dim", 134, 14.0, self.caption);
        svg.finish(end + 2.0)
    }

    /// What the two marks are, above the columns of their numbers.
    fn legend(&self, svg: &mut Svg, y: f64) {
        let [first, second] = self.columns;
        let left_of = |word: &str| 6.0 + 8.0 * word.chars().count() as f64;
        svg.circle((FIRST - left_of(first), y - 4.0), 4.0, "paper");
        svg.text((FIRST, y), "small paper strong end", first);
        svg.circle((SECOND - left_of(second), y - 4.0), 4.5, "ours");
        svg.text((SECOND, y), "small ours strong end", second);
    }
}

impl Pair {
    /// Both values, joined, and as numbers.
    fn draw(&self, svg: &mut Svg, axis: &Axis, y: f64) {
        let second = axis.at(self.second);
        if let Some(first) = self.first.map(|first| axis.at(first)) {
            svg.line((first, y - 4.0), (second, y - 4.0), "join");
            svg.circle((first, y - 4.0), 5.0, "paper");
        }
        // On top: where both are the same, a ring is left of the other.
        svg.circle((second, y - 4.0), 3.5, "ours");
        let first = self.first.map_or_else(|| "\u{2013}".to_owned(), number);
        svg.text((FIRST, y), "paper end", &first);
        svg.text((SECOND, y), "ours end", &number(self.second));
    }
}

/// Grid lines, their values below, and what the axis has.
pub fn grid(svg: &mut Svg, axis: &Axis, right: f64, (top, bottom): (f64, f64), title: &str) {
    for tick in axis.ticks() {
        let x = axis.at(tick);
        // Where comparisons are, 1 means the same.
        let same = title.contains("logarithmic") && (tick - 1.0).abs() < 1e-9;
        svg.line((x, top), (x, bottom), if same { "axis" } else { "grid" });
        svg.text((x, bottom + 15.0), "small dim mid", &plain(tick));
    }
    svg.text((right, bottom + 31.0), "small dim end", title);
}
