//! A picture as text: the few shapes that the pictures of this program need.
//!
//! It is written here, and not by a plotting crate, since what the crates write has its colours in every shape, so that a
//! picture cannot be dark where its reader's screen is, and its texts measured with whatever font the machine has, so that a
//! golden would hold on one machine only.
//!
//! A shape says what it is by a class, and one style sheet says how that looks, light and dark. The colours of data are those
//! of Okabe and Ito, which colour-blind readers can tell apart. Every colour has a label or a number beside it.

use std::fmt::Write as _;

/// How everything looks. Each rule names the picture's own class: a page may have several pictures in it.
const STYLE: &str = include_str!("style.css");

/// How many classes of series there are: `s0` and so on.
pub const SERIES: usize = 7;

/// Width of a letter of the normal size, on average, in wide sans-serif fonts.
pub const LETTER: f64 = 6.4;

/// A picture under construction.
#[derive(Debug)]
pub struct Svg {
    width: f64,
    title: String,
    body: String,
}

/// A number with one digit behind the point, if that is not 0.
fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Svg {
    /// An empty picture; those who cannot see it are told its title.
    pub fn new(width: f64, title: &str) -> Self {
        Self { width, title: title.to_owned(), body: String::new() }
    }

    /// Text on one line.
    pub fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = escaped(text);
        // Writing to a string does not fail, here and below.
        let _ = writeln!(self.body, "<text x=\"{}\" y=\"{}\" class=\"{class}\">{text}</text>", n(x), n(y));
    }

    /// Text that reads upwards from there.
    pub fn text_up(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let (x, y, text) = (n(x), n(y), escaped(text));
        let _ = writeln!(
            self.body,
            "<text x=\"{x}\" y=\"{y}\" class=\"{class}\" transform=\"rotate(-90 {x} {y})\">{text}</text>"
        );
    }

    /// Text that is broken into lines of at most `letters` letters; returns where the next line would stand.
    pub fn paragraph(&mut self, (x, mut y): (f64, f64), class: &str, letters: usize, leading: f64, text: &str) -> f64 {
        for line in lines(text, letters) {
            self.text((x, y), class, &line);
            y += leading;
        }
        y
    }

    /// A rectangle from its upper left corner.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{class}\"/>",
            n(x),
            n(y),
            n(width),
            n(height)
        );
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (n(from.0), n(from.1), n(to.0), n(to.1));
        let _ = writeln!(self.body, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>");
    }

    /// A line with a head at its end.
    pub fn arrow(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.line(from, to, class);
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1.0);
        let (ux, uy) = (dx / length * 6.0, dy / length * 6.0);
        let back = (to.0 - ux, to.1 - uy);
        let (left, right) = ((back.0 - uy * 0.4, back.1 + ux * 0.4), (back.0 + uy * 0.4, back.1 - ux * 0.4));
        let points = [to, left, right].map(|(x, y)| format!("{},{}", n(x), n(y))).join(" ");
        let _ = writeln!(self.body, "<polygon points=\"{points}\" class=\"head {class}\"/>");
    }

    /// A line through points.
    pub fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<_> = points.iter().map(|&(x, y)| format!("{},{}", n(x), n(y))).collect();
        let _ = writeln!(self.body, "<polyline points=\"{}\" class=\"{class}\"/>", points.join(" "));
    }

    /// A circle.
    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str) {
        let _ = writeln!(self.body, "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{class}\"/>", n(x), n(y), n(radius));
    }

    /// The text of the file. It has no empty line: inside of Markdown one would end it.
    pub fn finish(self, height: f64) -> String {
        let Self { width, title, body } = self;
        let (width, height, title) = (n(width), n(height), escaped(&title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             class=\"dm-picture\" role=\"img\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
             <rect x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\" class=\"page\"/>\n{body}</svg>\n"
        )
    }
}

/// Breaks text into lines of at most so many letters; a longer word has a line of its own.
pub fn lines(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_numbers_short() {
        let mut svg = Svg::new(100.0, "a < b");
        svg.text((1.0, 2.25), "x", "\"a\" & <b>");
        svg.circle((0.04, -0.04), 1.96, "x");
        let text = svg.finish(50.0);
        assert!(text.contains("<title>a &lt; b</title>"), "{text}");
        assert!(text.contains("<text x=\"1\" y=\"2.2\" class=\"x\">&quot;a&quot; &amp; &lt;b&gt;</text>"), "{text}");
        assert!(text.contains("<circle cx=\"0\" cy=\"0\" r=\"2\""), "{text}");
        assert!(text.lines().all(|line| !line.trim().is_empty()), "an empty line would end it inside of Markdown");
    }

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        assert_eq!(lines("aa bb  cc dddddddd e", 5), ["aa bb", "cc", "dddddddd", "e"]);
        assert!(lines(" ", 5).is_empty());
    }
}
